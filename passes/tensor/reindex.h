/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputes values of the tensor level over other axes: each axis of the old space has a form over
 * the new one (a window's tap that counts backwards, a place as stride times another place and a
 * phase). Reads of memory become gathers at the places that the forms say. */
#ifndef TESSERA_PASSES_TENSOR_REINDEX_H
#define TESSERA_PASSES_TENSOR_REINDEX_H

#include "ir/build.h"
#include "passes/analysis/affine_index.h"
#include "passes/analysis/reduction_domain.h"

/* A value over some axes of the new space, in their order. */
typedef struct Spread {
    Value *value; /* NULL: it could not be made */
    unsigned axes;
} Spread;

enum { MAX_MADE = 256, MAX_DERIVED = FORM_AXES - MAX_RANK };

typedef struct Reindex {
    Builder b;
    Memo *forms, *varies;          /* of an_index_form and an_varies */
    const ReductionDomain *domain; /* whose selects count as their first values */
    bool reduces; /* reductions are made again; otherwise what they leave is read */
    int old_rank;
    Dim old_dims[FORM_AXES];
    const IndexForm *at[FORM_AXES]; /* of each old axis, over the new ones */
    int rank;
    Dim dims[MAX_RANK];          /* of the new axes */
    Spread derived[MAX_DERIVED]; /* the values of the forms' axes from MAX_RANK on */
    Spread places[MAX_RANK];     /* made once: the places along the new axes */
    struct {
        const Value *value;
        int axes[MAX_RANK];
        Spread by;
    } made[MAX_MADE];
    int n_made;
} Reindex;

/* The value, axis i of which is the old axis axes[i] (-1: one element along it), over the new axes.
 * Its `value` is NULL where that cannot be said with gathers. */
Spread reindex_value(Reindex *r, Value *value, const int *axes);
/* i64: the form over the new axes. */
Spread reindex_form(Reindex *r, const IndexForm *form);
/* Over these axes, which include its own. */
Value *reindex_spread(Reindex *r, Spread of, unsigned axes);
/* An element-wise op of two such values. */
Spread reindex_binary(Reindex *r, OpKind kind, Spread a, Spread c);
/* The float factor where the condition holds, else 0. */
Spread reindex_masked(Reindex *r, Spread factor, Spread condition);

#endif
