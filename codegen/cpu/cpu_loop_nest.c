/* SPDX-License-Identifier: Apache-2.0 */
/* Emits the loop nests that fill a buffer or a tensor with the elements of an array. */
#include "codegen/cpu/cpu_emit.h"

#include <limits.h>

/* ---- the loops ---- */

/* Whole vectors of one axis, and what is left. */
typedef struct Chunks {
    LLVMValueRef len, full; /* `full`: elements in whole vectors */
    bool any, rest;         /* there may be whole vectors, there may be a rest */
    NestBody *body;
    void *user;
} Chunks;

static Chunks chunks_of(CpuEmitter *c, LLVMValueRef len, NestBody *body, void *user)
{
    int64_t n = 0, lanes = c->lanes;
    Chunks chunks = {.len = len, .any = true, .rest = true, .body = body, .user = user};
    if (cpu_constant(len, &n)) {
        chunks.full = llvm_i64(c->l, n / lanes * lanes);
        chunks.any = n >= lanes;
        chunks.rest = n % lanes != 0;
    } else {
        chunks.full = LLVMBuildAnd(c->l->builder, len, llvm_i64(c->l, -lanes), "");
    }
    return chunks;
}

/* From `from` to `to`, n at a time. */
static void some_chunks(CpuEmitter *c, const Chunks *chunks, Point *point, LLVMValueRef from,
                        LLVMValueRef to, int n, bool down)
{
    Loop loop = cpu_loop_begin(c, from, to, (int64_t)n * c->lanes);
    for (int i = 0; i < n; i++) {
        LLVMValueRef at = cpu_add(c, loop.counter, llvm_i64(c->l, (int64_t)i * c->lanes));
        if (down) {
            LLVMValueRef last = cpu_sub(c, chunks->full, llvm_i64(c->l, c->lanes));
            at = cpu_sub(c, last, at);
        }
        point->at[point->vector_axis] = at;
        chunks->body(c, point, chunks->user);
    }
    cpu_loop_end(c, &loop);
}

static void whole_chunks(CpuEmitter *c, const Chunks *chunks, Point *point, bool down)
{
    LLVMValueRef from = llvm_i64(c->l, 0);
    int64_t n, unroll = c->unroll > 1 ? c->unroll : 1;
    bool known = cpu_constant(chunks->full, &n);
    if (!chunks->any) {
        return;
    }
    if (unroll > 1 && (!known || n >= unroll * c->lanes)) {
        LLVMValueRef end =
            LLVMBuildAnd(c->l->builder, chunks->full, llvm_i64(c->l, -unroll * c->lanes), "");
        some_chunks(c, chunks, point, from, end, (int)unroll, down);
        from = end;
    }
    if (unroll == 1 || !known || n % (unroll * c->lanes) != 0) {
        some_chunks(c, chunks, point, from, chunks->full, 1, down);
    }
}

static void masked_rest(CpuEmitter *c, const Chunks *chunks, Point *point)
{
    if (!chunks->rest) {
        return;
    }
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef any = LLVMBuildICmp(b, LLVMIntSLT, chunks->full, chunks->len, "");
    Branch branch = cpu_if_begin(c, any);
    LLVMTypeRef ints = llvm_lanes(c->l->i32, c->lanes);
    LLVMValueRef left = cpu_sub(c, chunks->len, chunks->full);
    LLVMValueRef rest = LLVMBuildTrunc(b, left, c->l->i32, "");
    point->mask =
        LLVMBuildICmp(b, LLVMIntULT, cpu_iota(c, c->l->i32), llvm_splat(c->l, rest, ints), "");
    point->at[point->vector_axis] = chunks->full;
    chunks->body(c, point, chunks->user);
    cpu_if_end(c, &branch);
    point->mask = NULL;
}

void cpu_vector_loop(CpuEmitter *c, Point *point, LLVMValueRef len, NestBody *body, void *user)
{
    size_t known = c->known.n;
    Chunks chunks = chunks_of(c, len, body, user);
    point->mask = NULL;
    whole_chunks(c, &chunks, point, false);
    masked_rest(c, &chunks, point);
    c->known.n = known;
}

