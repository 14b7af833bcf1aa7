/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of loops in cycles of a multiprocessor, on which all choices and predictions are based.
 *
 * A step of a loop occupies several resources at the same time and passes values to the next step.
 * Its time is the larger of the time of its resources (ResMII) and of the dependence chain between
 * steps, divided by the number of streams that alternate (RecMII). A tile consists of its steps, a
 * prologue and an epilogue, of which the last two overlap with nothing; a launch takes as long as
 * the tiles of the busiest multiprocessor. */
#ifndef TESSERA_PASSES_ANALYSIS_COST_MODEL_H
#define TESSERA_PASSES_ANALYSIS_COST_MODEL_H

#include "ir/target/machine.h"

#include <stdint.h>

typedef enum CostResource {
    COST_MATRIX, /* the matrix unit */
    COST_ISSUE,  /* issue slots of warps */
    COST_SHARED, /* wavefronts of shared memory and L1, which are one memory */
    COST_L2,     /* bytes from L2 to a multiprocessor */
    COST_MEMORY, /* bytes of global memory, of which a multiprocessor has its fraction */
    COST_CODE,   /* code that the instruction cache does not hold */
    N_COST_RESOURCES
} CostResource;

typedef struct StepCost {
    double busy[N_COST_RESOURCES]; /* cycles that a step keeps each resource busy */
    double recurrence;             /* cycles of the chain from one step to the next; 0: none */
    double streams;                /* warp groups or blocks whose steps alternate; 0: one */
    double exposed;                /* cycles that nothing overlaps: barriers, addresses */
} StepCost;

typedef struct TileCost {
    double steps, step;        /* the number of steps; cycles of each */
    double prologue, epilogue; /* before the first step; after the last one */
} TileCost;

/* Cycles of resources that work at the same time: the norm with exponent 4. It is close to the
 * longest one, and a fifth more if two take equally long (calibrated together with step_overhead of
 * MACHINES on dots). */
double cost_overlap(const double *cycles, int n);
/* The same with another exponent; 1: nothing overlaps. */
double cost_norm(const double *cycles, int n, double exponent);
double cost_overlap2(double a, double b);

/* Cycles of a step, by its resources alone, and in all. */
double cost_resources(const StepCost *step);
double cost_step(const StepCost *step);
double cost_tile(const TileCost *tile);

/* Tiles of the busiest of `places`, each of which takes one at a time. */
int64_t cost_waves(int64_t tiles, int64_t places);
/* The same on average, where the number of tiles for each place is not known exactly: the last of
 * several waves is half full. */
double cost_expected_waves(double tiles_per_place);

/* Cycles of the whole device: to move bytes of global memory at the rate that long copies reach; to
 * execute this many instructions for each of this many elements; between two launches of the
 * host. */
double cost_memory(const Machine *machine, double bytes);
double cost_elements(const Machine *machine, double elements, double instructions);
double cost_launches(const Machine *machine, double launches);

/* The part of memory's rate that this many blocks reach: half of the multiprocessors ask for
 * all. */
double cost_busy(const Machine *machine, double blocks);

/* Of that many cycles of arithmetic, with what barriers, addresses and dependences add. */
double cost_arithmetic(double cycles);

/* Cycles of one multiprocessor for its part of that work, of each of many elements: launches that
 * only copy or compute, and reach less than long copies. */
double cost_copy_each(const Machine *machine, double bytes);
double cost_compute_each(const Machine *machine, double instructions);

#endif
