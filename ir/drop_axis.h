/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputes a value without one of its axes. */
#ifndef TESSERA_IR_DROP_AXIS_H
#define TESSERA_IR_DROP_AXIS_H

#include "ir/build.h"

/* The value without an axis along which it does not change, made again at the cursor from what it
 * is made of: a broadcast is not stretched there, element-wise work is done once. */
Value *axis_dropped(Builder *b, Value *value, int axis);
/* The value's element `at` (an i64) along an axis, likewise: loads take that one alone. */
Value *axis_taken(Builder *b, Value *value, int axis, Value *at);

#endif
