/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model: how resources, chains and waves add up, and that a product's cost depends on the
 * card. */
#include "tests/unit.h"

#include "ir/target/target_card.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/wave_model.h"

#include <math.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* The longest resource alone; a fifth more where two are as long. */
START_TEST(resources_overlap)
{
    StepCost step = {.busy = {[COST_MATRIX] = 100}};
    ck_assert(near(cost_step(&step), 100));
    step.busy[COST_L2] = 100;
    ck_assert(near(cost_step(&step), 100 * pow(2, 0.25)));
    step.exposed = 50;
    ck_assert(near(cost_step(&step), 100 * pow(2, 0.25) + 50));
}
END_TEST

/* A chain from step to step counts if it is longer than what resources take; streams share it. */
START_TEST(chains_bound_a_step)
{
    StepCost step = {.busy = {[COST_ISSUE] = 100}, .recurrence = 300};
    ck_assert(near(cost_step(&step), 300));
    step.streams = 2;
    ck_assert(near(cost_step(&step), 150));
    step.streams = 4;
    ck_assert(near(cost_step(&step), 100));
    TileCost tile = {.steps = 10, .step = 100, .prologue = 7, .epilogue = 30};
    ck_assert(near(cost_tile(&tile), 1037));
}
END_TEST

START_TEST(waves_are_whole)
{
    ck_assert_int_eq(cost_waves(0, 132), 0);
    ck_assert_int_eq(cost_waves(1, 132), 1);
    ck_assert_int_eq(cost_waves(132, 132), 1);
    ck_assert_int_eq(cost_waves(133, 132), 2);
    ck_assert_int_eq(cost_waves(INT64_MAX, 1), INT64_MAX);
}
END_TEST

static DotTiling chosen(Arena *arena, const char *card, int64_t m, int64_t n, int64_t k)
{
    const Target *near_target, *target = target_on_card(arena, card, &near_target);
    DotProblem size = {
        .m = m, .n = n, .k = k, .batch = 1, .taps = 1, .n_multiple = 64, .dots = 1, .bytes = 2};
    return wave_model_choose(target, target->machine, &size);
}

/* The waves of a product are those of the card's multiprocessors, its floor that of its memory. */
START_TEST(products_depend_on_the_card)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    DotTiling h200 = chosen(&arena, "sm_90a", 3072, 3072, 3072);
    DotTiling half = chosen(&arena, "sm_90a@66x1980", 3072, 3072, 3072);
    ck_assert(half.cycles > 1.5 * h200.cycles && half.cycles < 2.5 * h200.cycles);
    /* Every choice costs no more than the plain tile. */
    const Target *near_target, *pcie = target_on_card(&arena, "sm_90a@h100-pcie", &near_target);
    DotProblem size = {.m = 4000,
                       .n = 4104,
                       .k = 4096,
                       .batch = 1,
                       .taps = 1,
                       .n_multiple = 64,
                       .dots = 1,
                       .bytes = 2};
    DotTiling best = wave_model_choose(pcie, pcie->machine, &size);
    ck_assert(best.cycles <= wave_model_tiling(pcie, pcie->machine, &size, 128, 256, 1).cycles);
    /* One row of a matrix: memory is all that counts, and the H100 has less of it. */
    double slow = chosen(&arena, "sm_90a@h100", 64, 65536, 8192).cycles;
    ck_assert(slow > 1.2 * chosen(&arena, "sm_90a@h200", 64, 65536, 8192).cycles);
    arena_free(&arena);
}
END_TEST

/* The copy engine takes as long for 96 bytes of a row as for the line of 128, and half as long for
 * half a line. */
START_TEST(parts_of_lines_cost_a_line)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    const Target *near_target, *target = target_on_card(&arena, "sm_90a@h100", &near_target);
    DotProblem size = {.m = 4096, .n = 4096, .k = 96, .batch = 1, .taps = 1, .dots = 1, .bytes = 2};
    DotTiling tiles = {.m = 128, .n = 128, .depth = 64, .split_k = 1, .count = 1024};
    double whole = dot_cost(target, target->machine, &size, &tiles).l2;
    tiles.depth = 48;
    ck_assert(near(dot_cost(target, target->machine, &size, &tiles).l2, whole));
    tiles.depth = 80;
    ck_assert(near(dot_cost(target, target->machine, &size, &tiles).l2, 2 * whole));
    tiles.depth = 32;
    ck_assert(near(dot_cost(target, target->machine, &size, &tiles).l2, whole / 2));
    arena_free(&arena);
}
END_TEST

/* Groups of four blocks leave multiprocessors idle (docs/lab/products.md), pairs leave none. */
START_TEST(groups_are_placed_like_clusters)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    const Target *near_target, *target = target_on_card(&arena, "sm_90a@h100", &near_target);
    DotProblem size = {
        .m = 1000, .n = 1000, .k = 1000, .batch = 1, .taps = 1, .dots = 1, .bytes = 2};
    DotTiling tiles = {
        .m = 64, .n = 128, .depth = 64, .split_k = 1, .count = 128, .multicast_m = 2};
    ck_assert(near(dot_cost(target, target->machine, &size, &tiles).tiles_per_sm, 1));
    tiles.multicast_m = 4;
    ck_assert(near(dot_cost(target, target->machine, &size, &tiles).tiles_per_sm, 2));
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(passes_costs)
{
    TCase *tests = tcase_create("costs");
    tcase_add_test(tests, resources_overlap);
    tcase_add_test(tests, chains_bound_a_step);
    tcase_add_test(tests, waves_are_whole);
    tcase_add_test(tests, products_depend_on_the_card);
    tcase_add_test(tests, parts_of_lines_cost_a_line);
    tcase_add_test(tests, groups_are_placed_like_clusters);
    return tests;
}
