/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed indices of one access, shared by reads and writes. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_INDEX_H
#define TESSERA_FRONTEND_LOWER_LOWER_INDEX_H

#include "frontend/lower/lower.h"

typedef enum IndexKind {
    INDEX_WHOLE, /* `:` */
    INDEX_RANGE, /* val: a range that walks this axis */
    INDEX_SLICE, /* val: the integers of a part, `count` of them */
    INDEX_AT,    /* val: integers */
} IndexKind;

/* An index, and the axis of memory that it indexes. */
typedef struct AxisIndex {
    IndexKind kind;
    Val val;
    const Expr *expr;
    Dim extent;
    Dim count;   /* SLICE */
    bool inside; /* AT: proven */
    bool data;   /* AT: nothing is known of it */
} AxisIndex;

typedef struct IndexedAccess {
    AxisIndex at[MAX_RANK];
    int n;
    int fresh[MAX_RANK]; /* new axes: how many stand before at[i] … */
    int last_fresh;      /* … and after the last */
} IndexedAccess;

/* Takes the indices of `expr` apart: of memory with this shape and element type. */
bool lower_places(Lower *l, const Expr *expr, DType dtype, const Shape *memory, IndexedAccess *out);
/* `a:b:c` as integers; false after an error. lower_slice.c */
bool lower_slice(Lower *l, const Expr *expr, AxisIndex *place);
/* NULL: not a multiple. */
Dim dim_divided(Func *func, Dim dim, int64_t by);
/* The lane whose variable this is, when it walks an axis of this extent as a whole; else -1. */
int whole_lane(const Lower *l, const Val *val, Dim extent);
/* Are all axes taken whole, by a range, at a scalar, or by a lane of their own? Then the lanes that
 * are used are in *lanes. */
bool is_plain(const Lower *l, const IndexedAccess *places, Lanes *lanes);

/* The value in this element type and shape, lanes included; NULL after an error (lower_store.c). */
Value *fit_to_slot(Lower *l, Span span, const Val *value, DType dtype, const Shape *slot);

/* ---- gather (lower_gather.c) ---- */

/* memory[indices]: one integer value an own axis of `memory`; `inside` says which are proven. All
 * broadcast to `shape`, whose lanes become the union of all. `otherwise`: what is read outside, a
 * CONST of the memory's element type; NULL: 0. Poison after an error. */
Val gather_vals(Lower *l, Span span, const Val *memory, const Val *indices, const bool *inside,
                const Val *otherwise, Shape shape);
/* An axis' own indices: i64[extent, 1, 1, …] with `trailing` ones. */
Val iota_val(Lower *l, Dim extent, int trailing);
/* The shape that indices select; axes of array indices stand where the first of them does. Fills
 * `indices` with the integers of every axis, broadcastable to that shape. */
bool selected_shape(Lower *l, Span span, const IndexedAccess *places, Val *indices, Shape *shape);
/* The conjunction of 0 <= index < extent where that is not proven; CONST true when it is. */
Val inside_val(Lower *l, const IndexedAccess *places, const Val *indices);
/* An operand of a gather or scatter: i64 or i32, a scalar or of that shape. */
Value *index_operand(Lower *l, const Val *index, const Shape *shape);

#endif
