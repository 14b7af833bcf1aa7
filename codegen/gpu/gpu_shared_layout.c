/* SPDX-License-Identifier: Apache-2.0 */
/* Where a launch's allocations lie in shared memory: buffers and mbarriers first, then the
 * mbarriers of reductions over a cluster, then the scratch memory of scatters. */
#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

enum { PLAIN_ALIGN = 16, EXCHANGE_ALIGN = 16 };

static void place(Op *op, void *user)
{
    GpuEmitter *em = user;
    if (op->kind != OP_SHARED && op->kind != OP_MBARRIER) {
        return;
    }
    const Value *memory = op->results[0];
    int align = op->kind == OP_MBARRIER           ? MBARRIER_BYTES
                : op_int(op, ATTR_SWIZZLE, 0) > 0 ? SWIZZLE_ALIGN
                                                  : PLAIN_ALIGN;
    int after = (em->shared_bytes + align - 1) / align * align;
    GpuShared shared = {op, (int)op_int(op, ATTR_OFFSET, after), (int)gpu_memory_bytes(em, memory)};
    ARENA_PUSH(em->arena, &em->shareds, shared);
    int end = shared.offset + shared.bytes;
    em->shared_bytes = end > em->shared_bytes ? end : em->shared_bytes;
}

static void find_exchange(Op *op, void *user)
{
    GpuEmitter *em = user;
    int bytes = op->kind == OP_SCATTER ? (int)gpu_exchange_bytes(em, op) : 0;
    int end = em->exchange_offset + bytes;
    em->shared_bytes = bytes && end > em->shared_bytes ? end : em->shared_bytes;
}

void gpu_place_shared(GpuEmitter *em, Op *launch)
{
    em->shareds.n = 0;
    em->shared_bytes = 0;
    block_walk(launch->regions[0], place, em);
    em->receive_mbarriers =
        (em->shared_bytes + MBARRIER_BYTES - 1) / MBARRIER_BYTES * MBARRIER_BYTES;
    em->shared_bytes = em->receive_mbarriers + gpu_receive_mbarrier_bytes(em);
    em->exchange_offset = (em->shared_bytes + EXCHANGE_ALIGN - 1) / EXCHANGE_ALIGN * EXCHANGE_ALIGN;
    block_walk(launch->regions[0], find_exchange, em);
}
