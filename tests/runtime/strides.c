/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with other strides than row-major, through the public interface. */
#include "tests/runtime/harness.h"

#include <math.h>
#include <string.h>

static const char TWICE[] = "kernel twice(x: f32[M, N]) -> f32[M, N] = x + x\n";

enum { ROWS = 5, COLUMNS = 7, ROOM = 4096 };

static float from[ROOM], to[ROOM], again[ROOM];

static TesseraArg lying(float *first, int64_t rows, int64_t columns, const int64_t *strides)
{
    return (TesseraArg){.tensor = {first, TESSERA_F32, 2, {rows, columns}, strides}};
}

static void begin(void)
{
    for (int i = 0; i < ROOM; i++) {
        from[i] = (float)i;
        to[i] = again[i] = -1;
    }
    parse(TWICE);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
}

static TesseraStatus compiled_for(const TesseraArg *args, const char *ins, const char *out)
{
    TesseraPair words[] = {{"x", ins}, {"out", out}};
    TesseraFact any[] = {{"M", 1, 0, 0}, {"N", 1, 0, 0}};
    TesseraOptions options = {.target = "native", .facts = any, .n_facts = 2};
    options.args = args;
    options.n_args = args ? 2 : 0;
    options.strides = ins ? words : words + 1;
    options.n_strides = (size_t)(ins != NULL) + (out != NULL);
    tessera_kernel_free(kernel);
    kernel = NULL;
    return compile(&options);
}

static TesseraStatus launched(const TesseraArg *args)
{
    TesseraLaunch *launch;
    TesseraStatus status = tessera_prepare(kernel, device, args, 2, &launch);
    if (status == TESSERA_OK) {
        ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
        tessera_launch_free(launch);
    }
    return status;
}

/* The interpreter writes the same elements, and nobody anything between them. */
static void check(const TesseraArg *in, const TesseraArg *out)
{
    TesseraArg args[] = {*in, *out};
    TesseraOptions none = {0};
    ck_assert_int_eq(compiled_for(args, NULL, NULL), TESSERA_OK);
    ck_assert_msg(launched(args) == TESSERA_OK, "%s", tessera_error(context)->message);
    args[1].tensor.data = again + ((float *)out->tensor.data - to);
    ck_assert_int_eq(tessera_interpret(program, &none, args, 2), TESSERA_OK);
    ck_assert(memcmp(to, again, sizeof to) == 0);
    const int64_t plain[] = {out->tensor.dims[1], 1};
    const int64_t *xs = in->tensor.strides ? in->tensor.strides : plain;
    const int64_t *outs = out->tensor.strides ? out->tensor.strides : plain;
    int64_t written = 0;
    for (int64_t i = 0; i < out->tensor.dims[0]; i++) {
        for (int64_t j = 0; j < out->tensor.dims[1]; j++) {
            float value = ((float *)in->tensor.data)[i * xs[0] + j * xs[1]];
            float got = ((float *)out->tensor.data)[i * outs[0] + j * outs[1]];
            ck_assert_float_eq(got, value + value);
        }
    }
    for (int i = 0; i < ROOM; i++) {
        written += to[i] >= 0;
        to[i] = again[i] = -1;
    }
    ck_assert_int_eq(written, out->tensor.dims[0] * out->tensor.dims[1]);
}

START_TEST(all_ways)
{
    static const int64_t ways[][2] = {{COLUMNS, 1}, {1, ROWS}, {16, 1},  {1, 16}, {40, 3},
                                      {-16, 1},     {16, -1},  {-1, -9}, {3, 40}, {-40, -2}};
    static const int64_t repeating[][2] = {{0, 1}, {1, 0}, {0, 0}, {1, 1}, {-2, 1}};
    enum { WAYS = sizeof ways / sizeof *ways };
    begin();
    for (int i = 0; i < WAYS; i++) {
        TesseraArg in = lying(from + 1001, ROWS, COLUMNS, ways[i]);
        TesseraArg out = lying(to + 1003, ROWS, COLUMNS, ways[(3 * i + 1) % WAYS]);
        check(&in, &out);
    }
    for (size_t i = 0; i < sizeof repeating / sizeof *repeating; i++) {
        TesseraArg in = lying(from + 1001, ROWS, COLUMNS, repeating[i]);
        TesseraArg out = lying(to, ROWS, COLUMNS, NULL);
        check(&in, &out);
    }
}
END_TEST

