/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of a pipelined launch over time: what TMA loads, what the matrix unit multiplies,
 * and how long each role waits, for one block. In the steady state a step takes as long as the
 * model that predicts the launch's time expects. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_TIMELINE_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_TIMELINE_H

#include "runtime/explain/explain_report.h"

enum { MAX_LANES_DRAWN = 8, LANE_COPIES = 0, LANE_PRODUCTS = 1, LANE_ROLES = 2 };

typedef enum SpanKind {
    SPAN_COPY,
    SPAN_PRODUCT,
    SPAN_WORK,
    SPAN_WAIT,  /* for copies, or for a stage that is free */
    SPAN_WATCH, /* for a product that runs */
    N_SPAN,
} SpanKind;

typedef struct TimeSpan {
    SpanKind kind;
    int lane, step;
    double from, upto; /* cycles */
    const char *what;  /* "x"; what is waited for */
} TimeSpan;

typedef struct Lane {
    const char *name;
    double share[N_SPAN]; /* of a step in the steady state; of roles */
    bool idle;            /* a team whose turn comes with the next tile */
} Lane;

typedef struct Timeline {
    Lane lanes[MAX_LANES_DRAWN];
    int n_lanes, n_steps;
    double period; /* cycles of a step in the steady state */
    double alone;  /* the same by the rates of the units alone */
    double clock;  /* cycles a second */
    int resident;  /* blocks of the multiprocessor */
    bool expected; /* the period is that of the model; else it knows of no steps */
    struct {
        TimeSpan *items;
        size_t n, cap;
    } spans;
} Timeline;

/* False: the launch has no asynchronous copies in a loop, its rates are not known, or teams take
 * turns with tiles that have fewer steps than are drawn. */
bool timeline_make(const Report *report, const LaunchReport *launch, Timeline *timeline);

#endif
