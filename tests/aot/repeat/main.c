/* SPDX-License-Identifier: Apache-2.0 */
/* repeat KIND [ROUNDS [SECONDS]]: compiles (mostly from the cache), loads, launches and frees in a
 * loop on a device that stays open, and checks that neither the process nor the device's memory
 * grows. It stops after SECONDS. gpu.py builds and runs it; tests/runtime/repeat.c does the same
 * on mock drivers. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 24, BYTES = SIDE * SIDE * 4, FIRST = 50 };

static TesseraContext *context;

static void check(TesseraStatus status, int line)
{
    if (status != TESSERA_OK) {
        fprintf(stderr, "repeat:%d: %s\n", line, tessera_error(context)->message);
        exit(1);
    }
}
#define TRY(call) check((call), __LINE__)

static double resident(void)
{
    long whole = 0, pages = 0;
    malloc_trim(0);
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &whole, &pages) != 2) {
        exit(1);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *open = opendir(folder);
    while (open && readdir(open)) {
        n++;
    }
    closedir(open);
    return n;
}

/* Bytes of the device that nobody has; 0: not known. */
static size_t left(void)
{
    size_t whole, bytes = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*ask)(size_t *, size_t *) = NULL;
    void *found = library ? dlsym(library, "cuMemGetInfo_v2") : NULL;
    memcpy(&ask, &found, sizeof found);
    return ask && ask(&bytes, &whole) == 0 ? bytes : 0;
}

static void once(TesseraDevice *device, int round)
{
    char text[200];
    void *stream, *memory[2];
    TesseraFact any = {"N", 1, 0, 0};
    TesseraProgram *program;
    TesseraKernel *kernel;
    TesseraLaunch *launch;
    snprintf(
        text, sizeof text,
        "kernel chain(x: f32[N, N]) -> f32[N, N] {\n    let y = x @ x\n    return %d * (y @ y)\n}"
        "\n",
        round % 7 + 1);
    TRY(tessera_program_parse(context, "chain.tile", text, strlen(text), &program));
    TesseraOptions options = {
        .target = tessera_device_info(device)->target, .facts = &any, .n_facts = 1};
    TRY(tessera_compile(program, &options, &kernel));
    TRY(tessera_stream_new(device, &stream));
    TesseraArg args[2];
    for (int i = 0; i < 2; i++) {
        TRY(tessera_pool_alloc(device, BYTES, stream, &memory[i]));
        args[i] = (TesseraArg){.tensor = {memory[i], TESSERA_F32, 2, {SIDE, SIDE}, NULL}};
    }
    TRY(tessera_prepare(kernel, device, args, 2, &launch));
    TRY(tessera_launch(launch, stream));
    TRY(tessera_sync(device, stream));
    tessera_launch_free(launch);
    tessera_kernel_free(kernel);
    tessera_program_free(program);
    for (int i = 0; i < 2; i++) {
        TRY(tessera_pool_release(device, memory[i], stream));
    }
    tessera_stream_free(device, stream);
}

int main(int argc, char **argv)
{
    TesseraDevice *device;
    int rounds = argc > 2 ? atoi(argv[2]) : 1000, done = 0;
    time_t end = time(NULL) + (argc > 3 ? atoi(argv[3]) : 3600);
    TRY(tessera_context_new(NULL, &context));
    TRY(tessera_device_open(context, argc > 1 ? argv[1] : "cuda", 0, &device));
    for (int i = 0; i < FIRST; i++) { /* the first ones take what is kept for good */
        once(device, i);
    }
    double before = resident();
    size_t there = left();
    int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    while (done < rounds && time(NULL) < end) {
        once(device, done++);
    }
    double after = resident();
    files = entries("/proc/self/fd") - files;
    threads = entries("/proc/self/task") - threads;
    printf(
        "%d rounds, %.1f MB before, %.1f after; of the device %.1f MB fewer; %d files, %d threads "
        "more\n",
        done, before / 1e6, after / 1e6, ((double)there - (double)left()) / 1e6, files, threads);
    tessera_device_free(device);
    tessera_context_free(context);
    return !(after < 1.01 * before && files == 0 && threads == 0);
}
