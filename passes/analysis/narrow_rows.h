/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of a row are needed on both sides of a reduction of that row, and whether 16-bit
 * elements in registers suffice for them, because the rest can be recomputed in a few
 * operations. */
#ifndef TESSERA_PASSES_ANALYSIS_NARROW_ROWS_H
#define TESSERA_PASSES_ANALYSIS_NARROW_ROWS_H

#include "ir/ir.h"

/* The dimensions that the block's reductions fold. */
typedef struct RowDims {
    Dim items[8];
    int n;
} RowDims;
RowDims an_row_dims(const Block *block);
/* Has the value elements along some of them? Else it is one a row, which costs nothing to hold. */
bool an_along_rows(const RowDims *rows, const Value *value);
/* Is it a 16-bit load, a constant, or a few operations on such and on values of a row? */
bool an_is_rematerializable(const RowDims *rows, const Value *value);
/* Is there something along rows that is used on both sides of a reduction, and all of it such? */
bool an_narrow_rows(const Block *block);

#endif
