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

/* ---- cases, and command lines of workers (sweep_cases.c) ---- */

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

/* ---- output (sweep_progress.c) ---- */

typedef struct SweepShow {
    bool terminal, json;
    size_t nth, of;     /* of the cases */
    double last_output; /* time of the last output, if it is not a terminal */
    bool line;          /* the terminal shows a progress line */
} SweepShow;
void sweep_progress(void *user, const SweepProgress *progress);
void sweep_result_show(const TuneRecord *base, const SweepResult *result);
void sweep_ranking_show(const TuneRecord *base, const char *target, const SweepRanking *ranking);
/* As lines of JSON on standard output (sweep_json.c). */
void sweep_ranking_json(const TuneRecord *base, const char *target, const SweepRanking *ranking);
void sweep_progress_json(SweepShow *show, const SweepProgress *progress);
void sweep_result_json(const TuneRecord *base, const SweepResult *result);

/* ---- workers: --work ROLE:PARENT (sweep_worker.c) ---- */

int sweep_work(const Options *options);

typedef struct SweepWork {
    const Options *options;
    Options with_consts;
    Session session;
    Arrays arrays;
    TesseraOptions compile; /* of the derived schedule */
} SweepWork;
/* Compiles a kernel with these entries, separated by `;`; NULL: the context has the error. */
TesseraKernel *sweep_compile(SweepWork *work, const char *lines);
/* The context's error without line breaks. */
const char *sweep_error_text(const SweepWork *work);
/* "room" if the compilation is out of resources, else "refused". */
const char *sweep_error_kind(const SweepWork *work);
/* Reads one request of the parent; false if the parent has ended. */
bool sweep_read(char **line, size_t *capacity);

int sweep_measure(SweepWork *work); /* measure_worker.c */
/* Answers how far results with these entries may be from those of the derived schedule, by runs of
 * the interpreter over `cost` elements (sweep_error_bound.c). */
void sweep_bound(SweepWork *work, double cost, const char *lines);

/* ---- comparing (sweep_compare.c) ---- */

/* Error bounds by magnitude: most[e] holds for elements below 2^(e + MIN_EXPONENT). Larger elements
 * than any that was seen have the same relative bound as the largest of those. */
enum { MIN_EXPONENT = -160, EXPONENTS = 320 };
typedef struct Envelope {
    bool known;
    double most[EXPONENTS];
} Envelope;
void envelope_add(Envelope *envelope, double value, double bound);
/* After the last element: magnitudes without elements take the bound of an adjacent one; all bounds
 * are multiplied by `scale`. */
void envelope_close(Envelope *envelope, double scale);
/* "e:bound e:bound …", where it changes; and back. */
void envelope_write(const Envelope *envelope, FILE *to);
void envelope_read(Envelope *envelope, const char *text);

typedef struct SweepDifference {
    size_t different, first; /* elements; the first of them */
    double got, want, bound;
} SweepDifference;
/* True if n elements are within the envelope, or have equal bits if it is NULL. Uses all CPU
 * threads. */
bool sweep_compare(TesseraType type, size_t n, const void *got, const void *want,
                   const Envelope *envelope, SweepDifference *difference);

#endif