void cpu_vector_loop_down(CpuEmitter *c, Point *point, LLVMValueRef len, NestBody *body, void *user)
{
    size_t known = c->known.n;
    Chunks chunks = chunks_of(c, len, body, user);
    point->mask = NULL;
    masked_rest(c, &chunks, point);
    whole_chunks(c, &chunks, point, true);
    c->known.n = known;
}

static void nest_axes(CpuEmitter *c, const Nest *nest, Point *point, int axis)
{
    if (axis == nest->rank) {
        if (nest->vector_axis < 0) {
            nest->body(c, point, nest->user);
            return;
        }
        point->at[nest->vector_axis] = llvm_i64(c->l, 0);
        if (nest->hoist) {
            cpu_new_walk(c);
            cpu_hoist(c, nest->hoist, point);
        }
        cpu_vector_loop(c, point, nest->lens[nest->vector_axis], nest->body, nest->user);
        return;
    }
    int64_t n;
    if (axis == nest->vector_axis) {
        nest_axes(c, nest, point, axis + 1);
    } else if (cpu_constant(nest->lens[axis], &n) && n == 1) {
        point->at[axis] = llvm_i64(c->l, 0);
        nest_axes(c, nest, point, axis + 1);
    } else {
        Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), nest->lens[axis], 1);
        point->at[axis] = loop.counter;
        nest_axes(c, nest, point, axis + 1);
        cpu_loop_end(c, &loop);
    }
}

void cpu_nest(CpuEmitter *c, const Nest *nest)
{
    Point point = {.rank = nest->rank, .vector_axis = nest->vector_axis};
    c->known.n = 0;
    nest_axes(c, nest, &point, 0);
    c->known.n = 0;
}

int cpu_vector_axis(CpuEmitter *c, Type type)
{
    for (int i = type->rank - 1; i >= 0; i--) {
        if (cpu_capacity(c, type->dims[i]) > 1) {
            return i;
        }
    }
    return -1;
}

Nest cpu_nest_over(CpuEmitter *c, Type type)
{
    Nest nest = {.rank = type->rank, .vector_axis = cpu_vector_axis(c, type)};
    for (int i = 0; i < type->rank; i++) {
        nest.lens[i] = cpu_dim(c, type->dims[i]);
    }
    return nest;
}

/* ---- into a buffer ---- */

typedef struct Fill {
    const Buffer *to;
    const Value *value;
} Fill;

static void fill_body(CpuEmitter *c, const Point *point, void *user)
{
    const Fill *fill = user;
    cpu_buffer_store(c, fill->to, point, cpu_eval(c, fill->value, point));
}

void cpu_fill_buffer(CpuEmitter *c, const Buffer *buffer, const Value *value)
{
    Fill fill = {buffer, value};
    Nest nest = cpu_nest_over(c, value->type);
    nest.hoist = value;
    nest.body = fill_body;
    nest.user = &fill;
    cpu_nest(c, &nest);
}

typedef struct Copy {
    const Buffer *from, *to;
} Copy;

static void copy_body(CpuEmitter *c, const Point *point, void *user)
{
    const Copy *copy = user;
    cpu_buffer_store(c, copy->to, point, cpu_buffer_load(c, copy->from, point));
}

void cpu_copy_buffer(CpuEmitter *c, const Buffer *from, const Buffer *to, Type type)
{
    Copy copy = {from, to};
    Nest nest = cpu_nest_over(c, type);
    nest.body = copy_body;
    nest.user = &copy;
    cpu_nest(c, &nest);
}

/* ---- in place ---- */

static bool dead_after_now(const CpuEmitter *c, const Value *value)
{
    return c->values[value->id].last <= c->now;
}

