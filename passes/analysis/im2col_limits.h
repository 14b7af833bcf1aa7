/* SPDX-License-Identifier: Apache-2.0 */
/* Which im2col views TMA can load (cuTensorMapEncodeIm2col; PTX ISA, im2col mode). */
#ifndef TESSERA_PASSES_ANALYSIS_IM2COL_LIMITS_H
#define TESSERA_PASSES_ANALYSIS_IM2COL_LIMITS_H

#include "ir/ir.h"

/* Along a spatial axis: of the tensor that the view reads, and of the view. */
typedef struct Im2colExtents {
    Dim source, positions;
    Dim inner, taps; /* NULL: there are none */
} Im2colExtents;

/* Pixels that corners of the box have bits for, with a sign, and taps without one. */
int64_t an_im2col_limit(int spatial);
/* Are the positions along the axis as close as the engine walks them? */
bool an_im2col_steps(const Im2colView *view, int axis);
/* Do windows along the axis begin and reach no further than the engine counts? */
bool an_im2col_fits(Func *func, const Im2colView *view, int axis, const Im2colExtents *extents);

#endif
