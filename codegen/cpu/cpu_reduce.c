/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions. Along the vector axis there are several vector accumulators, which are combined in
 * halves at the end; along another axis a vector of adjacent results is reduced at a time. */
#include "codegen/cpu/cpu_emit.h"

enum {
    ACCUMULATORS = 8,
    MAX_ACCUMULATORS = 16,
    LIGHT = 6,      /* operations of an element next to which its latency shows */
    SHORT_ROW = 32, /* vectors, below which folding their lanes shows */
};

typedef struct Reduce {
    OpKind reduction;
    DType dtype;
    const Value *value;
    int axis;
    LLVMValueRef len; /* of the axis */
    const Buffer *to;
    LLVMValueRef cell; /* the accumulator that the body adds to */
    int n;             /* accumulators */
    bool given;        /* by `unroll` */
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

/* The number of accumulators: as `unroll` says, or several where little is computed for an element
 * (a long computation hides its latency itself), but not more than `len` elements have vectors. */
static int vectors_at_once(const CpuEmitter *c, const Reduce *reduce, int64_t len)
{
    const CpuValue *facts = &c->values[reduce->value->id];
    int n = facts->buffer || facts->cost <= LIGHT ? ACCUMULATORS : 1;
    n = c->unroll > 0 ? c->unroll : n;
    while (n > 1 && len < (int64_t)n * c->lanes) {
        n /= 2;
    }
    return n;
}

/* Rows that n vectors of columns are added of at a time, in sums of their own. */
static int rows_at_once(const CpuEmitter *c, const Reduce *reduce, int n)
{
    const CpuValue *facts = &c->values[reduce->value->id];
    bool light = facts->buffer || facts->cost <= LIGHT;
    int64_t len = INT64_MAX;
    cpu_constant(reduce->len, &len);
    int rows = light && !reduce->given ? ACCUMULATORS / n : 1;
    while (rows > 1 && len < 2 * (int64_t)rows) {
        rows /= 2;
    }
    return rows > 1 ? rows : 1;
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

/* A row as one vector, whose lanes are still to be folded. */
static LLVMValueRef row_vector(CpuEmitter *c, Reduce *reduce, Point *point)
{
    LLVMValueRef cells[MAX_ACCUMULATORS];
    int64_t len = INT64_MAX;
    cpu_constant(reduce->len, &len);
    reduce->n = vectors_at_once(c, reduce, len);
    for (int i = 0; i < reduce->n; i++) {
        cells[i] = new_accumulator(c, reduce, c->lanes);
    }
    reduce->cell = cells[0];
    if (reduce->n == 1) {
        cpu_vector_loop(c, point, reduce->len, chunk_body, reduce);
        return cpu_get(c, cells[0]);
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
    for (int n = reduce->n / 2; n >= 1; n /= 2) {
        for (int i = 0; i < n; i++) {
            sums[i] = scalar_combine(c->l, reduce->reduction, reduce->dtype, sums[i], sums[i + n]);
        }
    }
    return sums[0];
}

/* The row at a point that has no vector axis. */
static LLVMValueRef row_at(CpuEmitter *c, Reduce *reduce, const Point *point)
{
    Point inner = *point;
    inner.vector_axis = reduce->axis;
    inner.at[reduce->axis] = llvm_i64(c->l, 0);
    cpu_new_walk(c);
    cpu_hoist(c, reduce->value, &inner);
    return row_vector(c, reduce, &inner);
}

static void row_body(CpuEmitter *c, const Point *point, void *user)
{
    Reduce *reduce = user;
    size_t known = c->known.n;
    cpu_buffer_store(c, reduce->to, point, fold(c, reduce, row_at(c, reduce, point)));
    c->known.n = known;
}

/* Rows that lie side by side in the result. */
typedef struct Rows {
    Reduce *reduce;
    int axis;
    LLVMValueRef len;
    const Buffer *vectors; /* of as many rows as a vector has lanes */
} Rows;

/* Lane i of the result is what `fold` makes of the i-th vector, by the same combinations: of two
 * vectors the lower halves are combined with the upper ones at once, then of what that makes of two
 * pairs the lower quarters with the upper ones, and so on. */
static LLVMValueRef fold_rows(CpuEmitter *c, const Reduce *reduce, LLVMValueRef *vectors)
{
    int lanes = c->lanes;
    LLVMValueRef low[64], high[64];
    for (int width = lanes / 2, n = lanes; width >= 1; width /= 2, n /= 2) {
        for (int i = 0; i < lanes; i++) { /* runs of `width` lanes from both vectors */
            int from = i / width * 2 * width + i % width;
            low[i] = llvm_i32(c->l, from);
            high[i] = llvm_i32(c->l, from + width);
        }
        LLVMValueRef lows = LLVMConstVector(low, (unsigned)lanes);
        LLVMValueRef highs = LLVMConstVector(high, (unsigned)lanes);
        for (int i = 0; i < n / 2; i++) {
            LLVMValueRef a = vectors[2 * i], b = vectors[2 * i + 1];
            vectors[i] = scalar_combine(c->l, reduce->reduction, reduce->dtype,
                                        LLVMBuildShuffleVector(c->l->builder, a, b, lows, ""),
                                        LLVMBuildShuffleVector(c->l->builder, a, b, highs, ""));
        }
    }
    return vectors[0];
}

static void rows_body(CpuEmitter *c, const Point *point, void *user)
{
    const Rows *rows = user;
    LLVMValueRef vectors[64], lanes = llvm_i64(c->l, c->lanes);
    LLVMValueRef full = LLVMBuildAnd(c->l->builder, rows->len, llvm_i64(c->l, -c->lanes), "");
    Point at = *point, cell = {.rank = 2, .vector_axis = 1};
    cell.at[1] = llvm_i64(c->l, 0);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), full, c->lanes);
    Loop inner = cpu_loop_begin(c, llvm_i64(c->l, 0), lanes, 1);
    at.at[rows->axis] = cpu_add(c, loop.counter, inner.counter);
    cell.at[0] = inner.counter;
    cpu_buffer_store(c, rows->vectors, &cell, row_at(c, rows->reduce, &at));
    cpu_loop_end(c, &inner);
    for (int i = 0; i < c->lanes; i++) {
        cell.at[0] = llvm_i64(c->l, i);
        vectors[i] = cpu_buffer_load(c, rows->vectors, &cell);
    }
    at.at[rows->axis] = loop.counter;
    at.vector_axis = rows->axis;
    cpu_buffer_store(c, rows->reduce->to, &at, fold_rows(c, rows->reduce, vectors));
    cpu_loop_end(c, &loop);
    at.vector_axis = -1;
    Loop rest = cpu_loop_begin(c, full, rows->len, 1);
    at.at[rows->axis] = rest.counter;
    row_body(c, &at, rows->reduce);
    cpu_loop_end(c, &rest);
}

/* Reduces along the vectors: `nest` is over the results. Of rows so short that folding the lanes of
 * one takes long compared to it, as many as there are lanes are folded together. */
static void reduce_rows(CpuEmitter *c, Reduce *reduce, Nest *nest)
{
    Rows rows = {.reduce = reduce, .axis = nest->vector_axis};
    Type type = reduce->value->type;
    bool together = rows.axis >= 0 && reduce->dtype != DT_BOOL &&
                    cpu_capacity(c, type->dims[rows.axis]) >= c->lanes &&
                    cpu_capacity(c, type->dims[reduce->axis]) <= (int64_t)SHORT_ROW * c->lanes;
    nest->vector_axis = -1;
    nest->body = row_body;
    nest->user = reduce;
    if (together) {
        int64_t extents[2] = {c->lanes, c->lanes};
        Buffer *vectors = cpu_buffer_shape(c, reduce->dtype, 2, extents);
        cpu_buffer_place(c, vectors, c->now);
        rows.vectors = vectors;
        rows.len = nest->lens[rows.axis];
        nest->lens[rows.axis] = llvm_i64(c->l, 1);
        nest->body = rows_body;
        nest->user = &rows;
    }
    cpu_nest(c, nest);
}

/* ---- along another axis ---- */

/* Where the k-th of several vectors of columns stands. */
static LLVMValueRef vector_place(CpuEmitter *c, const Point *point, int k)
{
    LLVMValueRef at = point->at[point->vector_axis];
    return k ? cpu_add(c, at, llvm_i64(c->l, (int64_t)k * c->lanes)) : at;
}

/* Adds a row of n vectors to as many sums. */
static void add_row(CpuEmitter *c, const Reduce *reduce, const Point *point, LLVMValueRef row,
                    LLVMValueRef *cells, int n)
{
    Point inner = *point;
    inner.at[reduce->axis] = row;
    for (int k = 0; k < n; k++) {
        if (n > 1) {
            inner.at[point->vector_axis] = vector_place(c, point, k);
        }
        accumulate(c, reduce, cells[k], &inner);
    }
}

/* n vectors of adjacent results at a time: of each row that is walked, several cache lines are read
 * one behind the other, and as many sums are on their way; of few vectors several rows. */
static void column_block(CpuEmitter *c, Reduce *reduce, const Point *point, int n)
{
    LLVMValueRef cells[MAX_ACCUMULATORS], zero = llvm_i64(c->l, 0);
    int lanes = point->vector_axis < 0 ? 1 : c->lanes, rows = rows_at_once(c, reduce, n);
    for (int k = 0; k < rows * n; k++) {
        cells[k] = new_accumulator(c, reduce, lanes);
    }
    LLVMValueRef full = zero;
    if (rows > 1) {
        full = LLVMBuildAnd(c->l->builder, reduce->len, llvm_i64(c->l, -rows), "");
        Loop loop = cpu_loop_begin(c, zero, full, rows);
        for (int i = 0; i < rows; i++) {
            LLVMValueRef row = cpu_add(c, loop.counter, llvm_i64(c->l, i));
            add_row(c, reduce, point, row, cells + (ptrdiff_t)i * n, n);
        }
        cpu_loop_end(c, &loop);
    }
    Loop loop = cpu_loop_begin(c, full, reduce->len, 1);
    add_row(c, reduce, point, loop.counter, cells, n);
    cpu_loop_end(c, &loop);
    Point there = *point;
    for (int k = 0; k < n; k++) {
        LLVMValueRef sum = cpu_get(c, cells[k]);
        for (int i = 1; i < rows; i++) {
            sum = scalar_combine(c->l, reduce->reduction, reduce->dtype, sum,
                                 cpu_get(c, cells[i * n + k]));
        }
        if (n > 1) {
            there.at[point->vector_axis] = vector_place(c, point, k);
        }
        cpu_buffer_store(c, reduce->to, &there, sum);
    }
}

static void column_body(CpuEmitter *c, const Point *point, void *user)
{
    column_block(c, user, point, 1);
}

typedef struct Columns {
    Reduce *reduce;
    int axis;         /* along which vectors lie */
    LLVMValueRef len; /* of it */
    LLVMValueRef from;
} Columns;

static void rest_body(CpuEmitter *c, const Point *point, void *user)
{
    const Columns *columns = user;
    Point there = *point;
    there.at[columns->axis] = cpu_add(c, columns->from, point->at[columns->axis]);
    column_block(c, columns->reduce, &there, 1);
}

/* All columns of one place along the other axes. */
static void columns_body(CpuEmitter *c, const Point *point, void *user)
{
    Columns *columns = user;
    Point inner = *point;
    inner.vector_axis = columns->axis;
    int64_t step = (int64_t)columns->reduce->n * c->lanes;
    size_t known = c->known.n;
    columns->from = LLVMBuildAnd(c->l->builder, columns->len, llvm_i64(c->l, -step), "");
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), columns->from, step);
    inner.at[columns->axis] = loop.counter;
    column_block(c, columns->reduce, &inner, columns->reduce->n);
    cpu_loop_end(c, &loop);
    int unroll = c->unroll;
    c->unroll = 1;
    cpu_vector_loop(c, &inner, cpu_sub(c, columns->len, columns->from), rest_body, columns);
    c->unroll = unroll;
    c->known.n = known;
}

