/* SPDX-License-Identifier: Apache-2.0 */
/* hit FILE DEVICE [T=TYPE]: measures the time of a compilation whose machine code is in the cache.
 * Kernels are compiled and loaded repeatedly; the output is the microseconds from computing the
 * cache key to having the code, one per line. bench/host.py builds and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

static void note(void *user, TesseraLogLevel level, const char *message)
{
    const char *at = strstr(message, "taken from the cache in ");
    (void)user, (void)level;
    if (at) {
        printf("%.1f\n", 1000 * atof(at + strlen("taken from the cache in ")));
    }
}

int main(int argc, char **argv)
{
    TesseraContext *context;
    TesseraProgram *program;
    TesseraDevice *device;
    TesseraPair type = {"T", argc > 3 ? argv[3] : ""};
    int bad = argc < 3 || tessera_context_new(NULL, &context) || tessera_log(context, note, NULL) ||
              tessera_program_read(context, argv[1], &program) ||
              tessera_device_open(context, argv[2], 0, &device);
    for (int i = 0; i < 200 && !bad; i++) {
        TesseraOptions options = {.target = tessera_device_info(device)->target,
                                  .bindings = &type,
                                  .n_bindings = argc > 3};
        TesseraKernel *kernel;
        bad = tessera_compile(program, &options, &kernel) || tessera_kernel_load(kernel, device);
        tessera_kernel_free(kernel);
    }
    if (bad && argc > 2) {
        fprintf(stderr, "hit: %s\n", tessera_error(context)->message);
    }
    return bad;
}
