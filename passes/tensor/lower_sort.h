/* SPDX-License-Identifier: Apache-2.0 */
/* sort, in parts: lower_sort.c (digit after digit, through memory), lower_sort_pairwise.c (each
 * element compared with each), lower_sort_keys.c (what both compare). Private to sort. */
#ifndef TESSERA_PASSES_TENSOR_LOWER_SORT_H
#define TESSERA_PASSES_TENSOR_LOWER_SORT_H

#include "ir/build.h"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* ---- lower_sort_keys.c ---- */
/* Unsigned integers that are ordered as the elements shall be: equal where these are equal. */
Value *sort_keys(Builder *b, Value *elements, bool descending);
/* i32: the digits that begin at these bits of keys, an array like them; NULL: at the lowest. */
Value *sort_digits(Builder *b, Value *keys, Value *shift);

/* ---- lower_sort_pairwise.c ---- */
/* Puts sums over pairs of elements in place of the op; anywhere, for rows of any length. */
void sort_by_pairs(Func *func, Op *op);

#endif
