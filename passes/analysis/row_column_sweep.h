/* SPDX-License-Identifier: Apache-2.0 */
/* An axis along which one walk does all: what is folded along it, and what is stored along it,
 * which is made of no such fold. Sums of columns in addition to rows: gradients of weights in
 * addition to that of the input, batch statistics in addition to outputs. Few blocks would walk it
 * alone, so it is shared out (tile/tile_split_axis.c). */
#ifndef TESSERA_PASSES_ANALYSIS_ROW_COLUMN_SWEEP_H
#define TESSERA_PASSES_ANALYSIS_ROW_COLUMN_SWEEP_H

#include "passes/analysis/axis_classes.h"

typedef struct RowColumnSweep {
    int class; /* of the axis; -1: there is none */
    int folds; /* values that are folded along it */
    int loads; /* of tiles that what is folded or stored is made of */
    Dim dim;
} RowColumnSweep;

/* The first such axis of a group of statements. */
RowColumnSweep an_row_column_sweep(const Axes *axes, const Block *block);

/* Does the op fold along an axis of the class? */
bool an_folds_along(const Axes *axes, const Op *op, int class);
/* Has the value an axis of the class? */
bool an_goes_along(const Axes *axes, const Value *value, int class);
/* Which values are made of a fold along the class, by id. */
const bool *an_made_of_folds(const Axes *axes, const Block *block, int class);

/* Elements that a block may walk without help. */
enum { LONG_WALK = 65536 };

#endif
