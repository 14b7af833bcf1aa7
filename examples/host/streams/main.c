/* SPDX-License-Identifier: Apache-2.0 */
/* Processes a long array in slices with two streams: while one slice is computed, the next is
 * copied to the device and the previous one back. Usage: `streams [cpu|cuda|hip|auto]` */
#include "scale.h"
#include "../try.h"

#include <math.h>

enum { PARTS = 16, N = 1 << 20, STREAMS = 2, BYTES = N * sizeof(float) };

static TesseraContext *context;

/* Seconds of the device for all parts, each in the next one of so many streams. Memory of the pool
 * is a stream's: a part takes it, gives it back, and the stream's next part has it again. */
static double work(TesseraDevice *device, void **streams, int n, float *data)
{
    TesseraEvent *first, *last[STREAMS];
    double seconds = 0, longest = 0;
    TRY(tessera_event_new(device, &first));
    TRY(tessera_event_record(first, streams[0]));
    for (int i = 0; i < PARTS; i++) {
        void *stream = streams[i % n], *x, *y;
        float *part = data + (size_t)i * N;
        TRY(tessera_pool_alloc(device, BYTES, stream, &x));
        TRY(tessera_pool_alloc(device, BYTES, stream, &y));
        TRY(tessera_copy_in_async(device, x, part, BYTES, stream));
        TRY(scale_scale(device, stream, x, 0.5f, y, N));
        TRY(tessera_copy_out_async(device, part, y, BYTES, stream));
        TRY(tessera_pool_release(device, x, stream));
        TRY(tessera_pool_release(device, y, stream));
    }
    for (int i = 0; i < n; i++) {
        TRY(tessera_event_new(device, &last[i]));
        TRY(tessera_event_record(last[i], streams[i]));
        TRY(tessera_event_elapsed(first, last[i], &seconds)); /* waits */
        longest = seconds > longest ? seconds : longest;
        tessera_event_free(last[i]);
    }
    tessera_event_free(first);
    return longest;
}

int main(int argc, char **argv)
{
    TesseraDevice *device;
    TesseraMemory memory;
    void *streams[STREAMS], *pinned;
    double seconds[STREAMS], wrong = 0;
    TRY(tessera_context_new(NULL, &context));
    TRY(tessera_device_open(context, argc > 1 ? argv[1] : "auto", 0, &device));
    TRY(tessera_alloc_host(device, (size_t)PARTS * BYTES, &pinned)); /* else copies would wait */
    float *data = pinned;
    for (int n = 1; n <= STREAMS; n++) {
        TRY(tessera_stream_new(device, &streams[n - 1]));
        for (int time = 0; time < 2; time++) { /* the first loads the code, and takes the memory */
            for (size_t i = 0; i < (size_t)PARTS * N; i++) {
                data[i] = (float)(i % 1001) / 500;
            }
            seconds[n - 1] = work(device, streams, n, data);
        }
        for (size_t i = 0; i < (size_t)PARTS * N; i += 997) {
            wrong = fmax(wrong, fabs(data[i] - tanh((double)(i % 1001) / 1000)));
        }
    }
    TRY(tessera_memory(device, &memory));
    printf("1 stream %.2f ms, 2 streams %.2f ms; the pool has %zu blocks, %llu were used again\n",
           1e3 * seconds[0], 1e3 * seconds[1], memory.kept, (unsigned long long)memory.reused);
    tessera_release_host(device, pinned);
    tessera_stream_free(device, streams[0]);
    tessera_stream_free(device, streams[1]);
    tessera_device_free(device);
    tessera_context_free(context);
    return !(wrong < 1e-5);
}
