/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory reads of a warp-level matrix instruction: the fragments of its operands, as
 * codegen/gpu/gpu_mma.c reads them. With ldmatrix each lane gives the address of one 16-byte row
 * of an 8 × 16-byte matrix and receives elements of all; otherwise each lane reads its own
 * contiguous elements. */
#include "runtime/explain/explain_access.h"
#include "runtime/explain/warp_request.h"

enum {
    WORD_BYTES = 4,
    PAIR_DISTANCE = 4, /* elements of four bits that share a register */
    MAX_RUN = 16,
    MATRIX_ROWS = 8,
    MAX_MATRIX_BITS = 2
};

typedef struct Fragments {
    Walk *walk;
    Access access;
    SharedTile tile;
    AccessReport *report;
    Layout layout; /* axes m or n, and k */
    bool k_is_col; /* k is contiguous */
    DType dtype;
    int bytes;
    int in_byte; /* elements of one */
} Fragments;

static int elements_in_byte(const Value *shared)
{
    return shared->def && op_int(shared->def, ATTR_PACKED, 0) ? 2 : 1;
}

static int bits_in(int count)
{
    return count > 1 ? 1 + bits_in(count / 2) : 0;
}

static int64_t place_of(const Fragments *f, const int32_t *at)
{
    int32_t place[MAX_RANK] = {0};
    int rank = f->tile.rank;
    place[rank - 2] = at[f->k_is_col ? 0 : 1];
    place[rank - 1] = at[f->k_is_col ? 1 : 0] / f->in_byte;
    return an_shared_offset(&f->tile, place);
}

static WarpRequest request_for(const Fragments *f, int bytes)
{
    return (WarpRequest){.lanes = lanes_of(f->walk->user), .bytes = bytes};
}

/* Rows of up to four matrices, those of the first in the first lanes. */
static void tally_matrices(Fragments *f, int warp, double times)
{
    int words = bits_in(WORD_BYTES / f->bytes);
    int bits = f->layout.bits[IN_REGISTER] - words;
    bits = bits < MAX_MATRIX_BITS ? bits : MAX_MATRIX_BITS;
    for (int reg = 0; reg < layout_registers(&f->layout); reg += 1 << (words + bits)) {
        WarpRequest request = request_for(f, MAX_RUN);
        for (int row = 0; row < MATRIX_ROWS << bits; row++) {
            int32_t at[MAX_RANK] = {0};
            int matrix = row / MATRIX_ROWS;
            layout_apply(&f->layout, (uint32_t)(reg | matrix << words), 0, (uint32_t)warp, at);
            at[f->k_is_col ? 0 : 1] += row % MATRIX_ROWS;
            request_add(&request, row, place_of(f, at));
        }
        access_request(f->walk->user, f->report, &request, times);
    }
}

/* The bit of a register that moves so far along the contiguous axis; -1: none. */
static int bit_of(const Fragments *f, int32_t by)
{
    for (int i = 0; i < f->layout.bits[IN_REGISTER]; i++) {
        if (mma_basis_moves(f->layout.basis[IN_REGISTER][i], f->k_is_col ? 1 : 0, by)) {
            return i;
        }
    }
    return -1;
}

/* Registers that lie side by side, of the widest access: their bits. */
static int run_bits(const Fragments *f, int *run)
{
    int bits = 0;
    *run = 1;
    while (2 * *run * f->bytes <= MAX_RUN * f->in_byte && bit_of(f, *run) >= 0) {
        bits |= 1 << bit_of(f, *run);
        *run *= 2;
    }
    return bits;
}

static void tally_own(Fragments *f, int warp, double times)
{
    int run, adjacent = run_bits(f, &run), lanes = lanes_of(f->walk->user);
    for (int reg = 0; reg < layout_registers(&f->layout); reg++) {
        WarpRequest request = request_for(f, run * f->bytes / f->in_byte);
        for (int lane = 0; lane < lanes && !(reg & adjacent); lane++) {
            int32_t at[MAX_RANK] = {0};
            layout_apply(&f->layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, at);
            request_add(&request, lane, place_of(f, at));
        }
        if (!(reg & adjacent)) {
            access_request(f->walk->user, f->report, &request, times);
        }
    }
}

