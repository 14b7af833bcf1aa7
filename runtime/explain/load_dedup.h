/* SPDX-License-Identifier: Apache-2.0 */
/* Detects loads that a warp has already made in this iteration of the loops around it, which LLVM
 * merges into one, and packets of memory that another load of the block has brought into the
 * first-level cache in it. */
#ifndef TESSERA_RUNTIME_EXPLAIN_LOAD_DEDUP_H
#define TESSERA_RUNTIME_EXPLAIN_LOAD_DEDUP_H

#include "runtime/explain/explain_access.h"

typedef struct LoadDedup LoadDedup;

LoadDedup *dedup_new(Arena *arena);
/* Another round begins. */
void dedup_next_iteration(LoadDedup *seen);
/* Was this load made since? Remembers it otherwise, as far as there is space. */
bool dedup_has_load(LoadDedup *seen, const Op *op, const Value *memory, int warp,
                    const WarpRequest *request);

/* How many packets of a load (request_packets) no load of the block has asked for since a round
 * began. */
int dedup_count_new_packets(LoadDedup *seen, const Value *memory, const WarpRequest *request);

#endif
