/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves axis conflicts: uses that iterate over one value along different axes get copies of it.
 *
 *   %0 = load %x : f32[M, M]              %0 = load %x : f32[M, M]
 *   %1 = permute %0 perm=[1, 0]     →     %2 = load %x : f32[M, M]
 *   %3 = add %0, %1                       %1 = permute %2 perm=[1, 0]
 *                                         %3 = add %0, %1
 *
 * A launch has one loop for each class of axes that iterate together, so no value may have two axes
 * of one class. Uses are joined to the value that they read one by one: first those that keep the
 * value's axes (elementwise ops), last those that exchange axes. A use conflicts if it would put
 * two axes of a value into one class, or a loop-carried axis into the class of an axis that the
 * loop's steps reduce. A conflicting use reads another copy of the value that it can be joined to,
 * or a new copy, whose operands are treated in the same way. So only what differs is copied. A
 * value that cannot be copied (a dot, a reduction, a loop), or whose copy takes too many ops, is
 * reported as the one that needs a launch of its own. */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"

#include <string.h>

enum {
    MAX_COPIED = 64,     /* ops that are computed again for one use */
    WIDTH = MAX_RANK + 1 /* axes of an item: of a value, or rows, columns and depth of a dot */
};

/* Axis k of item i is node i * WIDTH + k; classes are trees of nodes, and rings through `next`. */
typedef struct Node {
    uint32_t parent, next, size;
    uint64_t carried, folded; /* of a class: by which loops of the group, as bits */
} Node;

typedef struct Item {
    uint16_t axes; /* as bits, without those of one element; all are of different classes */
    bool known;
    uint32_t frame; /* of a dot's result: the item of its rows, columns and depth; 0: none yet */
    Value *other;   /* the next copy of the same value, around */
} Item;

typedef struct Join {
    uint32_t small, large;
    uint64_t carried, folded; /* of the large one, before */
} Join;

/* Two nodes of one class, since `by` reads what it reads as operand `use`. */
typedef struct Tie {
    const Op *by;
    int use;
    uint32_t a, b;
} Tie;

typedef struct Untangler {
    Func *func;
    FusionGroup *group;
    Block *block;
    Node *nodes;
    Item *items; /* by value id */
    size_t cap;
    struct {
        Join *items;
        size_t n, cap;
    } joins; /* to be undone, the last one first */
    struct {
        Tie *items;
        size_t n, cap;
    } ties; /* of the op that is looked at */
    AxesWriters writers;
    Value *costly;
} Untangler;

/* What the copies of one use are made for. */
typedef struct Origin {
    const Value *value;
    int n_copied;
} Origin;

/* ---- classes ---- */

static void grow(Untangler *u, uint32_t id)
{
    if (id >= u->cap) {
        size_t cap = 2 * ((size_t)id + 1);
        Node *nodes = arena_alloc_raw(u->func->arena, sizeof *nodes * cap * WIDTH);
        Item *items = ARENA_ARRAY(u->func->arena, Item, cap);
        if (u->cap) {
            memcpy(nodes, u->nodes, sizeof *nodes * u->cap * WIDTH);
            memcpy(items, u->items, sizeof *items * u->cap);
        }
        u->nodes = nodes;
        u->items = items;
        u->cap = cap;
    }
}

static Item *know(Untangler *u, uint32_t id, uint16_t axes)
{
    grow(u, id);
    Item *item = &u->items[id];
    if (!item->known) {
        *item = (Item){.axes = axes, .known = true};
        for (uint32_t k = 0; k < WIDTH; k++) {
            uint32_t node = id * WIDTH + k;
            u->nodes[node] = (Node){.parent = node, .next = node, .size = 1};
        }
    }
    return item;
}

static Item *item_of(Untangler *u, const Value *value)
{
    unsigned axes = 0;
    for (int k = 0; value->type->kind == TYPE_ARRAY && k < value->type->rank; k++) {
        axes |= axes_is_settled(value->type->dims[k]) ? 0 : 1u << k;
    }
    return know(u, value->id, (uint16_t)axes);
}

static uint32_t class_of(const Untangler *u, uint32_t node)
{
    while (u->nodes[node].parent != node) {
        node = u->nodes[node].parent;
    }
    return node;
}

static uint32_t node_of(Untangler *u, const Value *value, int axis)
{
    item_of(u, value);
    return value->id * WIDTH + (uint32_t)axis;
}

