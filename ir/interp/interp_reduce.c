/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and dots. Floats accumulate in f64 and are rounded once, so the interpreter is off by
 * half a unit in the last place, and the bound describes the backend alone. A backend may use any
 * association order, a sum of products may use unrounded products and multiply the factors of a
 * term in any order, and a matrix unit may truncate where IEEE rounds; therefore dots have a larger
 * unit. */
#include "ir/interp/interp_reduce.h"

#include "ir/scalar_eval.h"
#include "ir/sum_terms.h"
#include "support/int_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_FACTORS = 16 }; /* of a term, as deep as they are counted */

/* ---- reduce ---- */

Axes reduce_axes(InterpRun *run, const Op *op, const Array *from)
{
    static const struct {
        const char *name;
        Fold fold;
        OpKind kind;
    } names[] = {{"sum", FOLD_SUM, OP_ADD},
                 {"prod", FOLD_PROD, OP_MUL},
                 {"max", FOLD_MAX, OP_MAX},
                 {"min", FOLD_MIN, OP_MIN}};
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Axes axes = {.outer = 1, .len = from->dims[axis], .inner = 1, .dtype = from->dtype};
    for (int i = 0; i < from->rank; i++) {
        axes.outer *= i < axis ? from->dims[i] : 1;
        axes.inner *= i > axis ? from->dims[i] : 1;
    }
    for (size_t i = 0; op_word(op, ATTR_FN) && i < sizeof names / sizeof *names; i++) {
        if (text_equal(names[i].name, op_word(op, ATTR_FN))) {
            axes.fold = names[i].fold;
            axes.kind = names[i].kind;
            return axes;
        }
    }
    if (op->kind != OP_FOLD && op->kind != OP_REPEAT_PARTS) {
        run_fail(run, op, "no such reduction");
    }
    return axes;
}

static Scalar greatest_int(DType dtype)
{
    if (dtype_is_signed(dtype)) {
        return (Scalar){.i = ~dtype_least(dtype)};
    }
    return scalar_op(OP_NOT, NULL, dtype, dtype, &(Scalar){.i = 0});
}

Scalar axes_neutral(const Axes *axes)
{
    bool is_float = dtype_is_float(axes->dtype);
    switch (axes->fold) {
    case FOLD_SUM: return is_float ? (Scalar){.f = 0} : (Scalar){.i = 0};
    case FOLD_PROD: return is_float ? (Scalar){.f = 1} : (Scalar){.i = 1};
    case FOLD_MAX:
        return is_float ? (Scalar){.f = -INFINITY} : (Scalar){.i = dtype_least(axes->dtype)};
    default: return is_float ? (Scalar){.f = INFINITY} : greatest_int(axes->dtype);
    }
}

double axes_fold(const Axes *axes, double a, double b)
{
    switch (axes->fold) {
    case FOLD_SUM: return a + b;
    case FOLD_PROD: return a * b;
    default: {
        Scalar both[2] = {{.f = a}, {.f = b}};
        return scalar_op(axes->kind, NULL, DT_F64, DT_F64, both).f;
    }
    }
}

int64_t axes_fold_int(const Axes *axes, int64_t a, int64_t b)
{
    Scalar both[2] = {{.i = a}, {.i = b}};
    return scalar_op(axes->kind, NULL, axes->dtype, axes->dtype, both).i;
}

static void fold_floats(const Axes *axes, const double *from, double *to)
{
    double start = axes_neutral(axes).f;
    for (int64_t o = 0; o < axes->outer; o++, to += axes->inner) {
        for (int64_t i = 0; i < axes->inner; i++) {
            to[i] = start;
        }
        for (int64_t l = 0; l < axes->len; l++, from += axes->inner) {
            if (l == 0) {
                memcpy(to, from, (size_t)axes->inner * sizeof *to);
            } else if (axes->fold == FOLD_SUM) {
                for (int64_t i = 0; i < axes->inner; i++) {
                    to[i] += from[i];
                }
            } else {
                for (int64_t i = 0; i < axes->inner; i++) {
                    to[i] = axes_fold(axes, to[i], from[i]);
                }
            }
        }
    }
}

