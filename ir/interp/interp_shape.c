/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that move elements without changing them, masks of ranges, and values that are made of no
 * operands: constants, indices, sizes. */
#include "ir/interp/interp_internal.h"

#include <string.h>

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
