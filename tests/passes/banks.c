/* SPDX-License-Identifier: Apache-2.0 */
/* Counting of bank conflicts: known access patterns with known results. */
#include "tests/unit.h"

#include "ir/target/target.h"
#include "passes/analysis/bank_conflicts.h"
#include "passes/analysis/coalescing.h"

static const Target *target;

static SharedTile tile(int64_t rows, int64_t cols, int bytes, int swizzle)
{
    return (SharedTile){2, {rows, cols}, bytes, swizzle, 0};
}

static int64_t wavefronts(const SharedTile *shared, const Layout *layout)
{
    int64_t least = 0, turns = an_shared_wavefronts(target, shared, layout, &least);
    ck_assert_int_gt(least, 0);
    ck_assert_int_ge(turns, least);
    return turns;
}

/* A warp down a column: as many words of one bank as rows, unless pieces are permuted. */
START_TEST(columns_conflict_until_swizzled)
{
    Layout column = {.rank = 2, .bits = {0, 5, 0}};
    for (int bit = 0; bit < 5; bit++) {
        column.basis[IN_LANE][bit][0] = 1 << bit;
    }
    SharedTile plain = tile(32, 32, 4, 0), permuted = tile(32, 32, 4, 128);
    ck_assert_int_eq(wavefronts(&plain, &column), 32);
    ck_assert_int_eq(wavefronts(&permuted, &column),
                     4); /* 8 pieces of 16 bytes */
}
END_TEST

START_TEST(rows_do_not)
{
    Layout row = {.rank = 2, .bits = {2, 5, 0}};
    row.basis[IN_REGISTER][0][1] = 1;
    row.basis[IN_REGISTER][1][1] = 2;
    for (int bit = 0; bit < 5; bit++) {
        row.basis[IN_LANE][bit][1] = 4 << bit;
    }
    SharedTile plain = tile(1, 128, 4, 0);
    ck_assert_int_eq(an_shared_vector(&plain, &row), 4);
    ck_assert_int_eq(wavefronts(&plain, &row), 4); /* 512 bytes, 128 at a time */
}
END_TEST

/* Accumulators of wgmma, rounded to 16 bits, into the tile of a bulk store. */
START_TEST(accumulators_store_without_conflict)
{
    Layout acc = layout_wgmma_acc(128, 256, 8);
    SharedTile plain = tile(128, 256, 2, 0), permuted = tile(128, 256, 2, 128);
    ck_assert_int_eq(wavefronts(&permuted, &acc), 64); /* one a register pair */
    ck_assert_int_eq(wavefronts(&plain, &acc), 64 * 8);
    ck_assert(an_swizzle_fits(&permuted, 128));
    SharedTile narrow = tile(128, 48, 2, 0), few = tile(4, 64, 2, 0);
    ck_assert(an_swizzle_fits(&narrow, 32) && !an_swizzle_fits(&narrow, 64));
    ck_assert(!an_swizzle_fits(&few, 128));
}
END_TEST

/* Threads four rows apart meet in the bank of their column, unless the row is shifted first. */
START_TEST(rows_apart_conflict_until_skewed)
{
    Layout apart = {.rank = 2, .bits = {0, 5, 0}};
    for (int bit = 0; bit < 4; bit++) {
        apart.basis[IN_LANE][bit][0] = 4 << bit;
    }
    apart.basis[IN_LANE][4][1] = 1;
    SharedTile permuted = tile(64, 64, 4, 128), skewed = permuted;
    skewed.skew = 2;
    ck_assert_int_eq(wavefronts(&permuted, &apart), 8);
    ck_assert_int_eq(wavefronts(&skewed, &apart), 2); /* 16 rows, 8 pieces */
}
END_TEST

/* A warp along a row of f32 uses all that it moves; down a column, 4 bytes of each sector, unless
 * its rows are so short that they follow one another in a sector. */
START_TEST(sectors_are_counted)
{
    Layout row = {.rank = 2, .bits = {2, 5, 0}}, column = {.rank = 2, .bits = {0, 5, 0}};
    for (int bit = 0; bit < 5; bit++) {
        row.basis[IN_LANE][bit][1] = 4 << bit;
        column.basis[IN_LANE][bit][0] = 1 << bit;
    }
    row.basis[IN_REGISTER][0][1] = 1;
    row.basis[IN_REGISTER][1][1] = 2;
    const int64_t apart[2] = {0, 1}, close[2] = {2, 1};
    Sectors along = an_sectors(&row, apart, 32, 4), down = an_sectors(&column, apart, 32, 1);
    ck_assert_int_eq(along.touched, 16);
    ck_assert_int_eq(along.used, 512);
    ck_assert_int_eq(down.touched, 32);
    ck_assert_int_eq(down.used, 128);
    ck_assert_int_eq(an_sectors(&column, close, 32, 1).touched, 8);
}
END_TEST

UNIT_TESTS(passes_banks)
{
    TCase *tests = tcase_create("banks");
    target = target_find("sm_90a");
    tcase_add_test(tests, columns_conflict_until_swizzled);
    tcase_add_test(tests, rows_do_not);
    tcase_add_test(tests, accumulators_store_without_conflict);
    tcase_add_test(tests, rows_apart_conflict_until_skewed);
    tcase_add_test(tests, sectors_are_counted);
    return tests;
}
