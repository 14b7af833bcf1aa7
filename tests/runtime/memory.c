/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator, its statistics, and wrong uses of memory; drivers.c tests it with
 * streams. */
#include "tests/runtime/harness.h"

#include <stdio.h>

static char logged[8192];

static void note(void *user, TesseraLogLevel level, const char *message)
{
    (void)user;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%d %s\n", (int)level, message);
}

static void open_logged(void)
{
    logged[0] = '\0';
    ck_assert_int_eq(tessera_log(context, note, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
}

static TesseraMemory now(void)
{
    TesseraMemory memory;
    ck_assert_int_eq(tessera_memory(device, &memory), TESSERA_OK);
    return memory;
}

static void *taken(size_t bytes, void *stream)
{
    void *memory;
    ck_assert_int_eq(tessera_pool_alloc(device, bytes, stream, &memory), TESSERA_OK);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    memset(memory, 0x5a, bytes);
    return memory;
}

static void given(void *memory, void *stream)
{
    ck_assert_int_eq(tessera_pool_release(device, memory, stream), TESSERA_OK);
}

START_TEST(is_used_again)
{
    open_logged();
    void *a = taken(1000, NULL), *b = taken(1000, NULL);
    ck_assert_ptr_ne(a, b);
    ck_assert(now().pooled == 2 && now().pooled_bytes == 2000 && now().allocations == 0);
    given(a, NULL);
    ck_assert(now().kept == 1 && now().kept_bytes == 1024);
    ck_assert_ptr_eq(taken(961, &x), a); /* on the CPU all streams are one */
    ck_assert(now().reused == 1 && now().pool_total == 3 && now().kept == 0);
    given(b, NULL);
    given(a, NULL);
    ck_assert(now().pooled == 0 && now().pooled_bytes == 0 && now().kept == 2);
    ck_assert_uint_eq(now().most_pool_bytes, 2048);
    void *c = taken(1025, NULL); /* another size */
    ck_assert(now().kept == 2 && now().reused == 1);
    ck_assert_int_eq(tessera_pool_keep(device, 1024), TESSERA_OK);
    ck_assert(now().kept == 1);
    given(c, NULL); /* more than is kept */
    ck_assert(now().kept == 1 && now().kept_bytes == 1024);
    ck_assert_int_eq(tessera_pool_keep(device, 0), TESSERA_OK);
    ck_assert(now().kept == 0 && now().kept_bytes == 0);
    given(taken(0, NULL), NULL);
    ck_assert(now().kept == 0 && now().total == 0);
    tessera_device_free(device);
    device = NULL;
    ck_assert_ptr_null(strstr(logged, "not released"));
}
END_TEST

/* An eighth at most is not used, whatever the size; all of one size fit each other. */
START_TEST(sizes)
{
    size_t before = 0;
    open_logged();
    for (size_t bytes = 500; bytes < 100000; bytes += 1 + bytes / 37) {
        given(taken(bytes, NULL), NULL);
        size_t room = now().kept_bytes;
        ck_assert_msg(room >= bytes && (bytes < 512 || room - bytes <= bytes / 8), "%zu: %zu",
                      bytes, room);
        ck_assert_uint_ge(room, before);
        before = room;
        void *same = taken(room, NULL);
        ck_assert_uint_eq(now().kept, 0);
        given(same, NULL);
        ck_assert_int_eq(tessera_pool_keep(device, 0), TESSERA_OK);
        ck_assert_int_eq(tessera_pool_keep(device, SIZE_MAX), TESSERA_OK);
    }
}
END_TEST

START_TEST(many_at_once)
{
    enum { MANY = 3000 };
    static void *all[MANY];
    open_logged();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            all[i] = taken(1 + 13 * i % 5000, NULL);
            memset(all[i], (int)i, 1 + 13 * i % 5000);
        }
        for (size_t i = 0; i < MANY; i++) { /* nobody has written into another's */
            ck_assert_int_eq(((unsigned char *)all[i])[13 * i % 5000], (unsigned char)i);
        }
        for (size_t i = 0; i < MANY; i++) {
            given(all[i * 7 % MANY], NULL);
        }
    }
    ck_assert(now().kept == MANY && now().reused == 2 * MANY && now().pool_total == 3 * MANY);
}
END_TEST

