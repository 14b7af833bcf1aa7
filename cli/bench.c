/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera bench`: the median of rested rounds of launches, back to back. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UPS = 5, MOST_LAUNCHES = 1000, MOST_COPY = 1 << 30 };
static const double ROUND_SECONDS = 0.02, REST_SECONDS = 0.15;

typedef struct Bench {
    const Options *options;
    Session session;
    Arrays arrays;
    TesseraOptions compile;
    TesseraLaunch *launch;
    double seconds, spread, copy_rate, compile_seconds;
    int launches;
    double bytes, flops;
} Bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A card that has just worked is hot and slow: each round begins rested. */
static void rest(const Bench *bench)
{
    const char *kind = tessera_device_info(bench->session.device)->kind;
    struct timespec pause = {0, (long)(REST_SECONDS * 1e9)};
    if (strcmp(kind, "cpu") != 0) {
        nanosleep(&pause, NULL);
    }
}

static int launch_times(Bench *bench, int times, double *seconds)
{
    return tessera_launch_time(bench->launch, NULL, times, seconds) == TESSERA_OK
               ? 0 : fail_context(bench->session.context);
}

static int time_rounds(Bench *bench)
{
    double first, *rounds = take((size_t)bench->options->rounds * sizeof *rounds);
    int n = bench->options->rounds;
    int code = launch_times(bench, 1, &first);
    code = code ? code : launch_times(bench, 1, &first);
    double wanted = first > 0 ? ROUND_SECONDS / first : MOST_LAUNCHES;
    bench->launches = wanted < 1 ? 1 : wanted > MOST_LAUNCHES ? MOST_LAUNCHES : (int)wanted;
    int warm_ups = first > 1 ? 1 : WARM_UPS;
    for (int i = 0; i < n && code == 0; i++) {
        double ignored;
        rest(bench);
        code = launch_times(bench, warm_ups, &ignored);
        code = code ? code : launch_times(bench, bench->launches, &rounds[i]);
        rounds[i] /= bench->launches;
    }
    if (code == 0) {
        qsort(rounds, (size_t)n, sizeof *rounds, compare_doubles);
        bench->seconds = rounds[n / 2];
        bench->spread = (rounds[n - 1] - rounds[0]) / bench->seconds;
    }
    free(rounds);
    return code;
}

/* What a copy of as many bytes moves, reading and writing. */
static int time_copy(Bench *bench)
{
    TesseraDevice *device = bench->session.device;
    size_t bytes = bench->bytes < 2.0 * MOST_COPY ? (size_t)(bench->bytes / 2) : MOST_COPY;
    void *from = NULL, *to = NULL;
    double seconds = 0, ignored;
    bytes = bytes < 64 ? 64 : bytes;
    bool ok = tessera_alloc(device, bytes, &from) == TESSERA_OK &&
              tessera_alloc(device, bytes, &to) == TESSERA_OK &&
              tessera_copy_in(device, from, from, 0) == TESSERA_OK;
    rest(bench);
    int times = bytes > (64 << 20) ? 10 : 100;
    ok = ok && tessera_copy_time(device, to, from, bytes, WARM_UPS, &ignored) == TESSERA_OK &&
         tessera_copy_time(device, to, from, bytes, times, &seconds) == TESSERA_OK;
    if (ok && seconds > 0) {
        bench->copy_rate = 2.0 * (double)bytes * times / seconds;
    }
    tessera_release(device, from);
    tessera_release(device, to);
    return ok ? 0 : fail_context(bench->session.context);
}

static void count_bytes(Bench *bench)
{
    for (size_t i = 0; i < bench->arrays.n; i++) {
        const Array *array = &bench->arrays.items[i];
        size_t elements, bytes;
        if (array->param->rank >= 0) {
            tensor_bytes(&array->tensor, &elements, &bytes);
            bench->bytes += (double)bytes * (array->param->io == TESSERA_INOUT ? 2 : 1);
        }
    }
}

/* ---- telling ---- */

static void show(const Bench *b)
{
    const TesseraDeviceInfo *info = tessera_device_info(b->session.device);
    double rate = b->bytes / b->seconds;
    printf("%s on %s\n", b->session.signature->name, info->name);
    for (size_t i = 0; i < b->compile.n_sizes; i++) {
        printf("%s%s=%lld", i ? " " : "sizes    ", b->compile.sizes[i].name,
               (long long)b->compile.sizes[i].value);
    }
    printf("%stime     %.4g ms (median of %d rounds of %d; spread %.1f %%)\n",
           b->compile.n_sizes ? "\n" : "", b->seconds * 1e3, b->options->rounds, b->launches,
           b->spread * 100);
    printf("memory   %.4g MB, %.4g GB/s", b->bytes * 1e-6, rate * 1e-9);
    if (b->copy_rate > 0) {
        printf(", %.2f of the copy rate (%.4g GB/s)", rate / b->copy_rate, b->copy_rate * 1e-9);
    }
    putchar('\n');
    if (b->flops > 0) {
        printf("products %.4g GFLOP, %.4g GFLOP/s\n", b->flops * 1e-9,
               b->flops / b->seconds * 1e-9);
    }
    printf("compile  %.1f ms\n", b->compile_seconds * 1e3);
}

static void show_json(const Bench *b)
{
    const TesseraDeviceInfo *info = tessera_device_info(b->session.device);
    const struct { const char *name, *value; } words[] = {
        {"kernel", b->session.signature->name}, {"device", info->name}, {"target", info->target}};
    const struct { const char *name; double value; } numbers[] = {
        {"seconds", b->seconds}, {"spread", b->spread}, {"bytes", b->bytes},
        {"copy_rate", b->copy_rate}, {"flops", b->flops},
        {"compile_seconds", b->compile_seconds}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        printf("%s\"%s\": ", i ? ", " : "{", words[i].name);
        json_string(stdout, words[i].value);
    }
    fputs(", \"sizes\": {", stdout);
    for (size_t i = 0; i < b->compile.n_sizes; i++) {
        fputs(i ? ", " : "", stdout);
        json_string(stdout, b->compile.sizes[i].name);
        printf(": %lld", (long long)b->compile.sizes[i].value);
    }
    putchar('}');
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        printf(", \"%s\": ", numbers[i].name);
        json_number(stdout, numbers[i].value);
    }
    puts("}");
}

/* ---- the verb ---- */

static int prepare(Bench *bench)
{
    Session *s = &bench->session;
    TesseraResources resources;
    int code = arrays_upload(s, &bench->arrays, true);
    if (code != 0) {
        return code;
    }
    TesseraArg *args = arrays_args(&bench->arrays, true);
    double start = now();
    bool ok = tessera_prepare(s->kernel, s->device, args, bench->arrays.n, &bench->launch) ==
              TESSERA_OK;
    timeout_end();
    bench->compile_seconds += now() - start;
    ok = ok && tessera_kernel_resources(s->kernel, &resources) == TESSERA_OK;
    bench->flops = ok ? resources.flops : 0;
    free(args);
    count_bytes(bench);
    return ok ? 0 : fail_context(s->context);
}

static int measure(Bench *bench)
{
    int code = prepare(bench);
    code = code ? code : time_rounds(bench);
    code = code ? code : time_copy(bench);
    if (code == 0 && bench->options->json) {
        show_json(bench);
    } else if (code == 0) {
        show(bench);
    }
    tessera_launch_free(bench->launch);
    return code;
}

static int bench_in_session(Bench *bench)
{
    Options with_consts;
    Session *s = &bench->session;
    const char *device = bench->options->device ? bench->options->device : "auto";
    if (strcmp(device, "interp") == 0) {
        return fail(TESSERA_USAGE, "the interpreter is not made for speed: `tessera run`");
    }
    int code = arrays_read(bench->options, s, &bench->arrays, &with_consts);
    code = code ? code : session_device(bench->options, device, s);
    code = code ? code : session_options(&with_consts, s, bench->arrays.known, &bench->compile);
    double start = now();
    code = code ? code : session_compile(bench->options, s, &bench->compile);
    bench->compile_seconds = now() - start;
    code = code ? code : arrays_complete(bench->options, s, &bench->compile, true,
                                         &bench->arrays);
    return code ? code : measure(bench);
}

int verb_bench(const Options *options)
{
    Bench bench = {.options = options};
    int code = session_open(options, &bench.session);
    if (code != 0) {
        return code;
    }
    code = bench_in_session(&bench);
    arrays_free(&bench.session, &bench.arrays);
    session_close(&bench.session);
    return code;
}