/* Reduces across the vectors: `nest` is over the results. */
static void reduce_columns(CpuEmitter *c, Reduce *reduce, Nest *nest)
{
    Columns columns = {.reduce = reduce, .axis = nest->vector_axis};
    int64_t capacity =
        columns.axis < 0 ? 1 : cpu_capacity(c, reduce->value->type->dims[columns.axis]);
    reduce->n = vectors_at_once(c, reduce, capacity);
    nest->body = column_body;
    nest->user = reduce;
    if (reduce->n > 1) {
        columns.len = nest->lens[columns.axis];
        nest->vector_axis = -1;
        nest->lens[columns.axis] = llvm_i64(c->l, 1);
        nest->body = columns_body;
        nest->user = &columns;
    }
    cpu_nest(c, nest);
}

/* True if vectors go along the reduced axis: it is the natural axis of what is reduced, and no
 * other axis of at least a vector is contiguous in memory where this one is not (x[m, n] summed
 * over m from a tile that has m last). */
static bool goes_along(CpuEmitter *c, const Reduce *reduce, const Nest *over_results)
{
    const Value *value = reduce->value;
    int across = over_results->vector_axis;
    if (cpu_vector_axis(c, value->type) != reduce->axis) {
        return false;
    }
    return across < 0 || cpu_capacity(c, value->type->dims[across]) < c->lanes ||
           cpu_contiguous(c, value, reduce->axis) || !cpu_contiguous(c, value, across);
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
                     1,
                     c->unroll > 0};
    reduce.len = cpu_dim(c, value->type->dims[reduce.axis]);
    reduce.to = cpu_buffer_for(c, result->type, facts->last);
    Nest nest = cpu_nest_over(c, result->type);
    bool along = goes_along(c, &reduce, &nest);
    TurnedParts turned = cpu_turn_parts(c, value, along ? reduce.axis : nest.vector_axis);
    if (along) {
        reduce_rows(c, &reduce, &nest);
    } else {
        reduce_columns(c, &reduce, &nest);
    }
    cpu_turned_done(c, &turned);
    facts->buffer = reduce.to;
}
