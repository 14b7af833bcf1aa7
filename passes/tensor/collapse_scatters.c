/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the order of the axes of a dot's result in memory, and builds the scatters with collapsed
 * axes for collapse_intermediates.c: scatters of a dot's result, and scatters in place of its store
 * if rows or columns have several axes that are not adjacent in the result. */
#include "passes/tensor/collapse_intermediates.h"

#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/memory_steps.h"
#include "passes/tensor/collapse_axes.h"
#include "passes/tensor/reorder_axes.h"

enum {
    MIN_TILE = 128, /* elements of a tile's edge that keep a matrix unit busy */
    /* Terms of a product that pay for storing its elements one by one: for each element short tiles
     * read about a tenth of a byte a term, and a store of its own costs 8 bytes of traffic where
     * neighbours follow in memory … */
    MIN_DEPTH = 128,
    MIN_SCATTERED_DEPTH = 512, /* … and a sector where they do not */
};

/* ---- orders of axes ---- */

Side collapse_last_side(const Result *result)
{
    int rank = result->value->type->rank;
    return rank > 0 ? result->axes[rank - 1].side : SIDE_BOTH;
}

void collapse_side_order(const Result *result, Side last, int64_t *order)
{
    int rank = result->value->type->rank, n = 0;
    Side sides[] = {SIDE_BOTH, last == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT,
                    last == SIDE_LEFT ? SIDE_LEFT : SIDE_RIGHT};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < rank; i++) {
            if (result->axes[i].side == sides[k]) {
                order[n++] = i;
            }
        }
    }
}

/* The same, the last axis being that which is last in the result. */
static void memory_order(const Result *result, int64_t *order)
{
    collapse_side_order(result, collapse_last_side(result), order);
}

/* ---- scatters ---- */

/* True if neighbours along the first axis lie nearer to each other in what the scatter writes. */
static bool is_nearer(const Op *scatter, int64_t axis, int64_t than)
{
    int64_t own = an_memory_step(scatter, (int)axis, 1);
    int64_t other = an_memory_step(scatter, (int)than, 1);
    return own >= 0 && own < other;
}

/* True if the axis, whose extent is a number, is one of a factor that is computed along it, as the
 * phases of a transposed convolution are. */
static bool is_computed(const Result *result, int axis)
{
    int64_t extent;
    return result->axes[axis].side != SIDE_BOTH && result->axes[axis].place == MAX_RANK &&
           poly_is_const(result->value->type->dims[axis], &extent);
}

/* The same order, but axes along which a factor is computed among those of their side so that
 * neighbours of a row (column) are neighbours in what the scatter writes. */
static void scatter_order(const Op *scatter, const Result *result, int64_t *order)
{
    memory_order(result, order);
    for (int i = 1; i < result->value->type->rank; i++) {
        for (int k = i; k > 0; k--) {
            int64_t before = order[k - 1], own = order[k];
            bool same = result->axes[before].side == result->axes[own].side;
            bool moves = is_computed(result, (int)before) || is_computed(result, (int)own);
            bool swaps = same && moves && is_nearer(scatter, before, own);
            order[k - 1] = swaps ? own : before;
            order[k] = swaps ? before : own;
        }
    }
}

void collapse_reorder_scatter(Func *func, Op *scatter, const int64_t *order)
{
    Builder b = build_before(func, scatter);
    b.span = scatter->span;
    for (int i = 1; i < scatter->n_operands; i++) {
        Value *operand = scatter->operands[i];
        if (operand && operand->type->kind == TYPE_ARRAY) {
            op_set_operand(scatter, i, reorder_axes_to(&b, operand, order, NULL));
        }
    }
    func_remove_dead(func);
}

void collapse_scatter_of(Func *func, Op *scatter, const Result *result)
{
    int rank = result->value->type->rank;
    int64_t order[MAX_RANK];
    scatter_order(scatter, result, order);
    collapse_reorder_scatter(func, scatter, order);
    unsigned computed = 0;
    for (int i = 0; i < rank; i++) {
        computed |= (unsigned)is_computed(result, (int)order[i]) << i;
    }
    collapse_axes_of(func, scatter, rank, computed);
}

/* ---- stores of rows and columns that do not lie side by side ---- */

