/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts against brute force: who owns which element, under every shape op; shared tiles against
 * a model of the swizzle of TMA. */
#include "tests/unit.h"

#include "ir/layout/layout.h"

#include <string.h>

static const int order2[2] = {1, 0};

static Layout blocked(int64_t rows, int64_t cols)
{
    return layout_blocked(2, (int64_t[]){rows, cols}, order2, (int[]){1, 4}, (int[]){4, 8},
                          (int[]){2, 2});
}

/* How many (register, lane, warp) hold each element. */
static void count_holders(const Layout *layout, const int64_t *extents, int *counts)
{
    memset(counts, 0, sizeof *counts * (size_t)(extents[0] * extents[1]));
    for (int warp = 0; warp < 1 << layout->bits[IN_WARP]; warp++) {
        for (int lane = 0; lane < 1 << layout->bits[IN_LANE]; lane++) {
            for (int reg = 0; reg < layout_registers(layout); reg++) {
                int32_t at[MAX_RANK];
                layout_apply(layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, at);
                if (at[0] < extents[0] && at[1] < extents[1]) {
                    counts[at[0] * extents[1] + at[1]]++;
                }
            }
        }
    }
}

static void each_held(const Layout *layout, const int64_t *extents, int times)
{
    static int counts[256 * 256];
    count_holders(layout, extents, counts);
    for (int64_t i = 0; i < extents[0] * extents[1]; i++) {
        ck_assert_int_eq(counts[i], times);
    }
}

