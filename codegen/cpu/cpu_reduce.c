/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions. Along the vector axis there are several vector accumulators, which are combined in
 * halves at the end; along another axis a vector of adjacent results is reduced at a time. */
#include "codegen/cpu/cpu_emit.h"

enum { ACCUMULATORS = 8, MAX_ACCUMULATORS = 16, LIGHT = 6 };

typedef struct Reduce {
    OpKind reduction;
    DType dtype;
    const Value *value;
    int axis;
    LLVMValueRef len; /* of the axis */
    const Buffer *to;
    LLVMValueRef cell; /* the accumulator that the body adds to */
    int n;             /* accumulators */
} Reduce;

static void accumulate(CpuEmitter *c, const Reduce *reduce, LLVMValueRef cell, const Point *point)
{
    LLVMValueRef value = cpu_eval(c, reduce->value, point);
    LLVMTypeRef type = LLVMTypeOf(value);
    if (point->mask && point->vector_axis == reduce->axis) {
        LLVMValueRef neutral = scalar_neutral(reduce->reduction, reduce->dtype, type);
        value = LLVMBuildSelect(c->l->builder, point->mask, value, neutral, "");
    }
    cpu_set(c, cell,
            scalar_combine(c->l, reduce->reduction, reduce->dtype, cpu_get(c, cell), value));
}

static LLVMValueRef new_accumulator(CpuEmitter *c, const Reduce *reduce, int lanes)
{
    LLVMTypeRef type = llvm_lanes(llvm_type(c->l, reduce->dtype), lanes);
    LLVMValueRef cell = cpu_cell(c, type);
    cpu_set(c, cell, scalar_neutral(reduce->reduction, reduce->dtype, type));
    return cell;
}

/* ---- along the vector axis ---- */

static void chunk_body(CpuEmitter *c, const Point *point, void *user)
{
    const Reduce *reduce = user;
    accumulate(c, reduce, reduce->cell, point);
}

static LLVMValueRef half(CpuEmitter *c, LLVMValueRef vector, int from, int n)
{
    LLVMValueRef lanes[64];
    for (int i = 0; i < n; i++) {
        lanes[i] = llvm_i32(c->l, from + i);
    }
    LLVMValueRef mask = LLVMConstVector(lanes, (unsigned)n);
    LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(vector));
    return LLVMBuildShuffleVector(c->l->builder, vector, none, mask, "");
}

/* Upper half with lower half, until one lane is left: the same order on every run. */
static LLVMValueRef fold(CpuEmitter *c, const Reduce *reduce, LLVMValueRef vector)
{
    for (int n = c->lanes / 2; n >= 1; n /= 2) {
        vector = scalar_combine(c->l, reduce->reduction, reduce->dtype, half(c, vector, 0, n),
                                half(c, vector, n, n));
    }
    return LLVMBuildExtractElement(c->l->builder, vector, llvm_i64(c->l, 0), "");
}

typedef struct Shifted {
    Reduce *reduce;
    LLVMValueRef start;
} Shifted;

static void shifted_body(CpuEmitter *c, const Point *point, void *user)
{
    const Shifted *shifted = user;
    Point there = *point;
    int axis = shifted->reduce->axis;
    there.at[axis] = cpu_add(c, shifted->start, point->at[axis]);
    accumulate(c, shifted->reduce, shifted->reduce->cell, &there);
}

