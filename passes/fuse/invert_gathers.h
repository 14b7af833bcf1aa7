/* SPDX-License-Identifier: Apache-2.0 */
/* The store for which a gather from a costly array may be inverted (invert_candidate.c). Private to
 * invert_gathers.c. */
#ifndef TESSERA_PASSES_FUSE_INVERT_GATHERS_H
#define TESSERA_PASSES_FUSE_INVERT_GATHERS_H

#include "passes/analysis/inverse_map.h"
#include "passes/fuse/fuse_value_at.h"

typedef struct InvertCandidate {
    Func *func;
    Block *block;
    Op *gather;
    Op *store;          /* all that is made of the gather's elements */
    const Op *cut;      /* a store to scratch that may be it; NULL: only those of results may */
    int axes[MAX_RANK]; /* of the store's tensor, by axis of the gather; -1: it has one element */
    Memo *axis_of;      /* by value and axis of the gather: the value's axis */
    bool reduces[MAX_RANK]; /* along this axis of the gather */
    InverseMap inverse;
    ReducedAxes reduced;
    Value *mask; /* of the store, where it counts; NULL: none */
} InvertCandidate;

/* Finds the only store of what is made of the gather's elements, and where it has their axes. */
bool invert_find_store(InvertCandidate *c);
/* Can all that is stored, and the mask of the store, be computed at these indices into the store's
 * tensor, each an array of the shape that is left behind the reductions? */
bool invert_may_compute(const InvertCandidate *c, Value *const *indices);

#endif
