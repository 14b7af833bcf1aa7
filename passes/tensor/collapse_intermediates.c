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
 * axis is short; what reads the result knows nothing of it. Where what gathers from it writes
 * neighbours along an axis of the other factor, that factor's axes are the last ones. What is
 * stored is the last value that everything which is made of the product goes through. Results that
 * are computed of it by groups are split then (passes/tensor/split_axes.c).
 *
 * A scatter of the result (passes/fuse/invert_gathers.c) gets the same axes: its indices are
 * quotients and remainders of the collapsed axis. The phases of a transposed convolution are
 * columns like others: phases and channels are one axis, of which what lies nearer in the result is
 * the faster one, so that one read of a tile of the input serves all phases. A store on a GPU
 * becomes a scatter where rows (columns) have several axes, all too short for a tile, that do not
 * lie side by side in the result (`y[a, f, m, o]` of rows (a, m) and columns (f, o)), if the sum
 * is long enough that full tiles pay for storing element by element.
 *
 * Where all that folds the result does so along one axis that a tile holds whole, as a softmax over
 * channels does, nothing goes through memory: that axis is the columns, the places are the rows,
 * and what is made of the product is scattered. Requires the tensor level. Changes no bits. */
#include "passes/tensor/collapse_axes.h"

#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/computations.h"
#include "passes/analysis/epilogue_folds.h"
#include "passes/analysis/memory_steps.h"
#include "passes/pass.h"
#include "passes/tensor/reorder_axes.h"
#include "passes/tensor/split_reads.h"

enum {
    MIN_TILE = 128, /* elements of a tile's edge that keep a matrix unit busy */
    MIN_ROWS = 64,  /* of a tile, that a warp group multiplies */
    /* Terms of a product that pay for storing its elements one by one: for each element short tiles
     * read about a tenth of a byte a term, and a store of its own costs 8 bytes of traffic where
     * neighbours follow in memory … */
    MIN_DEPTH = 128,
    MIN_SCATTERED_DEPTH = 512, /* … and a sector where they do not */
    MAX_FOLDED = 128,          /* elements of an axis that a tile holds whole */
    NAMED_INSTRUCTIONS = 12,   /* that approximate a function of a sum */
};

/* Which factors of the product vary along an axis of its result. */
typedef enum Side { SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT } Side;

