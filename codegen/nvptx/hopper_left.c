/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: a left operand that threads read for the matrix unit. It takes elements of 32 bits from
 * shared memory along k alone, but from registers in any way. A tile with k along its rows is read
 * as the result lies (layout_wgmma_turned): a thread's rows are neighbours there, and lanes beside
 * one another meet all banks. */
#include "codegen/gpu/shared.h"
#include "codegen/nvptx/hopper.h"
#include "ir/unit.h"

enum {
    LANE_K = 2,   /* bits of a lane that move along k; those of a row follow */
    HALF_K = 4,   /* what the second register of a row has */
    ROWS_BIT = 1, /* the register bit of a result that is its second row */
    MOST_RUN = 4
};

typedef struct Left {
    GpuEmitter *em;
    SharedTile tile;
    Layout *layout; /* axes m and k; registers: an instruction's, its steps along k, its repeats */
    int64_t m;
} Left;

static void add_bit(Layout *layout, LayoutIn in, int axis, int32_t value)
{
    layout->basis[in][layout->bits[in]++][axis] = value;
}

/* Bits of the result's rows but for the one of an instruction, in order. */
static void add_repeats(Layout *layout, const Layout *result)
{
    for (int i = ROWS_BIT + 1; i < result->bits[IN_REGISTER]; i++) {
        if (result->basis[IN_REGISTER][i][0]) {
            add_bit(layout, IN_REGISTER, 0, result->basis[IN_REGISTER][i][0]);
        }
    }
}

static Layout left_layout(const Layout *result, int64_t k)
{
    Layout layout = {.rank = 2};
    add_bit(&layout, IN_REGISTER, 0, result->basis[IN_REGISTER][ROWS_BIT][0]);
    for (int32_t at = HALF_K; at < k; at *= 2) {
        add_bit(&layout, IN_REGISTER, 1, at);
    }
    add_repeats(&layout, result);
    for (int32_t at = 1; at < 1 << LANE_K; at *= 2) {
        add_bit(&layout, IN_LANE, 1, at);
    }
    for (int i = LANE_K; i < result->bits[IN_LANE]; i++) {
        add_bit(&layout, IN_LANE, 0, result->basis[IN_LANE][i][0]);
    }
    for (int i = 0; i < result->bits[IN_WARP]; i++) {
        add_bit(&layout, IN_WARP, 0, result->basis[IN_WARP][i][0]);
    }
    return layout;
}

/* Rows that the tile has not are read as its first one; nobody looks at what they come to. */
static SharedCoord row_coord(Left *left, int r)
{
    GpuEmitter *em = left->em;
    LLVMValueRef part = gpu_thread_coord(em, left->layout, 0);
    uint32_t bits = gpu_thread_bits(left->layout, 0);
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
    SharedCoord depth = {gpu_thread_coord(em, left->layout, 1), gpu_thread_bits(left->layout, 1),
                         gpu_register_coord(left->layout, 1, r)};
    return gpu_shared_at(em, &left->tile, depth, row_coord(left, r));
}

/* The register bits of neighbouring rows, lowest first; how many there are. */
static int run_bits(const Left *left, int *bits)
{
    int n = 0;
    for (bool found = true; found && 1 << n < MOST_RUN;) {
        found = false;
        for (int i = 0; i < left->layout->bits[IN_REGISTER] && !found; i++) {
            found = unit_moves(left->layout->basis[IN_REGISTER][i], 0, 1 << n);
            bits[n] = i;
        }
        n += found;
    }
    return n;
}

static int dealt(const int *bits, int n, int i)
{
    int r = 0;
    for (int at = 0; at < n; at++) {
        r |= (i >> at & 1) << bits[at];
    }
    return r;
}

LLVMValueRef *hopper_read_left(GpuEmitter *em, const Op *op, const Access *access, int64_t k)
{
    Type result = op->results[0]->type;
    Layout layout = left_layout(result->layout, k);
    Left left = {.em = em,
                 .tile = gpu_shared_tile(em, access),
                 .layout = arena_copy(em->arena, &layout, sizeof layout),
                 .m = gpu_extent(em, result, 0)};
    int bits[LAYOUT_BITS], n = run_bits(&left, bits), all = dealt(bits, n, -1);
    LLVMValueRef *words = ARENA_ARRAY(em->arena, LLVMValueRef, layout_registers(&layout));
    for (int r = 0; r < layout_registers(&layout); r++) {
        LLVMValueRef run[MOST_RUN];
        if (r & all || gpu_register_coord(left.layout, 1, r) >= k) {
            continue;
        }
        gpu_shared_read(em, &left.tile, address(&left, r), 1 << n, run);
        for (int i = 0; i < 1 << n; i++) {
            words[r | dealt(bits, n, i)] = LLVMBuildBitCast(em->builder, run[i], em->i32, "");
        }
    }
    return words;
}