static void fold_ints(const Axes *axes, const int64_t *from, int64_t *to)
{
    Scalar start = axes_neutral(axes);
    for (int64_t o = 0; o < axes->outer; o++, to += axes->inner) {
        for (int64_t i = 0; i < axes->inner; i++) {
            to[i] = start.i;
        }
        for (int64_t l = 0; l < axes->len; l++, from += axes->inner) {
            for (int64_t i = 0; i < axes->inner; i++) {
                to[i] = axes_fold_int(axes, to[i], from[i]);
            }
        }
    }
}

static Buffer *folded(InterpRun *run, const Axes *axes, Buffer *from, bool is_float)
{
    Buffer *to = buffer_new(run, (size_t)(axes->outer * axes->inner) * sizeof(double));
    if (is_float) {
        fold_floats(axes, doubles(from), doubles(to));
    } else {
        fold_ints(axes, ints(from), ints(to));
    }
    buffer_drop(run, from);
    return to;
}

void put_plane(Array *to, const Buffer *from, bool is_float)
{
    const double *f = (const double *)(const void *)from->bytes;
    const int64_t *i64 = (const int64_t *)(const void *)from->bytes;
    for (int64_t i = 0; i < to->n; i++) {
        Scalar value = is_float ? (Scalar){.f = f[i]} : (Scalar){.i = i64[i]};
        scalar_store(to->dtype, array_at(to, i), value);
    }
}

/* ---- bounds of a reduction ---- */

double unit_of(DType dtype)
{
    switch (dtype) {
    case DT_F64: return 0x1p-53;
    case DT_F32: return 0x1p-24;
    default: return dtype_bits(dtype) == 8 ? 0x1p-3 : 0x1p-8;
    }
}

double greatest_of(DType dtype)
{
    if (dtype == DT_F64) {
        return DBL_MAX;
    }
    return dtype == DT_F16 ? 65504.0 : (double)FLT_MAX;
}

double rounding(double n, double unit, double size, double greatest)
{
    if (!isfinite(size)) {
        return 0; /* of inputs that are no numbers every order makes the same */
    }
    return size > greatest ? INFINITY : n * unit * size * (1 + n * unit);
}

/* Per result: sum of |x| + bound, or product of it. */
static Buffer *sizes_of(InterpRun *run, const Axes *axes, const Array *from, const double *bounds)
{
    Buffer *sizes = array_doubles(run, from, -1);
    double *size = doubles(sizes);
    for (int64_t i = 0; i < from->n; i++) {
        size[i] = fabs(size[i]) + (bounds ? bounds[i] : 0);
    }
    Axes along = *axes;
    along.dtype = DT_F64;
    return folded(run, &along, sizes, true);
}

static Buffer *sum_of_bounds(InterpRun *run, const Axes *axes, Buffer *bounds)
{
    Axes along = *axes;
    along.dtype = DT_F64;
    bool extreme = along.fold == FOLD_MAX || along.fold == FOLD_MIN;
    along.fold = extreme ? FOLD_MAX : FOLD_SUM;
    along.kind = OP_MAX;
    return folded(run, &along, buffer_keep(bounds), true);
}

/* Of zeros alone the sum is a zero of either sign: who begins with 0 never gets -0. */
static void bound_sum(const Axes *axes, const double *size, const double *moved, int64_t n,
                      double *out)
{
    double terms = axes->len > 2 ? (double)axes->len : 0;
    terms += terms > 0 && axes->products < 2 ? 0 : axes->products;
    for (int64_t i = 0; i < n; i++) {
        out[i] = moved ? moved[i] : 0;
        if (terms > 0) {
            out[i] += rounding(terms, unit_of(axes->dtype), size[i], greatest_of(axes->dtype));
        }
        if (size[i] == 0) {
            out[i] += DBL_TRUE_MIN;
        }
    }
}

static bool any_zero(const double *size, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (size[i] == 0) {
            return true;
        }
    }
    return false;
}

