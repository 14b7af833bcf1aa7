/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops: their values, and how far their samples spread by rounding and approximation. */
#include "ir/interp/interp_internal.h"
#include "ir/interp/interp_reduce.h"
#include "ir/scalar_eval.h"
#include "ir/summed_factor.h"

#include <math.h>
#include <string.h>

typedef struct Operands {
    Array *items[3];
    Array *made[3]; /* those of them that are dropped after the op */
    int n;
    bool inexact, poison;
} Operands;

static void add_operand(Operands *all, Array *item)
{
    all->items[all->n++] = item;
    all->inexact |= item->samples != NULL;
    all->poison |= item->poison != NULL;
}

/* In a fold: one scalar from outside of it for all. */
static Array *repeated(InterpRun *run, const Array *from, int64_t n)
{
    Array *to = array_new(run, from->dtype, 1, &n);
    array_fill(to, array_scalar(from, 0));
    if (array_has_poison(from)) {
        array_want_poison(run, to);
        memset(to->poison->bytes, 1, (size_t)n);
    }
    return to;
}

static Operands operands_of(InterpRun *run, const Op *op)
{
    Operands all = {0};
    for (int i = 0; i < op->n_operands; i++) {
        Array *item = run_operand(run, op, i);
        if (run->lanes && item->n == 1 && run->lanes != 1) {
            item = repeated(run, item, run->lanes);
            all.made[i] = item;
        }
        if (i && item->n != all.items[0]->n) {
            run_fail(run, op, "the operands have %lld and %lld elements",
                     (long long)all.items[0]->n, (long long)item->n);
        }
        add_operand(&all, item);
    }
    return all;
}

static void poison_join(InterpRun *run, Array *result, const Array *from)
{
    if (!from->poison) {
        return;
    }
    array_want_poison(run, result);
    for (int64_t i = 0; i < result->n; i++) {
        result->poison->bytes[i] |= from->poison->bytes[i];
    }
}

static bool decides(const Array *item, int64_t i, uint8_t value)
{
    return !(item->poison && item->poison->bytes[i]) && item->data->bytes[i] == value;
}

static void run_plane(OpKind kind, const char *pred, const Operands *all, Array *result, int sample)
{
    Flat flat = {.kind = kind, .pred = pred, .n = result->n};
    flat.in = all->items[kind == OP_SELECT ? 1 : 0]->dtype;
    flat.out = result->dtype;
    flat.to = array_plane(result, sample);
    for (int i = 0; i < all->n; i++) {
        flat.from[i] = array_plane(all->items[i], sample);
    }
    flat_run(&flat);
}

static void apply(InterpRun *run, OpKind kind, const char *pred, const Operands *all, Array *result)
{
    run_plane(kind, pred, all, result, -1);
    if (all->inexact) {
        result->samples =
            buffer_new(run, (size_t)result->n * (size_t)dtype_bytes(result->dtype) * SAMPLES);
        for (int s = 0; s < SAMPLES; s++) {
            run_plane(kind, pred, all, result, s);
        }
    }
    if (!all->poison) {
        return;
    }
    if (kind == OP_SELECT) {
        /* Only the selected side's poison counts: a select is how a program masks padding. */
        array_want_poison(run, result);
        const uint8_t *which = all->items[0]->data->bytes;
        for (int64_t i = 0; i < result->n; i++) {
            const Array *side = all->items[which[i] ? 1 : 2];
            result->poison->bytes[i] = side->poison && side->poison->bytes[i];
        }
        poison_join(run, result, all->items[0]);
        return;
    }
    for (int i = 0; i < all->n; i++) {
        poison_join(run, result, all->items[i]);
    }
    if (result->poison && result->dtype == DT_BOOL && (kind == OP_AND || kind == OP_OR)) {
        /* A false operand decides an `and` and a true one decides an `or`: the other's poison does
         * not matter. */
        uint8_t value = kind == OP_OR;
        for (int64_t i = 0; i < result->n; i++) {
            if (decides(all->items[0], i, value) || decides(all->items[1], i, value)) {
                result->poison->bytes[i] = 0;
            }
        }
    }
}

Array *interp_apply(InterpRun *run, OpKind kind, const char *pred, DType out, int n,
                    Array *const *items)
{
    Operands all = {0};
    for (int i = 0; i < n; i++) {
        add_operand(&all, items[i]);
    }
    Array *result = array_new(run, out, items[0]->rank, items[0]->dims);
    apply(run, kind, pred, &all, result);
    return result;
}

/* Rounding to 16 bits can hide or double a difference: the samples of the operand are drawn anew,
 * at both ends of its bound, and rounded there. */
static Array *hull_of(InterpRun *run, const Op *op, const Array *from)
{
    Array *hull = array_new(run, from->dtype, from->rank, from->dims);
    memcpy(hull->data->bytes, from->data->bytes, (size_t)(from->n * dtype_bytes(from->dtype)));
    hull->poison = buffer_keep(from->poison);
    Buffer *bounds = array_bounds(run, from);
    array_spread_all(run, hull, run->source[op->results[0]->id], (double *)(void *)bounds->bytes);
    buffer_drop(run, bounds);
    return hull;
}

