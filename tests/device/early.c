/* SPDX-License-Identifier: Apache-2.0 */
/* Programmatic dependent launches on a mock driver: launches that begin before the previous one
 * ends. */
#include "tests/mock_driver/mock.h"
#include "tests/unit.h"

#include <stdlib.h>

enum { ROWS = 4 };
static PlanTerm four = {ROWS, 0, {0}};
static PlanExpr dims[1] = {{1, &four}};
static PlanParam params[1] = {{"out", DT_F32, PLAN_OUT, 1, dims, .align = 16}};
static PlanAxis axes[1] = {{{1, &four}, 1, 0, 0}};
static PlanArg args[1] = {{ARG_POINTER, 0}};

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

static void run(const CudaDriver *driver, bool early, int cluster)
{
    static float memory[ROWS];
    PlanLaunch launches[1] = {{.symbol = "mock_0",
                               .n_axes = 1,
                               .axes = axes,
                               .threads = 128,
                               .blocks_per_unit = 1,
                               .cluster = cluster,
                               .dependent = early,
                               .n_args = 1,
                               .args = args}};
    Plan plan = {.kernel = "mock",
                 .target = "sm_90a",
                 .n_params = 1,
                 .params = params,
                 .n_launches = 1,
                 .launches = launches};
    Allocator allocator = {plain_alloc, plain_release, NULL};
    DeviceImage image = {.bytes = "code", .n = 4};
    LaunchArg arg = {.tensor = {memory, DT_F32, 1, {ROWS}, false, {0}}};
    LoadedModule loaded;
    DeviceError error;
    Device *device = device_open(&device_cuda, allocator, MOCK_OPENED, driver, &error);
    ck_assert(device && loaded_open(device, &plan, &image, &loaded, &error));
    PreparedLaunch *prepared = launch_prepare(&loaded, &arg, &error);
    ck_assert_msg(prepared && launch_run(prepared, NULL, &error), "%s", error.text);
    ck_assert_uint_eq(mock.grid, ROWS);
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
}

START_TEST(asks_for_it)
{
    mock_reset(0);
    run(&mock_cuda, true, 1);
    ck_assert_int_eq(mock.early, 1);
    ck_assert_uint_eq(mock.cluster, 1);
}
END_TEST

START_TEST(beside_clusters)
{
    mock_reset(0);
    run(&mock_cuda, true, 4);
    ck_assert_int_eq(mock.early, 1);
    ck_assert_uint_eq(mock.cluster, 4);
}
END_TEST

START_TEST(not_where_it_would_not_wait)
{
    mock_reset(0);
    run(&mock_cuda, false, 1);
    ck_assert_int_eq(mock.early, 0);
    run(&mock_cuda, false, 4);
    ck_assert_int_eq(mock.early, 0);
    ck_assert_uint_eq(mock.cluster, 4);
}
END_TEST

START_TEST(old_drivers)
{
    CudaDriver old = mock_cuda;
    mock_reset(0);
    mock.version = 12020;
    run(&mock_cuda, true, 1);
    ck_assert_int_eq(mock.early, 0);
    mock_reset(0);
    old.launch_ex = NULL;
    run(&old, true, 1);
    ck_assert_int_eq(mock.early, 0);
}
END_TEST

UNIT_TESTS(device_early)
{
    TCase *tests = tcase_create("early");
    tcase_add_test(tests, asks_for_it);
    tcase_add_test(tests, beside_clusters);
    tcase_add_test(tests, not_where_it_would_not_wait);
    tcase_add_test(tests, old_drivers);
    return tests;
}