/* Does an item that has an axis of one class have one of the other, too? */
static bool conflict(const Untangler *u, uint32_t small, uint32_t large)
{
    uint32_t node = small;
    do {
        uint32_t first = node / WIDTH * WIDTH;
        for (uint32_t k = 0; k < WIDTH; k++) {
            bool is_axis = u->items[node / WIDTH].axes >> k & 1;
            if (is_axis && first + k != node && class_of(u, first + k) == large) {
                return true;
            }
        }
        node = u->nodes[node].next;
    } while (node != small);
    return false;
}

static void swap_rings(Untangler *u, uint32_t a, uint32_t b)
{
    uint32_t next = u->nodes[a].next;
    u->nodes[a].next = u->nodes[b].next;
    u->nodes[b].next = next;
}

static bool join(Untangler *u, uint32_t a, uint32_t b)
{
    uint32_t small = class_of(u, a), large = class_of(u, b);
    if (small == large) {
        return true;
    }
    if (u->nodes[small].size > u->nodes[large].size) {
        uint32_t larger = small;
        small = large;
        large = larger;
    }
    Node *from = &u->nodes[small], *to = &u->nodes[large];
    if ((from->carried & to->folded) || (from->folded & to->carried) || conflict(u, small, large)) {
        return false;
    }
    Join undo = {small, large, to->carried, to->folded};
    ARENA_PUSH(u->func->arena, &u->joins, undo);
    from->parent = large;
    to->size += from->size;
    to->carried |= from->carried;
    to->folded |= from->folded;
    swap_rings(u, small, large);
    return true;
}

static void undo_joins(Untangler *u, size_t n)
{
    while (u->joins.n > n) {
        Join *last = &u->joins.items[--u->joins.n];
        swap_rings(u, last->small, last->large);
        u->nodes[last->large].size -= u->nodes[last->small].size;
        u->nodes[last->large].carried = last->carried;
        u->nodes[last->large].folded = last->folded;
        u->nodes[last->small].parent = last->small;
    }
}

/* ---- uses ---- */

static void push_tie(const AxesTie *tie, void *user)
{
    Untangler *u = user;
    uint32_t a = node_of(u, tie->a, tie->i), b = node_of(u, tie->b, tie->k);
    Tie own = {tie->by, tie->use, a, b};
    ARENA_PUSH(u->func->arena, &u->ties, own);
}

/* The rows, columns and depth of a dot are different axes, whatever its operands are. */
static void push_frame(Untangler *u, const Op *dot)
{
    const Value *a = dot->operands[0], *result = dot->results[0];
    uint32_t depth = (uint32_t)result->type->rank;
    Item *item = item_of(u, result);
    unsigned inner = item_of(u, a)->axes >> (a->type->rank - 1) & 1;
    if (!item->frame) {
        uint32_t frame = u->func->n_values++; /* a number that no value has */
        uint16_t axes = (uint16_t)(item->axes | inner << depth);
        item->frame = frame;
        know(u, frame, axes);
    }
    uint32_t first = u->items[result->id].frame * WIDTH;
    for (uint32_t k = 0; k < depth; k++) {
        Tie own = {NULL, 0, first + k, node_of(u, result, (int)k)};
        ARENA_PUSH(u->func->arena, &u->ties, own);
    }
    Tie own = {dot, 0, node_of(u, a, a->type->rank - 1), first + depth};
    ARENA_PUSH(u->func->arena, &u->ties, own);
}

static void collect_ties(Untangler *u, Op *op)
{
    u->ties.n = 0;
    axes_ties(op, push_tie, u);
    if (axes_written(op)) {
        axes_ties_written(op, &u->writers, push_tie, u);
    }
    if (op->kind == OP_DOT) {
        push_frame(u, op);
    }
}

/* Joins the axes of one use; `by` NULL: those that no use decides. */
static bool join_use(Untangler *u, const Op *by, int use)
{
    size_t before = u->joins.n;
    for (size_t i = 0; i < u->ties.n; i++) {
        const Tie *tie = &u->ties.items[i];
        if (tie->by == by && tie->use == use && !join(u, tie->a, tie->b)) {
            undo_joins(u, before);
            return false;
        }
    }
    return true;
}

