/* SPDX-License-Identifier: Apache-2.0 */
/* Stores to several `inout` tensors that need each other's old elements become one launch.
 *
 *   %0 = load %a[:]                        parallel dims=[] steps=[] {
 *   %1 = load %b[:]                          %0 = load %a[:]
 *   %t = add %0, %1                          %1 = load %b[:]
 *   %u = sub %0, %1                   →      %t = add %0, %1
 *   store %a[:], %t                          %u = sub %0, %1
 *   store %b[:], %u                          store %a[:], %t
 *                                            store %b[:], %u
 *                                          }
 *
 * In separate launches, the second store would need elements of %a that the first one has
 * overwritten, so %a would have to be copied first. One launch needs no copy if each access to a
 * tensor that it writes has the index map of the store: then one iteration of the grid reads and
 * writes an element, in the order of the program, which the ops of the launch keep. The same holds
 * for the pieces of one store (fuse_pieces.c): a read of an element conflicts only with the store
 * of the piece that contains it. */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"
#include "passes/analysis/inverse_map.h"

enum { MAX_STORES = 64 };

typedef struct Update {
    Func *func;
    Block *block;
    Op *stores[MAX_STORES];
    int n;
} Update;

/* ---- the launch ---- */

/* An equal load of the group behind which nothing overwrites the memory, or NULL. */
static Op *equal_load(const FusionGroup *group, const Op *load)
{
    for (Op *op = group->parallel->regions[0]->last; op; op = op->prev) {
        bool equal = op->kind == OP_LOAD && op->n_operands == load->n_operands;
        for (int i = 0; i < op->n_operands && equal; i++) {
            equal = op->operands[i] ==
                    (load->operands[i] ? clone_get(&group->copies, load->operands[i]) : NULL);
        }
        if (equal || op_writes(op, load->operands[0])) {
            return equal ? op : NULL;
        }
    }
    return NULL;
}

/* A group of the stores and all that they need of the block, in the block's order. */
static FusionGroup group_in_order(Update *update, Builder *at)
{
    Func *func = update->func;
    NeededOps needed = fuse_needed_ops(func, update->block, update->n, update->stores, true);
    FusionGroup group = {.copies = clone_map_new(func)};
    group.parallel = build_parallel(at, OP_PARALLEL, 0, NULL, NULL, NULL);
    group.parallel->span = update->stores[0]->span;
    Builder in = build_at_end(func, group.parallel->regions[0]);
    for (size_t i = 0; i < needed.n; i++) {
        const Op *op = needed.items[i];
        Op *equal = op->kind == OP_LOAD ? equal_load(&group, op) : NULL;
        const Op *copy = equal ? equal : clone_op(&in, &group.copies, op);
        for (int k = 0; k < op->n_results; k++) {
            if (equal) {
                clone_map_value(&group.copies, op->results[k], equal->results[k]);
            } else {
                fuse_remember(func, &group, copy->results[k], op->results[k]);
            }
        }
    }
    return group;
}

/* ---- legality ---- */

typedef struct Check {
    const Axes *axes;
    const Block *group;
    const Op *first; /* store */
    bool pointwise;
} Check;

static bool writes(const Op *op)
{
    return op->kind == OP_STORE || op->kind == OP_SCATTER;
}

/* True if the op reads, in each iteration of the grid, the elements that the store writes. */
static bool same_map(const Axes *axes, const Op *load, const Op *store)
{
    const Value *read = load->results[0], *written = op_moved_value(store);
    bool plain = load->kind == OP_LOAD && store->kind == OP_STORE;
    bool indexed = load->kind == OP_GATHER && store->kind == OP_SCATTER;
    bool same = (plain || indexed) && read->type->rank == written->type->rank;
    for (int i = 1; same && i <= op_access(store, 0).n; i++) {
        same = plain ? load->operands[i] == store->operands[i]
                     : an_same_index(axes->func, load->operands[i], store->operands[i]);
    }
    for (int i = 0; same && i < read->type->rank; i++) {
        same = axes_class(axes, read, i) == axes_class(axes, written, i);
    }
    return same;
}

/* True if the store iterates over the axes of the group's first one, in any order. A store of fewer
 * axes would be executed by several blocks, of which some may still read the old elements. */
static bool same_axes(const Axes *axes, const Op *first, const Op *store)
{
    const Value *all = op_moved_value(first), *own = op_moved_value(store);
    bool same = all->type->rank == own->type->rank;
    for (int i = 0; same && i < own->type->rank; i++) {
        bool found = false;
        for (int k = 0; k < all->type->rank; k++) {
            found = found || axes_class(axes, all, k) == axes_class(axes, own, i);
        }
        same = found;
    }
    return same;
}

/* True if the store writes what the op accesses in the same iteration of the grid alone, or never:
 * it writes another piece than the store of the elements that the op reads. */
static bool is_disjoint(const Check *check, const Op *op, const Op *store)
{
    bool disjoint = writes(op) ? fuse_are_pieces(op, store)
                               : op->parent == check->group && same_map(check->axes, op, store);
    for (const Op *own = check->group->first; own && !disjoint && !writes(op); own = own->next) {
        disjoint = writes(own) && own->operands[0] == store->operands[0] &&
                   fuse_are_pieces(own, store) && op->parent == check->group &&
                   same_map(check->axes, op, own);
    }
    return disjoint;
}

