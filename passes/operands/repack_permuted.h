/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of dot operands in which another axis is contiguous, made by launches of their own
 * (repack_k_major.c, repack_mn_major.c). The copies are pitched, so TMA can load rows of any
 * length. */
#ifndef TESSERA_PASSES_OPERANDS_REPACK_PERMUTED_H
#define TESSERA_PASSES_OPERANDS_REPACK_PERMUTED_H

#include "ir/ir.h"
#include "passes/analysis/repack_cost.h"

/* An operand: a tensor whose axes are permuted, and rounded perhaps. */
typedef struct RepackOperand {
    Op *dot, *load;
    int side, k, free;       /* k, and m or n: which axes of the tensor */
    int last;                /* which one the copy has contiguous; k, unless set */
    int64_t order[MAX_RANK]; /* the tensor's axes, as the product has them */
    bool rounded;
    RepackBenefit copy;
    Value *scratch; /* its copy: the axes but `last` in their order, then that */
} RepackOperand;

/* Do threads multiply f32 operands, since no unit of the target multiplies them exactly? */
bool repack_is_for_threads(const Func *func, const Op *dot);
/* Is the operand a load of an input as it is, or of a part of it? */
bool repack_permuted_find(const Func *func, Op *dot, int side, RepackOperand *found);

/* Operands that may be read so. */
typedef struct Repacker {
    Func *func;
    struct {
        RepackOperand *items;
        size_t n, cap;
    } operands;
    RepackDecision decision;
} Repacker;

void repack_permuted_add(Repacker *t, const RepackOperand *operand);
/* Decides the entry `key`; the products of those operands whose copies are made read them then. */
void repack_permuted_choose(Repacker *t, const char *key, const RepackReasons *why);

#endif
