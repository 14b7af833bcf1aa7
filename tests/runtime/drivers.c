/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface on mock drivers, found like installed ones: each driver call fails once,
 * alone and together with all later calls. */
#include "tests/mock_driver/mock.h"
#include "tests/runtime/harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static Mock *driver; /* of the library that was loaded */
static void (*driver_reset)(int fail_at);

/* Whoever looks for the library by its name gets this one. */
static void load_driver(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/lib/%s", MOCK_FOLDER, name);
    setenv("ROCM_PATH", MOCK_FOLDER, 1);
    void *library = dlopen(path, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    driver = dlsym(library, "mock");
    void *reset = dlsym(library, "mock_reset");
    memcpy(&driver_reset, &reset, sizeof reset);
    driver_reset(0);
}

static bool ok(TesseraStatus status)
{
    return status == TESSERA_OK;
}

/* All that a program does with a device, in the order in which programs do it. */
static bool use_memory(const char *kind, void **memory, TesseraLaunch **launch)
{
    enum { BYTES = N * sizeof(float) };
    TesseraArg args[3];
    TesseraMessages said;
    double seconds;
    if (!ok(tessera_device_open(context, kind, MOCK_OPENED, &device))) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!ok(tessera_alloc(device, BYTES, &memory[i])) ||
            !ok(tessera_copy_in(device, memory[i], x, BYTES))) {
            return false;
        }
        args[i] = vector(memory[i], N);
    }
    return ok(tessera_prepare(kernel, device, args, 3, launch)) &&
           ok(tessera_launch(*launch, NULL)) && ok(tessera_sync(device, NULL)) &&
           ok(tessera_launch_time(*launch, NULL, 2, &seconds)) &&
           ok(tessera_launch_messages(*launch, NULL, &said)) &&
           ok(tessera_copy_time(device, memory[0], memory[1], BYTES, 1, &seconds)) &&
           ok(tessera_copy_out(device, z, memory[2], BYTES));
}

/* The same in a stream: copies from pinned memory, launches captured in a graph, events. */
typedef struct InStream {
    void *stream, *pinned, *pooled;
    TesseraEvent *first, *last;
    TesseraGraph *graph;
    TesseraDevice *other;
} InStream;

static bool use_stream(const char *kind, void **memory, TesseraLaunch *launch, InStream *in)
{
    enum { BYTES = N * sizeof(float) };
    double seconds;
    if (!ok(tessera_stream_new(device, &in->stream)) ||
        !ok(tessera_alloc_host(device, BYTES, &in->pinned)) ||
        !ok(tessera_pool_alloc(device, BYTES, in->stream, &in->pooled)) ||
        !ok(tessera_pool_release(device, in->pooled, NULL)) ||
        !ok(tessera_pool_alloc(device, BYTES, NULL, &in->pooled)) ||
        !ok(tessera_event_new(device, &in->first)) || !ok(tessera_event_new(device, &in->last)) ||
        !ok(tessera_copy_in_async(device, memory[0], in->pinned, BYTES, in->stream)) ||
        !ok(tessera_event_record(in->first, in->stream)) ||
        !ok(tessera_launch_reserve(launch, in->stream)) ||
        !ok(tessera_capture_begin(device, in->stream)) || !ok(tessera_launch(launch, in->stream)) ||
        !ok(tessera_capture_end(device, in->stream, &in->graph)) ||
        !ok(tessera_graph_launch(in->graph, in->stream))) {
        return false;
    }
    return ok(tessera_copy(device, memory[1], device, memory[0], BYTES, in->stream)) &&
           ok(tessera_copy_out_async(device, in->pinned, memory[2], BYTES, in->stream)) &&
           ok(tessera_event_record(in->last, in->stream)) &&
           ok(tessera_event_wait(in->last, NULL)) && ok(tessera_event_sync(in->last)) &&
           ok(tessera_event_elapsed(in->first, in->last, &seconds)) &&
           ok(tessera_device_open(context, kind, MOCK_OPENED, &in->other)) &&
           ok(tessera_copy(device, memory[1], in->other, memory[0], BYTES, in->stream));
}

static bool use(const char *kind, const TesseraOptions *options)
{
    void *memory[3] = {NULL, NULL, NULL};
    TesseraLaunch *launch = NULL;
    InStream in = {0};
    ck_assert_msg(ok(compile(options)), "%s", tessera_error(context)->message);
    bool good = use_memory(kind, memory, &launch) && use_stream(kind, memory, launch, &in);
    tessera_graph_free(in.graph);
    tessera_event_free(in.first);
    tessera_event_free(in.last);
    tessera_release_host(device, in.pinned);
    tessera_stream_free(device, in.stream);
    tessera_launch_free(launch);
    tessera_device_free(in.other);
    tessera_kernel_free(kernel);
    for (int i = 0; i < 3; i++) {
        tessera_release(device, memory[i]);
    }
    tessera_device_free(device);
    device = NULL;
    kernel = NULL;
    return good;
}

static void *pooled(void *stream)
{
    void *memory;
    ck_assert(ok(tessera_pool_alloc(device, 1000, stream, &memory)));
    return memory;
}

