/* Runs the kernel of @NAME@.tile: `@NAME@ [cpu|cuda|hip] [N]`. */
#include "@NAME@.h"

#include <stdio.h>
#include <stdlib.h>

static int failed(const TesseraContext *context)
{
    fprintf(stderr, "@NAME@: %s\n", tessera_error(context)->message);
    return 1;
}

/* y = 2 x + y */
static int compute(TesseraContext *context, TesseraDevice *device, float *host, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(float);
    void *x = NULL, *y = NULL, *out = NULL;
    int bad = tessera_alloc(device, bytes, &x) || tessera_alloc(device, bytes, &y) ||
              tessera_alloc(device, bytes, &out) || tessera_copy_in(device, x, host, bytes) ||
              tessera_copy_in(device, y, host, bytes) ||
              @NAME@_saxpy(device, NULL, x, y, 2, out, n) || tessera_sync(device, NULL) ||
              tessera_copy_out(device, host, out, bytes);
    tessera_release(device, x);
    tessera_release(device, y);
    tessera_release(device, out);
    return bad ? failed(context) : 0;
}

int main(int argc, char **argv)
{
    TesseraContext *context;
    TesseraDevice *device = NULL;
    int64_t n = argc > 2 ? atoll(argv[2]) : 8;
    float *host = calloc((size_t)n + 1, sizeof *host);
    if (!host || tessera_context_new(NULL, &context) != TESSERA_OK) {
        return 1;
    }
    for (int64_t i = 0; i < n; i++) {
        host[i] = (float)i;
    }
    int bad = tessera_device_open(context, argc > 1 ? argv[1] : "auto", 0, &device) != TESSERA_OK
                  ? failed(context)
                  : compute(context, device, host, n);
    if (!bad) {
        printf("on %s, the last of %lld: %g\n", tessera_device_info(device)->name, (long long)n,
               n > 0 ? (double)host[n - 1] : 0.0);
    }
    tessera_device_free(device);
    tessera_context_free(context);
    free(host);
    return bad;
}
