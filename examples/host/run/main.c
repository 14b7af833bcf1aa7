/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a kernel at run time and launches it. Usage: `run [cpu|cuda|hip|auto] [N]` */
#include "../try.h"

#include <math.h>
#include <string.h>
#include <tessera/tessera.h>

static const char TEXT[] = "kernel softmax(x: T[M, N]) -> T[M, N] where T: float {\n"
                           "    let e = exp(x - max(x, axis=1))\n"
                           "    return e / sum(e, axis=1)\n"
                           "}\n";
enum { M = 8 };

static TesseraContext *context;

/* For this device, f32, and rows of such a length; machine code is kept in the user's cache. */
static TesseraKernel *compiled(TesseraProgram *program, const TesseraDevice *device, int64_t n)
{
    TesseraPair bind[] = {{"T", "f32"}};
    TesseraSize sizes[] = {{"N", n}};
    TesseraOptions options = {.target = tessera_device_info(device)->target,
                              .bindings = bind,
                              .n_bindings = 1,
                              .sizes = sizes,
                              .n_sizes = 1};
    TesseraKernel *kernel;
    TRY(tessera_compile(program, &options, &kernel));
    return kernel;
}

int main(int argc, char **argv)
{
    int64_t n = argc > 2 ? atoll(argv[2]) : 1000;
    size_t bytes = (size_t)(M * n) * sizeof(float);
    float *host = malloc(bytes + 1);
    TesseraProgram *program;
    TesseraDevice *device;
    TesseraLaunch *launch;
    void *x, *y;
    double sum = 0;
    if (!host || tessera_context_new(NULL, &context) != TESSERA_OK) {
        return 1;
    }
    for (int64_t i = 0; i < M * n; i++) {
        host[i] = (float)(i % 7);
    }
    TRY(tessera_device_open(context, argc > 1 ? argv[1] : "auto", 0, &device));
    TRY(tessera_program_parse(context, "softmax.tile", TEXT, strlen(TEXT), &program));
    TesseraKernel *kernel = compiled(program, device, n);
    TRY(tessera_alloc(device, bytes, &x));
    TRY(tessera_alloc(device, bytes, &y));
    TRY(tessera_copy_in(device, x, host, bytes));
    TesseraArg args[] = {{.tensor = {x, TESSERA_F32, 2, {M, n}, NULL}},
                         {.tensor = {y, TESSERA_F32, 2, {M, n}, NULL}}};
    TRY(tessera_prepare(kernel, device, args, 2, &launch));
    TRY(tessera_launch(launch, NULL));
    TRY(tessera_sync(device, NULL));
    TRY(tessera_copy_out(device, host, y, bytes));
    for (int64_t i = 0; i < M * n; i++) {
        sum += host[i];
    }
    printf("%s: %d rows sum to %.6f\n", tessera_device_info(device)->name, M, sum);
    tessera_launch_free(launch);
    tessera_kernel_free(kernel);
    tessera_program_free(program);
    tessera_device_free(device); /* its memory with it, which a log would tell */
    tessera_context_free(context);
    free(host);
    return !(fabs(sum - M) < 1e-4);
}
