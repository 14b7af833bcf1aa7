/* SPDX-License-Identifier: Apache-2.0 */
/* A plan survives the conversion to bytes and back; damaged bytes are rejected, whatever the
 * damage. */
#include "tests/unit.h"

#include "runtime/device/plan_bytes.h"

#include <stdlib.h>
#include <string.h>

static PlanTerm m = {1, 1, {0}}, nm = {-2, 2, {0, 1}};
static PlanTerm terms[2] = {{7, 0, {0}}, {3, 1, {1}}};
static PlanTerm minus = {-1, 0, {0}};
static PlanExpr dims[2] = {{1, &m}, {2, terms}}, strides[2] = {{1, &nm}, {0, NULL}};
static PlanSize sizes[2] = {
    {"M", 4, 1, INT64_MAX, .of = {1, &m}, .by = 3},
    {"x.stride", 1, INT64_MIN, 99, .stride = true, .is_given = true, .given = -5}};
static PlanParam params[2] = {{"x", DT_BF16, PLAN_INOUT, 2, dims, strides, {1, 0}, 16, 1, {2}},
                              {"s", DT_F32, PLAN_IN, -1, .align = 0}};
static PlanScratch scratch[1] = {{DT_I64, 1, dims, strides, 0, 1}};
static PlanTensorMap maps[1] = {{0,
                                 4,
                                 {64, 1, 1, 128},
                                 128,
                                 false,
                                 true,
                                 1,
                                 2,
                                 2,
                                 {3, 1},
                                 3,
                                 {0, 16, 0},
                                 {{{1, &minus}, 2, {1, &m}}, {{1, &nm}, 1, {2, terms}}}}};
static PlanAxis axes[2] = {{{1, &m}, 128, 256, 0}, {{2, terms}, 0, 0, 7}};
static PlanArg args[5] = {
    {ARG_POINTER, 2}, {ARG_SCALAR, 1}, {ARG_SIZE, 1}, {ARG_MAP, 0}, {ARG_LOG, 0}};
static PlanLaunch launches[1] = {
    {"k_0", 2, axes, 256, 4096, true, 2, 5, 4, 3, true, true, 5, args}};
static const DType dtypes[3] = {DT_F32, DT_I64, DT_I64};
static PlanMessage messages[2] = {{true, "x {1}", "a.tile", 7, 3, 2, dtypes}, {.text = NULL}};
static const Plan PLAN = {"k", "sm_90a", 2, sizes,   2, params, 1,       maps,
                          1,   launches, 1, scratch, 5, 2,      messages};

static Arena arena;

static void begin(void)
{
    arena_init(&arena, allocator_default());
}

static void end(void)
{
    arena_free(&arena);
}

START_TEST(comes_back)
{
    Text once = text_new(&arena), again = text_new(&arena);
    Plan plan;
    plan_to_bytes(&PLAN, &once);
    ck_assert(plan_from_bytes(&arena, once.data, once.n, &plan));
    plan_to_bytes(&plan, &again);
    ck_assert_uint_eq(once.n, again.n);
    ck_assert_int_eq(memcmp(once.data, again.data, once.n), 0);
    ck_assert_str_eq(plan.sizes[1].name, "x.stride");
    ck_assert_int_eq(plan.sizes[1].given, -5);
    ck_assert_int_eq(plan.sizes[0].most, INT64_MAX);
    ck_assert_int_eq(plan.params[0].strides[0].terms[0].coef, -2);
    ck_assert_int_eq(plan.params[0].order[0], 1);
    ck_assert_int_eq(plan.params[0].merged[0], 2);
    ck_assert_ptr_null(plan.params[1].dims);
    ck_assert_ptr_null(plan.params[1].strides);
    ck_assert_int_eq(plan.maps[0].box[3], 128);
    ck_assert_int_eq(plan.maps[0].n_windows, 2);
    ck_assert_int_eq(plan.launches[0].workers, 3);
    ck_assert_int_eq(plan.maps[0].windows[0].step, 2);
    ck_assert_int_eq(plan.maps[0].windows[1].first.terms[0].coef, -2);
    ck_assert_int_eq(plan.maps[0].windows[1].places.terms[1].coef, 3);
    ck_assert_int_eq(plan.launches[0].args[3].kind, ARG_MAP);
    ck_assert_int_eq(plan.launches[0].cluster, 4);
    ck_assert(plan.launches[0].dependent && plan.launches[0].concurrent);
    ck_assert_str_eq(plan.messages[0].file, "a.tile");
    ck_assert_ptr_null(plan.messages[1].text);
}
END_TEST

START_TEST(parts_are_none)
{
    Text bytes = text_new(&arena);
    Plan plan;
    plan_to_bytes(&PLAN, &bytes);
    for (size_t n = 0; n < bytes.n; n++) {
        char *part = malloc(n + 1); /* of just this size, for what looks past it */
        memcpy(part, bytes.data, n);
        ck_assert_msg(!plan_from_bytes(&arena, part, n, &plan), "%zu bytes", n);
        free(part);
    }
    text_char(&bytes, 'x');
    ck_assert(!plan_from_bytes(&arena, bytes.data, bytes.n, &plan));
}
END_TEST

/* Wrong numbers are refused, or make a plan that can be written. */
START_TEST(wrong_numbers_do_no_harm)
{
    Text bytes = text_new(&arena);
    Plan plan;
    plan_to_bytes(&PLAN, &bytes);
    char *changed = malloc(bytes.n);
    int refused = 0;
    for (unsigned i = 0; i < 20000; i++) {
        Arena own;
        arena_init(&own, allocator_default());
        memcpy(changed, bytes.data, bytes.n);
        srand(i);
        for (int k = 1 + rand() % 3; k > 0; k--) {
            changed[(size_t)rand() % bytes.n] = (char)rand();
        }
        if (plan_from_bytes(&own, changed, bytes.n, &plan)) {
            Text again = text_new(&own);
            plan_to_bytes(&plan, &again);
        } else {
            refused++;
        }
        arena_free(&own);
    }
    ck_assert_int_gt(refused, 5000);
    free(changed);
}
END_TEST

UNIT_TESTS(device_plan_bytes)
{
    TCase *tests = tcase_create("plan_bytes");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, comes_back);
    tcase_add_test(tests, parts_are_none);
    tcase_add_test(tests, wrong_numbers_do_no_harm);
    return tests;
}
