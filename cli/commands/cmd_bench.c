/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera bench`: measures a kernel for each requested size. A time is the median over several
 * rounds of back-to-back launches, with pauses between the rounds. */
#include "cli/commands/cmd_bench.h"

#include "cli/commands/cmd_functions.h"
#include "cli/data/array_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "support/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UPS = 5, MAX_LAUNCHES = 1000, MAX_COPY = 1 << 30 };
static const double ROUND_SECONDS = 0.02, REST_SECONDS = 0.15;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Lets a GPU cool down before a round, because a hot one lowers its clock. */
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
    const Session *s = &bench->session;
    run_begin_on(bench->options, s->signature->name, s->device);
    TesseraStatus status = tessera_launch_time(bench->launch, NULL, times, seconds);
    run_end();
    return status == TESSERA_OK ? 0 : fail_context(s->context);
}

static int time_rounds(Bench *bench)
{
    double first, *rounds = alloc_or_exit((size_t)bench->options->rounds * sizeof *rounds);
    int n = bench->options->rounds;
    int code = launch_times(bench, 1, &first);
    if (code == 0) {
        TesseraMessages messages;
        code = tessera_launch_messages(bench->launch, NULL, &messages) == TESSERA_OK
                   ? fail_assertions(&messages)
                   : fail_context(bench->session.context);
    }
    code = code ? code : launch_times(bench, 1, &first);
    double wanted = first > 0 ? ROUND_SECONDS / first : MAX_LAUNCHES;
    if (wanted < 1) {
        bench->launches = 1;
    } else if (wanted > MAX_LAUNCHES) {
        bench->launches = MAX_LAUNCHES;
    } else {
        bench->launches = (int)wanted;
    }
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

/* ---- the command ---- */

static int prepare(Bench *bench)
{
    Session *s = &bench->session;
    TesseraResources resources;
    int code = arrays_upload(s, &bench->arrays, true);
    if (code != 0) {
        return code;
    }
    TesseraArg *args = arrays_args(&bench->arrays, true);
    timeout_begin(bench->options);
    double start = clock_seconds();
    bool ok =
        tessera_prepare(s->kernel, s->device, args, bench->arrays.n, &bench->launch) == TESSERA_OK;
    timeout_end();
    bench->compile_seconds += clock_seconds() - start;
    ok = ok && tessera_kernel_resources(s->kernel, &resources) == TESSERA_OK;
    bench->flops = ok ? resources.flops : 0;
    free(args);
    /* An array that is read and written counts twice. */
    for (size_t i = 0; i < bench->arrays.n; i++) {
        const Array *array = &bench->arrays.items[i];
        size_t elements, bytes;
        if (array->param->rank >= 0) {
            tensor_bytes(&array->tensor, &elements, &bytes);
            bench->bytes += (double)bytes * (array->param->io == TESSERA_INOUT ? 2 : 1);
        }
    }
    return ok ? 0 : fail_context(s->context);
}

static int measure(Bench *bench)
{
    int code = prepare(bench);
    code = code ? code : time_rounds(bench);
    if (code == 0) {
        TesseraDevice *device = bench->session.device;
        size_t bytes = bench->bytes < 2.0 * MAX_COPY ? (size_t)(bench->bytes / 2) : MAX_COPY;
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
        code = ok ? 0 : fail_context(bench->session.context);
    }
    if (code == 0) {
        bench_show(bench);
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
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "the interpreter is not made for speed: `tessera run`");
    }
    int code = arrays_read(bench->options, s, &bench->arrays, &with_consts);
    code = code ? code : session_device(bench->options, device, s);
    code = code ? code : session_options(&with_consts, s, bench->arrays.known, &bench->compile);
    arrays_give_strides(&bench->arrays, &bench->compile);
    double start = clock_seconds();
    code = code ? code : session_compile(bench->options, s, &bench->compile);
    bench->compile_seconds = clock_seconds() - start;
    code = code ? code : arrays_complete(bench->options, s, &bench->compile, true, &bench->arrays);
    return code ? code : measure(bench);
}

static int bench_once(const Options *options, const Baseline *base, size_t nth)
{
    Bench bench = {.options = options, .base = base, .nth = nth};
    int code = session_open(options, &bench.session);
    if (code != 0) {
        return code;
    }
    code = bench_in_session(&bench);
    arrays_free(&bench.session, &bench.arrays);
    session_close(&bench.session);
    return code;
}

/* ---- sizes that are walked ---- */

/* All combinations, the last range fastest. */
static int sweep(const Options *options, const Baseline *base)
{
    Options here = *options;
    size_t fixed = options->sizes.n, n = options->ranges.n;
    TesseraSize *sizes = session_alloc((fixed + n) * sizeof *sizes);
    for (size_t i = 0; i < fixed; i++) {
        sizes[i] = options->sizes.items[i];
    }
    for (size_t i = 0; i < n; i++) {
        sizes[fixed + i] =
            (TesseraSize){options->ranges.items[i].name, options->ranges.items[i].first};
    }
    here.sizes.items = sizes;
    here.sizes.n = fixed + n;
    for (size_t nth = 0;; nth++) {
        int code = bench_once(&here, base, nth);
        size_t i = n;
        while (code == 0 && i > 0 &&
               !size_range_next(&options->ranges.items[i - 1], &sizes[fixed + i - 1].value)) {
            i--;
        }
        if (code != 0 || i == 0) {
            return code;
        }
    }
}

int cmd_bench(const Options *options)
{
    Baseline base = {0};
    if (options->csv && options->json) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--csv or --json, not both");
    }
    int code = options->compare ? baseline_read(options->compare, &base) : 0;
    code = code ? code : sweep(options, &base);
    baseline_free(&base);
    return code;
}
