/* SPDX-License-Identifier: Apache-2.0 */
/* Builds instances of values (passes/analysis/computations.h): the elements of a tensor-level value
 * at the indices that maps give, over new axes (a tap that counts backwards; a position as stride
 * times another position plus a phase). Reads of memory become gathers at the indices of the
 * maps. */
#ifndef TESSERA_PASSES_TENSOR_REINDEX_H
#define TESSERA_PASSES_TENSOR_REINDEX_H

#include "ir/build.h"
#include "passes/analysis/computations.h"

/* A value over some axes of the new space, in their order. */
typedef struct Spread {
    Value *value; /* NULL: it could not be made */
    unsigned axes;
} Spread;

typedef struct Reindex {
    Builder b;
    Computations *all;
    Memo *varies;       /* of an_varies */
    const Compute *sum; /* whose conditions count as true; NULL: none */
    bool reduces;       /* reductions are made again; otherwise what they leave is read */
    bool products;      /* so are dots; what gathers that check nothing read is not gathered */
    int rank;
    const Axis *axes[MAX_RANK]; /* of the new space; NULL: of one element */
    Dim dims[MAX_RANK];
    struct {
        struct Reindexed **items;
        size_t n, cap;
    } places; /* along axes, each made once */
    HashTable made;
} Reindex;

/* The elements over the new axes. The `value` is NULL where that cannot be said with gathers. */
Spread reindex_instance(Reindex *r, const Instance *of);
/* The elements are these from now on. */
void reindex_define(Reindex *r, const Instance *of, Spread by);
/* i64: the map over the new axes. */
Spread reindex_map(Reindex *r, const Affine *map);
/* Over these axes, which include its own. */
Value *reindex_spread(Reindex *r, Spread of, unsigned axes);
/* An element-wise op of two such values. */
Spread reindex_binary(Reindex *r, OpKind kind, Spread a, Spread c);
/* The float factor where the condition holds, else 0. */
Spread reindex_masked(Reindex *r, Spread factor, Spread condition);
/* A condition of a reduction: the bool array where it holds. */
Spread reindex_condition(Reindex *r, const Constraint *constraint, const Instance *holds);

/* The space of a sum's products, as they are. */
void reindex_over_term(Reindex *r, const Compute *sum);
/* A value whose axis i is axes[i], which are the axes that the computation keeps, as its result. */
Value *reindex_restored(Builder *b, const Compute *compute, Value *value, const Axis *const *axes);

#endif
