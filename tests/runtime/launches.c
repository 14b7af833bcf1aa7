/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are prepared once and executed often: with other arguments, in several streams. */
#include "runtime/launch/dlpack.h"
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <unistd.h>

static TesseraLaunch *prepared(float *a, float *b, float *c)
{
    TesseraArg args[3] = {vector(a, N), vector(b, N), vector(c, N)};
    TesseraLaunch *launch;
    prepare_add(N);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    return launch;
}

START_TEST(other_memory)
{
    static float w[N];
    TesseraLaunch *launch = prepared(x, y, z);
    ck_assert_int_eq(tessera_launch_set(launch, 2, w), TESSERA_OK);
    ck_assert_int_eq(tessera_launch_set(launch, 1, x), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    for (int i = 0; i < N; i++) {
        ck_assert(w[i] == 2 * x[i] && z[i] == 0);
    }
    /* What would overlap for a while may be set; launching it is what is refused. */
    ck_assert_int_eq(tessera_launch_set(launch, 2, x), TESSERA_OK);
    expect(tessera_launch(launch, NULL), TESSERA_USAGE, "shares memory with 'x'");
    expect(tessera_launch_reserve(launch, NULL), TESSERA_USAGE, "shares memory with 'x'");
    ck_assert_int_eq(tessera_launch_set(launch, 0, w), TESSERA_OK);
    ck_assert_int_eq(tessera_launch_set(launch, 1, w), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert(x[3] == 12);
    expect(tessera_launch_set(launch, 0, NULL), TESSERA_USAGE, "'x' has no data");
    expect(tessera_launch_set(launch, 0, (char *)w + 2), TESSERA_USAGE, "not a multiple");
    expect(tessera_launch_set(launch, 3, w), TESSERA_USAGE, "no parameter 3");
    expect(tessera_launch_set_scalar(launch, 0, 1, 1), TESSERA_USAGE, "is a tensor");
    ck_assert_int_eq(tessera_launch_set(NULL, 0, w), TESSERA_USAGE);
    ck_assert_int_eq(tessera_launch_set_scalar(NULL, 0, 1, 1), TESSERA_USAGE);
    ck_assert_int_eq(tessera_launch_reserve(NULL, NULL), TESSERA_USAGE);
    ck_assert_uint_eq(tessera_workspace_size(NULL), 0);
    ck_assert_uint_eq(tessera_workspace_size(launch), 0);
    tessera_launch_free(launch);
}
END_TEST

START_TEST(other_scalars)
{
    TesseraPair bind = {"T", "f32"};
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {
        .target = "native", .bindings = &bind, .n_bindings = 1, .facts = &any, .n_facts = 1};
    TesseraArg args[3] = {{.tensor = {x, TESSERA_F32, 2, {1, N}}},
                          {.number = 3},
                          {.tensor = {y, TESSERA_F32, 2, {1, N}}}};
    TesseraLaunch *launch;
    parse(SCALE);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    x[1] = 2;
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert(y[1] == 6);
    ck_assert_int_eq(tessera_launch_set_scalar(launch, 1, 5, 0), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert(y[1] == 10);
    expect(tessera_launch_set(launch, 1, x), TESSERA_USAGE, "is a scalar");
    tessera_launch_free(launch);
}
END_TEST

/* An object of these tests is its own description; one without a shape cannot be described. */
static int describe(void *object, void *tensor)
{
    const DLTensor *own = object;
    *(DLTensor *)tensor = *own;
    return own->shape ? 0 : -1;
}

START_TEST(found_for_objects)
{
    static float strided[2 * N];
    int64_t extent = N, other = N - 1, one = 1, two = 2;
    DLTensor tx = {x, {1, 0}, 1, {2, 32, 1}, &extent, NULL, 0}, ty = tx, tz = tx;
    void *objects[3] = {&tx, &ty, &tz}, *data[3];
    TesseraLaunch *launches[2] = {NULL, prepared(x, y, z)};
    TesseraSearch search = {launches, 2, describe, 3, data};
    ty.data = y;
    tz.data = z;
    ck_assert_int_eq(tessera_launch_find(&search, objects), 1);
    ck_assert(data[0] == x && data[1] == y && data[2] == z);
    tz.byte_offset = 16;
    ck_assert_int_eq(tessera_launch_find(&search, objects), 1);
    ck_assert(data[2] == z + 4);
    tz.byte_offset = 0;
    const TesseraSearch wrong[] = {
        {NULL, 2, describe, 3, data},     {launches, 1, describe, 3, data},
        {launches, 2, NULL, 3, data},     {launches, 2, describe, 65, data},
        {launches, 2, describe, 3, NULL}, {launches, 0, describe, 3, data},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(tessera_launch_find(&wrong[i], objects) == -1, "case %zu", i);
    }
    ck_assert_int_eq(tessera_launch_find(NULL, objects), -1);
    ck_assert_int_eq(tessera_launch_find(&search, NULL), -1);
    search.n_objects = 2;
    ck_assert_int_eq(tessera_launch_find(&search, objects), 1);
    search.n_objects = 3;
    const DLTensor good = ty;
    const DLTensor others[] = {
        {y, {2, 0}, 1, {2, 32, 1}, &extent, NULL, 0},  /* on a GPU */
        {y, {99, 0}, 1, {2, 32, 1}, &extent, NULL, 0}, /* on what nobody knows */
        {y, {1, 0}, 1, {2, 16, 1}, &extent, NULL, 0},
        {y, {1, 0}, 1, {0, 32, 1}, &extent, NULL, 0},
        {y, {1, 0}, 1, {2, 32, 2}, &extent, NULL, 0},
        {y, {1, 0}, 1, {2, 32, 1}, &other, NULL, 0},
        {y, {1, 0}, 1, {2, 32, 1}, NULL, NULL, 0},
        {y, {1, 0}, 0, {2, 32, 1}, &extent, NULL, 0},
        {y + 1, {1, 0}, 1, {2, 32, 1}, &extent, NULL, 0},
        {strided, {1, 0}, 1, {2, 32, 1}, &extent, &two, 0},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ty = others[i];
        ck_assert_msg(tessera_launch_find(&search, objects) == -1, "case %zu", i);
    }
    ty = good;
    ty.strides = &one;
    ck_assert_int_eq(tessera_launch_find(&search, objects), 1);
    tessera_launch_free(launches[1]);
}
END_TEST

/* Two launches, with an intermediate between them: each stream has its own. */
static const char CHAIN[] = "kernel chain(x: f32[N, N]) -> f32[N, N] {\n"
                            "    let y = x @ x\n    return y @ y\n}\n";

START_TEST(streams_have_their_own)
{
    enum { SIDE = 24, BYTES = SIDE * SIDE * 4 };
    static float in[SIDE * SIDE], out[2][SIDE * SIDE];
    int first = 1, second = 2; /* the CPU asks streams for no more than an address */
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {.target = "native", .facts = &any, .n_facts = 1};
    Counting counting = {0};
    TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
    tessera_context_free(context);
    ck_assert_int_eq(tessera_context_new(&allocator, &context), TESSERA_OK);
    parse(CHAIN);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    for (int i = 0; i < SIDE * SIDE; i++) {
        in[i] = (float)(i % 7) - 3;
    }
    TesseraArg args[2] = {{.tensor = {in, TESSERA_F32, 2, {SIDE, SIDE}}},
                          {.tensor = {out[0], TESSERA_F32, 2, {SIDE, SIDE}}}};
    TesseraLaunch *launch;
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_OK);
    ck_assert_uint_ge(tessera_workspace_size(launch), BYTES);
    int before = counting.allocations;
    ck_assert_int_eq(tessera_launch(launch, &first), TESSERA_OK);
    ck_assert_int_eq(counting.allocations, before); /* the first has what was prepared */
    counting.fail_at = counting.allocations + 1;
    expect(tessera_launch_reserve(launch, &second), TESSERA_ENVIRONMENT, "out of memory");
    ck_assert_int_eq(tessera_launch_reserve(launch, &second), TESSERA_OK);
    before = counting.allocations;
    ck_assert_int_eq(tessera_launch_set(launch, 1, out[1]), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, &second), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, &first), TESSERA_OK);
    ck_assert_int_eq(counting.allocations, before);
    ck_assert_int_eq(memcmp(out[0], out[1], BYTES), 0);
    tessera_launch_free(launch);
    tessera_kernel_free(kernel);
    tessera_device_free(device);
    tessera_program_free(program);
    tessera_context_free(context);
    ck_assert_int_eq(counting.open, 0);
    program = NULL, kernel = NULL, device = NULL;
    ck_assert_int_eq(tessera_context_new(NULL, &context), TESSERA_OK);
}
END_TEST

