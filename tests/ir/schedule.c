/* SPDX-License-Identifier: Apache-2.0 */
/* Schedule entries: which of several wins, and how they print. */
#include "tests/unit.h"

#include "ir/schedule.h"
#include "ir/target/target_card.h"

#include <string.h>

typedef struct World {
    Arena arena;
    Diags diags;
    Func *func;
} World;

/* In place: the function points to the arena. */
static void world_init(World *w)
{
    *w = (World){0};
    arena_init(&w->arena, allocator_default());
    diags_init(&w->diags, &w->arena);
    w->func = func_new(&w->arena, &w->diags, "f");
}

START_TEST(given_lines_beat_derived_ones)
{
    World w;
    world_init(&w);
    schedule_add_user(
        w.func, (ScheduleEntry){.key = "pipeline", .sub = "", .number = 3, .origin = ENTRY_SOURCE});
    ck_assert_int_eq(schedule_decide_int(w.func, "pipeline", "", 4, "fits"), 3);
    schedule_add_user(
        w.func,
        (ScheduleEntry){.key = "pipeline", .sub = "", .number = 5, .origin = ENTRY_COMMAND});
    schedule_add_user(
        w.func, (ScheduleEntry){.key = "pipeline", .sub = "", .number = 6, .origin = ENTRY_SOURCE});
    ck_assert_int_eq(schedule_decide_int(w.func, "pipeline", "", 4, "fits"), 5);
    ck_assert(schedule_user_entry(w.func, "pipeline", "")->used);
    ck_assert_ptr_null(schedule_user_entry(w.func, "warps", ""));
    ck_assert_str_eq(schedule_decide_symbol(w.func, "instruction", "", "fma", "f32"), "fma");
    ck_assert_ptr_null(schedule_user_entry(w.func, "instruction", ""));
    arena_free(&w.arena);
}
END_TEST

