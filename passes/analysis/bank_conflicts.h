/* SPDX-License-Identifier: Apache-2.0 */
/* Bank conflicts, counted: shared memory has 32 banks of 4 bytes, and serves 128 bytes at a
 * time. */
#ifndef TESSERA_PASSES_ANALYSIS_BANK_CONFLICTS_H
#define TESSERA_PASSES_ANALYSIS_BANK_CONFLICTS_H

#include "ir/layout/layout.h"

/* A tile in shared memory: one slot, its leading axes as rows. */
typedef struct SharedTile {
    int rank;
    int64_t extents[MAX_RANK];
    int elem_bytes;
    int swizzle, skew; /* ir/layout/layout.h, shared_offset */
} SharedTile;

/* Bytes from the slot's start to an element. */
int64_t an_shared_offset(const SharedTile *tile, const int32_t *coords);
/* How many elements a thread moves at once: contiguous in registers and within 16 aligned bytes. */
int an_shared_vector(const SharedTile *tile, const Layout *layout);
/* Turns that the memory takes for one warp to move all of its registers. Adds to `least` how many
 * it would take without bank conflicts. */
int64_t an_shared_wavefronts(const Target *target, const SharedTile *tile, const Layout *layout,
                             int64_t *least);
/* May this swizzle be used: chunks divide rows, patterns divide the slot. */
bool an_swizzle_fits(const SharedTile *tile, int swizzle);

/* Are pieces of rows permuted at all: the schedule's line `swizzle`. */
bool an_swizzled(Func *func);

#endif
