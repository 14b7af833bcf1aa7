/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA and HIP on mock drivers: each driver call and each allocation fails once, which must cause
 * an error, but no crash and no leak. */
#include "tests/device/drivers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* out[M, N] = in[M, N] * scale, as a plan that code generation could have made. */
static PlanTerm term_m = {1, 1, {0}}, term_n = {1, 1, {1}};
static PlanExpr dims[2] = {{1, &term_m}, {1, &term_n}};
static PlanAxis axes[2] = {{{1, &term_m}, 64, 0, 0}, {{1, &term_n}, 0, 0, 0}};
static PlanSize sizes[2] = {{"M", 1, 0, INT64_MAX, .by = 0}, {"N", 8, 0, 4096, .by = 0}};
static PlanParam params[3] = {
    {"in", DT_BF16, PLAN_IN, 2, dims, .align = 16},
    {"scale", DT_F32, PLAN_IN, -1, NULL, .align = 4},
    {"out", DT_BF16, PLAN_OUT, 2, dims, .align = 16},
};
static PlanArg plan_args[6] = {{ARG_POINTER, 0}, {ARG_POINTER, 2}, {ARG_SCALAR, 1},
                               {ARG_SIZE, 1},    {ARG_MAP, 0},     {ARG_LOG, 0}};
static PlanArg without_map[6] = {{ARG_POINTER, 0}, {ARG_POINTER, 2}, {ARG_SCALAR, 1},
                                 {ARG_SIZE, 1},    {ARG_SIZE, 0},    {ARG_LOG, 0}};
static PlanTensorMap maps[1] = {{0, 2, {64, 32}, 64, false, true, 0, .n_windows = 0}};
static PlanLaunch launches[1] = {{.symbol = "mock_0",
                                  .n_axes = 2,
                                  .axes = axes,
                                  .threads = 128,
                                  .shared_bytes = 100000,
                                  .blocks_per_unit = 1,
                                  .cluster = 1,
                                  .n_args = 6,
                                  .args = plan_args}};
const Plan PLAN = {"mock", "sm_90a", 2,        sizes, 3,    params,        1,
                   maps,   1,        launches, 0,     NULL, .log_words = 2};

int64_t pitch;

void *counting_alloc(void *user, size_t bytes)
{
    Counting *counting = user;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->open++;
    return malloc(bytes);
}

void counting_release(void *user, void *memory)
{
    ((Counting *)user)->open--;
    free(memory);
}

LaunchArg tensor_arg(void *data)
{
    return (LaunchArg){.tensor = {data, DT_BF16, 2, {ROWS, COLUMNS}, pitch > 0, {pitch, 1}}};
}

static bool hear(Device *device, PreparedLaunch *prepared, DeviceError *error)
{
    LaunchLog log;
    if (!launch_log(prepared, NULL, &log, error)) {
        return false;
    }
    device_host_free(device, log.records);
    return true;
}

static bool run_launch(Device *device, const Plan *plan, void *in, void *out, DeviceError *error)
{
    LoadedModule loaded;
    DeviceEvent first = NULL, last = NULL;
    double seconds = 0;
    DeviceImage image = {.bytes = "code", .n = 4};
    LaunchArg args[3] = {tensor_arg(in), {.scalar = 7}, tensor_arg(out)};
    if (!loaded_open(device, plan, &image, &loaded, error)) {
        return false;
    }
    PreparedLaunch *prepared = launch_prepare(&loaded, args, error);
    bool ok = prepared && device->ops->event_record(device, NULL, &first, error) &&
              launch_run(prepared, NULL, error) &&
              device->ops->event_record(device, NULL, &last, error) &&
              device->ops->elapsed(device, first, last, &seconds, error) &&
              device->ops->sync(device, NULL, error) && hear(device, prepared, error);
    device->ops->event_destroy(device, first);
    device->ops->event_destroy(device, last);
    launch_free(prepared);
    loaded_close(&loaded);
    return ok;
}