START_TEST(what_nobody_gave_back)
{
    const TesseraAllocation *list;
    void *plain, *again, *pinned;
    size_t n;
    open_logged();
    ck_assert_int_eq(tessera_memory_list(device, &list, &n), TESSERA_OK);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(tessera_alloc(device, 10, &plain), TESSERA_OK);
    again = taken(20, NULL);
    ck_assert_int_eq(tessera_alloc_host(device, 30, &pinned), TESSERA_OK);
    given(taken(40, NULL), NULL);
    ck_assert_int_eq(tessera_memory_list(device, &list, &n), TESSERA_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert(list[0].memory == plain && list[0].bytes == 10 && list[0].number == 1);
    ck_assert(list[1].memory == again && list[1].bytes == 20 && list[1].number == 2);
    ck_assert_str_eq(list[2].what, "tessera_alloc_host");
    ck_assert(now().pinned == 1 && now().pinned_bytes == 30);
    tessera_device_free(device);
    device = NULL;
    ck_assert_ptr_nonnull(strstr(logged, "3 allocations of 60 bytes together were not released"));
    ck_assert_ptr_nonnull(strstr(logged, "tessera_pool_alloc: 20 bytes at 0x"));
    ck_assert_ptr_nonnull(strstr(logged, ", number 3\n"));
}
END_TEST

START_TEST(given_back_twice)
{
    void *plain, *pinned, *again;
    open_logged();
    again = taken(100, NULL);
    ck_assert_int_eq(tessera_alloc(device, 8, &plain), TESSERA_OK);
    ck_assert_int_eq(tessera_alloc_host(device, 8, &pinned), TESSERA_OK);
    tessera_release(device, again);
    tessera_release_host(device, plain);
    tessera_release(device, x);
    ck_assert_ptr_nonnull(strstr(logged, "0 tessera_release: 0x"));
    ck_assert_ptr_nonnull(strstr(logged, "is not memory of tessera_alloc_host, or was released"));
    expect(tessera_pool_release(device, plain, NULL), TESSERA_USAGE, "not memory of tessera_pool");
    given(again, NULL);
    expect(tessera_pool_release(device, again, NULL), TESSERA_USAGE, "was released before");
    tessera_release(device, plain);
    tessera_release(device, plain);
    tessera_release_host(device, pinned);
    tessera_release_host(device, pinned);
    given(NULL, NULL);
    void *memory;
    const TesseraAllocation *list;
    size_t n;
    ck_assert_int_eq(tessera_pool_alloc(NULL, 8, NULL, &memory), TESSERA_USAGE);
    expect(tessera_pool_alloc(device, 8, NULL, NULL), TESSERA_USAGE, "memory is NULL");
    expect(tessera_pool_alloc(device, SIZE_MAX, NULL, &memory), TESSERA_ENVIRONMENT, "no memory");
    ck_assert_int_eq(tessera_pool_release(NULL, plain, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_pool_keep(NULL, 0), TESSERA_USAGE);
    ck_assert_int_eq(tessera_memory_list(NULL, &list, &n), TESSERA_USAGE);
    expect(tessera_memory_list(device, NULL, &n), TESSERA_USAGE, "list is NULL");
    expect(tessera_memory_list(device, &list, NULL), TESSERA_USAGE, "n is NULL");
}
END_TEST

/* An allocator that has so many bytes. */
typedef struct Bounded {
    size_t left;
    int open;
} Bounded;

static void *bounded_alloc(void *user, size_t bytes)
{
    Bounded *bounded = user;
    if (bytes > bounded->left) {
        return NULL;
    }
    size_t *block = malloc(bytes + 16);
    *block = bytes;
    bounded->left -= bytes;
    bounded->open++;
    return block + 2;
}

static void bounded_release(void *user, void *memory)
{
    Bounded *bounded = user;
    size_t *block = (size_t *)memory - 2;
    bounded->left += *block;
    bounded->open--;
    free(block);
}

/* What is kept makes room where there is no more. */
START_TEST(the_last_memory)
{
    Bounded bounded = {200000, 0};
    TesseraAllocator allocator = {bounded_alloc, bounded_release, &bounded};
    void *memory;
    tessera_context_free(context);
    ck_assert_int_eq(tessera_context_new(&allocator, &context), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    given(taken(60000, NULL), NULL);
    given(taken(80000, NULL), NULL);
    ck_assert_uint_eq(now().kept, 2);
    void *most = taken(110000, NULL);
    ck_assert_uint_eq(now().kept, 0);
    expect(tessera_pool_alloc(device, 110000, NULL, &memory), TESSERA_ENVIRONMENT, "out of memory");
    ck_assert_ptr_null(memory);
    given(most, NULL);
    ck_assert_ptr_eq(taken(110000, NULL), most);
    tessera_device_free(device);
    tessera_context_free(context);
    ck_assert_int_eq(bounded.open, 0);
    device = NULL;
    ck_assert_int_eq(tessera_context_new(NULL, &context), TESSERA_OK);
}
END_TEST

UNIT_TESTS(runtime_memory)
{
    TCase *tests = tcase_create("memory");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, is_used_again);
    tcase_add_test(tests, sizes);
    tcase_add_test(tests, many_at_once);
    tcase_add_test(tests, what_nobody_gave_back);
    tcase_add_test(tests, given_back_twice);
    tcase_add_test(tests, the_last_memory);
    return tests;
}
