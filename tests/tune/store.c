/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning store keeps what it is given, and never gives anything else: whatever happens to its
 * file, to its writers, to the disk. */
#include "tests/unit.h"

#include "tune/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DAMAGED = 1000, KILLED = 150, PROCESSES = 64, OPERATIONS = 50, ROWS = 120 };

static char folder[64], path[96];
static Arena arena;

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tessera-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tune.db", folder);
    arena_init(&arena, allocator_default());
}

static void drop_folder(void)
{
    char command[192];
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", folder, folder);
    ck_assert_int_eq(system(command), 0);
    arena_free(&arena);
}

static TuneStore *opened(TuneAccess access)
{
    TuneStore *store;
    const char *why = "";
    ck_assert_msg(tune_store_open(&arena, path, access, &store, &why), "%s", why);
    return store;
}

static void expect_none(const char *where, TuneAccess access, const char *want)
{
    TuneStore *store;
    const char *why = "";
    ck_assert(!tune_store_open(&arena, where, access, &store, &why));
    ck_assert_msg(strstr(why, want) != NULL, "%s", why);
    ck_assert_ptr_null(store);
}

/* Row n says in all of its fields which it is. */
static TuneRecord row_of(unsigned n)
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

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool same_record(const TuneRecord *a, const TuneRecord *b)
{
    return tune_record_same(a, b) && a->status == b->status && a->derived == b->derived &&
           a->count == b->count && same_number(a->median, b->median) &&
           same_number(a->low, b->low) && same_number(a->high, b->high) &&
           a->predicted == b->predicted && a->roof == b->roof && a->when == b->when &&
           text_same(a->message, b->message);
}

static void put_rows(TuneStore *store, unsigned first, unsigned n)
{
    TuneRecord *rows = ARENA_ARRAY(&arena, TuneRecord, n);
    const char *why = "";
    for (unsigned i = 0; i < n; i++) {
        rows[i] = row_of(first + i);
    }
    ck_assert_msg(tune_store_insert(store, rows, n, &why), "%s", why);
}

static TuneRecords all_of(TuneStore *store)
{
    TuneRecords records;
    const char *why = "";
    ck_assert_msg(tune_store_query(store, NULL, &arena, &records, &why), "%s", why);
    return records;
}

/* How many there are; each is what was written. */
static size_t count_right(TuneStore *store)
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
    ck_assert_uint_eq(strlen(all_of(store).items[0].message), MOST_MESSAGE);
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

/* ---- damage ---- */

static char *file_bytes(const char *name, size_t *n)
{
    struct stat info;
    int file = open(name, O_RDONLY);
    ck_assert_int_eq(fstat(file, &info), 0);
    char *bytes = malloc((size_t)info.st_size);
    ck_assert_int_eq(read(file, bytes, (size_t)info.st_size), info.st_size);
    close(file);
    *n = (size_t)info.st_size;
    return bytes;
}

static void write_bytes(const char *name, const char *bytes, size_t n)
{
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(file, bytes, n), (ssize_t)n);
    close(file);
}

static void empty_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -f %s/*", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Of each damage: nothing is there that was not written, and nothing is lost but what it hit. */
static size_t survive(unsigned seed, TuneAccess access)
{
    TuneStore *store;
    const char *why = "";
    size_t before = arena.total, n = 0;
    if (tune_store_open(&arena, path, access, &store, &why)) {
        n = count_right(store);
        tune_store_close(store);
    } else {
        ck_assert_msg(strstr(why, "schema") || strstr(why, "no tuning store"), "%u: %s", seed, why);
        n = ROWS;
    }
    (void)before;
    return n;
}

START_TEST(damage_costs_what_it_hits)
{
    size_t n, worst = ROWS, sum = 0;
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, ROWS);
    tune_store_close(store);
    char *whole = file_bytes(path, &n), *bytes = malloc(n);
    for (unsigned i = 0; i < DAMAGED; i++) {
        Arena outer = arena;
        arena_init(&arena, allocator_default());
        srand(i);
        memcpy(bytes, whole, n);
        size_t at = (size_t)rand() % n;
        bytes[at] = (char)(bytes[at] ^ 1 << rand() % 8);
        write_bytes(path, bytes, n);
        for (int access = TUNE_READ; access <= TUNE_WRITE; access++) {
            size_t left = survive(i, (TuneAccess)access);
            worst = left < worst ? left : worst;
            sum += ROWS - left;
        }
        empty_folder();
        arena_free(&arena);
        arena = outer;
    }
    ck_assert_uint_ge(worst, ROWS - 1);
    ck_assert_uint_gt(sum, 100);
    free(whole);
    free(bytes);
}
END_TEST

