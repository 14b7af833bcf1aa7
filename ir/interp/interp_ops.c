/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that create values (constants, indices), elementwise ops, and ops that change shapes. */
#include "ir/interp/interp_internal.h"
#include "ir/interp/interp_reduce.h"
#include "ir/scalar_eval.h"
#include "ir/summed_factor.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- elementwise ---- */

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
    const double *bound = (const double *)(const void *)bounds->bytes;
    for (int64_t i = 0; i < hull->n; i++) {
        array_spread(run, hull, run->source[op->results[0]->id], i, bound[i]);
    }
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

/* What an f32 op gives before it is rounded; of an f64 op, what it gives. */
static double before_rounding(const Op *op, const Operands *all, int sample, int64_t i)
{
    Scalar operands[3];
    for (int k = 0; k < all->n; k++) {
        const Array *item = all->items[k];
        const unsigned char *plane = array_plane((Array *)item, item->samples ? sample : -1);
        size_t bytes = (size_t)dtype_bytes(item->dtype);
        operands[k] = scalar_load(item->dtype, plane + (size_t)i * bytes);
    }
    return scalar_op(op->kind, NULL, DT_F64, DT_F64, operands).f;
}

/* Where an operand is off, the result may round the other way, if what it is off by reaches the
 * middle of the two: rint(x) by adding 1.5 * 2^23 does not change for an x that is off by little.
 * A later difference keeps that, even
 * where what the operands are off by cancels in it: (t - x) - (t - y) for a t that is off. */
