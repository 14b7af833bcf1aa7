/* SPDX-License-Identifier: Apache-2.0 */
/* One element as a number, and in its memory format. The arithmetic of elements is in
 * scalar_eval.h, because memory formats are needed where no op is known (libtessera-launch). */
#ifndef TESSERA_IR_SCALAR_H
#define TESSERA_IR_SCALAR_H

#include "ir/dtype.h"

typedef union Scalar {
    double f;  /* f64 and, exactly held, the narrower ones */
    int64_t i; /* integers (sign- or zero-extended) and bool (0, 1) */
} Scalar;

Scalar scalar_load(DType dtype, const void *from);
void scalar_store(DType dtype, void *to, Scalar value); /* rounds floats to the type */
/* Element `index` of an array, packed types too. */
Scalar scalar_unpack(DType dtype, const void *array, size_t index);
void scalar_pack(DType dtype, void *array, size_t index, Scalar value);

/* To f32 by rounding to odd: a later rounding to 16 bits is then that of the exact value. */
float scalar_to_odd(double value);
/* Keeps the low bits and extends them: i64 arithmetic then behaves as the type's. */
int64_t scalar_wrap(DType dtype, uint64_t value);

#endif