/* A page of noise, a file cut short, one that is overwritten from the start. */
START_TEST(large_damage_leaves_the_rest)
{
    size_t n;
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, ROWS);
    tune_store_close(store);
    char *whole = file_bytes(path, &n), *bytes = malloc(n);
    for (unsigned i = 0; i < 60; i++) {
        srand(i);
        memcpy(bytes, whole, n);
        size_t from = (size_t)rand() % n, cut = i % 3 == 1 ? from : n;
        from = i % 3 == 2 ? 0 : from;
        for (size_t at = from; i % 3 != 1 && at < n && at < from + 3000; at++) {
            bytes[at] = (char)rand();
        }
        write_bytes(path, bytes, cut);
        size_t left = survive(i, TUNE_WRITE);
        ck_assert(i % 3 == 1 || left >= ROWS / 2);
        empty_folder();
    }
    free(whole);
    free(bytes);
}
END_TEST

START_TEST(a_damaged_file_is_kept_beside)
{
    size_t n, again;
    char aside[128];
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, ROWS);
    tune_store_close(store);
    char *bytes = file_bytes(path, &n);
    memset(bytes, 0x5a, 64); /* SQLite's head */
    write_bytes(path, bytes, n);
    store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), ROWS);
    ck_assert_ptr_nonnull(strstr(tune_store_warning(store), "damaged"));
    tune_store_close(store);
    store = opened(TUNE_WRITE);
    const char *warning = tune_store_warning(store);
    ck_assert_msg(strstr(warning, "tune.db.damaged-1; 120 rows") != NULL, "%s", warning);
    ck_assert_ptr_null(tune_store_warning(store));
    ck_assert_uint_eq(count_right(store), ROWS);
    put_rows(store, ROWS, 1);
    tune_store_close(store);
    snprintf(aside, sizeof aside, "%s.damaged-1", path);
    char *kept = file_bytes(aside, &again);
    ck_assert_uint_eq(again, n);
    ck_assert_int_eq(memcmp(kept, bytes, n), 0);
    free(kept);
    free(bytes);
}
END_TEST

/* The file is mended under the feet of a writer that has it open. */
START_TEST(a_mended_file_is_found_again)
{
    size_t n;
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 4);
    char *bytes = file_bytes(path, &n);
    ck_assert_int_eq(unlink(path), 0);
    write_bytes(path, bytes, n);
    put_rows(store, 4, 4);
    tune_store_close(store);
    store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), 8);
    tune_store_close(store);
    free(bytes);
}
END_TEST

/* ---- files that are none, or not ours ---- */

START_TEST(foreign_files_stay_as_they_are)
{
    static const char text[] = "this is a letter, and no database at all; it shall stay\n";
    char command[256];
    size_t n;
    write_bytes(path, text, sizeof text);
    expect_none(path, TUNE_WRITE, "no tuning store");
    expect_none(path, TUNE_READ, "no tuning store");
    char *bytes = file_bytes(path, &n);
    ck_assert_uint_eq(n, sizeof text);
    ck_assert_int_eq(memcmp(bytes, text, n), 0);
    free(bytes);
    TuneStore *store;
    const char *why;
    unlink(path);
    store = opened(TUNE_WRITE);
    put_rows(store, 0, 3);
    tune_store_close(store);
    bytes = file_bytes(path, &n);
    bytes[63] = 9; /* user_version: of a later program */
    write_bytes(path, bytes, n);
    expect_none(path, TUNE_WRITE, "of schema 9");
    free(bytes);
    snprintf(command, sizeof command, "%s/none/there.db", folder);
    expect_none(command, TUNE_READ, "no such file");
    ck_assert(!tune_store_open(&arena, "/dev/null/x.db", TUNE_WRITE, &store, &why));
    expect_none(folder, TUNE_WRITE, "no file");
}
END_TEST

START_TEST(the_environment_says_where)
{
    char want[128];
    unsetenv("TESSERA_TUNE_STORE");
    setenv("XDG_DATA_HOME", folder, 1);
    snprintf(want, sizeof want, "%s/tessera/tune.db", folder);
    ck_assert_str_eq(tune_store_place(&arena), want);
    TuneStore *store;
    const char *why;
    ck_assert(tune_store_open(&arena, NULL, TUNE_WRITE, &store, &why));
    struct stat info;
    ck_assert_int_eq(stat(want, &info), 0);
    ck_assert_uint_eq(info.st_mode & 0777, 0600);
    tune_store_close(store);
    setenv("TESSERA_TUNE_STORE", path, 1);
    ck_assert_str_eq(tune_store_place(&arena), path);
    unsetenv("TESSERA_TUNE_STORE");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    ck_assert_ptr_null(tune_store_place(&arena));
    expect_none(NULL, TUNE_READ, "no place");
}
END_TEST

START_TEST(others_stores_are_only_read)
{
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 3);
    tune_store_close(store);
    ck_assert_int_eq(chmod(path, 0666), 0);
    expect_none(path, TUNE_WRITE, "others own it");
    store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), 3);
    tune_store_close(store);
    ck_assert_int_eq(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 12345, 12345), 0);
        expect_none(path, TUNE_WRITE, "others own it");
        setenv("TESSERA_TUNE_STORE", path, 1); /* nobody named it on purpose */
        expect_none(NULL, TUNE_READ, "others own it");
        unsetenv("TESSERA_TUNE_STORE");
    }
}
END_TEST

