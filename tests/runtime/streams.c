/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, memory and the log on the CPU, and their wrong uses; drivers.c tests the same
 * on mock drivers. */
#include "tests/runtime/harness.h"

#include <stdio.h>

static char logged[4096];

static void note(void *user, TesseraLogLevel level, const char *message)
{
    (void)user;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%d %s\n", (int)level, message);
}

START_TEST(host_streams)
{
    void *stream, *pinned;
    TesseraEvent *first, *last;
    TesseraGraph *graph;
    double seconds = -1;
    float data[4] = {1, 2, 3, 4};
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_stream_new(device, &stream), TESSERA_OK);
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(tessera_event_new(device, &first), TESSERA_OK);
    ck_assert_int_eq(tessera_event_new(device, &last), TESSERA_OK);
    ck_assert_int_eq(tessera_alloc_host(device, sizeof data, &pinned), TESSERA_OK);
    expect(tessera_event_elapsed(first, last, &seconds), TESSERA_USAGE, "first event was never");
    ck_assert_int_eq(tessera_event_record(first, stream), TESSERA_OK);
    expect(tessera_event_elapsed(first, last, &seconds), TESSERA_USAGE, "last event was never");
    ck_assert_int_eq(tessera_copy_in_async(device, pinned, data, sizeof data, stream), TESSERA_OK);
    ck_assert_int_eq(tessera_copy(device, data + 2, device, pinned, 8, stream), TESSERA_OK);
    ck_assert_int_eq(tessera_copy_out_async(device, data, data + 2, 8, stream), TESSERA_OK);
    ck_assert(data[1] == 2 && data[3] == 2);
    ck_assert_int_eq(tessera_event_record(last, stream), TESSERA_OK);
    ck_assert_int_eq(tessera_event_wait(last, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_event_sync(last), TESSERA_OK);
    ck_assert_int_eq(tessera_event_elapsed(first, last, &seconds), TESSERA_OK);
    ck_assert(seconds >= 0);
    expect(tessera_capture_begin(device, stream), TESSERA_ENVIRONMENT, "CPU has no graphs");
    expect(tessera_capture_end(device, stream, &graph), TESSERA_ENVIRONMENT, "CPU has no graphs");
    tessera_release_host(device, pinned);
    tessera_event_free(first);
    tessera_event_free(last);
    tessera_stream_free(device, stream);
}
END_TEST

START_TEST(wrong_handles)
{
    TesseraDevice *other, *wrapped;
    TesseraEvent *a, *b;
    void *memory;
    double seconds;
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &other), TESSERA_OK);
    ck_assert_int_eq(tessera_event_new(device, &a), TESSERA_OK);
    ck_assert_int_eq(tessera_event_new(other, &b), TESSERA_OK);
    expect(tessera_event_elapsed(a, b, &seconds), TESSERA_USAGE, "two devices");
    expect(tessera_event_elapsed(a, NULL, &seconds), TESSERA_USAGE, "last is NULL");
    expect(tessera_event_new(device, NULL), TESSERA_USAGE, "event is NULL");
    expect(tessera_stream_new(device, NULL), TESSERA_USAGE, "stream is NULL");
    expect(tessera_capture_begin(device, NULL), TESSERA_USAGE, "stream is NULL");
    expect(tessera_alloc_host(device, 1, NULL), TESSERA_USAGE, "memory is NULL");
    expect(tessera_copy_in_async(device, NULL, x, 4, NULL), TESSERA_USAGE, "to is NULL");
    expect(tessera_copy_out_async(device, x, NULL, 4, NULL), TESSERA_USAGE, "from is NULL");
    expect(tessera_copy(device, x, NULL, y, 4, NULL), TESSERA_USAGE, "from_device is NULL");
    expect(tessera_device_wrap(context, "cpu", x, &wrapped), TESSERA_USAGE, "no context of 'cpu'");
    expect(tessera_memory(device, NULL), TESSERA_USAGE, "memory is NULL");
    ck_assert_int_eq(tessera_stream_new(NULL, &memory), TESSERA_USAGE);
    ck_assert_int_eq(tessera_event_record(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_event_wait(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_event_sync(NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_graph_launch(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_log(NULL, NULL, NULL), TESSERA_USAGE);
    tessera_graph_free(NULL);
    tessera_event_free(NULL);
    tessera_stream_free(device, NULL);
    tessera_release_host(device, NULL);
    tessera_event_free(a);
    tessera_event_free(b);
    tessera_device_free(other);
}
END_TEST

START_TEST(memory_is_counted)
{
    void *memory[40];
    TesseraMemory now;
    logged[0] = '\0';
    ck_assert_int_eq(tessera_log(context, note, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    for (size_t i = 0; i < 40; i++) {
        ck_assert_int_eq(tessera_alloc(device, 10 * i, &memory[i]), TESSERA_OK);
    }
    for (int i = 0; i < 38; i++) {
        tessera_release(device, memory[i]);
    }
    ck_assert_int_eq(tessera_memory(device, &now), TESSERA_OK);
    ck_assert(now.allocations == 2 && now.bytes == 770 && now.total == 40);
    ck_assert_uint_eq(now.most_bytes, 7800);
    tessera_release(device, NULL);
    tessera_device_free(device); /* what is left is told, and freed */
    device = NULL;
    ck_assert_ptr_nonnull(strstr(logged, "1 device cpu: CPU, 1 thread"));
    ck_assert_ptr_nonnull(strstr(logged, "0 CPU, 1 thread"));
    ck_assert_ptr_nonnull(strstr(logged, "2 allocations of 770 bytes together were not released"));
}
END_TEST

/* Compiling is told, and whether the cache had the code. */
START_TEST(work_is_told)
{
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    TesseraLaunch *launch;
    logged[0] = '\0';
    ck_assert_int_eq(tessera_log(context, note, NULL), TESSERA_OK);
    prepare_add(N);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    ck_assert_ptr_nonnull(strstr(logged, "1 add for native: compiled in "));
    ck_assert_ptr_nonnull(strstr(logged, "1 add for native: machine code "));
    tessera_launch_free(launch);
}
END_TEST

UNIT_TESTS(runtime_streams)
{
    TCase *tests = tcase_create("streams");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, host_streams);
    tcase_add_test(tests, wrong_handles);
    tcase_add_test(tests, memory_is_counted);
    tcase_add_test(tests, work_is_told);
    return tests;
}
