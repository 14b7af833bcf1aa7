/* SPDX-License-Identifier: Apache-2.0 */
/* Which f32 values are computed from the sums of a dot or of a reduction and are rounded to 16 bits
 * or fewer at every use: these need not be exact (docs/language.md, "Values"). */
#ifndef TESSERA_PASSES_ANALYSIS_ROUNDED_SUMS_H
#define TESSERA_PASSES_ANALYSIS_ROUNDED_SUMS_H

#include "ir/ir.h"

typedef struct RoundedSums {
    const Func *func;
    uint64_t *sums;   /* by value: the sums that it is made of, a bit each (of 64, by number) */
    bool *named;      /* by value: made of a function of them */
    uint64_t *stored; /* by parameter: those that an intermediate in memory is made of */
    bool *wide;       /* by value: more than 16 bits of it are asked for */
} RoundedSums;

/* Of the function as it is; values that are made later are not known. */
RoundedSums an_rounded_sums(Func *func);
/* True if an operand of the op is made of sums, and its result is only rounded. */
bool an_rounds_sums(const RoundedSums *sums, const Op *op);

/* True if the operands of the op are made of sums, whatever its result is used for. */
bool an_made_of_sums(const RoundedSums *sums, const Op *op);

/* True if sums are taken of the value, perhaps moved or where a condition holds, and all else that
 * is made of it is rounded to 16 bits. */
bool an_only_summed(const RoundedSums *sums, const Value *value);

/* True if all that is made of the value is made of sums, too, and is then rounded to 16 bits. */
bool an_only_meets_sums(const RoundedSums *sums, const Value *value);

#endif
