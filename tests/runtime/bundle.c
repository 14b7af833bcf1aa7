/* SPDX-License-Identifier: Apache-2.0 */
/* Building bundles: rejected inputs, and each allocation failing once. What bundles do is tested
 * by programs (tests/aot) and on hand-made bundles (tests/launch). */
#include "tests/runtime/harness.h"

static const char *const TARGETS[] = {"x86-64-v3", "sm_80", "gfx942"};

static void refused(TesseraBundleOptions options, TesseraStatus want, const char *words)
{
    TesseraBundled *bundled;
    options.name = options.name ? options.name : "k";
    expect(tessera_bundle(program, &options, &bundled), want, words);
    ck_assert_ptr_null(bundled);
}

START_TEST(what_is_missing)
{
    TesseraBundleOptions options = {.name = "k", .targets = TARGETS, .n_targets = 1};
    TesseraBundled *bundled;
    parse(ADD);
    ck_assert_int_eq(tessera_bundle(NULL, &options, &bundled), TESSERA_USAGE);
    expect(tessera_bundle(program, NULL, &bundled), TESSERA_USAGE, "options");
    expect(tessera_bundle(program, &options, NULL), TESSERA_USAGE, "bundled");
    options.name = NULL;
    expect(tessera_bundle(program, &options, &bundled), TESSERA_USAGE, "options.name");
    refused((TesseraBundleOptions){0}, TESSERA_USAGE, "targets");
    refused((TesseraBundleOptions){.n_targets = 1}, TESSERA_USAGE, "a list of options");
    const char *null = NULL, *unknown = "sm_1", *native = "native";
    refused((TesseraBundleOptions){.targets = &null, .n_targets = 1}, TESSERA_USAGE, "NULL");
    refused((TesseraBundleOptions){.targets = &unknown, .n_targets = 1}, TESSERA_USAGE, "sm_1");
    refused((TesseraBundleOptions){.targets = &native, .n_targets = 1}, TESSERA_USAGE, "native");
    refused((TesseraBundleOptions){.targets = TARGETS, .n_targets = 1, .kernel = "sub"},
            TESSERA_USAGE, "no kernel 'sub'");
    refused((TesseraBundleOptions){.targets = TARGETS, .n_targets = 1, .name = "a b"},
            TESSERA_USAGE, "'a b' is no name");
    TesseraFact nameless = {.multiple = 8}, other = {.name = "Q", .multiple = 8};
    refused(
        (TesseraBundleOptions){
            .targets = TARGETS, .n_targets = 1, .facts = &nameless, .n_facts = 1},
        TESSERA_USAGE, "a name of options.facts is NULL");
    refused(
        (TesseraBundleOptions){.targets = TARGETS, .n_targets = 1, .facts = &other, .n_facts = 1},
        TESSERA_USAGE, "no size 'Q'");
    TesseraOptions variant = {.n_lines = 1};
    refused(
        (TesseraBundleOptions){
            .targets = TARGETS, .n_targets = 1, .variants = &variant, .n_variants = 1},
        TESSERA_USAGE, "a list of options is NULL");
    tessera_bundled_free(NULL);
    ck_assert_ptr_null(tessera_bundled_header(NULL));
    ck_assert_ptr_null(tessera_bundled_object(NULL));
}
END_TEST

START_TEST(header_and_object)
{
    TesseraFact eights = {.name = "N", .multiple = 64};
    TesseraOptions variant = {.facts = &eights, .n_facts = 1};
    TesseraBundleOptions options = {
        .name = "k", .targets = TARGETS, .n_targets = 3, .variants = &variant, .n_variants = 1};
    TesseraBundled *bundled;
    parse(TWO);
    TesseraStatus status = tessera_bundle(program, &options, &bundled);
    ck_assert_msg(status == TESSERA_OK, "%s", tessera_error(context)->message);
    const char *header = tessera_bundled_header(bundled)->data;
    ck_assert_ptr_nonnull(strstr(header, "k_first(TesseraDevice *device, void *stream, const"));
    ck_assert_ptr_nonnull(strstr(header, "made for N % 64 == 0; any size. */"));
    ck_assert_ptr_nonnull(strstr(header, "k_second_prepare("));
    ck_assert_int_eq(memcmp(tessera_bundled_object(bundled)->data, "\177ELF", 4), 0);
    tessera_bundled_free(bundled);
}
END_TEST

/* Each allocation in turn, in steps that grow: the arenas take their memory in few pieces. */
START_TEST(memory_ends)
{
    TesseraStatus status = TESSERA_ENVIRONMENT;
    TesseraBundleOptions options = {.name = "k", .targets = TARGETS, .n_targets = 3};
    for (int at = 1; status != TESSERA_OK; at += 1 + at / 8) {
        Counting counting = {0, at, 0};
        TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
        TesseraContext *own = NULL;
        TesseraProgram *text = NULL;
        TesseraBundled *bundled = NULL;
        ck_assert_int_lt(at, 100000);
        status = tessera_context_new(&allocator, &own);
        status = status == TESSERA_OK ? tessera_program_parse(own, "text", ADD, strlen(ADD), &text)
                                      : status;
        status = status == TESSERA_OK ? tessera_bundle(text, &options, &bundled) : status;
        ck_assert_msg(status == TESSERA_OK || status == TESSERA_ENVIRONMENT, "%d: %s", at,
                      tessera_error(own)->message);
        tessera_bundled_free(bundled);
        tessera_program_free(text);
        tessera_context_free(own);
        ck_assert_int_eq(counting.open, 0);
    }
}
END_TEST

UNIT_TESTS(runtime_bundle)
{
    TCase *tests = tcase_create("bundle");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, what_is_missing);
    tcase_add_test(tests, header_and_object);
    tcase_add_test(tests, memory_ends);
    return tests;
}