/* The stride of an axis of one element, and all of a tensor of none, are free. */
START_TEST(free_strides)
{
    begin();
    TesseraArg in = lying(from, 1, COLUMNS, (const int64_t[]){-12345, 1});
    TesseraArg out = lying(to, 1, COLUMNS, (const int64_t[]){0, 1});
    check(&in, &out);
    in = lying(from, ROWS, 1, (const int64_t[]){9, 77});
    out = lying(to, ROWS, 1, NULL);
    check(&in, &out);
    in = lying(NULL, 0, COLUMNS, (const int64_t[]){3, 3});
    out = lying(NULL, 0, COLUMNS, (const int64_t[]){0, 0});
    TesseraArg args[] = {in, out};
    ck_assert_int_eq(compiled_for(args, NULL, NULL), TESSERA_OK);
    ck_assert_int_eq(launched(args), TESSERA_OK);
    ck_assert_int_eq(compiled_for(NULL, "*8,1", "1,*"), TESSERA_OK);
    ck_assert_int_eq(launched(args), TESSERA_OK);
    args[0] = lying(from, 1, 1, NULL);
    args[1] = lying(to, 1, 1, NULL);
    ck_assert_int_eq(launched(args), TESSERA_OK);
}
END_TEST

START_TEST(compiled_for_others)
{
    begin();
    TesseraArg args[] = {lying(from, ROWS, COLUMNS, (const int64_t[]){16, 1}),
                         lying(to, ROWS, COLUMNS, NULL)};
    ck_assert_int_eq(compiled_for(NULL, NULL, NULL), TESSERA_OK);
    expect(launched(args), TESSERA_USAGE,
           "axis 0 of 'x' has stride 16, but this code was compiled for a contiguous tensor");
    ck_assert_int_eq(compiled_for(args, NULL, NULL), TESSERA_OK);
    args[0].tensor.strides = (const int64_t[]){48, 1};
    ck_assert_int_eq(launched(args), TESSERA_OK); /* a variant for many */
    args[0].tensor.strides = (const int64_t[]){24, 1};
    expect(launched(args), TESSERA_USAGE,
           "stride 24, but this code was compiled for positive "
           "multiples of 16");
    args[0].tensor.strides = (const int64_t[]){-16, 1};
    expect(launched(args), TESSERA_USAGE, "stride -16");
    args[0].tensor.strides = (const int64_t[]){16, 2};
    expect(launched(args), TESSERA_USAGE, "axis 1 of 'x' has stride 2");
    ck_assert_int_eq(compiled_for(NULL, "1,M", NULL), TESSERA_OK);
    expect(launched(args), TESSERA_USAGE, "for a contiguous tensor"); /* in another order */
    args[0].tensor.strides = (const int64_t[]){1, ROWS};
    ck_assert_int_eq(launched(args), TESSERA_OK);
    args[0].tensor.strides = (const int64_t[]){1, ROWS + 1};
    expect(launched(args), TESSERA_USAGE, "axis 1 of 'x' has stride 6");
}
END_TEST

