/* SPDX-License-Identifier: Apache-2.0 */
/* Dead code elimination. Only ops with effects, and the values that they need, are live: a
 * loop-carried value that only the next iteration of its own loop reads is dead, and so is a
 * result of `if` that nothing reads. */
#include "ir/build.h"
#include "support/hash_table.h"

#include <stdint.h>

typedef struct Life {
    Func *func;
    bool *lives;       /* by value id */
    HashTable effects; /* the loops and choices that hold an op with an effect */
    bool changed;
    int removed;
} Life;

/* Ops whose results are their regions' yields, one for one: each may go alone. */
static bool hands_out(const Op *op)
{
    return op->kind == OP_FOR || op->kind == OP_IF || op->kind == OP_WHILE;
}

static uint64_t hash_of(const Op *op)
{
    return hash_word(0, (uint64_t)(uintptr_t)op);
}

static bool is_same(const void *item, const void *key)
{
    return item == key;
}

/* Each op is looked at once, however deep it lies: what is around it is asked many times. */
static bool note_effects(Life *life, const Block *block)
{
    bool any = false;
    for (Op *op = block->first; op; op = op->next) {
        bool inside = false;
        for (int i = 0; i < op->n_regions; i++) {
            inside = note_effects(life, op->regions[i]) || inside;
        }
        if (hands_out(op) && inside) {
            table_add(life->func->arena, &life->effects, hash_of(op), op);
        }
        any = any || (hands_out(op) ? inside
                                    : !op_has(op, TRAIT_TERMINATOR) && !op_has(op, TRAIT_PURE));
    }
    return any;
}

/* A loop whose body does nothing but compute is pure, as it ends. */
static bool is_pure(const Life *life, const Op *op)
{
    return hands_out(op) ? !table_find(&life->effects, hash_of(op), is_same, op)
                         : op_has(op, TRAIT_PURE);
}

static bool op_lives(const Life *life, const Op *op)
{
    bool lives = !is_pure(life, op);
    for (int i = 0; i < op->n_results && !lives; i++) {
        lives = life->lives[op->results[i]->id];
    }
    return lives;
}

/* ---- what lives ---- */

static void keep(Life *life, const Value *value)
{
    if (value && !life->lives[value->id]) {
        life->lives[value->id] = true;
        life->changed = true;
    }
}

/* Operands before the initial values, and the region's arguments before the carried ones. */
static int first_init(const Op *op)
{
    if (op->kind == OP_FOR) {
        return 2;
    }
    return op->kind == OP_IF ? 1 : 0;
}

static int first_arg(const Op *op)
{
    return op->kind == OP_FOR ? 1 : 0;
}

static bool is_condition(const Op *op, int region)
{
    return op->kind == OP_WHILE && region == 0;
}

static void keep_in(Life *life, const Block *block);

static void keep_handed_out(Life *life, const Op *op)
{
    for (int i = 0; i < first_init(op); i++) {
        keep(life, op->operands[i]);
    }
    for (int r = 0; r < op->n_regions; r++) {
        const Op *yield = op->regions[r]->last;
        for (int i = 0; i < op->n_results; i++) {
            if (op->kind != OP_IF && life->lives[op->regions[r]->args[first_arg(op) + i]->id]) {
                keep(life, op->results[i]);
            }
            if (life->lives[op->results[i]->id] && !is_condition(op, r)) {
                keep(life, yield->operands[i]);
            }
        }
        if (is_condition(op, r)) {
            keep(life, yield->operands[0]);
        }
        keep_in(life, op->regions[r]);
    }
    for (int i = 0; i < op->n_results && op->kind != OP_IF; i++) {
        if (life->lives[op->results[i]->id]) {
            keep(life, op->operands[first_init(op) + i]);
        }
    }
}

/* Its shape is that of what an array of conditions is for. */
static void keep_shape(Life *life, const Op *op)
{
    if (op->kind == OP_WHILE && op->n_results &&
        op->regions[0]->last->operands[0]->type->rank > 0) {
        keep(life, op->results[0]);
    }
}

static void keep_in(Life *life, const Block *block)
{
    for (const Op *op = block->last; op; op = op->prev) {
        bool yields = op->kind == OP_YIELD && block->parent && hands_out(block->parent);
        if (yields || !op_lives(life, op)) {
            continue;
        }
        if (hands_out(op)) {
            keep_shape(life, op);
            keep_handed_out(life, op);
            continue;
        }
        for (int i = 0; i < op->n_operands; i++) {
            keep(life, op->operands[i]);
        }
        for (int i = 0; i < op->n_regions; i++) {
            keep_in(life, op->regions[i]);
        }
    }
}

/* ---- the rest goes ---- */

/* Moves up those of `all` from `first` on whose result lives. */
static int keep_living(const Life *life, const Op *op, Value **all, int first)
{
    int n = first;
    for (int i = 0; i < op->n_results; i++) {
        if (life->lives[op->results[i]->id]) {
            all[n] = all[first + i];
            n++;
        }
    }
    return n;
}

/* Of `from`, whose operands from `first` on belong to the results of `op`. */
static void drop_operands(const Life *life, const Op *op, Op *from, int first)
{
    Value **left = arena_copy(life->func->arena, from->operands,
                              sizeof(Value *) * (size_t)(first + op->n_results));
    op_set_operands(life->func, from, keep_living(life, op, left, first), left);
}

static void renumber(Value **values, int n)
{
    for (int i = 0; i < n; i++) {
        values[i]->index = (uint32_t)i;
    }
}

static void drop_results(const Life *life, Op *op)
{
    int left = 0;
    for (int i = 0; i < op->n_results; i++) {
        left += life->lives[op->results[i]->id];
    }
    if (left == op->n_results) {
        return;
    }
    for (int r = 0; r < op->n_regions; r++) {
        Block *region = op->regions[r];
        if (!is_condition(op, r)) {
            drop_operands(life, op, region->last, 0);
        }
        if (op->kind != OP_IF) {
            region->n_args = (uint16_t)keep_living(life, op, region->args, first_arg(op));
            renumber(region->args, region->n_args);
        }
    }
    if (op->kind != OP_IF) {
        drop_operands(life, op, op, first_init(op));
    }
    op->n_results = (uint16_t)keep_living(life, op, op->results, 0);
    renumber(op->results, op->n_results);
}

static void remove_in(Life *life, Block *block)
{
    for (Op *op = block->last, *before; op; op = before) {
        before = op->prev;
        if (!op_has(op, TRAIT_TERMINATOR) && !op_lives(life, op)) {
            op_remove(op);
            life->removed++;
            continue;
        }
        if (hands_out(op)) {
            drop_results(life, op);
        }
        for (int i = 0; i < op->n_regions; i++) {
            remove_in(life, op->regions[i]);
        }
    }
}

int func_remove_dead(Func *func)
{
    Life life = {.func = func, .lives = ARENA_ARRAY(func->arena, bool, func->n_values)};
    note_effects(&life, func->body);
    do {
        life.changed = false;
        keep_in(&life, func->body);
    } while (life.changed);
    remove_in(&life, func->body);
    return life.removed;
}
