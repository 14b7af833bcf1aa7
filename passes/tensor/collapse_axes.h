/* SPDX-License-Identifier: Apache-2.0 */
/* Axes of a contraction that become one axis (collapse_axes.c, collapse_intermediates.c). */
#ifndef TESSERA_PASSES_TENSOR_COLLAPSE_AXES_H
#define TESSERA_PASSES_TENSOR_COLLAPSE_AXES_H

#include "ir/ir.h"

/* Collapses adjacent row axes, and adjacent column axes, of the products that the op, a store or a
 * scatter, writes an array of `rank` axes of. Gathers are made anew for pairs with an axis among
 * `computed`, a bit each. Returns the op that takes its place; NULL: nothing changed. */
Op *collapse_axes_of(Func *func, Op *op, int rank, unsigned computed);

/* Makes axes `at` and `at` + 1 of a contiguous tensor one axis. No op may be left that reads it
 * with two. */
void collapse_param(Func *func, Param *param, int at);

#endif
