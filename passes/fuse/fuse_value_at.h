/* SPDX-License-Identifier: Apache-2.0 */
/* A value computed again at other indices (fuse_value_at.c). Private to fuse. */
#ifndef TESSERA_PASSES_FUSE_FUSE_VALUE_AT_H
#define TESSERA_PASSES_FUSE_FUSE_VALUE_AT_H

#include "passes/fuse/fuse.h"

typedef struct ValueAt {
    Builder at;
    Type shape;     /* of the result; its element type does not count */
    bool strays;    /* some of the indices may lie outside: what is made there is not used */
    const Op *home; /* a gather that reads at these indices the elements of `found`, which is of
                     * the shape; NULL: there is none */
    Value *found;
    CloneMap known; /* what has been computed at these indices */
} ValueAt;

/* The value as an array of the shape, whose elements are the value's at these indices, each of
 * which is an array of the shape or a scalar. */
Value *fuse_value_at(ValueAt *p, Value *value, Value *const *indices);

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
