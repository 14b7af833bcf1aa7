/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a value at other indices (fuse_value_at.c). Private to fuse. */
#ifndef TESSERA_PASSES_FUSE_FUSE_VALUE_AT_H
#define TESSERA_PASSES_FUSE_FUSE_VALUE_AT_H

#include "passes/fuse/fuse.h"

#include "ir/memo.h"

/* Where reductions of what a gather reads have their axes: `axes` knows, by a value and an axis of
 * the gather, the value's axis. Of an axis that ends nothing is left behind its reduction. A chain
 * of reductions along such axes passes through shapes that have some of them still: `levels` has
 * one for each set of them, by the set's bits (axis `i` of the gather is bit[i]), with the
 * coordinates of the gather's result for each element of the shape. */
enum { MAX_ENDED_AXES = 4 };
typedef struct ReducedLevel {
    Type shape;              /* one element along the ended axes that are not in the set */
    Value *coords[MAX_RANK]; /* by axis of the gather; NULL: it has one element */
} ReducedLevel;
typedef struct ReducedAxes {
    const Memo *axes;
    int rank, n_ended;
    unsigned bit[MAX_RANK]; /* 0: something is left of the axis */
    ReducedLevel levels[1 << MAX_ENDED_AXES];
} ReducedAxes;

/* The shape that is left behind all reductions, and the one before them. */
static inline const ReducedLevel *reduced_left(const ReducedAxes *axes)
{
    return &axes->levels[0];
}

static inline const ReducedLevel *reduced_full(const ReducedAxes *axes)
{
    return &axes->levels[(1u << axes->n_ended) - 1];
}

typedef struct ValueAt {
    Builder at;
    Type shape;     /* of the result; its element type does not count */
    bool strays;    /* some of the indices may lie outside: what is made there is not used */
    const Op *home; /* a gather that reads at these indices the elements of `found`, which is of
                     * the shape; NULL: there is none */
    Value *found;
    CloneMap known;               /* what has been computed at these indices */
    const ReducedAxes *reduced;   /* NULL: nothing that is reduced is asked for elsewhere */
    struct IndexedValues *others; /* what has been computed at other indices */
} ValueAt;

/* Nothing is computed yet, and there is no home. */
ValueAt fuse_value_at_begin(Builder at, Type shape, bool strays);

/* The value as an array of the shape, whose elements are the value's at these indices, each of
 * which is an array of the shape or a scalar. */
Value *fuse_value_at(ValueAt *p, Value *value, Value *const *indices);

/* The indices of what the op, a reduction that is wanted at `indices` into an array of `*shape`,
 * reduces, and the shape of that. Returns the axis of the shape that is reduced; -1: that is no
 * reduction along an axis of the gather. */
int fuse_below_reduction(const ReducedAxes *axes, const Op *op, Value *const *indices, Type *shape,
                         Value **inner);

/* The axis of `shape` whose coordinate the index is; -1: of none. */
int fuse_own_axis(const Value *index, Type shape);
/* True if nothing writes the memory before the kernel's end, or before it is read. */
bool fuse_is_unchanging(const Func *func, const Value *memory);
/* True if each element is asked for at its own indices: the value, as a `shape`, is read. */
bool fuse_is_at_own_indices(const Value *value, Value *const *indices, Type shape);
/* The indices into the operand of an op that moves axes; NULL: its only element along that axis. */
void fuse_indices_below(const Op *op, Value *const *indices, Value **inner);

/* True if an index of the gather may lie outside of its array. */
bool fuse_strays(Func *func, const Op *gather);
/* Where the gather's indices lie inside of the array; NULL: everywhere. */
Value *fuse_inside(ValueAt *p, const Op *gather);
/* What the gather reads outside of the array. */
Value *fuse_outside_value(ValueAt *p, const Op *gather);

#endif
