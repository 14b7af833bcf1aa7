/* SPDX-License-Identifier: Apache-2.0 */
/* Compile workers that fail in every way: each failure is an error, and the caller continues. The
 * real worker is tested by tests/cli/worker.test. */
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const TesseraOptions NATIVE = {.target = "native"};
static char folder[] = "/tmp/tessera-XXXXXX", path[64];

/* A program that does as the script says. */
static void make_worker(const char *script)
{
    strcpy(folder, "/tmp/tessera-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/worker", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    chmod(path, 0700);
}

static void check_fails(const char *script, double seconds, TesseraStatus status, const char *words)
{
    TesseraBytes bytes;
    make_worker(script);
    if (!kernel) {
        parse(ADD);
        ck_assert_int_eq(compile(&NATIVE), TESSERA_OK);
        ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
        ck_assert_int_eq(tessera_cache_use(context, "off", 0), TESSERA_OK);
    }
    ck_assert_int_eq(tessera_isolate(context, TESSERA_ISOLATE_ALWAYS, path, seconds), TESSERA_OK);
    expect(tessera_kernel_load(kernel, device), status, words);
    bool bug = status == TESSERA_INTERNAL;
    const char *reproducer = tessera_error(context)->reproducer;
    ck_assert(bug == (reproducer && strstr(reproducer, "kernel add(") != NULL));
    expect(tessera_kernel_emit(kernel, "obj", &bytes), status, words);
    remove(path);
    rmdir(folder);
}

START_TEST(workers_fail)
{
    check_fails("echo 'LLVM ERROR: Cannot select' >&2; kill -ABRT $$", 0, TESSERA_INTERNAL,
                "ended the worker by signal 6 (Aborted)");
    ck_assert_ptr_nonnull(strstr(tessera_error(context)->message, "LLVM ERROR: Cannot select"));
    check_fails("kill -SEGV $$", 0, TESSERA_INTERNAL, "signal 11");
    check_fails("sleep 100 & sleep 100", 0.2, TESSERA_INTERNAL, "takes longer than 0.2 seconds");
    check_fails("exit 3", 0, TESSERA_ENVIRONMENT, "exit status 3");
    check_fails("echo hello and more than a status", 0, TESSERA_INTERNAL, "");
    check_fails("printf '\\000\\000\\000\\000\\000\\000\\000\\000no plan'", 0, TESSERA_INTERNAL,
                "no code");
    check_fails("printf '\\001\\000\\000\\000\\000\\000\\000\\000error: so it is'", 0,
                TESSERA_SOURCE, "so it is");
}
END_TEST

START_TEST(no_worker)
{
    TesseraBytes bytes;
    parse(ADD);
    ck_assert_int_eq(compile(&NATIVE), TESSERA_OK);
    ck_assert_int_eq(tessera_isolate(context, TESSERA_ISOLATE_ALWAYS, "/no/worker", 0), TESSERA_OK);
    expect(tessera_kernel_emit(kernel, "obj", &bytes), TESSERA_ENVIRONMENT, "there is none");
    ck_assert_int_eq(tessera_isolate(context, TESSERA_ISOLATE_AUTO, "/no/worker", 0), TESSERA_OK);
    ck_assert_int_eq(tessera_kernel_emit(kernel, "obj", &bytes), TESSERA_OK);
    expect(tessera_isolate(context, TESSERA_ISOLATE_AUTO, NULL, -1), TESSERA_USAGE, "no such");
    expect(tessera_isolate(context, (TesseraIsolate)7, NULL, 0), TESSERA_USAGE, "no such");
    ck_assert_int_eq(tessera_isolate(NULL, TESSERA_ISOLATE_AUTO, NULL, 0), TESSERA_USAGE);
}
END_TEST

/* A task that is cancelled ends its worker. */
START_TEST(cancelled_with_its_worker)
{
    TesseraTask *task;
    make_worker("sleep 100");
    parse(ADD);
    ck_assert_int_eq(tessera_cache_use(context, "off", 0), TESSERA_OK);
    ck_assert_int_eq(tessera_isolate(context, TESSERA_ISOLATE_ALWAYS, path, 0), TESSERA_OK);
    ck_assert_int_eq(tessera_compile_start(program, &NATIVE, NULL, NULL, &task), TESSERA_OK);
    usleep(100000);
    tessera_task_cancel(task);
    expect(tessera_task_wait(task, &kernel), TESSERA_CANCELLED, "cancelled");
    tessera_task_free(task);
    remove(path);
    rmdir(folder);
}
END_TEST

UNIT_TESTS(runtime_worker)
{
    TCase *tests = tcase_create("worker");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, workers_fail);
    tcase_add_test(tests, no_worker);
    tcase_add_test(tests, cancelled_with_its_worker);
    return tests;
}
