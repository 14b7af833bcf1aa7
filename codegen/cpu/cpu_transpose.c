/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that lie contiguous along one axis and are put where another one is contiguous: a square
 * of lanes × lanes of them is computed in vectors along the first, transposed in registers, and put
 * in vectors along the second. What is left at the ends of both axes is computed in vectors along
 * the second, whose elements are read one by one. */
#include "codegen/cpu/cpu_emit.h"

/* In log2(lanes) passes, each of which interleaves halves and rotates the bits of (vector, lane) by
 * one. */
void cpu_transpose(CpuEmitter *c, LLVMValueRef *rows)
{
    int n = c->lanes;
    LLVMValueRef low[64], high[64], next[64];
    for (int i = 0; i < n / 2; i++) {
        low[2 * i] = llvm_i32(c->l, i);
        low[2 * i + 1] = llvm_i32(c->l, n + i);
        high[2 * i] = llvm_i32(c->l, n / 2 + i);
        high[2 * i + 1] = llvm_i32(c->l, n + n / 2 + i);
    }
    LLVMValueRef low_mask = LLVMConstVector(low, (unsigned)n);
    LLVMValueRef high_mask = LLVMConstVector(high, (unsigned)n);
    for (int pass = 1; pass < n; pass *= 2) {
        for (int i = 0; i < n / 2; i++) {
            LLVMValueRef a = rows[i], b = rows[i + n / 2];
            next[2 * i] = LLVMBuildShuffleVector(c->l->builder, a, b, low_mask, "");
            next[2 * i + 1] = LLVMBuildShuffleVector(c->l->builder, a, b, high_mask, "");
        }
        for (int i = 0; i < n; i++) {
            rows[i] = next[i];
        }
    }
}

int cpu_turned_axis(CpuEmitter *c, const Value *value, int vector_axis)
{
    Type type = value->type;
    bool none = vector_axis < 0 || dtype_is_packed(type->dtype) || type->dtype == DT_BOOL ||
                cpu_capacity(c, type->dims[vector_axis]) < c->lanes ||
                cpu_contiguous(c, value, vector_axis);
    for (int i = 0; i < type->rank && !none; i++) {
        if (i != vector_axis && cpu_capacity(c, type->dims[i]) >= c->lanes &&
            cpu_contiguous(c, value, i)) {
            return i;
        }
    }
    return -1;
}

typedef struct Turn {
    const Value *value;
    int from, to; /* axes: elements lie contiguous along `from`, and are put along `to` */
    LLVMValueRef from_len, to_len;
    PutBody *put;
    void *user;
} Turn;

/* The vector that stands at `point`. */
static void put_vector(CpuEmitter *c, const Point *point, void *user)
{
    const Turn *turn = user;
    turn->put(c, point, cpu_eval(c, turn->value, point), turn->user);
}

static void put_square(CpuEmitter *c, const Turn *turn, const Point *at)
{
    LLVMValueRef rows[64];
    Point point = *at;
    point.vector_axis = turn->from;
    for (int i = 0; i < c->lanes; i++) {
        point.at[turn->to] = cpu_add(c, at->at[turn->to], llvm_i64(c->l, i));
        rows[i] = cpu_eval(c, turn->value, &point);
    }
    cpu_transpose(c, rows);
    point = *at;
    point.vector_axis = turn->to;
    for (int i = 0; i < c->lanes; i++) {
        point.at[turn->from] = cpu_add(c, at->at[turn->from], llvm_i64(c->l, i));
        turn->put(c, &point, rows[i], turn->user);
    }
}

static LLVMValueRef whole_vectors(CpuEmitter *c, LLVMValueRef len)
{
    int64_t n;
    return cpu_constant(len, &n) ? llvm_i64(c->l, n / c->lanes * c->lanes)
                                 : LLVMBuildAnd(c->l->builder, len, llvm_i64(c->l, -c->lanes), "");
}

typedef struct Columns {
    Turn *turn;
    LLVMValueRef first;
} Columns;

static void put_column(CpuEmitter *c, const Point *point, void *user)
{
    const Columns *columns = user;
    Point there = *point;
    there.at[columns->turn->to] = cpu_add(c, columns->first, point->at[columns->turn->to]);
    put_vector(c, &there, columns->turn);
}

/* Rows `lo` to before `hi`, of columns from `first` on, one row at a time. */
static void put_rows(CpuEmitter *c, Turn *turn, const Point *at, LLVMValueRef lo, LLVMValueRef hi,
                     LLVMValueRef first)
{
    Columns columns = {turn, first};
    Point point = *at;
    int64_t from, to;
    if (cpu_constant(lo, &from) && cpu_constant(hi, &to) && from >= to) {
        return;
    }
    point.vector_axis = turn->to;
    Loop loop = cpu_loop_begin(c, lo, hi, 1);
    point.at[turn->from] = loop.counter;
    cpu_vector_loop(c, &point, cpu_sub(c, turn->to_len, first), put_column, &columns);
    cpu_loop_end(c, &loop);
}

/* All elements of one place along the other axes. */
static void turn_body(CpuEmitter *c, const Point *at, void *user)
{
    Turn *turn = user;
    Point point = *at;
    LLVMValueRef zero = llvm_i64(c->l, 0);
    LLVMValueRef rows = whole_vectors(c, turn->from_len), columns = whole_vectors(c, turn->to_len);
    Loop outer = cpu_loop_begin(c, zero, rows, c->lanes);
    Loop inner = cpu_loop_begin(c, zero, columns, c->lanes);
    point.at[turn->from] = outer.counter;
    point.at[turn->to] = inner.counter;
    put_square(c, turn, &point);
    cpu_loop_end(c, &inner);
    cpu_loop_end(c, &outer);
    int64_t known;
    if (!cpu_constant(turn->to_len, &known) || known % c->lanes != 0) {
        put_rows(c, turn, at, zero, rows, columns);
    }
    put_rows(c, turn, at, rows, turn->from_len, zero);
}

bool cpu_put_turned(CpuEmitter *c, Nest *nest, const Value *value, PutBody *put, void *user)
{
    int from = cpu_turned_axis(c, value, nest->vector_axis);
    if (from < 0) {
        return false;
    }
    Turn turn = {.value = value, .from = from, .to = nest->vector_axis, .put = put, .user = user};
    turn.from_len = nest->lens[turn.from];
    turn.to_len = nest->lens[turn.to];
    nest->lens[turn.from] = nest->lens[turn.to] = llvm_i64(c->l, 1);
    nest->vector_axis = -1;
    nest->hoist = NULL;
    nest->body = turn_body;
    nest->user = &turn;
    cpu_nest(c, nest);
    return true;
}
