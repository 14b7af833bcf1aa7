/* SPDX-License-Identifier: Apache-2.0 */
/* Counted loops and the values that they carry, shared by gpu_control.c and gpu_tile_grid.c. */
#ifndef TESSERA_CODEGEN_GPU_GPU_LOOP_H
#define TESSERA_CODEGEN_GPU_GPU_LOOP_H

#include "codegen/gpu/gpu_emitters.h"

/* Values that one iteration hands to the next one. */
typedef struct Carried {
    GpuEmitter *em;
    const Op *op;
    int n;
    Value **args, **results; /* region arguments, op results */
    LLVMValueRef **phis;     /* by value, by register; NULL: no such register */
    LLVMValueRef **chunks;   /* the same at the head of the loop over chunks */
    GpuTotals *totals;       /* NULL: no sum begins at zero again, and there are no chunks */
    LLVMBasicBlockRef from, header;
} Carried;

/* A counted loop under construction: i from lo, while i < hi, by step. With totals it is the
 * inner one of two: the outer one goes from chunk to chunk, so that an iteration has no further
 * branch. */
typedef struct CountedLoop {
    LLVMValueRef i, hi, chunk; /* chunk: where the current chunk begins */
    LLVMBasicBlockRef header, after, outer;
    Carried carried;
} CountedLoop;

/* Emits the head of the loop of an op and moves the cursor into its body. The op's operands from
 * first_init on are the initial values of the region's arguments from first_arg on. */
CountedLoop gpu_open_loop(GpuEmitter *em, const Op *op, LLVMValueRef lo, LLVMValueRef hi,
                          int first_init, int first_arg);
/* Ends the body; defines the op's results behind the loop. */
void gpu_close_loop(GpuEmitter *em, CountedLoop *loop, LLVMValueRef step);
/* The argument that stands for one step of an axis: a range, or an index where the step is 0. */
void gpu_define_step(GpuEmitter *em, const Value *arg, LLVMValueRef first, int64_t step,
                     LLVMValueRef end);

/* The value in the registers of another type of the same tile. */
GpuValue gpu_as_type(GpuEmitter *em, const Op *op, const Value *value, Type type);
/* Is register r of the value computed, rather than a replica of another one? */
bool gpu_is_computed(const Value *value, int r);
/* Makes replicas of the registers that are computed. */
void gpu_define_replicas(const Value *value, GpuValue *out);

#endif
