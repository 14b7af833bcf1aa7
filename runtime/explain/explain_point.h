/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration of the loops around an op: the values of sizes, ranges and indices in it. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_POINT_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_POINT_H

#include "ir/ir.h"

typedef struct Bound {
    bool known;
    int64_t first, end; /* of a range; a scalar: first */
    int64_t least;      /* elements before it are not the range's: rows that begin aligned */
} Bound;

typedef struct EvalPoint {
    Func *func;
    int64_t *dims; /* by DimVar.id: sizes, and how long ranges are; -1: not known */
    Bound *bound;  /* by Value.id */
    int steps;     /* left to the present evaluation */
    int64_t taken; /* by all of them */
    bool guessed;  /* the present evaluation met what is not known */
} EvalPoint;

EvalPoint context_of(Func *func, const int64_t *sizes);
bool context_dim(const EvalPoint *context, Dim dim, int64_t *out);
/* An argument of a loop or grid in the round that begins at `first`; `step` 0: it is an index. */
void context_bind(EvalPoint *context, const Value *arg, int64_t first, int64_t step, int64_t end);
/* Element `coords` of an integer or bool value; what data decides is guessed, always alike, and
 * `guessed` set. False when nothing can be said. */
bool context_eval(EvalPoint *context, const Value *value, const int32_t *coords, int64_t *out);
bool context_scalar(EvalPoint *context, const Value *value, int64_t *out);

#endif
