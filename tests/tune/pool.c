/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that work for a sweep: their lines, how they end, and that nothing of them stays. */
#include "tests/unit.h"

#include "ir/base/clock.h"
#include "tune/pool.h"

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

static Event wait_for_event(void)
{
    return workers_wait(ALL, 1, clock_seconds() + 10);
}

START_TEST(lines_go_both_ways)
{
    run("echo ready; while read -r line; do echo \"got $line\"; done");
    ck_assert_str_eq(wait_for_event().line, "ready");
    worker_send(&worker, "check %d %s", 7, "tile M 64");
    worker_send(&worker, "more");
    ck_assert_str_eq(wait_for_event().line, "got check 7 tile M 64");
    Event event = wait_for_event();
    ck_assert_int_eq(event.kind, EVENT_LINE);
    ck_assert_str_eq(event.line, "got more");
    ck_assert_int_eq(workers_wait(ALL, 1, clock_seconds() + 0.05).kind, EVENT_NONE);
    worker_end(&worker);
    ck_assert_int_eq(worker.process, 0);
    ck_assert_int_eq(worker_end(&worker), 0); /* once more is nothing */
}
END_TEST

START_TEST(long_lines_are_whole)
{
    run("i=0; while [ $i -lt 20000 ]; do printf 0123456789; i=$((i+1)); done; echo; echo end");
    Event event = wait_for_event();
    ck_assert_uint_eq(strlen(event.line), 200000);
    ck_assert_str_eq(wait_for_event().line, "end");
    worker_end(&worker);
}
END_TEST

START_TEST(ends_are_told)
{
    run("echo last words >&2; exit 3");
    ck_assert_int_eq(wait_for_event().kind, EVENT_ENDED);
    ck_assert_str_eq(worker_words(&arena, &worker), "last words");
    worker_send(&worker, "to nobody");
    usleep(50000); /* it may be a moment from its last file to its end */
    int status = worker_end(&worker);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    run("kill -SEGV $$");
    ck_assert_int_eq(wait_for_event().kind, EVENT_ENDED);
    usleep(50000);
    status = worker_end(&worker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
END_TEST

START_TEST(who_is_late_ends_with_its_children)
{
    run("sleep 1000 & echo $!; sleep 1000");
    pid_t child = (pid_t)atoi(wait_for_event().line);
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(kill(child, 0), 0);
    double start = clock_seconds();
    worker.deadline = start + 0.2;
    ck_assert_int_eq(wait_for_event().kind, EVENT_LATE);
    ck_assert(clock_seconds() - start < 5);
    int status = worker_end(&worker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int i = 0; i < 100 && kill(child, 0) == 0; i++) {
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
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, lines_go_both_ways);
    tcase_add_test(tests, long_lines_are_whole);
    tcase_add_test(tests, ends_are_told);
    tcase_add_test(tests, who_is_late_ends_with_its_children);
    tcase_add_test(tests, what_is_not_there_does_not_start);
    return tests;
}
