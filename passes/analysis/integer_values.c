/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds the elements of integer values, and of floats that are integers, by interval arithmetic
 * over the defining ops. Operands of a dot that fit 8 bits are then multiplied by an integer matrix
 * instruction. */
#include "passes/analysis/integer_values.h"

#include "ir/memo.h"
#include "ir/op_axes.h"

#include <math.h>

enum { MAX_DEPTH = 24, ALL_BITS = 64 };

/* Numbers whose sums a double may round: what lies beyond is taken to wrap. */
#define ROUNDED 0x1p53

/* Every element is NaN or an integer from `lo` to `hi`; !known: other numbers, too. */
typedef struct Interval {
    bool known;
    double lo, hi;
} Interval;

/* A question, and what was found out on the way to its answer. */
typedef struct Asked {
    Func *func;
    Memo *memo;
} Asked;

static Interval interval(const Asked *asked, const Value *value, int depth);

static Interval from_to(double lo, double hi)
{
    return (Interval){lo <= hi, lo, hi};
}

static Interval unknown(void)
{
    return (Interval){false, 0, 0};
}

/* Integers up to which a float type has all of them; 0: not a float type whose integers matter. */
static double all_up_to(DType dtype)
{
    switch (dtype) {
    case DT_F8E5M2: return 0x1p3;
    case DT_F8E4M3: return 0x1p4;
    case DT_BF16: return 0x1p8;
    case DT_F16: return 0x1p11;
    case DT_F32: return 0x1p24;
    case DT_F64: return 0x1p53;
    default: return 0;
    }
}

static bool is_within(Interval of, double most)
{
    return of.known && of.lo >= -most && of.hi <= most;
}

static bool is_finite(Interval of)
{
    return isfinite(of.lo) && isfinite(of.hi);
}

/* All that the type has; floats have more than integers. */
static Interval all_of(DType dtype)
{
    if (dtype == DT_BOOL) {
        return from_to(0, 1);
    }
    if (!dtype_is_int(dtype)) {
        return unknown();
    }
    int bits = dtype_bits(dtype);
    return dtype_is_signed(dtype) ? from_to(-ldexp(1, bits - 1), ldexp(1, bits - 1) - 1)
                                  : from_to(0, ldexp(1, bits) - 1);
}

/* ---- ops ---- */

static Interval constant(const Op *op)
{
    const Attr *value = op_attr(op, ATTR_VALUE);
    double number = dtype_is_float(op->results[0]->type->dtype) ? value->f : (double)value->i;
    return number == trunc(number) ? from_to(number, number) : unknown();
}

