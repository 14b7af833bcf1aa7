/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of dots that are set to 0 where a condition on their coordinates does not hold. */
#ifndef TESSERA_PASSES_ANALYSIS_MASKED_OPERAND_H
#define TESSERA_PASSES_ANALYSIS_MASKED_OPERAND_H

#include "ir/ir.h"

/* Of `select(condition, value, 0)`: the value, if the condition compares places, scalars and
 * elements of arrays with fewer axes, so that the tile of the value can be masked where it is
 * stored. NULL: it is another op. */
Value *an_kept_by_places(const Op *op);

/* The load of an operand of the product, behind such masks, permutes and roundings; NULL: it is
 * computed. */
Op *an_masked_load(const Func *func, const Op *dot, int side);
/* The same, or the gather. */
Op *an_masked_read(const Func *func, const Op *dot, int side);

/* Does such a mask lie on the way to it? */
bool an_is_masked(const Op *dot, int side);

#endif
