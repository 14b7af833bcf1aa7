/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs about size expressions from the facts about sizes. A fact is a precondition that is
 * checked before each launch. */
#ifndef TESSERA_FRONTEND_SIZE_PROOFS_H
#define TESSERA_FRONTEND_SIZE_PROOFS_H

#include "ir/ir.h"

Dim dim_sub(Func *func, Dim a, Dim b);
/* True if the facts about sizes prove dim >= 0; false for NULL. */
bool dim_is_natural(Func *func, Dim dim);
/* True if the facts about sizes prove a == b; false if one is NULL. */
bool dim_same(Func *func, Dim a, Dim b);
/* The same value in one form, where a quotient has no remainder: 8 * (O // 8) is O under O % 8
 * == 0, and O - O // 2 is O // 2 under O % 2 == 0. */
Dim dim_exact(Func *func, Dim dim);
/* The dimension that must be a multiple of *by for a and b to be equal for all sizes, or NULL. */
Dim dim_same_if_divisible(Func *func, Dim a, Dim b, int64_t *by);
/* a // by, rounded down, as a size of its own; NULL if it may be negative. */
Dim dim_quotient(Func *func, Dim a, int64_t by);
/* A size that is a // by, which the launch checks to be at least 0; `name` may be NULL. */
Dim dim_defined_quotient(Func *func, const char *name, Dim a, int64_t by);
/* Records the fact dim >= 0, which a launch checks. `dim` is neither constant nor natural. */
void dim_assume_natural(Func *func, Dim dim);

#endif
