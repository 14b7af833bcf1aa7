/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas in double, arranged to avoid cancellation: their own errors are far below an ulp of
 * f32. */
#define _GNU_SOURCE /* exp10l */
#include "tests/math/reference.h"
#include "tests/math/vectors.h"

#include <math.h>

enum { PART = 256 };

/* Elementwise in parts that stay in the first cache. */
#define EACH(name, expression)                                                                     \
    static void name(const double *x, double *y, size_t n)                                         \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            double v = x[i];                                                                       \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    }

/* y = after(v = x, w = f(before(v))) */
#define THROUGH(name, f, before, after)                                                            \
    static void name(const double *x, double *y, size_t n)                                         \
    {                                                                                              \
        double t[PART];                                                                            \
        for (size_t from = 0; from < n; from += PART) {                                            \
            size_t m = n - from < PART ? n - from : PART;                                          \
            for (size_t i = 0; i < m; i++) {                                                       \
                double v = x[from + i];                                                            \
                t[i] = (before);                                                                   \
            }                                                                                      \
            f(t, t, m);                                                                            \
            for (size_t i = 0; i < m; i++) {                                                       \
                double v = x[from + i], w = t[i];                                                  \
                (void)v;                                                                           \
                y[from + i] = (after);                                                             \
            }                                                                                      \
        }                                                                                          \
    }

EACH(want_sqrt, sqrt(v))
EACH(want_rsqrt, 1 / sqrt(v))
EACH(want_floor, floor(v))
EACH(want_ceil, ceil(v))
EACH(want_trunc, trunc(v))
EACH(want_rint, rint(v))
EACH(want_abs, fabs(v))

/* Outside of these ranges f32 has overflowed long ago; the vectors are slow there. */
#define LIMITED(name, least, most)                                                                 \
    THROUGH(want_##name, all_##name, v<(least) ? (least) : v>(most) ? (most) : v, w)
LIMITED(exp, -700.0, 700.0)
LIMITED(exp2, -1000.0, 1000.0)
LIMITED(exp10, -300.0, 300.0)
LIMITED(expm1, -700.0, 700.0)

LIMITED(sinh, -700.0, 700.0)
LIMITED(cosh, -700.0, 700.0)
LIMITED(tanh, -700.0, 700.0)
LIMITED(erf, -20.0, 20.0)
LIMITED(erfc, -20.0, 20.0)

static const double PI = 3.14159265358979323846;
static const double ROUND = 0x1.8p52; /* adding it leaves no fraction */

/* v in quarter turns: k, and the rest r as an angle. The digits of 2/pi by 28 bits, so that every
 * product with a float is exact; whole turns are dropped from each. */
VECTORIZED static void quarters(const double *x, double *k, double *r, size_t n)
{
    static const double digits[] = {0xa2f9836p-28,  0xe4e4415p-56,  0x29fc275p-84, 0x7d1f534p-112,
                                    0xddc0db6p-140, 0x295993cp-168, 0x439041fp-196};
    for (size_t i = 0; i < n; i++) {
        double sum = 0, low = 0;
        for (int j = 0; j < 7; j++) {
            double t = x[i] * digits[j];
            t = fabs(t) < 0x1p55 ? t - 4 * ((t * 0.25 + ROUND) - ROUND) : t - t;
            double next = sum + t, part = next - sum;
            low += (sum - (next - part)) + (t - part);
            sum = next;
        }
        double whole = (sum + ROUND) - ROUND;
        k[i] = whole - 4 * ((whole * 0.25 + ROUND) - ROUND);
        r[i] = ((sum - whole) + low) * (PI / 2);
    }
}

/* The sine of k quarter turns and of the angle whose sine and cosine are s and c; k is -2..2. */
static inline double turned(double k, double s, double c)
{
    return k == 0 ? s : k == 1 ? c : k == -1 ? -c : -s;
}

static inline double next_turn(double k)
{
    return k == 2 ? -1 : k + 1;
}

static inline double sign_of(double y, double x)
{
    return y == 0 ? copysign(0, x) : y;
}

#define TURNS(name, reduce, result)                                                                \
    static void name(const double *x, double *y, size_t n)                                         \
    {                                                                                              \
        double turns[PART], r[PART], sine[PART], cosine[PART];                                     \
        for (size_t from = 0; from < n; from += PART) {                                            \
            size_t m = n - from < PART ? n - from : PART;                                          \
            reduce(x + from, turns, r, m);                                                         \
            all_sin(r, sine, m);                                                                   \
            all_cos(r, cosine, m);                                                                 \
            for (size_t i = 0; i < m; i++) {                                                       \
                double v = x[from + i], k = turns[i], s = sine[i], c = cosine[i];                  \
                (void)v;                                                                           \
                y[from + i] = (result);                                                            \
            }                                                                                      \
        }                                                                                          \
    }
TURNS(want_sin, quarters, sign_of(turned(k, s, c), v))
TURNS(want_cos, quarters, turned(next_turn(k), s, c))
TURNS(want_tan, quarters, k == 0 || fabs(k) == 2 ? sign_of(s / c, v) : -c / s)

/* Exact: a float is a multiple of 2, or ROUND takes it. */
VECTORIZED static void quarters_pi(const double *x, double *k, double *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = fabs(x[i]) < 0x1p40 ? x[i] : x[i] - x[i];
        v = v - 2 * ((v * 0.5 + ROUND) - ROUND);
        k[i] = (v * 2 + ROUND) - ROUND;
        r[i] = (v - k[i] * 0.5) * PI;
    }
}
TURNS(want_sinpi, quarters_pi, sign_of(turned(k, s, c), v))
TURNS(want_cospi, quarters_pi, turned(next_turn(k), s, c) + 0.0)

