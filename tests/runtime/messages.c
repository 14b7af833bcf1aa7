/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel messages through the public interface, from a launch and from the interpreter. */
#include "tests/runtime/harness.h"

#include <string.h>

static const char SAYS[] = "kernel says(x: f32[N]) -> f32[N] {\n"
                           "    print(\"sum\", sum(x))\n"
                           "    assert(x < 3, \"large:\", x)\n"
                           "    return x\n"
                           "}\n";

static void check_messages(const TesseraMessages *said)
{
    ck_assert_uint_eq(said->n, 3);
    ck_assert_uint_eq(said->lost, 0);
    ck_assert_uint_eq(said->failures, 2);
    ck_assert_str_eq(said->items[0].text, "sum 10");
    ck_assert(!said->items[0].failed);
    ck_assert_str_eq(said->items[1].text, "assertion failed: large: 3 at [2]");
    ck_assert_str_eq(said->items[2].text, "assertion failed: large: 4 at [3]");
    ck_assert(said->items[2].failed);
    ck_assert_int_eq(said->items[2].line, 3);
    ck_assert_ptr_nonnull(said->items[2].file);
}

START_TEST(a_launch_is_heard_once)
{
    float in[4] = {1, 2, 3, 4}, out[4];
    TesseraLaunch *launch;
    TesseraMessages said;
    TesseraFact any = {"N", .multiple = 1};
    TesseraOptions options = {.target = "native", .facts = &any, .n_facts = 1};
    TesseraArg args[2] = {vector(in, 4), vector(out, 4)};
    parse(SAYS);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 2, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_OK);
    ck_assert_int_eq(tessera_launch_messages(launch, NULL, &said), TESSERA_OK);
    ck_assert_uint_eq(said.n, 0);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_launch_messages(launch, NULL, &said), TESSERA_OK);
    check_messages(&said);
    ck_assert_int_eq(tessera_launch_messages(launch, NULL, &said), TESSERA_OK);
    ck_assert_uint_eq(said.n + said.failures, 0);
    expect(tessera_launch_messages(launch, NULL, NULL), TESSERA_USAGE, "messages");
    tessera_launch_free(launch);
    ck_assert_int_eq(tessera_interpret(program, &options, args, 2), TESSERA_OK);
    ck_assert_int_eq(tessera_interpret_messages(context, &said), TESSERA_OK);
    check_messages(&said);
}
END_TEST

START_TEST(who_says_nothing)
{
    float in[4] = {0}, out[4];
    TesseraMessages said = {.n = 7};
    TesseraOptions options = {0};
    TesseraArg args[3] = {vector(in, 4), vector(in, 4), vector(out, 4)};
    ck_assert_int_eq(tessera_interpret_messages(context, &said), TESSERA_OK);
    ck_assert_uint_eq(said.n, 0);
    parse(ADD);
    ck_assert_int_eq(tessera_interpret(program, &options, args, 3), TESSERA_OK);
    ck_assert_int_eq(tessera_interpret_messages(context, &said), TESSERA_OK);
    ck_assert_uint_eq(said.n, 0);
}
END_TEST

UNIT_TESTS(runtime_messages)
{
    TCase *tests = tcase_create("messages");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_launch_is_heard_once);
    tcase_add_test(tests, who_says_nothing);
    return tests;
}
