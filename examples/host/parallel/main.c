/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training: each GPU has a slice of the rows, and NCCL sums the gradients. With one
 * GPU, or on the CPU, it has all rows. Usage: `parallel [cpu|cuda|hip|auto]` */
#include "fit.h"
#include "nccl.h"
#include "../try.h"

#include <math.h>
#include <string.h>

enum { MOST = 8, ROWS = 4096, D = 64, STEPS = 100 };

static TesseraContext *context;
static TesseraDevice *devices[MOST];
static void *streams[MOST], *xs[MOST], *ys[MOST], *ws[MOST], *gs[MOST];
static float x[ROWS][D], y[ROWS], w[D];

static void *placed(int i, const void *from, size_t bytes)
{
    void *memory;
    TRY(tessera_alloc(devices[i], bytes, &memory));
    TRY(tessera_copy_in(devices[i], memory, from, bytes));
    return memory;
}

/* How many take part. */
static int open_all(const char *kind, Nccl *nccl)
{
    int n = 1;
    TRY(tessera_device_open(context, kind, 0, &devices[0]));
    bool cuda = strcmp(tessera_device_info(devices[0])->kind, "cuda") == 0;
    while (cuda && n < MOST && !tessera_device_open(context, "cuda", n, &devices[n])) {
        n++;
    }
    return cuda && nccl_open(nccl, n) ? n : 1; /* without a sum, one has all */
}

int main(int argc, char **argv)
{
    Nccl nccl = {0};
    double wrong = 0;
    for (int i = 0; i < ROWS * D; i++) {
        x[i / D][i % D] = (float)((unsigned)i * 2654435761u >> 16 & 255) / 128 - 1;
        y[i / D] += x[i / D][i % D] * (float)(i % D % 5 - 2);
    }
    TRY(tessera_context_new(NULL, &context));
    int n = open_all(argc > 1 ? argv[1] : "auto", &nccl), rows = ROWS / n;
    for (int i = 0; i < n; i++) {
        TRY(tessera_stream_new(devices[i], &streams[i]));
        xs[i] = placed(i, x[i * rows], (size_t)rows * sizeof *x);
        ys[i] = placed(i, &y[i * rows], (size_t)rows * sizeof *y);
        ws[i] = placed(i, w, sizeof w);
        gs[i] = placed(i, w, sizeof w);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < n; i++) {
            TRY(fit_gradient(devices[i], streams[i], xs[i], ys[i], ws[i], gs[i], rows, D));
        }
        TRY(nccl_sum(&nccl, gs, D, streams) ? TESSERA_OK : TESSERA_FAULT);
        for (int i = 0; i < n; i++) {
            TRY(fit_update(devices[i], streams[i], ws[i], gs[i], 1.0f / ROWS, D));
        }
    }
    for (int i = 0; i < n; i++) {
        TRY(tessera_sync(devices[i], streams[i]));
        TRY(tessera_copy_out(devices[i], w, ws[i], sizeof w));
        for (int d = 0; d < D; d++) {
            wrong = fmax(wrong, fabs(w[d] - (d % 5 - 2)));
        }
    }
    printf("%d device%s, %s: off by %.2g after %d steps\n", n, n == 1 ? "" : "s",
           nccl.n ? "sums by NCCL" : "nothing to sum", wrong, STEPS);
    nccl_close(&nccl);
    for (int i = 0; i < MOST; i++) {
        tessera_stream_free(devices[i], streams[i]);
        tessera_device_free(devices[i]); /* its memory with it, which a log would tell */
    }
    tessera_context_free(context);
    return !(wrong < 1e-3);
}
