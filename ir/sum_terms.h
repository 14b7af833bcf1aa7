/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of which each term adds several products, as the real part of a product of complex numbers:
 * `sum(k in K) (a[i, k] * b[k, j] - c[i, k] * d[k, j])`. A backend may sum the products one by one
 * (docs/language.md); the pass that does so and the interpreter's bound ask the same questions. */
#ifndef TESSERA_IR_SUM_TERMS_H
#define TESSERA_IR_SUM_TERMS_H

#include "ir/ir.h"

enum { MAX_ADDENDS = 8 };

typedef struct Addend {
    Value *factors[2];
    bool negative;
} Addend;

typedef struct Addends {
    Addend items[MAX_ADDENDS];
    int n;
} Addends;

/* The products that the value adds; false: it adds something else, too few or too many, or
 * something else reads a part. */
bool value_addends(const Func *func, const Value *value, Addends *found);

/* Sums right behind one another. */
typedef struct SumNest {
    Op *innermost, *outermost;
    unsigned summed; /* axes of what the innermost one sums, as bits */
} SumNest;

/* True for a sum along one axis. */
bool op_is_sum(const Op *op);
/* The sums that begin with this one. */
SumNest sum_nest(const Func *func, Op *innermost);
/* The innermost sum of which the value is the term, behind conditions that leave terms out, or one
 * of the addends of the term; NULL: there is none. `term`: what adds the addends. */
Op *value_summed_by(const Func *func, const Value *value, const Value **term);

#endif
