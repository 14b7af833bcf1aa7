/* SPDX-License-Identifier: Apache-2.0 */
/* Launch plans: evaluating size expressions, counting blocks, and solving for sizes from shapes. */
#include "runtime/device/device_launch.h"
#include "tests/unit.h"

#include <string.h>

static PlanTerm m = {1, 1, {0}}, n = {1, 1, {1}}, two_n_m = {2, 2, {0, 1}}, three = {3, 0, {0}};
static PlanTerm two_terms[2] = {{2, 2, {0, 1}}, {3, 0, {0}}};

START_TEST(evaluates)
{
    int64_t value;
    PlanExpr both = {2, two_terms}, none = {0, NULL};
    ck_assert(plan_eval(&both, (int64_t[]){5, 7}, &value));
    ck_assert_int_eq(value, 73);
    ck_assert(plan_eval(&none, NULL, &value));
    ck_assert_int_eq(value, 0);
    ck_assert(!plan_eval(&both, (int64_t[]){INT64_MAX / 2, 3}, &value));
    ck_assert(!plan_eval(&both, (int64_t[]){INT64_MAX / 2, 1}, &value)); /* the sum overflows */
}
END_TEST

START_TEST(counts_blocks)
{
    int64_t blocks;
    PlanAxis axes[2] = {{{1, &m}, 128, 0, 0}, {{1, &n}, 0, 0, 0}};
    PlanLaunch launch = {.n_axes = 2, .axes = axes};
    ck_assert(plan_blocks(&launch, (int64_t[]){129, 5}, &blocks));
    ck_assert_int_eq(blocks, 10);
    ck_assert(plan_blocks(&launch, (int64_t[]){128, 5}, &blocks));
    ck_assert_int_eq(blocks, 5);
    ck_assert(plan_blocks(&launch, (int64_t[]){0, 5}, &blocks));
    ck_assert_int_eq(blocks, 0);
    ck_assert(plan_blocks(&launch, (int64_t[]){INT64_MAX, 0}, &blocks));
    ck_assert_int_eq(blocks, 0);
    ck_assert(!plan_blocks(&launch, (int64_t[]){INT64_MAX, INT64_MAX}, &blocks));
    axes[0].from = 256; /* an axis that is walked in part */
    ck_assert(plan_blocks(&launch, (int64_t[]){385, 5}, &blocks));
    ck_assert_int_eq(blocks, 10);
    ck_assert(plan_blocks(&launch, (int64_t[]){256, 5}, &blocks));
    ck_assert_int_eq(blocks, 0);
    ck_assert(plan_blocks(&launch, (int64_t[]){100, 5}, &blocks));
    ck_assert_int_eq(blocks, 0);
    axes[0] = (PlanAxis){{1, &m}, 128, 0, 256};
    ck_assert(plan_blocks(&launch, (int64_t[]){1000, 5}, &blocks));
    ck_assert_int_eq(blocks, 10);
    ck_assert(plan_blocks(&launch, (int64_t[]){100, 5}, &blocks));
    ck_assert_int_eq(blocks, 5);
    launch.n_axes = 0;
    ck_assert(plan_blocks(&launch, NULL, &blocks));
    ck_assert_int_eq(blocks, 1);
}
END_TEST

START_TEST(persistent_blocks_are_resident)
{
    PlanLaunch launch = {.blocks_per_unit = 2, .most_tiles = 100};
    ck_assert_int_eq(plan_resident(&launch, 1000, 4), 1000);
    launch.persistent = true;
    ck_assert_int_eq(plan_resident(&launch, 7, 4), 7);
    ck_assert_int_eq(plan_resident(&launch, 800, 4), 8);
    ck_assert_int_eq(plan_resident(&launch, 801, 4), 9);
    launch.most_tiles = 0;
    ck_assert_int_eq(plan_resident(&launch, INT64_MAX, 4), 8);
    launch.cluster = 4; /* whole clusters, which walk together */
    ck_assert_int_eq(plan_resident(&launch, 800, 7), 12);
    ck_assert_int_eq(plan_resident(&launch, 8, 7), 8);
    launch.most_tiles = 8;
    ck_assert_int_eq(plan_resident(&launch, 800, 7), 100);
    ck_assert_int_eq(plan_resident(&launch, 804, 7), 104);
}
END_TEST

/* a[M, N], b[2 N M, 3] */
static PlanExpr dims_a[2] = {{1, &m}, {1, &n}}, dims_b[2] = {{1, &two_n_m}, {1, &three}};
static PlanSize sizes[2] = {{"M", 4, 1, 64, .by = 0}, {"N", 1, 0, INT64_MAX, .by = 0}};
static PlanParam params[2] = {{"a", DT_F32, PLAN_IN, 2, dims_a, .align = 4},
                              {"b", DT_F32, PLAN_OUT, 2, dims_b, .align = 4}};
static const Plan PLAN = {"k",  "native", 2,    sizes, 2,    params,        0,
                          NULL, 0,        NULL, 0,     NULL, .log_words = 0};

static const char *problem(int64_t rows, int64_t columns, int64_t b_rows, int64_t b_columns)
{
    static DeviceError error;
    int64_t found[2];
    LaunchArg args[2] = {{.tensor = {NULL, DT_F32, 2, {rows, columns}}},
                         {.tensor = {NULL, DT_F32, 2, {b_rows, b_columns}}}};
    error.text[0] = '\0';
    return plan_solve(&PLAN, args, found, &error) ? "" : error.text;
}

