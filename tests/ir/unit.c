/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix instructions, compared with the PTX manual's formulas for fragments, and the
 * operands of each row with one another, in every order of k that code generation uses. AMD's rows
 * are tested by the results of their code (tests/codegen/gpu/matrix.tile). */
#include "tests/unit.h"

#include "ir/layout/matrix_instr.h"

#include <string.h>

enum { MOST = 256 };

static const MatrixInstr *row_of(const char *target, const char *word, DType operands)
{
    const MatrixInstr *unit = mma_find(target_find(target), word, operands, operands,
                                       operands == DT_F64  ? DT_F64
                                       : operands == DT_I8 ? DT_I32
                                                           : DT_F32);
    ck_assert_ptr_nonnull(unit);
    ck_assert(unit->operands == operands);
    return unit;
}

static void held_at(const Layout *layout, int reg, int lane, int first, int second)
{
    int32_t at[MAX_RANK];
    layout_apply(layout, (uint32_t)reg, (uint32_t)lane, 0, at);
    ck_assert_int_eq(at[0], first);
    ck_assert_int_eq(at[1], second);
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16" and "m16n8k32": `each` elements a word. */
static void is_m16n8(const MatrixInstr *unit, int each)
{
    Layout a = mma_layout(unit, MMA_A), b = mma_layout(unit, MMA_B), c = mma_layout(unit, MMA_OUT);
    for (int lane = 0; lane < 32; lane++) {
        int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 4 * each; i++) {
            bool low = i < each || (i >= 2 * each && i < 3 * each);
            held_at(&a, i, lane, low ? group : group + 8,
                    in_group * each + i % each + (i >= 2 * each ? 4 * each : 0));
        }
        for (int i = 0; i < 2 * each; i++) {
            held_at(&b, i, lane, group, in_group * each + i % each + (i >= each ? 4 * each : 0));
        }
        for (int i = 0; i < 4; i++) {
            held_at(&c, i, lane, i < 2 ? group : group + 8, in_group * 2 + (i & 1));
        }
    }
}

START_TEST(mma_is_as_documented)
{
    is_m16n8(row_of("sm_80", "mma", DT_BF16), 2);
    is_m16n8(row_of("sm_90a", "mma", DT_F16), 2);
    is_m16n8(row_of("sm_80", "mma", DT_I8), 4);
    is_m16n8(row_of("sm_120", "mma", DT_F8E4M3), 4);
    const MatrixInstr *unit = row_of("sm_80", "mma", DT_F64);
    Layout a = mma_layout(unit, MMA_A), b = mma_layout(unit, MMA_B), c = mma_layout(unit, MMA_OUT);
    for (int lane = 0; lane < 32; lane++) {
        held_at(&a, 0, lane, lane >> 2, lane % 4);
        held_at(&b, 0, lane, lane >> 2, lane % 4);
        held_at(&c, 0, lane, lane >> 2, lane % 4 * 2);
        held_at(&c, 1, lane, lane >> 2, lane % 4 * 2 + 1);
    }
}
END_TEST

/* Where in a tile the instruction's element (line, k) of a step and block comes from. */
static void source(const MatrixInstr *unit, MmaTile side, const Layout *operand, int step, int line,
                   int k, int32_t *at)
{
    Layout own = mma_layout(unit, side);
    for (uint32_t lane = 0; lane < 1u << own.bits[IN_LANE]; lane++) {
        for (int reg = 0; reg < layout_registers(&own); reg++) {
            int32_t here[MAX_RANK];
            layout_apply(&own, (uint32_t)reg, lane, 0, here);
            if (here[0] == line && here[1] == k) {
                uint32_t number = (uint32_t)(reg | step << own.bits[IN_REGISTER]);
                layout_apply(operand, number, lane, 0, at);
                return;
            }
        }
    }
    ck_abort_msg("nobody holds an element");
}

/* Both operands have the same k for each of the instruction's; all steps have each once. */
static void orders_agree(const MatrixInstr *unit, const Layout *result, const MmaKOrder *depth,
                         int64_t k)
{
    Layout a = mma_operand(unit, MMA_A, result, depth), b = mma_operand(unit, MMA_B, result, depth);
    int seen[MOST] = {0};
    for (int step = 0; step < k / unit->k; step++) {
        for (int i = 0; i < unit->k; i++) {
            int32_t left[MAX_RANK], right[MAX_RANK];
            source(unit, MMA_A, &a, step, 3, i, left);
            source(unit, MMA_B, &b, step, 5, i, right);
            ck_assert_int_eq(left[1], right[1]);
            ck_assert(left[1] < k);
            seen[left[1]]++;
        }
    }
    for (int i = 0; i < k; i++) {
        ck_assert_int_eq(seen[i], 1);
    }
}

