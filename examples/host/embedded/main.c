/* SPDX-License-Identifier: Apache-2.0 */
/* A softmax kernel linked into the program: it needs neither a compiler nor a file at run time.
 * Usage: `embedded [cpu|cuda|hip] [N]` */
#include "softmax.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 4 };

static int failed(const TesseraContext *context)
{
    fprintf(stderr, "embedded: %s\n", tessera_error(context)->message);
    return 1;
}

/* Rows of the answer sum to 1. */
static int check(const float *y, int64_t n)
{
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += y[i * n + j];
        }
        if (sum < 1 - 1e-5 || sum > 1 + 1e-5) {
            fprintf(stderr, "embedded: row %d sums to %g\n", i, sum);
            return 1;
        }
    }
    return 0;
}

static int softmax(TesseraContext *context, TesseraDevice *device, float *host, int64_t n)
{
    size_t bytes = M * (size_t)n * sizeof(float);
    TesseraLaunch *launch = NULL;
    void *x = NULL, *y = NULL;
    for (int64_t i = 0; i < M * n; i++) {
        host[i] = (float)(i % 7);
    }
    int bad = tessera_alloc(device, bytes, &x) || tessera_alloc(device, bytes, &y) ||
              tessera_copy_in(device, x, host, bytes) ||
              softmax_softmax_f32(device, NULL, x, y, M, n) || tessera_sync(device, NULL) ||
              tessera_copy_out(device, host, y, bytes) ||
              softmax_softmax_f32_prepare(device, x, y, M, n, &launch);
    if (bad) {
        failed(context);
    } else {
        printf("%s\n", tessera_launch_variant(launch));
    }
    tessera_launch_free(launch);
    tessera_release(device, x);
    tessera_release(device, y);
    return bad;
}

int main(int argc, char **argv)
{
    TesseraContext *context;
    TesseraDevice *device;
    const char *kind = argc > 1 ? argv[1] : "auto";
    int64_t n = argc > 2 ? atoll(argv[2]) : 1000;
    float *host = malloc(M * (size_t)n * sizeof(float) + 1);
    if (!host || tessera_context_new(NULL, &context) != TESSERA_OK) {
        return 1;
    }
    int bad = tessera_device_open(context, kind, 0, &device) != TESSERA_OK
                  ? failed(context)
                  : softmax(context, device, host, n) || check(host, n);
    tessera_device_free(device);
    tessera_context_free(context);
    free(host);
    return bad;
}