START_TEST(prints_as_it_may_be_written)
{
    World w;
    world_init(&w);
    Text out = text_new(&w.arena);
    schedule_decide_int(w.func, "warps", "producer", 4, "copies");
    schedule_decide_int(w.func, "warps", "", 8, "two groups of %d", 4);
    schedule_decide_int(w.func, "tile", "M", 128, "square");
    schedule_add_user(
        w.func, (ScheduleEntry){.key = "tile", .sub = "N", .number = 256, .origin = ENTRY_SOURCE});
    schedule_print(w.func, false, &out);
    ck_assert_str_eq(out.data, "tile M 128, N 256\nwarps 8 producer 4\n");
    out.n = 0;
    schedule_print(w.func, true, &out);
    ck_assert_ptr_nonnull(strstr(out.data, "tile M 128, N 256  # square; given in the source\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "warps 8 producer 4  # two groups of 4; copies\n"));
    arena_free(&w.arena);
}
END_TEST

START_TEST(lines_of_one_launch)
{
    World w;
    world_init(&w);
    Text out = text_new(&w.arena);
    schedule_at_launch(w.func, 0);
    schedule_decide_int(w.func, "tile", "M", 16, "rows");
    schedule_decide_int(w.func, "warps", "", 8, "wide");
    schedule_at_launch(w.func, 1);
    schedule_decide_int(w.func, "tile", "M", 1, "sums");
    schedule_decide_int(w.func, "warps", "", 8, "wide");
    schedule_print(w.func, false, &out);
    ck_assert_str_eq(out.data, "tile M 16\nlaunch 1: tile M 1\nwarps 8\n");
    ck_assert(schedule_differs(&w.func->schedule->entries.items[0]));
    ck_assert(!schedule_differs(&w.func->schedule->entries.items[1]));
    schedule_at_launch(w.func, 0); /* decided again: the other launch keeps its own */
    schedule_decide_int(w.func, "warps", "", 4, "less");
    out.n = 0;
    schedule_print(w.func, true, &out);
    ck_assert_str_eq(out.data, "tile M 16  # rows\nlaunch 1: tile M 1  # sums\n"
                               "warps 4  # less\nlaunch 1: warps 8  # wide\n");
    arena_free(&w.arena);
}
END_TEST

START_TEST(a_line_for_one_launch_counts_more)
{
    World w;
    world_init(&w);
    ScheduleEntry all = {.key = "warps", .sub = "", .number = 8, .origin = ENTRY_SOURCE}, one = all;
    one.per_launch = true;
    one.launch = 1;
    one.number = 2;
    schedule_add_user(w.func, one);
    schedule_add_user(w.func, all);
    ck_assert_int_eq(schedule_decide_int(w.func, "warps", "", 4, "fits"), 8);
    schedule_at_launch(w.func, 1);
    ck_assert_int_eq(schedule_decide_int(w.func, "warps", "", 4, "fits"), 2);
    all.origin = ENTRY_COMMAND;
    schedule_add_user(w.func, all); /* the stronger one, whomever it is for */
    ck_assert_int_eq(schedule_decide_int(w.func, "warps", "", 4, "fits"), 8);
    Text out = text_new(&w.arena);
    schedule_print(w.func, false, &out);
    ck_assert_str_eq(out.data, "warps 8\n");
    ck_assert_str_eq(schedule_name(&w.arena, &one), "launch 1: warps");
    arena_free(&w.arena);
}
END_TEST

START_TEST(kinds)
{
    size_t n;
    const ScheduleKey *rows = schedule_keys(&n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(schedule_key(rows[i].key), &rows[i]);
    }
    ck_assert_ptr_null(schedule_key("tiles"));
    ck_assert(schedule_lists("- producer", "producer") && !schedule_lists("- producer", "prod"));
}
END_TEST

START_TEST(targets)
{
    size_t n;
    const struct Target *rows = target_rows(&n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(target_find(rows[i].name), &rows[i]);
        ck_assert(rows[i].warp > 0 && rows[i].vector_bytes % 16 == 0);
    }
    ck_assert_ptr_null(target_find("sm_9"));
}
END_TEST

/* Every card belongs to a target whose first row is its default card, and is found by its name. */
START_TEST(cards)
{
    Arena arena;
    const Target *near;
    arena_init(&arena, allocator_default());
    for (int i = 0; i < N_MACHINES; i++) {
        const Machine *card = &MACHINES[i];
        const Target *usual = target_find(card->target);
        ck_assert_ptr_nonnull(usual);
        bool first = i == 0 || strcmp(MACHINES[i - 1].target, card->target) != 0;
        ck_assert(first == (usual->machine == card));
        const char *name = arena_printf(&arena, "%s@%s", card->target, card->name);
        const Target *target = target_on_card(&arena, name, &near);
        ck_assert_ptr_nonnull(target);
        ck_assert_ptr_eq(target->machine, card);
        ck_assert_str_eq(target_spelling(target), first ? card->target : name);
        if (usual->family != FAMILY_CPU) {
            ck_assert(card->num_sms > 0 && card->clock > 0 && card->matrix_clock > 0);
            ck_assert(card->product16 > 0 && card->lanes > 0 && card->memory_bytes > 0);
            ck_assert_ptr_eq(target_of_device(&arena, usual, card->title, 0, 0)->machine, card);
        }
    }
    arena_free(&arena);
}
END_TEST

static const char *card_of(Arena *arena, const char *device, int num_sms, int clock)
{
    const Target *hopper = target_find("sm_90a");
    return target_spelling(target_of_device(arena, hopper, device, num_sms, clock));
}

/* What drivers report; a device that no row describes keeps its multiprocessors and clock. */
START_TEST(devices)
{
    Arena arena;
    const Target *near;
    arena_init(&arena, allocator_default());
    ck_assert_str_eq(card_of(&arena, "NVIDIA H100 80GB HBM3", 132, 1980), "sm_90a@h100");
    ck_assert_str_eq(card_of(&arena, "NVIDIA H100 PCIe", 114, 1755), "sm_90a@h100-pcie");
    ck_assert_str_eq(card_of(&arena, "NVIDIA H200", 132, 1980), "sm_90a");
    ck_assert_str_eq(card_of(&arena, "NVIDIA H20", 78, 1755), "sm_90a@78x1755");
    ck_assert_str_eq(card_of(&arena, "NVIDIA H200 MIG 1g.18gb", 16, 0), "sm_90a@16x1980");
    ck_assert_str_eq(card_of(&arena, "another", 132, 1980), "sm_90a");
    ck_assert_str_eq(card_of(&arena, "another", 0, 0), "sm_90a");
    const Target *half = target_on_card(&arena, "sm_90a@66x990", &near);
    ck_assert_int_eq(half->machine->num_sms, 66);
    ck_assert_int_eq(half->machine->cluster_spare, 8);
    ck_assert_int_eq(half->machine->memory_gbs, 2400);
    ck_assert_int_eq(half->machine->memory_bytes, 2460);
    ck_assert_int_eq(half->machine->matrix_clock, 915);
    ck_assert_ptr_null(target_on_card(&arena, "sm_90a@66x990x", &near));
    ck_assert_str_eq(near->name, "sm_90a");
    ck_assert_ptr_null(target_on_card(&arena, "sm_91@h100", &near));
    ck_assert_ptr_null(near);
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(ir_schedule)
{
    TCase *tests = tcase_create("schedule");
    tcase_add_test(tests, given_lines_beat_derived_ones);
    tcase_add_test(tests, prints_as_it_may_be_written);
    tcase_add_test(tests, lines_of_one_launch);
    tcase_add_test(tests, a_line_for_one_launch_counts_more);
    tcase_add_test(tests, kinds);
    tcase_add_test(tests, targets);
    tcase_add_test(tests, cards);
    tcase_add_test(tests, devices);
    return tests;
}
