/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning store keeps the rows that it is given, and merges stores. */
#include "tests/tune/rows.h"

START_TEST(keeps_and_finds)
{
    TuneStore *store = opened(TUNE_WRITE);
    ck_assert_uint_eq(all_of(store).n, 0);
    put_rows(store, 0, ROWS);
    put_rows(store, 5, 3); /* once more */
    ck_assert_uint_eq(count_right(store), ROWS);
    tune_store_close(store);
    store = opened(TUNE_READ); /* another process, later */
    ck_assert_uint_eq(count_right(store), ROWS);
    ck_assert_ptr_null(tune_store_warning(store));
    TuneRecords some;
    const char *why;
    ck_assert(tune_store_query(store, &(TuneFilter){.kernel = "softmax", .sizes = "M=64"}, &arena,
                               &some, &why));
    ck_assert_uint_eq(some.n, ROWS / 6);
    ck_assert_int_eq(some.items[0].status, TUNE_OK);
    TuneRecord one = row_of(1);
    ck_assert(!tune_store_insert(store, &one, 1, &why));
    ck_assert_ptr_nonnull(strstr(why, "opened to be read"));
    tune_store_close(store);
}
END_TEST

START_TEST(what_replaces_is_what_counts)
{
    TuneStore *store = opened(TUNE_WRITE);
    const char *why;
    put_rows(store, 3, 1);
    TuneRecord row = row_of(3);
    row.median = 7;
    ck_assert(tune_store_insert(store, &row, 1, &why));
    TuneRecords all = all_of(store);
    ck_assert_uint_eq(all.n, 1);
    ck_assert(same_record(&all.items[0], &row));
    char *message = arena_alloc(&arena, 4000);
    memset(message, 'x', 3999);
    row.message = message;
    ck_assert(tune_store_insert(store, &row, 1, &why));
    ck_assert_uint_eq(strlen(all_of(store).items[0].message), MAX_MESSAGE);
    row.candidate = arena_alloc(&arena, 20000);
    memset((char *)(uintptr_t)row.candidate, 'x', 19999);
    ck_assert(!tune_store_insert(store, &row, 1, &why));
    ck_assert_ptr_nonnull(strstr(why, "too long"));
    tune_store_close(store);
}
END_TEST

/* ---- merging ---- */

static TuneStore *second(void)
{
    TuneStore *store;
    const char *why;
    ck_assert(tune_store_open(&arena, arena_printf(&arena, "%s/other.db", folder), TUNE_WRITE,
                              &store, &why));
    return store;
}

static TuneRecord joined(TuneRecord a, TuneRecord b)
{
    TuneRecord one = tune_record_join(&a, &b), other = tune_record_join(&b, &a);
    TuneRecord again = tune_record_join(&one, &b);
    ck_assert(same_record(&one, &other));
    ck_assert(same_record(&one, &again));
    return one;
}

START_TEST(joining_is_the_same_in_any_order)
{
    TuneRecord few = row_of(3), many = row_of(3), late = row_of(3), fault = row_of(3);
    many.count = 500;
    late.when += 5;
    fault.status = TUNE_CRASH;
    ck_assert_int_eq(joined(few, many).count, 500);
    ck_assert_int_eq(joined(few, late).when, late.when);
    ck_assert_int_eq(joined(many, fault).status, TUNE_CRASH);
    fault.status = TUNE_TIMEOUT;
    ck_assert_int_eq(joined(few, fault).status, TUNE_OK);
    TuneRecord twin = few;
    twin.median = 5; /* of the same second, as often */
    (void)joined(few, twin);
    late.status = TUNE_REFUSED;
    ck_assert_int_eq(joined(late, fault).status, TUNE_REFUSED);
}
END_TEST

START_TEST(stores_are_merged)
{
    TuneStore *store = opened(TUNE_WRITE), *other = second();
    TuneMerged merged;
    const char *why;
    put_rows(store, 0, 20);
    put_rows(other, 10, 30);
    TuneRecord more = row_of(12);
    more.count = 900;
    ck_assert(tune_store_insert(other, &more, 1, &why));
    for (int again = 0; again < 2; again++) {
        ck_assert(tune_store_merge(store, other, &merged, &why));
        ck_assert_uint_eq(merged.added, again ? 0 : 20);
        ck_assert_uint_eq(merged.replaced, again ? 0 : 1);
        ck_assert_uint_eq(merged.kept, again ? 30 : 9);
    }
    ck_assert_uint_eq(all_of(store).n, 40);
    tune_store_close(store);
    tune_store_close(other);
}
END_TEST

UNIT_TESTS(tune_store)
{
    TCase *tests = tcase_create("tuning store");
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_add_test(tests, keeps_and_finds);
    tcase_add_test(tests, what_replaces_is_what_counts);
    tcase_add_test(tests, joining_is_the_same_in_any_order);
    tcase_add_test(tests, stores_are_merged);
    return tests;
}