/* As another user, whom modes bind. */
START_TEST(a_folder_may_be_read_only)
{
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 3);
    tune_store_close(store);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(12345) != 0) {
            _exit(3);
        }
        const char *why = "";
        TuneRecords records;
        bool read = tune_store_open(&arena, path, TUNE_READ, &store, &why) &&
                    tune_store_query(store, NULL, &arena, &records, &why) && records.n == 3;
        char other[128];
        snprintf(other, sizeof other, "%s/new.db", folder);
        bool made = tune_store_open(&arena, other, TUNE_WRITE, &store, &why);
        _exit(!read ? 1 : made || !strstr(why, "cannot be made") ? 2 : 0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* A limit on files stands for a disk that is full. */
START_TEST(a_full_disk_loses_nothing)
{
    TuneStore *store = opened(TUNE_WRITE);
    TuneRecord row = row_of(50);
    const char *why = "";
    put_rows(store, 0, 40);
    signal(SIGXFSZ, SIG_IGN);
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    struct rlimit limit = {(rlim_t)info.st_size, RLIM_INFINITY}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    unsigned stored = 40;
    while (stored < 400) {
        row = row_of(stored);
        if (!tune_store_insert(store, &row, 1, &why)) {
            break;
        }
        stored++;
    }
    ck_assert_uint_lt(stored, 400);
    ck_assert_msg(strstr(why, "disk") != NULL, "%s", why);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_uint_eq(count_right(store), stored);
    put_rows(store, stored, 5);
    ck_assert_uint_eq(count_right(store), stored + 5);
    tune_store_close(store);
}
END_TEST

/* ---- many at once ---- */

START_TEST(killed_writers_leave_nothing_torn)
{
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 4);
    tune_store_close(store);
    for (unsigned i = 0; i < KILLED; i++) {
        pid_t writer = fork();
        if (writer == 0) {
            store = opened(TUNE_WRITE);
            for (unsigned k = 0;; k++) {
                put_rows(store, k * 3 % 60, 3);
            }
        }
        usleep(2000 + i * 37 % 9000);
        kill(writer, SIGKILL);
        ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
        store = opened(TUNE_WRITE);
        size_t n = count_right(store);
        ck_assert_uint_ge(n, 4);
        ck_assert(n == 4 || (n - 4) % 3 <= 2);
        ck_assert_ptr_null(tune_store_warning(store));
        tune_store_close(store);
    }
}
END_TEST

static void write_some(unsigned who)
{
    TuneStore *store;
    const char *why = "";
    TuneRecords records;
    if (!tune_store_open(&arena, path, TUNE_WRITE, &store, &why)) {
        fprintf(stderr, "%s\n", why);
        _exit(1);
    }
    for (unsigned i = 0; i < OPERATIONS; i++) {
        TuneRecord row = row_of(who * OPERATIONS + i);
        if (!tune_store_insert(store, &row, 1, &why)) {
            fprintf(stderr, "%s\n", why);
            _exit(2);
        }
    }
    bool good = tune_store_query(store, NULL, &arena, &records, &why);
    tune_store_close(store);
    _exit(good && records.n >= OPERATIONS ? 0 : 3);
}

START_TEST(many_processes_share_one)
{
    pid_t children[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            write_some(i);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    TuneStore *store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), PROCESSES * OPERATIONS);
    ck_assert_ptr_null(tune_store_warning(store));
    tune_store_close(store);
}
END_TEST

/* All find the same file damaged at once: it is mended once. */
START_TEST(many_processes_mend_one)
{
    size_t n;
    pid_t children[16];
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 10000, 40);
    tune_store_close(store);
    char *bytes = file_bytes(path, &n);
    memset(bytes, 0, 60);
    write_bytes(path, bytes, n);
    free(bytes);
    for (unsigned i = 0; i < 16; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            write_some(i);
        }
    }
    for (unsigned i = 0; i < 16; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), 40 + 16 * OPERATIONS);
    tune_store_close(store);
    char second_aside[128];
    snprintf(second_aside, sizeof second_aside, "%s.damaged-2", path);
    ck_assert_int_ne(access(second_aside, F_OK), 0);
}
END_TEST

UNIT_TESTS(tune_store)
{
    TCase *tests = tcase_create("tuning store");
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, keeps_and_finds);
    tcase_add_test(tests, what_replaces_is_what_counts);
    tcase_add_test(tests, joining_is_the_same_in_any_order);
    tcase_add_test(tests, stores_are_merged);
    tcase_add_test(tests, damage_costs_what_it_hits);
    tcase_add_test(tests, large_damage_leaves_the_rest);
    tcase_add_test(tests, a_damaged_file_is_kept_beside);
    tcase_add_test(tests, a_mended_file_is_found_again);
    tcase_add_test(tests, foreign_files_stay_as_they_are);
    tcase_add_test(tests, the_environment_says_where);
    tcase_add_test(tests, others_stores_are_only_read);
    tcase_add_test(tests, a_folder_may_be_read_only);
    tcase_add_test(tests, a_full_disk_loses_nothing);
    tcase_add_test(tests, killed_writers_leave_nothing_torn);
    tcase_add_test(tests, many_processes_share_one);
    tcase_add_test(tests, many_processes_mend_one);
    return tests;
}
