/* SPDX-License-Identifier: Apache-2.0 */
/* The compile cache returns exactly what was stored or nothing, whatever happens to its files, to
 * concurrent writers and to memory. */
#include "tests/few_allocations.h"
#include "tests/unit.h"

#include "runtime/cache/code_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

enum { DAMAGED = 1000, KILLED = 1000, PROCESSES = 64, OPERATIONS = 50 };

static char folder[64];
static Arena arena;

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tessera-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    arena_init(&arena, allocator_default());
}

static void drop_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    arena_free(&arena);
}

static Cache *opened(int64_t limit)
{
    Cache *cache = cache_open(allocator_default(), &(CacheOptions){folder, limit});
    ck_assert_ptr_nonnull(cache);
    return cache;
}

/* Key n, and the value that belongs to it: some thousand bytes that say which they are. */
static CacheKey key_of(unsigned n, char room[32])
{
    snprintf(room, 32, "key %u", n);
    return (CacheKey){room, strlen(room)};
}

static Text value_of(unsigned n)
{
    Text text = text_new(&arena);
    for (unsigned i = 0; i < 300 + n % 700; i++) {
        text_printf(&text, "%u.%u ", n, i);
    }
    return text;
}

static bool same_text(const Text *a, const Text *b)
{
    return a->n == b->n && memcmp(a->data, b->data, a->n) == 0;
}

static void put(Cache *cache, unsigned n)
{
    char room[32];
    Text value = value_of(n);
    cache_put(cache, key_of(n, room), "a value", &value);
}

/* -1: it is not there; 0: something else is; 1: it is. */
static int find(Cache *cache, unsigned n)
{
    char room[32];
    Text got, want = value_of(n);
    return !cache_take(cache, &arena, key_of(n, room), &got) ? -1 : same_text(&got, &want);
}

static int count_files(const char *prefix)
{
    int n = 0;
    DIR *all = opendir(folder);
    for (struct dirent *item; all && (item = readdir(all));) {
        n += strncmp(item->d_name, prefix, strlen(prefix)) == 0 && item->d_name[0] != '.' &&
             strcmp(item->d_name, "lock") != 0;
    }
    closedir(all);
    return n;
}

/* The path of the only entry. */
static void only_entry(char path[128])
{
    DIR *all = opendir(folder);
    for (struct dirent *item; (item = readdir(all));) {
        if (strlen(item->d_name) == 32) {
            snprintf(path, 128, "%s/%s", folder, item->d_name);
        }
    }
    closedir(all);
}

START_TEST(keeps_and_finds)
{
    CacheEntry *entries;
    CacheState state;
    Cache *cache = opened(0);
    ck_assert_int_eq(find(cache, 1), -1);
    put(cache, 1);
    put(cache, 2);
    put(cache, 2);
    ck_assert_int_eq(find(cache, 1), 1);
    ck_assert_int_eq(find(cache, 2), 1);
    ck_assert_int_eq(find(cache, 3), -1);
    cache_state(cache, &state);
    ck_assert_uint_eq(state.entries, 2);
    ck_assert_uint_eq(state.hits, 2);
    ck_assert_uint_eq(state.misses, 2);
    ck_assert_uint_eq(state.kept, 3);
    ck_assert_ptr_null(state.why);
    ck_assert_uint_eq(cache_list(cache, &arena, &entries), 2);
    ck_assert_str_eq(entries[0].about, "a value");
    cache_close(cache);
    cache = opened(0); /* another process, later */
    ck_assert_int_eq(find(cache, 1), 1);
    ck_assert_uint_eq(cache_prune(cache, 0), 2);
    ck_assert_int_eq(find(cache, 1), -1);
    ck_assert_int_eq(count_files(""), 0);
    cache_close(cache);
}
END_TEST

START_TEST(bytes_are_read)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {{"0", 0},  {"17", 17}, {"3k", 3072}, {"500M", 524288000}, {"2g", 2147483648},
                {"", -1},  {"M", -1},  {"-1", -1},   {"1MB", -1},         {"99999999999T", -1},
                {"1x", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t bytes = -1;
        ck_assert_msg(cache_bytes(rows[i].text, &bytes) == (rows[i].bytes >= 0), "%s",
                      rows[i].text);
        ck_assert_msg(bytes == rows[i].bytes, "%s", rows[i].text);
    }
}
END_TEST

/* ---- damage ---- */

