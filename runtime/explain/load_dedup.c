/* SPDX-License-Identifier: Apache-2.0 */
/* A hash set of the loads that a warp has made in the current iteration. LLVM merges loads of
 * equal addresses and guards, so the report must count them once. */
#include "runtime/explain/load_dedup.h"

#include "ir/build.h"

#include <xxhash.h>

enum { PLACES = 1 << 14, PROBES = 8 };

/* What tells loads apart; places of lanes that do not take part are 0. */
typedef struct Key {
    const Value *memory;
    uint64_t active, guard;
    int64_t warp, bytes;
    int64_t at[MAX_LANES];
} Key;

struct LoadDedup {
    uint64_t round;
    struct {
        uint64_t hash, round;
    } items[PLACES];
};

LoadDedup *seen_new(Arena *arena)
{
    LoadDedup *seen = ARENA_NEW(arena, LoadDedup);
    seen->round = 1;
    return seen;
}

void seen_forget(LoadDedup *seen)
{
    seen->round++;
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

bool seen_again(LoadDedup *seen, const Op *op, const Value *memory, int warp,
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
    uint64_t hash = XXH3_64bits(&key, sizeof key);
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t place = (hash + i) % PLACES;
        if (seen->items[place].round != seen->round) {
            seen->items[place].hash = hash;
            seen->items[place].round = seen->round;
            return false;
        }
        if (seen->items[place].hash == hash) {
            return true;
        }
    }
    return false;
}
