/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed command line, and the table of options. */
#ifndef TESSERA_CLI_OPTIONS_H
#define TESSERA_CLI_OPTIONS_H

#include <stdio.h>
#include <tessera/tessera.h>

typedef struct Strings {
    const char **items;
    size_t n;
} Strings;

enum { NO_TIMEOUT = -1 }; /* none is given */

/* M=1k..16k:x2 or :+512 */
typedef struct SizeRange {
    const char *name;
    int64_t first, last, factor, step; /* one of factor and step is 0 */
} SizeRange;
/* The next value; false: there was none, and it is the first one again. */
bool size_range_next(const SizeRange *range, int64_t *value);

typedef struct Options {
    const char *path, *kernel; /* FILE.tile:KERNEL */
    Strings values;            /* NAME=VALUE after the file */
    Strings outputs;           /* -o */
    Strings targets, variants; /* --target, of which `target` is the last, --variant */
    struct {
        TesseraPair *items;
        size_t n;
    } sets;
    struct {
        TesseraSize *items;
        size_t n;
    } sizes;
    struct {
        SizeRange *items;
        size_t n;
    } ranges; /* sizes that are walked */
    struct {
        TesseraFact *items;
        size_t n;
    } facts;
    struct {
        TesseraPair *items;
        size_t n;
    } strides;
    Strings lines, skips;
    const char *target, *emit, *device, *stop_after, *print_after;
    uint64_t seed;
    int threads, rounds, optimize;
    bool no_jit;
    const char *isolate; /* or NULL */
    int timeout;         /* seconds, 0: any; or NO_TIMEOUT */
    int64_t limit;       /* bytes; -1: none is given */
    bool check, json, print_changed, time_passes, count_work, verify;
    bool describe, dependencies, csv;
    const char *compare, *trace, *trap, *html;
    const char *store, *pins; /* files; NULL: where they are by themselves */
    bool no_pins, all;
    /* Of tune; sizes and types as they stand: they may be given again and again. */
    Strings set_texts, size_texts;
    const char *budget, *strategy, *shard, *devices, *work;
    int candidates, workers;
    bool resume;
    Strings allow; /* codes of warnings */
    bool deny;     /* warnings are errors */
} Options;

typedef struct Command {
    const char *name, *synopsis, *doc;
    unsigned int bit; /* in OptionRow.verbs */
    int (*run)(const Options *options);
} Command;

typedef struct OptionRow {
    const char *name, *value; /* "--set", "T=bf16,…"; value NULL: a switch */
    unsigned int verbs;
    const char *doc;
} OptionRow;

enum {
    VERB_RUN = 1,
    VERB_COMPILE = 2,
    VERB_EXPLAIN = 4,
    VERB_BENCH = 8,
    VERB_OTHER = 16,
    VERB_FMT = 32,
    VERB_CHECK = 64,
    VERB_DOCTOR = 128,
    VERB_CACHE = 256,
    VERB_TUNE = 512,
};

extern const OptionRow option_rows[];
extern const size_t n_option_rows;
/* 0, or the exit code after a message. */
int options_read(const Command *verb, int argc, char **argv, Options *options);
/* One piece of the value of such options, which `option` names in messages. */
int set_read(const char *option, const char *piece, Options *options);
int size_read(const char *option, const char *piece, Options *options);
int fact_read(const char *option, const char *piece, Options *options);
int strides_read(const char *option, const char *text, Options *options);
/* "M" of "M=3", kept, or NULL when it is no NAME=VALUE. */
char *name_before(const char *text, char separator);
/* FILE and KERNEL of FILE.tile[:KERNEL], kept; kernel NULL: there is none. */
void path_split(const char *text, const char **path, const char **kernel);

const Command *cmd_rows(size_t *n);

#endif
