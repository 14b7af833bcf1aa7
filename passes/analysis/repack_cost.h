/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what products read, made once, where the copy engine or a matrix unit can take them. */
#ifndef TESSERA_PASSES_ANALYSIS_REPACK_COST_H
#define TESSERA_PASSES_ANALYSIS_REPACK_COST_H

#include "passes/analysis/computed_operand.h"

typedef struct RepackBenefit {
    bool known, pays; /* the sizes; the copy, by them */
} RepackBenefit;

/* Of a product's operand: is each element multiplied so often, and the product so long, that a copy
 * of the whole tensor by a launch of its own costs less than the product gains? */
RepackBenefit an_repack_benefit(const Op *dot, Type tensor);

/* The same, where a multiplication gains, and an element's copy costs, so many attoseconds. */
RepackBenefit an_repack_gain(const Op *dot, Type tensor, int64_t gain, int64_t cost);

/* Of an operand that is computed in the product: does computing it once, by a launch of its own,
 * take less time than computing it again for each tile of the other operand? `warpgroups`: wgmma
 * multiplies it. */
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
