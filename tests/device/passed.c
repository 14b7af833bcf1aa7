/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that a launch passes to the driver, on mock drivers, and the number of driver
 * calls per launch. */
#include "tests/device/drivers.h"

#include <stdio.h>
#include <string.h>

START_TEST(cuda_passes_on)
{
    DeviceError error;
    Counting counting = {0};
    mock_reset(0);
    mock.map_argument = 4;
    ck_assert(scenario(&device_cuda, &mock_cuda, &PLAN, &counting, &error));
    ck_assert_int_eq(mock.launches, 1);
    ck_assert_str_eq(mock.function, "mock_0");
    ck_assert_uint_eq(mock.grid, 2 * COLUMNS); /* ceil(100 / 64) tiles × 24 */
    ck_assert_uint_eq(mock.block, 128);
    ck_assert_uint_eq(mock.shared, 100000);
    ck_assert_uint_eq(mock.map_rank, 2);
    ck_assert_uint_eq(mock.map_type, CU_MAP_BF16);
    ck_assert_uint_eq(mock.map_swizzle, CU_MAP_SWIZZLE_64);
    ck_assert_uint_eq(mock.map_dims[0], COLUMNS);
    ck_assert_uint_eq(mock.map_dims[1], ROWS);
    ck_assert_uint_eq(mock.map_strides[0], COLUMNS * 2);
    ck_assert_uint_eq(mock.map_box[0], 32);
    ck_assert_uint_eq(mock.map_box[1], 64);
    ck_assert_uint_eq(mock.map[17], 0x5a);
}
END_TEST

/* Rows at a distance: it is checked, an argument of the launch, and in the descriptor. */
START_TEST(cuda_passes_strides_on)
{
    static PlanTerm term_pitch = {1, 1, {2}}, term_one = {1, 0, {0}};
    static PlanExpr strides[2] = {{1, &term_pitch}, {1, &term_one}};
    DeviceError error;
    Counting counting = {0};
    PlanSize with_pitch[3] = {
        PLAN.sizes[0], PLAN.sizes[1], {"x.0", 8, 1, INT64_MAX, .stride = true}};
    PlanParam strided[3] = {PLAN.params[0], PLAN.params[1], PLAN.params[2]};
    Plan plan = PLAN;
    plan.n_sizes = 3;
    plan.sizes = with_pitch;
    plan.params = strided;
    strided[0].strides = strided[2].strides = strides;
    mock_reset(0);
    pitch = PITCH;
    ck_assert(!scenario(&device_cuda, &mock_cuda, &PLAN, &counting, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "axis 0 of 'in' has stride 32, but this code was "
                                             "compiled for a contiguous tensor"));
    mock.map_argument = 4;
    ck_assert(scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_uint_eq(mock.map_dims[0], COLUMNS);
    ck_assert_uint_eq(mock.map_strides[0], PITCH * 2);
    pitch = PITCH - 2;
    ck_assert(!scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "compiled for positive multiples of 8"));
    pitch = 0;
}
END_TEST

