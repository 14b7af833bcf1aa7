/* SPDX-License-Identifier: Apache-2.0 */
/* Integer values as affine forms: a sum of index variables, each times a size expression. The
 * front end uses them to prove that an index is inside of its axis for all sizes. */
#ifndef TESSERA_FRONTEND_INDEX_AFFINE_H
#define TESSERA_FRONTEND_INDEX_AFFINE_H

#include "frontend/size_proofs.h"

/* An integer with inclusive bounds (NULL: unknown), which hold at every use of its value. */
typedef struct IndexVar {
    uint32_t id; /* orders the terms of a sum */
    Dim least, most;
    const struct IndexVar *within; /* the range of which it iterates over a part, or NULL */
    int64_t
        min_distance; /* of the start of a range: two of them are at least so far apart; else 0 */
} IndexVar;

typedef struct AffineTerm {
    const IndexVar *var;
    Dim coef;
} AffineTerm;

typedef struct Affine {
    Dim base;
    int n;
    AffineTerm terms[]; /* by id; no coefficient is 0 */
} Affine;

/* NULL if an operand is NULL, or if the result is not affine. */
const Affine *affine_const(Func *func, Dim base);
const Affine *affine_var(Func *func, const IndexVar *var);
const Affine *affine_add(Func *func, const Affine *a, const Affine *b);
const Affine *affine_sub(Func *func, const Affine *a, const Affine *b);
const Affine *affine_mul(Func *func, const Affine *a, const Affine *b);

/* The variable if the sum is exactly one; else NULL. */
const IndexVar *affine_as_var(const Affine *a);
/* A bound for all values of the variables, or NULL. */
Dim affine_least(Func *func, const Affine *a);
Dim affine_most(Func *func, const Affine *a);
/* True if 0 <= a < extent is proven. */
bool affine_inside(Func *func, const Affine *a, Dim extent);

#endif
