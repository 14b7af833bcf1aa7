/* SPDX-License-Identifier: Apache-2.0 */
/* Detects loads that a warp has already made in this iteration of the loops around it, which LLVM
 * merges into one, and packets of memory that another load of the block has fetched into L1 in this
 * iteration. */
#ifndef TESSERA_RUNTIME_EXPLAIN_LOAD_DEDUP_H
#define TESSERA_RUNTIME_EXPLAIN_LOAD_DEDUP_H

#include "runtime/explain/explain_access.h"

typedef struct LoadDedup LoadDedup;

LoadDedup *dedup_new(Arena *arena);
/* The next iteration begins. */
void dedup_next_iteration(LoadDedup *seen);
/* True if the load was already made in this iteration. Otherwise remembers it, as far as the table
 * has space. */
bool dedup_has_load(LoadDedup *seen, const Op *op, const Value *memory, int warp,
                    const WarpRequest *request);

/* How many packets of a load (request_packets) no load of the block has asked for since a round
 * began. */
int dedup_count_new_packets(LoadDedup *seen, const Value *memory, const WarpRequest *request);

#endif
