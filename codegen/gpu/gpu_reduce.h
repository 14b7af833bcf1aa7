/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of the reduction emitter, shared by gpu_reduce.c (warps), gpu_reduce_lanes.c
 * (registers and lanes) and gpu_reduce_pairs.c. */
#ifndef TESSERA_CODEGEN_GPU_GPU_REDUCE_H
#define TESSERA_CODEGEN_GPU_GPU_REDUCE_H

#include "codegen/gpu/gpu_emitters.h"

struct GpuReduce {
    GpuEmitter *em;
    const Op *op;
    OpKind reduction;
    DType dtype;
    int axis;
    Type from, to;
    LLVMValueRef *regs; /* of the operand, combined in place */
    int n;
    const GpuValue *pairs; /* two elements of 16 bits a word, which the operand widens; or NULL */
    LLVMValueRef *words;   /* of those, combined in place */
    GpuReduce *before;     /* that shares its barrier */
};

typedef GpuReduce Reducer;

/* Of two values, of which either may be NULL. */
LLVMValueRef gpu_reduce_combine(Reducer *red, LLVMValueRef a, LLVMValueRef c);
/* Does a bit of the layout move along the reduced axis? */
bool gpu_reduce_moves(const Reducer *red, const int32_t *basis);
/* The register that gathers what r and those of other groups hold: a group's elements are processed
 * side by side, so that each waits for its own predecessor only; fewer of them where registers are
 * short. */
int gpu_reduce_target(const Reducer *red, int r);
/* Combines the registers of a thread, then those of the lanes of a warp, along the axis. */
void gpu_reduce_registers(Reducer *red);
void gpu_reduce_lanes(Reducer *red);
/* True if r is the canonical register among the replicas of its result. */
bool gpu_reduce_is_canonical(const Reducer *red, int r);

/* gpu_reduce_pairs.c: the operand's words of two elements, if they are compared as they were
 * loaded. */
const GpuValue *gpu_reduce_find_pairs(Reducer *red);
/* The word of registers r and r + 1, which is compared; or NULL. */
LLVMValueRef gpu_reduce_pair_at(const Reducer *red, int r);
void gpu_reduce_take_pair(Reducer *red, LLVMValueRef word, int r);
/* All words are taken: their elements go to registers. True: lanes have been combined, too. */
bool gpu_reduce_end_pairs(Reducer *red);

#endif
