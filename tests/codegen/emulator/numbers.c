/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between f32 and the 16-bit floats for the GPU emulators. They are independent of the
 * compiler's own, so that an error in those is found. */
#include "tests/codegen/emulator/numbers.h"

#include <math.h>
#include <string.h>

float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float half_to_float(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0) {
        float tiny = (float)mantissa * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    exponent = exponent == 31 ? 255 : exponent + 112;
    return bits_to_float(sign | exponent << 23 | mantissa << 13);
}

uint32_t float_to_half(double value, bool toward_zero)
{
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value)) {
        return sign | 0x7e00;
    }
    if (isinf(value)) {
        return sign | 0x7c00;
    }
    int exponent;
    frexp(size, &exponent);
    exponent = exponent - 11 < -24 ? -24 : exponent - 11; /* of the last place */
    double places = ldexp(size, -exponent);
    places = toward_zero ? trunc(places) : nearbyint(places);
    uint32_t whole = (uint32_t)places;
    uint32_t bits = size == 0 ? 0 : ((uint32_t)(exponent + 24) << 10) + whole;
    if (bits >= 0x7c00) {
        bits = toward_zero ? 0x7bff : 0x7c00;
    }
    return sign | bits;
}

uint32_t float_to_bf16(float value)
{
    uint32_t bits = float_to_bits(value);
    if (isnan(value)) {
        return bits >> 16 | 64;
    }
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
