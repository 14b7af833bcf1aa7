/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputes a value without one of its axes. */
#ifndef TESSERA_IR_DROP_AXIS_H
#define TESSERA_IR_DROP_AXIS_H

#include "ir/build.h"
#include "support/hash_table.h"

/* Recomputes the value at the cursor without an axis along which it does not vary: broadcasts do
 * not stretch along it, and element-wise ops are executed once. */
Value *axis_dropped(Builder *b, Value *value, int axis);
/* What was recomputed before. */
typedef struct AxesDropped {
    HashTable made;
} AxesDropped;
/* The same, but what was recomputed in the block before the cursor is taken from there: values that
 * several ops want without an axis are computed once. */
Value *axis_dropped_once(AxesDropped *before, Builder *b, Value *value, int axis);
/* Recomputes the value's elements at index `at` (an i64) along the axis: loads read only these. */
Value *axis_taken(Builder *b, Value *value, int axis, Value *at);
/* The same with what was recomputed before at that index. */
Value *axis_taken_once(AxesDropped *before, Builder *b, Value *value, int axis, Value *at);

#endif
