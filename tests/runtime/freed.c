/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that are used after they were freed, freed twice, or outlive the object they were
 * created from: each call reports it, and nothing leaks. On the CPU and on a mock driver. */
#include "tests/mock_driver/mock.h"
#include "tests/runtime/harness.h"

#include <dlfcn.h>
#include <stdio.h>

static void freed(TesseraStatus status, const char *what)
{
    char words[64];
    snprintf(words, sizeof words, "%s has been freed", what);
    expect(status, TESSERA_USAGE, words);
}

static void ended(TesseraStatus status)
{
    expect(status, TESSERA_USAGE, "the kernel or the device of the launch has been freed");
}

static TesseraLaunch *prepared(void)
{
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    TesseraLaunch *launch;
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    return launch;
}

static void use_launch(TesseraLaunch *launch, void (*told)(TesseraStatus))
{
    double seconds;
    TesseraMessages said;
    void *tensors[3] = {x, y, z};
    told(tessera_launch(launch, NULL));
    told(tessera_launch_set(launch, 0, x));
    told(tessera_launch_set_scalar(launch, 0, 1, 1));
    told(tessera_launch_with(launch, NULL, tensors, 3));
    told(tessera_launch_reserve(launch, NULL));
    told(tessera_launch_time(launch, NULL, 1, &seconds));
    told(tessera_launch_messages(launch, NULL, &said));
    ck_assert_uint_eq(tessera_workspace_size(launch), 0);
    ck_assert(!tessera_launch_says(launch) && !tessera_launch_variant(launch));
}

static void freed_launch(TesseraStatus status)
{
    freed(status, "launch");
}

START_TEST(launches)
{
    prepare_add(N);
    TesseraLaunch *launch = prepared(), *other = prepared();
    tessera_launch_free(launch);
    tessera_launch_free(launch);
    use_launch(launch, freed_launch);
    ck_assert_int_eq(tessera_launch(other, NULL), TESSERA_OK); /* nothing is lost */
    tessera_kernel_free(kernel);
    tessera_kernel_free(kernel);
    use_launch(other, ended);
    tessera_launch_free(other);
    use_launch(other, freed_launch);
    TesseraBytes bytes;
    freed(tessera_kernel_emit(kernel, "ir", &bytes), "kernel");
    freed(tessera_kernel_load(kernel, device), "kernel");
    ck_assert_ptr_null(tessera_kernel_signature(kernel));
    kernel = NULL;
}
END_TEST

static void use_device(void)
{
    void *memory = x;
    TesseraMemory now;
    TesseraEvent *event;
    TesseraGraph *graph;
    const TesseraAllocation *list;
    size_t n;
    freed(tessera_alloc(device, 8, &memory), "device");
    freed(tessera_alloc_host(device, 8, &memory), "device");
    freed(tessera_pool_alloc(device, 8, NULL, &memory), "device");
    freed(tessera_pool_release(device, x, NULL), "device");
    freed(tessera_pool_keep(device, 8), "device");
    freed(tessera_copy_in(device, x, y, 8), "device");
    freed(tessera_copy_out(device, x, y, 8), "device");
    freed(tessera_copy_in_async(device, x, y, 8, NULL), "device");
    freed(tessera_copy_out_async(device, x, y, 8, NULL), "device");
    freed(tessera_copy(device, x, device, y, 8, NULL), "device");
    freed(tessera_sync(device, NULL), "device");
    freed(tessera_memory(device, &now), "device");
    freed(tessera_memory_list(device, &list, &n), "device");
    freed(tessera_stream_new(device, &memory), "device");
    freed(tessera_event_new(device, &event), "device");
    freed(tessera_capture_begin(device, x), "device");
    freed(tessera_capture_end(device, x, &graph), "device");
    tessera_release(device, x);
    tessera_release_host(device, x);
    tessera_stream_free(device, x);
    tessera_device_free(device);
    ck_assert_ptr_null(tessera_device_info(device));
}

START_TEST(devices)
{
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    TesseraEvent *event;
    double seconds;
    prepare_add(N);
    TesseraLaunch *launch = prepared(), *none;
    ck_assert_int_eq(tessera_event_new(device, &event), TESSERA_OK);
    tessera_device_free(device);
    use_device();
    use_launch(launch, ended);
    freed(tessera_event_record(event, NULL), "the device of event");
    freed(tessera_event_wait(event, NULL), "the device of event");
    freed(tessera_event_sync(event), "the device of event");
    freed(tessera_event_elapsed(event, event, &seconds), "the device of first");
    freed(tessera_prepare(kernel, device, args, 3, &none), "device");
    ck_assert_ptr_null(none);
    tessera_launch_free(launch);
    tessera_event_free(event);
    tessera_event_free(event);
    freed(tessera_event_record(event, NULL), "event");
    freed(tessera_event_elapsed(event, event, &seconds), "first");
    device = NULL;
}
END_TEST

