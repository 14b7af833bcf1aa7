/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the layout of each class and writes it into the types. Dots fix their layouts first;
 * these then propagate along shape ops, from results to operands and from operands to results.
 * Classes that no dot reaches get the layout of their memory accesses, the largest access first. */
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/index_runs.h"
#include "passes/layout/assign_layouts.h"

enum {
    MIN_GATHERS = 4, /* for each plain access */
    WORD_BITS = 32,  /* adjacent lanes access at least this many bits together */
};

/* ---- deciding ---- */

const Layout *layout_intern(LayoutPass *pass, Layout layout)
{
    Layout compact = layout_compact(&layout);
    return func_intern_layout(pass->func, &compact);
}

static const Layout *decided(LayoutPass *pass, const Value *value)
{
    return layout_has_class(pass, value) ? pass->layouts[layout_class_root(pass, value)] : NULL;
}

/* The first proposal for a class decides its layout. */
static bool decide(LayoutPass *pass, const Value *value, Layout layout)
{
    if (!layout_has_class(pass, value) || decided(pass, value)) {
        return false;
    }
    pass->layouts[layout_class_root(pass, value)] = layout_intern(pass, layout);
    for (const LayoutLink *at = layout_class_links(pass, value); at; at = at->next) {
        pass->links->pending[at->op / 64] |= (uint64_t)1 << at->op % 64;
    }
    return true;
}

static bool spread_back(LayoutPass *pass, const Op *op)
{
    const Layout *to = decided(pass, op->results[0]);
    const Value *from = op->operands[0];
    if (!to || op->kind == OP_REDUCE || !layout_has_class(pass, from) || decided(pass, from)) {
        return false;
    }
    return decide(pass, from, layout_of_operand(op, to));
}

static bool spread_on(LayoutPass *pass, const Op *op)
{
    const Layout *from = decided(pass, op->operands[0]);
    const Value *to = op->results[0];
    if (!from || op->kind == OP_BROADCAST || !layout_has_class(pass, to) || decided(pass, to)) {
        return false;
    }
    return decide(pass, to, layout_of_result(op, from));
}

/* The results of a fold have the operands' layout without the axis. */
static bool spread_fold(LayoutPass *pass, const Op *op)
{
    const Value *from = layout_first_classed(pass, op->n_results, op->operands);
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
                } else if (layout_is_shape_op(op)) {
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
    return layout_has_class(pass, value) && layout_class_root(pass, value) == root;
}

/* Accesses as wide as the widest load allows, unless elements are stored that are wider: a thread
 * would store its run in parts, each warp half of the sectors at a time, which the second-level
 * cache puts together slowly. (f32 from bf16 on an H200: 52.8 us with runs of 4, 69.0 of 8.) */
static MemoryFacts memory_facts(LayoutPass *pass, const Value *value)
{
    MemoryFacts facts = {.narrowest = dtype_memory_bits(value->type->dtype)};
    int stored = 0; /* elements of the narrowest store of several */
    uint32_t root = layout_class_root(pass, value);
    for (const LayoutLink *at = layout_class_links(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        op_visited(op);
        if (op->kind == OP_TILE_SCATTER && layout_has_class(pass, op->results[0])) {
            facts.arranged |= layout_class_root(pass, op->results[0]) == root;
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
        if (op->kind == OP_STORE && width > 1) {
            stored = stored == 0 || width < stored ? width : stored;
        }
        facts.ragged |= width == 1;
        facts.narrowest = bits < facts.narrowest ? bits : facts.narrowest;
    }
    facts.widest = stored > 0 && stored < facts.widest ? stored : facts.widest;
    return facts;
}

/* An axis along which values of the class are folded in order; -1: none. */
static int folded_axis(LayoutPass *pass, const Value *value)
{
    uint32_t root = layout_class_root(pass, value);
    for (const LayoutLink *at = layout_class_links(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        bool folds = op->kind == OP_SCAN || op->kind == OP_FOLD;
        for (int k = 0; folds && k < op->n_results; k++) {
            if (layout_has_class(pass, op->operands[k]) &&
                layout_class_root(pass, op->operands[k]) == root) {
                return (int)op_int(op, ATTR_AXIS, 0);
            }
        }
    }
    return -1;
}

/* The axes along which values of the class are reduced, a bit each. */
static uint32_t reduced_axes(LayoutPass *pass, const Value *value)
{
    uint32_t root = layout_class_root(pass, value), axes = 0;
    for (const LayoutLink *at = layout_class_links(pass, value); at; at = at->next) {
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

/* The only op that follows from what is read, but for ops on its elements as they are. */
static const Op *first_that_moves(LayoutPass *pass, const Value *tile)
{
    enum { MAX_BETWEEN = 4 };
    const Op *user = value_only_user(pass->func, tile);
    for (int i = 0; i < MAX_BETWEEN && user && op_has(user, TRAIT_ELEMENTWISE); i++) {
        user = value_only_user(pass->func, user->results[0]);
    }
    return user;
}

/* The axis of the value along which neighbours of the same launch's reads lie in memory, where no
 * access moves the value as it is and its last axis is reduced: `sum(i in N) x[i, d]` reads rows
 * whose axes it permutes, and a mean over the places of a convolution its channels. Else the last
 * one. */
static int read_axis(LayoutPass *pass, const Value *value, const MemoryFacts *facts)
{
    int last = value->type->rank - 1;
    if (facts->moved || facts->gathered || !(reduced_axes(pass, value) >> last & 1)) {
        return last;
    }
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *op = pass->ops.items[i];
        bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
        const Value *tile = reads ? op->results[0] : NULL;
        const Op *user = tile && tile->type->rank > 1 ? first_that_moves(pass, tile) : NULL;
        bool read = user && op_permutes_axes(user) && an_vector(pass->func, op) > 1 &&
                    layout_elements(pass, tile) == layout_elements(pass, value);
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
    uint32_t root = layout_class_root(pass, value);
    const Op *scatter = NULL;
    for (const LayoutLink *at = layout_class_links(pass, value); at; at = at->next) {
        const Op *op = pass->ops.items[at->op];
        bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_TILE_SCATTER;
        bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER;
        const Value *moved = NULL;
        if (reads) {
            moved = op->results[0];
        } else if (writes) {
            moved = op_moved_value(op);
        }
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
    int vector = wide;
    if (facts.ragged) {
        vector = 1;
    } else if (facts.widest) {
        vector = facts.widest;
    }
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
    layout_build_classes(pass);
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