static bool same_shape(const Buffer *a, const Buffer *b)
{
    if (a->rank != b->rank || dtype_bytes(a->dtype) != dtype_bytes(b->dtype)) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->extents[i] != b->extents[i]) {
            return false;
        }
    }
    return true;
}

/* A buffer below `value`, reached by elementwise ops alone, that has its last reader here. */
static const Value *dead_operand(CpuEmitter *c, const Value *value, const Buffer *wanted)
{
    const Buffer *buffer = c->values[value->id].buffer;
    bool answer;
    if (buffer) {
        return dead_after_now(c, value) && same_shape(buffer, wanted) ? value : NULL;
    }
    if (!value->def || !op_has(value->def, TRAIT_ELEMENTWISE) || cpu_seen(c, value, 0, &answer)) {
        return NULL;
    }
    cpu_remember(c, value, 0, false);
    for (int i = 0; i < value->def->n_operands; i++) {
        const Value *found = dead_operand(c, value->def->operands[i], wanted);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static bool reads(CpuEmitter *c, const Value *value, const StackSlot *slot, bool counts)
{
    const Buffer *buffer = c->values[value->id].buffer;
    const Op *op = value->def;
    bool answer = false;
    if (buffer) {
        return counts && buffer->slot == slot;
    }
    if (!op || op->kind == OP_LOAD || op->kind == OP_INDEX || op->kind == OP_IOTA ||
        cpu_seen(c, value, counts, &answer)) {
        return answer;
    }
    for (int i = 0; i < op->n_operands && !answer; i++) {
        answer = reads(c, op->operands[i], slot, counts || !op_has(op, TRAIT_ELEMENTWISE));
    }
    return cpu_remember(c, value, counts, answer);
}

bool cpu_reads(CpuEmitter *c, const Value *value, const StackSlot *slot, bool moved)
{
    cpu_new_walk(c);
    return reads(c, value, slot, !moved);
}

void cpu_store_value(CpuEmitter *c, const Value *value)
{
    CpuValue *facts = &c->values[value->id];
    int64_t extents[MAX_RANK];
    for (int i = 0; i < value->type->rank; i++) {
        extents[i] = cpu_capacity(c, value->type->dims[i]);
    }
    Buffer *buffer = cpu_buffer_shape(c, value->type->dtype, value->type->rank, extents);
    cpu_new_walk(c);
    const Value *dead = dead_operand(c, value, buffer);
    StackSlot *slot = dead ? c->values[dead->id].buffer->slot : NULL;
    if (slot && !cpu_reads(c, value, slot, true)) {
        buffer->slot = slot;
        slot->free_after = facts->last > slot->free_after ? facts->last : slot->free_after;
    } else {
        cpu_buffer_place(c, buffer, facts->last);
    }
    cpu_fill_buffer(c, buffer, value);
    facts->buffer = buffer;
}

const Buffer *cpu_take_over(CpuEmitter *c, const Value *value, int free_after)
{
    CpuValue *facts = &c->values[value->id];
    if (facts->buffer && dead_after_now(c, value)) {
        StackSlot *slot = facts->buffer->slot;
        slot->free_after = free_after > slot->free_after ? free_after : slot->free_after;
        facts->last = INT_MAX; /* taken: nobody else may */
        return facts->buffer;
    }
    Buffer *copy = cpu_buffer_for(c, value->type, free_after);
    cpu_fill_buffer(c, copy, value);
    return copy;
}

/* ---- into a tensor ---- */

typedef struct Store {
    const Op *op;
    const Value *value;
} Store;

static void store_body(CpuEmitter *c, const Point *point, void *user)
{
    const Store *store = user;
    cpu_tensor_store(c, store->op, point, cpu_eval(c, store->value, point));
}

void cpu_emit_store(CpuEmitter *c, const Op *op)
{
    Store store = {op, op->operands[op->n_operands - 1]};
    Nest nest = cpu_nest_over(c, store.value->type);
    nest.hoist = store.value;
    nest.body = store_body;
    nest.user = &store;
    cpu_nest(c, &nest);
}
