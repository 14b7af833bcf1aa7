/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep: the cost model ranks candidates, workers without a device compile them, one worker per
 * device measures them against the derived schedule, and the best are measured again. */
#ifndef TESSERA_TUNE_SWEEP_SWEEP_H
#define TESSERA_TUNE_SWEEP_SWEEP_H

#include "tune/store/tune_store.h"
#include "tune/sweep/search_strategy.h"
#include "tune/sweep/tune_stats.h"

#include <signal.h>

/* What a worker is for; its arguments are the program's own business. */
typedef enum WorkerRole { WORKER_COMPILES, WORKER_MEASURES } WorkerRole;

/* What the time of the devices went into. */
typedef enum SweepPhase {
    SWEEP_STARTS,   /* until the derived schedule is there: contexts, arrays, weighing */
    SWEEP_WAITS,    /* for code, or for what is to be measured next */
    SWEEP_LOADS,    /* code, until it runs */
    SWEEP_COMPARES, /* first launches, and their answers */
    SWEEP_TURNS,
    SWEEP_LAST, /* the last measurement */
    SWEEP_PARTS
} SweepPhase;

/* How a sweep stands, for who watches. */
typedef struct SweepProgress {
    const char *doing;    /* "weighing", "measuring", "measuring the best" */
    double seconds, left; /* since it began; until it ends, as far as is known; < 0: is not */
    size_t done, all;     /* candidates; all 0: is not known */
    size_t failed[TUNE_STATUSES];
    double derived, best; /* seconds, of turns; 0: none yet */
    double ratio;         /* how many times as fast as the derived one the best is, by its turns */
    double roof;          /* 0: not known */
} SweepProgress;

typedef struct SweepOptions {
    Strategy strategy;
    uint64_t seed;
    double budget;     /* seconds; 0: any */
    size_t candidates; /* at most so many are measured; 0: any */
    int shard, shards; /* 1 of 1 */
    bool resume;
    int workers;                /* that compile */
    const char *const *devices; /* "cuda:0", … */
    size_t n_devices;
    bool quiet_device;      /* compiling disturbs it: a CPU */
    double compile_seconds; /* that compiling what is derived may take; others: 8 times that */
    double kernel_seconds;  /* that a launch may take; 0: by what the derived one takes */
    char *const *(*command)(void *user, WorkerRole role, const char *device);
    void *command_user;
    char *const *environment;
    void (*progress)(void *user, const SweepProgress *progress);
    void *user;
    const volatile sig_atomic_t *stop; /* not 0: be done with it, keep what there is */
} SweepOptions;

typedef struct SweepWinner {
    const char *lines; /* searched lines, a key a line */
    Median time;
    Median share; /* of the derived one's time, of turns beside each other */
    double predicted;
    TuneStatus status;
    bool faster; /* surely, than what is derived */
} SweepWinner;

typedef struct SweepResult {
    bool interrupted, empty; /* empty: there is nothing to search, which is a failure */
    const char *unkept;      /* why the store could not be read, or takes no more; else NULL */
    size_t points;           /* of the space; UINT64_MAX: or more */
    size_t weighed, distinct, measured;
    size_t failed[TUNE_STATUSES];
    size_t launched_too_big; /* that the model let pass, and a device refused for want of room */
    Median derived;          /* of what the compiler derives */
    const char *derived_lines;
    double roof;
    SweepWinner *best; /* the finalists, the fastest first; before them one that surely wins */
    size_t n_best;
    bool separated;   /* best[0] is surely faster than what is derived */
    double agreement; /* rank correlation (Spearman) of the model with what was measured; NaN */
    double seconds;
    double parts[SWEEP_PARTS]; /* of them, a device's; of several their mean */
    size_t compiled;
    double compiling; /* seconds of all workers */
} SweepResult;

/* `base` says what is tuned and where: kernel to arch, and the version. False: `why` says in words
 * what was wrong, with the status of the program; NULL: the worker has said it. */
bool sweep_run(Arena *arena, const TesseraSpace *space, const TuneRecord *base,
               const SweepOptions *options, TuneStore *store, SweepResult *result,
               TesseraStatus *status, const char **why);

/* A candidate by the cost model alone. */
typedef struct SweepRanked {
    const char *asked;    /* lines that are given, `;` between keys; the derived one's: none */
    const char *searched; /* lines that were searched, as they came out, a key a line */
    double predicted;     /* seconds; 0: not known */
    uint64_t code;        /* digest of the scheduled code */
} SweepRanked;

typedef struct SweepRanking {
    size_t points, weighed, distinct;
    size_t failed[TUNE_STATUSES];
    SweepRanked *items; /* the derived one, then the others in the order of the strategy */
    size_t n;
} SweepRanking;

/* What a sweep measures when nothing was measured yet: at most options->candidates, or all. It
 * needs no device; otherwise as sweep_run. */
bool sweep_rank(Arena *arena, const TesseraSpace *space, const TuneRecord *base,
                const SweepOptions *options, SweepRanking *ranking, TesseraStatus *status,
                const char **why);

#endif
