/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of `tessera bench` share. */
#ifndef TESSERA_CLI_COMMANDS_CMD_BENCH_H
#define TESSERA_CLI_COMMANDS_CMD_BENCH_H

#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"

/* Earlier measurements (bench_baseline.c). */
typedef struct BaseEntry {
    char *kernel, *target;
    TesseraSize *sizes;
    size_t n_sizes;
    double seconds, spread;
} BaseEntry;
typedef struct Baseline {
    BaseEntry *items;
    size_t n, cap;
} Baseline;
/* What `--json` wrote, one object after the other, or a list of them. */
int baseline_read(const char *path, Baseline *base);
void baseline_free(Baseline *base);
/* Of the same kernel, target and sizes, or NULL. */
const BaseEntry *baseline_find(const Baseline *base, const char *kernel, const char *target,
                               const TesseraSize *sizes, size_t n);

typedef struct Bench {
    const Options *options;
    const Baseline *base;
    size_t nth; /* of those that are walked */
    Session session;
    Arrays arrays;
    TesseraOptions compile;
    TesseraLaunch *launch;
    double seconds, spread, copy_rate, compile_seconds;
    int launches;
    double bytes, flops;
} Bench;

/* bench_output.c */
void bench_show(const Bench *bench);

#endif
