/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and wraps one element in its memory format, and rounds f64 to f32 by round-to-odd.
 * Rounding to odd first makes a second rounding to a narrower float correct. */
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

float scalar_to_odd(double value)
{
    float rounded_value = (float)value;
    if (isnan(value) || isinf(value) || (double)rounded_value == value) {
        return rounded_value;
    }
    uint32_t bits = f32_bits(rounded_value);
    if (fabs((double)rounded_value) > fabs(value)) {
        bits--;
    }
    return f32_from_bits(bits | 1u);
}

int64_t scalar_wrap(DType dtype, uint64_t value)
{
    int bits = dtype_bits(dtype);
    if (bits == 64) {
        return (int64_t)value;
    }
    uint64_t low = value & ((UINT64_C(1) << bits) - 1);
    bool negative = dtype_is_signed(dtype) && (low >> (bits - 1)) != 0;
    return (int64_t)(negative ? low | ~((UINT64_C(1) << bits) - 1) : low);
}

/* The element's bytes as the low bits of a word. */
static uint64_t bits_of(const void *from, int bytes)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bytes) {
    case 1: return *(const unsigned char *)from;
    case 2: memcpy(&two, from, sizeof two); return two;
    case 4: memcpy(&four, from, sizeof four); return four;
    default: memcpy(&eight, from, sizeof eight); return eight;
    }
}

static void put_bits(void *to, int bytes, uint64_t bits)
{
    uint16_t two = (uint16_t)bits;
    uint32_t four = (uint32_t)bits;
    switch (bytes) {
    case 1: *(unsigned char *)to = (unsigned char)bits; break;
    case 2: memcpy(to, &two, sizeof two); break;
    case 4: memcpy(to, &four, sizeof four); break;
    default: memcpy(to, &bits, sizeof bits); break;
    }
}

Scalar scalar_load(DType dtype, const void *from)
{
    uint64_t bits = bits_of(from, dtype_bytes(dtype));
    Scalar value = {.i = 0};
    switch (dtype) {
    case DT_F16: value.f = (double)f16_to_f32((uint16_t)bits); break;
    case DT_BF16: value.f = (double)bf16_to_f32((uint16_t)bits); break;
    case DT_F8E4M3: value.f = (double)f8e4m3_to_f32((uint8_t)bits); break;
    case DT_F8E5M2: value.f = (double)f8e5m2_to_f32((uint8_t)bits); break;
    case DT_F32: value.f = (double)f32_from_bits((uint32_t)bits); break;
    case DT_F64: memcpy(&value.f, &bits, sizeof bits); break;
    case DT_BOOL: value.i = bits != 0; break;
    default: value.i = scalar_wrap(dtype, bits); break;
    }
    return value;
}

void scalar_pack(DType dtype, void *array, size_t index, Scalar value)
{
    if (!dtype_is_packed(dtype)) {
        scalar_store(dtype, (char *)array + index * (size_t)dtype_bytes(dtype), value);
        return;
    }
    unsigned char *byte = (unsigned char *)array + index / 2;
    unsigned shift = index % 2 ? 4 : 0;
    *byte = (unsigned char)((*byte & (0xf0u >> shift)) | (((unsigned)value.i & 0xfu) << shift));
}

Scalar scalar_unpack(DType dtype, const void *array, size_t index)
{
    const unsigned char *bytes = array;
    if (!dtype_is_packed(dtype)) {
        return scalar_load(dtype, bytes + index * (size_t)dtype_bytes(dtype));
    }
    unsigned char half = (unsigned char)(bytes[index / 2] >> (index % 2 ? 4 : 0));
    return scalar_load(dtype, &half);
}

void scalar_store(DType dtype, void *to, Scalar value)
{
    uint64_t bits = (uint64_t)value.i;
    switch (dtype) {
    case DT_F16: bits = f32_to_f16(scalar_to_odd(value.f)); break;
    case DT_BF16: bits = f32_to_bf16(scalar_to_odd(value.f)); break;
    case DT_F8E4M3: bits = f32_to_f8e4m3(scalar_to_odd(value.f)); break;
    case DT_F8E5M2: /* what moves keeps its infinity; only what is rounded saturates */
        bits = isinf(value.f) ? 0x7cu | (value.f < 0 ? 0x80u : 0)
                              : f32_to_f8e5m2(scalar_to_odd(value.f));
        break;
    case DT_F32: bits = f32_bits((float)value.f); break;
    case DT_F64: memcpy(&bits, &value.f, sizeof bits); break;
    case DT_BOOL: bits = value.i != 0; break;
    default: break;
    }
    put_bits(to, dtype_bytes(dtype), bits);
}
