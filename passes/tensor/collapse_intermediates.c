/* SPDX-License-Identifier: Apache-2.0 */
/* collapse_intermediates: collapses the axes of dots whose results later launches read.
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
 * lie side by side in the result (`y[a, f, m, o]` of rows (a, m) and columns (f, o)), if the sum is
 * long enough that full tiles pay for storing element by element.
 *
 * Where all that folds the result does so along one axis that a tile holds whole, as a softmax over
 * channels does, nothing goes through memory: that axis is the columns, the places are the rows,
 * and what is made of the product is scattered, or stored if it has only places. Where reductions
 * along the places are all that reads it, their parts are stored (passes/tensor/reduce_in_parts.c).
 * An inner axis of places that fills tiles by itself is not collapsed with the outer one.
 *
 * What is gathered by groups of what a scatter has put into scratch memory is read through aliases
 * with axes for the groups. Requires the tensor level. Changes no bits. */
#include "passes/tensor/collapse_intermediates.h"

#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/computations.h"
#include "passes/analysis/epilogue_folds.h"
#include "passes/analysis/memory_steps.h"
#include "passes/pass.h"
#include "passes/tensor/collapse_axes.h"
#include "passes/tensor/reorder_axes.h"
#include "passes/tensor/split_reads.h"

#include <math.h>
#include <string.h>

enum {
    MAX_FOLDED = 128,        /* elements of an axis that a tile holds whole, */
    MAX_FOLDED_WIDE = 256,   /* and where a warp group multiplies them by 16-bit operands */
    FULL_TILE = 256,         /* places of the largest tiles */
    NAMED_INSTRUCTIONS = 12, /* that approximate a function of a sum */
};

static const double MOST_WASTED = 1.06; /* times the places, with those of full tiles */
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
    bool windows;     /* some are places in windows, which are reduced one by one */
    bool narrow;      /* factors of 16 bits or less */
    int64_t depth;    /* maximum number of terms of the product; INT64_MAX: not known */
    bool folds;       /* a reduction that a tile of the product can do is no end, but is followed */
    int folded;       /* the axis of the product that such ones reduce; -1: none does */
    int64_t whole;    /* its elements */
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
    const Target *target = chain->func->target;
    bool wide = chain->narrow && target && mma_warpgroup(target);
    if (extent < 2 || extent > (wide ? MAX_FOLDED_WIDE : MAX_FOLDED) ||
        (chain->folded >= 0 && chain->folded != origin)) {
        return false;
    }
    chain->folded = origin;
    chain->whole = extent;
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
    bool moves = op->kind == OP_PERMUTE || op->kind == OP_SQUEEZE || op->kind == OP_EXPAND;
    bool stays = op_has(op, TRAIT_ELEMENTWISE) || (chain->folds && op->kind == OP_BROADCAST) ||
                 folds_windows(op, from) || folds_in_tile(chain, op, from);
    if (op->n_results != 1 || (!moves && !stays) ||
        (!moves && op->results[0]->type->rank != from->value->type->rank)) {
        return false;
    }
    chain->instructions += op->kind == OP_NAMED ? NAMED_INSTRUCTIONS : an_epilogue_instructions(op);
    *to = (Result){.value = op->results[0]};
    for (int i = 0; i < to->value->type->rank; i++) {
        int of = moves ? op_operand_axis(op, 0, i) : i;
        to->axes[i] = from->axes[of < 0 ? 0 : of];
        if (of < 0) { /* a new one, of one element */
            to->axes[i].origin = -1;
            to->axes[i].side = SIDE_BOTH;
            to->axes[i].inner = false;
        }
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
    chain.narrow = sum->uses.n > 0;
    for (size_t i = 0; i < sum->uses.n; i++) {
        const Value *memory = sum->uses.items[i].memory;
        chain.narrow = chain.narrow && memory && dtype_bits(memory->type->dtype) <= 16;
    }
    Result first = result_of(func, sum, sum->op->results[0]);
    for (int i = 0; i < first.value->type->rank; i++) {
        chain.windows = chain.windows || first.axes[i].inner;
    }
    add_made(&chain, &first);
    for (Op *op = sum->op->next; op && chain.pending > 0; op = op->next) {
        follow(&chain, op);
    }
    return chain;
}

