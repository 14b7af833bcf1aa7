/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles, launches and frees in a loop, on the CPU and on a mock driver: the process does not
 * grow and leaves no files. 100 rounds; TESSERA_REPEAT sets the number (make check-long: 10,000).
 */
#include "tests/mock_driver/mock.h"
#include "tests/runtime/harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

enum { FEW = 100, SIDE = 24, BYTES = SIDE * SIDE * 4 };

static int times(void)
{
    const char *text = getenv("TESSERA_REPEAT");
    return text ? atoi(text) : FEW;
}

typedef struct Memory {
    double allocated; /* bytes that malloc has given out */
    double mapped;    /* bytes of address space, without those that malloc manages */
} Memory;

/* Neither depends on where in its heap malloc finds room: how many pages of free blocks stay
 * resident varies by megabytes from run to run. */
static Memory look(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    struct mallinfo2 heap = mallinfo2();
    return (Memory){(double)(heap.uordblks + heap.hblkhd),
                    (double)pages * (double)sysconf(_SC_PAGESIZE) - (double)heap.arena};
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *open = opendir(folder);
    ck_assert_ptr_nonnull(open);
    while (readdir(open)) {
        n++;
    }
    closedir(open);
    return n;
}

/* Two launches with an intermediate, in a stream of their own; other code each time. */
static void once(const char *kind, int ordinal, int round)
{
    static float data[SIDE * SIDE];
    char text[256], words[16];
    void *stream, *memory[2];
    TesseraFact any = {"N", 1, 0, 0};
    TesseraLaunch *launch;
    snprintf(words, sizeof words, "%d", round % 7 + 1);
    snprintf(text, sizeof text,
             "kernel chain(x: f32[N, N]) -> f32[N, N] {\n    let y = x @ x\n"
             "    return %s * (y @ y)\n}\n",
             words);
    parse(text);
    ck_assert_int_eq(tessera_device_open(context, kind, ordinal, &device), TESSERA_OK);
    TesseraOptions options = {
        .target = tessera_device_info(device)->target, .facts = &any, .n_facts = 1, .optimize = 1};
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_stream_new(device, &stream), TESSERA_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tessera_pool_alloc(device, BYTES, stream, &memory[i]), TESSERA_OK);
        ck_assert_int_eq(tessera_copy_in(device, memory[i], data, BYTES), TESSERA_OK);
    }
    TesseraArg args[2] = {{.tensor = {memory[0], TESSERA_F32, 2, {SIDE, SIDE}, NULL}},
                          {.tensor = {memory[1], TESSERA_F32, 2, {SIDE, SIDE}, NULL}}};
    TesseraStatus status = tessera_prepare(kernel, device, args, 2, &launch);
    ck_assert_msg(status == TESSERA_OK, "%s", tessera_error(context)->message);
    ck_assert_int_eq(tessera_launch(launch, stream), TESSERA_OK);
    ck_assert_int_eq(tessera_sync(device, stream), TESSERA_OK);
    tessera_launch_free(launch);
    tessera_kernel_free(kernel);
    tessera_program_free(program);
    tessera_stream_free(device, stream);
    tessera_device_free(device); /* what is out of the pool goes with it */
    program = NULL, kernel = NULL, device = NULL;
}

static void repeat(const char *kind, int ordinal, const Mock *driver)
{
    int n = times(), before = 0, files = 0, threads = 0;
    Memory then = {0, 0};
    mallopt(M_ARENA_MAX, 1); /* an arena more reserves 64 MB of address space */
    ck_assert_int_eq(tessera_cache_use(context, "off", 0), TESSERA_OK);
    for (int i = -20; i < n; i++) { /* the first ones take what is kept for good */
        if (i == 0) {
            then = look();
            files = entries("/proc/self/fd");
            threads = entries("/proc/self/task");
            before = driver ? driver->open : 0;
        }
        once(kind, ordinal, i + 20);
    }
    Memory now = look();
    double allocated = now.allocated - then.allocated, mapped = now.mapped - then.mapped;
    printf("%s: %d times, %.0f bytes allocated more, %.0f mapped more\n", kind, n, allocated,
           mapped);
#if !defined(__SANITIZE_ADDRESS__) /* which keeps what is freed */
    ck_assert_msg(allocated < 16e3, "%.0f bytes more are allocated", allocated);
    ck_assert_msg(mapped < 256e3, "%.0f bytes more are mapped", mapped);
#endif
    ck_assert_int_eq(entries("/proc/self/fd"), files);
    ck_assert_int_eq(entries("/proc/self/task"), threads);
    ck_assert_int_eq(driver ? driver->open : 0, before);
}

START_TEST(on_the_cpu)
{
    repeat("cpu", 2, NULL);
}
END_TEST

START_TEST(on_cuda)
{
    void *library = dlopen(MOCK_FOLDER "/lib/libcuda.so.1", RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    repeat("cuda", MOCK_OPENED, dlsym(library, "mock"));
}
END_TEST

UNIT_TESTS(runtime_repeat)
{
    TCase *tests = tcase_create("repeat");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, on_the_cpu);
    tcase_add_test(tests, on_cuda);
    return tests;
}