static Interval multiplied(Interval a, Interval b)
{
    double ends[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    Interval all = from_to(ends[0], ends[0]);
    for (int i = 1; i < 4; i++) {
        all = from_to(fmin(all.lo, ends[i]), fmax(all.hi, ends[i]));
    }
    return all;
}

/* Bits of a number that is not negative. */
static Interval below_power(double most)
{
    int bits = 0;
    frexp(most, &bits);
    return from_to(0, most > 0 ? ldexp(1, bits) - 1 : 0);
}

/* `and` with a number that is not negative keeps no bits but that number's. */
static Interval bits_kept(Interval a, Interval b)
{
    double most = INFINITY;
    if (a.lo < 0 && b.lo < 0) {
        return unknown();
    }
    if (a.lo >= 0) {
        most = a.hi;
    }
    if (b.lo >= 0) {
        most = fmin(most, b.hi);
    }
    return from_to(0, most);
}

static Interval of_bits(const Op *op, Interval a, Interval b)
{
    bool positive = a.lo >= 0 && b.lo >= 0;
    switch (op->kind) {
    case OP_AND: return bits_kept(a, b);
    case OP_OR:
    case OP_XOR: return positive ? below_power(fmax(a.hi, b.hi)) : unknown();
    case OP_SHL: return positive ? from_to(0, ldexp(a.hi, (int)fmin(b.hi, ALL_BITS))) : unknown();
    default: /* shr */
        return positive ? from_to(0, floor(ldexp(a.hi, -(int)fmin(b.lo, ALL_BITS)))) : unknown();
    }
}

/* `//` and `%` of integers, by a number that is positive. */
static Interval of_quotient(const Op *op, Interval a, Interval b)
{
    if (b.lo < 1 || !dtype_is_int(op->results[0]->type->dtype)) {
        return unknown();
    }
    return op->kind == OP_MOD ? from_to(0, b.hi - 1)
                              : from_to(fmin(floor(a.lo / b.lo), floor(a.lo / b.hi)),
                                        fmax(floor(a.hi / b.lo), floor(a.hi / b.hi)));
}

static Interval of_two(const Op *op, Interval a, Interval b)
{
    switch (op->kind) {
    case OP_MIN: return from_to(fmin(a.lo, b.lo), fmin(a.hi, b.hi));
    case OP_MAX: return from_to(fmax(a.lo, b.lo), fmax(a.hi, b.hi));
    default: break;
    }
    if (!is_finite(a) || !is_finite(b)) {
        return unknown();
    }
    switch (op->kind) {
    case OP_ADD: return from_to(a.lo + b.lo, a.hi + b.hi);
    case OP_SUB: return from_to(a.lo - b.hi, a.hi - b.lo);
    case OP_MUL: return multiplied(a, b);
    case OP_DIV:
    case OP_MOD: return of_quotient(op, a, b);
    default: return of_bits(op, a, b);
    }
}

/* As an integer NaN is 0. */
static Interval cast(const Op *op, Interval a)
{
    bool is_integral = dtype_is_float(op->operands[0]->type->dtype) &&
                       !dtype_is_float(op->results[0]->type->dtype);
    return is_integral ? from_to(fmin(a.lo, 0), fmax(a.hi, 0)) : a;
}

static Interval of_one(const Op *op, Interval a)
{
    switch (op->kind) {
    case OP_CAST: return cast(op, a);
    case OP_NEG: return from_to(-a.hi, -a.lo);
    case OP_ABS: return from_to(a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(-a.lo, a.hi));
    default: return a;
    }
}

static Interval of_operands(const Asked *asked, const Op *op, int depth)
{
    Interval of[3];
    for (int i = 0; i < op->n_operands && i < 3; i++) {
        of[i] = interval(asked, op->operands[i], depth);
        if (!of[i].known && !(op->kind == OP_SELECT && i == 0)) {
            return unknown();
        }
    }
    switch (op->n_operands) {
    case 1: return of_one(op, of[0]);
    case 2: return of_two(op, of[0], of[1]);
    default: break;
    }
    if (op->kind == OP_SELECT) {
        return from_to(fmin(of[1].lo, of[2].lo), fmax(of[1].hi, of[2].hi));
    }
    bool finite = is_finite(of[0]) && is_finite(of[1]) && is_finite(of[2]);
    Interval product = finite ? multiplied(of[0], of[1]) : unknown();
    return finite ? from_to(product.lo + of[2].lo, product.hi + of[2].hi) : unknown();
}

/* Rounding a float to an integer: NaN and infinity stay. */
static Interval rounded(const Asked *asked, const Op *op, int depth)
{
    Interval of = interval(asked, op->operands[0], depth);
    return of.known ? of : from_to(-INFINITY, INFINITY);
}

static Interval of_op(const Asked *asked, const Op *op, int depth)
{
    switch (op->kind) {
    case OP_CONST: return constant(op);
    case OP_FLOOR:
    case OP_CEIL:
    case OP_TRUNC:
    case OP_RINT: return rounded(asked, op, depth);
    case OP_CAST:
    case OP_NEG:
    case OP_ABS:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_FMA:
    case OP_DIV:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
    case OP_SELECT: return of_operands(asked, op, depth);
    default:
        return op_moves_axes(op) ? interval(asked, op->operands[0], depth) : unknown();
    }
}

/* What the ops give, where its type has all of these numbers. Integers that are too large wrap, and
 * floats are rounded: min, max and roundings to integers give none that they were not given. */
static Interval of_value(const Asked *asked, const Value *value, int depth)
{
    DType dtype = value->type->dtype;
    const Op *op = value->def;
    Interval all = all_of(dtype), computed = op ? of_op(asked, op, depth + 1) : unknown();
    if (!computed.known || isnan(computed.lo) || isnan(computed.hi)) {
        return all;
    }
    if (!dtype_is_float(dtype)) {
        return computed.lo >= all.lo && computed.hi <= all.hi && is_within(computed, ROUNDED)
                   ? computed
                   : all;
    }
    bool computes = op->kind == OP_CAST || op->kind == OP_ADD || op->kind == OP_SUB ||
                    op->kind == OP_MUL || op->kind == OP_FMA;
    return !computes || is_within(computed, all_up_to(dtype)) ? computed : unknown();
}

static Interval interval(const Asked *asked, const Value *value, int depth)
{
    int64_t found;
    if (depth > MAX_DEPTH) {
        return unknown();
    }
    if (!memo_known(asked->memo, value, 0, &found)) {
        Interval result = of_value(asked, value, depth);
        const Interval *kept = arena_copy(asked->func->arena, &result, sizeof result);
        found = memo_keep(asked->memo, value, 0, (intptr_t)kept);
    }
    return *(const Interval *)(intptr_t)found;
}

static Interval of_question(const Value *value)
{
    const Block *block = value->def ? value->def->parent : value->block;
    if (!block) {
        return all_of(value->type->dtype);
    }
    Asked asked = {block->func, memo_open(block->func)};
    Interval result = interval(&asked, value, 0);
    memo_close(asked.memo);
    return result;
}

bool an_integers_up_to(const Value *value, double most)
{
    return is_within(of_question(value), most);
}

bool an_integers_of(const Value *value, DType dtype)
{
    Interval all = all_of(dtype), of = of_question(value);
    return dtype_is_int(value->type->dtype) && of.lo >= all.lo && of.hi <= all.hi;
}

bool an_integers_in(const Value *value, DType dtype)
{
    return an_integers_up_to(value, all_up_to(dtype));
}
