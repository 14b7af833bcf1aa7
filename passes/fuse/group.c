/* SPDX-License-Identifier: Apache-2.0 */
/* One launch's statements: copies of what they need, each value once; where two uses walk one value
 * along different axes, each has its own. */
#include "passes/fuse/fuse.h"

typedef struct Pair {
    const Value *copy;
    Value *original;
} Pair;

static bool is_copy(const void *item, const void *key)
{
    return ((const Pair *)item)->copy == key;
}

Value *fuse_original(const Group *group, const Value *copy)
{
    const Pair *pair = table_find(&group->originals, hash_word(0, copy->id), is_copy, copy);
    return pair ? pair->original : NULL;
}

static void remember(Func *func, Group *group, const Value *copy, Value *original)
{
    Pair *pair = ARENA_NEW(func->arena, Pair);
    *pair = (Pair){copy, original};
    table_add(func->arena, &group->originals, hash_word(0, copy->id), pair);
}

/* ---- copies ---- */

typedef struct Copier {
    Func *func;
    Group *group;
    Builder at;
    const Op *top; /* whose regions are looked into */
    int n;
    Op *const *statements;
} Copier;

static void copy_value(Copier *c, Value *value);

static bool is_within(const Value *value, const Op *op)
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
        if (op->operands[i] && !is_within(op->operands[i], c->top)) {
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
            !fuse_is_pitched_copy(store)) {
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
        remember(c->func, c->group, copy->results[i], op->results[i]);
    }
}

static void copy_value(Copier *c, Value *value)
{
    if (value->def && clone_get(&c->group->copies, value) == value) {
        copy_op(c, value->def);
    }
}

Group fuse_group(Func *func, Builder *at, int n, Op *const *statements)
{
    Group group = {.copies = clone_map_new(func)};
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
    Group group = {.copies = clone_map_new(func)};
    Copier c = {.func = func, .group = &group, .at = build_before(func, op)};
    for (int i = 0; i < op->n_operands; i++) {
        copy_value(&c, op->operands[i]);
        op_set_operand(op, i, clone_get(&group.copies, op->operands[i]));
    }
}

/* ---- uses that walk one value differently ---- */

enum { MOST_COPIED = 64 }; /* ops that one use has again */

static bool turns_axes(const Op *op, int pass)
{
    switch (op->kind) {
    case OP_PERMUTE:
    case OP_DOT: return true;
    case OP_EXPAND:
    case OP_SQUEEZE: return pass > 0;
    case OP_BROADCAST:
    case OP_STORE:
    case OP_SCATTER:
    case OP_REDUCE: return pass > 1;
    default: return false;
    }
}

static bool is_cheap_op(const Op *op)
{
    return (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_LOAD || op->kind == OP_CONST ||
            op->kind == OP_IOTA || op->kind == OP_SIZE || op->kind == OP_BROADCAST ||
            op->kind == OP_EXPAND || op->kind == OP_SQUEEZE || op->kind == OP_PERMUTE ||
            (op->kind == OP_GATHER && type_is_memory(op->operands[0]->type)));
}

/* Is it made in the group, also in a region there? */
static bool is_made_in(const Group *group, const Value *value)
{
    return value->def && is_within(value, group->parallel);
}

/* What is made again for one use. */
typedef struct Again {
    const Value *values[MOST_COPIED];
    int n;
    bool each_use; /* a value that is used twice is made twice */
} Again;

static bool is_counted(const Again *again, const Value *value)
{
    for (int i = 0; !again->each_use && i < again->n; i++) {
        if (again->values[i] == value) {
            return true;
        }
    }
    return false;
}

/* Does it take no more than MOST_COPIED ops to make the value again? Else which one is `costly`. */
static bool is_worth_copying(const Group *group, Value *value, Again *again, Value **costly)
{
    if (!is_made_in(group, value) || is_counted(again, value)) {
        return true;
    }
    if (!is_cheap_op(value->def) || again->n == MOST_COPIED) {
        *costly = value;
        return false;
    }
    again->values[again->n++] = value;
    for (int i = 0; i < value->def->n_operands; i++) {
        Value *operand = value->def->operands[i];
        if (operand && !is_worth_copying(group, operand, again, costly)) {
            return false;
        }
    }
    return true;
}

