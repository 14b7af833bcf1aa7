/* SPDX-License-Identifier: Apache-2.0 */
/* Distances in memory between the elements of a gathered or scattered tile. They decide along which
 * axis lanes are distributed, and which axes are collapsed first. */
#ifndef TESSERA_PASSES_ANALYSIS_MEMORY_STEPS_H
#define TESSERA_PASSES_ANALYSIS_MEMORY_STEPS_H

#include "ir/ir.h"

/* Elements between the place of the first element of the tile and that of the element at coordinate
 * `at` along the axis, as ranges begin at 0 and sizes are the greatest that they can be; a size
 * without a maximum counts as a large number. -1: what varies along the axis is not made of
 * coordinates, sizes and numbers alone. */
int64_t an_memory_step(const Op *gather_or_scatter, int axis, int64_t at);

/* True if eight elements of the tile lie within about this many of memory. */
bool an_has_neighbours(const Op *gather_or_scatter, int64_t within);
/* The axis of the memory along which a statement that reads it writes neighbours for neighbours,
 * of several the one that writes most elements; -1: none does, or along no axis. */
int an_read_along(Func *func, const Value *memory);

#endif
