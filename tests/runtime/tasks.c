/* SPDX-License-Identifier: Apache-2.0 */
/* Compilation in the library's threads, many threads with a context each, and a cache shared by
 * all. It is also clean under ThreadSanitizer (LLVM's part is not instrumented). */
#include "tests/runtime/harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const TesseraOptions NATIVE = {.target = "native"};

static atomic_int told;

static void count(void *user, TesseraTask *task)
{
    (void)user, (void)task;
    atomic_fetch_add(&told, 1);
}

static void check_runs(TesseraKernel *compiled)
{
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    TesseraLaunch *launch;
    x[7] = 3, y[7] = 4;
    ck_assert_int_eq(tessera_prepare(compiled, device, args, 3, &launch), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert(z[7] == 7);
    tessera_launch_free(launch);
}

START_TEST(kernels_come_later)
{
    TesseraTask *task;
    TesseraKernel *again;
    parse(ADD);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_compile_start(program, &NATIVE, count, NULL, &task), TESSERA_OK);
    ck_assert_int_eq(tessera_task_wait(task, &kernel), TESSERA_OK);
    ck_assert(tessera_task_finished(task) && atomic_load(&told) == 1);
    expect(tessera_task_wait(task, &again), TESSERA_USAGE, "handed out before");
    tessera_task_free(task);
    check_runs(kernel);
    ck_assert_int_eq(tessera_kernel_load(kernel, device), TESSERA_OK);
}
END_TEST

START_TEST(errors_come_later)
{
    const TesseraDiagnostic *diagnostics;
    TesseraOptions wrong = {.target = "sm_90"};
    TesseraTask *task;
    parse(ADD);
    expect(tessera_compile_start(program, &(TesseraOptions){0}, NULL, NULL, &task), TESSERA_USAGE,
           "needs a target");
    ck_assert_ptr_null(task);
    ck_assert_int_eq(tessera_compile_start(program, &wrong, NULL, NULL, &task), TESSERA_OK);
    expect(tessera_task_wait(task, &kernel), TESSERA_USAGE, "did you mean 'sm_90a'?");
    ck_assert_uint_eq(tessera_diagnostics(context, &diagnostics), 1);
    tessera_task_free(task);
    expect(tessera_compile_start(program, &NATIVE, NULL, NULL, NULL), TESSERA_USAGE, "task is");
    ck_assert_int_eq(tessera_task_wait(NULL, &kernel), TESSERA_USAGE);
    tessera_task_free(NULL);
    tessera_task_cancel(NULL);
}
END_TEST

START_TEST(cancelled)
{
    enum { TASKS = 8 };
    TesseraTask *tasks[TASKS];
    int none = 0;
    parse(ADD);
    for (int i = 0; i < TASKS; i++) {
        ck_assert_int_eq(tessera_compile_start(program, &NATIVE, NULL, NULL, &tasks[i]),
                         TESSERA_OK);
    }
    for (int i = 0; i < TASKS; i++) {
        tessera_task_cancel(tasks[i]);
    }
    for (int i = 0; i < TASKS; i++) {
        TesseraStatus status = tessera_task_wait(tasks[i], &kernel);
        ck_assert(status == TESSERA_OK || status == TESSERA_CANCELLED);
        none += status == TESSERA_CANCELLED;
        tessera_kernel_free(kernel);
        kernel = NULL;
        tessera_task_free(tasks[i]);
    }
    ck_assert_int_gt(none, 0);
    tessera_task_free(NULL);
}
END_TEST

START_TEST(several_ahead)
{
    enum { MANY = 6 };
    TesseraFact facts[MANY];
    TesseraRequest requests[MANY];
    parse(ADD);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    for (int i = 0; i < MANY; i++) {
        facts[i] = (TesseraFact){"N", 1, i, 0};
        requests[i] = (TesseraRequest){program, NATIVE, NULL, TESSERA_OK};
        requests[i].options.facts = &facts[i];
        requests[i].options.n_facts = 1;
    }
    ck_assert_int_eq(tessera_compile_all(context, requests, MANY, device), TESSERA_OK);
    for (int i = 0; i < MANY; i++) {
        check_runs(requests[i].kernel);
        tessera_kernel_free(requests[i].kernel);
    }
    requests[3].options.target = "nothing";
    expect(tessera_compile_all(context, requests, MANY, device), TESSERA_USAGE, "no target");
    for (int i = 0; i < MANY; i++) {
        ck_assert((requests[i].kernel == NULL) == (i == 3));
        tessera_kernel_free(requests[i].kernel);
    }
}
END_TEST

