/* SPDX-License-Identifier: Apache-2.0 */
/* Loops with a known number of steps, as that many copies of their body: the sweep needs what a
 * loop carries at each step. */
#include "passes/derive/derive_sweep.h"

enum { MAX_STEPS = 64 };

/* The number of steps of such a loop; -1: it is none. */
static int64_t known_steps(const Op *op, int64_t *lo)
{
    const Attr *from = op->kind == OP_FOR ? value_const(for_lo(op)) : NULL;
    const Attr *upto = op->kind == OP_FOR ? value_const(for_hi(op)) : NULL;
    const Attr *steps = op_attr(op, ATTR_STEPS);
    if (!from || !upto || !steps || steps->ints[0] != 0 || op_int(op, ATTR_DESCENDING, 0)) {
        return -1;
    }
    *lo = from->i;
    int64_t n = upto->i > from->i ? upto->i - from->i : 0;
    return n <= MAX_STEPS ? n : -1;
}

static Value *const *mapped(const CloneMap *map, Arena *arena, Value *const *values, int n)
{
    Value **out = ARENA_ARRAY(arena, Value *, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        out[i] = values[i] ? clone_get(map, values[i]) : NULL;
    }
    return out;
}

/* Calls of functions with a declared derivative, of the values that stand for theirs. */
static void move_calls(const CloneMap *map, const DeriveRules *rules, const Block *region)
{
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

static void unroll(Func *func, Op *op, int64_t lo, int64_t n, const DeriveRules *rules)
{
    Builder b = build_before(func, op);
    const Block *region = op->regions[0];
    CloneMap after = clone_map_new(func);
    int carried = for_carried(op);
    Value **values = ARENA_ARRAY(func->arena, Value *, (size_t)carried + 1);
    for (int i = 0; i < carried; i++) {
        values[i] = op->operands[2 + i];
    }
    for (int64_t k = 0; k < n; k++) {
        CloneMap map = clone_map_new(func);
        clone_map_value(&map, region->args[0], build_i64(&b, lo + k));
        for (int i = 0; i < carried; i++) {
            clone_map_value(&map, region->args[1 + i], values[i]);
        }
        for (const Op *at = region->first; at && at->kind != OP_YIELD; at = at->next) {
            clone_op(&b, &map, at);
        }
        move_calls(&map, rules, region);
        for (int i = 0; i < carried; i++) {
            values[i] = clone_get(&map, region->last->operands[i]);
        }
    }
    for (int i = 0; i < carried; i++) {
        func_replace_uses(func, op->results[i], values[i]);
        clone_map_value(&after, op->results[i], values[i]);
    }
    move_calls(&after, rules, region);
    op_remove(op);
}

bool derive_unroll(Func *func, Block *block, const DeriveRules *rules)
{
    for (Op *op = block->first; op; op = op->next) {
        int64_t lo, n = known_steps(op, &lo);
        if (n >= 0) {
            unroll(func, op, lo, n, rules);
            return true;
        }
    }
    return false;
}
