/* SPDX-License-Identifier: Apache-2.0 */
/* The ops that only sm_90a has, one file per kind: mbarriers and roles (hopper.c), TMA
 * (hopper_tma.c), warp-group MMA (hopper_wgmma.c). They are inline assembly; each statement is a
 * whole sequence, so that LLVM can put nothing between its instructions. */
#ifndef TESSERA_CODEGEN_NVPTX_HOPPER_H
#define TESSERA_CODEGEN_NVPTX_HOPPER_H

#include "codegen/gpu/gpu_emit.h"

/* A tile in a ring slot of shared memory, as the engines see it: chunks of `pitch` bytes
 * of columns, each `rows` rows of them one after the other, swizzled inside (layout.h,
 * shared_offset). */
typedef struct HopperTile {
    LLVMValueRef address; /* i32, in the shared window */
    int64_t rows, cols;
    int elem_bytes;
    int swizzle;
    int64_t pitch; /* bytes of a row of a chunk */
    int64_t chunks;
} HopperTile;

HopperTile hopper_tile(GpuEmitter *em, const Op *op, const Access *access);
/* i32: a pointer into shared memory as the instructions take it. */
LLVMValueRef hopper_address(GpuEmitter *em, LLVMValueRef ptr);
/* Code for one thread of the role: opens a branch unless the role is solo; hopper_elected_end
 * closes it. Returns where it goes on; NULL: no branch. */
/* Code for the role's first thread alone, until hopper_elected_end. */
LLVMBasicBlockRef hopper_if_first_thread(GpuEmitter *em, const char *name);
LLVMBasicBlockRef hopper_elected(GpuEmitter *em, const Op *op);
void hopper_elected_end(GpuEmitter *em, LLVMBasicBlockRef after);

/* Sets tiles to 0 whose tensors may have fewer rows: every thread, before the block meets. */
void hopper_clear_few(GpuEmitter *em);
void hopper_emit_bulk_load(GpuEmitter *em, Op *op);
/* i32: which warp group of its role this is. */
LLVMValueRef hopper_group(GpuEmitter *em);
void hopper_emit_bulk_store(GpuEmitter *em, Op *op);
/* Of the elected thread: until its stores have read their shared memory. */
void hopper_emit_bulk_wait(GpuEmitter *em, const Op *op);

/* Until the barrier of shared memory at this address (i32) has left the parity's generation. */
void hopper_wait(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef parity);

/* Clusters (hopper_cluster.c): the hooks of GpuTarget. */
LLVMValueRef hopper_cluster_rank(GpuEmitter *em);
void hopper_cluster_begin(GpuEmitter *em, LLVMValueRef at, int n);
void hopper_cluster_wait(GpuEmitter *em);
void hopper_cluster_expect(GpuEmitter *em, LLVMValueRef at, int n, const int64_t *bytes);
/* All threads of all blocks of the cluster; their barriers are made. */
void hopper_cluster_meet(GpuEmitter *em);
/* Where `which` holds, an arrival at that barrier of a block of the cluster. */
void hopper_cluster_arrive(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef block,
                           LLVMValueRef which);
void hopper_cluster_send(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, int n,
                         LLVMValueRef *words, LLVMValueRef mailbox);
void hopper_cluster_receive(GpuEmitter *em, LLVMValueRef mailbox, LLVMValueRef parity);
void hopper_cluster_await(GpuEmitter *em, LLVMValueRef mailbox, int64_t bytes);

/* The left operand of a product, with k along the rows of its tile, in registers: i32, for each
 * repeat of 64 rows, for each step along k (as if there were a power of two), those of an
 * instruction (hopper_register_a.c). */
LLVMValueRef *hopper_read_left(GpuEmitter *em, const Op *op, const Access *access, int64_t k);
/* The same of elements of four bits along k, widened to 16. */
LLVMValueRef *hopper_widen_left(GpuEmitter *em, const Op *op, const Access *access, DType to,
                                int64_t k);

void hopper_emit_dot_async(GpuEmitter *em, Op *op);
void hopper_emit_settle(GpuEmitter *em, Op *op);

#endif
