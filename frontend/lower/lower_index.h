/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed indices of one access, shared by reads and writes. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_INDEX_H
#define TESSERA_FRONTEND_LOWER_LOWER_INDEX_H

#include "frontend/lower/lower.h"

typedef enum IndexKind {
    INDEX_WHOLE, /* `:` */
    INDEX_RANGE, /* val: a range over this axis */
    INDEX_SLICE, /* val: the `count` integers of a slice */
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
    bool data;   /* AT: no bounds are known */
} AxisIndex;

typedef struct IndexedAccess {
    AxisIndex at[MAX_RANK];
    int n;
    int new_axes[MAX_RANK]; /* number of new axes before at[i], */
    int new_axes_behind;    /* and after the last index */
} IndexedAccess;

/* Parses the indices of `expr` into memory with this shape and element type. */
bool lower_access(Lower *l, const Expr *expr, DType dtype, const Shape *memory, IndexedAccess *out);
/* `a:b:c` as integers; false after an error. lower_slice.c */
bool lower_slice(Lower *l, const Expr *expr, AxisIndex *axis_index);
/* dim / by, or NULL if dim is not a multiple. */
Dim dim_divided(Func *func, Dim dim, int64_t by);
/* The lane whose variable this is, if it iterates over a whole axis of this extent; else -1. */
int whole_lane(const Lower *l, const Val *val, Dim extent);
/* True if every axis is taken whole, by a range, at a scalar, or by a lane of its own; *lanes are
 * the lanes that are used. */
bool is_plain(const Lower *l, const IndexedAccess *places, Lanes *lanes);

/* The value in this element type and shape, lanes included; NULL after an error (lower_store.c). */
Value *fit_to_slot(Lower *l, Span span, const Val *value, DType dtype, const Shape *slot);

/* Reports a variable of `parallel`, or a lane, on which the places of a write do not depend
 * (lower_write_places.c). */
bool covers_parallel(Lower *l, Span span, const IndexedAccess *places);

/* ---- gather (lower_gather.c) ---- */

/* Gathers memory[indices], with one integer value per own axis of `memory`, `inside` for those
 * proven in bounds. All are broadcast to `shape`, whose lanes become the union. `otherwise` is the
 * value outside, a CONST of the memory's element type; NULL: 0. Poison after an error. */
Val gather_vals(Lower *l, Span span, const Val *memory, const Val *indices, const bool *inside,
                const Val *otherwise, Shape shape);
/* The indices of an axis: i64[extent, 1, 1, …] with `trailing` ones. */
Val iota_val(Lower *l, Dim extent, int trailing);
/* The shape that the indices select; axes of array indices are at the position of the first one.
 * Fills `indices` with the integers of every axis, broadcastable to that shape. */
bool selected_shape(Lower *l, Span span, const IndexedAccess *places, Val *indices, Shape *shape);
/* The conjunction of 0 <= index < extent that are not proven; CONST true if all are. */
Val inside_val(Lower *l, const IndexedAccess *places, const Val *indices);
/* An operand of a gather or scatter: i64 or i32, a scalar or of that shape. */
Value *index_operand(Lower *l, const Val *index, const Shape *shape);

#endif
