/* SPDX-License-Identifier: Apache-2.0 */
/* collapse_intermediates: collapses the axes of products whose results later launches read.
 *
 *   %d = sum over r, s, c of …                scratch %z: tensor<f32[N, P, Q, O]>
 *        : f32[N, P, Q, O]                    scratch %a: tensor<f32[N*P*Q, O]> alias %z
 *   %m = max %d over p            →           store %a[:, :], (sum … : f32[N*P*Q, O])
 *                                             %d = load %z[:, :, :, :]
 *                                             %m = max %d over p
 *
 * A product's result that a fold or a gather reads goes through memory (passes/fuse/fuse_split.c).
 * Its axes can then lie in memory as the product has them: first those of both factors, then those
 * of one factor, then those of the other, which has the axis that was last. The axes of one factor
 * become one axis of an alias, which the product stores to, so that its tiles are full even if each
 * axis is short; what reads the result knows nothing of it. What is stored is the last value that
 * everything which is made of the product goes through.
 *
 * A scatter of the result (passes/fuse/invert_gathers.c) gets the same axes: its indices are
 * quotients and remainders of the collapsed axis. The phases of a transposed convolution are
 * columns like others: phases and channels are one axis, of which what lies nearer in the result is
 * the faster one, so that one read of a tile of the input serves all phases. A store on a GPU
 * becomes a scatter where rows (columns) have several axes, all too short for a tile, that do not
 * lie side by side in the result (`y[a, f, m, o]` of rows (a, m) and columns (f, o)), if the sum
 * is long enough that full tiles pay for storing element by element. Requires the tensor level.
 * Changes no bits. */
#include "passes/tensor/collapse_axes.h"

#include "ir/build.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/computations.h"
#include "passes/analysis/memory_steps.h"
#include "passes/pass.h"
#include "passes/tensor/reorder_axes.h"

enum {
    MIN_TILE = 128, /* elements of a tile's edge that keep a matrix unit busy */
    /* Terms of a product that pay for storing its elements one by one: for each element short tiles
     * read about a tenth of a byte a term, and a store of its own costs 8 bytes of traffic where
     * neighbours follow in memory … */
    MIN_DEPTH = 128,
    MIN_SCATTERED_DEPTH = 512, /* … and a sector where they do not */
};

/* Which factors of the product vary along an axis of its result. */
typedef enum Side { SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT } Side;

typedef struct Result {
    Value *value;
    struct {
        Side side;
        int place; /* among the axes of the memory that the side's factor is read from */
    } axes[MAX_RANK];
} Result;

/* Values that are made element by element of the product, in the order of the program. */
typedef struct Chain {
    Func *func;
    struct {
        Result *items;
        size_t n, cap;
    } made;
    int pending; /* uses of these values by ops that come later */
    Result goes_through;
    bool ends;        /* something else than an element-wise op read one of them */
    bool is_read;     /* a fold or a gather did */
    Op *scatter;      /* the first op that scatters one of them; NULL: none */
    Result scattered; /* what it scatters */
    Op *store;        /* the first op that stores one of them; NULL: none */
    Result stored;
    int64_t depth; /* maximum number of terms of the product; INT64_MAX: not known */
} Chain;

static void add_made(Chain *chain, const Result *result)
{
    int uses = value_count_uses(chain->func, result->value);
    ARENA_PUSH(chain->func->arena, &chain->made, *result);
    chain->pending += uses;
    if (chain->pending == uses) {
        chain->goes_through = *result;
    }
}

static const Result *find_made(const Chain *chain, const Value *value)
{
    for (size_t i = chain->made.n; value && i-- > 0;) {
        if (chain->made.items[i].value == value) {
            return &chain->made.items[i];
        }
    }
    return NULL;
}

