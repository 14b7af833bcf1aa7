/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are integers that a narrower type represents. */
#ifndef TESSERA_PASSES_ANALYSIS_INTEGER_VALUES_H
#define TESSERA_PASSES_ANALYSIS_INTEGER_VALUES_H

#include "ir/ir.h"

/* True if every element of the value is NaN or an integer, -0 among them, that a cast to the float
 * type and back does not change. */
bool an_integers_in(const Value *value, DType dtype);

/* True if every element of an integer value is one of the integer type. */
bool an_integers_of(const Value *value, DType dtype);

/* True if every element is NaN or an integer from -most to most. */
bool an_integers_up_to(const Value *value, double most);

#endif