static bool has(void *memory, void *stream)
{
    void *got = pooled(stream);
    ck_assert(ok(tessera_pool_release(device, got, stream)));
    return got == memory;
}

/* What was used in a stream is another's when that has been waited for, or has ended. */
static void in_streams(const char *kind, const char *library)
{
    void *a, *b, *memory;
    load_driver(library);
    ck_assert(ok(tessera_device_open(context, kind, MOCK_OPENED, &device)));
    ck_assert(ok(tessera_stream_new(device, &a)) && ok(tessera_stream_new(device, &b)));
    memory = pooled(a);
    ck_assert(ok(tessera_pool_release(device, memory, a)));
    ck_assert(has(memory, a) && !has(memory, NULL) && !has(memory, b));
    ck_assert(ok(tessera_sync(device, b)) && ok(tessera_sync(device, NULL)));
    ck_assert(!has(memory, b));
    ck_assert(ok(tessera_pool_keep(device, 0)) && ok(tessera_pool_keep(device, 1 << 20)));
    memory = pooled(a);
    ck_assert(ok(tessera_pool_release(device, memory, a)) && !has(memory, b));
    ck_assert(ok(tessera_sync(device, a)));
    void *first = pooled(b), *second = pooled(b);
    ck_assert(first == memory || second == memory);
    ck_assert(ok(tessera_pool_release(device, first, b)));
    ck_assert(ok(tessera_pool_release(device, second, a)));
    int calls = driver->calls;
    tessera_stream_free(device, b);
    ck_assert_int_ge(driver->calls, calls + 3); /* it is waited for */
    ck_assert(has(first, NULL) && has(second, a));
    tessera_stream_free(device, a);
    tessera_device_free(device);
    device = NULL;
    ck_assert_int_eq(driver->open, 0);
}

/* Memory of the host is an error before a kernel gets it. */
START_TEST(memory_of_another_kind)
{
    void *memory;
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {.target = "sm_90a", .facts = &any, .n_facts = 1, .optimize = 1};
    TesseraLaunch *launch;
    load_driver("libcuda.so.1");
    parse(ADD);
    ck_assert(ok(compile(&options)));
    ck_assert(ok(tessera_device_open(context, "cuda", MOCK_OPENED, &device)));
    ck_assert(ok(tessera_alloc(device, sizeof x, &memory)));
    TesseraArg args[3] = {vector(memory, N), vector(x, N), vector(z, N)};
    driver->foreign = x;
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE,
           "'y' is in host memory, which Mock 1 cannot access");
    driver->foreign = NULL;
    ck_assert(ok(tessera_prepare(kernel, device, args, 3, &launch)));
    tessera_launch_free(launch);
}
END_TEST

START_TEST(cuda_pool)
{
    in_streams("cuda", "libcuda.so.1");
}
END_TEST

START_TEST(hip_pool)
{
    in_streams("hip", "libamdhip64.so.6");
}
END_TEST

static const char SAYS[] = "kernel add(x: f32[N], y: f32[N]) -> f32[N] {\n"
                           "    let sum = x + y\n    print(\"sum\", sum)\n    return sum\n}\n";

/* A failure is told with the call, the driver's name for it and, of a kernel, which; or, where
 * something is given back, it is passed over. */
static void check_failure(const char *prefix, bool good, int *told)
{
    const TesseraError *error = tessera_error(context);
    ck_assert_msg(good || strstr(error->message, prefix), "%s: %s", driver->last, error->message);
    ck_assert_msg(good || strstr(error->message, "MOCK_ERROR"), "%s: %s", driver->last,
                  error->message);
    ck_assert(good || (error->driver_code == MOCK_ERROR && error->status == TESSERA_ENVIRONMENT));
    ck_assert_msg(driver->open == 0 && driver->pushed == 0, "%s: %d open", driver->last,
                  driver->open);
    *told += !good;
}

static void fail_each(const char *kind, const char *library, const char *target, const char *prefix)
{
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {.target = target, .facts = &any, .n_facts = 1, .optimize = 1};
    int told = 0;
    load_driver(library);
    parse(SAYS);
    ck_assert_msg(use(kind, &options), "%s", tessera_error(context)->message);
    int calls = driver->calls;
    ck_assert_int_eq(driver->launches, 4);
    ck_assert_int_gt(calls, 140);
    for (int i = 1; i <= 2 * calls; i++) {
        driver_reset((i + 1) / 2);
        driver->fail_on = i % 2 == 0;
        check_failure(prefix, use(kind, &options), &told);
    }
    ck_assert_int_gt(told, calls);
    printf("%s: each of %d driver calls failed, alone and with all after it; %d were told\n", kind,
           calls, told);
}

START_TEST(cuda_calls)
{
    fail_each("cuda", "libcuda.so.1", "sm_90a", "cu");
}
END_TEST

START_TEST(hip_calls)
{
    fail_each("hip", "libamdhip64.so.6", "gfx942", "hip");
}
END_TEST

UNIT_TESTS(runtime_drivers)
{
    TCase *tests = tcase_create("drivers");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, cuda_calls);
    tcase_add_test(tests, hip_calls);
    tcase_add_test(tests, memory_of_another_kind);
    tcase_add_test(tests, cuda_pool);
    tcase_add_test(tests, hip_pool);
    return tests;
}
