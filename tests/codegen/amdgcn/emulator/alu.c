/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of vector instructions in one lane. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u;
typedef int32_t i;
typedef float f;
typedef uint64_t q;
typedef int64_t l;
typedef double d;
typedef uint32_t h; /* 16 bits in the low half */
typedef uint32_t s;

/* ---- parts ---- */

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float rcp(float x)
{
    return flush(1 / flush(x));
}

static float rsq(float x)
{
    return 1 / sqrtf(flush(x));
}

static float power2(float x)
{
    return flush((float)exp2((double)flush(x)));
}

static float log_2(float x)
{
    return (float)log2((double)flush(x));
}

static float sine(float x)
{
    return (float)sin((double)x * 6.283185307179586);
}

static float cosine(float x)
{
    return (float)cos((double)x * 6.283185307179586);
}

static bool is_signaling(float x)
{
    return isnan(x) && !(float_to_bits(x) >> 22 & 1);
}

static float quiet(float x)
{
    return isnan(x) ? bits_to_float(float_to_bits(x) | 0x400000) : x;
}

static float least(float a, float b)
{
    if (isnan(a) || isnan(b)) {
        return is_signaling(a) ? quiet(a) : is_signaling(b) ? quiet(b) : isnan(a) ? b : a;
    }
    return a < b || (a == b && signbit(a)) ? a : b;
}

