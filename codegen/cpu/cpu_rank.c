/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of sorting: histogram, rank, tile_scatter and lookup. Each processes its elements one by
 * one, from a buffer. */
#include "codegen/cpu/cpu_emit.h"

enum { SIDES = 4 }; /* counts of neighbours, that one need not wait for the other */

typedef struct Walk {
    LLVMValueRef at, digit; /* i64 */
    Loop loop;
    Branch inside;
} Walk;

static LLVMValueRef first_of(CpuEmitter *c, const Buffer *buffer)
{
    LLVMValueRef zero = llvm_i64(c->l, 0);
    return cpu_buffer_address(c, buffer, &zero);
}

static const Buffer *in_memory(CpuEmitter *c, const Value *value)
{
    const Buffer *buffer = c->values[value->id].buffer;
    if (!buffer) {
        buffer = cpu_buffer_for(c, value->type, c->now);
        cpu_fill_buffer(c, buffer, value);
    }
    return buffer;
}

/* Over the elements whose digit is one of the groups. */
static Walk walk_begin(CpuEmitter *c, const Value *digits, int64_t groups)
{
    Walk walk;
    const Buffer *buffer = in_memory(c, digits);
    LLVMValueRef len = cpu_dim(c, digits->type->dims[0]);
    walk.loop = cpu_loop_begin(c, llvm_i64(c->l, 0), len, 1);
    walk.at = walk.loop.counter;
    LLVMValueRef from = cpu_element(c, DT_I32, first_of(c, buffer), walk.at);
    LLVMValueRef digit = cpu_load_at(c, DT_I32, from, 1);
    walk.digit = LLVMBuildZExt(c->l->builder, digit, c->l->i64, "");
    walk.inside = cpu_if_begin(
        c, LLVMBuildICmp(c->l->builder, LLVMIntULT, walk.digit, llvm_i64(c->l, groups), ""));
    return walk;
}

static void walk_end(CpuEmitter *c, Walk *walk)
{
    cpu_if_end(c, &walk->inside);
    cpu_loop_end(c, &walk->loop);
}

/* What was there. */
static LLVMValueRef add_one(CpuEmitter *c, DType dtype, LLVMValueRef address)
{
    LLVMValueRef before = cpu_load_at(c, dtype, address, 1);
    LLVMValueRef one = LLVMConstInt(LLVMTypeOf(before), 1, false);
    cpu_store_at(c, dtype, address, LLVMBuildAdd(c->l->builder, before, one, ""));
    return before;
}

static int64_t groups_of(const Value *value)
{
    return poly_capacity(value->type->dims[0]);
}

/* ---- histogram ---- */

static void join_sides(CpuEmitter *c, const Buffer *sides, const Buffer *to, int64_t groups)
{
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), llvm_i64(c->l, groups), 1);
    LLVMValueRef sum = llvm_i32(c->l, 0);
    for (int side = 0; side < SIDES; side++) {
        LLVMValueRef at = cpu_add(c, loop.counter, llvm_i64(c->l, side * groups));
        at = cpu_element(c, DT_I32, first_of(c, sides), at);
        sum = LLVMBuildAdd(c->l->builder, sum, cpu_load_at(c, DT_I32, at, 1), "");
    }
    cpu_store_at(c, DT_I32, cpu_element(c, DT_I32, first_of(c, to), loop.counter), sum);
    cpu_loop_end(c, &loop);
}

