/* SPDX-License-Identifier: Apache-2.0 */
/* Launches kernels of a bundle in every possible way on the device that the command line names,
 * and checks the results. With mock drivers, which execute nothing, it checks which code was
 * selected. */
#include "my_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 3, N = 40, MOST = M * N };

int from_cpp(TesseraDevice *device, const void *x, void *y); /* other.cpp */

static TesseraContext *context;
static TesseraDevice *device;
static int wrong;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%d: %s; last error: %s\n", __LINE__, #condition,                      \
                    tessera_error(context)->message);                                              \
            wrong++;                                                                               \
        }                                                                                          \
    } while (0)

static void fails(int line, TesseraStatus got, TesseraStatus want, const char *words)
{
    if (got != want || !strstr(tessera_error(context)->message, words)) {
        fprintf(stderr, "%d: status %d, not %d with '%s': %s\n", line, (int)got, (int)want, words,
                tessera_error(context)->message);
        wrong++;
    }
}
#define FAILS(call, want, words) fails(__LINE__, call, want, words)

static TesseraArg matrix(void *data, TesseraType type, int64_t m, int64_t n)
{
    return (TesseraArg){.tensor = {.data = data, .type = type, .rank = 2, .dims = {m, n}}};
}

static void takes(TesseraArg *args, const char *variant)
{
    TesseraLaunch *launch = NULL;
    TesseraStatus status =
        tessera_bundle_prepare(&my_kernels_bundle, "scale", device, args, 3, &launch);
    const char *got = tessera_launch_variant(launch);
    if (status != TESSERA_OK || strcmp(got, variant) != 0) {
        fprintf(stderr, "not %s but %s: %s\n", variant, got ? got : "nothing",
                tessera_error(context)->message);
        wrong++;
    }
    CHECK(launch && tessera_launch(launch, NULL) == TESSERA_OK);
    tessera_launch_free(launch);
}

/* By types, sizes and strides. */
static void choices(void *x, void *y, const char *target)
{
    int64_t strides[2] = {48, 1};
    char words[128];
    TesseraArg args[3] = {
        matrix(x, TESSERA_F32, M, 32), {.number = 2}, matrix(y, TESSERA_F32, M, 32)};
    snprintf(words, sizeof words, "scale_f32 for %s: N %% 8 == 0, N <= 1048576", target);
    takes(args, words);
    args[0].tensor.strides = strides;
    snprintf(words, sizeof words, "scale_f32 for %s: N %% 8 == 0, N <= 1048576, x with strides",
             target);
    takes(args, words);
    args[0].tensor.strides = NULL;
    args[0].tensor.dims[1] = args[2].tensor.dims[1] = 33;
    snprintf(words, sizeof words, "scale_f32 for %s: N <= 1048576", target);
    takes(args, words);
    args[0].tensor.type = args[2].tensor.type = TESSERA_BF16;
    snprintf(words, sizeof words, "scale_bf16 for %s: N <= 1048576", target);
    takes(args, words);
}

static float in[MOST], out[MOST];

static void get(void *y)
{
    CHECK(tessera_sync(device, NULL) == TESSERA_OK);
    CHECK(tessera_copy_out(device, out, y, sizeof out) == TESSERA_OK);
}