static void damage(const char *path, unsigned seed)
{
    struct stat info;
    srand(seed);
    ck_assert_int_eq(stat(path, &info), 0);
    int file = open(path, O_RDWR);
    off_t at = rand() % info.st_size;
    char byte;
    if (seed % 3 == 0) {
        ck_assert_int_eq(ftruncate(file, at), 0);
    } else if (seed % 3 == 1) {
        ck_assert_int_eq(pread(file, &byte, 1, at), 1);
        byte = (char)(byte ^ 1 << rand() % 8);
        ck_assert_int_eq(pwrite(file, &byte, 1, at), 1);
    } else {
        ck_assert_int_eq(pwrite(file, "more", 4, info.st_size), 4);
    }
    close(file);
}

START_TEST(damaged_entries_are_none)
{
    char path[128];
    CacheState state;
    Cache *cache = opened(0);
    for (unsigned i = 0; i < DAMAGED; i++) {
        put(cache, 7);
        only_entry(path);
        damage(path, i);
        ck_assert_msg(find(cache, 7) == -1, "damage %u was not seen", i);
        ck_assert_int_eq(count_files(""), 0);
    }
    cache_state(cache, &state);
    ck_assert_uint_eq(state.refused, DAMAGED);
    cache_close(cache);
}
END_TEST

START_TEST(checking_removes_the_damaged)
{
    char path[128];
    size_t damaged;
    CacheEntry *entries;
    Cache *cache = opened(0);
    put(cache, 1);
    only_entry(path);
    put(cache, 2);
    put(cache, 3);
    damage(path, 1);
    ck_assert_uint_eq(cache_list(cache, &arena, &entries), 3);
    ck_assert_int_eq(!entries[0].about + !entries[1].about + !entries[2].about, 1);
    ck_assert_uint_eq(cache_verify(cache, &damaged), 3);
    ck_assert_uint_eq(damaged, 1);
    ck_assert_uint_eq(cache_verify(cache, &damaged), 2);
    ck_assert_uint_eq(damaged, 0);
    cache_close(cache);
}
END_TEST

/* Under the name of another key: as if two keys had one digest. */
START_TEST(the_key_is_compared)
{
    char one[128], other[128];
    Cache *cache = opened(0);
    put(cache, 1);
    only_entry(one);
    ck_assert_int_eq(rename(one, "/tmp/tessera-cache-entry"), 0);
    put(cache, 2);
    only_entry(other);
    ck_assert_int_eq(rename("/tmp/tessera-cache-entry", other), 0);
    ck_assert_int_eq(find(cache, 2), -1);
    cache_close(cache);
}
END_TEST

/* ---- a folder that is none, or not ours ---- */

static void expect_unused(Cache *cache, const char *why)
{
    CacheState state;
    put(cache, 1);
    ck_assert_int_eq(find(cache, 1), -1);
    cache_state(cache, &state);
    ck_assert_ptr_nonnull(state.why);
    ck_assert_msg(strstr(state.why, why) != NULL, "%s", state.why);
    cache_close(cache);
}

START_TEST(there_may_be_no_folder)
{
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("TESSERA_CACHE");
    expect_unused(cache_open(allocator_default(), &(CacheOptions){0}), "no home folder");
    expect_unused(cache_open(allocator_default(), &(CacheOptions){"off", 0}), "switched off");
    expect_unused(cache_open(allocator_default(), &(CacheOptions){"/dev/null/cache", 0}),
                  "cannot be made");
    setenv("TESSERA_CACHE", "off", 1);
    expect_unused(cache_open(allocator_default(), &(CacheOptions){0}), "switched off");
}
END_TEST

START_TEST(the_environment_says_where)
{
    CacheState state;
    char want[96];
    setenv("XDG_CACHE_HOME", folder, 1);
    unsetenv("TESSERA_CACHE");
    setenv("TESSERA_CACHE_SIZE", "3M", 1);
    Cache *cache = cache_open(allocator_default(), &(CacheOptions){0});
    put(cache, 1);
    ck_assert_int_eq(find(cache, 1), 1);
    cache_state(cache, &state);
    snprintf(want, sizeof want, "%s/tessera", folder);
    ck_assert_str_eq(state.folder, want);
    ck_assert_int_eq(state.limit, 3 << 20);
    cache_close(cache);
}
END_TEST

START_TEST(others_folders_are_not_used)
{
    ck_assert_int_eq(chmod(folder, 0777), 0);
    expect_unused(opened(0), "others own its folder");
    ck_assert_int_eq(chmod(folder, 0700), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(folder, 12345, 12345), 0);
        expect_unused(opened(0), "others own its folder");
        ck_assert_int_eq(chown(folder, 0, 0), 0);
    }
}
END_TEST

