/* SPDX-License-Identifier: Apache-2.0 */
/* The error boundary: internal errors become a status with a reproducer, and so does a failure
 * without a diagnostic. */
#include "runtime/context/error_boundary.h"
#include "runtime/launch/launch_context.h"
#include "tests/unit.h"

#include <string.h>

static bool bug_task(void *user)
{
    ErrorBoundary *work = user;
    work->diags.pass = "assign_layouts";
    diag_bug(&work->diags, "a tile has %d lanes", 33);
}

static bool silent_task(void *user)
{
    (void)user;
    return false;
}

static bool hungry_task(void *user)
{
    ErrorBoundary *work = user;
    ck_assert_uint_gt(work->arena.cap, 0);
    work->arena.cap = (size_t)4 << 20;
    for (int i = 0; i < 1000; i++) {
        arena_alloc(&work->arena, (size_t)1 << 20);
    }
    return true;
}

static bool mixed_task(void *user)
{
    ErrorBoundary *work = user;
    diag_warning(&work->diags, 0, SPAN_NONE, "a warning");
    diag_failure(&work->diags, DIAG_ENVIRONMENT, "no device");
    return false;
}

static void reproducer(void *user, Text *out)
{
    (void)user;
    text_add(out, "the source");
}

static TesseraContext *context;
static ErrorBoundary work;

static TesseraStatus run(BoundaryFn *task)
{
    ck_assert_int_eq(tessera_context_new(NULL, &context), TESSERA_OK);
    work_init(&work, context);
    return error_boundary_run(&work, task, reproducer, &work);
}

static void end(void)
{
    work_free(&work);
    tessera_context_free(context);
}

START_TEST(bugs)
{
    ck_assert_int_eq(run(bug_task), TESSERA_INTERNAL);
    const TesseraError *error = tessera_error(context);
    ck_assert_ptr_nonnull(strstr(error->message, "a tile has 33 lanes"));
    ck_assert_ptr_nonnull(strstr(error->message, "`assign_layouts`"));
    ck_assert_str_eq(error->reproducer, "the source");
    end();
}
END_TEST

START_TEST(silence)
{
    ck_assert_int_eq(run(silent_task), TESSERA_INTERNAL);
    ck_assert_ptr_nonnull(strstr(tessera_error(context)->message, "without saying why"));
    end();
}
END_TEST

START_TEST(runaways)
{
    ck_assert_int_eq(run(hungry_task), TESSERA_ENVIRONMENT);
    ck_assert_str_eq(tessera_error(context)->message, "out of memory");
    end();
}
END_TEST

START_TEST(warnings_do_not_decide)
{
    ck_assert_int_eq(run(mixed_task), TESSERA_ENVIRONMENT);
    ck_assert_ptr_null(tessera_error(context)->reproducer);
    end();
}
END_TEST

UNIT_TESTS(runtime_work)
{
    TCase *tests = tcase_create("work");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, bugs);
    tcase_add_test(tests, silence);
    tcase_add_test(tests, runaways);
    tcase_add_test(tests, warnings_do_not_decide);
    return tests;
}
