/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that reductions, scans and folds have in common: named arguments and axes. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_REDUCE_H
#define TESSERA_FRONTEND_LOWER_LOWER_REDUCE_H

#include "frontend/lower/lower.h"

typedef struct Axes {
    bool all; /* no axis argument: the result is a scalar */
    bool chosen[MAX_RANK];
} Axes;

/* An optional named argument; *value stays NULL without it. */
typedef struct Option {
    const char *name;
    const Expr **value;
} Option;

/* Reads `positional` arguments, then options; otherwise reports an error with this usage. */
bool take_options(Lower *l, const Expr *call, size_t positional, const Option *options, size_t n,
                  const char *usage);
/* axis=1, axis=[0, 1]; NULL: all. */
bool choose_axes(Lower *l, const Expr *axis, int rank, Axes *axes);
/* One axis; NULL: the last. */
bool choose_one(Lower *l, const Expr *call, const Expr *axis, int rank, int *out);
/* A constant bool; NULL: false. */
bool choose_bool(Lower *l, const Expr *expr, bool *out);
/* Reports an axis that an operand of this rank (at least 1) does not have. */
void lower_no_axis(Lower *l, Span span, int64_t axis, int rank);
/* Drops the axes of extent 1 that a reduction of all axes left. */
Value *squeeze_all(Lower *l, Value *value, const Axes *axes, int lanes);

#endif
