/* SPDX-License-Identifier: Apache-2.0 */
/* Factors that may leave a sum through a rounding: the T(e / l) @ v of a program may be computed
 * as (T(e) @ v) / l, and so may T(exp(s - m)) @ v about another m (docs/language.md). The pass that
 * does so and the interpreter, whose bound covers it, ask the same question here. */
#ifndef TESSERA_IR_SUMMED_FACTOR_H
#define TESSERA_IR_SUMMED_FACTOR_H

#include "ir/ir.h"

/* Are the value's elements along the axis equal, by the ops that spread it? */
bool value_is_equal_along(const Value *value, int axis);
/* Does the cast round a product, a quotient or a power of a difference to 16 bits, of which a
 * factor is equal along an axis along which the rounded elements are summed? */
bool cast_rounds_factor(const Op *cast);

#endif
