/* SPDX-License-Identifier: Apache-2.0 */
/* Which terms of a sum satisfy a condition `(place - dilation * tap) % modulus == 0`. */
#ifndef TESSERA_PASSES_TENSOR_CONGRUENCE_H
#define TESSERA_PASSES_TENSOR_CONGRUENCE_H

#include "ir/ir.h"

/* The inverse of a modulo m > 0: 0 <= x < m with a * x % m == 1 % m. They have no common divisor,
 * and m is at most 2^31. */
int64_t congruence_inverse(int64_t a, int64_t m);
/* The number if the facts of the sizes say it; else -1. */
int64_t congruence_number(Dim dim);
/* How many terms of `of` are left if each `by`-th one is, counted from the first: the quotient,
 * rounded up. */
Dim congruence_terms(Func *func, Dim of, int64_t by);

#endif
