/* SPDX-License-Identifier: Apache-2.0 */
/* The resources of a multiprocessor that a launch uses, the memory traffic it causes, and what of
 * it may take less time. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_OCCUPANCY_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_OCCUPANCY_H

#include "runtime/explain/explain_report.h"

void occupancy_make(const Report *report, LaunchReport *launch);
/* Of a thread, by the assembler or guessed from what it holds: that it has, and that do not fit. */
typedef struct Registers {
    int used, spilled;
} Registers;
Registers registers_expected(const Report *report, const LaunchReport *launch);
/* `sizes` by DimVar.id. */
void roofline_make(const Report *report, const int64_t *sizes, LaunchReport *launch);
/* explain_memory.c; `tile_loop` of its grid */
void memory_make(const Report *report, LaunchReport *launch, int64_t tiles);
/* explain_dot.c */
void product_make(const Report *report, LaunchReport *launch, int64_t tiles);
/* predict_pipes.c: cycles of a multiprocessor, of what all of them share evenly. */
typedef struct Pipes {
    double issue, matrix, l1, shared, l2;
    double operands; /* wavefronts in which the matrix unit reads its operands */
    double cycles;   /* of all, with what blocks wait for */
    const char *limiter;
} Pipes;
/* Rounds of a loop within the one around it. */
double loop_iterations(const Report *report, const Op *loop);
/* Bytes that a launch asks of L2: what a block loads again hits L1 where that holds its tiles. */
double l2_bytes_of(const Report *report, const LaunchReport *launch);
/* Of a launch without copies by the engine, whose accesses are counted. */
Pipes pipes_of(const Report *report, const LaunchReport *launch);
/* Of a block, without those that only copy. */
int64_t warps_that_compute(const LaunchReport *launch);
/* Of products of warp groups that depend on one another, of a multiprocessor (predict_attention.c).
 * False: there are none. */
typedef struct GroupsCost {
    double steps, step;   /* the number of steps; cycles of each */
    double tiles;         /* cycles in which tiles begin and end */
    double matrix, lanes; /* cycles of the matrix units, and of work on elements, each alone */
} GroupsCost;
bool groups_cost(const Report *report, const LaunchReport *launch, GroupsCost *cost);
/* Cycles of the lanes for the operations on this many elements of such products. */
double groups_work(const Machine *machine, double elements);
/* Where warps multiply by themselves what they have computed from another product, they do one
 * after the other, and others of their scheduler fill that. `alone`: by predict_pipes.c, which
 * knows of no such waiting. */
double chained_cycles(const Report *report, const LaunchReport *launch, double alone);
/* Seconds of a launch of blocks that load, reduce and store, and what each unit takes alone;
 * `memory`: of its bytes. 0: it is not one of those, or nothing is known (predict_reduction.c). */
double course_seconds(const Report *report, const LaunchReport *launch, double clock, double memory,
                      TimeCourse *course);
/* Adds what each unit takes alone, in `cycles_of` seconds; and what follows what is there. */
void course_alone(TimeCourse *course, const char *what, double seconds);
void course_part(TimeCourse *course, const char *what, double seconds);
/* predict.c: seconds, and what takes most of them, of GPUs whose rates and sizes are known. */
void predict_make(const Report *report, LaunchReport *launch);
/* Notes, and what they propose to change. */
void findings_make(Report *report, LaunchReport *launch);

#endif