static void check_access(Op *op, void *user)
{
    Check *check = user;
    if (writes(op)) {
        check->first = check->first ? check->first : op;
        check->pointwise = check->pointwise && same_axes(check->axes, check->first, op);
    }
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *memory = op->operands[at];
        for (const Op *store = check->group->first; memory && store; store = store->next) {
            if (writes(store) && store != op && store->operands[0] == memory) {
                check->pointwise = check->pointwise && is_disjoint(check, op, store);
            }
        }
    }
}

/* True if each element of what the op makes needs one element of its operands: the launch then has
 * no loop over elements within a block, between whose iterations a store could come. */
static bool is_elementwise(const Op *op)
{
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE:
    case OP_SCATTER:
    case OP_IOTA:
    case OP_CONST:
    case OP_INDEX:
    case OP_SIZE: return true;
    case OP_GATHER: return type_is_memory(op->operands[0]->type);
    default: return op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
    }
}

static bool all_elementwise(const Block *block)
{
    bool all = true;
    for (const Op *op = block->first; op && all; op = op->next) {
        all = is_elementwise(op);
    }
    return all;
}

static size_t count_ops(const Block *block)
{
    size_t n = 0;
    for (const Op *op = block->first; op; op = op->next) {
        n++;
    }
    return n;
}

/* True if a store before the update overwrites what the group reads: its loads would come too late.
 * The loads of the group know their originals; those behind the first store of the update have only
 * stores of the update before them. */
static bool reads_overwritten(const Update *update, const FusionGroup *group)
{
    for (const Op *copy = group->parallel->regions[0]->first; copy; copy = copy->next) {
        bool reads = copy->kind == OP_LOAD || copy->kind == OP_GATHER;
        const Op *load = reads ? fuse_original(group, copy->results[0])->def : NULL;
        for (const Op *op = load; op && op_is_before(op, update->stores[0]); op = op->next) {
            if (op_writes(op, load->operands[0])) {
                return true;
            }
        }
    }
    return false;
}

/* True if the stores make one launch in which each element is read and written in one iteration. A
 * copy of a value for a use along other axes may stand behind a store: then it is refused. */
static bool is_legal(Update *update)
{
    Func *func = update->func;
    uint32_t n_values = func->n_values;
    Builder at = build_at_end(func, update->block);
    FusionGroup group = group_in_order(update, &at);
    Block *region = group.parallel->regions[0];
    size_t n_ops = count_ops(region);
    bool legal = all_elementwise(region) && !reads_overwritten(update, &group) &&
                 fuse_nest_check(func, &group, NULL, NULL) == FUSE_FITS &&
                 count_ops(region) == n_ops;
    if (legal) {
        Axes axes = an_axes(func, region);
        Check check = {&axes, region, NULL, !axes_conflict(&axes, region)};
        block_walk(region, check_access, &check);
        legal = check.pointwise;
        axes_done(&axes);
    }
    op_remove(group.parallel);
    func->n_values = n_values;
    return legal;
}

/* ---- which stores ---- */

static bool is_update(const Func *func, const Op *op)
{
    if (op->kind == OP_SCATTER && op_attr(op, ATTR_PIECE)) {
        return true;
    }
    return op->kind == OP_STORE && op->operands[0]->type->kind == TYPE_TENSOR &&
           func->params.items[op->operands[0]->index].io != PARAM_SCRATCH &&
           !fuse_is_repacked(op);
}

static bool writes_inout(const Func *func, const Op *store)
{
    return func->params.items[store->operands[0]->index].io == PARAM_INOUT;
}

/* True if one of the stores must wait for another one, or needs a copy of what it overwrites. */
static bool has_dependence(const Update *update)
{
    Func *func = update->func;
    MemoryEffects effects[MAX_STORES];
    for (int i = 0; i < update->n; i++) {
        effects[i] = fuse_touches(func, update->stores[i]);
        if (fuse_changed_read(func, update->stores[i])) {
            return true;
        }
        for (int k = 0; k < i; k++) {
            if (fuse_order(func, &effects[k], &effects[i]) == ORDER_STRICT) {
                return true;
            }
        }
    }
    return false;
}

/* Makes one launch of the longest legal run of the update's first stores. Returns the op behind
 * it, or behind the first store if it is alone. */
static Op *build_update(Update *update)
{
    while (update->n > 1 && !is_legal(update)) {
        update->n--;
    }
    Op *last = update->stores[update->n - 1], *next = last->next;
    if (update->n > 1 && has_dependence(update)) {
        Builder at = build_after(update->func, last);
        group_in_order(update, &at);
        for (int i = 0; i < update->n; i++) {
            op_remove(update->stores[i]);
        }
    }
    return next;
}

void fuse_in_place(Func *func, Block *block)
{
    for (Op *op = block->first; op;) {
        Update update = {.func = func, .block = block};
        bool inout = false;
        for (; op && update.n < MAX_STORES && (!fuse_has_effect(op) || is_update(func, op));
             op = op->next) {
            if (fuse_has_effect(op)) {
                update.stores[update.n++] = op;
                inout = inout || writes_inout(func, op);
            }
        }
        if (inout && update.n > 1 && has_dependence(&update)) {
            op = build_update(&update);
        } else if (update.n == 0 && op) {
            op = op->next;
        }
    }
}
