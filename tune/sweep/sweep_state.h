/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the files of a sweep share. Private to the component. */
#ifndef TESSERA_TUNE_SWEEP_SWEEP_STATE_H
#define TESSERA_TUNE_SWEEP_SWEEP_STATE_H

#include "tune/sweep/sweep.h"
#include "tune/sweep/worker_pool.h"

enum {
    GROUP = 8,       /* candidates that take turns, beside the derived one */
    ROUNDS = 5,      /* of turns */
    MAX_ROUNDS = 25, /* of the last measurement */
    AHEAD = 2,       /* batches that are compiled while one is measured */
    FINALISTS = 8,
};

typedef enum CandidateStage {
    CANDIDATE_NEW,
    CANDIDATE_WEIGHED, /* distinct, and it may be measured */
    CANDIDATE_OUT,     /* the same as another, another shard's, or it cannot be */
    CANDIDATE_MADE,    /* there is machine code */
    CANDIDATE_DONE,    /* measured, or failed */
} CandidateStage;

typedef struct Candidate {
    const char *asked;    /* lines that are given, `;` between keys; the first one's: none */
    const char *searched; /* lines that were searched, as they came out, a key a line */
    CandidateStage stage;
    TuneStatus status;
    const char *message; /* or NULL */
    double predicted, roof;
    uint64_t code, bits;
    const char *steps; /* of ranges, on which roundings depend */
    double first;      /* seconds of its first launch */
    double relative;   /* to the derived one, median of turns; NaN */
    double seconds;    /* median of the same turns */
    double ratios[ROUNDS];
    size_t n_ratios;
    bool final;
    Median time;                      /* of the last measurement, where `final` */
    Median share;                     /* likewise: of the derived one's time, turn by turn */
    double earlier_low, earlier_high; /* of an earlier sweep, relative; 0: this one's */
    size_t earlier_count;
} Candidate;

typedef enum DeviceStep {
    DEVICE_STARTS, /* makes its arrays */
    DEVICE_LOADS,  /* the candidate `at` of the group, -1: the derived one */
    DEVICE_TURNS,  /* measures the candidate `at` */
    DEVICE_IDLE,   /* the derived one is loaded */
    DEVICE_GONE,   /* there is no such device */
} DeviceStep;

typedef struct Device {
    Worker worker;
    const char *name; /* "cuda:0" */
    DeviceStep step;
    size_t group[GROUP];
    bool bad[GROUP]; /* failed since */
    size_t n;        /* 0: it has nothing to do */
    bool last;       /* the last measurement */
    int at;
    size_t round, rounds;
    bool launched, waits;                  /* what is being loaded; it is not there yet */
    double samples[GROUP + 1][MAX_ROUNDS]; /* the derived one's first */
    int restarts;                          /* in a row */
    double given, turn_began;              /* of a turn: seconds it should take */
    SweepPhase part;                       /* what it does, */
    double since;                          /* since when */
    double parts[SWEEP_PARTS];
} Device;

typedef enum JobKind { JOB_NONE, JOB_START, JOB_WEIGH, JOB_MAKE, JOB_BOUND } JobKind;

typedef struct Compiler {
    Worker worker;
    JobKind job;
    size_t candidate; /* JOB_BOUND: of `bounds` */
    double began;
} Compiler;

typedef struct Lines {
    const char **items;
    size_t n, cap;
} Lines;

/* How far answers may be from the derived schedule's, by the interpreter: of candidates that walk
 * ranges in the same steps. */
typedef struct Bound {
    const char *steps;
    size_t candidate;    /* one of those; the derived one: 0 */
    double cost;         /* that is tried next; 0: it is settled */
    bool asked;          /* a worker is at it */
    Lines lines, coming; /* for the workers that measure; of the try under way */
} Bound;

/* Candidates that were chosen together. */
typedef struct Batch {
    size_t *items;
    size_t n, next; /* handed out */
} Batch;

