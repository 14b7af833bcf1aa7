/* SPDX-License-Identifier: Apache-2.0 */
/* Results of products whose axes are collapsed. Private to collapse_intermediates.c and
 * collapse_scatters.c. */
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
