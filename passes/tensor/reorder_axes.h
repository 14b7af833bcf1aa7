/* SPDX-License-Identifier: Apache-2.0 */
/* A value with its axes in another order, made from operands whose axes are in that order. */
#ifndef TESSERA_PASSES_TENSOR_REORDER_AXES_H
#define TESSERA_PASSES_TENSOR_REORDER_AXES_H

#include "ir/build.h"

/* Returns the value whose axis i is axis order[i] of `value`. Element-wise ops, reductions and ops
 * that move axes are made once more, at `b`, so that permutes stand only where memory is read;
 * nothing is changed. The level must be the tensor level. */
Value *reorder_axes(Builder *b, Value *value, const int64_t *order);
/* The same, and permutes go to memory also where the value has that order already, or to `base`,
 * which stays as it is; NULL: there is none. */
Value *reorder_axes_to(Builder *b, Value *value, const int64_t *order, const Value *base);

#endif
