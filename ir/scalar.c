/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of one element. Every rounding happens once, in the type of the operation: f32 is
 * computed in f32; narrow floats are computed exactly (or rounded to odd, which keeps the last
 * rounding correct) and then rounded. Constant folding and the interpreter share this file, so
 * they agree. */
#include "ir/scalar_eval.h"

#include <math.h>
#include <string.h>

/* ---- rounding ---- */

/* a + b where the last bit says whether more bits would follow. */
static double add_to_odd(double a, double b)
{
    double sum = a + b;
    double part = sum - a;
    double rest = (a - (sum - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (rest == 0 || !isfinite(sum) || (bits & 1u)) {
        return sum;
    }
    bits = (rest > 0) == (sum > 0) ? bits + 1 : bits - 1;
    memcpy(&sum, &bits, sizeof sum);
    return sum;
}

static double round_float(DType dtype, double value)
{
    switch (dtype) {
    case DT_F16: return (double)f16_to_f32(f32_to_f16(scalar_to_odd(value)));
    case DT_BF16: return (double)bf16_to_f32(f32_to_bf16(scalar_to_odd(value)));
    case DT_F8E4M3: return (double)f8e4m3_to_f32(f32_to_f8e4m3(scalar_to_odd(value)));
    case DT_F8E5M2: return (double)f8e5m2_to_f32(f32_to_f8e5m2(scalar_to_odd(value)));
    case DT_F32: return (double)(float)value;
    default: return value;
    }
}

/* ---- casts ---- */

static uint64_t greatest(DType dtype)
{
    int bits = dtype_bits(dtype) - (dtype_is_signed(dtype) ? 1 : 0);
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static int64_t float_to_int(DType to, double value)
{
    if (isnan(value)) {
        return 0;
    }
    double whole = trunc(value);
    if (dtype_is_signed(to)) {
        double limit = ldexp(1.0, dtype_bits(to) - 1);
        if (whole >= limit) {
            return (int64_t)greatest(to);
        }
        return whole < -limit ? -(int64_t)greatest(to) - 1 : (int64_t)whole;
    }
    if (whole >= ldexp(1.0, dtype_bits(to))) {
        return (int64_t)greatest(to);
    }
    return whole <= 0 ? 0 : (int64_t)(uint64_t)whole;
}

/* An integer's magnitude as a double, to odd when 53 bits do not hold it. */
static double magnitude_to_double(uint64_t magnitude)
{
    if (magnitude >> 53) {
        uint64_t rest = magnitude & 0xfffu;
        magnitude = (magnitude & ~UINT64_C(0xfff)) | (rest ? 0x800u : 0);
    }
    return (double)magnitude;
}

static double int_to_float(DType from, DType to, int64_t value)
{
    bool negative = dtype_is_signed(from) && value < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    double result;
    if (to == DT_F64) {
        result = (double)magnitude;
    } else if (to == DT_F32) {
        result = (double)(float)magnitude;
    } else {
        result = round_float(to, magnitude_to_double(magnitude));
    }
    return negative ? -result : result;
}

static Scalar cast(DType from, DType to, Scalar a)
{
    bool from_float = dtype_is_float(from);
    if (from == to) {
        return a; /* an infinity of f8e5m2 too */
    }
    if (to == DT_BOOL) {
        return (Scalar){.i = from_float ? a.f != 0 : a.i != 0};
    }
    if (dtype_is_float(to)) {
        return (Scalar){.f = from_float ? round_float(to, a.f) : int_to_float(from, to, a.i)};
    }
    return (Scalar){.i = from_float ? float_to_int(to, a.f) : scalar_wrap(to, (uint64_t)a.i)};
}

static Scalar bitcast(DType from, DType to, Scalar a)
{
    unsigned char bytes[8] = {0};
    scalar_store(from, bytes, a);
    return scalar_load(to, bytes);
}

/* ---- comparisons ---- */

static bool holds(const char *pred, bool less, bool equal, bool unordered)
{
    if (unordered) {
        return text_equal(pred, "ne");
    }
    static const struct {
        const char *name;
        bool less, equal, greater;
    } table[] = {
        {"eq", false, true, false}, {"ne", true, false, true},  {"lt", true, false, false},
        {"le", true, true, false},  {"gt", false, false, true}, {"ge", false, true, true},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (text_equal(table[i].name, pred)) {
            if (less) {
                return table[i].less;
            }
            return equal ? table[i].equal : table[i].greater;
        }
    }
    return false;
}

static bool int_less(DType dtype, int64_t a, int64_t b)
{
    return dtype_is_signed(dtype) ? a < b : (uint64_t)a < (uint64_t)b;
}

static Scalar compare(const char *pred, DType in, Scalar a, Scalar b)
{
    if (dtype_is_float(in)) {
        bool unordered = isnan(a.f) || isnan(b.f);
        return (Scalar){.i = holds(pred, a.f < b.f, a.f == b.f, unordered)};
    }
    return (Scalar){.i = holds(pred, int_less(in, a.i, b.i), a.i == b.i, false)};
}

/* ---- arithmetic ---- */

static double float_min(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) ? a : b;
    }
    if (a == b) {
        return signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

static double float_max(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) ? a : b;
    }
    if (a == b) {
        return signbit(a) ? b : a;
    }
    return a > b ? a : b;
}

/* The remainder of floor division: exact, but for one addition. NaN by zero. A zero has the
 * divisor's sign too. */
static double float_mod(DType dtype, double a, double b)
{
    double rest = fmod(a, b);
    if (rest == 0) {
        return copysign(rest, b);
    }
    if ((rest < 0) != (b < 0)) {
        rest = dtype == DT_F64 ? rest + b : round_float(dtype, add_to_odd(rest, b));
    }
    return rest;
}

/* f32 in f32; f64 in f64; the 16-bit types in f64 to odd where that is not exact: for + - * / and
 * sqrt, 53 bits are more than twice theirs plus two, so that rounding again is harmless. */
static double float_binary(OpKind kind, DType dtype, double a, double b)
{
    float x = (float)a, y = (float)b;
    bool single = dtype == DT_F32;
    switch (kind) {
    case OP_ADD: return single ? (double)(x + y) : round_float(dtype, a + b);
    case OP_SUB: return single ? (double)(x - y) : round_float(dtype, a - b);
    case OP_MUL: return single ? (double)(x * y) : round_float(dtype, a * b);
    case OP_DIV: return single ? (double)(x / y) : round_float(dtype, a / b);
    case OP_MOD: return float_mod(dtype, a, b);
    case OP_MIN: return float_min(a, b);
    case OP_MAX: return float_max(a, b);
    default: return NAN;
    }
}

static double float_fma(DType dtype, double a, double b, double c)
{
    if (dtype == DT_F64) {
        return fma(a, b, c);
    }
    if (dtype == DT_F32) {
        return (double)fmaf((float)a, (float)b, (float)c);
    }
    return round_float(dtype, add_to_odd(a * b, c));
}

static double float_unary(OpKind kind, DType dtype, double a)
{
    switch (kind) {
    case OP_NEG: return -a;
    case OP_ABS: return fabs(a);
    case OP_SQRT: return dtype == DT_F32 ? (double)sqrtf((float)a) : round_float(dtype, sqrt(a));
    case OP_FLOOR: return floor(a);
    case OP_CEIL: return ceil(a);
    case OP_TRUNC: return trunc(a);
    case OP_RINT: return rint(a);
    case OP_TF32: return (double)f32_to_tf32((float)a);
    case OP_FAST_EXP2: return round_float(dtype, exp2(a));
    default: return NAN;
    }
}

static int64_t wrapping_floor_div(int64_t a, int64_t b)
{
    if (b == -1) {
        return (int64_t)(0 - (uint64_t)a);
    }
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    if (b == -1) {
        return 0;
    }
    int64_t rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

static int64_t int_divide(OpKind kind, DType dtype, int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    if (dtype_is_signed(dtype)) {
        return kind == OP_DIV ? wrapping_floor_div(a, b) : floor_mod(a, b);
    }
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return (int64_t)(kind == OP_DIV ? x / y : x % y);
}

static int64_t int_shift(OpKind kind, DType dtype, int64_t a, int64_t by)
{
    uint64_t count = (uint64_t)by;
    bool out = count >= (uint64_t)dtype_bits(dtype);
    if (kind == OP_SHL) {
        return out ? 0 : (int64_t)((uint64_t)a << count);
    }
    if (dtype_is_signed(dtype)) {
        if (out) {
            return a < 0 ? -1 : 0;
        }
        return a >> count;
    }
    return out ? 0 : (int64_t)((uint64_t)a >> count);
}

static int64_t int_binary(OpKind kind, DType dtype, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case OP_ADD: return (int64_t)(x + y);
    case OP_SUB: return (int64_t)(x - y);
    case OP_MUL: return (int64_t)(x * y);
    case OP_DIV:
    case OP_MOD: return int_divide(kind, dtype, a, b);
    case OP_MIN: return int_less(dtype, a, b) ? a : b;
    case OP_MAX: return int_less(dtype, a, b) ? b : a;
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    default: return int_shift(kind, dtype, a, b);
    }
}

static int64_t int_unary(OpKind kind, DType dtype, int64_t a)
{
    switch (kind) {
    case OP_NEG: return (int64_t)(0 - (uint64_t)a);
    case OP_ABS: return dtype_is_signed(dtype) && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case OP_NOT: return ~a;
    default: /* floor and its kin */ return a;
    }
}

static Scalar arithmetic(OpKind kind, DType dtype, const Scalar *operands)
{
    int n = op_info(kind)->operands;
    if (dtype_is_float(dtype)) {
        double a = operands[0].f;
        double result;
        if (n == 1) {
            result = float_unary(kind, dtype, a);
        } else if (n == 2) {
            result = float_binary(kind, dtype, a, operands[1].f);
        } else {
            result = float_fma(dtype, a, operands[1].f, operands[2].f);
        }
        return (Scalar){.f = result};
    }
    int64_t a = operands[0].i;
    int64_t result;
    if (n == 1) {
        result = int_unary(kind, dtype, a);
    } else if (n == 2) {
        result = int_binary(kind, dtype, a, operands[1].i);
    } else {
        result = (int64_t)((uint64_t)a * (uint64_t)operands[1].i + (uint64_t)operands[2].i);
    }
    return (Scalar){.i = scalar_wrap(dtype, (uint64_t)result)};
}

Scalar scalar_op(OpKind kind, const char *pred, DType in, DType out, const Scalar *operands)
{
    switch (kind) {
    case OP_CAST: return cast(in, out, operands[0]);
    case OP_BITCAST: return bitcast(in, out, operands[0]);
    case OP_ISNAN: return (Scalar){.i = dtype_is_float(in) && isnan(operands[0].f)};
    case OP_CMP: return compare(pred, in, operands[0], operands[1]);
    case OP_SELECT: return operands[0].i ? operands[1] : operands[2];
    case OP_REMAT:
    case OP_TO_STATIC: return operands[0];
    default: return op_has_exact_operand(kind) ? operands[1] : arithmetic(kind, in, operands);
    }
}
