/* Compares the kernel of @NAME@.tile with the same in C: `test_@NAME@ [cpu|cuda|hip]`. */
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_N = 1000 };

static int test_size(TesseraDevice *device, int64_t n)
{
    static float x[MAX_N], y[MAX_N], got[MAX_N];
    size_t bytes = (size_t)n * sizeof(float);
    void *on_device[3] = {NULL, NULL, NULL};
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i % 17) - 8;
        y[i] = (float)(i % 5);
    }
    int bad = 0;
    for (int i = 0; i < 3; i++) {
        bad = bad || tessera_alloc(device, bytes, &on_device[i]);
    }
    bad = bad || tessera_copy_in(device, on_device[0], x, bytes) ||
          tessera_copy_in(device, on_device[1], y, bytes) ||
          @NAME@_saxpy(device, NULL, on_device[0], on_device[1], 3, on_device[2], n) ||
          tessera_sync(device, NULL) || tessera_copy_out(device, got, on_device[2], bytes);
    for (int64_t i = 0; i < n && !bad; i++) {
        bad = fabsf(got[i] - (3 * x[i] + y[i])) > 1e-5f;
    }
    for (int i = 0; i < 3; i++) {
        tessera_release(device, on_device[i]);
    }
    printf("%s N=%lld\n", bad ? "FAIL" : "ok  ", (long long)n);
    return bad;
}

int main(int argc, char **argv)
{
    TesseraContext *context;
    TesseraDevice *device;
    int failed = 0;
    if (tessera_context_new(NULL, &context) != TESSERA_OK ||
        tessera_device_open(context, argc > 1 ? argv[1] : "auto", 0, &device) != TESSERA_OK) {
        return 1;
    }
    for (int64_t n = 0; n <= MAX_N; n = 3 * n + 1) {
        failed += test_size(device, n);
    }
    tessera_device_free(device);
    tessera_context_free(context);
    return failed ? 1 : 0;
}
