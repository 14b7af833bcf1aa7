/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolls loops with a known number of steps before the sweep, which needs the loop-carried values
 * of each step. */
#include "ir/unroll.h"
#include "passes/derive/derive_sweep.h"

enum { MAX_STEPS = 64 };

static Value *const *mapped(const CloneMap *map, Arena *arena, Value *const *values, int n)
{
    Value **out = ARENA_ARRAY(arena, Value *, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        out[i] = values[i] ? clone_get(map, values[i]) : NULL;
    }
    return out;
}

/* Calls of functions with a declared derivative, of the values that stand for theirs. */
static void move_calls(void *user, const CloneMap *map, const Block *region)
{
    const DeriveRules *rules = user;
    for (size_t i = 0; i < rules->n_calls; i++) {
        const DeriveCall *call = rules->calls[i];
        bool inside = block_is_within(value_block(call->results[0]), region);
        bool reads = false;
        for (int k = 0; k < call->n_args && !inside; k++) {
            reads = reads || (call->args[k] && clone_get(map, call->args[k]) != call->args[k]);
        }
        if (inside || reads) {
            Arena *arena = map->func->arena;
            rules->moved(rules->user, call,
                         (Value **)mapped(map, arena, call->results, call->n_results),
                         (Value **)mapped(map, arena, call->args, call->n_args));
        }
    }
}

bool derive_unroll(Func *func, Block *block, const DeriveRules *rules)
{
    for (Op *op = block->first; op; op = op->next) {
        int64_t lo, n = loop_known_steps(op, &lo);
        if (n >= 0 && n <= MAX_STEPS) {
            loop_unroll(func, op, move_calls, (void *)rules);
            return true;
        }
    }
    return false;
}