/* Rows of an intermediate that begin further apart than they are long. */
START_TEST(cuda_passes_pitches_on)
{
    static PlanTerm pitch_terms[2] = {{8, 0, {0}}, {1, 1, {1}}}, term_one = {1, 0, {0}};
    static PlanExpr strides[2] = {{2, pitch_terms}, {1, &term_one}};
    static PlanScratch scratch[1] = {{DT_BF16, 2, NULL, strides, 0, 0}};
    scratch[0].dims = PLAN.params[0].dims;
    DeviceError error;
    Counting counting = {0};
    PlanTensorMap map = PLAN.maps[0];
    Plan plan = PLAN;
    map.param = plan.n_params;
    plan.maps = &map;
    plan.n_scratch = 1;
    plan.scratch = scratch;
    mock_reset(0);
    mock.map_argument = 4;
    ck_assert(scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_uint_eq(mock.map_dims[0], COLUMNS);
    ck_assert_uint_eq(mock.map_dims[1], ROWS);
    ck_assert_uint_eq(mock.map_strides[0], (COLUMNS + 8) * 2);
}
END_TEST

START_TEST(cuda_clusters_and_persistence)
{
    DeviceError error;
    Counting counting = {0};
    PlanLaunch launch = PLAN.launches[0];
    Plan plan = PLAN;
    plan.launches = &launch;
    launch.persistent = true;
    launch.cluster = 2;
    mock_reset(0);
    ck_assert(scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_uint_eq(mock.grid, 10); /* units of the mock */
    ck_assert_uint_eq(mock.cluster, 2);
    ck_assert(!mock.large_clusters);
    launch.cluster = 16;
    mock_reset(0);
    ck_assert(scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_uint_eq(mock.cluster, 16);
    ck_assert(mock.large_clusters);
}
END_TEST

START_TEST(cuda_refuses_shared_memory)
{
    DeviceError error;
    Counting counting = {0};
    PlanLaunch launch = PLAN.launches[0];
    Plan plan = PLAN;
    plan.launches = &launch;
    launch.shared_bytes = 300000;
    mock_reset(0);
    ck_assert(!scenario(&device_cuda, &mock_cuda, &plan, &counting, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "300000 bytes of shared memory"));
    ck_assert_int_eq(error.kind, DIAG_ENVIRONMENT);
}
END_TEST

START_TEST(cuda_without_optional_calls)
{
    DeviceError error;
    Counting counting = {0};
    CudaDriver old = mock_cuda;
    old.encode_tiled = NULL;
    mock_reset(0);
    ck_assert(!scenario(&device_cuda, &old, &PLAN, &counting, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "cuTensorMapEncodeTiled"));
}
END_TEST

/* Driver calls of one launch_run, which allocates nothing; the caller's context is `place`. */
static int calls_of_launch(const DeviceOps *ops, const void *driver, const Plan *plan,
                           void (*place)(void))
{
    static _Alignas(256) char in[BYTES], out[BYTES];
    DeviceError error;
    Counting counting = {0};
    Allocator allocator = {counting_alloc, counting_release, &counting};
    DeviceImage image = {.bytes = "code", .n = 4};
    LaunchArg args[3] = {tensor_arg(in), {.scalar = 7}, tensor_arg(out)};
    LoadedModule loaded;
    mock_reset(0);
    Device *device = device_open(ops, allocator, MOCK_OPENED, driver, &error);
    ck_assert(loaded_open(device, plan, &image, &loaded, &error));
    PreparedLaunch *prepared = launch_prepare(&loaded, args, &error);
    ck_assert_ptr_nonnull(prepared);
    place();
    int calls = mock.calls, allocations = counting.allocations;
    ck_assert(launch_run(prepared, NULL, &error));
    calls = mock.calls - calls;
    ck_assert_int_eq(counting.allocations, allocations);
    ck_assert_int_eq(mock.launches, 1);
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
    return calls;
}

static void be_on_device(void)
{
    mock.device = MOCK_OPENED;
}

static void be_on_callers(void)
{
    mock.device = MOCK_CALLERS;
}

START_TEST(launches_cost_the_driver)
{
    PlanLaunch launch;
    Plan plan = plan_without_map(&launch);
    /* Asking where we are, and the launch; elsewhere there are two more: going there and back. */
    ck_assert_int_eq(calls_of_launch(&device_cuda, &mock_cuda, &PLAN, mock_be_inside), 2);
    ck_assert_int_eq(calls_of_launch(&device_cuda, &mock_cuda, &PLAN, mock_be_elsewhere), 4);
    ck_assert_int_eq(calls_of_launch(&device_hip, &mock_hip, &plan, be_on_device), 2);
    ck_assert_int_eq(calls_of_launch(&device_hip, &mock_hip, &plan, be_on_callers), 4);
}
END_TEST

/* The next launch gets the other address, in its arguments and in its descriptor. */
START_TEST(other_memory_is_passed_on)
{
    static _Alignas(256) char in[BYTES], out[BYTES], other[BYTES];
    DeviceError error;
    Counting counting = {0};
    Allocator allocator = {counting_alloc, counting_release, &counting};
    DeviceImage image = {.bytes = "code", .n = 4};
    LaunchArg args[3] = {tensor_arg(in), {.scalar = 7}, tensor_arg(out)};
    LoadedModule loaded;
    mock_reset(0);
    Device *device = device_open(&device_cuda, allocator, MOCK_OPENED, &mock_cuda, &error);
    ck_assert(loaded_open(device, &PLAN, &image, &loaded, &error));
    PreparedLaunch *prepared = launch_prepare(&loaded, args, &error);
    int allocations = counting.allocations;
    ck_assert(launch_run(prepared, NULL, &error));
    ck_assert(mock.first_argument == (int64_t)(intptr_t)in && mock.map_address == in);
    ck_assert(launch_set(prepared, 0, other, &error));
    ck_assert(mock.map_address == in); /* made when it is launched */
    mock.fail_at = mock.calls + 3;
    ck_assert(!launch_run(prepared, NULL, &error));
    ck_assert_str_eq(mock.last, "encode_tiled");
    ck_assert(launch_run(prepared, NULL, &error));
    ck_assert(mock.first_argument == (int64_t)(intptr_t)other && mock.map_address == other);
    ck_assert_int_eq(counting.allocations, allocations);
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
    check_given_back(&counting);
}
END_TEST

START_TEST(bulk_copies_count_in_32_bits)
{
    DeviceError error;
    Plan plan = PLAN;
    PlanSize free_sizes[2] = {{"M", 1, 0, INT64_MAX, .by = 0}, {"N", 8, 0, INT64_MAX, .by = 0}};
    plan.sizes = free_sizes;
    DeviceImage image = {.bytes = "code", .n = 4};
    LoadedModule loaded;
    mock_reset(0);
    Device *device =
        device_open(&device_cuda, allocator_default(), MOCK_OPENED, &mock_cuda, &error);
    ck_assert(loaded_open(device, &plan, &image, &loaded, &error));
    LaunchArg args[3] = {tensor_arg((void *)(uintptr_t)0x100000000000),
                         {.scalar = 7},
                         tensor_arg((void *)(uintptr_t)0x200000000000)};
    args[0].tensor.dims[0] = args[2].tensor.dims[0] = (int64_t)INT32_MAX + 1;
    ck_assert_ptr_null(launch_prepare(&loaded, args, &error));
    ck_assert_str_eq(error.text, "mock: axis 0 of 'in' has 2147483648 elements, more than bulk "
                                 "copies can count: compile it for such a size, or with `copy "
                                 "registers`");
    ck_assert_int_eq(error.kind, DIAG_SOURCE);
    args[0].tensor.dims[0] = args[2].tensor.dims[0] = INT32_MAX;
    PreparedLaunch *prepared = launch_prepare(&loaded, args, &error);
    ck_assert_msg(prepared != NULL, "%s", error.text);
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
}
END_TEST

UNIT_TESTS(device_passed)
{
    TCase *tests = tcase_create("passed");
    tcase_add_test(tests, cuda_passes_on);
    tcase_add_test(tests, cuda_passes_strides_on);
    tcase_add_test(tests, cuda_passes_pitches_on);
    tcase_add_test(tests, cuda_clusters_and_persistence);
    tcase_add_test(tests, cuda_refuses_shared_memory);
    tcase_add_test(tests, cuda_without_optional_calls);
    tcase_add_test(tests, launches_cost_the_driver);
    tcase_add_test(tests, other_memory_is_passed_on);
    tcase_add_test(tests, bulk_copies_count_in_32_bits);
    return tests;
}
