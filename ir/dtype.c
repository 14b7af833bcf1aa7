/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of element types, and the conversions between f32 and the narrow floats (f16, bf16,
 * the 8-bit floats, tf32). Constant folding, the interpreter and the host tools use these
 * conversions, so they agree bit by bit. */
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

const DTypeRow DTYPES[DT_TF32 + 1] = {
#define DTYPE(id, name, bits, class) {name, bits, #class[0]},
#define DTYPE_OF_UNITS
#include "ir/dtypes.def"
#undef DTYPE_OF_UNITS
#undef DTYPE
};

const char *dtype_name(DType dtype)
{
    return DTYPES[dtype].name;
}

bool dtype_from_name(const char *name, size_t n, DType *out)
{
    for (int i = 0; i < DT_COUNT; i++) {
        if (strlen(DTYPES[i].name) == n && memcmp(DTYPES[i].name, name, n) == 0) {
            *out = (DType)i;
            return true;
        }
    }
    return false;
}

int dtype_memory_bits(DType dtype)
{
    return dtype_is_packed(dtype) ? 4 : 8 * dtype_bytes(dtype);
}

size_t dtype_size(DType dtype, size_t n)
{
    return dtype_is_packed(dtype) ? n / 2 + n % 2 : n * (size_t)dtype_bytes(dtype);
}

bool dtype_is_narrow(DType dtype)
{
    return DTYPES[dtype].class == 'F' && DTYPES[dtype].bits <= 16;
}

bool dtype_is_int(DType dtype)
{
    return DTYPES[dtype].class == 'I' || DTYPES[dtype].class == 'U';
}

bool dtype_is_signed(DType dtype)
{
    return DTYPES[dtype].class == 'I' || DTYPES[dtype].class == 'F';
}

DType dtype_unsigned(DType dtype)
{
    switch (dtype_bits(dtype)) {
    case 16: return DT_U16;
    case 32: return DT_U32;
    case 64: return DT_U64;
    default: return DT_U8;
    }
}

int64_t dtype_least(DType dtype)
{
    return dtype_is_signed(dtype) ? (int64_t)(UINT64_MAX << (dtype_bits(dtype) - 1)) : 0;
}

float f32_to_tf32(float value)
{
    enum { DROPPED = 13 };
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isfinite(value)) {
        bits += (1U << (DROPPED - 1)) - 1 + (bits >> DROPPED & 1);
        bits &= ~((1U << DROPPED) - 1);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) {
        return f32_from_bits(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    }
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in f32 */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return f32_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value)
{
    uint32_t bits = f32_bits(value);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 leaves the rounded bits in place */
        float shifted = f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (f32_bits(shifted) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

/* ---- 8 bits ---- */

typedef struct Format8 {
    int mantissa, bias;
    uint8_t most; /* the largest number; what follows is infinity or NaN */
} Format8;

static const Format8 E4M3 = {3, 7, 0x7e}, E5M2 = {2, 15, 0x7b};

static float f8_to_f32(Format8 format, uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t magnitude = bits & 0x7fu;
    if (magnitude > format.most) {
        bool infinite = format.bias == 15 && magnitude == 0x7cu;
        return f32_from_bits(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
    }
    if (magnitude >> format.mantissa == 0) { /* subnormal: a multiple of the smallest number */
        uint32_t least = (uint32_t)(128 - format.bias - format.mantissa) << 23;
        return f32_from_bits(sign | f32_bits((float)magnitude * f32_from_bits(least)));
    }
    uint32_t rebased = magnitude << (23 - format.mantissa);
    return f32_from_bits(sign | (rebased + ((uint32_t)(127 - format.bias) << 23)));
}

static uint8_t f32_to_f8(Format8 format, float value)
{
    uint32_t bits = f32_bits(value), magnitude = bits & 0x7fffffffu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    if (magnitude > 0x7f800000u) {
        return 0x7f;
    }
    uint32_t normal = (uint32_t)(128 - format.bias) << 23, rounded;
    int shift = 23 - format.mantissa;
    if (magnitude < normal) { /* adding the power of two whose last place is the smallest number */
        uint32_t anchor = (uint32_t)(128 - format.bias + shift) << 23;
        rounded = f32_bits(f32_from_bits(magnitude) + f32_from_bits(anchor)) - anchor;
    } else {
        uint32_t odd = magnitude >> shift & 1u;
        rounded = (magnitude + (1u << (shift - 1)) - 1u + odd) >> shift;
        rounded -= (uint32_t)(127 - format.bias) << format.mantissa;
    }
    return sign | (uint8_t)(rounded > format.most ? format.most : rounded);
}

float f8e4m3_to_f32(uint8_t bits)
{
    return f8_to_f32(E4M3, bits);
}

uint8_t f32_to_f8e4m3(float value)
{
    return f32_to_f8(E4M3, value);
}

float f8e5m2_to_f32(uint8_t bits)
{
    return f8_to_f32(E5M2, bits);
}

uint8_t f32_to_f8e5m2(float value)
{
    return f32_to_f8(E5M2, value);
}