static void answers(void *x, void *y)
{
    double seven[7] = {0, 1, 2, 3, 4, 5, 6}, sums[7];
    void *a, *b;
    for (int i = 0; i < MOST; i++) {
        in[i] = (float)i;
    }
    CHECK(tessera_copy_in(device, x, in, sizeof in) == TESSERA_OK);
    for (int64_t n = 0; n <= N; n++) { /* more than are kept */
        CHECK(my_kernels_scale_f32(device, NULL, x, 3, y, M, n) == TESSERA_OK);
        get(y);
        for (int64_t i = 0; i < M * n; i++) {
            CHECK(out[i] == 3 * in[i]);
        }
    }
    CHECK(my_kernels_scale_f32(device, NULL, x, 5, y, M, N) == TESSERA_OK); /* another scalar */
    get(y);
    CHECK(out[7] == 5 * in[7]);
    in[1] += 1; /* the same memory, other values */
    CHECK(tessera_copy_in(device, x, in, sizeof in) == TESSERA_OK);
    CHECK(my_kernels_scale_f32(device, NULL, x, 3, y, M, N) == TESSERA_OK);
    get(y);
    CHECK(out[1] == 3 * in[1]);
    CHECK(my_kernels_join(device, NULL, x, y, 2, 5) == TESSERA_OK);
    get(y);
    CHECK(out[6] == in[6] + 1);
    CHECK(my_kernels_halves(device, NULL, x, y, 9) == TESSERA_OK);
    get(y);
    CHECK(out[3] == in[3]);
    CHECK(from_cpp(device, x, y) == 0);
    get(y);
    CHECK(out[1] == in[1] + 1);
    CHECK(tessera_alloc(device, sizeof seven, &a) == TESSERA_OK &&
          tessera_alloc(device, sizeof sums, &b) == TESSERA_OK &&
          tessera_copy_in(device, a, seven, sizeof seven) == TESSERA_OK);
    CHECK(my_kernels_types(device, NULL, true, -2, 60000, INT64_C(1) << 40, 0.5, 0x3fc0, a, b, 7) ==
          TESSERA_OK);
    CHECK(tessera_sync(device, NULL) == TESSERA_OK &&
          tessera_copy_out(device, sums, b, sizeof sums) == TESSERA_OK);
    CHECK(sums[6] == 6 - 2 + 60000 + 1099511627776.0 + 0.5 + 1.5 + 1);
    tessera_release(device, a);
    tessera_release(device, b);
}

/* A size that tensors do not tell is not that of an earlier call. */
static void sizes_unknown(void *x, void *y)
{
    TesseraLaunch *launch;
    TesseraArg args[2] = {{.tensor = {.data = x, .type = TESSERA_F32, .rank = 1, .dims = {7}}},
                          {.tensor = {.data = y, .type = TESSERA_F32, .rank = 1, .dims = {7}}}};
    CHECK(my_kernels_join(device, NULL, x, y, 2, 5) == TESSERA_OK);
    FAILS(tessera_bundle_prepare(&my_kernels_bundle, "join", device, args, 2, &launch),
          TESSERA_SOURCE, "no tensor determines the size Q");
    CHECK(my_kernels_join(device, NULL, x, y, 3, 4) == TESSERA_OK);
}

static void sayings(void *x, void *y)
{
    TesseraLaunch *launch;
    TesseraMessages said;
    in[4] = -1;
    CHECK(tessera_copy_in(device, x, in, sizeof in) == TESSERA_OK);
    CHECK(my_kernels_tells_prepare(device, x, y, 9, &launch) == TESSERA_OK);
    CHECK(tessera_launch(launch, NULL) == TESSERA_OK);
    CHECK(tessera_launch_messages(launch, NULL, &said) == TESSERA_OK && said.failures == 1);
    CHECK(said.n == 1 && strstr(said.items[0].text, "negative: -1 at [4]"));
    CHECK(said.n == 1 && strcmp(said.items[0].file, "kernels.tile") == 0);
    CHECK(tessera_launch_variant(launch) && !tessera_launch_variant(NULL));
    tessera_launch_free(launch);
}