/* How far hardware may be from a value (ops.def states it): `share` of it, `near` 0, and `slope` of
 * the argument. */
typedef struct FastBound {
    OpKind kind;
    double share, near, slope;
} FastBound;

static const FastBound FAST_BOUNDS[] = {
    {OP_FAST_LOG2, 0x1p-21, 0x1p-21, 0}, {OP_FAST_TANH, 0x1p-10, 0, 0},
    {OP_FAST_SIN, 0, 0x1p-20, 0x1p-22},  {OP_FAST_COS, 0, 0x1p-20, 0x1p-22},
    {OP_FAST_SQRT, 0x1p-21, 0, 0},       {OP_FAST_RSQRT, 0x1p-21, 0, 0},
    {OP_FAST_RECIPROCAL, 0x1p-21, 0, 0},
};

static FastBound bound_of(const Op *op)
{
    if (op->kind == OP_NAMED) {
        const NamedFunction *named = named_function(op_word(op, ATTR_FN));
        return (FastBound){OP_NAMED, named->share, named->near, 0};
    }
    const FastBound *row = FAST_BOUNDS;
    while (row->kind != op->kind) {
        row++;
    }
    return *row;
}

static double fast_bound(const FastBound *row, double x, double value)
{
    double turning = row->slope * fabs(x), share = row->share * fabs(value);
    double tiny = value != 0 && fabs(value) < 0x1p-126 ? 0x1p-126 : 0;
    return share + row->near + (turning < 2 ? turning : 2) + tiny;
}

static bool rounds(const Op *op)
{
    DType dtype = op->results[0]->type->dtype;
    switch (op->kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_FMA:
    case OP_SQRT: return dtype == DT_F32 || dtype == DT_F64;
    default: return false;
    }
}

/* The operands of an op in one sample, and as they are. */
typedef struct SamplePlanes {
    int n;
    DType dtypes[3];
    const unsigned char *sample[3], *base[3];
} SamplePlanes;

static SamplePlanes planes_of(const Operands *all, int sample)
{
    SamplePlanes planes = {.n = all->n};
    for (int k = 0; k < all->n; k++) {
        planes.dtypes[k] = all->items[k]->dtype;
        planes.base[k] = array_plane(all->items[k], -1);
        planes.sample[k] = array_plane(all->items[k], sample);
    }
    return planes;
}

/* True if the sample of some operand's element i is not what the element is. */
static bool is_off(const SamplePlanes *planes, int64_t i)
{
    bool off = false;
    for (int k = 0; k < planes->n; k++) {
        const unsigned char *sample = planes->sample[k], *base = planes->base[k];
        size_t bytes = (size_t)dtype_bytes(planes->dtypes[k]), at = (size_t)i * bytes;
        if (sample != base && !off) {
            off = bytes == 4 ? memcmp(base + at, sample + at, 4)
                             : memcmp(base + at, sample + at, bytes);
        }
    }
    return off;
}

/* What an f32 op gives before it is rounded; of an f64 op, what it gives. */
static double before_rounding(OpKind kind, const SamplePlanes *planes,
                              const unsigned char *const *from, int64_t i)
{
    Scalar operands[3] = {{.f = 0}};
    for (int k = 0; k < planes->n; k++) {
        DType dtype = planes->dtypes[k];
        const unsigned char *at = from[k] + i * dtype_bytes(dtype);
        operands[k] = dtype == DT_F32 ? (Scalar){.f = (double)*(const float *)(const void *)at}
                                      : scalar_load(dtype, at);
    }
    switch (kind) {
    case OP_ADD: return operands[0].f + operands[1].f;
    case OP_SUB: return operands[0].f - operands[1].f;
    case OP_MUL: return operands[0].f * operands[1].f;
    default: return scalar_op(kind, NULL, DT_F64, DT_F64, operands).f;
    }
}

/* Where an operand is off, the result may round the other way, if what it is off by reaches the
 * middle of the two: rint(x) by adding 1.5 * 2^23 does not change for an x that is off by little.
 * A later difference keeps that, even where what the operands are off by cancels in it:
 * (t - x) - (t - y) for a t that is off. */
static void spread_rounding(const Op *op, const Operands *all, Array *result)
{
    uint32_t source = op->results[0]->id;
    for (int s = WHOLE_SAMPLES; s < SAMPLES; s++) {
        SamplePlanes planes = planes_of(all, s);
        for (int64_t i = 0; i < result->n; i++) {
            int way = is_off(&planes, i) ? array_rounding_way(source, s, i) : 0;
            if (way == 0) {
                continue;
            }
            double exact = before_rounding(op->kind, &planes, planes.sample, i), by = INFINITY;
            if (result->dtype == DT_F32) {
                by = fabs(exact - before_rounding(op->kind, &planes, planes.base, i));
            }
            array_round_other_way(result, way, s, i, exact, by);
        }
    }
}

