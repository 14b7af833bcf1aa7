/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about indices: their bounds, and how they change along an axis. */
#ifndef TESSERA_PASSES_ANALYSIS_INDEX_BOUNDS_H
#define TESSERA_PASSES_ANALYSIS_INDEX_BOUNDS_H

#include "ir/ir.h"

/* Is every element of an integer array (or scalar) at least 0 and less than `extent`, in every
 * execution? Elements past the tail of a range count too once tiles are padded. */
bool an_index_inside(Func *func, const Value *index, Dim extent);
/* True if the gather's index along the axis of its memory never leaves it: by attribute `guard` or,
 * without one, by its value. */
bool an_gather_inside(Func *func, const Op *gather, int axis);
/* The least and the greatest of its elements, as size expressions; false when one is not known. */
bool an_index_range(Func *func, const Value *index, Dim *lo, Dim *hi);

/* True if a <= b for all sizes; NULL is no size. */
bool dim_is_ordered(Func *func, Dim a, Dim b);
/* a / b if b is equal to a, or has one term by which every term of a is divisible; else NULL. */
Dim an_exact_quotient(Func *func, Dim a, Dim b);
/* The same, or a size that is defined as this quotient, which has no remainder. */
Dim dim_exact_steps(Func *func, Dim a, Dim b);
/* a / b rounded up; NULL: not known. */
Dim dim_steps(Func *func, Dim a, Dim b);

/* How much an index grows from one element to the next along `axis` of its shape, everywhere alike;
 * false where that is not so, or not known. */
bool an_index_stride(const Value *index, int axis, int64_t *stride);

#endif
