/* SPDX-License-Identifier: Apache-2.0 */
/* Emits the loops over the elements of an array, with vectors along one axis. */
#include "codegen/cpu/cpu_emit.h"

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