typedef struct Result {
    Value *value;
    struct {
        Side side;
        int place;  /* among the axes of the memory that the side's factor is read from */
        bool inner; /* of places in a pooling window (passes/tensor/split_windows.c) */
        int origin; /* the axis of the product */
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
    bool folds;    /* a reduction that a tile of the product can do is no end, but is followed */
    int folded;    /* the axis of the product that such ones reduce; -1: none does */
    int instructions; /* on an element of the tile */
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

/* Does a tile of the product hold all that the op reduces? */
static bool folds_in_tile(Chain *chain, const Op *op, const Result *from)
{
    int64_t extent, axis = op_int(op, ATTR_AXIS, 0);
    bool folds = chain->folds && op->kind == OP_REDUCE && op->n_operands == 1 &&
                 from->axes[axis].side != SIDE_BOTH;
    extent = folds ? poly_most(from->value->type->dims[axis]) : 0;
    int origin = folds ? from->axes[axis].origin : -1;
    if (extent < 2 || extent > MAX_FOLDED || (chain->folded >= 0 && chain->folded != origin)) {
        return false;
    }
    chain->folded = origin;
    return true;
}

/* Does the op reduce windows, as the launch of the product does place after place? */
static bool folds_windows(const Op *op, const Result *from)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 &&
           from->axes[op_int(op, ATTR_AXIS, 0)].inner;
}

/* What the op makes of `from`, its operand, has the axes of `from` in some order; false: others. */
static bool keeps_axes(Chain *chain, const Op *op, const Result *from, Result *to)
{
    bool moves = op->kind == OP_PERMUTE || op->kind == OP_SQUEEZE;
    bool stays = op_has(op, TRAIT_ELEMENTWISE) || (chain->folds && op->kind == OP_BROADCAST) ||
                 folds_windows(op, from) || folds_in_tile(chain, op, from);
    if (op->n_results != 1 || (!moves && !stays) ||
        (!moves && op->results[0]->type->rank != from->value->type->rank)) {
        return false;
    }
    chain->instructions += op->kind == OP_NAMED ? NAMED_INSTRUCTIONS : an_epilogue_instructions(op);
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
    if (!chain->ends && keeps_axes(chain, op, from, &to)) {
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

/* Is axis `place` of the memory from which the side's factor is read one of places in windows? */
static bool is_inner(const Func *func, const Compute *sum, int place, Side side)
{
    for (size_t i = 0; i < sum->uses.n; i++) {
        const Use *use = &sum->uses.items[i];
        const Im2colView *view = use->memory ? func_im2col_of(func, use->memory) : NULL;
        if (view && (use->factors >> (side == SIDE_RIGHT) & 1)) {
            const Param *param = &func->params.items[use->memory->index];
            return view_places(param) && place >= view_places(param) &&
                   place < view_inner_places(param);
        }
    }
    return false;
}

/* The axes of the sum's result. */
static Result result_of(const Func *func, const Compute *sum, Value *value)
{
    static const Side sides[] = {SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT, SIDE_BOTH};
    Result result = {.value = value};
    for (int i = 0; i < value->type->rank; i++) {
        result.axes[i].origin = i;
        const Axis *axis = map_as_axis(sum->result.at[i]);
        for (size_t k = 0; axis && k < sum->axes.n; k++) {
            if (sum->axes.items[k].axis == axis) {
                result.axes[i].side = sides[sum->axes.items[k].factors & 3];
                result.axes[i].place = place_in_memory(sum, axis, result.axes[i].side);
                result.axes[i].inner =
                    is_inner(func, sum, result.axes[i].place, result.axes[i].side);
            }
        }
    }
    return result;
}

/* What the program makes of the product. `folds`: through reductions that a tile can do. */
static Chain follow_product(Func *func, const Compute *sum, bool folds)
{
    Chain chain = {.func = func, .depth = 1, .folds = folds, .folded = -1};
    for (size_t i = 0; i < sum->axes.n; i++) {
        const ComputeAxis *own = &sum->axes.items[i];
        if (own->role == ROLE_REDUCED &&
            __builtin_mul_overflow(chain.depth, poly_most(own->axis->extent), &chain.depth)) {
            chain.depth = INT64_MAX;
        }
    }
    Result first = result_of(func, sum, sum->op->results[0]);
    add_made(&chain, &first);
    for (Op *op = sum->op->next; op && chain.pending > 0; op = op->next) {
        follow(&chain, op);
    }
    return chain;
}

static Side last_side(const Result *result)
{
    int rank = result->value->type->rank;
    return rank > 0 ? result->axes[rank - 1].side : SIDE_BOTH;
}

/* The order of the result's axes in memory: of both factors, of one, and of `last`, the other. */
static void side_order(const Result *result, Side last, int64_t *order)
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
    side_order(result, last_side(result), order);
}

/* The side of the axis along which the first statement that reads the memory, whose axes are the
 * result's in this order, writes neighbours; `last` where that has too few elements for the rows of
 * a product's tile, or is not known. */
static Side side_that_is_read(Func *func, const Result *result, const Value *memory,
                              const int64_t *order, Side last)
{
    int along = an_read_along(func, memory);
    Side side = along >= 0 ? result->axes[order[along]].side : last;
    double rows = 1;
    for (int i = 0; i < result->value->type->rank; i++) {
        bool other = result->axes[i].side == last;
        rows *= other ? (double)poly_nominal(result->value->type->dims[i]) : 1;
    }
    return side == SIDE_BOTH || rows < MIN_ROWS ? last : side;
}

/* Stores the result with the axes of `last` behind the others, and loads it for all that reads it,
 * if axes of it can be collapsed then. False: another side is asked for. */
static bool store_in_order(Func *func, const Result *result, Side last, bool asks)
{
    Value *value = result->value;
    int rank = value->type->rank;
    int64_t order[MAX_RANK], back[MAX_RANK];
    side_order(result, last, order);
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
    bool good = !asks || side_that_is_read(func, result, scratch, order, last) == last;
    if (!good || !collapse_axes_of(func, store, rank, 0)) {
        func_replace_uses(func, loaded, value);
        op_remove(store);
        func_remove_dead(func);
        func->params.n = n_params;
    }
    return good;
}

/* Does a gather read the value, but for the order of its axes: by groups, or by windows? */
static bool is_gathered(const Func *func, const Value *value)
{
    bool found = false;
    const Block *all = func->body;
    for (const ValueUse *use = use_first(value, all); use && !found; use = use_next(use, all)) {
        found = use->op->kind == OP_GATHER ||
                (use->op->kind == OP_PERMUTE && is_gathered(func, use->op->results[0]));
    }
    return found;
}

static void store_result(Func *func, const Result *result)
{

    Side last = last_side(result);
    bool asks = last != SIDE_BOTH && is_gathered(func, result->value);
    if (!store_in_order(func, result, last, asks)) {
        store_in_order(func, result, last == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT, false);
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

static void reorder_scatter(Func *func, Op *scatter, const int64_t *order)
{
    Builder b = build_before(func, scatter);
    b.span = scatter->span;
    for (int i = 1; i < scatter->n_operands; i++) {
        Value *operand = scatter->operands[i];
        if (operand && operand->type->kind == TYPE_ARRAY) {
            op_set_operand(scatter, i, reorder_axes_to_memory(&b, operand, order));
        }
    }
    func_remove_dead(func);
}

/* Gives the arrays of a scatter the order of axes that the result has in memory, and collapses
 * them. */
static void collapse_scatter(Func *func, Op *scatter, const Result *result)
{
    int rank = result->value->type->rank;
    int64_t order[MAX_RANK];
    scatter_order(scatter, result, order);
    reorder_scatter(func, scatter, order);
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

/* False: nothing is collapsed, and the store is there again. */
static bool collapse_as_scatter(Func *func, Op *store, const Result *result, const int64_t *order)
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
static void collapse_store(Func *func, Op *store, const Result *result, int64_t depth)
{
    int64_t order[MAX_RANK];
    int64_t least = factor_order(result, order) ? MIN_SCATTERED_DEPTH : MIN_DEPTH;
    if (depth < least || depth == INT64_MAX || !has_short_axes(result) ||
        !can_scatter(func, store) || has_user_tiles(func)) {
        return;
    }
    collapse_as_scatter(func, store, result, order);
}

/* ---- reductions in the tile ---- */

/* The order of axes in which a tile holds all of the axis that is reduced: that axis is the
 * columns, and those of the other factor are the rows. Other axes of the columns' factor, such as
 * phases, have tiles of their own that follow each other, since they may write parts of the same
 * sectors. */
static void folded_order(const Chain *chain, const Result *result, int64_t *order)
{
    int rank = result->value->type->rank, n = 0, last = 0;
    for (int i = 0; i < rank; i++) {
        last = result->axes[i].origin == chain->folded ? i : last;
    }
    Side columns = result->axes[last].side;
    Side sides[] = {SIDE_BOTH, columns == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT, columns};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < rank; i++) {
            if (i != last && result->axes[i].side == sides[k]) {
                order[n++] = i;
            }
        }
    }
    order[n] = last;
}

/* Is all that the program makes of the product stored once, and could a tile make it? */
static bool may_fold(const Chain *chain)
{
    const Op *op = chain->store ? chain->store : chain->scatter;
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
    bool once = op && !(chain->store && chain->scatter) && !chain->is_read;
    return once && chain->folded >= 0 && result->value->type->rank > 2 &&
           chain->instructions <= an_most_epilogue_instructions(MAX_FOLDED) &&
           (chain->scatter || (can_scatter(chain->func, op) && !has_user_tiles(chain->func)));
}

static bool collapse_folded(Func *func, const Chain *chain)
{
    int64_t order[MAX_RANK];
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
    folded_order(chain, result, order);
    if (chain->store) {
        return collapse_as_scatter(func, chain->store, result, order);
    }
    reorder_scatter(func, chain->scatter, order);
    return collapse_axes_of(func, chain->scatter, result->value->type->rank, 0) != NULL;
}

/* Has another collapse made anew what the chain goes through, or ends with? */
static bool is_gone(const Chain *chain)
{
    return !chain->goes_through.value->def->parent ||
           (chain->scatter && !chain->scatter->parent) || (chain->store && !chain->store->parent);
}

static void collapse_chain(Func *func, const Chain *chain)
{
    if (is_gone(chain)) {
        return;
    }
    if (chain->is_read && chain->goes_through.value->type->rank > 2) {
        store_result(func, &chain->goes_through);
    } else if (chain->scatter && !chain->is_read && chain->scattered.value->type->rank > 2) {
        collapse_scatter(func, chain->scatter, &chain->scattered);
    } else if (chain->store && !chain->is_read && chain->stored.value->type->rank > 2) {
        collapse_store(func, chain->store, &chain->stored, chain->depth);
    }
}

/* What the program makes of a product, up to the first reduction and through those of a tile. */
typedef struct Chains {
    Chain plain, folds;
} Chains;

void pass_collapse_intermediates(Func *func)
{
    func_remove_dead(func);
    Computations *all = computations_open(func);
    struct {
        Chains *items;
        size_t n, cap;
    } chains = {0};
    const Op *summed = NULL; /* the product whose outermost sum was met */
    for (Op *op = func->body->last; op; op = op->prev) {
        const Compute *sum = computations_product(all, op);
        if (sum && !compute_masks_products(sum) && sum->term.value->def != summed) {
            summed = sum->term.value->def;
            Chains own = {follow_product(func, sum, false), follow_product(func, sum, true)};
            ARENA_PUSH(func->arena, &chains, own);
        }
    }
    computations_close(all);
    for (size_t i = 0; i < chains.n; i++) {
        const Chains *own = &chains.items[i];
        bool folds = !is_gone(&own->folds) && may_fold(&own->folds);
        if (!folds || !collapse_folded(func, &own->folds)) {
            collapse_chain(func, &own->plain);
        }
    }
    if (chains.n > 0 && split_writes(func)) {
        pass_collapse_axes(func);
    }
}
