/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of a sweep share: the command, its workers, and their protocol. */
#ifndef TESSERA_CLI_TUNE_CMD_TUNE_SWEEP_H
#define TESSERA_CLI_TUNE_CMD_TUNE_SWEEP_H

#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"
#include "tune/sweep/sweep.h"

/* `tessera tune FILE.tile`: for all sizes and types that are given (cmd_tune_sweep.c). */
int tune_sweep(const Options *options);

/* ---- what is swept, and by whom (sweep_cases.c) ---- */

/* The options of each sweep: each of the types with each of the sizes. */
typedef struct SweepCases {
    Options *items;
    size_t n;
} SweepCases;
int sweep_cases_make(const Options *options, SweepCases *cases);

typedef struct SweepCommand {
    const Options *options;
    const char *target, *program;
    char **words;
    size_t n;
} SweepCommand;
/* "name=value", kept. */
const char *sweep_pair(const char *name, const char *value);
/* The words of a worker's command line; `user` is a SweepCommand. */
char *const *sweep_command(void *user, WorkerRole role, const char *device);

/* ---- what is told (sweep_progress.c) ---- */

typedef struct SweepShow {
    bool terminal;
    size_t nth, of; /* of the cases */
    double told;    /* when, where it is no terminal */
    bool line;      /* one stands there */
} SweepShow;
void sweep_progress(void *user, const SweepProgress *progress);
void sweep_result_show(const TuneRecord *base, const SweepResult *result);

/* ---- workers: --work ROLE:PARENT (sweep_worker.c) ---- */

int sweep_work(const Options *options);

typedef struct SweepWork {
    const Options *options;
    Options with_consts;
    Session session;
    Arrays arrays;
    TesseraOptions compile; /* of the derived schedule */
} SweepWork;
/* A kernel with these lines, `;` between keys; NULL: the context knows why. */
TesseraKernel *sweep_compile(SweepWork *work, const char *lines);
/* The context's error, as a piece of a line. */
const char *sweep_words(const SweepWork *work);
/* "room" or "refused", of the error of a compilation. */
const char *sweep_why(const SweepWork *work);
/* One line of what the parent wants; false: it has gone. */
bool sweep_read(char **line, size_t *room);

int sweep_measure(SweepWork *work); /* measure_worker.c */
/* How far answers with these lines may be from the derived schedule's, by runs of the interpreter
 * that walk `cost` elements (sweep_error_bound.c). */
void sweep_bound(SweepWork *work, double cost, const char *lines);

/* ---- comparing (sweep_compare.c) ---- */

/* How far an element may be off, by its magnitude: most[e] for those below 2^(e + MIN_EXPONENT).
 * What is larger than all that was seen may be as far off as those, for its size. */
enum { MIN_EXPONENT = -160, EXPONENTS = 320 };
typedef struct Envelope {
    bool known;
    double most[EXPONENTS];
} Envelope;
void envelope_add(Envelope *envelope, double value, double bound);
/* After the last one: what is not seen takes what is beside it; all of it `scale` times. */
void envelope_close(Envelope *envelope, double scale);
/* "e:bound e:bound …", where it changes; and back. */
void envelope_write(const Envelope *envelope, FILE *to);
void envelope_read(Envelope *envelope, const char *text);

typedef struct SweepDifference {
    size_t different, first; /* elements; the first of them */
    double got, want, bound;
} SweepDifference;
/* Are n elements the same, or within the envelope (NULL: the bits must be the same)? By all threads
 * there are. */
bool sweep_compare(TesseraType type, size_t n, const void *got, const void *want,
                   const Envelope *envelope, SweepDifference *difference);

#endif
