/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of tessera_doctor, and that a failing allocation in it, or in the kernels that it
 * compiles and runs, loses no more than one finding. */
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <stdlib.h>

static const TesseraFinding *find(const TesseraFinding *items, size_t n, const char *part)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(items[i].part, part) == 0) {
            return &items[i];
        }
    }
    ck_abort_msg("nothing about %s", part);
    return NULL;
}

START_TEST(finds)
{
    const TesseraFinding *items;
    size_t n;
    ck_assert_int_eq(tessera_doctor(context, &items, &n), TESSERA_OK);
    const TesseraFinding *cpu = find(items, n, "cpu");
    ck_assert_int_eq(cpu->health, TESSERA_HEALTHY);
    ck_assert_str_eq(cpu->device->target, "native");
    ck_assert_int_eq(find(items, n, "compiler")->health, TESSERA_HEALTHY);
    ck_assert_ptr_nonnull(find(items, n, "cuda")->looked_for);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(items[i].text[0] != '\0', "%s", items[i].part);
        ck_assert_msg(items[i].health == TESSERA_HEALTHY || items[i].cost, "%s", items[i].part);
    }
    ck_assert_int_eq(tessera_doctor(context, &items, &n), TESSERA_OK); /* and again */
    ck_assert_int_eq(tessera_doctor(NULL, &items, &n), TESSERA_USAGE);
    expect(tessera_doctor(context, NULL, &n), TESSERA_USAGE, "findings");
}
END_TEST

/* False: it was told, by a status or by what was found. */
static bool ask(Counting *counting)
{
    TesseraAllocator allocator = {counting_alloc, counting_release, counting};
    TesseraContext *c = NULL;
    const TesseraFinding *items;
    size_t n;
    bool good = tessera_context_new(&allocator, &c) == TESSERA_OK &&
                tessera_doctor(c, &items, &n) == TESSERA_OK &&
                find(items, n, "cpu")->health == TESSERA_HEALTHY;
    tessera_context_free(c);
    ck_assert_int_eq(counting->open, 0);
    return good;
}

START_TEST(allocation_failures)
{
    Counting counting = {0};
    int told = 0;
    ck_assert(ask(&counting));
    int n = counting.allocations;
    ck_assert_int_gt(n, 10);
    for (int i = 1; i <= n; i++) {
        counting = (Counting){.fail_at = i};
        told += !ask(&counting);
    }
    printf("doctor: %d allocations failed once each, %d were told\n", n, told);
    ck_assert_int_gt(told, 10);
}
END_TEST

UNIT_TESTS(runtime_doctor)
{
    TCase *tests = tcase_create("doctor");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, finds);
    tcase_add_test(tests, allocation_failures);
    return tests;
}
