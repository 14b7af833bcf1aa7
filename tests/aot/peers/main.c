/* SPDX-License-Identifier: Apache-2.0 */
/* peers KIND: copies memory between devices in streams and computes on the copies; with one device
 * it is opened twice. It also checks that a stream of another context is an error that does no
 * harm. It prints the speed of copies from the first device to the second and back, in memory of
 * tessera_alloc and of the pool, for comparison with torch_peers.py. gpu.py builds and runs it. */
#include "twice.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, N = 1 << 24, TIMES = 20 };

static TesseraContext *context;

static void check(TesseraStatus status, int line)
{
    if (status != TESSERA_OK) {
        fprintf(stderr, "peers:%d: %s\n", line, tessera_error(context)->message);
        exit(1);
    }
}
#define TRY(call) check((call), __LINE__)

/* Launches in a stream of a context that is made here; CUDA alone has more than one a device. */
static void try_foreign_stream(TesseraDevice *device, void *in, void *out)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *own = NULL, *stream;
    int (*create)(void **, unsigned, int) = NULL, (*destroy)(void *) = NULL;
    int (*pop)(void **) = NULL;
    TesseraDevice *other;
    if (!library || strcmp(tessera_device_info(device)->kind, "cuda") != 0) {
        return;
    }
    *(void **)&create = dlsym(library, "cuCtxCreate_v2");
    *(void **)&destroy = dlsym(library, "cuCtxDestroy_v2");
    *(void **)&pop = dlsym(library, "cuCtxPopCurrent_v2");
    if (!create || !destroy || !pop || create(&own, 0, 0) != 0 || pop(&own) != 0) {
        return;
    }
    TRY(tessera_device_wrap(context, "cuda", own, &other));
    TRY(tessera_stream_new(other, &stream));
    TesseraStatus status = twice_twice(device, stream, in, out, N);
    printf("a stream of another context: status %d, %s\n", (int)status,
           status ? tessera_error(context)->message : "taken");
    tessera_stream_free(other, stream);
    tessera_device_free(other);
    destroy(own);
    if (status == TESSERA_OK) {
        exit(1);
    }
    TRY(twice_twice(device, NULL, in, out, N));
    TRY(tessera_sync(device, NULL));
}

/* GB/s of copies back to back, by the clock of the device that they go to. The first one, which
 * makes the devices reach each other's memory, is not among them. */
static double speed(TesseraDevice *device, void *to, TesseraDevice *from_device, const void *from,
                    void *stream)
{
    size_t bytes = N * sizeof(float);
    TesseraEvent *events[2];
    double seconds;
    TRY(tessera_event_new(device, &events[0]));
    TRY(tessera_event_new(device, &events[1]));
    TRY(tessera_copy(device, to, from_device, from, bytes, stream));
    TRY(tessera_event_record(events[0], stream));
    for (int i = 0; i < TIMES; i++) {
        TRY(tessera_copy(device, to, from_device, from, bytes, stream));
    }
    TRY(tessera_event_record(events[1], stream));
    TRY(tessera_event_elapsed(events[0], events[1], &seconds));
    tessera_event_free(events[0]);
    tessera_event_free(events[1]);
    return TIMES * (double)bytes / seconds * 1e-9;
}

static void print_speeds(TesseraDevice *const *devices, void *const *to, void *const *from,
                         void *const *streams)
{
    void *pooled[2];
    for (int i = 0; i < 2; i++) {
        TRY(tessera_pool_alloc(devices[i], N * sizeof(float), streams[i], &pooled[i]));
    }
    printf("GB/s from the first device to the second and back: %.0f and %.0f",
           speed(devices[1], to[1], devices[0], from[0], streams[1]),
           speed(devices[0], to[0], devices[1], from[1], streams[0]));
    printf(", in memory of the pool %.0f and %.0f\n",
           speed(devices[1], pooled[1], devices[0], pooled[0], streams[1]),
           speed(devices[0], pooled[0], devices[1], pooled[1], streams[0]));
    for (int i = 0; i < 2; i++) {
        TRY(tessera_pool_release(devices[i], pooled[i], streams[i]));
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "cuda";
    TesseraDevice *devices[MOST];
    void *streams[MOST], *in[MOST], *out[MOST];
    float *host = malloc(N * sizeof *host);
    int n = 0, wrong = 0;
    TRY(tessera_context_new(NULL, &context));
    while (n < MOST && tessera_device_open(context, kind, n, &devices[n]) == TESSERA_OK) {
        n++;
    }
    int found = n;
    if (n == 1) {
        TRY(tessera_device_open(context, kind, 0, &devices[n++]));
    }
    if (n == 0 || !host) {
        check(TESSERA_ENVIRONMENT, __LINE__);
    }
    for (int i = 0; i < n; i++) {
        TRY(tessera_stream_new(devices[i], &streams[i]));
        TRY(tessera_alloc(devices[i], N * sizeof *host, &in[i]));
        TRY(tessera_alloc(devices[i], N * sizeof *host, &out[i]));
    }
    for (int i = 0; i < N; i++) {
        host[i] = (float)(i % 1000);
    }
    TRY(tessera_copy_in(devices[0], in[0], host, N * sizeof *host));
    /* Around: each doubles what the one before it has made, and hands it on. */
    for (int i = 0; i < n; i++) {
        TRY(twice_twice(devices[i], streams[i], in[i], out[i], N));
        TRY(tessera_sync(devices[i], streams[i]));
        int to = (i + 1) % n;
        TRY(tessera_copy(devices[to], in[to], devices[i], out[i], N * sizeof *host, streams[to]));
        TRY(tessera_sync(devices[to], streams[to]));
    }
    memset(host, 0, N * sizeof *host);
    TRY(tessera_copy_out(devices[0], host, in[0], N * sizeof *host));
    for (int i = 0; i < N; i++) {
        wrong += host[i] != (float)(i % 1000) * (float)(1 << n);
    }
    try_foreign_stream(devices[0], in[0], out[0]);
    printf("%d device%s, %d of %d wrong\n", found, found == 1 ? "" : "s", wrong, N);
    print_speeds(devices, in, out, streams);
    for (int i = 0; i < n; i++) {
        tessera_stream_free(devices[i], streams[i]);
        tessera_release(devices[i], in[i]);
        tessera_release(devices[i], out[i]);
        tessera_device_free(devices[i]);
    }
    tessera_context_free(context);
    free(host);
    return wrong != 0;
}
