/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the tuning store share: a separate folder per test, and rows whose every field
 * identifies the row. */
#ifndef TESSERA_TESTS_TUNE_ROWS_H
#define TESSERA_TESTS_TUNE_ROWS_H

#include "tests/unit.h"

#include "tune/store/tune_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 120 };

static char folder[64], path[96];
static Arena arena;

static inline void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tessera-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tune.db", folder);
    arena_init(&arena, allocator_default());
}

static inline void drop_folder(void)
{
    char command[192];
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", folder, folder);
    ck_assert_int_eq(system(command), 0);
    arena_free(&arena);
}

static inline TuneStore *opened(TuneAccess access)
{
    TuneStore *store;
    const char *why = "";
    ck_assert_msg(tune_store_open(&arena, path, access, &store, &why), "%s", why);
    return store;
}

static inline void expect_none(const char *where, TuneAccess access, const char *want)
{
    TuneStore *store;
    const char *why = "";
    ck_assert(!tune_store_open(&arena, where, access, &store, &why));
    ck_assert_msg(strstr(why, want) != NULL, "%s", why);
    ck_assert_ptr_null(store);
}

/* Row n says in all of its fields which it is. */
static inline TuneRecord row_of(unsigned n)
{
    return (TuneRecord){
        .kernel = n % 3 ? "linear" : "softmax",
        .digest = arena_printf(&arena, "%032x", n % 5),
        .types = "T=bf16",
        .bucket = "M=64..127%64",
        .sizes = arena_printf(&arena, "M=%u", 64 + n % 2),
        .device = "NVIDIA H200",
        .arch = "sm_90a",
        .candidate = arena_printf(&arena, "tile M %u\npipeline %u", n, n % 7),
        .version = "0.1.0",
        .status = n % 10 ? TUNE_OK : (TuneStatus)(n / 10 % TUNE_STATUSES),
        .derived = n == 1,
        .count = 10 + n,
        .median = n % 10 ? 1e-6 * n : (double)NAN,
        .low = n % 10 ? 0.9e-6 * n : (double)NAN,
        .high = n % 10 ? 1.1e-6 * n : (double)NAN,
        .predicted = n, /* a whole number */
        .roof = 1e-7,
        .when = 1700000000 + n,
        .message = n % 10 ? "" : "it \"said\" so\n…",
    };
}

static inline bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static inline bool same_record(const TuneRecord *a, const TuneRecord *b)
{
    return tune_record_same(a, b) && a->status == b->status && a->derived == b->derived &&
           a->count == b->count && same_number(a->median, b->median) &&
           same_number(a->low, b->low) && same_number(a->high, b->high) &&
           a->predicted == b->predicted && a->roof == b->roof && a->when == b->when &&
           text_equal(a->message, b->message);
}

static inline void put_rows(TuneStore *store, unsigned first, unsigned n)
{
    TuneRecord *rows = ARENA_ARRAY(&arena, TuneRecord, n);
    const char *why = "";
    for (unsigned i = 0; i < n; i++) {
        rows[i] = row_of(first + i);
    }
    ck_assert_msg(tune_store_insert(store, rows, n, &why), "%s", why);
}

static inline TuneRecords all_of(TuneStore *store)
{
    TuneRecords records;
    const char *why = "";
    ck_assert_msg(tune_store_query(store, NULL, &arena, &records, &why), "%s", why);
    return records;
}

/* How many there are; each is what was written. */
static inline size_t count_right(TuneStore *store)
{
    TuneRecords records = all_of(store);
    for (size_t i = 0; i < records.n; i++) {
        unsigned n;
        ck_assert_int_eq(sscanf(records.items[i].candidate, "tile M %u", &n), 1);
        TuneRecord want = row_of(n);
        ck_assert_msg(same_record(&records.items[i], &want), "row %u is another", n);
    }
    return records.n;
}

#endif
