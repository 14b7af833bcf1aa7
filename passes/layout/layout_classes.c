/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions the values into classes that share a layout: elementwise ops, loops and masks tie
 * their operands and results (union-find over the ids of values). Each class lists the ops that
 * move, reduce, load or store its values, so that choosing a layout visits only these. */
#include "ir/op_axes.h"
#include "passes/layout/assign_layouts.h"

#include <stdlib.h>

bool layout_spreads(const Value *value)
{
    return value && type_is_tile(value->type);
}

bool layout_is_shape_op(const Op *op)
{
    return op_moves_axes(op) || op->kind == OP_REDUCE;
}

uint32_t layout_class_root(LayoutPass *pass, const Value *value)
{
    uint32_t at = value->id;
    while (pass->parent[at] != at) {
        pass->parent[at] = pass->parent[pass->parent[at]];
        at = pass->parent[at];
    }
    return at;
}

/* No op changes while classes are built, so each answer is cached. */
bool layout_has_class(const LayoutPass *pass, const Value *value)
{
    enum { HAS = 1, HAS_NOT = 2 };
    if (!layout_spreads(value)) {
        return false;
    }
    uint8_t *known = &pass->classed[value->id];
    if (!*known) {
        *known = layout_is_cheap(value) ? HAS_NOT : HAS;
    }
    return *known == HAS;
}

static void tie(LayoutPass *pass, const Value *a, const Value *b)
{
    if (layout_has_class(pass, a) && layout_has_class(pass, b)) {
        pass->parent[layout_class_root(pass, a)] = layout_class_root(pass, b);
    }
}

static void tie_loop(LayoutPass *pass, const Op *op, int first_init, int first_arg)
{
    const Block *region = op->regions[0];
    for (int i = 0; i < op->n_results; i++) {
        tie(pass, op->operands[first_init + i], op->results[i]);
        tie(pass, region->args[first_arg + i], op->results[i]);
        tie(pass, region->last->operands[i], op->results[i]);
    }
}

static void tie_if(LayoutPass *pass, const Op *op)
{
    for (int region = 0; region < op->n_regions; region++) {
        for (int i = 0; i < op->n_results; i++) {
            tie(pass, op->regions[region]->last->operands[i], op->results[i]);
        }
    }
}

/* All operands and results with axes belong to one class. */
static void tie_all(LayoutPass *pass, const Op *op)
{
    const Value *first = NULL;
    for (int i = 0; i < op->n_operands + op->n_results; i++) {
        const Value *value = i < op->n_operands ? op->operands[i] : op->results[i - op->n_operands];
        if (layout_has_class(pass, value)) {
            first = first ? first : value;
            tie(pass, value, first);
        }
    }
}

/* Ties all values of a loop whose condition is a tile. With a scalar condition each loop-carried
 * value keeps its own class. */
static void tie_while(LayoutPass *pass, const Op *op)
{
    const Value *condition = op->regions[0]->last->operands[0];
    const Op *outer = op_enclosing(op, OP_WHILE);
    if (layout_spreads(condition)) {
        tie_all(pass, op);
        tie(pass, condition, op->results[0]);
    }
    if (layout_spreads(condition) && outer && outer->n_results &&
        outer->results[0]->type->rank == condition->type->rank) {
        tie(pass, op->results[0], outer->results[0]); /* whose elements it walks */
    }
    for (int i = 0; i < op->n_results; i++) {
        tie(pass, op->regions[0]->args[i], op->results[i]);
        tie(pass, op->regions[1]->args[i], op->results[i]);
        tie(pass, op->regions[1]->last->operands[i], op->results[i]);
        tie(pass, op->operands[i], op->results[i]);
    }
}

/* The first value that has a class; NULL: none has. */
Value *layout_first_classed(const LayoutPass *pass, int n, Value *const *values)
{
    for (int i = 0; i < n; i++) {
        if (layout_has_class(pass, values[i])) {
            return values[i];
        }
    }
    return NULL;
}

/* The operands of a fold share a class; results without the axis have their own. */
static void tie_fold(LayoutPass *pass, const Op *op)
{
    const Value *first = layout_first_classed(pass, op->n_results, op->operands);
    bool scan = op_int(op, ATTR_SCAN, 0) != 0;
    for (int i = 0; i < op->n_results; i++) {
        tie(pass, op->operands[i], first);
        tie(pass, op->results[i], scan && first ? first : op->results[0]);
    }
}

