/* SPDX-License-Identifier: Apache-2.0 */
/* im2col tensor maps on a mock driver: corners, strides, and the tensor's own axes if the code has
 * collapsed them. */
#include "tests/mock_driver/mock.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* in[2, H, 12, 64], of which places along H are 2 apart, (H - 1) // 2 + 1 of them from -1 on, and
 * 13 along the next axis, from 7 - H on. */
enum { IMAGES = 2, WIDTH = 12, CHANNELS = 64 };
static PlanTerm two = {IMAGES, 0, {0}}, h = {1, 1, {0}}, width = {WIDTH, 0, {0}},
                channels = {CHANNELS, 0, {0}}, rest[2] = {{-1, 0, {0}}, {1, 1, {0}}},
                down[2] = {{1, 0, {0}}, {1, 1, {1}}}, along = {WIDTH + 1, 0, {0}},
                one = {-1, 0, {0}}, less[2] = {{7, 0, {0}}, {-1, 1, {0}}};
static PlanExpr dims[4] = {{1, &two}, {1, &h}, {1, &width}, {1, &channels}};
static PlanSize sizes[2] = {{"H", 1, 0, INT64_MAX, .by = 0},
                            {"P", 1, 0, INT64_MAX, .of = {2, rest}, .by = 2}};
static PlanAxis axes[1] = {{{1, &h}, 0, 0, 0}};
static PlanArg args[2] = {{ARG_POINTER, 0}, {ARG_MAP, 0}};
static PlanTensorMap maps[1] = {{0,
                                 4,
                                 {128, 1, 1, 64},
                                 128,
                                 false,
                                 true,
                                 0,
                                 2,
                                 0,
                                 {0},
                                 0,
                                 {0},
                                 {{{1, &one}, 2, {2, down}}, {{2, less}, 1, {1, &along}}}}};
static PlanLaunch launches[1] = {{.symbol = "mock_0",
                                  .n_axes = 1,
                                  .axes = axes,
                                  .threads = 128,
                                  .blocks_per_unit = 1,
                                  .cluster = 1,
                                  .n_args = 2,
                                  .args = args}};

static void *plain_alloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void plain_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static bool run_plan(const CudaDriver *driver, Plan *plan, int64_t height, DeviceError *error)
{
    static char memory[IMAGES * 64 * WIDTH * CHANNELS * 2];
    Allocator allocator = {plain_alloc, plain_release, NULL};
    DeviceImage image = {.bytes = "code", .n = 4};
    LaunchArg arg = {.tensor = {memory, DT_BF16, 4, {IMAGES, height, WIDTH, CHANNELS}, false, {0}}};
    LoadedModule loaded;
    Device *device = device_open(&device_cuda, allocator, MOCK_OPENED, driver, error);
    ck_assert(device && loaded_open(device, plan, &image, &loaded, error));
    PreparedLaunch *prepared = launch_prepare(&loaded, &arg, error);
    bool ok = prepared && launch_run(prepared, NULL, error);
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
    return ok;
}

static bool run(const CudaDriver *driver, PlanParam *param, int64_t height, DeviceError *error)
{
    Plan plan = {"mock", "sm_90a", 2,        sizes, 1,    param,         1,
                 maps,   1,        launches, 0,     NULL, .log_words = 0};
    return run_plan(driver, &plan, height, error);
}

static void check_map(void)
{
    ck_assert_uint_eq(mock.map_rank, 4);
    ck_assert_uint_eq(mock.map_type, CU_MAP_BF16);
    ck_assert_uint_eq(mock.map_swizzle, CU_MAP_SWIZZLE_128);
    ck_assert_uint_eq(mock.map_pixels, 128);
    ck_assert_uint_eq(mock.map_channels, 64);
    ck_assert_uint_eq(mock.map_dims[0], CHANNELS);
    ck_assert_uint_eq(mock.map_dims[1], WIDTH);
    ck_assert_uint_eq(mock.map_dims[2], 9);
    ck_assert_uint_eq(mock.map_dims[3], IMAGES);
    ck_assert_uint_eq(mock.map_strides[0], CHANNELS * 2);
    ck_assert_uint_eq(mock.map_strides[2], 9 * WIDTH * CHANNELS * 2);
    ck_assert_uint_eq(mock.map_steps[1], 1);
    ck_assert_uint_eq(mock.map_steps[2], 2);
    ck_assert_int_eq(mock.map_lower[0], -2); /* the fastest axis first */
    ck_assert_int_eq(mock.map_lower[1], -1);
    ck_assert_int_eq(mock.map_upper[0], -1); /* the last window begins at 10 of 0 … 11, */
    ck_assert_int_eq(mock.map_upper[1], -1); /* at 7 of 0 … 8 */
}

START_TEST(corners)
{
    PlanParam param = {"in", DT_BF16, PLAN_IN, 4, dims, .align = 16};
    DeviceError error;
    mock_reset(0);
    ck_assert_msg(run(&mock_cuda, &param, 9, &error), "%s", error.text);
    check_map();
}
END_TEST

START_TEST(merged_axes)
{
    PlanParam param = {"in", DT_BF16,     PLAN_IN,       4,
                       dims, .align = 16, .n_merged = 2, .merged = {3, 1}};
    DeviceError error;
    mock_reset(0);
    ck_assert_msg(run(&mock_cuda, &param, 9, &error), "%s", error.text);
    check_map();
}
END_TEST

/* Of what a launch before has written. */
START_TEST(intermediates)
{
    PlanParam param = {"in", DT_BF16, PLAN_IN, 4, dims, .align = 16};
    PlanScratch scratch = {DT_BF16, 4, dims, NULL, 0, 0};
    PlanTensorMap map = maps[0];
    map.param = 1;
    Plan plan = {"mock", "sm_90a", 2,        sizes, 1,    &param,        1,
                 &map,   1,        launches, 0,     NULL, .log_words = 0};
    plan.n_scratch = 1;
    plan.scratch = &scratch;
    DeviceError error;
    mock_reset(0);
    ck_assert_msg(run_plan(&mock_cuda, &plan, 9, &error), "%s", error.text);
    check_map();
}
END_TEST

/* No place, no descriptor. */
START_TEST(no_windows)
{
    PlanParam param = {"in", DT_BF16, PLAN_IN, 4, dims, .align = 16};
    DeviceError error;
    mock_reset(0);
    mock.map_rank = 77;
    ck_assert_msg(run(&mock_cuda, &param, 0, &error) || error.text[0], "no word");
    ck_assert_uint_eq(mock.map_rank, 77);
}
END_TEST

START_TEST(old_drivers)
{
    PlanParam param = {"in", DT_BF16, PLAN_IN, 4, dims, .align = 16};
    CudaDriver old = mock_cuda;
    DeviceError error;
    mock_reset(0);
    old.encode_im2col = NULL;
    ck_assert(!run(&old, &param, 9, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "cuTensorMapEncodeIm2col"));
}
END_TEST

UNIT_TESTS(device_windows)
{
    TCase *tests = tcase_create("windows");
    tcase_add_test(tests, corners);
    tcase_add_test(tests, merged_axes);
    tcase_add_test(tests, intermediates);
    tcase_add_test(tests, no_windows);
    tcase_add_test(tests, old_drivers);
    return tests;
}
