/* SPDX-License-Identifier: Apache-2.0 */
/* Results of products whose axes are collapsed. Private to collapse_intermediates.c and
 * collapse_scatters.c and reduce_in_parts.c. */
#ifndef TESSERA_PASSES_TENSOR_COLLAPSE_INTERMEDIATES_H
#define TESSERA_PASSES_TENSOR_COLLAPSE_INTERMEDIATES_H

#include "ir/ir.h"

/* Which factors of the product vary along an axis of its result. */
typedef enum Side { SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT } Side;

typedef struct Result {
    Value *value;
    struct {
        Side side;
        int place;  /* among the axes of the memory that the side's factor is read from */
        bool inner; /* of places in a pooling window (passes/tensor/split_windows.c) */
        int origin; /* the axis of the product */
    } axes[MAX_RANK];
} Result;

/* What an element of a product costs. */
typedef struct ProductCost {
    int64_t depth;    /* maximum number of terms; INT64_MAX: not known */
    int instructions; /* of what is made of it */
    bool narrow;      /* factors of 16 bits or less */
} ProductCost;

/* reduce_in_parts.c */
/* Can the product's epilogue reduce parts of the places, so that `from`, which is made of it, is
 * not stored, or is not read once more for rows that no block holds? Then tiles must end with the
 * places of a sample: what that wastes takes less time than the memory accesses that are saved, or
 * half of it where clusters could hold the rows. Makes the places the columns of the product, if
 * only reductions read `from`. */
bool collapse_reduces_in_parts(Func *func, const Result *from, const ProductCost *cost);

/* collapse_scatters.c */
/* The side of the result's last axis. */
Side collapse_last_side(const Result *result);
/* The order of the result's axes in memory: of both factors, of one, and of `last`, the other. */
void collapse_side_order(const Result *result, Side last, int64_t *order);
/* True if a scatter can take the store's place: its elements are those of a whole output, and no
 * line of the user's names tiles of its axes. */
bool collapse_can_scatter(const Func *func, const Op *store);
/* Permutes the arrays of the scatter to this order of axes. */
void collapse_reorder_scatter(Func *func, Op *scatter, const int64_t *order);
/* Gives the arrays of a scatter the order of axes that the result has in memory, and collapses
 * them. */
void collapse_scatter_of(Func *func, Op *scatter, const Result *result);
/* Makes the store of the result a scatter with collapsed axes, where a sum of `depth` terms is long
 * enough for that. */
void collapse_store_of(Func *func, Op *store, const Result *result, int64_t depth);
/* The same with this order of axes, always. False: nothing is collapsed, and the store is there
 * again. */
bool collapse_as_scatter(Func *func, Op *store, const Result *result, const int64_t *order);

#endif