static void bound_prod(const Axes *axes, const double *size, const double *exact, int64_t n,
                       double *out)
{
    for (int64_t i = 0; i < n; i++) {
        double terms = axes->len > 2 ? (double)axes->len : 0;
        out[i] = rounding(terms, unit_of(axes->dtype), size[i], greatest_of(axes->dtype));
        out[i] += isfinite(size[i]) ? size[i] - fabs(exact[i]) : 0;
    }
}

/* NULL: exact. `exact`: the results before rounding. */
static Buffer *bounds_of(InterpRun *run, const Axes *axes, const Array *from, Buffer *exact,
                         int64_t n)
{
    Buffer *bounds = array_bounds(run, from);
    bool extreme = axes->fold == FOLD_MAX || axes->fold == FOLD_MIN;
    bool few = axes->len <= 2 && axes->fold != FOLD_SUM;
    if (!bounds && (extreme || few || !dtype_is_float(axes->dtype))) {
        return NULL;
    }
    if (extreme || !dtype_is_float(axes->dtype)) {
        Buffer *sum = sum_of_bounds(run, axes, bounds);
        buffer_drop(run, bounds);
        return sum;
    }
    Buffer *sizes = sizes_of(run, axes, from, doubles(bounds));
    if (!bounds && axes->len <= 2 && !axes->products && !any_zero(doubles(sizes), n)) {
        buffer_drop(run, sizes);
        return NULL;
    }
    Buffer *moved = bounds ? sum_of_bounds(run, axes, bounds) : NULL;
    Buffer *result = buffer_new(run, (size_t)n * sizeof(double));
    if (axes->fold == FOLD_SUM) {
        bound_sum(axes, doubles(sizes), doubles(moved), n, doubles(result));
    } else {
        bound_prod(axes, doubles(sizes), doubles(exact), n, doubles(result));
    }
    buffer_drop(run, sizes);
    buffer_drop(run, moved);
    buffer_drop(run, bounds);
    return result;
}

void spread_all(InterpRun *run, const Op *op, int result, Array *array, Buffer *bounds)
{
    if (bounds) {
        array_spread_all(run, array, run->source[op->results[result]->id], doubles(bounds));
    }
    buffer_drop(run, bounds);
}

void reduce_into(InterpRun *run, const Op *op, const Axes *axes, const Array *from, Array *to)
{
    bool is_float = dtype_is_float(from->dtype);
    Buffer *elements = is_float ? array_doubles(run, from, -1) : array_ints(run, from, -1);
    Buffer *result = folded(run, axes, elements, is_float);
    put_plane(to, result, is_float);
    /* A result is poison if any element of its line is. */
    if (array_has_poison(from)) {
        array_want_poison(run, to);
        for (int64_t i = 0; i < from->n; i++) {
            int64_t at = i / (axes->len * axes->inner) * axes->inner + i % axes->inner;
            to->poison->bytes[at] |= from->poison->bytes[i];
        }
    }
    if (run->options->bounds) {
        spread_all(run, op, 0, to, bounds_of(run, axes, from, result, to->n));
    }
    buffer_drop(run, result);
}

/* Multiplications and divisions of which the value is made directly. */
static int count_products(const Value *value, int depth)
{
    const Op *op = value->def;
    bool product = op && depth < MAX_FACTORS && (op->kind == OP_MUL || op->kind == OP_DIV);
    if (!product && !(op && depth < MAX_FACTORS && op->kind == OP_NEG)) {
        return 0;
    }
    int n = product;
    for (int i = 0; i < op->n_operands; i++) {
        n += count_products(op->operands[i], depth + 1);
    }
    return n;
}

/* Products of which the terms of a sum are made: behind the conditions that leave some of them out,
 * and behind the sums over other axes. */
static int sums_products(const Op *sum)
{
    const Op *op = sum->operands[0]->def;
    while (op && op->kind != OP_MUL && op->kind != OP_DIV && op->kind != OP_NEG) {
        bool masked = op->kind == OP_SELECT && value_is_const(op->operands[2], 0);
        bool summed = op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum");
        if (!masked && !summed && op->kind != OP_SQUEEZE) {
            return 0;
        }
        op = op->operands[masked]->def;
    }
    return op ? count_products(op->results[0], 0) : 0;
}

