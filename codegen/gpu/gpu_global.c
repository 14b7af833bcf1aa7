/* SPDX-License-Identifier: Apache-2.0 */
/* The ops load and store: registers of a tile from and to tensors. */
#include "codegen/gpu/gpu_access.h"

/* ---- load ---- */

static LLVMValueRef load_scalar(GlobalAccess *g)
{
    LLVMValueRef half;
    if (dtype_is_packed(g->dtype)) {
        gpu_packed_load(g->em, g->access.memory, g->inside, g->block, op_attr(g->op, ATTR_VALUE), 1,
                        &half);
        return half;
    }
    return gpu_from_memory(g->em, g->dtype, gpu_access_load(g, g->inside, g->block, 1));
}

void gpu_emit_load(GpuEmitter *em, const Op *op)
{
    GlobalAccess g = {.em = em, .op = op, .type = op->results[0]->type};
    GpuValue *out = gpu_define(em, op->results[0]);
    gpu_access_begin(&g);
    if (g.type->rank == 0) {
        out->regs[0] = load_scalar(&g);
        return;
    }
    int length = gpu_access_run(&g);
    bool shifted = op_int(op, ATTR_UNALIGNED, 0) && length > 1;
    if (shifted) {
        gpu_shifted_load(&g, out);
    } else if (gpu_has_edges(&g)) {
        gpu_edges_load(&g, out);
    }
    for (int r = 0; r < out->n && !shifted && !gpu_has_edges(&g); r++) {
        GpuRun run;
        if (gpu_run_at(em, g.type, r, length, &run)) {
            gpu_access_load_run(&g, out, &run);
        }
    }
    for (int r = 0; r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(g.type->layout, r)];
    }
}

/* ---- store ---- */

static void store_run(GlobalAccess *g, const GpuValue *in, LLVMValueRef first, const GpuRun *run)
{
    LLVMValueRef regs[sizeof run->regs / sizeof *run->regs];
    for (int i = 0; i < run->n; i++) {
        regs[i] = in->regs[run->regs[i]];
    }
    LLVMValueRef inside = gpu_both(g->em, first, gpu_inside_on(g, g->type->rank, run->regs[0]));
    gpu_access_store(g, inside, gpu_register_place(g, run->regs[0]), run->n, regs);
}

/* All threads have the scalar: the first of the role stores it. */
static void store_scalar(GlobalAccess *g, LLVMValueRef value)
{
    GpuEmitter *em = g->em;
    LLVMValueRef first =
        LLVMBuildICmp(em->builder, LLVMIntEQ, em->role->thread, gpu_i32(em, 0), "");
    gpu_access_store(g, gpu_both(em, first, g->inside), g->block, 1, &value);
}

struct GpuStore {
    GlobalAccess access;
    LLVMValueRef first; /* i1: this thread is the first that holds its elements; NULL: each is */
    int length;         /* of a run */
    bool clipped;
    Edges edges;
};

GpuStore *gpu_store_begin(GpuEmitter *em, const Op *op)
{
    GpuStore *store = ARENA_NEW(em->arena, GpuStore);
    GlobalAccess *g = &store->access;
    *g = (GlobalAccess){.em = em, .op = op, .type = op->operands[op->n_operands - 1]->type};
    gpu_access_begin(g);
    store->first = gpu_first_holder(em, g->type->layout);
    store->length = gpu_access_run(g);
    store->clipped = gpu_has_edges(g);
    if (store->clipped) {
        store->edges = gpu_edges_anew(g);
    }
    return store;
}

/* A run goes with the group that holds its last register. */
void gpu_store_take(GpuStore *store, int from, int n)
{
    GlobalAccess *g = &store->access;
    const GpuValue *in = gpu_value(g->em, g->op->operands[g->op->n_operands - 1]);
    for (int r = 0; r < from + n; r++) {
        GpuRun run;
        if (!gpu_run_at(g->em, g->type, r, store->length, &run)) {
            continue;
        }
        int last = run.regs[run.n - 1];
        if (last >= from && last < from + n) {
            if (store->clipped) {
                gpu_edges_store(&store->edges, store->first, in, &run);
            } else {
                store_run(&store->access, in, store->first, &run);
            }
        }
    }
}

LLVMValueRef *gpu_store_used(GpuStore *store)
{
    GlobalAccess *g = &store->access;
    int n = gpu_registers(g->em, g->type);
    LLVMValueRef *used = ARENA_ARRAY(g->em->arena, LLVMValueRef, n);
    for (int r = 0; r < n; r++) {
        GpuRun run;
        if (!gpu_run_at(g->em, g->type, r, store->length, &run)) {
            continue;
        }
        LLVMValueRef inside = store->clipped
                                  ? gpu_edges_inside(&store->edges, &run, store->edges.limit)
                                  : gpu_inside_on(g, g->type->rank, r);
        for (int i = 0; i < run.n; i++) {
            used[run.regs[i]] = inside;
        }
    }
    return used;
}

void gpu_emit_store(GpuEmitter *em, const Op *op)
{
    const Value *value = op->operands[op->n_operands - 1];
    if (value->type->rank > 0) {
        gpu_store_take(gpu_store_begin(em, op), 0, gpu_registers(em, value->type));
        return;
    }
    GlobalAccess g = {.em = em, .op = op, .type = value->type};
    gpu_access_begin(&g);
    store_scalar(&g, gpu_value(em, value)->regs[0]);
}
