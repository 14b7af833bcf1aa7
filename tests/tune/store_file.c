/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning store never returns a row that was not written, whatever happens to its file, to its
 * writers and to the disk. */
#include "tests/tune/rows.h"
#include "tune/store/tune_store_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DAMAGED = 1000, KILLED = 150, PROCESSES = 64, OPERATIONS = 50 };

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

START_TEST(what_is_no_file_is_no_store)
{
    expect_none(folder, TUNE_READ, "it is no file");
    expect_none(folder, TUNE_WRITE, "it is no file");
    expect_none("/dev/null", TUNE_READ, "it is no file");
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

/* In a process of its own, which must not write to where Check counts: it is killed. */
static void write_without_end(void)
{
    TuneStore *store;
    const char *why = "";
    bool good = tune_store_open(&arena, path, TUNE_WRITE, &store, &why);
    for (unsigned k = 0; good; k++) {
        TuneRecord rows[3];
        for (unsigned i = 0; i < 3; i++) {
            rows[i] = row_of(k * 3 % 60 + i);
        }
        good = tune_store_insert(store, rows, 3, &why);
    }
    fprintf(stderr, "%s\n", why);
    _exit(1);
}

START_TEST(killed_writers_leave_nothing_torn)
{
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 4);
    tune_store_close(store);
    for (unsigned i = 0; i < KILLED; i++) {
        pid_t writer = fork();
        if (writer == 0) {
            write_without_end();
        }
        int status;
        usleep(2000 + i * 37 % 9000);
        kill(writer, SIGKILL);
        ck_assert_int_eq(waitpid(writer, &status, 0), writer);
        ck_assert_msg(WIFSIGNALED(status), "the writer ended by itself");
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

/* A file that others have open stays where it is: SQLite knows journals by a name, and would
 * roll the new file's back into the old one. */
START_TEST(who_mends_waits_for_who_reads)
{
    TuneStore *store = opened(TUNE_WRITE);
    put_rows(store, 0, 3);
    tune_store_close(store);
    size_t n;
    char *bytes = file_bytes(path, &n);
    memset(bytes, 0, 60);
    write_bytes(path, bytes, n);
    free(bytes);
    ino_t inode = store_file_look(path).inode;
    int lock = store_file_lock(&arena, path, STORE_SHARED);
    ck_assert_int_ge(lock, 0);
    pid_t child = fork();
    if (child == 0) {
        close(lock);
        write_some(1);
    }
    int status;
    for (int i = 0; i < 10; i++) {
        usleep(20000);
        ck_assert_int_eq(waitpid(child, &status, WNOHANG), 0);
        ck_assert_uint_eq(store_file_look(path).inode, inode);
    }
    store_file_unlock(lock);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_ne(store_file_look(path).inode, inode);
    store = opened(TUNE_READ);
    ck_assert_uint_eq(count_right(store), 3 + OPERATIONS);
    tune_store_close(store);
}
END_TEST

UNIT_TESTS(tune_store_file)
{
    TCase *tests = tcase_create("files of tuning stores");
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, damage_costs_what_it_hits);
    tcase_add_test(tests, large_damage_leaves_the_rest);
    tcase_add_test(tests, a_damaged_file_is_kept_beside);
    tcase_add_test(tests, a_mended_file_is_found_again);
    tcase_add_test(tests, foreign_files_stay_as_they_are);
    tcase_add_test(tests, the_environment_says_where);
    tcase_add_test(tests, others_stores_are_only_read);
    tcase_add_test(tests, what_is_no_file_is_no_store);
    tcase_add_test(tests, a_folder_may_be_read_only);
    tcase_add_test(tests, a_full_disk_loses_nothing);
    tcase_add_test(tests, killed_writers_leave_nothing_torn);
    tcase_add_test(tests, many_processes_share_one);
    tcase_add_test(tests, many_processes_mend_one);
    tcase_add_test(tests, who_mends_waits_for_who_reads);
    return tests;
}
