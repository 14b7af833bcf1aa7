/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a kernel with one change and asks the cost model what the change gains: for the hints of
 * a report, and for the facts that would change its plan. Diagnostics and memory of an attempt are
 * dropped. */
#ifndef TESSERA_RUNTIME_API_ATTEMPT_H
#define TESSERA_RUNTIME_API_ATTEMPT_H

#include "runtime/compile/compilation.h"
#include "runtime/context/compiler_context.h"
#include "runtime/explain/explain_report.h"

typedef struct Attempt {
    Compilation compilation;
    bool brief;               /* few iterations of loops are looked at, and no code is made */
    const TesseraSize *sizes; /* for which the report is, without the code's knowing them, … */
    size_t n_sizes;           /* … where there are any (brief) */
    void (*look)(const Func *, void *user); /* at what was compiled, before it is dropped */
    void *user;
    double seconds;           /* expected; 0: not known, or it cannot be made */
    double cost;              /* of the attempt, in seconds of a nominal machine */
    double code_bytes;
} Attempt;

/* The kernel as it is; its options are then changed. */
Attempt attempt_of(const Compilation *c, bool brief);
void attempt_make(const Compilation *c, Attempt *at);

/* What the passes print, and how long they take, is of the program as it is: not of attempts
 * between these. */
TesseraDebug attempts_begin(const Compilation *c);
void attempts_end(const Compilation *c, const TesseraDebug *saved);

/* The cost of a report, in the same seconds. */
double attempt_report_cost(const Report *report);
/* Seconds that the compiled kernel is expected to take for these sizes, by a brief report, and that
 * report's cost; 0: not known. */
double attempt_seconds(Compilation *c, const TesseraSize *sizes, size_t n, double *cost);

#endif
