/* SPDX-License-Identifier: Apache-2.0 */
/* Where a launch's allocations lie in a block's shared memory of a GPU: buffers and mbarriers
 * first, then the mbarriers of reductions over a cluster, then the memory in which a scatter
 * exchanges elements between warps. */
#ifndef TESSERA_CODEGEN_PLAN_SHARED_H
#define TESSERA_CODEGEN_PLAN_SHARED_H

#include "ir/ir.h"

typedef struct SharedAllocation {
    Op *op;     /* OP_SHARED or OP_MBARRIER */
    int offset; /* bytes from the beginning of the block's shared memory */
    int bytes;  /* all slots */
} SharedAllocation;

typedef struct SharedAllocations {
    SharedAllocation *items;
    size_t n, cap;
} SharedAllocations;

typedef struct SharedLayout {
    SharedAllocations allocations;
    int receive_mbarriers; /* offsets */
    int exchange;
    int bytes; /* of all */
} SharedLayout;

/* `warps`: of the block, all roles. */
SharedLayout plan_shared(Func *func, const Op *launch, int warps);

/* Bytes of an allocation, all slots. */
int64_t plan_memory_bytes(Func *func, const Value *memory);
/* Elements of a tile, whose extents must be static; and one of these. */
int64_t plan_elements(Func *func, Type type);
int64_t plan_extent(Func *func, Type type, int axis);
/* Receive mbarriers, and buffers, of a reduction over the cluster: consecutive iterations use them
 * alternately. */
int plan_reduce_slots(Func *func, const Op *op);
/* Shared memory that a scatter needs for a moment; 0: none. */
int64_t plan_exchange_bytes(Func *func, const Op *scatter, int warps);
/* Do warps hold the same elements of a tile, or a scalar, as the one that acts for them? */
bool plan_crosses_warps(Type type, int warps);
/* Bits of a warp's number, of this many warps, that change none of its elements. */
uint32_t plan_warp_copies(int warps, const Layout *layout);

#endif
