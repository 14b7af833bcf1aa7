/* SPDX-License-Identifier: Apache-2.0 */
/* How many elements one vector access may move, from the known divisors of extents and begins. */
#ifndef TESSERA_PASSES_ANALYSIS_ACCESS_WIDTH_H
#define TESSERA_PASSES_ANALYSIS_ACCESS_WIDTH_H

#include "ir/ir.h"

/* A number that divides an integer scalar, or the first index of a range, in every execution. */
int64_t an_divisor(const Value *value);

/* Of a gather or scatter, too, of runs of neighbours (index_runs.h).
 * The most elements, a power of two, such that runs of that many along the last memory axis which
 * start at a multiple of it within the tile are aligned, and lie inside or outside of the tensor
 * as a whole, or end in the space behind a row of an intermediate. 1 when the last axis is not
 * walked. */
int an_width(const Func *func, const Op *access);

/* Before tiles: does a gather take, or a scatter store, neighbours along the last axis, two at
 * least in an access? */
bool an_accesses_runs(const Op *gather_or_scatter);

/* The greater of both. */
int an_vector(const Func *func, const Op *access);

/* A number of elements that divides where the rows of a tensor begin, all indices but the last
 * being any; 1 where the last axis is no row. */
int64_t an_row_divisor(const Access *access);

/* Of a tensor of several axes: can the copy engine walk its rows? They begin at multiples of 16
 * bytes, one behind the other, with their elements side by side. */
bool an_tma_rows(const Access *access);

/* A number that divides where a range ends, whatever the sizes are. */
int64_t an_end_divisor(const Value *range);

#endif