/* Of a sum of products, as `a * b - c * d`, each product may be summed by itself: what a term adds
 * is rounded as often as there are terms, also where it cancels. */
void interp_spread_addends(InterpRun *run, const Op *op, Array *const *from, Array *result)
{
    const Value *term;
    Addends products;
    bool adds = op->kind == OP_ADD || op->kind == OP_SUB || op->kind == OP_FMA;
    Op *sum = adds && dtype_is_float(result->dtype)
                  ? value_summed_by(run->func, op->results[0], &term)
                  : NULL;
    if (!sum || !value_addends(run->func, term, &products)) {
        return;
    }
    SumNest nest = sum_nest(run->func, sum);
    DType dtype = result->dtype;
    double terms = 1;
    for (int i = 0; i < result->rank; i++) {
        terms *= nest.summed >> i & 1 ? (double)result->dims[i] : 1;
    }
    array_want_samples(run, result);
    for (int64_t i = 0; i < result->n; i++) {
        double first = array_scalar(from[0], i).f, second = array_scalar(from[1], i).f;
        double size = op->kind == OP_FMA ? fabs(first * second) + fabs(array_scalar(from[2], i).f)
                                         : fabs(first) + fabs(second);
        array_spread(run, result, run->source[op->results[0]->id], i,
                     rounding(terms, unit_of(dtype), size, greatest_of(dtype)));
    }
}

/* One part of a line after the other, without bounds: a program that is compared has none. */
void interp_reduce_parts(InterpRun *run, const Op *op)
{
    Array *from = run_operand(run, op, 0);
    Array *to = array_of_type(run, op, op->results[0]->type);
    Axes axes = reduce_axes(run, op, from);
    bool is_float = dtype_is_float(from->dtype);
    Buffer *elements = is_float ? array_doubles(run, from, -1) : array_ints(run, from, -1);
    Buffer *result = buffer_new(run, (size_t)to->n * sizeof(double));
    int64_t by = op_int(op, ATTR_BY, 1), parts = to->dims[op_int(op, ATTR_AXIS, 0)];
    Axes part = axes;
    part.outer = 1;
    for (int64_t o = 0; o < axes.outer; o++) {
        for (int64_t p = 0; p < parts; p++) {
            int64_t at = (o * axes.len + p * by) * axes.inner, out = (o * parts + p) * axes.inner;
            part.len = min_i64(by, axes.len - p * by);
            if (is_float) {
                fold_floats(&part, doubles(elements) + at, doubles(result) + out);
            } else {
                fold_ints(&part, ints(elements) + at, ints(result) + out);
            }
        }
    }
    put_plane(to, result, is_float);
    buffer_drop(run, elements);
    buffer_drop(run, result);
    run_result(run, op, 0, to);
}

void interp_repeat_parts(InterpRun *run, const Op *op)
{
    const Array *from = run_operand(run, op, 0);
    Array *to = array_of_type(run, op, op->results[0]->type);
    Axes axes = reduce_axes(run, op, to);
    int64_t by = op_int(op, ATTR_BY, 1), parts = from->dims[op_int(op, ATTR_AXIS, 0)];
    size_t bytes = (size_t)(axes.inner * dtype_bytes(to->dtype));
    for (int64_t o = 0; o < axes.outer; o++) {
        for (int64_t l = 0; l < axes.len; l++) {
            memcpy(array_at(to, (o * axes.len + l) * axes.inner),
                   array_at(from, (o * parts + l / by) * axes.inner), bytes);
        }
    }
    run_result(run, op, 0, to);
}

void interp_reduce(InterpRun *run, const Op *op)
{
    Array *from = run_operand(run, op, 0);
    if (op->n_operands > 1) {
        interp_scratch(run, op, op_access(op, 1));
    }
    Axes axes = reduce_axes(run, op, from);
    int products = axes.fold == FOLD_SUM ? sums_products(op) : 0;
    axes.products = axes.len > 1 || products > 1 ? products : 0; /* one term of two is exact */
    Array *to = array_of_type(run, op, op->results[0]->type);
    reduce_into(run, op, &axes, from, to);
    run_result(run, op, 0, to);
}