/* What the op makes of `from`, its operand, has the axes of `from` in some order; false: others. */
static bool keeps_axes(const Op *op, const Result *from, Result *to)
{
    bool moves = op->kind == OP_PERMUTE || op->kind == OP_SQUEEZE;
    if (op->n_results != 1 || (!moves && !op_has(op, TRAIT_ELEMENTWISE)) ||
        (!moves && op->results[0]->type->rank != from->value->type->rank)) {
        return false;
    }
    *to = (Result){.value = op->results[0]};
    for (int i = 0; i < to->value->type->rank; i++) {
        to->axes[i] = from->axes[moves ? op_operand_axis(op, 0, i) : i];
    }
    return true;
}

static void follow(Chain *chain, Op *op)
{
    const Result *from = NULL;
    for (int i = 0; i < op->n_operands; i++) {
        const Result *made = find_made(chain, op->operands[i]);
        chain->pending -= made != NULL;
        from = made ? made : from;
    }
    Result to;
    if (!from) {
        return;
    }
    if (!chain->ends && keeps_axes(op, from, &to)) {
        add_made(chain, &to);
        return;
    }
    chain->ends = true;
    if (op->kind == OP_SCATTER && !chain->scatter) {
        chain->scatter = op;
        chain->scattered = *from;
    }
    if (op->kind == OP_STORE && !chain->store) {
        chain->store = op;
        chain->stored = *from;
    }
    chain->is_read = chain->is_read || op->kind == OP_REDUCE || op->kind == OP_FOLD ||
                     op->kind == OP_SCAN || op->kind == OP_GATHER;
}

/* Where the factor's memory has the axis; MAX_RANK: nowhere as it is. */
static int place_in_memory(const Compute *sum, const Axis *axis, Side side)
{
    for (size_t i = 0; i < sum->uses.n; i++) {
        const Use *use = &sum->uses.items[i];
        bool own = use->factors >> (side == SIDE_RIGHT) & 1;
        for (int k = 0; own && k < use->rank; k++) {
            if (map_as_axis(use->at[k]) == axis) {
                return k;
            }
        }
    }
    return MAX_RANK;
}

/* The axes of the sum's result. */
static Result result_of(const Compute *sum, Value *value)
{
    static const Side sides[] = {SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT, SIDE_BOTH};
    Result result = {.value = value};
    for (int i = 0; i < value->type->rank; i++) {
        const Axis *axis = map_as_axis(sum->result.at[i]);
        for (size_t k = 0; axis && k < sum->axes.n; k++) {
            if (sum->axes.items[k].axis == axis) {
                result.axes[i].side = sides[sum->axes.items[k].factors & 3];
                result.axes[i].place = place_in_memory(sum, axis, result.axes[i].side);
            }
        }
    }
    return result;
}

/* What the program makes of the product. */
static Chain follow_product(Func *func, const Compute *sum)
{
    Chain chain = {.func = func, .depth = 1};
    for (size_t i = 0; i < sum->axes.n; i++) {
        const ComputeAxis *own = &sum->axes.items[i];
        if (own->role == ROLE_REDUCED &&
            __builtin_mul_overflow(chain.depth, poly_most(own->axis->extent), &chain.depth)) {
            chain.depth = INT64_MAX;
        }
    }
    Result first = result_of(sum, sum->op->results[0]);
    add_made(&chain, &first);
    for (Op *op = sum->op->next; op && chain.pending > 0; op = op->next) {
        follow(&chain, op);
    }
    return chain;
}

/* The order of the result's axes in memory: of both factors, of one, of the other. */
static void memory_order(const Result *result, int64_t *order)
{
    int rank = result->value->type->rank, n = 0;
    Side last = rank > 0 ? result->axes[rank - 1].side : SIDE_BOTH;
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

/* Stores the result, and loads it for all that reads it, if axes of it can be collapsed then. */
static void store_result(Func *func, const Result *result)
{
    Value *value = result->value;
    int rank = value->type->rank;
    int64_t order[MAX_RANK], back[MAX_RANK];
    memory_order(result, order);
    Dim dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        back[order[i]] = i;
        dims[i] = value->type->dims[order[i]];
    }
    size_t n_params = func->params.n;
    const Value *scratch = func_scratch(func, type_array(func, value->type->dtype, rank, dims));
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    Value *loaded = build_permute(&b, build_load(&b, (Value *)scratch, WHOLE), back);
    loaded->name = value->name;
    func_replace_uses(func, value, loaded);
    b = build_after(func, value->def);
    b.span = value->def->span;
    Op *store = build_store(&b, func_alias(func, scratch), WHOLE, reorder_axes(&b, value, order));
    if (!collapse_axes_of(func, store, rank, 0)) {
        func_replace_uses(func, loaded, value);
        op_remove(store);
        func_remove_dead(func);
        func->params.n = n_params;
    }
}

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

