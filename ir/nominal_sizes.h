/* SPDX-License-Identifier: Apache-2.0 */
/* The nominal vector: one number for each size of which only facts are known. Prices, and nothing
 * else, use it: what code may do follows from the facts (ir/poly.h).
 *
 * A size that facts bound counts as its maximum, so that a size that is known, which is a bound as
 * well, is not affected. One that no fact bounds is so large that its tensors keep a device busy,
 * by the place that it has in them: */
#ifndef TESSERA_IR_NOMINAL_SIZES_H
#define TESSERA_IR_NOMINAL_SIZES_H

#include "ir/ir.h"

enum {
    NOMINAL_AXIS = 4096,        /* of tensors, */
    NOMINAL_BATCH = 8,          /* but for the first axis of three and more: images, sequences */
    NOMINAL_TAPS = 3,           /* what extents subtract: the taps of a filter */
    NOMINAL_ELEMENTS = 1 << 22, /* of a size's largest tensor; else the size is more: vectors */
};

/* Chooses DimVar.nominal of all sizes that no fact bounds, once the facts are known. Facts hold
 * for the vector, too: multiples, minima, sizes that others define, bounds of sums of sizes. */
void nominal_sizes_choose(Func *func);

/* What prices take an extent for: its maximum (poly_most) where that is known, else its value for
 * the nominal vector. Never negative. A range is what its steps or its axis are. */
int64_t poly_nominal(Dim poly);
/* Does its price depend on a size that no fact bounds? */
bool poly_is_nominal(Dim poly);

#endif
