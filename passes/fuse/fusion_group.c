/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the statements of one launch: copies of the values that they need, each once, except for
 * uses that iterate over a value along different axes (fuse_axis_conflicts.c). */
#include "passes/fuse/fuse.h"

#include "ir/memo.h"

#include <stdlib.h>

typedef struct Pair {
    const Value *copy;
    Value *original;
} Pair;

static bool is_copy(const void *item, const void *key)
{
    return ((const Pair *)item)->copy == key;
}

Value *fuse_original(const FusionGroup *group, const Value *copy)
{
    const Pair *pair = table_find(&group->originals, hash_word(0, copy->id), is_copy, copy);
    return pair ? pair->original : NULL;
}

void fuse_remember(Func *func, FusionGroup *group, const Value *copy, Value *original)
{
    Pair *pair = ARENA_NEW(func->arena, Pair);
    *pair = (Pair){copy, original};
    table_add(func->arena, &group->originals, hash_word(0, copy->id), pair);
}

/* ---- copies ---- */

typedef struct Copier {
    Func *func;
    FusionGroup *group;
    Builder at;
    const Op *top; /* whose regions are looked into */
    int n;
    Op *const *statements;
} Copier;

static void copy_value(Copier *c, Value *value);

bool fuse_is_within(const Value *value, const Op *op)
{
    const Block *block = value->def ? value->def->parent : value->block;
    while (block && block->parent != op) {
        block = block->parent ? block->parent->parent : NULL;
    }
    return block != NULL;
}

static void copy_outer(Op *op, void *user)
{
    Copier *c = user;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !fuse_is_within(op->operands[i], c->top)) {
            copy_value(c, op->operands[i]);
        }
    }
}

/* What the group itself stores to an intermediate needs no reading back. */
static Value *stored_here(const Copier *c, const Op *load)
{
    const Value *memory = load->kind == OP_LOAD ? load->operands[0] : NULL;
    if (!memory || c->func->params.items[memory->index].io != PARAM_SCRATCH) {
        return NULL;
    }
    for (int i = 0; i < c->n; i++) {
        Op *store = c->statements[i];
        if (store->kind == OP_STORE && store->operands[0] == memory &&
            !fuse_is_repacked(store)) {
            return store->operands[store->n_operands - 1];
        }
    }
    return NULL;
}

static void copy_op(Copier *c, Op *op)
{
    Value *stored = stored_here(c, op);
    if (stored) {
        copy_value(c, stored);
        clone_map_value(&c->group->copies, op->results[0], clone_get(&c->group->copies, stored));
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i]) {
            copy_value(c, op->operands[i]);
        }
    }
    for (int i = 0; i < op->n_regions; i++) {
        Copier inside = *c;
        inside.top = op;
        block_walk(op->regions[i], copy_outer, &inside);
        c->at = inside.at;
    }
    const Op *copy = clone_op(&c->at, &c->group->copies, op);
    for (int i = 0; i < op->n_results; i++) {
        fuse_remember(c->func, c->group, copy->results[i], op->results[i]);
    }
}

static void copy_value(Copier *c, Value *value)
{
    if (value->def && clone_get(&c->group->copies, value) == value) {
        copy_op(c, value->def);
    }
}

FusionGroup fuse_group(Func *func, Builder *at, int n, Op *const *statements)
{
    FusionGroup group = {.copies = clone_map_new(func)};
    group.parallel = build_parallel(at, OP_PARALLEL, 0, NULL, NULL, NULL);
    group.parallel->span = statements[0]->span;
    Copier c = {.func = func,
                .group = &group,
                .at = build_at_end(func, group.parallel->regions[0]),
                .n = n,
                .statements = statements};
    for (int i = 0; i < n; i++) {
        bool done =
            statements[i]->n_results &&
            clone_get(&group.copies, statements[i]->results[0]) != statements[i]->results[0];
        if (!done) {
            copy_op(&c, statements[i]);
        }
    }
    return group;
}

void fuse_copy_operands(Func *func, Op *op)
{
    FusionGroup group = {.copies = clone_map_new(func)};
    Copier c = {.func = func, .group = &group, .at = build_before(func, op)};
    for (int i = 0; i < op->n_operands; i++) {
        copy_value(&c, op->operands[i]);
        op_set_operand(op, i, clone_get(&group.copies, op->operands[i]));
    }
}

/* ---- what statements are made of ---- */

typedef struct Collector {
    Func *func;
    const Block *block;
    bool effects;
    Memo *seen;
    NeededOps needed;
} Collector;

/* Of an op in a region: those in its own regions are looked at for themselves. */
static void note_operands(Op *op, void *user)
{
    Collector *c = user;
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && def->parent == c->block && (c->effects || !fuse_has_effect(def)) &&
            memo_visit(c->seen, def->results[0])) {
            ARENA_PUSH(c->func->arena, &c->needed, def);
            note_operands(def, c);
            for (int r = 0; r < def->n_regions; r++) {
                block_walk(def->regions[r], note_operands, c);
            }
        }
    }
}

static int by_order(const void *a, const void *b)
{
    const Op *const *left = a, *const *right = b;
    if (*left == *right) {
        return 0;
    }
    return op_is_before(*left, *right) ? -1 : 1;
}

NeededOps fuse_needed_ops(Func *func, const Block *block, int n, Op *const *statements,
                          bool effects)
{
    Collector c = {.func = func, .block = block, .effects = effects, .seen = memo_open(func)};
    for (int i = 0; i < n; i++) {
        if (effects) {
            ARENA_PUSH(func->arena, &c.needed, statements[i]);
        }
        note_operands(statements[i], &c);
        for (int r = 0; r < statements[i]->n_regions; r++) {
            block_walk(statements[i]->regions[r], note_operands, &c);
        }
    }
    memo_close(c.seen);
    if (c.needed.n) {
        qsort(c.needed.items, c.needed.n, sizeof(Op *), by_order);
    }
    return c.needed;
}
