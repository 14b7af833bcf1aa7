/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose code comes from the cache: the same results, also in another context and after
 * failures of the cache. */
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <unistd.h>

static char folder[64];

static void begin(void)
{
    setup();
    snprintf(folder, sizeof folder, "/tmp/tessera-kept-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void end(void)
{
    char command[96];
    teardown();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Adds N numbers with a context of its own, and the folder's cache; frees all. */
static TesseraStatus add(const TesseraAllocator *allocator, TesseraCacheInfo *info)
{
    TesseraContext *c = NULL;
    TesseraProgram *p = NULL;
    TesseraKernel *k = NULL;
    TesseraDevice *d = NULL;
    TesseraLaunch *launch = NULL;
    TesseraOptions options = {.target = "native"};
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 0.5f;
        z[i] = 0;
    }
    TesseraStatus status = tessera_context_new(allocator, &c);
    status = status ? status : tessera_cache_use(c, folder, 0);
    status = status ? status : tessera_program_parse(c, "<text>", ADD, strlen(ADD), &p);
    status = status ? status : tessera_compile(p, &options, &k);
    status = status ? status : tessera_device_open(c, "cpu", 2, &d);
    status = status ? status : tessera_prepare(k, d, args, 3, &launch);
    status = status ? status : tessera_launch(launch, NULL);
    status = status ? status : tessera_sync(d, NULL);
    for (int i = 0; status == TESSERA_OK && i < N; i++) {
        ck_assert_float_eq(z[i], x[i] + 0.5f);
    }
    if (status == TESSERA_OK && info) {
        status = tessera_cache_info(c, info);
    }
    tessera_launch_free(launch);
    tessera_kernel_free(k);
    tessera_device_free(d);
    tessera_program_free(p);
    tessera_context_free(c);
    return status;
}

START_TEST(code_is_found_again)
{
    TesseraCacheInfo info;
    ck_assert_int_eq(add(NULL, &info), TESSERA_OK);
    ck_assert_uint_eq(info.hits, 0);
    ck_assert_uint_eq(info.kept, 1);
    ck_assert_int_eq(add(NULL, &info), TESSERA_OK);
    ck_assert_uint_eq(info.hits, 1);
    ck_assert_uint_eq(info.misses, 0);
    ck_assert_uint_eq(info.entries, 1);
}
END_TEST

START_TEST(switched_off)
{
    TesseraCacheInfo info;
    ck_assert_int_eq(tessera_cache_use(context, "off", 0), TESSERA_OK);
    ck_assert_int_eq(tessera_cache_info(context, &info), TESSERA_OK);
    ck_assert_ptr_nonnull(info.why);
    ck_assert_ptr_null(info.folder);
}
END_TEST

START_TEST(misuse)
{
    TesseraCacheInfo info;
    const TesseraCacheEntry *entries;
    size_t n;
    ck_assert_int_eq(tessera_cache_use(NULL, folder, 0), TESSERA_USAGE);
    expect(tessera_cache_use(context, folder, -1), TESSERA_USAGE, "a cache of -1 bytes");
    ck_assert_int_eq(tessera_cache_use(context, folder, 0), TESSERA_OK);
    ck_assert_int_eq(tessera_cache_info(NULL, &info), TESSERA_USAGE);
    expect(tessera_cache_info(context, NULL), TESSERA_USAGE, "info is NULL");
    expect(tessera_cache_list(context, NULL, &n), TESSERA_USAGE, "entries is NULL");
    expect(tessera_cache_list(context, &entries, NULL), TESSERA_USAGE, "n is NULL");
    expect(tessera_cache_verify(context, NULL, &n), TESSERA_USAGE, "checked is NULL");
    expect(tessera_cache_verify(context, &n, NULL), TESSERA_USAGE, "damaged is NULL");
    expect(tessera_cache_prune(context, 0, NULL), TESSERA_USAGE, "removed is NULL");
    expect(tessera_cache_prune(context, -1, &n), TESSERA_USAGE, "a cache of -1 bytes");
    ck_assert_int_eq(tessera_cache_list(context, &entries, &n), TESSERA_OK);
    ck_assert_uint_eq(n, 0);
}
END_TEST

/* Without memory for the cache there is no cache; without memory for the rest, that is told. */
START_TEST(allocation_failures)
{
    Counting counting = {0};
    TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
    for (int warm = 0; warm < 2; warm++) {
        counting = (Counting){0};
        ck_assert_int_eq(add(&allocator, NULL), TESSERA_OK);
        for (int i = 1, n = counting.allocations; i <= n; i++) {
            counting = (Counting){.fail_at = i};
            TesseraStatus status = add(&allocator, NULL);
            ck_assert_msg(status == TESSERA_OK || status == TESSERA_ENVIRONMENT, "%d: %d", i,
                          status);
            ck_assert_int_eq(counting.open, 0);
        }
    }
}
END_TEST

UNIT_TESTS(runtime_cache)
{
    TCase *tests = tcase_create("cache");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, code_is_found_again);
    tcase_add_test(tests, switched_off);
    tcase_add_test(tests, misuse);
    tcase_add_test(tests, allocation_failures);
    return tests;
}