START_TEST(programs)
{
    const TesseraSignature *signature;
    TesseraOptions options = {.target = "native"};
    TesseraKernel *none;
    TesseraTask *task;
    prepare_add(N);
    ck_assert_int_eq(tessera_compile_start(program, &options, NULL, NULL, &task), TESSERA_OK);
    tessera_task_free(task);
    tessera_task_free(task);
    tessera_task_cancel(task);
    ck_assert(tessera_task_finished(task));
    freed(tessera_task_wait(task, &none), "task");
    tessera_program_free(program);
    tessera_program_free(program);
    freed(tessera_compile(program, &options, &none), "program");
    freed(tessera_compile_start(program, &options, NULL, NULL, &task), "program");
    freed(tessera_program_find(program, "add", &signature), "program");
    freed(tessera_interpret(program, &options, NULL, 0), "program");
    ck_assert_uint_eq(tessera_program_kernels(program), 0);
    ck_assert(!tessera_program_kernel(program, 0) && !tessera_program_file(program, 0));
    program = NULL;
}
END_TEST

/* The driver gets all back, whatever goes first; and a stream of another device's is its error. */
START_TEST(on_a_driver)
{
    void *library = dlopen(MOCK_FOLDER "/lib/libcuda.so.1", RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    const Mock *driver = dlsym(library, "mock");
    int open = driver->open;
    for (int order = 0; order < 4; order++) {
        TesseraFact any = {"N", 1, 0, 0};
        TesseraLaunch *launch;
        TesseraGraph *graph;
        void *memory[2], *stream;
        parse(
            "kernel chain(x: f32[N, N]) -> f32[N, N] {\n    let y = x @ x\n    return y @ y\n}\n");
        ck_assert_int_eq(tessera_device_open(context, "cuda", MOCK_OPENED, &device), TESSERA_OK);
        TesseraOptions options = {
            .target = tessera_device_info(device)->target, .facts = &any, .n_facts = 1};
        ck_assert_int_eq(compile(&options), TESSERA_OK);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(tessera_alloc(device, 4096, &memory[i]), TESSERA_OK);
        }
        TesseraArg args[2] = {{.tensor = {memory[0], TESSERA_F32, 2, {32, 32}, NULL}},
                              {.tensor = {memory[1], TESSERA_F32, 2, {32, 32}, NULL}}};
        ck_assert_int_eq(tessera_stream_new(device, &stream), TESSERA_OK);
        ck_assert_int_eq(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_OK);
        expect(tessera_launch(launch, MOCK_FOREIGN), TESSERA_USAGE,
               "chain_0: MOCK_ERROR_400 (400): the stream, or the event, is of another context");
        ck_assert_int_eq(tessera_launch(launch, stream), TESSERA_OK);
        ck_assert_int_eq(tessera_capture_begin(device, stream), TESSERA_OK);
        ck_assert_int_eq(tessera_capture_end(device, stream, &graph), TESSERA_OK);
        tessera_stream_free(device, stream);
        if (order & 1) {
            tessera_kernel_free(kernel);
        }
        if (order & 2) {
            tessera_launch_free(launch);
        }
        tessera_graph_free(graph);
        tessera_graph_free(graph);
        freed(tessera_graph_launch(graph, NULL), "graph");
        tessera_device_free(device);
        tessera_launch_free(launch);
        tessera_kernel_free(kernel);
        tessera_program_free(program);
        kernel = NULL, program = NULL, device = NULL;
        ck_assert_int_eq(driver->open, open);
    }
}
END_TEST

/* Only the last ones are kept: memory does not grow with what is freed. */
START_TEST(only_some_are_kept)
{
    Counting counting = {0};
    TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
    TesseraContext *own;
    TesseraDevice *one;
    TesseraEvent *event;
    ck_assert_int_eq(tessera_context_new(&allocator, &own), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(own, "cpu", 1, &one), TESSERA_OK);
    for (int i = 0, before = 0; i < 1000; i++) {
        ck_assert_int_eq(tessera_event_new(one, &event), TESSERA_OK);
        tessera_event_free(event);
        before = i == 500 ? counting.open : before;
        ck_assert_int_eq(i > 500 ? counting.open : before, before);
    }
    tessera_device_free(one);
    tessera_context_free(own);
    ck_assert_int_eq(counting.open, 0);
}
END_TEST

UNIT_TESTS(runtime_freed)
{
    TCase *tests = tcase_create("freed");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, launches);
    tcase_add_test(tests, devices);
    tcase_add_test(tests, programs);
    tcase_add_test(tests, on_a_driver);
    tcase_add_test(tests, only_some_are_kept);
    return tests;
}
