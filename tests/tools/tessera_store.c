/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a tuning store with given measurements, for tests of the programs that read it:
 *
 *     tessera-store STORE.db FILE.tile:KERNEL T=f32,M=64 DEVICE ARCH [VERSION] < rows
 *
 * DEVICE `cpu` is this machine's CPU, whatever ARCH says. A row is
 *
 *     ok 7 1.0e-6 0.9e-6 1.1e-6 1.2e-6 | tile M 4; vector 8 | message
 *
 * status (or `derived`, which means ok; `-` stands for a space in it), count, median, low, high
 * and predicted seconds, the candidate's schedule entries, and the message. After the predicted
 * seconds a row may contain the result of a sweep: the speedup over the derived schedule, its
 * interval, and `open`, `stays` or `faster`. Without them it is a row of a store of schema 1. */
#include "tune/store/tune_store.h"

#include <tessera/tessera.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAIRS = 32, MAX_ROW = 4096 };

static Arena arena;

static int fail(const char *what)
{
    fprintf(stderr, "tessera-store: %s\n", what);
    return 2;
}

/* Names that are sizes of the kernel, and others. */
static void split(const TesseraSignature *signature, const char *text, TesseraPair *pairs,
                  size_t *n, TesseraSize *sizes, size_t *n_sizes)
{
    char *copy = arena_strdup(&arena, text), *state = NULL;
    for (char *at = strtok_r(copy, ",", &state); at; at = strtok_r(NULL, ",", &state)) {
        char *equals = strchr(at, '=');
        if (!equals) {
            continue;
        }
        *equals = '\0';
        bool size = false;
        for (size_t i = 0; i < signature->n_sizes; i++) {
            size = size || strcmp(signature->sizes[i], at) == 0;
        }
        if (size) {
            sizes[(*n_sizes)++] = (TesseraSize){at, strtoll(equals + 1, NULL, 10)};
        } else {
            pairs[(*n)++] = (TesseraPair){at, equals + 1};
        }
    }
}

static int identify(char **argv, TuneRecord *record)
{
    TesseraContext *context;
    TesseraProgram *program;
    TesseraDevice *device = NULL;
    const TesseraSignature *signature;
    TesseraTuning tuning;
    TesseraPair pairs[MAX_PAIRS];
    TesseraSize sizes[MAX_PAIRS];
    size_t n = 0, n_sizes = 0;
    char *path = arena_strdup(&arena, argv[2]), *colon = strrchr(path, ':');
    if (colon) {
        *colon = '\0';
    }
    if (tessera_context_new(NULL, &context) != TESSERA_OK ||
        tessera_program_read(context, path, &program) != TESSERA_OK ||
        tessera_program_find(program, colon ? colon + 1 : NULL, &signature) != TESSERA_OK) {
        return fail("no such kernel");
    }
    split(signature, argv[3], pairs, &n, sizes, &n_sizes);
    bool cpu = strcmp(argv[4], "cpu") == 0;
    TesseraOptions options = {.kernel = signature->name,
                              .target = "native",
                              .bindings = pairs,
                              .n_bindings = n,
                              .sizes = sizes,
                              .n_sizes = n_sizes};
    if ((cpu && tessera_device_open(context, "cpu", 0, &device) != TESSERA_OK) ||
        tessera_tuning(program, &options, device, &tuning) != TESSERA_OK) {
        return fail(tessera_error(context)->message);
    }
    record->kernel = arena_strdup(&arena, tuning.kernel);
    record->digest = arena_strdup(&arena, tuning.digest);
    record->types = arena_strdup(&arena, tuning.types);
    record->bucket = arena_strdup(&arena, tuning.bucket);
    record->sizes = arena_strdup(&arena, tuning.sizes);
    record->device = arena_strdup(&arena, cpu ? tuning.device : argv[4]);
    record->arch = arena_strdup(&arena, cpu ? tuning.arch : argv[5]);
    tessera_program_free(program);
    tessera_device_free(device);
    tessera_context_free(context);
    return 0;
}

static const char *trimmed(const char *text, size_t n)
{
    while (n > 0 && (*text == ' ' || *text == '\n')) {
        text++;
        n--;
    }
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\n')) {
        n--;
    }
    return arena_strndup(&arena, text, n);
}

static bool read_row(const char *row, TuneRecord *record)
{
    static const char *const verdicts[] = {"open", "stays", "faster"};
    char status[32], verdict[32] = "open";
    long long count;
    record->ratio = record->ratio_low = record->ratio_high = (double)NAN;
    const char *bar = strchr(row, '|'), *second = bar ? strchr(bar + 1, '|') : NULL;
    int found = sscanf(row, "%31s %lld %lf %lf %lf %lf %lf %lf %lf %31s", status, &count,
                       &record->median, &record->low, &record->high, &record->predicted,
                       &record->ratio, &record->ratio_low, &record->ratio_high, verdict);
    if (found != 6 && found != 10) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        record->verdict = strcmp(verdicts[i], verdict) == 0 ? (TuneVerdict)i : record->verdict;
    }
    for (char *at = status; *at; at++) {
        *at = *at == '-' ? ' ' : *at;
    }
    record->count = count;
    record->derived = strcmp(status, "derived") == 0;
    record->roof = record->median > 0 ? 5e-7 : (double)NAN;
    char *lines = arena_strdup(&arena, "");
    if (bar) {
        const char *text = trimmed(bar + 1, second ? (size_t)(second - bar - 1) : strlen(bar + 1));
        Text all = text_new(&arena);
        for (; *text; text++) {
            text_char(&all, *text == ';' ? '\n' : *text);
            text += *text == ';' && text[1] == ' ';
        }
        lines = all.n ? all.data : lines;
    }
    record->candidate = lines;
    record->message = second ? trimmed(second + 1, strlen(second + 1)) : "";
    return tune_status_find(record->derived ? "ok" : status, &record->status);
}

int main(int argc, char **argv)
{
    TuneRecord record = {.version = argc > 6 ? argv[6] : tessera_version(), .when = 1700000000};
    TuneStore *store;
    const char *why;
    char row[MAX_ROW];
    if (argc < 6) {
        return fail("wants STORE FILE:KERNEL NAME=VALUE,... DEVICE ARCH");
    }
    arena_init(&arena, allocator_default());
    int code = identify(argv, &record);
    if (code != 0) {
        return code;
    }
    if (!tune_store_open(&arena, argv[1], TUNE_WRITE, &store, &why)) {
        return fail(why);
    }
    while (code == 0 && fgets(row, sizeof row, stdin)) {
        if (!read_row(row, &record)) {
            code = fail(row);
        } else if (!tune_store_insert(store, &record, 1, &why)) {
            code = fail(why);
        }
    }
    tune_store_close(store);
    arena_free(&arena);
    return code;
}
