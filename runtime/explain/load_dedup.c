/* SPDX-License-Identifier: Apache-2.0 */
/* Hash sets of what a block has loaded in the current iteration. LLVM merges a warp's loads of
 * equal addresses and guards, so the report must count them once. Overlapping loads, such as those
 * of pooling windows, hit L1 if an earlier one fetched the line. */
#include "runtime/explain/load_dedup.h"

#include "ir/build.h"
#include "runtime/explain/warp_request.h"

#include <xxhash.h>

enum { PLACES = 1 << 14, PROBES = 8 };

/* What distinguishes loads; places of lanes that do not take part are 0. */
typedef struct Key {
    const Value *memory;
    uint64_t active, guard;
    int64_t warp, bytes;
    int64_t at[MAX_LANES];
} Key;

typedef struct SeenItem {
    uint64_t hash, iteration;
} SeenItem;

struct LoadDedup {
    uint64_t iteration;
    SeenItem loads[PLACES], packets[PLACES];
};

LoadDedup *dedup_new(Arena *arena)
{
    LoadDedup *seen = ARENA_NEW(arena, LoadDedup);
    seen->iteration = 1;
    return seen;
}

void dedup_next_iteration(LoadDedup *seen)
{
    seen->iteration++;
}

static uint64_t guarded_axes(const Op *op)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    uint64_t axes = 0;
    for (int i = 0; guard && i < guard->n; i++) {
        axes |= (uint64_t)(guard->ints[i] != 0) << i;
    }
    return axes;
}

/* Is it among the items of this round? Keeps it otherwise, as far as there is space. */
static bool is_known_or_add(const LoadDedup *seen, SeenItem *items, uint64_t hash)
{
    for (uint64_t i = 0; i < PROBES; i++) {
        SeenItem *item = &items[(hash + i) % PLACES];
        if (item->iteration != seen->iteration) {
            *item = (SeenItem){hash, seen->iteration};
            return false;
        }
        if (item->hash == hash) {
            return true;
        }
    }
    return false;
}

bool dedup_has_load(LoadDedup *seen, const Op *op, const Value *memory, int warp,
                    const WarpRequest *request)
{
    Key key = {.memory = memory,
               .active = request->active,
               .guard = guarded_axes(op),
               .warp = warp,
               .bytes = request->bytes};
    for (int lane = 0; lane < request->lanes; lane++) {
        key.at[lane] = request->active >> lane & 1 ? request->at[lane] : 0;
    }
    return is_known_or_add(seen, seen->loads, XXH3_64bits(&key, sizeof key));
}

int dedup_count_new_packets(LoadDedup *seen, const Value *memory, const WarpRequest *request)
{
    int new_packets = 0;
    int64_t last = -1;
    for (int lane = 0; lane < request->lanes; lane++) {
        int64_t at = request->at[lane], end = (at + request->bytes - 1) / PACKET_BYTES;
        bool active = request->active >> lane & 1;
        for (int64_t i = at / PACKET_BYTES; active && i <= end; i++) {
            uint64_t key[] = {memory->id, (uint64_t)i};
            new_packets +=
                i != last && !is_known_or_add(seen, seen->packets, XXH3_64bits(key, sizeof key));
            last = i;
        }
    }
    return new_packets;
}
