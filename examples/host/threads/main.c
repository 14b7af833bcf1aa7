/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take rows from a shared counter and launch a kernel for each. A context may be used
 * by one thread at a time, so each thread has its own, with its own stream on the same GPU. Usage:
 * `threads [cpu|cuda|hip|auto]` */
#include "row.h"
#include "../try.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 4, ROWS = 2000, N = 2000, BYTES = N * sizeof(float) };

static const char *kind = "auto";
static float rows[ROWS][N];
static atomic_int next;

static void *work(void *user)
{
    TesseraContext *context = NULL;
    TesseraDevice *device;
    void *stream, *x, *y;
    int *done = user;
    TRY(tessera_context_new(NULL, &context));
    /* On the CPU our threads are enough: a launch runs in the one that makes it. */
    TRY(tessera_device_open(context, kind, strcmp(kind, "cpu") == 0, &device));
    TRY(tessera_stream_new(device, &stream));
    TRY(tessera_alloc(device, BYTES, &x));
    TRY(tessera_alloc(device, BYTES, &y));
    for (int row; (row = atomic_fetch_add(&next, 1)) < ROWS; ++*done) {
        TRY(tessera_copy_in_async(device, x, rows[row], BYTES, stream));
        TRY(row_softmax(device, stream, x, y, N));
        TRY(tessera_copy_out_async(device, rows[row], y, BYTES, stream));
        TRY(tessera_sync(device, stream));
    }
    tessera_release(device, x);
    tessera_release(device, y);
    tessera_stream_free(device, stream);
    tessera_device_free(device);
    tessera_context_free(context);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int done[THREADS] = {0}, bad = 0;
    kind = argc > 1 ? argv[1] : kind;
    for (int i = 0; i < ROWS * N; i++) {
        rows[i / N][i % N] = (float)(i % 7);
    }
    for (int i = 0; i < THREADS; i++) {
        bad += pthread_create(&threads[i], NULL, work, &done[i]) != 0;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("%sthread %d: %d rows", i ? ", " : "", i, done[i]);
    }
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) {
            sum += rows[i][j];
        }
        bad += !(fabs(sum - 1) < 1e-4);
    }
    printf("\n");
    return bad;
}
