/* SPDX-License-Identifier: Apache-2.0 */
/* reflect_taps: reverses the taps of windows that count backwards.
 *
 *   sum(r in R) (x[p - r] else 0) * w[r]   →   sum(r in R) (x[p + r - (R-1)] else 0) * w[R-1-r]
 *
 * Taps may be summed in any order, so a tap with which the window's index decreases is replaced by
 * the tap at the same distance from the other end. TMA's im2col mode only iterates forwards; the
 * reversed read of the other factor is part of the copy that this operand needs anyway. Done for
 * factors of matrix products on targets with TMA. Requires the tensor level. Changes the
 * association order of the sum. */
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"

typedef struct Reflect {
    Func *func;
    Computations *all;
    Memo *varies;
    const Compute *sum;
    TermAxes axes; /* of it */
} Reflect;

/* The summed axes with which the index of a window grows (sign 1) or falls (-1). */
static unsigned taps_of(const Reflect *s, const Instance *window, int sign)
{
    const Op *gather = window->value->def;
    unsigned taps = 0;
    for (int i = 1; i < gather->n_operands; i++) {
        const Affine *index = computations_map(s->all, gather->operands[i], window->at);
        unsigned own = 0;
        bool places = false; /* it grows with them */
        for (int k = 0; map_is_sum(index) && k < index->n; k++) {
            unsigned axis = compute_axes_of(s->sum, map_axis(&s->all->space, index->terms[k].axis));
            int64_t coef;
            bool number = poly_is_const(index->terms[k].coef, &coef);
            places = places || (number && coef > 0 && (axis & s->axes.kept));
            own |= number && coef * sign > 0 ? axis & s->axes.summed : 0;
        }
        taps |= places ? own : 0;
    }
    return taps;
}

/* The taps with which windows fall, where the other factor has columns of its own. */
static unsigned falling_taps(const Reflect *s)
{
    unsigned falling = 0, growing = 0;
    for (int side = 0; side < 2; side++) {
        const Instance *factor = &s->sum->factors[side];
        const Op *read = factor->value->def;
        unsigned columns = s->axes.kept & s->axes.factors[1 - side] & ~s->axes.factors[side];
        if (read && read->kind == OP_GATHER) {
            falling |= columns ? taps_of(s, factor, -1) : 0;
            growing |= taps_of(s, factor, 1);
        }
    }
    return falling & ~growing;
}

/* What is summed: the product, with the conditions behind it. NULL: one lies between sums. */
static Value *summed_term(const Reflect *s)
{
    Value *term = s->sum->term.value;
    Op *user = value_only_user(s->func, term);
    size_t n = 0;
    for (; user && compute_has_select(s->sum, user); user = value_only_user(s->func, term)) {
        term = user->results[0];
        for (size_t i = 0; i < s->sum->where.n; i++) {
            n += s->sum->where.items[i].select == user;
        }
    }
    for (size_t i = 0; i < s->sum->where.n; i++) {
        n += s->sum->where.items[i].factors != 0;
    }
    return user && op_is_sum(user) && n == s->sum->where.n ? term : NULL;
}

/* What is summed, at these places: the product, whose factors have all axes, and what follows. */
static Value *rebuilt(const Reflect *s, Reindex *r, const Instance *term)
{
    unsigned all = an_all_axes(term->value->type);
    Instance product = *term;
    Value *factors[2];
    product.value = s->sum->term.value;
    for (int side = 0; side < 2; side++) {
        Instance factor = *term;
        factor.value = product.value->def->operands[side];
        Spread made = reindex_instance(r, &factor);
        if (!made.value) {
            return NULL;
        }
        factors[side] = reindex_spread(r, made, all);
    }
    Value *made = build_binary(&r->b, OP_MUL, factors[0], factors[1]);
    reindex_define(r, &product, (Spread){made, all});
    Spread reflected = reindex_instance(r, term);
    return reflected.value ? reindex_spread(r, reflected, all) : NULL;
}

static bool reflect_sum(Reflect *s, const Op *op)
{
    Func *func = s->func;
    s->sum = computations_product(s->all, op);
    unsigned taps = s->sum && compute_term_axes(s->sum, &s->axes) ? falling_taps(s) : 0;
    Instance term = {.value = taps ? summed_term(s) : NULL};
    if (!term.value) {
        return false;
    }
    Builder b = build_before(func, term.value->def);
    b.span = op->span;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = b, .all = s->all, .varies = s->varies};
    reindex_over_term(r, s->sum);
    for (int i = 0; i < r->rank; i++) {
        AxisSpace *space = &s->all->space;
        Dim last = poly_add(func, r->dims[i], poly_const(func, -1));
        const Affine *place = s->sum->term.at[i];
        term.at[i] = taps >> i & 1 ? map_subtract(space, map_dim(space, last), place) : place;
        if (!term.at[i]) {
            return false;
        }
    }
    Value *reflected = rebuilt(s, r, &term);
    if (reflected) {
        func_replace_uses(func, term.value, reflected);
    }
    return reflected != NULL;
}

void pass_reflect_taps(Func *func)
{
    if (!mma_reads_bulk_copies(func->target) || !block_contains(func->body, OP_GATHER) ||
        !block_contains(func->body, OP_REDUCE)) {
        return;
    }
    Reflect s = {.func = func, .all = computations_open(func), .varies = an_varies_all(func)};
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        reflect_sum(&s, op);
    }
    computations_close(s.all);
    memo_close(s.varies);
    func_remove_dead(func);
}