static void mistakes(void *x, void *y)
{
    TesseraLaunch *launch;
    TesseraArg args[3] = {
        matrix(x, TESSERA_F32, M, N), {.number = 2}, matrix(y, TESSERA_F32, M, N)};
    uint64_t future[8];
    const TesseraBundle *bundle = &my_kernels_bundle;
    FAILS(my_kernels_scale_f32(device, NULL, NULL, 3, y, M, N), TESSERA_USAGE, "'x' has no data");
    FAILS(my_kernels_scale_f32(device, NULL, x, 3, y, -1, N), TESSERA_SOURCE, "size M is -1");
    FAILS(my_kernels_scale_f32(device, NULL, x, 3, y, M, 1 << 21), TESSERA_SOURCE,
          "compiled for N <= 1048576");
    FAILS(my_kernels_scale_f32(device, NULL, x, 3, y, INT64_MAX, 9), TESSERA_SOURCE, "scale");
    FAILS(my_kernels_scale_f32(device, NULL, x, 3, x, M, N), TESSERA_USAGE, "share");
    FAILS(my_kernels_scale_f32_prepare(device, x, 3, y, M, N, NULL), TESSERA_USAGE, "NULL");
    CHECK(my_kernels_scale_f32(NULL, NULL, x, 3, y, M, N) == TESSERA_USAGE);
    FAILS(tessera_bundle_prepare(NULL, "scale", device, args, 3, &launch), TESSERA_USAGE, "bundle");
    FAILS(tessera_bundle_prepare(bundle, NULL, device, args, 3, &launch), TESSERA_USAGE, "kernel");
    FAILS(tessera_bundle_prepare(bundle, "scale", device, NULL, 3, &launch), TESSERA_USAGE, "args");
    FAILS(tessera_bundle_prepare(bundle, "scale", device, args, 3, NULL), TESSERA_USAGE, "launch");
    FAILS(tessera_bundle_prepare(bundle, "scala", device, args, 3, &launch), TESSERA_USAGE,
          "my_kernels has no kernel 'scala'");
    FAILS(tessera_bundle_prepare(bundle, "scale", device, args, 2, &launch), TESSERA_USAGE,
          "wants 3 arguments, 2 are given");
    FAILS(tessera_bundle_prepare(bundle, "types", device, args, 3, &launch), TESSERA_USAGE,
          "wants 8 arguments");
    args[0].tensor.type = args[2].tensor.type = TESSERA_F64;
    FAILS(tessera_bundle_prepare(bundle, "scale", device, args, 3, &launch), TESSERA_SOURCE,
          "holds f64 here");
    args[0].tensor.rank = 99;
    FAILS(tessera_bundle_prepare(bundle, "scale", device, args, 3, &launch), TESSERA_USAGE, "rank");
    FAILS(tessera_bundle_launch(bundle, 99, device, NULL, future, 0), TESSERA_USAGE, "function 99");
    FAILS(tessera_bundle_launch(bundle, 0, device, NULL, future, 0), TESSERA_USAGE, "arguments");
    memcpy(future, bundle, 7 * sizeof *future);
    future[1] = 1000; /* the format */
    FAILS(tessera_bundle_prepare((const TesseraBundle *)future, "scale", device, args, 0, &launch),
          TESSERA_USAGE, "format 1000");
    future[0] = 0;
    FAILS(tessera_bundle_prepare((const TesseraBundle *)future, "scale", device, args, 0, &launch),
          TESSERA_USAGE, "no bundle");
}

/* consumer KIND TARGET ORDINAL real: the code that is to be taken there, and its answers */
int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "cpu", *target = argc > 2 ? argv[2] : "x86-64-v3";
    int ordinal = argc > 3 ? atoi(argv[3]) : 0;
    void *x, *y;
    CHECK(tessera_context_new(NULL, &context) == TESSERA_OK);
    if (tessera_device_open(context, kind, ordinal, &device) != TESSERA_OK ||
        tessera_alloc(device, MOST * sizeof(float), &x) != TESSERA_OK ||
        tessera_alloc(device, MOST * sizeof(float), &y) != TESSERA_OK) {
        fprintf(stderr, "%s\n", tessera_error(context)->message);
        return 1;
    }
    choices(x, y, target);
    mistakes(x, y);
    sizes_unknown(x, y);
    for (int i = 0; i < 3; i++) { /* what is kept, and is launched again */
        CHECK(my_kernels_scale_f32(device, NULL, x, 3, y, M, N) == TESSERA_OK);
    }
    if (strcmp(kind, "cpu") == 0 || (argc > 4 && strcmp(argv[4], "real") == 0)) {
        answers(x, y);
        sayings(x, y);
    }
    tessera_release(device, x);
    tessera_release(device, y);
    tessera_device_free(device);
    tessera_context_free(context);
    return wrong != 0;
}
