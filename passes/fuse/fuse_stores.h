/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that invert_gathers.c and fuse_pieces.c share. Private to fuse. */
#ifndef TESSERA_PASSES_FUSE_FUSE_STORES_H
#define TESSERA_PASSES_FUSE_FUSE_STORES_H

#include "passes/fuse/fuse.h"

/* True for a store of a whole tensor of the caller's, and for a scatter of each element to its own
 * index, some of which a mask may leave out. */
bool fuse_stores_own_elements(const Func *func, const Op *op);
/* True if the gather reads an array that nothing else reads, and that costs too much to be computed
 * at the indices of the gather. */
bool fuse_is_costly_gather(Func *func, const Op *gather);

/* Splits stores of what a select by coordinates puts together into masked scatters of the pieces,
 * where one could be computed where its array is. */
void fuse_split_pieces(Func *func, Block *block);

#endif