void cpu_emit_histogram(CpuEmitter *c, const Op *op)
{
    const Value *result = op->results[0];
    int64_t groups = groups_of(result);
    const Buffer *to = cpu_buffer_for(c, result->type, c->values[result->id].last);
    /* The counters of both sides start at zero. */
    int64_t extents[] = {SIDES * groups};
    Buffer *sides = cpu_buffer_shape(c, DT_I32, 1, extents);
    cpu_buffer_place(c, sides, c->now);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), llvm_i64(c->l, extents[0]), 1);
    LLVMValueRef point = cpu_element(c, DT_I32, first_of(c, sides), loop.counter);
    cpu_store_at(c, DT_I32, point, llvm_i32(c->l, 0));
    cpu_loop_end(c, &loop);
    Walk walk = walk_begin(c, op->operands[0], groups);
    LLVMValueRef side = LLVMBuildAnd(c->l->builder, walk.at, llvm_i64(c->l, SIDES - 1), "");
    LLVMValueRef at = cpu_add(c, cpu_mul_const(c, side, groups), walk.digit);
    add_one(c, DT_I32, cpu_element(c, DT_I32, first_of(c, sides), at));
    walk_end(c, &walk);
    join_sides(c, sides, to, groups);
    c->values[result->id].buffer = to;
}

/* ---- rank ---- */

void cpu_emit_rank(CpuEmitter *c, const Op *op)
{
    const Buffer *next[MAX_TABLES], *to[MAX_TABLES];
    for (int i = 0; i < op->n_results; i++) {
        const Value *result = op->results[i];
        next[i] = cpu_take_over(c, op->operands[i + 1], c->now);
        to[i] = cpu_buffer_for(c, result->type, c->values[result->id].last);
    }
    Walk walk = walk_begin(c, op->operands[0], groups_of(op->operands[1]));
    for (int i = 0; i < op->n_results; i++) {
        DType dtype = op->results[i]->type->dtype;
        LLVMValueRef at = cpu_element(c, dtype, first_of(c, next[i]), walk.digit);
        LLVMValueRef rank = add_one(c, dtype, at);
        cpu_store_at(c, dtype, cpu_element(c, dtype, first_of(c, to[i]), walk.at), rank);
    }
    walk_end(c, &walk);
    for (int i = 0; i < op->n_results; i++) {
        c->values[op->results[i]->id].buffer = to[i];
    }
}

/* ---- tile_scatter ---- */

void cpu_emit_arrange(CpuEmitter *c, const Op *op)
{
    const Value *result = op->results[0], *places = op->operands[1];
    DType dtype = result->type->dtype, index = places->type->dtype;
    const Buffer *from = in_memory(c, op->operands[0]), *where = in_memory(c, places);
    const Buffer *to = cpu_buffer_for(c, result->type, c->values[result->id].last);
    LLVMValueRef len = cpu_dim(c, result->type->dims[0]);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), len, 1);
    LLVMValueRef at = cpu_element(c, index, first_of(c, where), loop.counter);
    LLVMValueRef place = LLVMBuildSExt(c->l->builder, cpu_load_at(c, index, at, 1), c->l->i64, "");
    Branch inside = cpu_if_begin(c, LLVMBuildICmp(c->l->builder, LLVMIntULT, place, len, ""));
    LLVMValueRef value = cpu_element(c, dtype, first_of(c, from), loop.counter);
    value = cpu_load_at(c, dtype, value, 1);
    cpu_store_at(c, dtype, cpu_element(c, dtype, first_of(c, to), place), value);
    cpu_if_end(c, &inside);
    cpu_loop_end(c, &loop);
    c->values[result->id].buffer = to;
}

/* ---- lookup ---- */

void cpu_emit_lookup(CpuEmitter *c, const Op *op)
{
    const Value *result = op->results[0];
    DType dtype = result->type->dtype;
    const Buffer *table = in_memory(c, op->operands[0]);
    const Buffer *to = cpu_buffer_for(c, result->type, c->values[result->id].last);
    Walk walk = walk_begin(c, op->operands[1], groups_of(op->operands[0]));
    LLVMValueRef at = cpu_element(c, dtype, first_of(c, table), walk.digit);
    LLVMValueRef value = cpu_load_at(c, dtype, at, 1);
    cpu_store_at(c, dtype, cpu_element(c, dtype, first_of(c, to), walk.at), value);
    walk_end(c, &walk);
    c->values[result->id].buffer = to;
}
