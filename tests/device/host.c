/* SPDX-License-Identifier: Apache-2.0 */
/* The host device executes every block exactly once, on any number of threads, also in a forked
 * child. */
#include "runtime/device/device_launch.h"
#include "runtime/device/thread_pool.h"
#include "tests/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_BLOCKS = 1000 };
static _Atomic int visits[MAX_BLOCKS];

static void visit(void *const *args, int64_t first, int64_t last)
{
    (void)args;
    for (int64_t i = first; i < last; i++) {
        atomic_fetch_add(&visits[i], 1);
    }
}

static bool all_visited_by(Pool *pool, int64_t blocks, int most)
{
    memset((void *)visits, 0, sizeof visits);
    pool_run(pool, visit, NULL, blocks, most);
    for (int64_t i = 0; i < MAX_BLOCKS; i++) {
        if (visits[i] != (i < blocks)) {
            return false;
        }
    }
    return true;
}

static bool all_visited(Pool *pool, int64_t blocks)
{
    return all_visited_by(pool, blocks, 0);
}

START_TEST(every_block_once)
{
    for (int threads = 1; threads <= 9; threads += 4) {
        Pool *pool = pool_new(allocator_default(), threads);
        for (int64_t blocks = 0; blocks < 100; blocks++) {
            ck_assert(all_visited(pool, blocks));
        }
        ck_assert(all_visited(pool, MAX_BLOCKS));
        pool_free(pool);
    }
}
END_TEST

/* As many threads as are wanted at once, each of which waits for the others. */
static _Atomic int here, most_here;

static void meet(void *const *args, int64_t first, int64_t last)
{
    int wanted = *(const int *)args[0], n = atomic_fetch_add(&here, 1) + 1;
    int most = atomic_load(&most_here);
    while (n > most && !atomic_compare_exchange_weak(&most_here, &most, n)) {}
    for (int i = 0; i < 200 && atomic_load(&most_here) < wanted; i++) {
        usleep(1000);
    }
    atomic_fetch_sub(&here, 1);
    visit(args, first, last);
}

START_TEST(as_many_threads_as_are_wanted)
{
    Pool *pool = pool_new(allocator_default(), 6);
    for (int most = 1; most <= 8; most++) {
        int wanted = most < 6 ? most : 6;
        void *args[] = {&wanted};
        atomic_store(&most_here, 0);
        memset((void *)visits, 0, sizeof visits);
        pool_run(pool, meet, args, 100, most);
        ck_assert_int_eq(atomic_load(&most_here), wanted);
        for (int64_t i = 0; i < MAX_BLOCKS; i++) {
            ck_assert_int_eq(visits[i], i < 100);
        }
        ck_assert(all_visited_by(pool, 1 + 3 * most, most));
    }
    pool_free(pool);
}
END_TEST