THROUGH(want_sigmoid, all_exp, -fabs(v), (v < 0 ? w : 1) / (1 + w))
THROUGH(want_silu, all_exp, -fabs(v), v < -700 ? -0.0 : (v < 0 ? v * w : v) / (1 + w))

THROUGH(want_softplus, all_exp, -fabs(v), v > 0 ? v + log1p(w) : log1p(w))
THROUGH(want_logsigmoid, all_exp, -fabs(v), v < 0 ? v - log1p(w) : -log1p(w))
THROUGH(want_mish, all_exp,
        v > 300    ? 300
        : v < -700 ? -700
                   : v,
        v < -600 ? -0.0 : v * ((w * w + 2 * w) / (w * w + 2 * w + 2)))
THROUGH(want_gelu, all_erfc,
        v > 30    ? -30
        : v < -30 ? 30
                  : v * -0.70710678118654752440,
        v < -30 ? -0.0 : v * w * 0.5)
THROUGH(want_gelu_tanh, all_exp,
        v *v > 900 ? -900 : -fabs(1.5957691216057308 * (v + 0.044715 * v * v * v)),
        v < -30 ? -0.0 : (v < 0 ? v * w : v) / (1 + w))

EACH(want_tgamma, tgamma(v))
EACH(want_lgamma, lgamma(v))

/* By its series, above 40, in long double; below, by its steps. */
static long double digamma_above(long double x)
{
    long double sum = 0;
    for (; x < 40; x++) {
        sum -= 1 / x;
    }
    long double s = 1 / (x * x);
    return sum + logl(x) - 0.5L / x -
           s * (1 / 12.0L - s * (1 / 120.0L - s * (1 / 252.0L - s * (1 / 240.0L - s / 132.0L))));
}

static double digamma(double x)
{
    if (x == 0) {
        return copysign(INFINITY, -x);
    }
    if (x < 0 && (x == trunc(x) || isinf(x))) {
        return NAN;
    }
    if (x > 0.5) {
        return isinf(x) ? x : (double)digamma_above((long double)x);
    }
    long double turn = (long double)(x - rint(x));
    return (double)(digamma_above(1 - (long double)x) -
                    3.14159265358979323846L / tanl(3.14159265358979323846L * turn));
}
EACH(want_digamma, digamma(v))

/* Newton's steps on erfc, from a point below. */
static double inverse_erf(double x)
{
    double a = fabs(x);
    if (!(a < 1) || a < 1e-9) {
        return a < 1e-9 ? x * 0.88622692545275801365 : a == 1 ? x * (double)INFINITY : (double)NAN;
    }
    double y = 0;
    for (int i = 0; i < 60; i++) {
        double off = a < 0.5 ? a - erf(y) : erfc(y) - (1 - a);
        double step = off * 0.88622692545275801365 * exp(y * y);
        y += step;
        if (fabs(step) < 1e-15 * y) {
            break;
        }
    }
    return copysign(y, x);
}
EACH(want_erfinv, inverse_erf(v))