/* The side of the axis along which the statement that reads most of the memory, whose axes are the
 * result's in this order, writes neighbours; `last` where that is not known. */
static Side side_that_is_read(Func *func, const Result *result, const Value *memory,
                              const int64_t *order, Side last)
{
    int along = an_read_along(func, memory);
    Side side = along >= 0 ? result->axes[order[along]].side : last;
    return side == SIDE_BOTH ? last : side;
}

/* Does the inner one of two axes of a factor fill tiles by itself? Then the outer one goes before
 * those of the other factor and is not collapsed with it. With images behind channels, two channels
 * of a pixel would have megabytes between them, often a power of two, and so share the sets of the
 * caches. */
static bool is_tiled_alone(const Result *result, int64_t *order)
{
    int rank = result->value->type->rank, n = 0;
    int64_t last = order[rank - 1], before[MAX_RANK];
    Side side = result->axes[last].side;
    double extent = (double)poly_nominal(result->value->type->dims[last]);
    int own = 0, other = 0;
    for (int i = 0; i < rank; i++) {
        own += result->axes[i].side == side;
        other += result->axes[i].side != side && result->axes[i].side != SIDE_BOTH;
    }
    if (own != 2 || other == 0 || ceil(extent / FULL_TILE) * FULL_TILE >= extent * MOST_WASTED) {
        return false;
    }
    for (int others = 0; others < 2; others++) {
        for (int i = 0; i < rank - 1; i++) {
            Side of = result->axes[order[i]].side;
            if ((of != side && of != SIDE_BOTH) == (others == 1)) {
                before[n++] = order[i];
            }
        }
    }
    memcpy(order, before, (size_t)n * sizeof *before);
    return true;
}

/* Stores what the chain goes through with the axes of `last` behind the others, and loads it for
 * all that reads it, if axes of it can be collapsed then. False: another side is asked for. */
static bool store_in_order(Func *func, const Chain *chain, Side last, bool asks)
{
    const Result *result = &chain->goes_through;
    Value *value = result->value;
    int rank = value->type->rank;
    int64_t order[MAX_RANK], back[MAX_RANK];
    collapse_side_order(result, last, order);
    bool alone = is_tiled_alone(result, order);
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
    Value *ordered = reorder_axes_to(&b, value, order, chain->made.items[0].value);
    Op *store = build_store(&b, func_alias(func, scratch), WHOLE, ordered);
    bool good = !asks || side_that_is_read(func, result, scratch, order, last) == last;
    bool collapsed = good && collapse_axes_of(func, store, rank, 0);
    if (good && !collapsed && !alone) { /* the product, too, gets this order of axes */
        b = build_before(func, store);
        b.span = value->def->span;
        op_set_operand(store, store->n_operands - 1, reorder_axes(&b, value, order));
        collapsed = collapse_axes_of(func, store, rank, 0) != NULL;
    }
    if (!collapsed && !(good && alone)) {
        func_replace_uses(func, loaded, value);
        op_remove(store);
        func_remove_dead(func);
        func->params.n = n_params;
    }
    return good;
}