START_TEST(checks_shapes)
{
    ck_assert_str_eq(problem(8, 5, 80, 3), "");
    ck_assert_str_eq(problem(8, 0, 0, 3), "");
    ck_assert_str_eq(problem(8, 5, 81, 3),
                     "k: axis 0 of 'b' has 81 elements, but it must have 80 by the other tensors");
    ck_assert_str_eq(problem(8, 5, 80, 4),
                     "k: axis 1 of 'b' has 4 elements, but it must have 3 by the kernel");
    ck_assert_str_eq(problem(9, 5, 90, 3), "k: M is 9, but this code was compiled for M % 4 == 0");
    ck_assert_str_eq(problem(0, 5, 0, 3), "k: M is 0, but this code was compiled for M >= 1");
    ck_assert_str_eq(problem(68, 5, 680, 3), "k: M is 68, but this code was compiled for M <= 64");
    ck_assert_ptr_nonnull(strstr(problem(8, INT64_MAX / 8, 0, 3), "overflows"));
    ck_assert_ptr_nonnull(strstr(problem(-1, 5, 80, 3), "axis 0 of 'a' has size -1"));
}
END_TEST

START_TEST(checks_types)
{
    DeviceError error;
    int64_t found[2];
    LaunchArg args[2] = {{.tensor = {NULL, DT_F16, 2, {8, 5}}},
                         {.tensor = {NULL, DT_F32, 2, {80, 3}}}};
    ck_assert(!plan_solve(&PLAN, args, found, &error));
    ck_assert_str_eq(error.text, "k: 'a' holds f16 here, f32 in the kernel");
    args[0].tensor.dtype = DT_F32;
    args[0].tensor.rank = 1;
    ck_assert(!plan_solve(&PLAN, args, found, &error));
    ck_assert_str_eq(error.text, "k: 'a' has rank 1 here, 2 in the kernel");
}
END_TEST

START_TEST(counts_bytes)
{
    size_t bytes;
    DeviceTensor tensor = {.dtype = DT_BF16, .rank = 2, .dims = {3, 5}};
    ck_assert(plan_bytes(&tensor, &bytes));
    ck_assert_uint_eq(bytes, 30);
    tensor.dims[0] = INT64_MAX;
    ck_assert(!plan_bytes(&tensor, &bytes));
    tensor.dims[1] = 0;
    ck_assert(plan_bytes(&tensor, &bytes));
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

/* a[M], b[N] where N = (M - 3) // 2 */
START_TEST(derives_sizes)
{
    PlanTerm less_three[2] = {{1, 1, {0}}, {-3, 0, {0}}};
    PlanSize halves[2] = {{"M", 1, 0, INT64_MAX, .by = 0},
                          {"N", 1, 0, INT64_MAX, .of = {2, less_three}, .by = 2}};
    PlanParam vectors[2] = {{"a", DT_F32, PLAN_IN, 1, dims_a, .align = 4},
                            {"b", DT_F32, PLAN_OUT, 1, dims_a + 1, .align = 4}};
    Plan plan = {"k", "native", 2, halves, 2, vectors, 0, NULL, 0, NULL, 0, NULL, .log_words = 0};
    DeviceError error;
    int64_t found[2];
    LaunchArg args[2] = {{.tensor = {NULL, DT_F32, 1, {8}}}, {.tensor = {NULL, DT_F32, 1, {2}}}};
    ck_assert(plan_solve(&plan, args, found, &error));
    ck_assert_int_eq(found[1], 2);
    args[1].tensor.dims[0] = 3;
    ck_assert(!plan_solve(&plan, args, found, &error));
    ck_assert_str_eq(error.text,
                     "k: axis 0 of 'b' has 3 elements, but it must have 2 by the other tensors");
    args[0].tensor.dims[0] = 2;
    ck_assert(!plan_solve(&plan, args, found, &error));
    ck_assert_str_eq(error.text, "k: the size N would be negative, or overflows");
}
END_TEST

/* y[M + N]: only what it was compiled for says what each is. */
START_TEST(takes_given_sizes)
{
    PlanTerm sum[2] = {{1, 1, {0}}, {1, 1, {1}}};
    PlanExpr dim = {2, sum};
    PlanSize open[2] = {{"M", 1, 0, INT64_MAX, .by = 0}, {"N", 1, 0, INT64_MAX, .by = 0}};
    PlanParam vector = {"y", DT_F32, PLAN_OUT, 1, &dim, .align = 4};
    Plan plan = {"k", "native", 2, open, 1, &vector, 0, NULL, 0, NULL, 0, NULL, .log_words = 0};
    DeviceError error;
    int64_t found[2];
    LaunchArg arg = {.tensor = {NULL, DT_F32, 1, {7}}};
    ck_assert(!plan_solve(&plan, &arg, found, &error));
    ck_assert_str_eq(error.text, "k: no tensor determines the size M");
    open[0].is_given = open[1].is_given = true;
    open[0].given = 3;
    open[1].given = 4;
    ck_assert(plan_solve(&plan, &arg, found, &error));
    ck_assert_int_eq(found[0], 3);
    ck_assert_int_eq(found[1], 4);
    arg.tensor.dims[0] = 8;
    ck_assert(!plan_solve(&plan, &arg, found, &error));
    ck_assert_str_eq(error.text,
                     "k: axis 0 of 'y' has 8 elements, but it must have 7 by the other tensors");
}
END_TEST

UNIT_TESTS(device_plan)
{
    TCase *tests = tcase_create("plan");
    tcase_add_test(tests, evaluates);
    tcase_add_test(tests, counts_blocks);
    tcase_add_test(tests, persistent_blocks_are_resident);
    tcase_add_test(tests, checks_shapes);
    tcase_add_test(tests, checks_types);
    tcase_add_test(tests, counts_bytes);
    tcase_add_test(tests, derives_sizes);
    tcase_add_test(tests, takes_given_sizes);
    return tests;
}