static void spread_rounding(const Op *op, const Operands *all, Array *result)
{
    for (int s = WHOLE_SAMPLES; s < SAMPLES; s++) {
        for (int64_t i = 0; i < result->n; i++) {
            bool off = false;
            for (int k = 0; k < all->n && !off; k++) {
                const Array *item = all->items[k];
                size_t bytes = (size_t)dtype_bytes(item->dtype), at = (size_t)i * bytes;
                off = item->samples && memcmp((unsigned char *)array_plane(item, -1) + at,
                                              (unsigned char *)array_plane(item, s) + at, bytes);
            }
            if (off) {
                double exact = before_rounding(op, all, s, i);
                double by = result->dtype == DT_F32
                                ? fabs(exact - before_rounding(op, all, -1, i))
                                : INFINITY;
                array_round_either_way(result, op->results[0]->id, s, i, exact, by);
            }
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
    }
    run_result(run, op, 0, result);
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

/* ---- strided copies ---- */

#define GATHER(T)                                                                                  \
    for (int64_t i = 0; i < count; i++) {                                                          \
        ((T *)to)[i] = ((const T *)from)[i * stride];                                              \
    }                                                                                              \
    break

static void gather_row(int bytes, int64_t count, int64_t stride, void *to, const void *from)
{
    switch (bytes) {
    case 1: GATHER(uint8_t);
    case 2: GATHER(uint16_t);
    case 4: GATHER(uint32_t);
    default: GATHER(uint64_t);
    }
}

/* One plane: element (i0, i1, …) of the result is the operand's at sum of i * stride. */
static void gather(int rank, const int64_t *dims, const int64_t *strides, int bytes,
                   unsigned char *to, const unsigned char *from)
{
    int64_t at[MAX_RANK] = {0}, offset = 0, rows = 1;
    int64_t count = rank ? dims[rank - 1] : 1, stride = rank ? strides[rank - 1] : 0;
    for (int i = 0; i + 1 < rank; i++) {
        rows *= dims[i];
    }
    for (int64_t row = 0; row < rows && count; row++) {
        gather_row(bytes, count, stride, to, from + offset * bytes);
        to += count * bytes;
        for (int axis = rank - 2; axis >= 0; axis--) {
            offset += strides[axis];
            if (++at[axis] < dims[axis]) {
                break;
            }
            offset -= strides[axis] * dims[axis];
            at[axis] = 0;
        }
    }
}

static Array *gathered(InterpRun *run, const Op *op, const Array *from, const int64_t *strides)
{
    Array *to = array_of_type(run, op, op->results[0]->type);
    int bytes = dtype_bytes(to->dtype);
    gather(to->rank, to->dims, strides, bytes, array_plane(to, -1), array_plane(from, -1));
    if (from->poison) {
        to->poison = buffer_new(run, (size_t)to->n);
        gather(to->rank, to->dims, strides, 1, to->poison->bytes, from->poison->bytes);
    }
    if (from->samples) {
        to->samples = buffer_new(run, (size_t)to->n * (size_t)bytes * SAMPLES);
        for (int s = 0; s < SAMPLES; s++) {
            gather(to->rank, to->dims, strides, bytes, array_plane(to, s), array_plane(from, s));
        }
    }
    return to;
}

static void strides_of(const Array *array, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = array->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= array->dims[i];
    }
}

static void broadcast(InterpRun *run, const Op *op, Array *from)
{
    int64_t own[MAX_RANK], strides[MAX_RANK] = {0};
    int lead = op->results[0]->type->rank - from->rank;
    strides_of(from, own);
    for (int i = 0; i < from->rank; i++) {
        int64_t to = run_dim(run, op, run->extents, op->results[0]->type->dims[lead + i]);
        strides[lead + i] = from->dims[i] == to ? own[i] : 0;
        if (from->dims[i] != to && from->dims[i] != 1) {
            run_fail(run, op, "axis %d has %lld elements, not 1", i, (long long)from->dims[i]);
        }
    }
    run_result(run, op, 0, gathered(run, op, from, strides));
}

static void permute(InterpRun *run, const Op *op, Array *from)
{
    int64_t own[MAX_RANK], strides[MAX_RANK];
    const Attr *perm = op_attr(op, ATTR_PERM);
    strides_of(from, own);
    for (int i = 0; i < from->rank; i++) {
        strides[i] = own[perm->ints[i]];
    }
    run_result(run, op, 0, gathered(run, op, from, strides));
}

/* ---- strips of a tile ---- */

static void front(InterpRun *run, const Op *op, Array *from)
{
    int64_t strides[MAX_RANK];
    strides_of(from, strides);
    run_result(run, op, 0, gathered(run, op, from, strides));
}

/* ---- mask ---- */

static Scalar attr_scalar(const Op *op, DType dtype)
{
    const Attr *attr = op_attr(op, ATTR_VALUE);
    if (!attr) {
        return dtype_is_float(dtype) ? (Scalar){.f = 0} : (Scalar){.i = 0};
    }
    return dtype_is_float(dtype) ? (Scalar){.f = attr->f} : (Scalar){.i = attr->i};
}

static Array *copy_of(InterpRun *run, const Array *from)
{
    Array *to = array_new(run, from->dtype, from->rank, from->dims);
    size_t bytes = (size_t)(from->n * dtype_bytes(from->dtype));
    memcpy(to->data->bytes, from->data->bytes, bytes);
    if (from->poison) {
        array_want_poison(run, to);
        memcpy(to->poison->bytes, from->poison->bytes, (size_t)from->n);
    }
    if (from->samples) {
        to->samples = buffer_new(run, bytes * SAMPLES);
        memcpy(to->samples->bytes, from->samples->bytes, bytes * SAMPLES);
    }
    return to;
}

/* What moves in has no value: it is poison. */
static void advance(InterpRun *run, const Op *op, const Array *from)
{
    Array *to = copy_of(run, from);
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t step = op_int(op, ATTR_STEP, 0), inner = 1;
    for (int i = axis + 1; i < to->rank; i++) {
        inner *= to->dims[i];
    }
    array_want_poison(run, to);
    size_t bytes = (size_t)dtype_bytes(to->dtype);
    for (int64_t i = 0; i < to->n; i++) {
        bool has = i / inner % to->dims[axis] + step < to->dims[axis];
        int64_t source = has ? i + step * inner : i;
        for (int s = -1; s < (to->samples ? SAMPLES : 0); s++) {
            const unsigned char *plane = array_plane(from, s);
            memcpy((unsigned char *)array_plane(to, s) + (size_t)i * bytes,
                   plane + (size_t)source * bytes, bytes);
        }
        to->poison->bytes[i] = has && from->poison ? from->poison->bytes[source] : !has;
    }
    run_result(run, op, 0, to);
}

static void mask(InterpRun *run, const Op *op, const Array *from)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    DimVar *range = poly_as_range(op->operands[0]->type->dims[axis]);
    int64_t len = range ? run->lens[range->id] : from->dims[axis];
    int64_t lo = range && range->binder ? run->cells[range->binder->id].range.lo : 0;
    Scalar value = attr_scalar(op, from->dtype);
    Array *to = copy_of(run, from);
    int64_t inner = 1;
    for (int i = axis + 1; i < to->rank; i++) {
        inner *= to->dims[i];
    }
    int64_t extent = to->dims[axis];
    for (int64_t i = 0; i < to->n && (len < extent || lo < 0); i++) {
        int64_t at = i / inner % extent;
        if (at >= len || at + lo < 0) {
            /* A masked element takes the value in all samples, and is no poison. */
            size_t bytes = (size_t)dtype_bytes(to->dtype);
            for (int s = -1; s < (to->samples ? SAMPLES : 0); s++) {
                scalar_store(to->dtype, (unsigned char *)array_plane(to, s) + (size_t)i * bytes,
                             value);
            }
            if (to->poison) {
                to->poison->bytes[i] = 0;
            }
        }
    }
    run_result(run, op, 0, to);
}