/* Gives the arrays of a scatter the order of axes that the result has in memory, and collapses
 * them. */
static void collapse_scatter(Func *func, Op *scatter, const Result *result)
{
    int rank = result->value->type->rank;
    int64_t order[MAX_RANK];
    scatter_order(scatter, result, order);
    Builder b = build_before(func, scatter);
    b.span = scatter->span;
    for (int i = 1; i < scatter->n_operands; i++) {
        Value *operand = scatter->operands[i];
        if (operand && operand->type->kind == TYPE_ARRAY) {
            op_set_operand(scatter, i, reorder_axes_to_memory(&b, operand, order));
        }
    }
    func_remove_dead(func);
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

static bool can_scatter(const Func *func, const Op *store)
{
    const Value *tensor = store->operands[0];
    bool plain = func->params.items[tensor->index].io == PARAM_OUT && !tensor->type->strides;
    return plain && op_accesses_whole(store) && func->target && func->target->family != FAMILY_CPU;
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

/* Rows (columns) whose axes lie side by side in their factor, but not in the result, become one
 * axis, and the store goes to its quotients and remainders. */
static void collapse_store(Func *func, Op *store, const Result *result, int64_t depth)
{
    int64_t order[MAX_RANK];
    int64_t least = factor_order(result, order) ? MIN_SCATTERED_DEPTH : MIN_DEPTH;
    if (depth < least || depth == INT64_MAX || !has_short_axes(result) ||
        !can_scatter(func, store) || has_user_tiles(func)) {
        return;
    }
    Op *scatter = scatter_of(func, store, result, order);
    op_remove(store); /* what it stored stays, in case that it is stored after all */
    if (!collapse_axes_of(func, scatter, result->value->type->rank, 0)) {
        Builder b = build_before(func, scatter);
        b.span = scatter->span;
        build_store(&b, scatter->operands[0], WHOLE, result->value);
        op_remove(scatter);
        func_remove_dead(func);
    }
}

void pass_collapse_intermediates(Func *func)
{
    func_remove_dead(func);
    Computations *all = computations_open(func);
    struct {
        Chain *items;
        size_t n, cap;
    } chains = {0};
    const Op *summed = NULL; /* the product whose outermost sum was met */
    for (Op *op = func->body->last; op; op = op->prev) {
        const Compute *sum = computations_product(all, op);
        if (sum && !compute_masks_products(sum) && sum->term.value->def != summed) {
            summed = sum->term.value->def;
            Chain chain = follow_product(func, sum);
            ARENA_PUSH(func->arena, &chains, chain);
        }
    }
    computations_close(all);
    for (size_t i = 0; i < chains.n; i++) {
        const Chain *chain = &chains.items[i];
        bool gone = !chain->goes_through.value->def->parent; /* made anew by another collapse */
        if (gone || (chain->scatter && !chain->scatter->parent) ||
            (chain->store && !chain->store->parent)) {
            continue;
        }
        if (chain->is_read && chain->goes_through.value->type->rank > 2) {
            store_result(func, &chain->goes_through);
        } else if (chain->scatter && !chain->is_read && chain->scattered.value->type->rank > 2) {
            collapse_scatter(func, chain->scatter, &chain->scattered);
        } else if (chain->store && !chain->is_read && chain->stored.value->type->rank > 2) {
            collapse_store(func, chain->store, &chain->stored, chain->depth);
        }
    }
}