/* A kernel holds all that it was made from: the texts that its program imported, too. */
START_TEST(kernels_outlive_their_program)
{
    char folder[] = "/tmp/tessera-XXXXXX", path[64], imported[64];
    TesseraOptions options = {.target = "native"};
    TesseraArg args[2] = {vector(x, N), vector(z, N)};
    TesseraLaunch *launch;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/main.tile", folder);
    snprintf(imported, sizeof imported, "%s/twice.tile", folder);
    FILE *file = fopen(imported, "w");
    fputs("fn twice(x) = x + x\n", file);
    fclose(file);
    file = fopen(path, "w");
    fputs("import \"twice.tile\"\nkernel k(x: f32[N]) -> f32[N] = twice(x)\n", file);
    fclose(file);
    TesseraStatus read = tessera_program_read(context, path, &program);
    ck_assert_msg(read == TESSERA_OK, "%s", tessera_error(context)->message);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    tessera_program_free(program);
    program = NULL;
    remove(path);
    remove(imported);
    rmdir(folder);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_OK);
    x[5] = 4;
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert(z[5] == 8);
    tessera_launch_free(launch);
}
END_TEST

UNIT_TESTS(runtime_launches)
{
    TCase *tests = tcase_create("launches");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, other_memory);
    tcase_add_test(tests, other_scalars);
    tcase_add_test(tests, found_for_objects);
    tcase_add_test(tests, streams_have_their_own);
    tcase_add_test(tests, kernels_outlive_their_program);
    return tests;
}
