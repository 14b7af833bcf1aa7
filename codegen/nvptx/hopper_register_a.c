/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: wgmma with a register A operand. wgmma takes 32-bit elements from shared memory only if
 * they are contiguous along k, but from registers in any arrangement. A tile that is contiguous
 * along m is read in a row-permuted layout of the result (layout_wgmma_row_permuted): the rows of
 * a thread are contiguous there, and adjacent lanes access all banks.
 *
 * Elements of four bits, which are contiguous along k, are upcast to 16 bits in registers. The
 * four lanes that share a row read the same words of eight elements; the instruction takes two
 * adjacent elements of each word from a lane, which is one byte. The order of k is unchanged, as
 * the right operand in shared memory requires. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/gpu/gpu_shared.h"
#include "codegen/nvptx/hopper.h"
#include "codegen/nvptx/nvptx_mma.h"
#include "ir/layout/matrix_instr.h"

enum { MAX_RUN_BITS = 2, MAX_RUN = 1 << MAX_RUN_BITS, WORD_HALVES = 8 };

typedef struct Left {
    GpuEmitter *em;
    SharedTile tile;
    Layout *layout; /* mma_a_read_layout; of narrow elements the accumulator's, m by k */
    int64_t m;
} Left;

/* Rows that the tile has not are read as its first one; nothing looks at what they come to. */
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
    Layout layout = mma_a_read_layout(result->layout, k);
    Left left = {.em = em,
                 .tile = gpu_shared_tile(em, access),
                 .layout = arena_copy(em->arena, &layout, sizeof layout),
                 .m = gpu_extent(em, result, 0)};
    int bits[LAYOUT_BITS], n = gpu_run_bits(left.layout, 0, MAX_RUN_BITS, bits),
                           all = gpu_deposit_bits(bits, n, -1);
    LLVMValueRef *words = ARENA_ARRAY(em->arena, LLVMValueRef, layout_registers(&layout));
    for (int r = 0; r < layout_registers(&layout); r++) {
        LLVMValueRef run[MAX_RUN];
        if (r & all || gpu_register_coord(left.layout, 1, r) >= k) {
            continue;
        }
        gpu_shared_read(em, &left.tile, address(&left, r), 1 << n, run);
        for (int i = 0; i < 1 << n; i++) {
            words[r | gpu_deposit_bits(bits, n, i)] =
                LLVMBuildBitCast(em->builder, run[i], em->i32, "");
        }
    }
    return words;
}

/* ---- narrow elements ---- */

/* The register of the layout that has this k, in the row of register r. */
static int along(const Layout *layout, int r, int64_t k)
{
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        int32_t moves = layout->basis[IN_REGISTER][bit][1];
        if (moves) {
            r = (r & ~(1 << bit)) | (k & moves ? 1 << bit : 0);
        }
    }
    return r;
}

/* A pair of neighbours along k is a register of the operand: the layout's, without their bit. */
LLVMValueRef *hopper_widen_left(GpuEmitter *em, const Op *op, const Access *access, DType to,
                                int64_t k)
{
    Layout layout = layout_wgmma_acc(gpu_extent(em, op->results[0]->type, 0), k, em->role->warps);
    Left left = {.em = em,
                 .tile = gpu_shared_tile(em, access),
                 .layout = arena_copy(em->arena, &layout, sizeof layout),
                 .m = gpu_extent(em, op->results[0]->type, 0)};
    int n = gpu_shared_vector(&left.tile) / WORD_HALVES, registers = layout_registers(&layout);
    n = n > MAX_RUN ? MAX_RUN : n;
    if (!left.tile.packed || n < 1) {
        gpu_bug(em, op, "threads widen elements of four bits, two a byte");
    }
    /* i32: this lane's byte of a word of eight elements. */
    LLVMValueRef pair = gpu_thread_coord(em, left.layout, 1);
    LLVMValueRef byte = LLVMBuildLShr(em->builder, pair, gpu_i32(em, 1), "");
    LLVMValueRef *words = ARENA_ARRAY(em->arena, LLVMValueRef, registers / 2);
    for (int r = 0; r < registers; r++) {
        LLVMValueRef run[MAX_RUN];
        int64_t from = gpu_register_coord(left.layout, 1, r);
        if (from % (n * WORD_HALVES) || from >= k) {
            continue;
        }
        SharedCoord depth = {NULL, 0, gpu_register_coord(left.layout, 1, r)};
        LLVMValueRef words_at = gpu_shared_at(em, &left.tile, row_coord(&left, r), depth);
        gpu_packed_words(em, words_at, n, run);
        for (int i = 0; i < n; i++) {
            int at = along(left.layout, r, from + i * WORD_HALVES);
            words[at / 2] = nvptx_widen_byte(em, access->memory->type->dtype, to, run[i], byte);
        }
    }
    return words;
}