START_TEST(blocked_holds_each_once)
{
    static const int64_t shapes[][2] = {{64, 64}, {128, 64}, {8, 64}, {48, 80}, {17, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Layout layout = blocked(shapes[i][0], shapes[i][1]);
        ck_assert(layout_covers(&layout, shapes[i]));
        each_held(&layout, shapes[i], 1);
    }
}
END_TEST

START_TEST(small_tiles_have_copies)
{
    int64_t extents[2] = {4, 16};
    Layout layout = blocked(4, 16);
    ck_assert(layout_covers(&layout, extents));
    each_held(&layout, extents, 32 * 4 * 4 / (4 * 16));
    ck_assert_int_eq(layout_registers(&layout), 4);
    int64_t wider[2] = {4, 32};
    ck_assert(!layout_covers(&layout, wider));
}
END_TEST

/* PTX ISA, wgmma D fragment: thread t of a warp group, value i. */
static void wgmma_element(int thread, int i, int *row, int *col)
{
    *row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
    *col = thread % 4 * 2 + i % 2 + 8 * (i / 4);
}

START_TEST(wgmma_is_as_documented)
{
    Layout layout = layout_wgmma_acc(128, 256, 8);
    ck_assert_int_eq(layout_registers(&layout), 128);
    for (int thread = 0; thread < 256; thread++) {
        for (int i = 0; i < 128; i++) {
            int row, col;
            int32_t at[MAX_RANK];
            wgmma_element(thread % 128, i, &row, &col);
            layout_apply(&layout, (uint32_t)i, (uint32_t)thread % 32, (uint32_t)thread / 32, at);
            ck_assert_int_eq(at[0], row + 64 * (thread / 128));
            ck_assert_int_eq(at[1], col);
        }
    }
}
END_TEST

START_TEST(wgmma_shapes_are_covered)
{
    static const struct {
        int64_t extents[2];
        int warps, times;
    } cases[] = {{{64, 8}, 4, 1},    {{128, 128}, 4, 1}, {{256, 96}, 8, 1},
                 {{192, 64}, 12, 1}, {{64, 64}, 8, 2},   {{128, 176}, 8, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Layout layout = layout_wgmma_acc(cases[i].extents[0], cases[i].extents[1], cases[i].warps);
        ck_assert(layout_covers(&layout, cases[i].extents));
        each_held(&layout, cases[i].extents, cases[i].times);
        layout =
            layout_wgmma_row_permuted(cases[i].extents[0], cases[i].extents[1], cases[i].warps);
        ck_assert(layout_covers(&layout, cases[i].extents));
        each_held(&layout, cases[i].extents, cases[i].times);
    }
}
END_TEST

/* Where threads find a left operand of 32-bit elements, rows side by side: a thread's rows are
 * neighbours, and lanes that read at once (four of k, and those beside them) all meet other banks
 * of rows of 128 bytes. */
START_TEST(turned_rows_meet_all_banks)
{
    for (int64_t m = 64; m <= 256; m *= 2) {
        int warps = m == 64 ? 4 : 8, run = m == 256 ? 4 : 2, lanes = 32 / run;
        Layout layout = layout_wgmma_row_permuted(m, 64, warps);
        int32_t second[MAX_RANK];
        layout_apply(&layout, 2, 0, 0, second); /* the instruction's second row */
        ck_assert_int_eq(second[0], 1);
        for (int first = 0; first < 32; first += lanes) {
            uint32_t met = 0;
            for (int lane = first; lane < first + lanes; lane++) {
                int32_t at[MAX_RANK];
                layout_apply(&layout, 0, (uint32_t)lane, 0, at);
                int64_t byte = shared_offset(32, m, 4, 128, 0, lane % 4, at[0]);
                for (int word = 0; word < run; word++) {
                    met |= UINT32_C(1) << (byte / 4 + word) % 32;
                }
            }
            ck_assert_uint_eq(met, UINT32_MAX);
        }
    }
}
END_TEST

START_TEST(shape_ops_follow_elements)
{
    Layout layout = blocked(64, 64);
    Layout dropped = layout_drop_axis(&layout, 1);
    Layout row = layout_pick_axes(&layout, 1, (int[]){1});
    Layout column = layout_pick_axes(&layout, 2, (int[]){0, -1});
    Layout turned = layout_pick_axes(&layout, 2, (int[]){1, 0});
    Layout wide = layout_pick_axes(&layout, 3, (int[]){0, -1, 1});
    Layout narrow = layout_pick_axes(&wide, 2, (int[]){0, 2});
    ck_assert(layout_equal(&dropped, &column));
    ck_assert(layout_equal(&narrow, &layout));
    for (uint32_t reg = 0; reg < 16; reg++) {
        for (uint32_t lane = 0; lane < 32; lane++) {
            int32_t at[MAX_RANK], other[MAX_RANK];
            layout_apply(&layout, reg, lane, 3, at);
            layout_apply(&row, reg, lane, 3, other);
            ck_assert_int_eq(other[0], at[1]);
            layout_apply(&column, reg, lane, 3, other);
            ck_assert(other[0] == at[0] && other[1] == 0);
            layout_apply(&turned, reg, lane, 3, other);
            ck_assert(other[0] == at[1] && other[1] == at[0]);
            layout_apply(&wide, reg, lane, 3, other);
            ck_assert(other[0] == at[0] && other[1] == 0 && other[2] == at[1]);
        }
    }
}
END_TEST

START_TEST(permutes_undo_each_other)
{
    int64_t extents[3] = {4, 8, 64};
    Layout layout = layout_blocked(3, extents, (int[]){2, 1, 0}, (int[]){1, 1, 4},
                                   (int[]){1, 2, 16}, (int[]){2, 2, 1});
    Layout there = layout_pick_axes(&layout, 3, (int[]){2, 0, 1});
    Layout back = layout_pick_axes(&there, 3, (int[]){1, 2, 0});
    ck_assert(layout_equal(&back, &layout));
}
END_TEST

START_TEST(renaming)
{
    Layout wide = layout_wgmma_acc(128, 128, 8), narrow = layout_wgmma_acc(128, 64, 8);
    Layout rows = layout_drop_axis(&wide, 1), others = layout_drop_axis(&narrow, 1);
    Layout compact = layout_compact(&rows), same = layout_compact(&others);
    ck_assert(!layout_equal(&rows, &others));
    ck_assert(layout_is_noop_conversion(&rows, &others) &&
              layout_is_noop_conversion(&others, &rows));
    ck_assert(layout_equal(&compact, &same));
    ck_assert_int_eq(layout_registers(&compact), 2);
    ck_assert_int_eq(layout_source_register(&rows, &compact, 1), 2);
    Layout elsewhere = blocked(128, 128);
    ck_assert(!layout_is_noop_conversion(&wide, &elsewhere));
    ck_assert(layout_is_noop_conversion(&wide, &narrow));
    ck_assert(!layout_is_noop_conversion(&narrow, &wide));
}
END_TEST

START_TEST(questions)
{
    Layout layout = blocked(64, 64), acc = layout_wgmma_acc(64, 64, 4);
    ck_assert_int_eq(layout_contiguous(&layout, 1), 4);
    ck_assert_int_eq(layout_contiguous(&layout, 0), 1);
    ck_assert_int_eq(layout_contiguous(&acc, 1), 2);
    ck_assert(!layout_crosses(&acc, IN_WARP, 1));
    ck_assert(layout_crosses(&acc, IN_LANE, 1));
    ck_assert(layout_crosses(&layout, IN_WARP, 1));
    int64_t extents[2] = {48, 80};
    Layout odd = blocked(48, 80);
    ck_assert(layout_register_exists(&odd, extents, 0));
    int existing = 0;
    for (int reg = 0; reg < layout_registers(&odd); reg++) {
        existing += layout_register_exists(&odd, extents, (uint32_t)reg);
    }
    ck_assert_int_lt(existing, layout_registers(&odd));
}
END_TEST

/* ---- shared tiles ---- */

/* The engine writes a box of rows × `swizzle` bytes row by row, and XORs bits 4… of the address
 * with bits 7…. Wider tiles are several boxes. */
static int64_t engine_offset(int64_t rows, int elem_bytes, int swizzle, int64_t row, int64_t col)
{
    int64_t byte = col * elem_bytes, box = byte / swizzle;
    int64_t address = box * rows * swizzle + row * swizzle + byte % swizzle;
    int64_t mask = swizzle / 16 - 1;
    return address ^ ((address >> 7 & mask) << 4);
}

START_TEST(shared_tiles_are_as_the_engine_writes)
{
    static const int swizzles[] = {32, 64, 128};
    static bool seen[64 * 128 * 4];
    for (size_t i = 0; i < 3; i++) {
        for (int bytes = 1; bytes <= 4; bytes *= 2) {
            memset(seen, 0, sizeof seen);
            for (int64_t row = 0; row < 64; row++) {
                for (int64_t col = 0; col < 128; col++) {
                    int64_t at = shared_offset(64, 128, bytes, swizzles[i], 0, row, col);
                    ck_assert_int_eq(at, engine_offset(64, bytes, swizzles[i], row, col));
                    ck_assert(at >= 0 && at < 64 * 128 * bytes && !seen[at]);
                    seen[at] = true;
                }
            }
        }
    }
    ck_assert_int_eq(shared_offset(8, 10, 4, 0, 0, 3, 7), (3 * 10 + 7) * 4);
}
END_TEST

UNIT_TESTS(ir_layout)
{
    TCase *tests = tcase_create("layout");
    tcase_add_test(tests, blocked_holds_each_once);
    tcase_add_test(tests, small_tiles_have_copies);
    tcase_add_test(tests, wgmma_is_as_documented);
    tcase_add_test(tests, wgmma_shapes_are_covered);
    tcase_add_test(tests, turned_rows_meet_all_banks);
    tcase_add_test(tests, shape_ops_follow_elements);
    tcase_add_test(tests, permutes_undo_each_other);
    tcase_add_test(tests, renaming);
    tcase_add_test(tests, questions);
    tcase_add_test(tests, shared_tiles_are_as_the_engine_writes);
    return tests;
}