/* The samples of what is approximated spread by its error bound. */
static void spread_bound(InterpRun *run, const Op *op, const Array *from, Array *result)
{
    FastBound row = bound_of(op);
    array_want_samples(run, result);
    for (int64_t i = 0; i < result->n; i++) {
        double x = array_scalar(from, i).f, value = array_scalar(result, i).f;
        array_spread(run, result, run->source[op->results[0]->id], i,
                     isfinite(value) ? fast_bound(&row, x, value) : 0);
    }
}

/* An exponential of which sums are taken may differ by 2^-20 of itself, and be 0 below 2^-126. */
static void spread_summed(InterpRun *run, const Op *op, Array *result)
{
    array_want_samples(run, result);
    for (int64_t i = 0; i < result->n; i++) {
        double value = array_scalar(result, i).f;
        double bound = value < 0x1p-126 ? value : value * 0x1p-20;
        array_spread(run, result, run->source[op->results[0]->id], i, isfinite(value) ? bound : 0);
    }
}

/* The function's body, of all elements at once. */
static void interp_named(InterpRun *run, const Op *op)
{
    const Block *body = func_function(run->func, op_word(op, ATTR_FN));
    Array *from = run_operand(run, op, 0), *result;
    int64_t lanes = run->lanes;
    if (from->n) {
        run->cells[body->args[0]->id].array = array_keep(from);
        run->lanes = from->n;
        run_region(run, op, body);
        run->lanes = lanes;
        result = run_operand(run, body->last, 0);
        result = lanes ? array_keep(result) : array_alias(run, op, op->results[0]->type, result);
        drop_block(run, body);
    } else {
        result = array_of_type(run, op, op->results[0]->type);
    }
    const NamedFunction *named = named_function(op_word(op, ATTR_FN));
    if (named->share > 0 && from->samples && run->options->bounds) {
        spread_bound(run, op, from, result);
    } else if (run->sums_exponentials && run->options->bounds &&
               text_equal(op_word(op, ATTR_FN), "exp")) {
        spread_summed(run, op, result);
    }
    run_result(run, op, 0, result);
}

/* A quotient by what elements share (passes/tensor/share_reciprocals.c). */
static bool may_take_reciprocal(const Op *op)
{
    return op->kind == OP_DIV && op->results[0]->type->dtype == DT_F32 &&
           value_def_of_kind(op->operands[1], OP_BROADCAST);
}

void interp_elementwise(InterpRun *run, const Op *op)
{
    if (op->kind == OP_NAMED) {
        interp_named(run, op);
        return;
    }
    Operands all = operands_of(run, op);
    Array *hull = NULL;
    if (op->kind == OP_CAST && dtype_is_narrow(op->results[0]->type->dtype) && all.inexact) {
        hull = hull_of(run, op, all.items[0]);
        all.items[0] = hull;
    }
    Array *result = array_of_type(run, op, op->results[0]->type);
    if (result->n != all.items[0]->n) {
        run_fail(run, op, "%lld elements become %lld", (long long)all.items[0]->n,
                 (long long)result->n);
    }
    apply(run, op->kind, op_word(op, ATTR_PRED), &all, result);
    if (all.inexact && rounds(op)) {
        spread_rounding(op, &all, result);
    }
    if (all.inexact && run->options->bounds && may_take_reciprocal(op)) {
        array_spread_share(run, result, run->source[op->results[0]->id], 0x1p-21, 0);
    }
    interp_free_steps(run, op, all.items, result);
    if (hull && run->options->bounds && cast_rounds_factor(op)) { /* twice half a unit */
        bool half = result->dtype == DT_F16;
        array_spread_share(run, result, run->source[op->results[0]->id], half ? 0x1p-10 : 0x1p-7,
                           half ? 0x1p-24 : 0x1p-133);
    }
    if (op->kind == OP_FAST_EXP2 && run->options->bounds) {
        /* The hardware exponential is exact at 0, has a relative bound, and flushes subnormals. */
        const Array *from = all.items[0];
        array_want_samples(run, result);
        for (int64_t i = 0; i < result->n; i++) {
            double value = array_scalar(result, i).f;
            double bound = fabs(value) * 0x1p-21;
            if (value == 1 && array_scalar(from, i).f == 0) {
                continue;
            }
            if (fabs(value) < 0x1p-126 && !isinf(array_scalar(from, i).f)) {
                bound += value == 0 ? 0x1p-149 : 0x1p-126;
            }
            array_spread(run, result, run->source[op->results[0]->id], i,
                         isfinite(value) ? bound : 0);
        }
    }
    if (op_has_exact_operand(op->kind) && run->options->bounds) {
        spread_bound(run, op, all.items[0], result);
    }
    if (run->options->bounds) {
        interp_spread_addends(run, op, all.items, result);
    }
    array_drop(run, hull);
    for (int i = 0; i < all.n; i++) {
        array_drop(run, all.made[i]);
    }
    run_result(run, op, 0, result);
}
