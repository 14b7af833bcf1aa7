/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, from the table dtypes.def. */
#ifndef TESSERA_IR_DTYPE_H
#define TESSERA_IR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum DType {
#define DTYPE(id, name, bits, class) DT_##id,
#include "ir/dtypes.def"
#undef DTYPE
    DT_COUNT,
    DT_TF32 = DT_COUNT /* what arrays never have: see the table's end */
} DType;

typedef struct DTypeRow {
    const char *name;
    uint8_t bits;
    char class; /* F float, I signed, U unsigned, B bool */
} DTypeRow;
extern const DTypeRow DTYPES[DT_TF32 + 1];

const char *dtype_name(DType dtype);
/* By name, n bytes long; false when arrays have none such. */
bool dtype_from_name(const char *name, size_t n, DType *out);
static inline int dtype_bits(DType dtype)
{
    return DTYPES[dtype].bits;
}
/* Bytes of one element by itself: bool and the packed types take one. */
static inline int dtype_bytes(DType dtype)
{
    return (DTYPES[dtype].bits + 7) / 8;
}
/* Two elements a byte in memory: an array's k-th is half k % 2 of byte k / 2, of any shape. */
static inline bool dtype_is_packed(DType dtype)
{
    return DTYPES[dtype].bits == 4;
}
/* Bits of one element among others in a tensor. */
int dtype_memory_bits(DType dtype);
/* Bytes of n elements in memory. */
size_t dtype_size(DType dtype, size_t n);
/* A float of 16 bits or fewer: arithmetic on it is f32. */
bool dtype_is_narrow(DType dtype);
static inline bool dtype_is_float(DType dtype)
{
    return DTYPES[dtype].class == 'F';
}
int64_t dtype_least(DType dtype); /* of the numbers of an integer type */
bool dtype_is_int(DType dtype);   /* signed or unsigned, not bool */
bool dtype_is_signed(DType dtype);
/* The unsigned type of the same width; u8 for types of less than 8 bits. */
DType dtype_unsigned(DType dtype);

/* f16 and bf16 <-> f32: to nearest even; NaN stays NaN (quiet). */
static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
float f32_to_tf32(float value);
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
static inline float bf16_to_f32(uint16_t bits)
{
    return f32_from_bits((uint32_t)bits << 16);
}
static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits = f32_bits(value);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    uint32_t quiet = (bits >> 16) | 0x40u;
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(is_nan ? quiet : rounded);
}
/* To nearest even, saturating, infinity too; NaN is 0x7f. */
float f8e4m3_to_f32(uint8_t bits);
uint8_t f32_to_f8e4m3(float value);
float f8e5m2_to_f32(uint8_t bits);
uint8_t f32_to_f8e5m2(float value);

#endif