static LLVMValueRef reduce_vectors(CpuEmitter *c, Reduce *reduce, Point *point)
{
    /* The number of accumulators: as `unroll` says, or several where little is computed for an
     * element (a long computation hides its latency itself), but not more than a row has
     * vectors. */
    LLVMValueRef cells[MAX_ACCUMULATORS];
    const CpuValue *facts = &c->values[reduce->value->id];
    int64_t len;
    int n = facts->buffer || facts->cost <= LIGHT ? ACCUMULATORS : 1;
    n = c->unroll > 0 ? c->unroll : n;
    while (n > 1 && cpu_constant(reduce->len, &len) && len < (int64_t)n * c->lanes) {
        n /= 2;
    }
    reduce->n = n;

    for (int i = 0; i < reduce->n; i++) {
        cells[i] = new_accumulator(c, reduce, c->lanes);
    }
    reduce->cell = cells[0];
    if (reduce->n == 1) {
        cpu_vector_loop(c, point, reduce->len, chunk_body, reduce);
        return fold(c, reduce, cpu_get(c, cells[0]));
    }
    /* The remainder behind the accumulators' loop is less than one iteration of it. */
    /* Several vectors per iteration hide the latency of the additions. */
    int64_t step = (int64_t)reduce->n * c->lanes;
    LLVMValueRef from = LLVMBuildAnd(c->l->builder, reduce->len, llvm_i64(c->l, -step), "");
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), from, step);
    for (int k = 0; k < reduce->n; k++) {
        point->at[reduce->axis] = cpu_add(c, loop.counter, llvm_i64(c->l, (int64_t)k * c->lanes));
        accumulate(c, reduce, cells[k], point);
    }
    cpu_loop_end(c, &loop);
    Shifted shifted = {reduce, from};
    int unroll = c->unroll;
    c->unroll = 1;
    cpu_vector_loop(c, point, cpu_sub(c, reduce->len, from), shifted_body, &shifted);
    c->unroll = unroll;
    LLVMValueRef sums[MAX_ACCUMULATORS];
    for (int i = 0; i < reduce->n; i++) {
        sums[i] = cpu_get(c, cells[i]);
    }
    for (n = reduce->n / 2; n >= 1; n /= 2) {
        for (int i = 0; i < n; i++) {
            sums[i] = scalar_combine(c->l, reduce->reduction, reduce->dtype, sums[i], sums[i + n]);
        }
    }
    return fold(c, reduce, sums[0]);
}

/* One result: `point` has no vector axis. */
static void row_body(CpuEmitter *c, const Point *point, void *user)
{
    Reduce *reduce = user;
    Point inner = *point;
    inner.vector_axis = reduce->axis;
    inner.at[reduce->axis] = llvm_i64(c->l, 0);
    size_t known = c->known.n;
    cpu_new_walk(c);
    cpu_hoist(c, reduce->value, &inner);
    cpu_buffer_store(c, reduce->to, point, reduce_vectors(c, reduce, &inner));
    c->known.n = known;
}

/* ---- along another axis ---- */

static void column_body(CpuEmitter *c, const Point *point, void *user)
{
    Reduce *reduce = user;
    Point inner = *point;
    int lanes = point->vector_axis < 0 ? 1 : c->lanes;
    LLVMValueRef cell = new_accumulator(c, reduce, lanes);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), reduce->len, 1);
    inner.at[reduce->axis] = loop.counter;
    accumulate(c, reduce, cell, &inner);
    cpu_loop_end(c, &loop);
    cpu_buffer_store(c, reduce->to, point, cpu_get(c, cell));
}

void cpu_emit_reduce(CpuEmitter *c, const Op *op)
{
    const Value *value = op->operands[0], *result = op->results[0];
    CpuValue *facts = &c->values[result->id];
    Reduce reduce = {scalar_reduction(c->l, op),
                     value->type->dtype,
                     value,
                     (int)op_int(op, ATTR_AXIS, 0),
                     NULL,
                     NULL,
                     NULL,
                     1};
    reduce.len = cpu_dim(c, value->type->dims[reduce.axis]);
    reduce.to = cpu_buffer_for(c, result->type, facts->last);
    Nest nest = cpu_nest_over(c, result->type);
    bool along = cpu_vector_axis(c, value->type) == reduce.axis;
    if (along) {
        nest.vector_axis = -1; /* the rows one by one */
    }
    nest.body = along ? row_body : column_body;
    nest.user = &reduce;
    cpu_nest(c, &nest);
    facts->buffer = reduce.to;
}
