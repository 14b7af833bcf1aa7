/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel messages that a run reports to its caller, also if the caller ignores them. */
#include "tests/interp/harness.h"

static const char program[] = "func says level tensor {\n"
                              "  size N\n"
                              "  in %x: tensor<f32[N]>\n"
                              "  body {\n"
                              "    %v = load %x[:] : f32[N]\n"
                              "    %low = const value=-2.0 : f32[N]\n"
                              "    %fine = cmp %v, %low pred=gt : bool[N]\n"
                              "    print %fine, %v text=\"seen\"\n"
                              "    assert %fine, %v text=\"above -2: {0}\"\n"
                              "  }\n"
                              "}\n";

typedef struct Heard {
    int prints, asserts;
    double last;
} Heard;

static void hear(void *user, const InterpEvent *note)
{
    Heard *heard = user;
    ck_assert_int_eq(note->n, 1);
    ck_assert_int_eq(note->dtypes[0], DT_F32);
    if (note->kind == INTERP_PRINT) {
        ck_assert_str_eq(note->text, "seen");
        heard->prints++;
    } else {
        ck_assert_int_eq(note->kind, INTERP_ASSERT);
        heard->last = note->values[0].f;
        heard->asserts++;
    }
}

static void begin(Harness *h)
{
    static float values[] = {1, 0.5f, -3, 4};
    harness_begin(h, program);
    harness_size(h, "N", 4);
    h->args[0].tensor.data = values;
}

START_TEST(the_caller_hears_all)
{
    Harness h;
    Heard heard = {0};
    InterpOptions options = {.note = hear, .user = &heard};
    begin(&h);
    ck_assert(interp_func(h.func, h.args, h.sizes, &options, &h.problem));
    ck_assert_int_eq(heard.prints, 3);
    ck_assert_int_eq(heard.asserts, 1);
    ck_assert(heard.last == -3);
    harness_end(&h);
}
END_TEST

START_TEST(an_assertion_that_nobody_hears_ends_the_run)
{
    Harness h;
    begin(&h);
    ck_assert(!harness_run(&h, 1, false));
    ck_assert_msg(strstr(h.problem.data, "above -2: -3") != NULL, "%s",
                  h.problem.data);
    harness_end(&h);
}
END_TEST

UNIT_TESTS(interp_messages)
{
    TCase *tests = tcase_create("says");
    tcase_add_test(tests, the_caller_hears_all);
    tcase_add_test(tests, an_assertion_that_nobody_hears_ends_the_run);
    return tests;
}