START_TEST(allocations_fail)
{
    int fails = 0;
    for (int i = 1; i < 40; i++) {
        Counting counting = {.fail_at = i};
        TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
        TesseraContext *own;
        TesseraProgram *text;
        TesseraTask *task;
        TesseraKernel *made;
        if (tessera_context_new(&allocator, &own) != TESSERA_OK) {
            continue;
        }
        if (tessera_program_parse(own, "add", ADD, strlen(ADD), &text) == TESSERA_OK) {
            TesseraStatus status = tessera_compile_start(text, &NATIVE, NULL, NULL, &task);
            status = task ? tessera_task_wait(task, &made) : status;
            fails += status == TESSERA_ENVIRONMENT;
            tessera_kernel_free(task ? made : NULL);
            tessera_task_free(task);
            tessera_program_free(text);
        }
        tessera_context_free(own);
        ck_assert_int_eq(counting.open, 0);
    }
    ck_assert_int_gt(fails, 5);
}
END_TEST

/* Threads share a folder of the cache, and nothing else. */
static void *use_all(void *user)
{
    static const float ones[64] = {1, 1, 1};
    float sums[64] = {0};
    TesseraContext *own;
    TesseraProgram *text;
    TesseraKernel *made;
    TesseraDevice *cpu;
    TesseraLaunch *launch;
    for (int i = 0; i < 3; i++) {
        bool good = tessera_context_new(NULL, &own) == TESSERA_OK &&
                    tessera_cache_use(own, user, 0) == TESSERA_OK &&
                    tessera_program_parse(own, "add", ADD, strlen(ADD), &text) == TESSERA_OK &&
                    tessera_device_open(own, "cpu", 2, &cpu) == TESSERA_OK &&
                    tessera_compile(text, &NATIVE, &made) == TESSERA_OK;
        TesseraArg args[3] = {vector((float *)(uintptr_t)ones, 64),
                              vector((float *)(uintptr_t)ones, 64), vector(sums, 64)};
        if (!good || tessera_prepare(made, cpu, args, 3, &launch) != TESSERA_OK ||
            tessera_launch(launch, NULL) != TESSERA_OK || sums[2] != 2 || sums[3] != 0) {
            return (void *)(uintptr_t)1;
        }
        tessera_launch_free(launch);
        tessera_kernel_free(made);
        tessera_device_free(cpu);
        tessera_program_free(text);
        tessera_context_free(own);
    }
    return NULL;
}

START_TEST(a_context_a_thread)
{
    enum { THREADS = 8 };
    char folder[] = "/tmp/tessera-XXXXXX", command[64];
    pthread_t threads[THREADS];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_all, folder), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(cache_only)
{
    char folder[] = "/tmp/tessera-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(tessera_cache_use(context, folder, 0), TESSERA_OK);
    parse(ADD);
    ck_assert_int_eq(compile(&NATIVE), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_cache_only(context, true), TESSERA_OK);
    expect(tessera_kernel_load(kernel, device), TESSERA_ENVIRONMENT,
           "add for native is not in the cache, and compiling is forbidden");
    ck_assert_int_eq(tessera_cache_only(context, false), TESSERA_OK);
    ck_assert_int_eq(tessera_kernel_load(kernel, device), TESSERA_OK);
    tessera_kernel_free(kernel);
    ck_assert_int_eq(compile(&NATIVE), TESSERA_OK);
    ck_assert_int_eq(tessera_cache_only(context, true), TESSERA_OK);
    check_runs(kernel);
    ck_assert_int_eq(tessera_cache_only(NULL, true), TESSERA_USAGE);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

UNIT_TESTS(runtime_tasks)
{
    TCase *tests = tcase_create("tasks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, kernels_come_later);
    tcase_add_test(tests, errors_come_later);
    tcase_add_test(tests, cancelled);
    tcase_add_test(tests, several_ahead);
    tcase_add_test(tests, allocations_fail);
    tcase_add_test(tests, a_context_a_thread);
    tcase_add_test(tests, cache_only);
    return tests;
}
