/* SPDX-License-Identifier: Apache-2.0 */
/* Runs many programs in one process: each is interpreted, compiled in several ways, run and
 * compared. */
#ifndef TESSERA_TESTS_FUZZ_H
#define TESSERA_TESTS_FUZZ_H

#include <tessera/tessera.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_NAMES = 24, MAX_RUNS = 64, MAX_WORDS = 8, MAX_MESSAGE = 1600 };

/* How the elements of a parameter are drawn. */
typedef struct Data {
    const char *param, *kind; /* normal special full small */
    int64_t most;             /* of small: 0 … most, seldom beyond */
} Data;

/* A way to compile and run: "O3 skip hoist line tile M 4", "passes sm_90a", "code gfx942 hsaco". */
typedef struct Way {
    const char *text;
    const char *passes, *stop; /* interpreted, as the passes for it leave it (up to `stop`) */
    const char *code, *kind;   /* code of that kind is made for it, and not run */
    int optimize;
    const char *skip[MAX_WORDS], *lines[MAX_WORDS];
    size_t n_skip, n_lines;
} Way;

/* A program with a head of comments, `#: key value…` (tests/fuzz/README.md). */
typedef struct Case {
    const char *name, *text;
    size_t n;
    TesseraSize sizes[MAX_NAMES];
    TesseraPair bindings[MAX_NAMES], scalars[MAX_NAMES];
    Data data[MAX_NAMES];
    Way ways[MAX_RUNS];
    size_t n_sizes, n_bindings, n_scalars, n_data, n_ways;
    bool any; /* nothing is known of the sizes */
    uint64_t seed;
} Case;

/* Cuts `text`, whose lines it changes, into cases. `*problem`: a wrong line of a head, or NULL. */
size_t cases_read(char *text, Case **cases, const char **problem);

typedef struct Outcome {
    const char *status; /* ok invalid refused differs outside fault internal */
    const char *way;    /* "" for the interpreter */
    char message[MAX_MESSAGE];
    size_t compared, unbounded; /* elements; those whose bound is infinite */
} Outcome;

/* device: "cpu", "cuda", "hip". */
void case_run(const Case *c, const char *device, Outcome *outcome);

/* Fills a parameter, and an array alike for every way that the case is run. */
void data_fill(const Case *c, const char *param, TesseraType type, void *data, size_t n);
void data_scalar(const Case *c, const char *param, TesseraType type, TesseraArg *arg);

void outcome_set(Outcome *outcome, const char *status, const char *way, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