/* Can operand `use` of `by` be this value? `op`: `by`, or what `by` yields to. */
static bool reads(Untangler *u, Op *op, Op *by, int use, Value *value)
{
    Value *old = by->operands[use];
    if (value != old) {
        op_set_operand(by, use, value);
    }
    collect_ties(u, op);
    bool joined = join_use(u, by, use);
    if (!joined && value != old) {
        op_set_operand(by, use, old);
    }
    return joined;
}

static bool is_cheap_op(const Op *op)
{
    return (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) || op->kind == OP_LOAD ||
            op->kind == OP_CONST || op->kind == OP_IOTA || op->kind == OP_SIZE ||
            (op->kind == OP_GATHER && type_is_memory(op->operands[0]->type)));
}

/* Right behind the op of which it is one. */
static Value *new_copy(Untangler *u, Value *value)
{
    const Op *op = value->def;
    Builder at = build_after(u->func, value->def);
    at.span = op->span;
    Op *copy = build_op(&at, op->kind, op->n_operands, op->operands, 1, &value->type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    Value *result = copy->results[0], *original = fuse_original(u->group, value);
    result->name = value->name;
    if (original) {
        fuse_remember(u->func, u->group, result, original);
    }
    item_of(u, result); /* may move the items */
    Item *own = item_of(u, value);
    u->items[result->id].other = own->other ? own->other : value;
    own->other = result;
    return result;
}

static bool resolve(Untangler *u, Op *op, Op *by, int use, Origin *origin);

static bool resolve_copy(Untangler *u, Op *op, Op *by, int use, Origin *origin)
{
    Value *value = by->operands[use];
    Op *def = value->def;
    bool inner = def->parent != u->block;
    if (!is_cheap_op(def)) {
        u->costly = fuse_original(u->group, value);
        return false;
    }
    if (!origin->value && !inner) {
        origin->value = value;
    }
    if (origin->value && ++origin->n_copied > MAX_COPIED) {
        u->costly = fuse_original(u->group, origin->value);
        return false;
    }
    Value *copy = new_copy(u, value);
    if (!reads(u, op, by, use, copy)) {
        u->costly = fuse_original(u->group, value);
        return false;
    }
    for (int i = 0; i < def->n_operands; i++) {
        if (!resolve(u, copy->def, copy->def, i, origin)) {
            return false;
        }
    }
    return true;
}

/* Joins a use to the value that it reads, to another copy of it, or to a new one. */
static bool resolve(Untangler *u, Op *op, Op *by, int use, Origin *origin)
{
    Value *value = by->operands[use];
    if (!value || value->type->kind != TYPE_ARRAY || reads(u, op, by, use, value)) {
        return true;
    }
    for (Value *copy = u->items[value->id].other; copy && copy != value;
         copy = u->items[copy->id].other) {
        if (reads(u, op, by, use, copy)) {
            return true;
        }
    }
    bool is_defined_inside = value->def && fuse_is_within(value, u->group->parallel);
    return is_defined_inside && resolve_copy(u, op, by, use, origin);
}

/* ---- the group ---- */

/* In rounds: the later, the rather has a use of such an op a copy of its own. */
static int pass_of(const Op *op)
{
    switch (op->kind) {
    case OP_PERMUTE:
    case OP_DOT: return 3;
    case OP_EXPAND:
    case OP_SQUEEZE: return 2;
    case OP_BROADCAST:
    case OP_STORE:
    case OP_SCATTER:
    case OP_REDUCE: return 1;
    default: return 0;
    }
}

enum { LAST_ROUND = 3 };

/* What an op reads itself. */
static bool resolve_op(Untangler *u, Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        Origin origin = {NULL, 0};
        if (!resolve(u, op, op, i, &origin)) {
            return false;
        }
    }
    return true;
}

/* Results and arguments, then what its regions yield. */
static bool resolve_inside(Untangler *u, Op *op)
{
    collect_ties(u, op);
    bool good = join_use(u, NULL, 0);
    for (int r = 0; good && r < op->n_regions; r++) {
        Op *yield = op->regions[r]->last;
        for (int i = 0; good && yield && yield->kind == OP_YIELD && i < yield->n_operands; i++) {
            Origin origin = {NULL, 0};
            good = resolve(u, op, yield, i, &origin);
        }
    }
    return good;
}