/* As the code generator chooses it: what is in registers has its own order. */
static bool choose_depth(const Op *op, const MatrixInstr *unit, const Target *target, int64_t k,
                         MmaKOrder *depth)
{
    const Value *left = op_access_nth(op, 0).memory, *right = op_access_nth(op, 1).memory;
    DType dtype = left->type->dtype;
    bool plain = target->family == FAMILY_NVPTX && dtype == unit->operands &&
                 right->type->dtype == dtype && dtype_bytes(dtype) <= WORD_BYTES;
    int bytes = dtype_bytes(dtype), other = dtype_bytes(right->type->dtype);
    bytes = bytes > other ? bytes : other;
    bool words = elements_in_byte(left) > 1 || elements_in_byte(right) > 1;
    if (left->type->kind != TYPE_SHARED) {
        return mma_k_order_registers(unit, k, depth);
    }
    bool pairs = mma_k_in_pairs(unit, dtype, right->type->dtype, !op_int(op, ATTR_TB, 0));
    plain = plain || mma_reads_elements(unit, dtype, right->type->dtype);
    if (plain) {
        *depth = mma_k_order_plain(unit, k);
    } else if (pairs) {
        *depth = mma_k_order_pairs(unit, k);
    } else {
        *depth = mma_k_order_runs(unit, k, target->shared_row / bytes, words ? PAIR_DISTANCE : 1);
    }
    return true;
}

void matrix_left_tally(Walk *walk, const Op *op, double times)
{
    Fragments f = {.walk = walk, .access = op_access_nth(op, 0)};
    Type memory = f.access.memory->type;
    const Layout *result = op->results[0]->type->layout;
    if (!result) {
        return;
    }
    f.dtype = memory->dtype;
    f.bytes = dtype_bytes(f.dtype);
    f.tile = access_shared_tile(&f.access);
    f.in_byte = elements_in_byte(f.access.memory);
    f.k_is_col = !op_int(op, ATTR_TA, 0); /* then they widen it */
    int64_t k = poly_capacity(memory->dims[memory->rank - (f.k_is_col ? 1 : 2)]);
    f.layout = f.k_is_col ? mma_a_words_layout(result, k) : mma_a_read_layout(result, k);
    f.report = access_report(walk->user, op, SHARED_LOADS, f.access.memory);
    for (int warp = 0; warp < walk->warps; warp++) {
        tally_own(&f, warp, times);
    }
}

void matrix_tally(Walk *walk, const Op *op, const MatrixInstr *unit, double times)
{
    Tally *tally = walk->user;
    const Layout *result = op->results[0]->type->layout;
    for (int side = 0; side < 2 && result; side++) {
        Fragments f = {.walk = walk, .access = op_access_nth(op, side)};
        Type memory = f.access.memory->type;
        MmaKOrder depth;
        if (memory->kind != TYPE_SHARED) {
            continue;
        }
        bool turned = op_int(op, side ? ATTR_TB : ATTR_TA, 0) != 0;
        f.k_is_col = (side == 1) == turned;
        int64_t k = poly_capacity(memory->dims[memory->rank - (f.k_is_col ? 1 : 2)]);
        if (!choose_depth(op, unit, tally->target, k, &depth)) {
            return;
        }
        f.dtype = memory->dtype;
        f.bytes = dtype_bytes(f.dtype);
        f.tile = access_shared_tile(&f.access);
        f.in_byte = elements_in_byte(f.access.memory);
        f.layout = mma_operand(unit, side ? MMA_B : MMA_A, result, &depth);
        f.report = access_report(tally, op, SHARED_LOADS, f.access.memory);
        bool matrices = tally->target->family == FAMILY_NVPTX &&
                        mma_uses_ldmatrix(unit, &f.layout, f.dtype, f.k_is_col);
        for (int warp = 0; warp < walk->warps; warp++) {
            (matrices ? tally_matrices : tally_own)(&f, warp, times);
        }
    }
}