static bool run_memory(Device *device, const Plan *plan, DeviceError *error)
{
    static char host[BYTES];
    void *in = NULL, *out = NULL;
    const DeviceOps *ops = device->ops;
    bool ok = ops->alloc(device, BYTES, &in, error) && ops->alloc(device, BYTES, &out, error) &&
              ops->copy_in(device, in, host, BYTES, error) &&
              ops->copy(device, out, in, BYTES, NULL, error) &&
              run_launch(device, plan, in, out, error) &&
              ops->copy_out(device, host, out, BYTES, error);
    ops->release(device, in);
    ops->release(device, out);
    return ok;
}

bool scenario(const DeviceOps *ops, const void *driver, const Plan *plan, Counting *counting,
              DeviceError *error)
{
    Allocator allocator = {counting_alloc, counting_release, counting};
    Device *device = device_open(ops, allocator, MOCK_OPENED, driver, error);
    bool ok = device && run_memory(device, plan, error);
    device_close(device);
    return ok;
}

/* What has nobody to tell that it failed: the caller's place is taken up again, things go back;
 * where an address lies is not known then. */
static bool is_untold(const char *call)
{
    static const char *const calls[] = {"context_pop",      "context_release", "context_current",
                                        "context_push",     "device_set",      "device_current",
                                        "module_unload",    "event_destroy",   "release",
                                        "pointer_attribute"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i], call) == 0) {
            return true;
        }
    }
    return false;
}

/* Whose errors say for which kernel. */
static bool is_of_kernel(const char *call)
{
    return strncmp(call, "module_f", 8) == 0 || strncmp(call, "launch", 6) == 0 ||
           strcmp(call, "function_set") == 0 || strcmp(call, "event_sync") == 0;
}

static void check_told(bool ok, const DeviceError *error)
{
    ck_assert_msg(!ok || is_untold(mock.last), "%s failed and nobody was told", mock.last);
    if (!ok) {
        ck_assert_msg(strstr(error->text, " failed") && strstr(error->text, "MOCK_ERROR"), "%s: %s",
                      mock.last, error->text);
        ck_assert_int_eq(error->code, MOCK_ERROR);
        ck_assert_msg(!is_of_kernel(mock.last) || strstr(error->text, "mock_0"), "%s: %s",
                      mock.last, error->text);
    }
}

void check_given_back(const Counting *counting)
{
    ck_assert_int_eq(counting->open, 0);
    ck_assert_int_eq(mock.open, 0);
    ck_assert_int_eq(mock.pushed, 0);
}

/* How many calls and allocations there are, then each of them failing: the calls alone, and with
 * all that come after. */
static void fail_each(const DeviceOps *ops, const void *driver, const Plan *plan)
{
    DeviceError error;
    Counting counting = {0};
    mock_reset(0);
    mock.log_argument = 5;
    ck_assert(scenario(ops, driver, plan, &counting, &error));
    check_given_back(&counting);
    int calls = mock.calls, allocations = counting.allocations;
    ck_assert_int_gt(calls, 60);
    for (int i = 1; i <= 2 * calls; i++) {
        counting = (Counting){0};
        mock_reset((i + 1) / 2);
        mock.fail_on = i % 2 == 0;
        mock.log_argument = 5;
        error = (DeviceError){0};
        check_told(scenario(ops, driver, plan, &counting, &error), &error);
        check_given_back(&counting);
        ck_assert(mock.device == MOCK_CALLERS || mock.fail_on ||
                  strcmp(mock.last, "device_set") == 0);
    }
    for (int i = 1; i <= allocations; i++) {
        counting = (Counting){.fail_at = i};
        mock_reset(0);
        ck_assert(!scenario(ops, driver, plan, &counting, &error));
        ck_assert_str_eq(error.text, "out of memory");
        check_given_back(&counting);
    }
    printf("%s: %d driver calls failed once, alone and with all after them, and %d allocations\n",
           ops->name, calls, allocations);
}