/* clang-format off */
#define ROW(name, limit) {#name, want_##name, limit, 1}
#define PLAIN(name, limit) {#name, all_##name, limit, 1}
#define SLOW(name, limit) {#name, want_##name, limit, 1021}
/* clang-format on */
const Unary UNARY[] = {
    ROW(sqrt, 0.5),   ROW(rsqrt, 2),      ROW(floor, 0),   ROW(ceil, 0),        ROW(trunc, 0),
    ROW(rint, 0),     ROW(abs, 0),        ROW(exp, 2),     ROW(exp2, 2),        ROW(exp10, 2),
    ROW(expm1, 2),    PLAIN(log, 2),      PLAIN(log2, 2),  PLAIN(log10, 2),     PLAIN(log1p, 2),
    PLAIN(cbrt, 2),   ROW(sin, 2.5),      ROW(cos, 2.5),   ROW(tan, 3.5),       ROW(sinpi, 2),
    ROW(cospi, 2),    PLAIN(asin, 2.5),   PLAIN(acos, 2),  PLAIN(atan, 2),      ROW(sinh, 3),
    ROW(cosh, 2),     ROW(tanh, 2.5),     PLAIN(asinh, 3), PLAIN(acosh, 3),     PLAIN(atanh, 3),
    ROW(erf, 2),      ROW(erfc, 4),       ROW(sigmoid, 3), ROW(silu, 3.5),      ROW(mish, 4),
    ROW(softplus, 4), ROW(logsigmoid, 4), ROW(gelu, 4),    ROW(gelu_tanh, 4), SLOW(tgamma, 2),
    SLOW(lgamma, 3),  SLOW(digamma, 2),   SLOW(erfinv, 2)};
const size_t UNARY_COUNT = sizeof UNARY / sizeof *UNARY;

/* C leaves open which of two zeros is the lesser. */
static double lesser(double x, double y)
{
    return x != y ? fmin(x, y) : signbit(x) ? x : y;
}

static double greater(double x, double y)
{
    return x != y ? fmax(x, y) : signbit(x) ? y : x;
}

const Binary BINARY[] = {
    {"pow", pow, 2},     {"hypot", hypot, 2},         {"atan2", atan2, 3},
    {"fmod", fmod, 0},   {"remainder", remainder, 0}, {"copysign", copysign, 0},
    {"fmin", lesser, 0}, {"fmax", greater, 0},
};
const size_t BINARY_COUNT = sizeof BINARY / sizeof *BINARY;

static long double rsqrtl(long double x)
{
    return 1 / sqrtl(x);
}

const Wide WIDE[] = {
    {"sqrt", sqrtl, NULL, 0.51},
    {"rsqrt", rsqrtl, NULL, 2},
    {"exp", expl, NULL, 1},
    {"exp2", exp2l, NULL, 2},
    {"exp10", exp10l, NULL, 2},
    {"expm1", expm1l, NULL, 2},
    {"log", logl, NULL, 2},
    {"log2", log2l, NULL, 2},
    {"log10", log10l, NULL, 2},
    {"log1p", log1pl, NULL, 2},
    {"cbrt", cbrtl, NULL, 2},
    {"sin", sinl, NULL, 2},
    {"cos", cosl, NULL, 2},
    {"tan", tanl, NULL, 3},
    {"atan", atanl, NULL, 2},
    {"sinh", sinhl, NULL, 3},
    {"cosh", coshl, NULL, 2},
    {"tanh", tanhl, NULL, 3},
    {"erf", erfl, NULL, 2},
    {"pow", NULL, powl, 2},
    {"hypot", NULL, hypotl, 2},
    {"fmod", NULL, fmodl, 0},
    {"remainder", NULL, remainderl, 0},
    {"copysign", NULL, copysignl, 0},
};
const size_t WIDE_COUNT = sizeof WIDE / sizeof *WIDE;