START_TEST(operands_agree)
{
    size_t n;
    const MatrixInstr *rows = mma_rows(&n);
    for (size_t i = 0; i < n; i++) {
        const MatrixInstr *unit = &rows[i];
        int64_t extents[] = {4 * unit->m, 8 * unit->n};
        MmaKOrder depth;
        if (unit->scope == MMA_WARPGROUP) {
            continue;
        }
        for (int spread = 1; spread <= 4; spread *= 2) {
            const MmaLaneOrder places[] = {spread == 1   ? LANES_REVERSED
                                           : spread == 2 ? LANES_WIDE
                                                         : LANES_CROSSED,
                                           spread == 1 ? LANES_WIDE : LANES_PLAIN};
            Layout result = mma_result(unit, extents, (int[]){2, 2}, (int[]){1, spread}, places);
            ck_assert(layout_covers(&result, extents));
            for (int64_t k = unit->k; k <= 128; k += k < 4 * unit->k ? unit->k : 4 * unit->k) {
                depth = mma_k_order_plain(unit, k);
                orders_agree(unit, &result, &depth, k);
                depth = mma_k_order_runs(unit, k, 128 / dtype_bytes(unit->operands), 1);
                orders_agree(unit, &result, &depth, k);
                depth = mma_k_order_pairs(unit, k);
                orders_agree(unit, &result, &depth, k);
            }
            if (mma_k_order_registers(unit, 128, &depth)) {
                orders_agree(unit, &result, &depth, 128);
            }
        }
    }
}
END_TEST

/* A result of one product is the left operand of the next, in the very threads. */
START_TEST(results_are_operands)
{
    static const struct {
        const char *target, *word;
        DType operands;
        bool held;
    } cases[] = {{"sm_80", "mma", DT_BF16, true},     {"gfx942", "mfma", DT_F16, true},
                 {"gfx950", "mfma", DT_BF16, true},   {"gfx90a", "mfma", DT_F32, true},
                 {"gfx1201", "wmma", DT_BF16, true},  {"sm_80", "mma", DT_F64, true},
                 {"gfx1100", "wmma", DT_BF16, false}, {"sm_90a", "wgmma", DT_BF16, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const MatrixInstr *unit = row_of(cases[i].target, cases[i].word, cases[i].operands);
        const MmaLaneOrder plain[] = {LANES_PLAIN, LANES_PLAIN};
        int64_t tile[] = {4 * unit->m, 64}, result[] = {4 * unit->m, 4 * unit->n};
        MmaKOrder depth;
        ck_assert_int_eq(mma_k_order_registers(unit, 64, &depth), cases[i].held);
        if (!cases[i].held) {
            continue;
        }
        Layout has = mma_a_register_layout(unit, tile, (int[]){4, 1});
        Layout out = mma_result(unit, result, (int[]){4, 1}, (int[]){1, 1}, plain);
        Layout wants = mma_operand(unit, MMA_A, &out, &depth);
        ck_assert(layout_is_noop_conversion(&has, &wants));
    }
}
END_TEST

START_TEST(types_are_widened)
{
    ck_assert(mma_upcasts(DT_F8E4M3, DT_F16) && mma_upcasts(DT_F16, DT_F32));
    ck_assert(mma_upcasts(DT_U4, DT_I8) && !mma_upcasts(DT_U8, DT_I8));
    ck_assert(!mma_upcasts(DT_BF16, DT_F16) && !mma_upcasts(DT_F32, DT_F64));
    const MatrixInstr *half = mma_find(target_find("sm_90a"), "wgmma", DT_I4, DT_F16, DT_F32);
    ck_assert(half && half->operands == DT_F16 && mma_upcasts_a(half, DT_U4));
    ck_assert(!mma_find(target_find("sm_90a"), "wgmma", DT_F16, DT_I4, DT_F32));
    ck_assert(!mma_find(target_find("sm_90a"), "wgmma", DT_I4, DT_F8E4M3, DT_F32));
    const Target *target = target_find("gfx90a");
    ck_assert(mma_find(target, NULL, DT_F16, DT_F16, DT_F32)->operands == DT_F32);
    ck_assert(mma_find(target_find("sm_89"), NULL, DT_F8E4M3, DT_F8E4M3, DT_F32)->operands ==
              DT_F16);
    ck_assert(mma_find(target_find("sm_120"), NULL, DT_F8E4M3, DT_F8E4M3, DT_F32)->operands ==
              DT_F8E4M3);
    ck_assert_ptr_null(mma_find(target, NULL, DT_U8, DT_U8, DT_U32));
    ck_assert_ptr_null(mma_find(target_find("sm_80"), NULL, DT_F32, DT_F32, DT_F32));
    ck_assert_ptr_null(mma_first(target_find("native"), NULL));
}
END_TEST

UNIT_TESTS(ir_unit)
{
    TCase *tests = tcase_create("unit");
    tcase_add_test(tests, mma_is_as_documented);
    tcase_add_test(tests, operands_agree);
    tcase_add_test(tests, results_are_operands);
    tcase_add_test(tests, types_are_widened);
    return tests;
}
