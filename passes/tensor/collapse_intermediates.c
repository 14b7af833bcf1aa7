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
 * and what is made of the product is scattered. Requires the tensor level. Changes no bits. */
#include "passes/tensor/collapse_intermediates.h"

#include "ir/build.h"
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

enum {
    MIN_ROWS = 64,           /* of a tile, that a warp group multiplies */
    MAX_FOLDED = 128,        /* elements of an axis that a tile holds whole */
    NAMED_INSTRUCTIONS = 12, /* that approximate a function of a sum */
};

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
    collapse_side_order(result, last, order);
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
    Side last = collapse_last_side(result);
    bool asks = last != SIDE_BOTH && is_gathered(func, result->value);
    if (!store_in_order(func, result, last, asks)) {
        store_in_order(func, result, last == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT, false);
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

/* Is all that the program makes of the product stored once, and could a tile make it? */
static bool may_fold(const Chain *chain)
{
    const Op *op = chain->store ? chain->store : chain->scatter;
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
    bool stored_once = op && !(chain->store && chain->scatter) && !chain->is_read;
    return stored_once && chain->folded >= 0 && result->value->type->rank > 2 &&
           chain->instructions <= an_most_epilogue_instructions(MAX_FOLDED) &&
           (chain->scatter || collapse_can_scatter(chain->func, op));
}

static bool collapse_folded(Func *func, const Chain *chain)
{
    int64_t order[MAX_RANK];
    const Result *result = chain->store ? &chain->stored : &chain->scattered;
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
