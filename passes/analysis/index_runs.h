/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of elements that a gather reads, or a scatter writes, as neighbours in memory, and of
 * elements that are equal. */
#ifndef TESSERA_PASSES_ANALYSIS_INDEX_RUNS_H
#define TESSERA_PASSES_ANALYSIS_INDEX_RUNS_H

#include "ir/ir.h"
#include "ir/memo.h"

/* True if the elements at multiples of `width` (a power of two) along the last axis of the tile are
 * followed in memory by the `width` - 1 elements behind them, and the first index is a multiple of
 * `width`. A scatter's mask has one value for all of them. Whether they are in the tile and in the
 * tensor is not asked. */
bool an_has_runs(const Op *gather_or_scatter, int64_t width);

/* How far apart in memory, in elements, neighbours along the last axis of the tile are; 0: not
 * known, or in different rows. */
int64_t an_run_stride(const Op *gather_or_scatter);

/* The greatest power of two up to `most`, which is one, such that elements of the value in runs of
 * this many along the axis, which begin at multiples of it within the tile, are equal: of `n >> 2`,
 * 4. The memo is of this question alone. */
int64_t an_equal_run(Memo *memo, const Value *value, int axis, int64_t most);

#endif
