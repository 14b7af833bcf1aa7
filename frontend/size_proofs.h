/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs about size expressions from the facts about sizes. A fact is a precondition that is
 * checked before each launch. */
#ifndef TESSERA_FRONTEND_SIZE_PROOFS_H
#define TESSERA_FRONTEND_SIZE_PROOFS_H

#include "ir/ir.h"

Dim dim_sub(Func *func, Dim a, Dim b);
/* Is it at least 0 for all sizes, by the facts about them? Not if it is NULL. */
bool dim_is_natural(Func *func, Dim dim);
/* Equal for all sizes, by the facts about them? Not if one is NULL. */
bool dim_same(Func *func, Dim a, Dim b);
/* The same value in one form, where a quotient has no remainder: 8 * (O // 8) is O under O % 8
 * == 0, and O - O // 2 is O // 2 under O % 2 == 0. */
Dim dim_exact(Func *func, Dim dim);
/* What would have to be a multiple of what for the two to be equal for all sizes; NULL: nothing. */
Dim dim_same_if_divisible(Func *func, Dim a, Dim b, int64_t *by);
/* a // by, rounded down: a new size where it is none yet; NULL when it might be negative. */
Dim dim_quotient(Func *func, Dim a, int64_t by);
/* A size that is a // by, which the launch checks to be at least 0; `name` may be NULL. */
Dim dim_defined_quotient(Func *func, const char *name, Dim a, int64_t by);
/* From now on it is at least 0: the launch checks it. `dim` is neither constant nor natural. */
void dim_assume_natural(Func *func, Dim dim);

#endif
