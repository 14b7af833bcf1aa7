/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch takes of a multiprocessor, what it asks of memory, and what to try next. */
#ifndef TESSERA_RUNTIME_EXPLAIN_RESOURCES_H
#define TESSERA_RUNTIME_EXPLAIN_RESOURCES_H

#include "runtime/explain/report.h"

void occupancy_make(const Report *report, LaunchReport *launch);
/* `sizes` by DimVar.id. */
void roofline_make(const Report *report, const int64_t *sizes, LaunchReport *launch);
/* product.c */
void product_make(const Report *report, LaunchReport *launch, int64_t tiles);
/* pipes.c: cycles of a multiprocessor, of what all of them share evenly. */
typedef struct Pipes {
    double issue, matrix, first, shared, unit, second; /* unit: what it reads of shared memory */
    double cycles;                                     /* of all, with what blocks wait for */
    const char *limiter;
} Pipes;
/* Of a launch without copies by the engine, whose accesses are counted. */
Pipes pipes_of(const Report *report, const LaunchReport *launch);
/* predict.c: seconds, and what takes most of them, of GPUs whose rates and sizes are known. */
void predict_make(const Report *report, LaunchReport *launch);
void advice_make(const Report *report, LaunchReport *launch);

#endif