START_TEST(cuda_failures)
{
    fail_each(&device_cuda, &mock_cuda, &PLAN);
}
END_TEST

START_TEST(cuda_cluster_failures)
{
    PlanLaunch launch = launches[0];
    Plan plan = PLAN;
    plan.launches = &launch;
    launch.cluster = 2;
    fail_each(&device_cuda, &mock_cuda, &plan);
    launch.cluster = 16;
    fail_each(&device_cuda, &mock_cuda, &plan);
}
END_TEST

static void probe_each(const DeviceOps *ops, const void *driver, const char *version)
{
    DeviceProbe probe;
    mock_reset(0);
    ops->probe(driver, &probe);
    ck_assert_int_eq(probe.n_devices, MOCK_DEVICES);
    ck_assert_str_eq(probe.version, version);
    ck_assert_str_eq(probe.error.text, "");
    int calls = mock.calls;
    for (int i = 1; i <= calls; i++) {
        mock_reset(i);
        ops->probe(driver, &probe);
        ck_assert_int_eq(probe.n_devices, 0);
        ck_assert_ptr_nonnull(strstr(probe.error.text, "MOCK_ERROR"));
    }
}

START_TEST(probes)
{
    probe_each(&device_cuda, &mock_cuda, "13.0");
    probe_each(&device_hip, &mock_hip, "6.3.42131");
}
END_TEST

Plan plan_without_map(PlanLaunch *launch)
{
    Plan plan = PLAN;
    *launch = launches[0];
    launch->args = without_map;
    launch->shared_bytes = 1024;
    plan.n_maps = 0;
    plan.launches = launch;
    return plan;
}

START_TEST(hip_failures)
{
    PlanLaunch launch;
    Plan plan = plan_without_map(&launch);
    fail_each(&device_hip, &mock_hip, &plan);
}
END_TEST

START_TEST(load_errors_carry_the_log)
{
    DeviceError error;
    Counting counting = {0};
    Allocator allocator = {counting_alloc, counting_release, &counting};
    mock_reset(0);
    Device *device = device_open(&device_cuda, allocator, MOCK_OPENED, &mock_cuda, &error);
    DeviceImage image = {.bytes = "code", .n = 4, .name = "blur"};
    DeviceModule module;
    mock.fail_at = mock.calls + 3; /* after asking for the context and the push */
    ck_assert(!device->ops->load(device, &image, &module, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "cuModuleLoadDataEx failed for blur: MOCK_ERROR"));
    ck_assert_ptr_nonnull(strstr(error.text, "line 7: no such instruction"));
    ck_assert_int_eq(error.code, 2);
    device_close(device);
}
END_TEST

static void check_fault(const DeviceOps *ops, const void *driver, const Plan *plan,
                        const char *call)
{
    static const unsigned int codes[] = {CU_ERROR_ILLEGAL_ADDRESS, CU_ERROR_LAUNCH_TIMEOUT,
                                         CU_ERROR_ASSERT, CU_ERROR_LAUNCH_FAILED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        DeviceError error;
        Counting counting = {0};
        int at = 0;
        do {
            mock_reset(++at);
            mock.error = codes[i];
            mock.fail_on = true; /* as in the context that the kernel leaves */
            ck_assert(!scenario(ops, driver, plan, &counting, &error));
        } while (strcmp(mock.last, "event_sync") != 0);
        ck_assert_int_eq(error.kind, DIAG_FAULT);
        ck_assert_int_eq(error.code, (int)codes[i]);
        ck_assert_ptr_nonnull(strstr(error.text, call));
        check_given_back(&counting);
    }
}

/* What a kernel does wrong shows when somebody waits for it. */
START_TEST(faults_name_the_kernel)
{
    PlanLaunch launch;
    Plan plan = plan_without_map(&launch);
    check_fault(&device_cuda, &mock_cuda, &PLAN, "cuEventSynchronize failed for mock_0: MOCK_");
    check_fault(&device_hip, &mock_hip, &plan, "hipEventSynchronize failed for mock_0: MOCK_");
}
END_TEST

