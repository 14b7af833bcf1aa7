/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the CPU time of a launch from C: cuLaunchKernel and tessera_launch of the same code,
 * alternately, in nanoseconds. Only issuing is timed, and of fewer launches than the driver
 * queues, so that no launch waits for the device. bench/host.py builds and runs it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>
#include <time.h>

enum { CALLS = 400, ROUNDS = 60, N = 1024 };

static const char TEXT[] = "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n"
                           "kernel mul(a: bf16[M, K], b: bf16[K, N]) -> bf16[M, N] = bf16(a @ b)\n";

static TesseraContext *context;

static void check(TesseraStatus status)
{
    if (status != TESSERA_OK) {
        fprintf(stderr, "launch: %s\n", tessera_error(context)->message);
        exit(1);
    }
}

/* The driver's calls that are timed, or needed for that. */
static struct {
    int (*device)(int *, int), (*retain)(void **, int), (*current)(void *);
    int (*load)(void **, const void *), (*function)(void **, void *, const char *);
    int (*sync)(void);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
} cu;

static void bind(void *field, const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW),
         *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol) {
        fprintf(stderr, "launch: no %s\n", name);
        exit(1);
    }
    memcpy(field, &symbol, sizeof symbol);
}

typedef struct Case {
    const char *name;
    void (*call)(int i);
    double times[ROUNDS];
} Case;

static TesseraDevice *device;
static TesseraLaunch *add, *mul;
static void *memory[6], *function, *stream;
static unsigned blocks, threads;

static void by_driver(int i)
{
    static long sizes[8] = {N, N, N, N, N, N, N, N};
    void *args[] = {&memory[0], &memory[1], &memory[2], &sizes[0], &sizes[1], &sizes[2]};
    (void)i;
    cu.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, args, NULL);
}

static void prepared(int i)
{
    (void)i;
    tessera_launch(add, stream);
}

static void other_memory(int i)
{
    void *tensors[] = {memory[i % 2], memory[0], memory[2 + i % 2]};
    tessera_launch_with(add, stream, tensors, 3);
}

static void descriptors(int i)
{
    void *tensors[] = {memory[i % 2], memory[0], memory[2 + i % 2]};
    tessera_launch_with(mul, stream, tensors, 3);
}

static void product(int i)
{
    (void)i;
    tessera_launch(mul, stream);
}

static TesseraKernel *compiled(TesseraProgram *program, const char *name)
{
    TesseraSize sizes[] = {{"N", N}, {"M", N}, {"K", N}};
    TesseraOptions options = {.kernel = name,
                              .target = tessera_device_info(device)->target,
                              .sizes = sizes,
                              .n_sizes = strcmp(name, "add") == 0 ? 1 : 3};
    TesseraKernel *kernel;
    check(tessera_compile(program, &options, &kernel));
    return kernel;
}

static void load_for_driver(TesseraKernel *kernel)
{
    TesseraResources resources;
    TesseraBytes ptx;
    void *primary, *module;
    int ordinal;
    check(tessera_kernel_emit(kernel, "ptx", &ptx));
    check(tessera_kernel_resources(kernel, &resources));
    blocks = (unsigned)resources.launches[0].blocks;
    threads = (unsigned)resources.launches[0].threads;
    if (cu.device(&ordinal, 0) || cu.retain(&primary, ordinal) || cu.current(primary) ||
        cu.load(&module, ptx.data) ||
        cu.function(&function, module, resources.launches[0].symbol)) {
        fprintf(stderr, "launch: the driver does not load the code\n");
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    Case cases[] = {{"cuLaunchKernel", by_driver, {0}},
                    {"tessera_launch", prepared, {0}},
                    {"tessera_launch_with, other memory", other_memory, {0}},
                    {"tessera_launch of a product, bulk copies", product, {0}},
                    {"tessera_launch_with, other memory and descriptors", descriptors, {0}}};
    TesseraProgram *program;
    bind(&cu.device, "cuDeviceGet");
    bind(&cu.retain, "cuDevicePrimaryCtxRetain");
    bind(&cu.current, "cuCtxSetCurrent");
    bind(&cu.load, "cuModuleLoadData");
    bind(&cu.function, "cuModuleGetFunction");
    bind(&cu.launch, "cuLaunchKernel");
    bind(&cu.sync, "cuCtxSynchronize");
    check(tessera_context_new(NULL, &context));
    check(tessera_device_open(context, "cuda", 0, &device));
    check(tessera_program_parse(context, "launch.tile", TEXT, strlen(TEXT), &program));
    check(tessera_stream_new(device, &stream));
    for (int i = 0; i < 6; i++) {
        check(tessera_alloc(device, 2 * N * N, &memory[i]));
    }
    TesseraKernel *adds = compiled(program, "add"), *multiplies = compiled(program, "mul");
    TesseraArg args[3], tiles[3];
    for (int i = 0; i < 3; i++) {
        args[i] = (TesseraArg){.tensor = {memory[i], TESSERA_F32, 1, {N}, NULL}};
        tiles[i] = (TesseraArg){.tensor = {memory[i], TESSERA_BF16, 2, {N, N}, NULL}};
    }
    check(tessera_prepare(adds, device, args, 3, &add));
    check(tessera_prepare(multiplies, device, tiles, 3, &mul));
    load_for_driver(adds);
    for (int round = -5; round < ROUNDS; round++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            double start = now();
            for (int i = 0; i < CALLS; i++) {
                cases[c].call(i);
            }
            cases[c].times[round < 0 ? 0 : round] = (now() - start) / CALLS;
            if (cu.sync() != 0) {
                fprintf(stderr, "launch: %s failed\n", cases[c].name);
                return 1;
            }
        }
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        qsort(cases[c].times, ROUNDS, sizeof(double), by_value);
        printf("%s|%.0f|%.0f\n", cases[c].name, cases[c].times[ROUNDS / 2], cases[c].times[0]);
    }
    return 0;
}
