/* SPDX-License-Identifier: Apache-2.0 */
/* An axis along which one loop computes both the reductions and the results that are stored along
 * it, because the stored results do not depend on these reductions. Examples are the gradients of
 * weights together with that of the input, and batch statistics together with outputs. The axis is
 * split across blocks (tile/tile_split_axis.c), because few blocks would be left otherwise. */
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
