/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the sectors of global memory that the accesses of a warp touch. Source: NVIDIA, CUDA C++
 * Best Practices Guide, "Coalesced Access to Global Memory"; AMD's cache lines are multiples. */
#ifndef TESSERA_PASSES_ANALYSIS_COALESCING_H
#define TESSERA_PASSES_ANALYSIS_COALESCING_H

#include "ir/layout/layout.h"

enum { SECTOR_BYTES = 32 };

typedef struct Sectors {
    int touched; /* of 32 bytes, by one access of a warp */
    int used;    /* bytes of them that are elements of the tile */
} Sectors;

/* One access of `vector` elements of `bits` a lane. The tile's last axis is contiguous in memory
 * and begins at a sector. Neighbours along axis i lie `pitch[i]` elements apart; 0: in other
 * sectors. */
Sectors an_sectors(const Layout *layout, const int64_t *pitch, int bits, int vector);

#endif
