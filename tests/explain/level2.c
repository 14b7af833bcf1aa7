/* SPDX-License-Identifier: Apache-2.0 */
/* The cache model keeps the right sectors for given accesses. */
#include "runtime/explain/l2_model.h"
#include "tests/unit.h"

enum { MIB = 1 << 20 };

static Arena arena;

static void begin(void)
{
    arena_init(&arena, allocator_default());
}

static void end(void)
{
    arena_free(&arena);
}

/* Pieces of a kilobyte, from the first or from the last. */
static void walk(Level2 *level2, int64_t bytes, bool back, bool writes)
{
    int64_t n = bytes / 1024;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (back ? n - 1 - i : i) * 1024;
        level2_note(level2, (float)i / (float)n, MIB + at, MIB + at + 1024, writes);
    }
    level2_turn(level2);
}

static void expect_near(double got, double want)
{
    ck_assert_double_ge(got, 0.97 * want);
    ck_assert_double_le(got, 1.03 * want);
}

START_TEST(keeps_what_fits)
{
    Level2 *level2 = level2_new(&arena, 8 * MIB, 1);
    walk(level2, MIB, false, false);
    walk(level2, MIB, false, false);
    ck_assert_double_eq(level2_moved(level2).read, MIB);
    level2_note(level2, 0, 40, 41, false); /* a sector of a line of its own */
    level2_turn(level2);
    ck_assert_double_eq(level2_moved(level2).read, MIB + 32);
}
END_TEST

START_TEST(loses_what_was_touched_longest_ago)
{
    for (int64_t rate = 1; rate <= 4; rate *= 4) {
        Level2 *ahead = level2_new(&arena, 4 * MIB, rate);
        walk(ahead, 16 * MIB, false, false);
        walk(ahead, 16 * MIB, false, false); /* all of it, again */
        expect_near(level2_moved(ahead).read, 32 * MIB);
        Level2 *back = level2_new(&arena, 4 * MIB, rate);
        walk(back, 16 * MIB, false, false);
        walk(back, 16 * MIB, true, false); /* the end is still there */
        expect_near(level2_moved(back).read, 28 * MIB);
    }
}
END_TEST

START_TEST(writes_what_gives_way)
{
    Level2 *level2 = level2_new(&arena, 4 * MIB, 1);
    walk(level2, 16 * MIB, false, true);
    ck_assert_double_eq(level2_moved(level2).read, 0);
    expect_near(level2_moved(level2).written, 12 * MIB);
}
END_TEST

START_TEST(goes_by_place_not_by_order)
{
    Level2 *level2 = level2_new(&arena, 4 * MIB, 1);
    for (int64_t block = 0; block < 2; block++) { /* both walk the same, side by side */
        for (int64_t i = 0; i < 16 * 1024; i++) {
            level2_note(level2, (float)i / (16 * 1024), i * 1024, (i + 1) * 1024, false);
        }
    }
    level2_turn(level2);
    expect_near(level2_moved(level2).read, 16 * MIB);
}
END_TEST

UNIT_TESTS(explain_level2)
{
    TCase *tests = tcase_create("level2");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, keeps_what_fits);
    tcase_add_test(tests, loses_what_was_touched_longest_ago);
    tcase_add_test(tests, writes_what_gives_way);
    tcase_add_test(tests, goes_by_place_not_by_order);
    return tests;
}
