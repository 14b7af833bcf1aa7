/* SPDX-License-Identifier: Apache-2.0 */
/* fuse: groups whole-tensor statements into launches.
 *
 *   %0 = load %x[:]                      parallel dims=[] steps=[] {
 *   %1 = load %y[:]               →        %0 = load %x[:]
 *   %2 = add %0, %1                        %1 = load %y[:]
 *   store %z[:], %2                        %2 = add %0, %1
 *                                          store %z[:], %2
 *                                        }
 *
 * A group is a `parallel` without axes: one launch, whose grid `tile` chooses. Stores over the same
 * extents share a group; each group recomputes what it needs from the inputs. `parallel` statements
 * of the source are groups already. Requires: the tensor stage. Changes no bits. */
#include "ir/build.h"
#include "passes/an_axes.h"
#include "passes/pass.h"

typedef struct Fuser {
    Func *func;
    Builder at;      /* end of the group that is being filled */
    bool share;      /* one copy of a value for all its uses */
    CloneMap shared; /* what the group holds already, when sharing */
} Fuser;

static Value *copy_value(Fuser *fuser, CloneMap *map, Value *value);

/* A value whose axes another use may walk differently gets its own copies of what it reads. */
static bool turns_axes(OpKind kind)
{
    return kind == OP_PERMUTE || kind == OP_DOT || kind == OP_BROADCAST || kind == OP_EXPAND;
}

static void copy_operands(Fuser *fuser, CloneMap *map, const Op *op)
{
    Value **copies = ARENA_ARRAY(fuser->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        if (operand && operand->def) {
            CloneMap own = clone_map_new(fuser->func); /* empty ones take no memory */
            bool apart = !fuser->share && turns_axes(op->kind);
            copies[i] = copy_value(fuser, apart ? &own : map, operand);
        }
    }
    for (int i = 0; i < op->n_operands; i++) { /* last: copying one may have mapped another */
        if (copies[i]) {
            clone_map_value(map, op->operands[i], copies[i]);
        }
    }
}

static Value *copy_value(Fuser *fuser, CloneMap *map, Value *value)
{
    Op *op = value->def;
    if (!op) {
        return value;
    }
    Value *known = clone_get(map, value);
    if (known != value && (fuser->share || op->kind != OP_LOAD)) {
        return known;
    }
    copy_operands(fuser, map, op);
    clone_op(&fuser->at, map, op);
    return clone_get(map, value);
}

static void copy_store(Fuser *fuser, CloneMap *map, const Op *store)
{
    copy_operands(fuser, map, store);
    clone_op(&fuser->at, map, store);
}

static bool same_extents(const Op *a, const Op *b)
{
    Type left = a->operands[a->n_operands - 1]->type, right = b->operands[b->n_operands - 1]->type;
    if (left->rank != right->rank) {
        return false;
    }
    for (int i = 0; i < left->rank; i++) {
        if (left->dims[i] != right->dims[i]) {
            return false;
        }
    }
    return true;
}

/* Fills `group` with `first` and every later store over the same extents. */
static void fill_group(Fuser *fuser, Op *group, Op *first, bool share)
{
    group->regions[0]->first = group->regions[0]->last = NULL;
    fuser->at = build_at_end(fuser->func, group->regions[0]);
    fuser->share = share;
    CloneMap map = clone_map_new(fuser->func);
    for (Op *op = first; op; op = op->next) {
        if (op->kind == OP_STORE && same_extents(op, first)) {
            copy_store(fuser, &map, op);
        }
    }
}

static void drop_stores_like(Op *first)
{
    for (Op *op = first->next; op;) {
        Op *next = op->next;
        if (op->kind == OP_STORE && same_extents(op, first)) {
            op_remove(op);
        }
        op = next;
    }
    op_remove(first);
}

static void group_store(Func *func, Op *store)
{
    Fuser fuser = {.func = func};
    Builder before = build_before(func, store);
    Op *group = build_parallel(&before, OP_PARALLEL, 0, NULL, NULL, NULL);
    fill_group(&fuser, group, store, true);
    Axes axes = axes_of(func, group->regions[0]);
    if (axes_conflict(&axes, group->regions[0])) {
        fill_group(&fuser, group, store, false);
    }
    drop_stores_like(store);
}

static Op *next_store(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_STORE) {
            return op;
        }
    }
    return NULL;
}

/* Scalars that were computed outside of a `parallel` move into it. */
static void sink_into(Func *func, Op *group)
{
    Op *first = group->regions[0]->first;
    if (!first) {
        return;
    }
    CloneMap map = clone_map_new(func);
    Builder at = build_before(func, first);
    for (Op *op = func->body->first; op != group; op = op->next) {
        if (op_has(op, TRAIT_PURE)) {
            clone_op(&at, &map, op);
            for (int i = 0; i < op->n_results; i++) {
                block_replace_uses(group->regions[0], op->results[i],
                                   clone_get(&map, op->results[i]));
            }
        }
    }
}

void pass_fuse(Func *func)
{
    for (Op *store = next_store(func); store; store = next_store(func)) {
        group_store(func, store);
    }
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_PARALLEL) {
            sink_into(func, op);
        }
    }
    func_remove_dead(func);
}
