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
 * quotients and remainders of the collapsed axis. Requires the tensor level. Changes no bits. */
#include "passes/tensor/collapse_axes.h"

#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/summed_products.h"
#include "passes/pass.h"
#include "passes/tensor/reorder_axes.h"

static Value *const WHOLE[MAX_RANK];

/* Which factors of the product vary along an axis of its result. */
typedef enum Side { SIDE_BOTH, SIDE_LEFT, SIDE_RIGHT } Side;

typedef struct Result {
    Value *value;
    Side sides[MAX_RANK]; /* of its axes */
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
        to->sides[i] = from->sides[moves ? op_operand_axis(op, 0, i) : i];
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
    chain->is_read = chain->is_read || op->kind == OP_REDUCE || op->kind == OP_FOLD ||
                     op->kind == OP_SCAN || op->kind == OP_GATHER;
}

/* What the program makes of the product. */
static Chain follow_product(Func *func, Memo *varies, const SummedProduct *sums)
{
    unsigned left = an_varies(varies, sums->mul->operands[0]);
    unsigned right = an_varies(varies, sums->mul->operands[1]);
    Chain chain = {.func = func};
    Result first = {.value = sums->last->results[0]};
    for (int i = 0, to = 0; i < sums->rank; i++) {
        bool only_left = (left & ~right) >> i & 1, only_right = (right & ~left) >> i & 1;
        if (!(sums->dropped >> i & 1)) {
            first.sides[to++] = only_left ? SIDE_LEFT : only_right ? SIDE_RIGHT : SIDE_BOTH;
        }
    }
    add_made(&chain, &first);
    for (Op *op = sums->last->next; op && chain.pending > 0; op = op->next) {
        follow(&chain, op);
    }
    return chain;
}

/* The order of the result's axes in memory: of both factors, of one, of the other. */
static void memory_order(const Result *result, int64_t *order)
{
    int rank = result->value->type->rank, n = 0;
    Side last = rank > 0 ? result->sides[rank - 1] : SIDE_BOTH;
    Side sides[] = {SIDE_BOTH, last == SIDE_LEFT ? SIDE_RIGHT : SIDE_LEFT,
                    last == SIDE_LEFT ? SIDE_LEFT : SIDE_RIGHT};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < rank; i++) {
            if (result->sides[i] == sides[k]) {
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
    if (!collapse_axes_of(func, store, rank)) {
        func_replace_uses(func, loaded, value);
        op_remove(store);
        func_remove_dead(func);
        func->params.n = n_params;
    }
}

/* Gives the arrays of a scatter the order of axes that the result has in memory, and collapses
 * them. */
static void collapse_scatter(Func *func, Op *scatter, const Result *result)
{
    int rank = result->value->type->rank;
    int64_t order[MAX_RANK];
    memory_order(result, order);
    Builder b = build_before(func, scatter);
    b.span = scatter->span;
    for (int i = 1; i < scatter->n_operands; i++) {
        Value *operand = scatter->operands[i];
        if (operand && operand->type->kind == TYPE_ARRAY) {
            op_set_operand(scatter, i, reorder_axes(&b, operand, order));
        }
    }
    func_remove_dead(func);
    collapse_axes_of(func, scatter, rank);
}

void pass_collapse_intermediates(Func *func)
{
    func_remove_dead(func);
    Memo *varies = an_varies_all(func);
    struct {
        Chain *items;
        size_t n, cap;
    } chains = {0};
    const Op *summed = NULL; /* the product whose outermost sum was met */
    for (Op *op = func->body->last; op; op = op->prev) {
        SummedProduct sums;
        if (an_summed_product(func, op, &sums) && sums.mul != summed) {
            summed = sums.mul;
            Chain chain = follow_product(func, varies, &sums);
            ARENA_PUSH(func->arena, &chains, chain);
        }
    }
    memo_close(varies);
    for (size_t i = 0; i < chains.n; i++) {
        const Chain *chain = &chains.items[i];
        bool gone = !chain->goes_through.value->def->parent; /* made anew by another collapse */
        if (gone || (chain->scatter && !chain->scatter->parent)) {
            continue;
        }
        if (chain->is_read && chain->goes_through.value->type->rank > 2) {
            store_result(func, &chain->goes_through);
        } else if (chain->scatter && !chain->is_read && chain->scattered.value->type->rank > 2) {
            collapse_scatter(func, chain->scatter, &chain->scattered);
        }
    }
}
