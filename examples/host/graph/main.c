/* SPDX-License-Identifier: Apache-2.0 */
/* Captures three kernels as one graph and replays it. Usage: `graph [cpu|cuda|hip|auto]` */
#include "step.h"
#include "../try.h"

#include <string.h>

enum { M = 16, N = 256, STEPS = 50, KERNELS = 3, BYTES = M * N * sizeof(float) };

static TesseraContext *context;
static float start[M * N], weights[N * N], launched[M * N], replayed[M * N];

/* Seconds of many steps from the start on: of the graph, or, where it is NULL, of its launches. */
static double steps(TesseraDevice *device, void *stream, void *x, TesseraLaunch **launches,
                    TesseraGraph *graph, float *out)
{
    TesseraEvent *first, *last;
    double seconds;
    TRY(tessera_event_new(device, &first));
    TRY(tessera_event_new(device, &last));
    TRY(tessera_copy_in_async(device, x, start, BYTES, stream));
    TRY(tessera_event_record(first, stream));
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < KERNELS && !graph; k++) {
            TRY(tessera_launch(launches[k], stream));
        }
        if (graph) {
            TRY(tessera_graph_launch(graph, stream));
        }
    }
    TRY(tessera_event_record(last, stream));
    TRY(tessera_copy_out_async(device, out, x, BYTES, stream));
    TRY(tessera_sync(device, stream));
    TRY(tessera_event_elapsed(first, last, &seconds));
    tessera_event_free(first);
    tessera_event_free(last);
    return seconds;
}

int main(int argc, char **argv)
{
    TesseraDevice *device;
    TesseraLaunch *launches[KERNELS];
    TesseraGraph *graph = NULL;
    void *stream, *x, *a, *b, *w;
    for (int i = 0; i < N * N; i++) {
        start[i % (M * N)] = (float)(i % 13) / 6 - 1;
        weights[i] = (float)(i % 7) / 48 - 0.0625f;
    }
    TRY(tessera_context_new(NULL, &context));
    TRY(tessera_device_open(context, argc > 1 ? argv[1] : "auto", 0, &device));
    TRY(tessera_stream_new(device, &stream));
    TRY(tessera_alloc(device, BYTES, &x));
    TRY(tessera_alloc(device, BYTES, &a));
    TRY(tessera_alloc(device, BYTES, &b));
    TRY(tessera_alloc(device, sizeof weights, &w));
    TRY(tessera_copy_in(device, w, weights, sizeof weights));
    TRY(step_normed_prepare(device, x, a, M, N, &launches[0]));
    TRY(step_mixed_prepare(device, a, w, b, M, N, &launches[1]));
    TRY(step_added_prepare(device, a, b, x, M, N, &launches[2]));
    double plain = steps(device, stream, x, launches, NULL, launched);
    if (strcmp(tessera_device_info(device)->kind, "cpu") != 0) { /* it has no graphs */
        TRY(tessera_capture_begin(device, stream));
        for (int k = 0; k < KERNELS; k++) {
            TRY(tessera_launch(launches[k], stream));
        }
        TRY(tessera_capture_end(device, stream, &graph));
    }
    double replay = steps(device, stream, x, launches, graph, replayed);
    printf("%d steps: launched %.3f ms, %s %.3f ms\n", STEPS, 1e3 * plain,
           graph ? "replayed" : "again", 1e3 * replay);
    tessera_graph_free(graph);
    for (int k = 0; k < KERNELS; k++) {
        tessera_launch_free(launches[k]);
    }
    tessera_stream_free(device, stream);
    tessera_device_free(device); /* its memory with it, which a log would tell */
    tessera_context_free(context);
    return launched[5] == start[5] || memcmp(launched, replayed, BYTES) != 0;
}