START_TEST(others_entries_are_not_used)
{
    char path[128];
    Cache *cache = opened(0);
    put(cache, 1);
    only_entry(path);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(find(cache, 1), -1);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(find(cache, 1), 1);
    ck_assert_int_eq(rename(path, "/tmp/tessera-cache-target"), 0);
    ck_assert_int_eq(symlink("/tmp/tessera-cache-target", path), 0);
    ck_assert_int_eq(find(cache, 1), -1);
    unlink("/tmp/tessera-cache-target");
    cache_close(cache);
}
END_TEST

/* Whatever stands where an entry would be: nobody waits for it, and it goes with the others. */
START_TEST(only_files_are_entries)
{
    char path[128];
    size_t damaged;
    Cache *cache = opened(0);
    put(cache, 1);
    only_entry(path);
    for (int fifo = 0; fifo < 2; fifo++) {
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(fifo ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
        ck_assert_int_eq(find(cache, 1), -1);
        ck_assert_uint_eq(cache_verify(cache, &damaged), 1);
        ck_assert_uint_eq(damaged, 1);
        put(cache, 1);
        ck_assert_int_eq(find(cache, 1), 1);
    }
    cache_close(cache);
}
END_TEST

/* A limit on files stands for a disk that is full. */
START_TEST(a_full_disk_is_no_error)
{
    Cache *cache = opened(0);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100}), 0);
    put(cache, 1);
    ck_assert_int_eq(find(cache, 1), -1);
    ck_assert_int_eq(count_files(""), 0);
    cache_close(cache);
}
END_TEST

/* ---- room ---- */

START_TEST(what_was_used_last_stays)
{
    char path[128];
    Cache *cache = opened(0);
    for (unsigned i = 0; i < 8; i++) {
        put(cache, i);
    }
    CacheEntry *entries;
    size_t n = cache_list(cache, &arena, &entries);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) { /* one day apart */
        time_t day = time(NULL) - (time_t)(i + 1) * 86400;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        ck_assert_int_eq(utime(path, &(struct utimbuf){day, day}), 0);
        bytes += i < 3 ? entries[i].bytes : 0;
    }
    ck_assert_uint_eq(cache_prune(cache, (int64_t)bytes), 5);
    CacheEntry *left;
    for (int again = 0; again < 2; again++) { /* listing is no use */
        ck_assert_uint_eq(cache_list(cache, &arena, &left), 3);
        for (int i = 0; i < 3; i++) {
            ck_assert_str_eq(left[i].name, entries[i].name);
            ck_assert_int_lt(left[i].used, time(NULL) - 80000);
        }
    }
    for (unsigned i = 0, found = 0; found < 1; i++) { /* finding is */
        found = find(cache, i) == 1;
    }
    ck_assert_uint_eq(cache_list(cache, &arena, &left), 3);
    ck_assert_int_gt(left[0].used, time(NULL) - 80000);
    cache_close(cache);
}
END_TEST

START_TEST(the_limit_is_kept)
{
    enum { LIMIT = 100000 };
    CacheState state;
    Cache *cache = opened(LIMIT);
    for (unsigned i = 0; i < 400; i++) {
        put(cache, i);
    }
    cache_state(cache, &state);
    ck_assert_uint_le(state.bytes, 2 * LIMIT);
    ck_assert_uint_gt(state.entries, 5);
    cache_close(cache);
}
END_TEST

/* ---- many at once ---- */

static void write_for_ever(void)
{
    Cache *cache = opened(0);
    for (unsigned i = 0;; i++) {
        put(cache, i % 4);
    }
}

START_TEST(killed_writers_leave_nothing_torn)
{
    char path[128];
    Cache *cache = opened(0);
    for (unsigned i = 0; i < KILLED; i++) {
        pid_t writer = fork();
        if (writer == 0) {
            write_for_ever();
        }
        usleep(200 + i * 7 % 900);
        kill(writer, SIGKILL);
        ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
        for (unsigned k = 0; k < 4; k++) {
            ck_assert_int_ne(find(cache, k), 0);
        }
    }
    CacheState state;
    cache_state(cache, &state);
    ck_assert_uint_eq(state.refused, 0);
    ck_assert_uint_eq(state.entries, 4);
    DIR *all = opendir(folder); /* what is left of them goes when it is old */
    for (struct dirent *item; (item = readdir(all));) {
        snprintf(path, sizeof path, "%s/%.60s", folder, item->d_name);
        if (strncmp(item->d_name, "tmp-", 4) == 0) {
            ck_assert_int_eq(utime(path, &(struct utimbuf){1, 1}), 0);
        }
    }
    closedir(all);
    cache_prune(cache, 1 << 30);
    ck_assert_int_eq(count_files("tmp-"), 0);
    cache_close(cache);
}
END_TEST