typedef struct Sweep {
    Arena *arena;
    const TesseraSpace *space;
    const TuneRecord *base;
    const SweepOptions *options;
    TuneStore *store;
    SweepResult *result;
    TesseraStatus status;
    const char *why; /* it cannot go on */
    bool failed;

    struct {
        Candidate *items;
        size_t n, cap;
    } candidates; /* the derived one first */
    size_t to_weigh;

    Compiler *compilers;
    size_t n_compilers;
    Device *devices;
    size_t n_devices;

    /* What is being compiled, the first of them to be measured next; what is being measured. */
    Batch making[AHEAD], measuring;
    size_t n_making, open; /* open: of `measuring`, not settled */
    Search search;
    size_t *rows;  /* item of the search → candidate */
    size_t *items; /* candidate → item */

    struct {
        Bound *items;
        size_t n, cap;
    } bounds; /* the derived one's first */

    bool first_made;       /* the derived one's code: nothing is loaded before */
    double make_seconds;   /* that compiling a candidate may take */
    double began, derived; /* seconds of the derived one, so far */
    double derived_turns;  /* of its first turns; 0: there were none */
    double derived_first;
    size_t taken; /* candidates that were handed out */
    double searching_began, measuring_began, last_began;
    const char *doing;
    double last_report;
    size_t compiled;
    double compiling;
    double turns_given, turns_taken; /* seconds that turns should have taken, and took */
} Sweep;

/* ---- candidates (sweep_candidates.c) ---- */

void sweep_enumerate(Sweep *s);
/* After weighing: which are distinct, and this shard's; the search. */
void sweep_sort_out(Sweep *s);
void candidate_fail(Sweep *s, size_t candidate, TuneStatus status, const char *message);

/* ---- workers that compile (sweep_compilers.c) ---- */

bool compilers_start(Sweep *s);
/* Gives work to who has none. */
void compilers_feed(Sweep *s);
void compiler_line(Sweep *s, Compiler *compiler, char *line);
void compiler_exited(Sweep *s, Compiler *compiler, bool late);

/* ---- what the interpreter allows (sweep_tolerance.c) ---- */

void bounds_begin(Sweep *s);
/* The one for a candidate, which is asked for from now on; NULL: its bits are to be the derived
 * one's. */
Bound *bound_for(Sweep *s, size_t candidate);
bool bound_done(const Bound *bound);
/* One that a worker is to be asked for; NULL: there is none. */
Bound *bound_to_ask(Sweep *s);
/* A worker has a line for it: "envelope", "bounded SECONDS WHOLE", or it failed. */
void bound_line(Sweep *s, Bound *bound, const char *line);
void bound_failed(Bound *bound);

/* ---- workers that measure (sweep_measurers.c) ---- */

bool device_start(Sweep *s, Device *device);
/* Gives it n candidates to measure. */
void device_give(Sweep *s, Device *device, const size_t *candidates, size_t n, bool last);
void device_line(Sweep *s, Device *device, char *line);
void device_gone(Sweep *s, Device *device, bool late);
/* The derived schedule's code is there. */
void device_first_made(Sweep *s, Device *device);
/* What the interpreter allows is known: who waits for it goes on. */
void device_bounded(Sweep *s, Device *device, size_t bound);
/* What it does from now on. */
void device_does(Device *device, SweepPhase part);
/* That a candidate takes, of those that compile or those that measure, who takes longer; both where
 * one waits for the other. 0: nothing is known. */
double sweep_each_seconds(const Sweep *s);
size_t sweep_last_rounds(const Sweep *s);
double sweep_last_seconds(const Sweep *s);

/* ---- what is kept and told (sweep_record.c) ---- */

void sweep_keep(Sweep *s, const size_t *candidates, size_t n);
void sweep_keep_all(Sweep *s);
void sweep_resume(Sweep *s);
void sweep_tell(Sweep *s, bool now);
void sweep_result(Sweep *s);
void sweep_failed(Sweep *s, TesseraStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The word at *line, which is moved past it. */
char *line_word(char **line);

#endif