/* The ops of a block and of the regions in it; `outer`: only what is in their regions. */
static bool resolve_pass(Untangler *u, const Block *block, int pass, bool outer)
{
    bool good = true;
    for (Op *op = block->first; op && good; op = op->next) {
        good = pass > 0 || resolve_inside(u, op);
        good = good && (outer || pass_of(op) != pass || resolve_op(u, op));
        for (int r = 0; r < op->n_regions && good; r++) {
            good = resolve_pass(u, op->regions[r], pass, false);
        }
    }
    return good;
}

typedef struct Loop {
    Untangler *u;
    uint64_t bit;
    bool folds;
} Loop;

static void mark(const Loop *loop, const Value *value, int axis)
{
    Untangler *u = loop->u;
    if (!(item_of(u, value)->axes >> axis & 1)) {
        return;
    }
    Node *class = &u->nodes[class_of(u, node_of(u, value, axis))];
    if (!loop->folds) {
        class->carried |= loop->bit;
    } else if (class->carried & loop->bit) {
        class->carried &= ~loop->bit; /* its steps do mix it */
    } else {
        class->folded |= loop->bit;
    }
}

static void mark_all(const Loop *loop, const Value *value)
{
    for (int k = 0; value->type->kind == TYPE_ARRAY && k < value->type->rank; k++) {
        mark(loop, value, k);
    }
}

static void mark_carried(Op *op, void *user)
{
    for (int r = 0; r < op->n_regions && op->kind != OP_FOLD; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            mark_all(user, op->regions[r]->args[i]);
        }
    }
    for (int i = 0; i < op->n_results && op->kind == OP_IF; i++) {
        mark_all(user, op->results[i]);
    }
}

static void mark_folded(Op *op, void *user)
{
    if (op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD) {
        mark(user, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    } else if (op->kind == OP_DOT) {
        mark(user, op->operands[0], op->operands[0]->type->rank - 1);
    }
}

/* What a loop carries and what its steps reduce stay separate where they are. */
static void mark_loops(Untangler *u)
{
    int n = 0;
    for (Op *op = u->block->first; op; op = op->next) {
        if (op->n_regions && fuse_is_uniform(op)) {
            Loop loop = {u, (uint64_t)1 << n++ % 64, false};
            mark_carried(op, &loop);
            for (int r = 0; r < op->n_regions; r++) {
                block_walk(op->regions[r], mark_carried, &loop);
            }
            loop.folds = true;
            for (int r = 0; r < op->n_regions; r++) {
                block_walk(op->regions[r], mark_folded, &loop);
            }
        }
    }
}

static void add_writer(Op *op, void *user)
{
    Untangler *u = user;
    axes_add_writer(u->func->arena, &u->writers, op);
}

static bool resolve_group(Untangler *u)
{
    block_walk(u->block, add_writer, u);
    bool good = true;
    for (int pass = 0; pass <= LAST_ROUND && good; pass++) {
        good = resolve_pass(u, u->block, pass, true);
    }
    mark_loops(u);
    for (int pass = 0; pass <= LAST_ROUND && good; pass++) {
        good = resolve_pass(u, u->block, pass, false);
    }
    return good;
}

/* ---- what the copies have replaced ---- */

/* From the last op to the first: what reads an op comes behind it. */
static void remove_unused(Block *block)
{
    for (Op *op = block->last, *before; op; op = before) {
        bool used = fuse_has_effect(op) || !op->next; /* what the block is for */
        before = op->prev;
        for (int i = 0; i < op->n_results; i++) {
            used = used || op->results[i]->uses;
        }
        for (int r = 0; r < op->n_regions; r++) {
            remove_unused(op->regions[r]);
        }
        if (!used) {
            op_remove(op);
        }
    }
}

static bool is_tangled(Func *func, Block *block)
{
    Axes axes = an_axes(func, block);
    bool tangled = axes_conflict(&axes, block) || fuse_steps_mix(func, &axes, block);
    axes_done(&axes);
    return tangled;
}

bool fuse_resolve_axis_conflicts(Func *func, FusionGroup *group, Value **costly)
{
    Block *block = group->parallel->regions[0];
    *costly = NULL;
    if (!is_tangled(func, block)) {
        return true;
    }
    Untangler u = {.func = func, .group = group, .block = block};
    if (!resolve_group(&u)) {
        *costly = u.costly;
        return false;
    }
    remove_unused(block);
    return !is_tangled(func, block);
}
