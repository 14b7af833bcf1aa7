/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the gain and the cost of copying an operand into a form that TMA or a matrix
 * instruction can read. */
#ifndef TESSERA_PASSES_ANALYSIS_REPACK_COST_H
#define TESSERA_PASSES_ANALYSIS_REPACK_COST_H

#include "passes/analysis/computed_operand.h"

typedef struct RepackBenefit {
    bool known, pays; /* the sizes; the copy, by them */
} RepackBenefit;

/* How threads bring an operand that the copy engine cannot, if nothing is copied before. */
typedef enum RepackWay {
    REPACK_ASYNC,    /* by copies of 4 bytes and more, which no register holds */
    REPACK_ELEMENTS, /* element by element through registers */
    REPACK_WARPS,    /* for single warps, since no warp group multiplies operands that lie so */
    REPACK_THREADS,  /* for threads that multiply and add by themselves */
    N_REPACK_WAYS
} RepackWay;

/* The tensors of a product that the copy engine could bring if a launch copied each of them first.
 * All are copied, or none: while threads bring one operand, the product gains nothing. Where sizes
 * are not known, nominal ones count for the first two ways. */
typedef struct RepackProblem {
    const Op *dot;
    RepackWay way;
    Type tensors[2];
    int n;
} RepackProblem;
RepackBenefit an_repack_benefit(const Func *func, const RepackProblem *problem);

/* The same of one operand, in cycles of a multiprocessor: what each multiplication gains, and what
 * the copy of an element costs. */
RepackBenefit an_repack_gain(const Func *func, const Op *dot, Type tensor, double gain,
                             double cost);

/* The same for an operand that the product computes: a launch of its own computes it once, instead
 * of once for each tile of the other operand. `warpgroups`: wgmma multiplies it. */
RepackBenefit an_repack_computed(const Func *func, const Op *dot, const ComputedOperand *operand,
                                 bool warpgroups);

/* The schedule entry of a pass that makes such copies: those that pay, or all where the user's
 * entry says so. */
typedef struct RepackDecision {
    bool any, known, pays; /* of the copies that may be made: is there one, … */
    bool given, on;
} RepackDecision;
/* Why the entry is on or off: a copy pays, none does, or sizes that would tell are not known. */
typedef struct RepackReasons {
    const char *pays, *costs, *unknown;
} RepackReasons;

/* A copy that may be made; all of them come before the decision. */
void an_repack_consider(RepackDecision *decision, const RepackBenefit *copy);
void an_repack_decide(Func *func, const char *key, const RepackReasons *why,
                      RepackDecision *decision);
bool an_repack_is_made(const RepackDecision *decision, const RepackBenefit *copy);

#endif
