/* SPDX-License-Identifier: Apache-2.0 */
/* The ops `for` and `if`. */
#include "codegen/gpu/gpu_loop.h"

/* ---- for ---- */

/* Where the step begins that the counter stands for: a descending loop takes the last one first. */
static LLVMValueRef loop_start(GpuEmitter *em, const Op *op, LLVMValueRef counter, LLVMValueRef hi)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    if (!op_int(op, ATTR_DESCENDING, 0)) {
        return counter;
    }
    LLVMBuilderRef b = em->builder;
    LLVMValueRef size = gpu_i64(em, step ? step : 1), lo = gpu_scalar(em, for_lo(op));
    LLVMValueRef past = LLVMBuildSub(b, LLVMBuildSub(b, hi, lo, ""), gpu_i64(em, 1), "");
    past = LLVMBuildMul(b, LLVMBuildUDiv(b, past, size, ""), size, "");
    return LLVMBuildSub(b, LLVMBuildAdd(b, lo, past, ""), LLVMBuildSub(b, counter, lo, ""), "");
}

/* The values of an op or of a region's arguments are these, in their own registers. */
static void define_as(GpuEmitter *em, const Op *op, int n, Value *const *values, Value *const *from)
{
    for (int i = 0; i < n; i++) {
        *gpu_define(em, values[i]) = gpu_as_type(em, op, from[i], values[i]->type);
    }
}

void gpu_emit_for(GpuEmitter *em, Op *op)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    LLVMValueRef whole = gpu_size_value(em, op_attr(op, ATTR_DIMS)->dims[0]);
    LLVMValueRef hi = gpu_min(em, gpu_scalar(em, for_hi(op)), whole);
    if (op_int(op, ATTR_SINGLE_TRIP, 0) > 1) { /* past the end it has no elements */
        LLVMValueRef lo = gpu_scalar(em, for_lo(op));
        LLVMValueRef past = LLVMBuildICmp(em->builder, LLVMIntSGT, lo, hi, "");
        hi = LLVMBuildSelect(em->builder, past, lo, hi, "");
    }
    if (op_int(op, ATTR_SINGLE_TRIP, 0)) {
        /* A loop of at most one iteration is none: its body follows here. */
        Block *region = op->regions[0];
        int n = for_carried(op);
        define_as(em, op, n, region->args + 1, op->operands + 2);
        gpu_define_step(em, region->args[0], gpu_scalar(em, for_lo(op)), step, hi);
        gpu_emit_block(em, region);
        define_as(em, op, n, op->results, region->last->operands);
        return;
    }
    CountedLoop loop = gpu_open_loop(em, op, gpu_scalar(em, for_lo(op)), hi, 2, 1);
    LLVMValueRef start = loop_start(em, op, loop.i, hi);
    gpu_define_step(em, op->regions[0]->args[0], start, step, hi);
    gpu_emit_block(em, op->regions[0]);
    gpu_close_loop(em, &loop, gpu_i64(em, step ? step : 1));
}

/* ---- if ---- */

void gpu_emit_if(GpuEmitter *em, Op *op)
{
    LLVMBasicBlockRef starts[2] = {gpu_new_block(em, "then"), gpu_new_block(em, "else")};
    LLVMBasicBlockRef after = gpu_new_block(em, "after"), ends[2];
    GpuValue *sides[2];
    LLVMBuildCondBr(em->builder, gpu_scalar(em, op->operands[0]), starts[0], starts[1]);
    for (int side = 0; side < 2; side++) {
        gpu_go(em, starts[side]);
        gpu_emit_block(em, op->regions[side]);
        const Op *yield = op->regions[side]->last;
        sides[side] = ARENA_ARRAY(em->arena, GpuValue, op->n_results + 1);
        for (int i = 0; i < op->n_results; i++) {
            sides[side][i] = gpu_as_type(em, yield, yield->operands[i], op->results[i]->type);
        }
        ends[side] = LLVMGetInsertBlock(em->builder);
        LLVMBuildBr(em->builder, after);
    }
    gpu_go(em, after);
    for (int i = 0; i < op->n_results; i++) {
        GpuValue *out = gpu_define(em, op->results[i]);
        for (int r = 0; r < out->n; r++) {
            LLVMValueRef from[] = {sides[0][i].regs[r], sides[1][i].regs[r]};
            if (from[0] && gpu_is_computed(op->results[i], r)) {
                out->regs[r] = LLVMBuildPhi(em->builder, LLVMTypeOf(from[0]), "");
                LLVMAddIncoming(out->regs[r], from, ends, 2);
            }
        }
        gpu_define_replicas(op->results[i], out);
    }
}
