/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t bits;
    char class;
} dtypes[DT_COUNT] = {
#define DTYPE(id, name, bits, class) {name, bits, #class[0]},
#include "ir/dtypes.def"
#undef DTYPE
};

const char *dtype_name(DType dtype)
{
    return dtypes[dtype].name;
}

bool dtype_from_name(const char *name, size_t n, DType *out)
{
    for (int i = 0; i < DT_COUNT; i++) {
        if (strlen(dtypes[i].name) == n && memcmp(dtypes[i].name, name, n) == 0) {
            *out = (DType)i;
            return true;
        }
    }
    return false;
}

int dtype_bits(DType dtype)
{
    return dtypes[dtype].bits;
}

int dtype_bytes(DType dtype)
{
    return (dtypes[dtype].bits + 7) / 8;
}

bool dtype_is_float(DType dtype)
{
    return dtypes[dtype].class == 'F';
}

bool dtype_is_int(DType dtype)
{
    return dtypes[dtype].class == 'I' || dtypes[dtype].class == 'U';
}

bool dtype_is_signed(DType dtype)
{
    return dtypes[dtype].class == 'I' || dtypes[dtype].class == 'F';
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float bf16_to_f32(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t f32_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) {
        return float_of(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    }
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in f32 */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 leaves the rounded bits in place */
        float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}
