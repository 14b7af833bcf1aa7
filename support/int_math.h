/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic on sizes for which C has no operator, such as ceil_div. */
#ifndef TESSERA_SUPPORT_INT_MATH_H
#define TESSERA_SUPPORT_INT_MATH_H

#include <stdint.h>

/* The greatest common divisor, never negative; 0 is divided by everything: gcd(0, n) = n. */
static inline int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* How many pieces of `by` (> 0) cover n (>= 0). No n overflows. */
static inline int64_t ceil_div(int64_t n, int64_t by)
{
    return n / by + (n % by > 0);
}

/* a / b rounded toward minus infinity; b is not 0. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The least n with 2^n >= value. */
static inline int log2_ceil(int64_t value)
{
    int bits = 0;
    while (INT64_C(1) << bits < value) {
        bits++;
    }
    return bits;
}

/* The least multiple of `to` (> 0) that is not below n (>= 0). */
static inline int64_t round_up(int64_t n, int64_t to)
{
    return ceil_div(n, to) * to;
}

/* From 1 to 2^40, which is more than any tile or thread counts. */
static inline int64_t power_of_two_at_least(int64_t n)
{
    int64_t power = 1;
    while (power < n && power < ((int64_t)1 << 40)) {
        power *= 2;
    }
    return power;
}

static inline int64_t power_of_two_at_most(int64_t n)
{
    return n < 1 ? 1 : power_of_two_at_least(n / 2 + 1);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The value, or the bound that it exceeds. */
static inline int64_t clamp_i64(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : min_i64(value, high);
}

/* A product that stops at the greatest number. */
static inline int64_t mul_sat(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

#endif