START_TEST(forked_child)
{
    Pool *pool = pool_new(allocator_default(), 4);
    ck_assert(all_visited(pool, 100));
    pid_t child = fork();
    if (child == 0) {
        bool ok = all_visited(pool, 100) && all_visited(pool, 7);
        pool_free(pool);
        _exit(ok ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(all_visited(pool, 100));
    pool_free(pool);
}
END_TEST

START_TEST(forked_child_that_only_frees)
{
    Pool *pool = pool_new(allocator_default(), 4);
    ck_assert(all_visited(pool, 100));
    pid_t child = fork();
    if (child == 0) {
        pool_free(pool);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    pool_free(pool);
}
END_TEST

/* y[N] = x[N] * scale, as code generation would have it. */
static void kernel(void *const *args, int64_t first, int64_t last)
{
    const float *x = args[0];
    float *y = args[1], scale;
    int64_t n;
    memcpy(&scale, args[2], sizeof scale);
    memcpy(&n, args[3], sizeof n);
    for (int64_t i = first * 16; i < last * 16 && i < n; i++) {
        y[i] = x[i] * scale;
    }
}

static void *find_kernel(void *user, const char *name)
{
    void *address = NULL;
    void (*function)(void *const *, int64_t, int64_t) = kernel;
    (void)user;
    if (strcmp(name, "scale_0") == 0) {
        memcpy(&address, &function, sizeof address);
    }
    return address;
}

static PlanTerm n_term = {1, 1, {0}};
static PlanExpr n_dim = {1, &n_term};
static PlanAxis axis = {{1, &n_term}, 16, 0, 0};
static PlanSize size = {"N", 1, 0, INT64_MAX, .by = 0};
static PlanParam params[3] = {{"x", DT_F32, PLAN_IN, 1, &n_dim, .align = 4},
                              {"scale", DT_F32, PLAN_IN, -1, NULL, .align = 4},
                              {"y", DT_F32, PLAN_OUT, 1, &n_dim, .align = 4}};
static PlanArg args_of_plan[4] = {
    {ARG_POINTER, 0}, {ARG_POINTER, 2}, {ARG_SCALAR, 1}, {ARG_SIZE, 0}};
static PlanLaunch launch = {.symbol = "scale_0",
                            .n_axes = 1,
                            .axes = &axis,
                            .threads = 1,
                            .blocks_per_unit = 1,
                            .cluster = 1,
                            .n_args = 4,
                            .args = args_of_plan};
static const Plan PLAN = {"scale", "native", 1,       &size, 3,    params,        0,
                          NULL,    1,        &launch, 0,     NULL, .log_words = 0};

static Device *open_loaded(LoadedModule *loaded)
{
    DeviceError error;
    DeviceImage image = {.symbol = find_kernel};
    Device *device = device_open(&device_host, allocator_default(), 3, NULL, &error);
    ck_assert_ptr_nonnull(device);
    ck_assert(loaded_open(device, &PLAN, &image, loaded, &error));
    return device;
}

START_TEST(launches)
{
    enum { N = 1001 };
    static float x[N], y[N];
    LoadedModule loaded;
    DeviceError error;
    Device *device = open_loaded(&loaded);
    LaunchArg args[3] = {
        {.tensor = {x, DT_F32, 1, {N}}}, {.scalar = 0}, {.tensor = {y, DT_F32, 1, {N}}}};
    float scale = 3;
    memcpy(&args[1].scalar, &scale, sizeof scale);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
    }
    PreparedLaunch *prepared = launch_prepare(&loaded, args, &error);
    ck_assert_ptr_nonnull(prepared);
    ck_assert(launch_run(prepared, NULL, &error));
    for (int i = 0; i < N; i++) {
        ck_assert(y[i] == 3 * (float)i);
    }
    launch_free(prepared);
    loaded_close(&loaded);
    device_close(device);
}
END_TEST

static const char *refusal(void *x, void *y)
{
    static DeviceError error;
    LoadedModule loaded;
    Device *device = open_loaded(&loaded);
    LaunchArg args[3] = {
        {.tensor = {x, DT_F32, 1, {64}}}, {.scalar = 0}, {.tensor = {y, DT_F32, 1, {64}}}};
    ck_assert_ptr_null(launch_prepare(&loaded, args, &error));
    loaded_close(&loaded);
    device_close(device);
    return error.text;
}

START_TEST(refuses_memory)
{
    static _Alignas(16) char memory[1024];
    ck_assert_str_eq(refusal(NULL, memory), "scale: 'x' has no data");
    ck_assert_str_eq(refusal(memory + 2, memory + 512),
                     "scale: the address of 'x' is not a multiple of 4 bytes");
    ck_assert_str_eq(refusal(memory, memory + 252),
                     "scale: 'y', which is written, shares memory with 'x'");
}
END_TEST

START_TEST(unknown_symbol)
{
    DeviceError error;
    LoadedModule loaded;
    PlanLaunch other = launch;
    Plan plan = PLAN;
    DeviceImage image = {.symbol = find_kernel};
    other.symbol = "other";
    plan.launches = &other;
    Device *device = device_open(&device_host, allocator_default(), 1, NULL, &error);
    ck_assert(!loaded_open(device, &plan, &image, &loaded, &error));
    ck_assert_int_eq(error.kind, DIAG_INTERNAL);
    device_close(device);
}
END_TEST

START_TEST(memory_is_aligned)
{
    DeviceError error;
    void *memory[8];
    Device *device = device_open(&device_host, allocator_default(), 1, NULL, &error);
    for (size_t i = 0; i < 8; i++) {
        ck_assert(device->ops->alloc(device, i * 13, &memory[i], &error));
        ck_assert_uint_eq((uintptr_t)memory[i] % 64, 0);
        memset(memory[i], 1, i * 13);
    }
    for (int i = 0; i < 8; i++) {
        device->ops->release(device, memory[i]);
    }
    ck_assert(!device->ops->alloc(device, SIZE_MAX - 4, &memory[0], &error));
    device_close(device);
}
END_TEST

UNIT_TESTS(device_host)
{
    TCase *tests = tcase_create("host");
    tcase_add_test(tests, every_block_once);
    tcase_add_test(tests, as_many_threads_as_are_wanted);
    tcase_add_test(tests, forked_child);
    tcase_add_test(tests, forked_child_that_only_frees);
    tcase_add_test(tests, launches);
    tcase_add_test(tests, refuses_memory);
    tcase_add_test(tests, unknown_symbol);
    tcase_add_test(tests, memory_is_aligned);
    return tests;
}
