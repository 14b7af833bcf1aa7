/* SPDX-License-Identifier: Apache-2.0 */
/* Stores along whole axes in a `parallel` of the source. The extent of a tile must be known at
 * compile time, so a loop iterates over an axis of unknown extent, if its elements do not depend on
 * each other.
 *
 *   %0 = load %x[%i, :] : f32[%i, N]     →     for %n: N by auto {
 *   %1 = mul %0, %0                              %0 = load %x[%i, %n] : f32[%i, %n]
 *   store %y[%i, :], %1                          %1 = mul %0, %0
 *                                                store %y[%i, %n], %1 }
 *
 * A value that is reduced along the axis, or comes from a loop, is left alone: its extent must be
 * known. */
#include "passes/tile/tile.h"

typedef struct AxisWalk {
    Func *func;
    const Op *parallel, *store;
    Dim dim;
    CloneMap clones;
    uint8_t *tried; /* by value id: 1 if its op has been looked at */
    Builder at;
    Value *range;
} AxisWalk;

static bool is_symbolic(Dim dim)
{
    int64_t extent;
    return !poly_is_const(dim, &extent) && !poly_as_range(dim);
}

/* How many of its axes are the walked one. */
static int count_axes(const AxisWalk *walk, const Value *value)
{
    int n = 0;
    for (int i = 0; value && value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        n += value->type->dims[i] == walk->dim;
    }
    return n;
}

typedef struct Writers {
    const Value *memory;
    int n;
} Writers;

static void count_writer(Op *op, void *user)
{
    Writers *writers = user;
    writers->n += op->n_regions == 0 && op_writes(op, writers->memory);
}

/* True if the load reads what the store will write, and no other op of the `parallel` does: then
 * each element is read before it is written, in whichever order they come. */
static bool reads_own_place(const AxisWalk *walk, const Op *load)
{
    const Op *store = walk->store;
    Writers writers = {load->operands[0], 0};
    bool same = load->kind == OP_LOAD && store->kind == OP_STORE && load->parent == store->parent;
    for (int i = 0; same && i < load->n_operands; i++) {
        same = load->operands[i] == store->operands[i];
    }
    block_walk(walk->parallel->regions[0], count_writer, &writers);
    return same && writers.n == 1;
}

/* True if each element along the axis is made of elements at its own place. */
static bool is_pointwise(const AxisWalk *walk, const Op *op)
{
    bool moves = op->kind == OP_LOAD || op->kind == OP_GATHER;
    if (moves) {
        const Value *memory = op->operands[0];
        return memory->type->kind == TYPE_TENSOR &&
               (!op_writes(walk->parallel, memory) || reads_own_place(walk, op));
    }
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE: return true;
    default: return op_has(op, TRAIT_ELEMENTWISE);
    }
}

/* ---- can it be walked? ---- */

static bool can_walk(AxisWalk *walk, const Value *value)
{
    int n = count_axes(walk, value);
    if (n == 0) {
        return true;
    }
    const Op *op = value->def;
    if (n > 1 || !op || op->n_results != 1 || !is_pointwise(walk, op)) {
        return false;
    }
    if (walk->tried[value->id]) {
        return true;
    }
    walk->tried[value->id] = 1;
    bool all = true;
    for (int i = 0; i < op->n_operands && all; i++) {
        all = can_walk(walk, op->operands[i]);
    }
    return all;
}

/* ---- the loop ---- */

static Type walked_type(const AxisWalk *walk, Type type)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i] == walk->dim ? walk->range->type->dims[0] : type->dims[i];
    }
    return type_with_dims(walk->func, type, type->rank, dims);
}

/* Indexes the axis that is taken whole by the range. */
static void index_by_range(const AxisWalk *walk, Op *op)
{
    Access access = op_access(op, 0);
    for (int i = 0; i < access.n; i++) {
        if (!access.indices[i] && access.memory->type->dims[i] == walk->dim) {
            op_set_operand(op, 1 + i, walk->range);
        }
    }
}

static Value *walked(AxisWalk *walk, Value *value)
{
    if (count_axes(walk, value) == 0 || clone_get(&walk->clones, value) != value) {
        return clone_get(&walk->clones, value);
    }
    Op *op = value->def;
    if (op->kind == OP_IOTA) {
        clone_map_value(&walk->clones, value,
                        build_index(&walk->at, walk->range, value->type->dtype));
        return clone_get(&walk->clones, value);
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i]) {
            walked(walk, op->operands[i]);
        }
    }
    Op *copy = clone_op(&walk->at, &walk->clones, op);
    copy->results[0]->type = walked_type(walk, value->type);
    if (op->kind == OP_LOAD) {
        index_by_range(walk, copy);
    }
    return copy->results[0];
}

/* Puts a loop in the store's place; the store in it, or NULL if the axis cannot be walked. */
static Op *walk_axis(Func *func, const Op *parallel, Op *store, Dim dim)
{
    AxisWalk walk = {.func = func, .parallel = parallel, .store = store, .dim = dim};
    walk.clones = clone_map_new(func);
    walk.tried = ARENA_ARRAY(func->arena, uint8_t, func->n_values);
    for (int i = 0; i < store->n_operands; i++) {
        if (!can_walk(&walk, store->operands[i])) {
            return NULL;
        }
    }
    Builder before = build_before(func, store);
    before.span = store->span;
    const DimVar *size = poly_as_var(dim);
    Value *hi = build_size(&before, dim), *lo = build_i64(&before, 0);
    Op *loop = build_for(&before, dim, -1, size ? size->name : "axis", lo, hi, 0, NULL);
    walk.range = loop->regions[0]->args[0];
    walk.at = build_at_end(func, loop->regions[0]);
    for (int i = 1; i < store->n_operands; i++) {
        if (store->operands[i]) {
            walked(&walk, store->operands[i]);
        }
    }
    Op *copy = clone_op(&walk.at, &walk.clones, store);
    if (copy->kind == OP_STORE) {
        index_by_range(&walk, copy);
    }
    build_yield(&walk.at, 0, NULL);
    op_remove(store);
    return copy;
}

typedef struct WholeAxes {
    Op *parallel;
    bool changed;
} WholeAxes;

static void walk_store(Op *op, void *user)
{
    WholeAxes *axes = user;
    Op *parallel = axes->parallel;
    Func *func = parallel->parent->func;
    if ((op->kind != OP_STORE && op->kind != OP_SCATTER) || op->n_results) {
        return;
    }
    Type type = op_moved_value(op)->type;
    for (int i = 0; i < type->rank && op; i++) {
        if (is_symbolic(type->dims[i])) {
            op = walk_axis(func, parallel, op, type->dims[i]);
            axes->changed = axes->changed || op;
        }
    }
}

void tile_whole_axes(Func *func, Op *parallel)
{
    WholeAxes axes = {parallel, false};
    block_walk(parallel->regions[0], walk_store, &axes);
    if (axes.changed) {
        func_remove_dead(func);
    }
}