static void store_result(Func *func, const Chain *chain)
{
    const Result *result = &chain->goes_through;
    Side last = collapse_last_side(result);
    bool asks = last != SIDE_BOTH;
    if (!store_in_order(func, chain, last, asks)) {
        store_in_order(func, chain, last == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT, false);
    }
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

static bool has_folded(const Chain *chain, const Result *result)
{
    bool has = false;
    for (int i = 0; i < result->value->type->rank; i++) {
        has = has || result->axes[i].origin == chain->folded;
    }
    return has;
}

/* Is all that the program makes of the product stored once, and could a tile make it? */
static bool may_fold(const Chain *chain)
{
    const Op *op = chain->store ? chain->store : chain->scatter;
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
    bool stored_once = op && !(chain->store && chain->scatter) && !chain->is_read;
    int kept =
        stored_once && chain->store && !has_folded(chain, result) ? 1 : 2; /* axes, at least */
    return stored_once && chain->folded >= 0 && result->value->type->rank > kept &&
           chain->instructions <= an_most_epilogue_instructions(chain->whole) &&
           (chain->scatter || collapse_can_scatter(chain->func, op));
}

/* Stores a value that lost the folded axis, with that axis as the last one of what is folded: the
 * other axes are then adjacent, whatever the order in which the program has them. */
static bool collapse_without_folded(Func *func, const Chain *chain)
{
    Op *store = chain->store;
    const Result *result = &chain->stored;
    const Value *product = chain->made.items[0].value;
    int rank = result->value->type->rank;
    int64_t order[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        order[i] = i;
    }
    Builder b = build_before(func, store);
    b.span = store->span;
    Value *value = reorder_axes_to(&b, result->value, order, product);
    Op *ordered = build_store(&b, store->operands[0], WHOLE, value);
    op_remove(store);
    bool collapsed = collapse_axes_of(func, ordered, rank, 0) != NULL;
    if (!collapsed) {
        b = build_before(func, ordered);
        b.span = ordered->span;
        build_store(&b, ordered->operands[0], WHOLE, result->value);
        op_remove(ordered);
        func_remove_dead(func);
    }
    return collapsed;
}

static bool collapse_folded(Func *func, const Chain *chain)
{
    int64_t order[MAX_RANK];
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
    if (chain->store && !has_folded(chain, result)) {
        return collapse_without_folded(func, chain);
    }
    folded_order(chain, result, order);
    if (chain->store) {
        return collapse_as_scatter(func, chain->store, result, order);
    }
    collapse_reorder_scatter(func, chain->scatter, order);
    return collapse_axes_of(func, chain->scatter, result->value->type->rank, 0) != NULL;
}

/* Has another collapse made anew what the chain goes through, or ends with? */
static bool is_gone(const Chain *chain)
{
    return !chain->goes_through.value->def->parent || (chain->scatter && !chain->scatter->parent) ||
           (chain->store && !chain->store->parent);
}

static void collapse_chain(Func *func, const Chain *chain)
{
    if (is_gone(chain)) {
        return;
    }
    if (chain->is_read && chain->goes_through.value->type->rank > 2) {
        ProductCost cost = {chain->depth, chain->instructions, chain->narrow};
        if (chain->windows || !collapse_reduces_in_parts(func, &chain->goes_through, &cost)) {
            store_result(func, chain);
        }
    } else if (chain->scatter && !chain->is_read && chain->scattered.value->type->rank > 2) {
        collapse_scatter_of(func, chain->scatter, &chain->scattered);
    } else if (chain->store && !chain->is_read && chain->stored.value->type->rank > 2) {
        collapse_store_of(func, chain->store, &chain->stored, chain->depth);
    }
}

/* What the program makes of a product, up to the first reduction and through those of a tile. */
typedef struct Chains {
    Chain plain, folds;
} Chains;

void pass_collapse_intermediates(Func *func)
{
    func_remove_dead(func);
    split_scratch_reads(func);
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
        bool reduced = folds && own->folds.store && !has_folded(&own->folds, &own->folds.stored);
        if (!(folds && collapse_folded(func, &own->folds)) && !reduced) {
            collapse_chain(func, &own->plain);
        }
    }
    bool split = chains.n > 0 && split_scratch_reads(func);
    split = (chains.n > 0 && split_writes(func)) || split;
    if (split) {
        pass_collapse_axes(func);
    }
}