/* The same order, but within a side as its factor lies in memory. True if it is another one: then
 * neighbours of a row are not adjacent in the result. */
static bool factor_order(const Result *result, int64_t *order)
{
    bool moves = false;
    memory_order(result, order);
    for (int i = 1; i < result->value->type->rank; i++) {
        for (int k = i; k > 0; k--) {
            int64_t before = order[k - 1], own = order[k];
            bool swaps = result->axes[before].side == result->axes[own].side &&
                         result->axes[before].place > result->axes[own].place;
            order[k - 1] = swaps ? own : before;
            order[k] = swaps ? before : own;
            moves = moves || swaps;
        }
    }
    return moves;
}

/* True if a factor has several axes, each of which is too short for a tile: `y[a, f, m, o]` of rows
 * (a, m) and columns (f, o). */
static bool has_short_axes(const Result *result)
{
    bool found = false;
    for (Side side = SIDE_LEFT; side <= SIDE_RIGHT; side++) {
        int n = 0;
        bool are_short = true;
        for (int i = 0; i < result->value->type->rank; i++) {
            bool own = result->axes[i].side == side;
            n += own;
            are_short = are_short && (!own || poly_most(result->value->type->dims[i]) < MIN_TILE);
        }
        if (n == 0) {
            return false; /* no product of matrices */
        }
        found = found || (n > 1 && are_short);
    }
    return found;
}

/* The user's tiles name axes as the program has them. */
static bool has_user_tiles(const Func *func)
{
    bool found = false;
    for (size_t i = 0; i < func->schedule->entries.n; i++) {
        const ScheduleEntry *entry = &func->schedule->entries.items[i];
        found = found || (entry->origin != ENTRY_DERIVED && text_equal(entry->key, "tile"));
    }
    return found;
}

bool collapse_can_scatter(const Func *func, const Op *store)
{
    const Value *tensor = store->operands[0];
    bool plain = func->params.items[tensor->index].io == PARAM_OUT && !tensor->type->strides;
    return plain && op_accesses_whole(store) && func->target &&
           func->target->family != FAMILY_CPU && !has_user_tiles(func);
}

/* A scatter of the result, whose axes are in this order, to the places that the store has. */
static Op *scatter_of(Func *func, const Op *store, const Result *result, const int64_t *order)
{
    int rank = result->value->type->rank;
    Dim dims[MAX_RANK];
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK] = {0};
    Builder b = build_before(func, (Op *)store);
    b.span = store->span;
    for (int i = 0; i < rank; i++) {
        dims[i] = result->value->type->dims[order[i]];
    }
    Type shape = type_array(func, DT_I64, rank, dims);
    for (int i = 0; i < rank; i++) {
        indices[order[i]] = build_places(&b, i, shape);
    }
    Value *value = reorder_axes(&b, result->value, order);
    Op *scatter = build_scatter(&b, "set", store->operands[0], indices, value, NULL, NULL, false);
    op_set_ints(func, scatter, ATTR_GUARD, rank, guards);
    return scatter;
}

bool collapse_as_scatter(Func *func, Op *store, const Result *result, const int64_t *order)
{
    Op *scatter = scatter_of(func, store, result, order);
    op_remove(store); /* what it stored stays, in case that it is stored after all */
    bool collapsed = collapse_axes_of(func, scatter, result->value->type->rank, 0) != NULL;
    if (!collapsed) {
        Builder b = build_before(func, scatter);
        b.span = scatter->span;
        build_store(&b, scatter->operands[0], WHOLE, result->value);
        op_remove(scatter);
        func_remove_dead(func);
    }
    return collapsed;
}

/* Rows (columns) whose axes lie side by side in their factor, but not in the result, become one
 * axis, and the store goes to its quotients and remainders. */
void collapse_store_of(Func *func, Op *store, const Result *result, int64_t depth)
{
    int64_t order[MAX_RANK];
    int64_t least = factor_order(result, order) ? MIN_SCATTERED_DEPTH : MIN_DEPTH;
    if (depth < least || depth == INT64_MAX || !has_short_axes(result) ||
        !collapse_can_scatter(func, store)) {
        return;
    }
    collapse_as_scatter(func, store, result, order);
}