static void tie_op(LayoutPass *pass, const Op *op)
{
    switch (op->kind) {
    case OP_FOR: tie_loop(pass, op, 2, 1); return;
    case OP_TILE_LOOP: tie_loop(pass, op, 0, op_attr(op, ATTR_DIMS)->n); return;
    case OP_IF: tie_if(pass, op); return;
    case OP_WHILE: tie_while(pass, op); return;
    case OP_FOLD: tie_fold(pass, op); return;
    case OP_GATHER:
    case OP_SPIN_LOAD:
    case OP_SCATTER:
    case OP_PRINT:
    case OP_ASSERT:
    case OP_SCAN: tie_all(pass, op); return;
    case OP_RANK:
        for (int i = 0; i < op->n_results; i++) {
            tie(pass, op->operands[0], op->results[i]);
        }
        return;
    case OP_TILE_SCATTER: tie(pass, op->operands[0], op->operands[1]); return;
    case OP_LOOKUP: tie(pass, op->operands[1], op->results[0]); return;
    case OP_CLUSTER_REDUCE: tie(pass, op->operands[0], op->results[0]); return;
    case OP_DOT_WAIT:
        for (int i = 0; i < op->n_results; i++) {
            tie(pass, op->operands[i], op->results[i]);
        }
        return;
    case OP_DOT:
    case OP_DOT_ASYNC: tie(pass, dot_accumulator(op), op->results[0]); return;
    default: break;
    }
    if (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_MASK) {
        for (int i = 0; i < op->n_operands; i++) {
            tie(pass, op->operands[i], op->results[0]);
        }
    }
}

/* ---- which ops have to do with a class ---- */

static void link(LayoutPass *pass, const Value *value, size_t op)
{
    if (!layout_has_class(pass, value)) {
        return;
    }
    LayoutLinks *links = pass->links;
    uint32_t root = layout_class_root(pass, value);
    LayoutLink *last = links->last[root];
    if (last && last->op == op) {
        return;
    }
    LayoutLink *added = ARENA_NEW(pass->func->arena, LayoutLink);
    added->op = (uint32_t)op;
    *(last ? &last->next : &links->first[root]) = added;
    links->last[root] = added;
}

static void link_op(LayoutPass *pass, size_t at)
{
    const Op *op = pass->ops.items[at];
    bool folds = op->kind == OP_SCAN || op->kind == OP_FOLD;
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_TILE_SCATTER;
    for (int i = 0; folds && i < op->n_results; i++) {
        link(pass, op->operands[i], at);
    }
    if (reads || folds || layout_is_shape_op(op)) {
        link(pass, op->results[0], at);
    }
    if (layout_is_shape_op(op)) {
        link(pass, op->operands[0], at);
    }
    if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
        link(pass, op_moved_value(op), at);
    }
}

int64_t layout_elements(LayoutPass *pass, const Value *value)
{
    int64_t extents[MAX_RANK];
    int64_t product = 1;
    layout_extents(pass, value->type, extents);
    for (int i = 0; i < value->type->rank; i++) {
        product *= extents[i];
    }
    return product;
}

typedef struct Sized {
    Value *value;
    int64_t elements;
} Sized;

/* Orders by falling size; of equal sizes a mask behind what it masks, and then the first one. */
static int by_size(const void *a, const void *b)
{
    const Sized *left = a, *right = b;
    if (left->elements != right->elements) {
        return left->elements > right->elements ? -1 : 1;
    }
    bool masks = left->value->type->dtype == DT_BOOL;
    if (masks != (right->value->type->dtype == DT_BOOL)) {
        return masks ? 1 : -1;
    }
    return left->value->id < right->value->id ? -1 : left->value->id > right->value->id;
}

static void sort_values(LayoutPass *pass)
{
    LayoutLinks *links = pass->links;
    Sized *sized = ARENA_ARRAY(pass->func->arena, Sized, pass->n_values);
    size_t n = 0;
    for (uint32_t id = 0; id < pass->n_values; id++) {
        Value *value = pass->values[id];
        if (value && layout_has_class(pass, value)) {
            sized[n++] = (Sized){value, layout_elements(pass, value)};
        }
    }
    if (n) {
        qsort(sized, n, sizeof *sized, by_size);
    }
    links->by_size = ARENA_ARRAY(pass->func->arena, Value *, n);
    links->n_values = n;
    for (size_t i = 0; i < n; i++) {
        links->by_size[i] = sized[i].value;
    }
}

const LayoutLink *layout_class_links(LayoutPass *pass, const Value *value)
{
    return pass->links->first[layout_class_root(pass, value)];
}

void layout_build_classes(LayoutPass *pass)
{
    for (size_t i = 0; i < pass->ops.n; i++) {
        tie_op(pass, pass->ops.items[i]);
    }
    /* The classes are complete: each one gets the list of ops that use its values. */
    Arena *arena = pass->func->arena;
    LayoutLinks *links = pass->links = ARENA_NEW(arena, LayoutLinks);
    links->first = ARENA_ARRAY(arena, LayoutLink *, pass->n_values);
    links->last = ARENA_ARRAY(arena, LayoutLink *, pass->n_values);
    links->n_words = pass->ops.n / 64 + 1;
    links->pending = ARENA_ARRAY(arena, uint64_t, links->n_words);
    for (size_t i = 0; i < pass->ops.n; i++) {
        link_op(pass, i);
    }
    sort_values(pass);
}
