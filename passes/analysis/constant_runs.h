/* SPDX-License-Identifier: Apache-2.0 */
/* In runs of which length a value is constant along an axis: 128 for the scale of quantization
 * groups of 128 elements. */
#ifndef TESSERA_PASSES_ANALYSIS_CONSTANT_RUNS_H
#define TESSERA_PASSES_ANALYSIS_CONSTANT_RUNS_H

#include "ir/ir.h"

/* The value is constant along the axis in runs of this many elements, which begin at multiples of
 * that; 0: along all of it; 1: it may change anywhere. */
int64_t an_constant_run(const Value *value, int axis);
/* True if each tile of the range lies in one run of that length (0: one run is all). */
bool an_is_within_run(const DimVar *range, int64_t run);

#endif
