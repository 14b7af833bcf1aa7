/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: a left operand that threads read for the matrix unit. It takes elements of 32 bits from
 * shared memory along k alone, but from registers in any way. A tile with k along its rows is read
 * as the result lies (layout_wgmma_turned): a thread's rows are neighbours there, and lanes beside
 * one another meet all banks. */
#include "codegen/gpu/shared.h"
#include "codegen/nvptx/hopper.h"
#include "ir/unit.h"

enum { MOST_RUN_BITS = 2, MOST_RUN = 1 << MOST_RUN_BITS };

typedef struct Left {
    GpuEmitter *em;
    SharedTile tile;
    Layout *layout; /* unit_left_read */
    int64_t m;
} Left;

/* Rows that the tile has not are read as its first one; nobody looks at what they come to. */
static SharedCoord row_coord(Left *left, int r)
{
    GpuEmitter *em = left->em;
    LLVMValueRef part = gpu_thread_coord(em, left->layout, 0);
    uint32_t bits = layout_thread_bits(left->layout, 0);
    int constant = gpu_register_coord(left->layout, 0, r);
    if ((left->m & (left->m - 1)) == 0) {
        return (SharedCoord){part, bits, constant};
    }
    LLVMValueRef whole = LLVMBuildOr(em->builder, part, gpu_i32(em, constant), "");
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, whole, gpu_i32(em, left->m), "");
    whole = LLVMBuildSelect(em->builder, inside, whole, gpu_i32(em, 0), "");
    return (SharedCoord){whole, UINT32_MAX, 0};
}

static LLVMValueRef address(Left *left, int r)
{
    GpuEmitter *em = left->em;
    SharedCoord depth = {gpu_thread_coord(em, left->layout, 1), layout_thread_bits(left->layout, 1),
                         gpu_register_coord(left->layout, 1, r)};
    return gpu_shared_at(em, &left->tile, depth, row_coord(left, r));
}

LLVMValueRef *hopper_read_left(GpuEmitter *em, const Op *op, const Access *access, int64_t k)
{
    Type result = op->results[0]->type;
    Layout layout = unit_left_read(result->layout, k);
    Left left = {.em = em,
                 .tile = gpu_shared_tile(em, access),
                 .layout = arena_copy(em->arena, &layout, sizeof layout),
                 .m = gpu_extent(em, result, 0)};
    int bits[LAYOUT_BITS], n = gpu_run_bits(left.layout, 0, MOST_RUN_BITS, bits),
                           all = gpu_dealt(bits, n, -1);
    LLVMValueRef *words = ARENA_ARRAY(em->arena, LLVMValueRef, layout_registers(&layout));
    for (int r = 0; r < layout_registers(&layout); r++) {
        LLVMValueRef run[MOST_RUN];
        if (r & all || gpu_register_coord(left.layout, 1, r) >= k) {
            continue;
        }
        gpu_shared_read(em, &left.tile, address(&left, r), 1 << n, run);
        for (int i = 0; i < 1 << n; i++) {
            words[r | gpu_dealt(bits, n, i)] = LLVMBuildBitCast(em->builder, run[i], em->i32, "");
        }
    }
    return words;
}
