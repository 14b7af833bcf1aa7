/* SPDX-License-Identifier: Apache-2.0 */
/* Decides each class's layout and writes it into the types. Elementwise ops, loops and masks tie
 * values into classes; products fix theirs first; layouts then spread along shape ops, from results
 * back to operands and on to results; classes that no product reaches are anchored by their memory
 * accesses, largest first. */
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/index_runs.h"
#include "passes/layout/assign_layouts.h"

#include <stdlib.h>

enum {
    MIN_GATHERS = 4, /* for each plain access */
    WORD_BITS = 32,  /* adjacent lanes access at least so many bits together */
};

bool layout_spreads(const Value *value)
{
    return value && type_is_tile(value->type);
}

static bool is_shape_op(const Op *op)
{
    return op_moves_axes(op) || op->kind == OP_REDUCE;
}

/* ---- classes ---- */

static uint32_t root_of(LayoutPass *pass, const Value *value)
{
    uint32_t at = value->id;
    while (pass->parent[at] != at) {
        pass->parent[at] = pass->parent[pass->parent[at]];
        at = pass->parent[at];
    }
    return at;
}

/* No op changes while classes are built, so each answer is cached. */
static bool has_class(const LayoutPass *pass, const Value *value)
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
    if (has_class(pass, a) && has_class(pass, b)) {
        pass->parent[root_of(pass, a)] = root_of(pass, b);
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
        if (has_class(pass, value)) {
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
static Value *first_classed(const LayoutPass *pass, int n, Value *const *values)
{
    for (int i = 0; i < n; i++) {
        if (has_class(pass, values[i])) {
            return values[i];
        }
    }
    return NULL;
}

/* The operands of a fold share a class; results without the axis have their own. */
static void tie_fold(LayoutPass *pass, const Op *op)
{
    const Value *first = first_classed(pass, op->n_results, op->operands);
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

typedef struct LayoutLink {
    uint32_t op; /* which of the pass's */
    struct LayoutLink *next;
} LayoutLink;

typedef struct LayoutLinks {
    LayoutLink **first, **last; /* by a class's root, in the order of the ops */
    uint64_t *pending;          /* a bit per op: the layout of an operand or result was decided */
    size_t n_words;
    Value **by_size; /* values that have a class, the largest first */
    size_t n_values, next;
} LayoutLinks;

static void link(LayoutPass *pass, const Value *value, size_t op)
{
    if (!has_class(pass, value)) {
        return;
    }
    LayoutLinks *links = pass->links;
    uint32_t root = root_of(pass, value);
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
    if (reads || folds || is_shape_op(op)) {
        link(pass, op->results[0], at);
    }
    if (is_shape_op(op)) {
        link(pass, op->operands[0], at);
    }
    if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
        link(pass, op_moved_value(op), at);
    }
}

static int64_t elements(LayoutPass *pass, const Value *value)
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

/* Orders by falling size; of equal sizes the first one. */
static int by_size(const void *a, const void *b)
{
    const Sized *left = a, *right = b;
    if (left->elements != right->elements) {
        return left->elements > right->elements ? -1 : 1;
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
        if (value && has_class(pass, value)) {
            sized[n++] = (Sized){value, elements(pass, value)};
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

/* Iterates over the ops that use values of the class. */
static const LayoutLink *links_of(LayoutPass *pass, const Value *value)
{
    return pass->links->first[root_of(pass, value)];
}

/* ---- deciding ---- */

const Layout *layout_intern(LayoutPass *pass, Layout layout)
{
    Layout compact = layout_compact(&layout);
    return func_intern_layout(pass->func, &compact);
}

static const Layout *decided(LayoutPass *pass, const Value *value)
{
    return has_class(pass, value) ? pass->layouts[root_of(pass, value)] : NULL;
}

/* The first proposal for a class decides its layout. */
static bool decide(LayoutPass *pass, const Value *value, Layout layout)
{
    if (!has_class(pass, value) || decided(pass, value)) {
        return false;
    }
    pass->layouts[root_of(pass, value)] = layout_intern(pass, layout);
    for (const LayoutLink *at = links_of(pass, value); at; at = at->next) {
        pass->links->pending[at->op / 64] |= (uint64_t)1 << at->op % 64;
    }
    return true;
}

static bool spread_back(LayoutPass *pass, const Op *op)
{
    const Layout *to = decided(pass, op->results[0]);
    const Value *from = op->operands[0];
    if (!to || op->kind == OP_REDUCE || !has_class(pass, from) || decided(pass, from)) {
        return false;
    }
    return decide(pass, from, layout_of_operand(op, to));
}

static bool spread_on(LayoutPass *pass, const Op *op)
{
    const Layout *from = decided(pass, op->operands[0]);
    const Value *to = op->results[0];
    if (!from || op->kind == OP_BROADCAST || !has_class(pass, to) || decided(pass, to)) {
        return false;
    }
    return decide(pass, to, layout_of_result(op, from));
}

/* The results of a fold have the operands' layout without the axis. */
static bool spread_fold(LayoutPass *pass, const Op *op)
{
    const Value *from = first_classed(pass, op->n_results, op->operands);
    const Layout *layout = from ? decided(pass, from) : NULL;
    if (!layout || op_int(op, ATTR_SCAN, 0)) {
        return false;
    }
    return decide(pass, op->results[0], layout_drop_axis(layout, (int)op_int(op, ATTR_AXIS, 0)));
}

/* Visits the ops in order until nothing changes. After the first round only ops are visited with an
 * operand or result whose layout was decided meanwhile. */
static void spread(LayoutPass *pass)
{
    LayoutLinks *links = pass->links;
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t word = 0; word < links->n_words; word++) {
            for (int from = 0; from < 64 && links->pending[word] >> from; from++) {
                from += __builtin_ctzll(links->pending[word] >> from);
                links->pending[word] &= ~((uint64_t)1 << from);
                const Op *op = pass->ops.items[64 * word + (size_t)from];
                op_visited(op);
                if (op->kind == OP_FOLD) {
                    spread_fold(pass, op);
                } else if (is_shape_op(op)) {
                    spread_back(pass, op);
                    spread_on(pass, op);
                }
                changed = true;
            }
        }
    }
}

/* ---- anchors ---- */

/* The largest value of a class without a layout; the first of equals. */
static Value *largest_undecided(LayoutPass *pass)
{
    LayoutLinks *links = pass->links;
    while (links->next < links->n_values && decided(pass, links->by_size[links->next])) {
        links->next++;
    }
    return links->next < links->n_values ? links->by_size[links->next] : NULL;
}

typedef struct MemoryFacts {
    int widest;    /* elements of an access; 0: no access */
    bool ragged;   /* some access moves one element at a time */
    bool arranged; /* an access writes its elements in another order than memory has */
    int narrowest; /* bits of an element in memory */
    int moved;     /* times that each element is loaded or stored, */
    int gathered;  /* and gathered */
    bool single;   /* by a gather that moves one element at a time */
} MemoryFacts;

static bool is_of_class(LayoutPass *pass, const Value *value, uint32_t root)
{
    return has_class(pass, value) && root_of(pass, value) == root;
}

static MemoryFacts memory_facts(LayoutPass *pass, const Value *value)
{
    MemoryFacts facts = {.narrowest = dtype_memory_bits(value->type->dtype)};
    uint32_t root = root_of(pass, value);
    for (const LayoutLink *at = links_of(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        op_visited(op);
        if (op->kind == OP_TILE_SCATTER && has_class(pass, op->results[0])) {
            facts.arranged |= root_of(pass, op->results[0]) == root;
        }
        bool runs =
            op->kind == OP_SCATTER && (an_width(pass->func, op) > 1 || an_run_stride(op) != 0);
        bool moves = op->kind == OP_LOAD || op->kind == OP_STORE || runs;
        const Value *moved = moves ? op_moved_value(op) : NULL;
        if (op->kind == OP_GATHER && is_of_class(pass, op->results[0], root)) {
            facts.gathered++;
            facts.single |= an_width(pass->func, op) == 1;
        }
        if (!moved || !is_of_class(pass, moved, root)) {
            continue;
        }
        facts.moved++;
        int width = an_vector(pass->func, op);
        int bits = dtype_memory_bits(moved->type->dtype);
        facts.widest = width > facts.widest ? width : facts.widest;
        facts.ragged |= width == 1;
        facts.narrowest = bits < facts.narrowest ? bits : facts.narrowest;
    }
    return facts;
}

/* An axis along which values of the class are folded in order; -1: none. */
static int folded_axis(LayoutPass *pass, const Value *value)
{
    uint32_t root = root_of(pass, value);
    for (const LayoutLink *at = links_of(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        bool folds = op->kind == OP_SCAN || op->kind == OP_FOLD;
        for (int k = 0; folds && k < op->n_results; k++) {
            if (has_class(pass, op->operands[k]) && root_of(pass, op->operands[k]) == root) {
                return (int)op_int(op, ATTR_AXIS, 0);
            }
        }
    }
    return -1;
}

/* The axes along which values of the class are reduced, a bit each. */
static uint32_t reduced_axes(LayoutPass *pass, const Value *value)
{
    uint32_t root = root_of(pass, value), axes = 0;
    for (const LayoutLink *at = links_of(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        if (op->kind == OP_REDUCE && is_of_class(pass, op->operands[0], root)) {
            axes |= 1U << op_int(op, ATTR_AXIS, 0);
        }
    }
    return axes;
}

/* A gather accesses one element at a time. In windows, adjacent elements read adjacent memory, so
 * adjacent lanes request the fewest cache lines. */
static int lane_vector(const MemoryFacts *facts, int vector)
{
    int word = facts->narrowest < WORD_BITS ? WORD_BITS / facts->narrowest : 1;
    bool windows = facts->single && facts->gathered >= MIN_GATHERS * facts->moved;
    return facts->moved && windows && word < vector ? word : vector;
}

/* The axis of the value along which neighbours of the same launch's loads lie in memory, where no
 * access moves the value as it is and its last axis is reduced: `sum(i in N) x[i, d]` reads rows
 * whose axes it permutes. Else the last one. */
static int read_axis(LayoutPass *pass, const Value *value, const MemoryFacts *facts)
{
    int last = value->type->rank - 1;
    if (facts->moved || facts->gathered || !(reduced_axes(pass, value) >> last & 1)) {
        return last;
    }
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *op = pass->ops.items[i];
        const Value *tile = op->kind == OP_LOAD ? op->results[0] : NULL;
        const Op *user = tile && tile->type->rank > 1 ? value_only_user(pass->func, tile) : NULL;
        bool read = user && op_permutes_axes(user) && an_vector(pass->func, op) > 1 &&
                    elements(pass, tile) == elements(pass, value);
        for (int axis = 0; read && axis < last; axis++) {
            if (value->type->dims[axis] == tile->type->dims[tile->type->rank - 1]) {
                return axis;
            }
        }
    }
    return last;
}

/* The only access of the class to memory, if that is a scatter; else NULL. */
static const Op *only_scatter(LayoutPass *pass, const Value *value)
{
    uint32_t root = root_of(pass, value);
    const Op *scatter = NULL;
    for (const LayoutLink *at = links_of(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_TILE_SCATTER;
        bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER;
        const Value *moved = reads ? op->results[0] : writes ? op_moved_value(op) : NULL;
        if (!moved || !is_of_class(pass, moved, root)) {
            continue;
        }
        if (scatter || op->kind != OP_SCATTER || op->operands[0]->type->kind != TYPE_TENSOR) {
            return NULL;
        }
        scatter = op;
    }
    return scatter;
}

/* Without accesses to memory, contiguous runs of the usual width keep later stores wide. */
static void anchor_by_memory(LayoutPass *pass, const Value *value)
{
    MemoryFacts facts = memory_facts(pass, value);
    int wide = 8 * pass->func->target->vector_bytes / facts.narrowest;
    wide = facts.arranged ? 1 : wide;
    int vector = facts.ragged ? 1 : facts.widest ? facts.widest : wide;
    vector = layout_capped(pass, vector);
    int warps = layout_warps(pass, layout_value_block(value));
    int axis = folded_axis(pass, value);
    uint32_t reduced = reduced_axes(pass, value);
    const Op *scatter = axis < 0 && !reduced ? only_scatter(pass, value) : NULL;
    Layout layout;
    if (scatter && layout_of_scatter(pass, scatter, warps, &layout)) {
        decide(pass, value, layout);
        return;
    }
    layout = layout_of_reduced(pass, value->type, lane_vector(&facts, vector), facts.narrowest,
                               reduced, read_axis(pass, value, &facts), warps);
    if (axis >= 0) {
        layout_join_warps_last(pass, value->type, axis, &layout);
    }
    decide(pass, value, layout);
}

void layout_solve(LayoutPass *pass)
{
    for (size_t i = 0; i < pass->ops.n; i++) {
        tie_op(pass, pass->ops.items[i]);
    }
    /* The layout classes are complete: each class gets the list of ops that use its values. */
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
    /* Anchors: matrix instructions fix the layouts of dots, and ranks need their elements in order.
     * */
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *op = pass->ops.items[i];
        Layout left;
        if (layout_of_outer(pass, op, &left)) {
            decide(pass, op->results[0], left);
        }
        if (op->kind != OP_DOT && op->kind != OP_DOT_ASYNC) {
            continue;
        }
        decide(pass, op->results[0], layout_of_product(pass, op));
        if (layout_of_left(pass, op, &left)) {
            decide(pass, op->operands[0], left);
        }
    }
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *op = pass->ops.items[i];
        if (op->kind == OP_RANK) {
            int warps = layout_warps(pass, op->parent);
            decide(pass, op->results[0], layout_in_order(pass, op->results[0]->type, warps));
        }
    }
    spread(pass);
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *op = pass->ops.items[i];
        Layout loaded, stored;
        const Op *permute = layout_of_transposed(pass, op, &loaded, &stored);
        if (permute && !decided(pass, op->results[0]) && !decided(pass, permute->results[0])) {
            decide(pass, permute->results[0], stored);
            decide(pass, op->results[0], loaded);
        }
    }
    spread(pass);
    for (Value *value = largest_undecided(pass); value; value = largest_undecided(pass)) {
        anchor_by_memory(pass, value);
        spread(pass);
    }
    for (uint32_t id = 0; id < pass->n_values; id++) {
        const Layout *layout = pass->values[id] ? decided(pass, pass->values[id]) : NULL;
        if (layout) {
            pass->values[id]->type = type_with_layout(pass->func, pass->values[id]->type, layout);
        }
    }
}