START_TEST(shared_memory)
{
    static const int64_t rows[] = {20, 1}, even[] = {20, 2};
    begin();
    TesseraArg args[] = {lying(from, ROWS, COLUMNS, rows), lying(to, ROWS, COLUMNS, rows)};
    ck_assert_int_eq(compiled_for(NULL, "*,*", "*,*"), TESSERA_OK);
    args[1].tensor.strides = (const int64_t[]){3, 1};
    expect(launched(args), TESSERA_USAGE, "elements of 'out', which is written, may share memory");
    args[1].tensor.strides = (const int64_t[]){1, 1};
    expect(launched(args), TESSERA_USAGE, "may share memory");
    /* Columns beside one another, and between one another, of the same rows. */
    args[1] = lying(from + COLUMNS, ROWS, COLUMNS, rows);
    ck_assert_int_eq(launched(args), TESSERA_OK);
    args[1] = lying(from + COLUMNS - 1, ROWS, COLUMNS, rows);
    expect(launched(args), TESSERA_USAGE, "'out', which is written, shares memory with 'x'");
    args[0] = lying(from, ROWS, COLUMNS, even);
    args[1] = lying(from + 1, ROWS, COLUMNS, even);
    ck_assert_int_eq(launched(args), TESSERA_OK);
    args[1] = lying(from + 2, ROWS, COLUMNS, even);
    expect(launched(args), TESSERA_USAGE, "shares memory");
    args[0] = lying(from + 100, ROWS, COLUMNS, rows);
    args[1] = lying(from + 100 - 13, ROWS, COLUMNS, rows);
    ck_assert_int_eq(launched(args), TESSERA_OK);
    args[1] = lying(from + 100 - 6, ROWS, COLUMNS, rows);
    expect(launched(args), TESSERA_USAGE, "shares memory");
}
END_TEST

START_TEST(refused)
{
    begin();
    TesseraArg args[] = {lying(from, ROWS, COLUMNS, (const int64_t[]){INT64_MAX / 2, 1}),
                         lying(to, ROWS, COLUMNS, NULL)};
    ck_assert_int_eq(compiled_for(args, NULL, NULL), TESSERA_OK);
    expect(launched(args), TESSERA_SOURCE, "'x' has more bytes than memory can");
    expect(compiled_for(NULL, "*8", NULL), TESSERA_USAGE, "cannot have the strides *8");
    expect(compiled_for(NULL, "*8,1,1", NULL), TESSERA_USAGE, "cannot have the strides");
    expect(compiled_for(NULL, "*0,1", NULL), TESSERA_USAGE, "cannot have the strides");
    expect(compiled_for(NULL, "K,1", NULL), TESSERA_USAGE, "cannot have the strides");
    expect(compiled_for(NULL, "N,1@2", NULL), TESSERA_USAGE, "cannot have the strides");
    expect(compiled_for(NULL, NULL, "0,1"), TESSERA_USAGE, "share memory by the stride 0");
    args[0].tensor.rank = 1000;
    ck_assert_int_eq(compiled_for(args, NULL, NULL), TESSERA_OK); /* the launch tells */
    expect(launched(args), TESSERA_USAGE, "has rank 1000");
    tessera_kernel_free(kernel);
    kernel = NULL;
    TesseraPair none = {"w", "1"};
    TesseraOptions options = {.target = "native", .strides = &none, .n_strides = 1};
    expect(compile(&options), TESSERA_USAGE, "no tensor 'w'");
    options = (TesseraOptions){.target = "native", .strides = NULL, .n_strides = 1};
    expect(compile(&options), TESSERA_USAGE, "a list of options is NULL");
}
END_TEST

START_TEST(packed)
{
    static const char text[] = "kernel low(x: i4[M, N]) -> i4[M, N] = x\n";
    TesseraPair words = {"x", "1,M"};
    TesseraArg args[2] = {{.tensor = {from, TESSERA_I4, 2, {4, 8}, (const int64_t[]){1, 4}}},
                          {.tensor = {to, TESSERA_I4, 2, {4, 8}, NULL}}};
    TesseraOptions options = {.target = "native", .strides = &words, .n_strides = 1};
    parse(text);
    expect(compile(&options), TESSERA_USAGE, "i4 can only be contiguous");
    options = (TesseraOptions){.target = "native", .args = args, .n_args = 2};
    expect(compile(&options), TESSERA_USAGE, "i4 can only be contiguous");
    options.n_args = 0;
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    expect(launched(args), TESSERA_USAGE, "compiled for a contiguous tensor");
    expect(tessera_interpret(program, &options, args, 2), TESSERA_USAGE, "only be contiguous");
}
END_TEST

UNIT_TESTS(runtime_strides)
{
    TCase *tests = tcase_create("strides");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, all_ways);
    tcase_add_test(tests, free_strides);
    tcase_add_test(tests, compiled_for_others);
    tcase_add_test(tests, shared_memory);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, packed);
    return tests;
}