/* Copies what a value is made of, each op behind its original, for one use alone: each value once,
 * or, where what it is made of walks one value in two ways itself, each use of it by itself. */
static Value *own_copy(Func *func, Group *group, Value *value, CloneMap *copies, bool each_use)
{
    Op *op = value->def;
    if (!is_made_in(group, value) || type_is_scalar(value->type)) {
        return value;
    }
    if (!each_use && clone_get(copies, value) != value) {
        return clone_get(copies, value);
    }
    CloneMap fresh = clone_map_new(func), *map = each_use ? &fresh : copies;
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        if (operand) {
            Value *own = own_copy(func, group, operand, map, each_use);
            if (own != operand) {
                clone_map_value(map, operand, own);
            }
        }
    }
    Builder at = build_after(func, op);
    clone_op(&at, map, op);
    Value *own = clone_get(map, value);
    Value *original = fuse_original(group, value);
    if (original) {
        remember(func, group, own, original);
    }
    return own;
}

/* What the copies have replaced: from this value on down, what nothing reads any more. */
static void remove_unused(const Group *group, const Value *value)
{
    Op *op = value->def;
    bool used = !is_made_in(group, value) || fuse_has_effect(op);
    for (int i = 0; i < (op ? op->n_results : 0) && !used; i++) {
        used = op->results[i]->uses != NULL;
    }
    if (used || !op->parent) {
        return;
    }
    op_remove(op);
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i]) {
            remove_unused(group, op->operands[i]);
        }
    }
}

/* One operand used by several ops, that this op walks in its own way. */
static bool give_own(Func *func, Group *group, Op *op, int i, bool each_use, Value **costly)
{
    Value *operand = op->operands[i];
    Value *found = NULL;
    Again again = {.each_use = each_use};
    if (!is_worth_copying(group, operand, &again, &found)) {
        /* Too many ops: the operand itself goes through memory, not whichever op was the last. */
        Value *whole = again.n == MOST_COPIED ? fuse_original(group, operand) : NULL;
        *costly = *costly ? *costly : whole ? whole : fuse_original(group, found);
        return false;
    }
    CloneMap copies = clone_map_new(func);
    op_set_operand(op, i, own_copy(func, group, operand, &copies, each_use));
    if (op->operands[i] != operand) {
        remove_unused(group, operand);
    }
    return op->operands[i] != operand;
}

static bool is_tangled(Axes *axes, const Group *group)
{
    axes_again(axes, group->parallel->regions[0]);
    return axes_conflict(axes, group->parallel->regions[0]);
}

typedef struct Untangler {
    Func *func;
    Group *group;
    Axes axes;
    int pass;
    bool each_use; /* copies have nothing twice */
    Value **costly;
} Untangler;

static bool gives_own(Untangler *u, Op *op)
{
    bool changed = false;
    for (int i = 0; turns_axes(op, u->pass) && i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        if (operand && operand->def && operand->type->kind == TYPE_ARRAY) {
            changed = give_own(u->func, u->group, op, i, u->each_use, u->costly) || changed;
        }
    }
    return changed;
}

/* Use by use, in regions too, until no value is walked twice. */
static bool untangles(Untangler *u, const Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->n_regions; r++) {
            if (untangles(u, op->regions[r])) {
                return true;
            }
        }
        if (gives_own(u, op) && !is_tangled(&u->axes, u->group)) {
            return true;
        }
    }
    return false;
}

static bool untangles_somehow(Untangler *u, const Block *block)
{
    for (int round = 0; round < 6; round++) {
        u->pass = round % 3;
        u->each_use = round >= 3;
        if (untangles(u, block)) {
            return true;
        }
    }
    return false;
}

bool fuse_untangle(Func *func, Group *group, Value **costly)
{
    Untangler u = {.func = func, .group = group, .axes = {.func = func}, .costly = costly};
    *costly = NULL;
    bool good = !is_tangled(&u.axes, group) || untangles_somehow(&u, group->parallel->regions[0]);
    axes_done(&u.axes);
    return good;
}
