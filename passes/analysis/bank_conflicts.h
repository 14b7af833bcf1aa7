/* SPDX-License-Identifier: Apache-2.0 */
/* Counts bank conflicts. Shared memory has 32 banks of 4 bytes and delivers 128 bytes per
 * wavefront. */
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
/* Wavefronts that shared memory needs for one warp to move all of its registers. Adds to `least`
 * how many it would need without bank conflicts. */
int64_t an_shared_wavefronts(const Target *target, const SharedTile *tile, const Layout *layout,
                             int64_t *least);
/* True if the swizzle is possible: column chunks divide the rows, and its pattern divides the
 * pipeline stage. */
bool an_swizzle_fits(const SharedTile *tile, int swizzle);

/* The schedule entry `swizzle`: true if 16-byte vectors are permuted within rows. */
bool an_swizzled(Func *func);

#endif
