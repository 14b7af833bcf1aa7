/* SPDX-License-Identifier: Apache-2.0 */
/* Nominal sizes: one number for each size of which only facts are known. Only cost estimates use
 * them; what code may assume follows from the facts (ir/poly.h).
 *
 * A size with a bound counts as its maximum; a known size is bounded by itself. A size without a
 * bound gets a number that is large enough for its tensors to keep a device busy, depending on its
 * position in their shapes: */
#ifndef TESSERA_IR_NOMINAL_SIZES_H
#define TESSERA_IR_NOMINAL_SIZES_H

#include "ir/ir.h"

enum {
    NOMINAL_AXIS = 4096,        /* of tensors, */
    NOMINAL_BATCH = 8,          /* but for the first axis of three and more: images, sequences */
    NOMINAL_TAPS = 3,           /* what extents subtract: the taps of a filter */
    NOMINAL_ELEMENTS = 1 << 22, /* of a size's largest tensor; else the size is more: vectors */
};

/* Chooses DimVar.nominal of all sizes that no fact bounds, once the facts are known. The nominal
 * sizes satisfy the facts: multiples, minima, sizes that others define, bounds of sums of sizes. */
void nominal_sizes_choose(Func *func);

/* The extent that cost estimates assume: its maximum (poly_most) if that is known, otherwise its
 * value for the nominal sizes. Never negative. A range counts as its step or its axis. */
int64_t poly_nominal(Dim poly);
/* True if the estimated extent depends on a size that no fact bounds. */
bool poly_is_nominal(Dim poly);

#endif
