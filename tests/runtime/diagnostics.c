/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics as structures, for programs that display them themselves. */
#include "tests/runtime/harness.h"

static const char MISTAKE[] = "kernel f(x: f32[M, N], y: f32[N, M]) -> f32[M, N] {\n"
                              "    let a = exq(x)\n"
                              "    return x + y\n"
                              "}\n";

START_TEST(errors_in_a_source)
{
    const TesseraDiagnostic *all;
    TesseraOptions options = {.target = "native"};
    parse(MISTAKE);
    ck_assert_int_eq(compile(&options), TESSERA_SOURCE);
    ck_assert_uint_eq(tessera_diagnostics(context, &all), 2);
    ck_assert_str_eq(all[0].code, "E0302");
    ck_assert_int_eq(all[0].severity, TESSERA_IS_ERROR);
    ck_assert_str_eq(all[0].span.file, "<text>");
    ck_assert_int_eq(all[0].span.line, 2);
    ck_assert_int_eq(all[0].span.column, 13);
    ck_assert_int_eq(all[0].span.end_column, 16);
    ck_assert_uint_eq(all[0].n_edits, 1);
    ck_assert_str_eq(all[0].edits[0].text, "exp");
    ck_assert_uint_eq(all[0].edits[0].span.begin, all[0].span.begin);
    ck_assert_str_eq(all[1].code, "E0402");
    ck_assert_uint_eq(all[1].n_labels, 2);
    ck_assert_str_eq(all[1].labels[0].text, "f32[M, N]");
    ck_assert_str_eq(all[1].labels[1].text, "f32[N, M]");
    ck_assert_ptr_nonnull(strstr(all[1].human, "^"));
    ck_assert_ptr_nonnull(strstr(all[1].brief, "<text>:3:14: error[E0402]"));
    ck_assert_int_eq(all[1].json[0], '{');
}
END_TEST

START_TEST(errors_without_a_source)
{
    const TesseraDiagnostic *all;
    parse(ADD);
    TesseraOptions options = {.target = "sm_1"};
    ck_assert_int_eq(compile(&options), TESSERA_USAGE);
    ck_assert_uint_eq(tessera_diagnostics(context, &all), 1);
    ck_assert_str_eq(all[0].code, "E1009");
    ck_assert_ptr_null(all[0].span.file);
    ck_assert_int_eq(tessera_device_open(context, "gpu", 0, &device), TESSERA_USAGE);
    ck_assert_uint_eq(tessera_diagnostics(context, &all), 1);
    ck_assert_str_eq(all[0].code, "E1010");
}
END_TEST

START_TEST(warnings)
{
    static const char unread[] = "kernel f(x: f32[N], y: f32[N]) -> f32[N] = x\n";
    static const char *const code = "W2002", *const none = "W0";
    const TesseraDiagnostic *all;
    TesseraOptions options = {.target = "native"};
    parse(unread);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_uint_eq(tessera_diagnostics(context, &all), 1);
    ck_assert_str_eq(all[0].code, code);
    ck_assert_int_eq(all[0].severity, TESSERA_IS_WARNING);
    tessera_kernel_free(kernel);
    ck_assert_int_eq(tessera_warn(context, &(TesseraWarnings){.deny = true}), TESSERA_OK);
    ck_assert_int_eq(compile(&options), TESSERA_SOURCE);
    ck_assert_int_eq(tessera_warn(context, &(TesseraWarnings){&code, 1, true}), TESSERA_OK);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_uint_eq(tessera_diagnostics(context, &all), 0);
    expect(tessera_warn(context, &(TesseraWarnings){&none, 1, false}), TESSERA_USAGE, "no warning");
    ck_assert_int_eq(tessera_warn(context, NULL), TESSERA_OK);
}
END_TEST

START_TEST(explanations)
{
    TesseraExplanation row;
    ck_assert(tessera_explain("e402", &row) && tessera_explain("402", &row));
    ck_assert_str_eq(row.code, "E0402");
    ck_assert(row.wrong && row.mended && *row.text);
    ck_assert(!tessera_explain("E9999", &row) && !tessera_explain("", &row));
    ck_assert(!tessera_explain(NULL, &row) && !tessera_explain("E0402", NULL));
    ck_assert(!tessera_explanation(10000, &row) && !tessera_explanation(0, NULL));
    ck_assert_uint_eq(tessera_diagnostics(NULL, NULL), 0);
    ck_assert_int_eq(tessera_warn(NULL, NULL), TESSERA_USAGE);
}
END_TEST

UNIT_TESTS(runtime_diagnostics)
{
    TCase *tests = tcase_create("diagnostics");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, errors_in_a_source);
    tcase_add_test(tests, errors_without_a_source);
    tcase_add_test(tests, warnings);
    tcase_add_test(tests, explanations);
    return tests;
}
