/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, from the table dtypes.def. */
#ifndef TESSERA_IR_DTYPE_H
#define TESSERA_IR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(id, name, bits, class) DT_##id,
#include "ir/dtypes.def"
#undef DTYPE
    DT_COUNT
} DType;

const char *dtype_name(DType dtype);
/* By name, n bytes long; false when there is none. */
bool dtype_from_name(const char *name, size_t n, DType *out);
int dtype_bits(DType dtype);
/* Bytes in memory: bool takes one. */
int dtype_bytes(DType dtype);
bool dtype_is_float(DType dtype);
bool dtype_is_int(DType dtype); /* signed or unsigned, not bool */
bool dtype_is_signed(DType dtype);

/* f16 and bf16 <-> f32; to nearest even; NaN stays NaN (quiet). */
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

#endif
