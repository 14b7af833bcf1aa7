/* SPDX-License-Identifier: Apache-2.0 */
/* Worker processes of a sweep: their lines, how they end, and that they leave nothing behind. */
#include "tests/unit.h"

#include "support/clock.h"
#include "tune/sweep/worker_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static Arena arena;
static Worker worker;
static Worker *const ALL[] = {&worker};

static void run(const char *script)
{
    char *const arguments[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                               (char *)(uintptr_t)script, NULL};
    ck_assert(worker_start(&worker, arguments, environ));
}

/* A machine that does much else may be slow: how long is for the test's own limit to say. */
enum { LIMIT = 60 };

static Event wait_for(EventKind kind)
{
    Event event = workers_wait(ALL, 1, clock_seconds() + 2 * LIMIT);
    ck_assert_int_eq(event.kind, kind);
    return event;
}

static const char *wait_for_line(void)
{
    return wait_for(EVENT_LINE).line;
}

START_TEST(lines_go_both_ways)
{
    run("echo ready; while read -r line; do echo \"got $line\"; done");
    ck_assert_str_eq(wait_for_line(), "ready");
    worker_send(&worker, "check %d %s", 7, "tile M 64");
    worker_send(&worker, "more");
    ck_assert_str_eq(wait_for_line(), "got check 7 tile M 64");
    ck_assert_str_eq(wait_for_line(), "got more");
    ck_assert_int_eq(workers_wait(ALL, 1, clock_seconds() + 0.05).kind, EVENT_NONE);
    worker_end(&worker);
    ck_assert_int_eq(worker.process, 0);
    ck_assert_int_eq(worker_end(&worker), 0); /* once more is nothing */
}
END_TEST

START_TEST(long_lines_are_whole)
{
    run("i=0; while [ $i -lt 500 ]; do printf %0400d 0; i=$((i+1)); done; echo; echo end");
    ck_assert_uint_eq(strlen(wait_for_line()), 200000);
    ck_assert_str_eq(wait_for_line(), "end");
    worker_end(&worker);
}
END_TEST

START_TEST(ends_are_told)
{
    run("echo last words >&2; exit 3");
    wait_for(EVENT_ENDED);
    ck_assert_str_eq(worker_stderr_tail(&arena, &worker), "last words");
    worker_send(&worker, "to nobody");
    int status = worker_end(&worker);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    run("kill -SEGV $$");
    wait_for(EVENT_ENDED);
    status = worker_end(&worker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
END_TEST

START_TEST(who_is_late_ends_with_its_children)
{
    run("sleep 1000 & echo $!; sleep 1000");
    pid_t child = (pid_t)atoi(wait_for_line());
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(kill(child, 0), 0);
    double start = clock_seconds();
    worker.deadline = start + 0.2;
    wait_for(EVENT_LATE);
    ck_assert(clock_seconds() - start < LIMIT);
    int status = worker_end(&worker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (clock_seconds() - start < LIMIT && kill(child, 0) == 0) {
        /* Who takes orphans in may be slow to bury them: one that is dead runs no more. */
        char path[64], state = ' ';
        snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (sleep) %c", &state) != 1 || state == 'Z') {
            if (file) {
                fclose(file);
            }
            return;
        }
        fclose(file);
        usleep(20000);
    }
    ck_assert_int_ne(kill(child, 0), 0);
}
END_TEST

START_TEST(what_is_not_there_does_not_start)
{
    char *const arguments[] = {(char *)(uintptr_t) "/nowhere/at/all", NULL};
    ck_assert(!worker_start(&worker, arguments, environ));
    ck_assert_int_eq(worker.process, 0);
}
END_TEST

static void end(void)
{
    worker_end(&worker);
    arena_free(&arena);
}

static void begin(void)
{
    worker = (Worker){.link = -1, .log = -1};
    arena_init(&arena, allocator_default());
}

UNIT_TESTS(tune_pool)
{
    TCase *tests = tcase_create("workers");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, LIMIT);
    tcase_add_test(tests, lines_go_both_ways);
    tcase_add_test(tests, long_lines_are_whole);
    tcase_add_test(tests, ends_are_told);
    tcase_add_test(tests, who_is_late_ends_with_its_children);
    tcase_add_test(tests, what_is_not_there_does_not_start);
    return tests;
}
