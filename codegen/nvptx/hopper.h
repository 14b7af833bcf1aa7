/* SPDX-License-Identifier: Apache-2.0 */
/* The ops that only sm_90a has, one file per kind: mbarriers (hopper_mbarrier.c), roles
 * (hopper_roles.c), TMA (hopper_tma.c), clusters (hopper_cluster.c), warp-group MMA
 * (hopper_wgmma.c). They are inline assembly; each statement is a
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
/* ---- hopper_elect.c ---- */
/* i32: a pointer into shared memory as the instructions take it. */
LLVMValueRef hopper_address(GpuEmitter *em, LLVMValueRef ptr);
/* Teams of a role of `roles`. */
int hopper_teams(const Op *roles, int role);
/* Warps of the role or team that executes op; outside of roles, all warps of the block. */
int hopper_role_warps(GpuEmitter *em, const Op *op);
/* Does one thread execute the whole role, because the role only waits and copies? Then nothing in
 * it elects a thread. */
bool hopper_is_solo(const Op *op);
/* i32: which warp group of its role this is. */
LLVMValueRef hopper_group(GpuEmitter *em);
/* Begins code that only the role's first thread executes; hopper_elected_end ends it. */
LLVMBasicBlockRef hopper_if_first_thread(GpuEmitter *em, const char *name);
/* Begins code that one thread of the role, or of each warp group (ATTR_WARPGROUPS), executes.
 * Returns the block behind that code; NULL: the role is solo, and there is no branch. */
LLVMBasicBlockRef hopper_elected(GpuEmitter *em, const Op *op);
void hopper_elected_end(GpuEmitter *em, LLVMBasicBlockRef after);
/* Waits until the mbarrier at this shared address (i32) has left the phase of that parity. */
void hopper_wait(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef parity);

/* ---- hopper_mbarrier.c, hopper_roles.c ---- */
void hopper_emit_wait(GpuEmitter *em, const Op *op);
/* The ops take_tile and read_tile. */
void hopper_emit_take_tile(GpuEmitter *em, const Op *op);
void hopper_emit_read_tile(GpuEmitter *em, const Op *op);
void hopper_emit_arrive(GpuEmitter *em, const Op *op);
void hopper_emit_roles(GpuEmitter *em, const Op *op);
/* A barrier of each warp group by itself; false: the op is a barrier of the whole role. */
bool hopper_emit_group_barrier(GpuEmitter *em, const Op *op);
/* Ordered MMA issue: waits until it is this team's or warp group's turn; passes the turn on. */
void hopper_emit_ordered_wait(GpuEmitter *em);
void hopper_emit_ordered_arrive(GpuEmitter *em);

/* ---- hopper_tma.c ---- */
/* Clears the tiles whose tensors may have fewer rows. All threads do so, before a barrier of the
 * block. */
void hopper_clear_few(GpuEmitter *em);
void hopper_emit_bulk_load(GpuEmitter *em, Op *op);
void hopper_emit_bulk_store(GpuEmitter *em, Op *op);
/* Of the elected thread: until its stores have read their shared memory. */
void hopper_emit_bulk_wait(GpuEmitter *em, const Op *op);

/* Hooks of GpuTarget. */
void hopper_describe_map(GpuEmitter *em, const Op *op, PlanTensorMap *map);
void hopper_grid_wait(GpuEmitter *em);
void hopper_grid_launch_dependents(GpuEmitter *em);
void hopper_barriers_begin(GpuEmitter *em);
bool hopper_emit_op(GpuEmitter *em, Op *op);

/* Clusters (hopper_cluster.c): the hooks of GpuTarget. */
LLVMValueRef hopper_cluster_rank(GpuEmitter *em);
void hopper_cluster_begin(GpuEmitter *em, LLVMValueRef at, int n);
void hopper_cluster_wait(GpuEmitter *em);
void hopper_cluster_expect(GpuEmitter *em, LLVMValueRef at, int n, const int64_t *bytes);
/* All threads of all blocks of the cluster; their barriers are made. */
void hopper_cluster_barrier(GpuEmitter *em);
/* Where `which` holds, an arrival at that barrier of a block of the cluster. */
void hopper_cluster_arrive(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef block,
                           LLVMValueRef which);
void hopper_cluster_send(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, int n,
                         LLVMValueRef *words, LLVMValueRef mbarrier);
void hopper_cluster_receive(GpuEmitter *em, LLVMValueRef mbarrier, LLVMValueRef parity);
void hopper_cluster_await(GpuEmitter *em, LLVMValueRef mbarrier, int64_t bytes);

/* The left operand of a product, with k along the rows of its tile, in registers: i32, for each
 * repeat of 64 rows, for each step along k (as if there were a power of two), those of an
 * instruction (hopper_register_a.c). */
LLVMValueRef *hopper_read_left(GpuEmitter *em, const Op *op, const Access *access, int64_t k);
/* The same of elements of four bits along k, widened to 16. */
LLVMValueRef *hopper_widen_left(GpuEmitter *em, const Op *op, const Access *access, DType to,
                                int64_t k);

void hopper_emit_dot_async(GpuEmitter *em, Op *op);
void hopper_emit_dot_wait(GpuEmitter *em, Op *op);

#endif