static int work_on(unsigned seed)
{
    Cache *cache = opened(200000);
    int wrong = 0;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        unsigned n = (seed * 31 + i * 17) % 40;
        wrong += find(cache, n) == 0;
        put(cache, n);
    }
    cache_close(cache);
    return wrong;
}

/* Compiles, as it were, what is not there yet. */
static int make_once(void)
{
    char room[32], path[128];
    Cache *cache = opened(0);
    CacheKey key = key_of(5, room);
    if (find(cache, 5) < 0) {
        cache_begin(cache, key, 30);
        if (find(cache, 5) < 0) {
            snprintf(path, sizeof path, "%s/made", folder);
            int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
            if (write(file, "x", 1) != 1) {
                return 1;
            }
            usleep(20000);
            put(cache, 5);
        }
        cache_end(cache, key);
    }
    int found = find(cache, 5);
    cache_close(cache);
    return found != 1;
}

static void in_processes(bool once)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            _exit(once ? make_once() : work_on(i));
        }
    }
    for (int status, n = 0; n < PROCESSES; n++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}

START_TEST(processes_share_a_folder)
{
    in_processes(false);
    Cache *cache = opened(0);
    size_t damaged;
    ck_assert_uint_gt(cache_verify(cache, &damaged), 0);
    ck_assert_uint_eq(damaged, 0);
    ck_assert_int_eq(count_files("tmp-"), 0);
    cache_close(cache);
}
END_TEST

START_TEST(one_process_makes_an_entry)
{
    char path[128];
    struct stat info;
    in_processes(true);
    snprintf(path, sizeof path, "%s/made", folder);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(info.st_size, 1);
}
END_TEST

/* Who held the lock is gone; who never gives it back is waited for, but not for ever. */
START_TEST(makers_may_die)
{
    char room[32];
    CacheKey key = key_of(9, room);
    pid_t child = fork();
    if (child == 0) {
        cache_begin(opened(0), key, 5);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    Cache *one = opened(0), *other = opened(0);
    cache_begin(one, key, 5);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    cache_begin(other, key, 0.05);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_int_le(end.tv_sec - begin.tv_sec, 30);
    cache_close(one);
    cache_close(other);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_may_end)
{
    Allocator few = {few_allocate, few_release, NULL};
    Cache *cache = opened(0);
    put(cache, 1);
    cache_close(cache);
    for (int n = 0; n < 12; n++) {
        CacheState state;
        size_t damaged;
        allocations_left = n;
        cache = cache_open(few, &(CacheOptions){folder, 0});
        if (!cache) {
            continue;
        }
        put(cache, 2);
        ck_assert_int_ne(find(cache, 1), 0);
        cache_verify(cache, &damaged);
        cache_state(cache, &state);
        cache_close(cache);
    }
}
END_TEST

UNIT_TESTS(cache_store)
{
    TCase *tests = tcase_create("store");
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, keeps_and_finds);
    tcase_add_test(tests, bytes_are_read);
    tcase_add_test(tests, damaged_entries_are_none);
    tcase_add_test(tests, checking_removes_the_damaged);
    tcase_add_test(tests, the_key_is_compared);
    tcase_add_test(tests, there_may_be_no_folder);
    tcase_add_test(tests, the_environment_says_where);
    tcase_add_test(tests, others_folders_are_not_used);
    tcase_add_test(tests, others_entries_are_not_used);
    tcase_add_test(tests, only_files_are_entries);
    tcase_add_test(tests, a_full_disk_is_no_error);
    tcase_add_test(tests, what_was_used_last_stays);
    tcase_add_test(tests, the_limit_is_kept);
    tcase_add_test(tests, killed_writers_leave_nothing_torn);
    tcase_add_test(tests, processes_share_a_folder);
    tcase_add_test(tests, one_process_makes_an_entry);
    tcase_add_test(tests, makers_may_die);
    tcase_add_test(tests, memory_may_end);
    return tests;
}