static float most(float a, float b)
{
    if (isnan(a) || isnan(b)) {
        return is_signaling(a) ? quiet(a) : is_signaling(b) ? quiet(b) : isnan(a) ? b : a;
    }
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static float minimum(float a, float b)
{
    return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : least(a, b);
}

static float maximum(float a, float b)
{
    return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : most(a, b);
}

static double least64(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static double most64(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static double minimum64(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : least64(a, b);
}

static double maximum64(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : most64(a, b);
}

static float middle(float a, float b, float c)
{
    if (isnan(a) || isnan(b) || isnan(c)) {
        return least(least(a, b), c);
    }
    return most(least(a, b), least(most(a, b), c));
}

static uint32_t sum_of_bits(uint32_t x)
{
    return (uint32_t)__builtin_popcount(x);
}

static uint32_t reversed(uint32_t x)
{
    uint32_t y = 0;
    for (int k = 0; k < 32; k++) {
        y |= (x >> k & 1) << (31 - k);
    }
    return y;
}

static uint32_t leading_zeros(uint32_t x)
{
    return x ? (uint32_t)__builtin_clz(x) : UINT32_MAX;
}

static uint32_t leading_signs(uint32_t x)
{
    uint32_t y = x >> 31 ? ~x : x;
    return y ? (uint32_t)__builtin_clz(y) : UINT32_MAX;
}

static uint32_t trailing_zeros(uint32_t x)
{
    return x ? (uint32_t)__builtin_ctz(x) : UINT32_MAX;
}

static uint32_t byte_of(uint32_t high, uint32_t low, uint32_t selector)
{
    uint64_t both = (uint64_t)high << 32 | low;
    if (selector >= 13) {
        return 255;
    }
    if (selector == 12) {
        return 0;
    }
    if (selector >= 8) {
        return both >> (16 * (selector - 8) + 15) & 1 ? 255 : 0;
    }
    return both >> 8 * selector & 255;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out = 0;
    for (int k = 0; k < 4; k++) {
        out |= byte_of(a, b, c >> 8 * k & 255) << 8 * k;
    }
    return out;
}

static uint32_t least16(uint32_t a, uint32_t b)
{
    return (int16_t)a < (int16_t)b ? a : b;
}

static uint32_t most16(uint32_t a, uint32_t b)
{
    return (int16_t)a > (int16_t)b ? a : b;
}

static int32_t saturated(int64_t x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

static uint32_t within16(int32_t x)
{
    return (uint32_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x) & 0xffff;
}

static uint32_t within8(int32_t x)
{
    return (uint32_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static int32_t within8s(int32_t x)
{
    return x < -128 ? -128 : x > 127 ? 127 : x;
}

static uint32_t to_u32(double x)
{
    return isnan(x) || x <= 0 ? 0 : x >= 4294967295.0 ? UINT32_MAX : (uint32_t)x;
}

static int32_t to_i32(double x)
{
    return isnan(x)             ? 0
           : x <= -2147483648.0 ? INT32_MIN
           : x >= 2147483647.0  ? INT32_MAX
                                : (int32_t)x;
}

static uint32_t to_u16(double x)
{
    return isnan(x) || x <= 0 ? 0 : x >= 65535 ? 65535 : (uint32_t)x;
}

static uint32_t to_i16(double x)
{
    return (isnan(x)      ? 0
            : x <= -32768 ? 0x8000
                          : (uint32_t)(int32_t)(x >= 32767 ? 32767 : x)) &
           0xffff;
}

static float H(uint32_t x)
{
    return half_to_float(x & 0xffff);
}

static uint32_t h_of(double x)
{
    return float_to_half(x, false);
}

/* a*b + c of halves, rounded once: the sum to odd in double first. */
static uint32_t fma_half(uint32_t a, uint32_t b, uint32_t c)
{
    double product = (double)H(a) * (double)H(b), add = (double)H(c), sum = product + add;
    double part = sum - product, error = (product - (sum - part)) + (add - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (isfinite(sum) && error != 0 && !(bits & 1)) {
        sum = nextafter(sum, (error > 0) ? INFINITY : -INFINITY);
    }
    return h_of(sum);
}

/* ---- division ---- */

static int exponent_of(float x)
{
    return (int)(float_to_bits(x) >> 23 & 255);
}

static float div_fixup(float a, float b, float c)
{
    float sign = signbit(b) != signbit(c) ? -1.0f : 1.0f;
    if (isnan(c)) {
        return quiet(c);
    }
    if (isnan(b)) {
        return quiet(b);
    }
    if ((b == 0 && c == 0) || (isinf(b) && isinf(c))) {
        return bits_to_float(0xffc00000);
    }
    if (b == 0 || isinf(c)) {
        return sign * INFINITY;
    }
    if (isinf(b) || c == 0) {
        return sign * 0.0f;
    }
    if (exponent_of(c) - exponent_of(b) < -150) {
        return sign * 0.0f;
    }
    if (exponent_of(b) == 255) {
        return sign * INFINITY;
    }
    return sign * fabsf(a);
}

static double div_fixup64(double a, double b, double c)
{
    double sign = signbit(b) != signbit(c) ? -1.0 : 1.0;
    if (isnan(c) || isnan(b)) {
        return isnan(c) ? c : b;
    }
    if ((b == 0 && c == 0) || (isinf(b) && isinf(c))) {
        return NAN;
    }
    if (b == 0 || isinf(c)) {
        return sign * INFINITY;
    }
    if (isinf(b) || c == 0) {
        return sign * 0.0;
    }
    return sign * fabs(a);
}

static int frexp_exponent(double x)
{
    int exponent = 0;
    if (isfinite(x)) {
        frexp(x, &exponent);
    }
    return exponent;
}

/* ---- the table ---- */

/* ops.def has rows ONE(name, result, a, expression), TWO and THREE: x, y and z are the operands. */
#define ONE(name, R, A, expression)                                                                \
    static void lanes_##name(void *rp, const void *ap, const void *bp, const void *cp, int n)      \
    {                                                                                              \
        const A *xs = ap;                                                                          \
        (void)bp, (void)cp;                                                                        \
        R *rs = rp;                                                                                \
        for (int k = 0; k < n; k++) {                                                              \
            A x = xs[k];                                                                           \
            rs[k] = (R)(expression);                                                               \
        }                                                                                          \
    }
#define TWO(name, R, A, B, expression)                                                             \
    static void lanes_##name(void *rp, const void *ap, const void *bp, const void *cp, int n)      \
    {                                                                                              \
        const A *xs = ap;                                                                          \
        const B *ys = bp;                                                                          \
        (void)cp;                                                                                  \
        R *rs = rp;                                                                                \
        for (int k = 0; k < n; k++) {                                                              \
            A x = xs[k];                                                                           \
            B y = ys[k];                                                                           \
            rs[k] = (R)(expression);                                                               \
        }                                                                                          \
    }
#define THREE(name, R, A, B, C, expression)                                                        \
    static void lanes_##name(void *rp, const void *ap, const void *bp, const void *cp, int n)      \
    {                                                                                              \
        const A *xs = ap;                                                                          \
        const B *ys = bp;                                                                          \
        const C *zs = cp;                                                                          \
        R *rs = rp;                                                                                \
        for (int k = 0; k < n; k++) {                                                              \
            A x = xs[k];                                                                           \
            B y = ys[k];                                                                           \
            C z = zs[k];                                                                           \
            rs[k] = (R)(expression);                                                               \
        }                                                                                          \
    }
#include "tests/codegen/amdgcn/emulator/ops.def"
#undef ONE
#undef TWO
#undef THREE

#define T_u 'u'
#define T_i 'u'
#define T_f 'f'
#define T_q 'q'
#define T_l 'q'
#define T_d 'd'
#define T_h 'h'
#define T_s 's'
#define ONE(name, R, A, expression) {"v_" #name, lanes_##name, T_##R, {T_##A}},
#define TWO(name, R, A, B, expression) {"v_" #name, lanes_##name, T_##R, {T_##A, T_##B}},
#define THREE(name, R, A, B, C, expression)                                                        \
    {"v_" #name, lanes_##name, T_##R, {T_##A, T_##B, T_##C}},
static const LaneOp TABLE[] = {
#include "tests/codegen/amdgcn/emulator/ops.def"
};

static int by_name(const void *name, const void *op)
{
    return strcmp(name, ((const LaneOp *)op)->name);
}

static int in_order(const void *a, const void *b)
{
    return strcmp(((const LaneOp *)a)->name, ((const LaneOp *)b)->name);
}

const LaneOp *lane_op(const char *name)
{
    static LaneOp sorted[sizeof TABLE / sizeof *TABLE];
    enum { N = sizeof TABLE / sizeof *TABLE };
    if (!sorted[0].name) {
        memcpy(sorted, TABLE, sizeof TABLE);
        qsort(sorted, N, sizeof *sorted, in_order);
    }
    return bsearch(name, sorted, N, sizeof *sorted, by_name);
}
