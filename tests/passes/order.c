/* SPDX-License-Identifier: Apache-2.0 */
/* The table of passes is in the order that the constraints require. */
#include "tests/unit.h"

#include "passes/pass.h"

START_TEST(constraints_hold)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    Text out = text_new(&arena);
    int broken = passes_check_constraints(&out);
    ck_assert_msg(broken == 0, "%s", out.data);
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(passes_order)
{
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, constraints_hold);
    return tests;
}