/* ---- values from nothing ---- */

static void set_integer(InterpRun *run, const Op *op, int64_t value)
{
    Array *array = array_of_type(run, op, op->results[0]->type);
    array_fill(array, (Scalar){.i = value});
    run_result(run, op, 0, array);
}

static void count_from(InterpRun *run, const Op *op, int64_t first)
{
    Array *array = array_of_type(run, op, op->results[0]->type);
    bool floats = dtype_is_float(array->dtype);
    for (int64_t i = 0; i < array->n; i++) {
        Scalar at = floats ? (Scalar){.f = (double)(first + i)} : (Scalar){.i = first + i};
        scalar_store(array->dtype, array_at(array, i), at);
    }
    run_result(run, op, 0, array);
}

static void constant(InterpRun *run, const Op *op)
{
    Array *array = array_of_type(run, op, op->results[0]->type);
    array_fill(array, attr_scalar(op, array->dtype));
    run_result(run, op, 0, array);
}

/* N - 1 is -1 where N is 0: no extent, and none can be wrong by it. */
static int64_t size_value(InterpRun *run, const Op *op)
{
    int64_t value;
    if (!poly_eval(op_attr(op, ATTR_DIM)->dims[0], run->lens, &value)) {
        run_refuse(run, DIAG_SOURCE, op, "a size overflows");
    }
    return value;
}

static bool from_nothing(InterpRun *run, const Op *op)
{
    switch (op->kind) {
    case OP_CONST: constant(run, op); return true;
    case OP_SIZE: set_integer(run, op, size_value(run, op)); return true;
    case OP_INDEX: count_from(run, op, run->cells[op->operands[0]->id].range.lo); return true;
    case OP_IOTA: count_from(run, op, 0); return true;
    case OP_START: set_integer(run, op, run->cells[op->operands[0]->id].range.lo); return true;
    case OP_END: set_integer(run, op, run->cells[op->operands[0]->id].range.end); return true;
    case OP_LEN: {
        Range range = run->cells[op->operands[0]->id].range;
        set_integer(run, op, range.end - range.lo);
        return true;
    }
    default: return false;
    }
}

void interp_shape(InterpRun *run, const Op *op)
{
    if (from_nothing(run, op)) {
        return;
    }
    Array *from = run_operand(run, op, 0);
    switch (op->kind) {
    case OP_BROADCAST: broadcast(run, op, from); break;
    case OP_PERMUTE: permute(run, op, from); break;
    case OP_MASK: mask(run, op, from); break;
    case OP_FRONT: front(run, op, from); break;
    case OP_ADVANCE: advance(run, op, from); break;
    default: /* expand, squeeze, convert: the same elements */
        run_result(run, op, 0, array_alias(run, op, op->results[0]->type, from));
        break;
    }
}
