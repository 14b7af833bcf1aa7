/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about ranges: whether every tile is full, and where the last one ends. */
#ifndef TESSERA_PASSES_ANALYSIS_RANGE_FACTS_H
#define TESSERA_PASSES_ANALYSIS_RANGE_FACTS_H

#include "ir/ir.h"

/* Every tile of it has `capacity` elements: no padding. */
bool range_is_full(const DimVar *range);
/* How far beyond the axis' last element a tile may have places. */
int64_t range_overrun(const DimVar *range);
/* The elements to whose multiples in memory the tiles of its rows begin (a launch's `aligned`);
 * they may then lie past both ends of a row. 1: they begin with their rows. */
int64_t range_aligned(const DimVar *range);
/* It ends where its whole axis ends, or behind a whole tile (not anywhere, as in `L[: end(i)]`):
 * what lies past a tail is outside of the tensor. */
bool range_walks_whole(const DimVar *range);
/* A loop's range that ends with another one, as in `L[: end(i)]`: its padding lies behind every
 * element of that. */
bool range_ends_with(const DimVar *range, const DimVar *other);
/* The range whose absolute indices the value holds, spread over a tile; NULL: another value. */
const DimVar *range_of_index(const Value *value);

/* The variable of a grid or loop around a loop that chooses, by data, where the loop begins:
 * e of `R[at[e]: at[e + 1]]`; NULL: none. Each of its values has a part of the axis. */
const Value *range_part_chooser(const Op *loop);

#endif
