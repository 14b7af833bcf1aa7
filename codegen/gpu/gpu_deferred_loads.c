/* SPDX-License-Identifier: Apache-2.0 */
/* Defers the loads of an epilogue after warp-group MMA, because the accumulators leave few
 * registers. A value is loaded together with the chain of elementwise ops that reads it
 * (gpu_elementwise_chain.c), some iterations ahead, and not for the whole tile at once. The
 * assembler delays loads by itself, but not loads under a bounds check. */
#include "codegen/gpu/gpu_access.h"

enum {
    AHEAD_REGISTERS = 40, /* of a thread, that all loads of a chain may fill ahead */
    WORD_BYTES = 4,
};

struct GpuLoad {
    GlobalAccess access;
    GpuValue *out;
    int length, ahead; /* registers: of a run; that come ahead of their turn */
};

static bool is_guarded(const Op *op)
{
    Access access = op_access(op, 0);
    for (int axis = 0; axis < access.n; axis++) {
        if (op_is_guarded(op, axis)) {
            return true;
        }
    }
    return false;
}

bool gpu_load_joins(GpuEmitter *em, const Op *op)
{
    return op->kind == OP_LOAD && em->target->load_if && op->results[0]->type->rank > 0 &&
           !op_int(op, ATTR_UNALIGNED, 0) && is_guarded(op) &&
           gpu_registers(em, op->results[0]->type) > GPU_MAX_TILE_REGISTERS &&
           gpu_is_dot_auxiliary(op);
}

GpuLoad *gpu_load_begin(GpuEmitter *em, const Op *op, int loads)
{
    GpuLoad *load = ARENA_NEW(em->arena, GpuLoad);
    load->access = (GlobalAccess){.em = em, .op = op, .type = op->results[0]->type};
    load->out = gpu_value(em, op->results[0]);
    gpu_access_begin(&load->access);
    load->length = gpu_access_run(&load->access);
    int bytes = dtype_bytes(load->access.dtype);
    int each = load->length * bytes < WORD_BYTES ? WORD_BYTES / load->length : bytes;
    load->ahead = AHEAD_REGISTERS * WORD_BYTES / each / loads;
    return load;
}

void gpu_load_take(GpuLoad *load, int from, int n)
{
    GlobalAccess *g = &load->access;
    LLVMValueRef *regs = load->out->regs;
    int end = from + n + load->ahead;
    for (int r = 0; r < end && r < load->out->n; r++) {
        GpuRun run;
        if (!regs[r] && gpu_run_at(g->em, g->type, r, load->length, &run)) {
            gpu_access_load_run(g, load->out, &run);
        }
    }
    for (int r = from; r < from + n; r++) {
        regs[r] = regs[gpu_canonical(g->type->layout, r)];
    }
}