/* A context of the caller's is used, and left alone; each call of taking it fails once. */
START_TEST(wrapped_contexts)
{
    DeviceError error = {0};
    Counting counting = {0};
    Allocator allocator = {counting_alloc, counting_release, &counting};
    void *memory;
    mock_reset(0);
    Device *owner = device_open(&device_cuda, allocator, MOCK_OPENED, &mock_cuda, &error);
    mock_be_inside();
    void *native = mock.current;
    mock_be_elsewhere();
    int open = mock.open, before = mock.calls;
    Device *device = device_wrap(&device_cuda, allocator, native, &mock_cuda, &error);
    int calls = mock.calls - before;
    ck_assert_ptr_nonnull(device);
    ck_assert(device->facts.ordinal == MOCK_OPENED && device->facts.units == 10);
    ck_assert(device->ops->alloc(device, 8, &memory, &error));
    device->ops->release(device, memory);
    device_close(device);
    ck_assert_int_eq(mock.open, open);
    for (int i = 1; i <= calls; i++) {
        mock.fail_at = mock.calls + i;
        mock.last[0] = '\0';
        device = device_wrap(&device_cuda, allocator, native, &mock_cuda, &error);
        ck_assert_msg(!device || is_untold(mock.last), "%s", mock.last);
        device_close(device);
        mock.fail_at = 0;
        mock.pushed = 0;
        mock_be_elsewhere();
    }
    device_close(owner);
    check_given_back(&counting);
    mock_reset(0);
    device = device_wrap(&device_hip, allocator, (void *)(uintptr_t)MOCK_OPENED, &mock_hip, &error);
    ck_assert(device && device->facts.ordinal == MOCK_OPENED);
    device_close(device);
    check_given_back(&counting);
}
END_TEST

static void check_hip_facts(const HipDriver *driver)
{
    DeviceError error;
    mock_reset(0);
    Device *device = device_open(&device_hip, allocator_default(), MOCK_OPENED, driver, &error);
    ck_assert_ptr_nonnull(device);
    ck_assert_str_eq(device->facts.target, "gfx942");
    ck_assert_str_eq(device->facts.name, "Mock AMD");
    ck_assert_int_eq(device->facts.units, 304);
    ck_assert_int_eq(device->facts.warp, 64);
    ck_assert_int_eq(device->facts.shared_bytes, 65536);
    ck_assert_uint_eq(device->facts.memory_bytes, (size_t)1 << 37);
    device_close(device);
}

START_TEST(hip_property_layouts)
{
    HipDriver old = mock_hip;
    old.properties_new = NULL;
    check_hip_facts(&mock_hip);
    check_hip_facts(&old);
}
END_TEST

START_TEST(no_such_device)
{
    DeviceError error;
    mock_reset(0);
    ck_assert_ptr_null(device_open(&device_cuda, allocator_default(), 3, &mock_cuda, &error));
    ck_assert_str_eq(error.text, "no CUDA device 3: there are 2");
    ck_assert_ptr_null(device_open(&device_hip, allocator_default(), 3, &mock_hip, &error));
    ck_assert_str_eq(error.text, "no HIP device 3: there are 2");
}
END_TEST

UNIT_TESTS(device_drivers)
{
    TCase *tests = tcase_create("drivers");
    tcase_add_test(tests, cuda_failures);
    tcase_add_test(tests, cuda_cluster_failures);
    tcase_add_test(tests, hip_failures);
    tcase_add_test(tests, faults_name_the_kernel);
    tcase_add_test(tests, probes);
    tcase_add_test(tests, load_errors_carry_the_log);
    tcase_add_test(tests, wrapped_contexts);
    tcase_add_test(tests, hip_property_layouts);
    tcase_add_test(tests, no_such_device);
    return tests;
}
