/* SPDX-License-Identifier: Apache-2.0 */
/* reflect_taps: lets windows count forwards.
 *
 *   sum(r in R) (x[p - r] else 0) * w[r]   →   sum(r in R) (x[p + r - (R-1)] else 0) * w[R-1-r]
 *
 * The order in which taps are summed is free, so a tap whose number makes the window's index fall
 * is replaced by the one as far from the other end. The copy engine walks windows forwards only;
 * the other factor's reversed read is part of the copy that its operand needs anyway. Done for
 * factors of matrix products on targets that have such an engine. Requires the tensor level.
 * Changes the order of the sum. */
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"

typedef struct Reflect {
    Func *func;
    Memo *forms, *varies;
    ReductionDomain domain;
} Reflect;

/* The summed axes with which the index of a window grows (sign 1) or falls (-1). */
static unsigned taps_of(const Reflect *s, const Op *gather, const int *axes, int sign)
{
    unsigned taps = 0;
    for (int i = 1; i < gather->n_operands; i++) {
        const Value *index = gather->operands[i];
        const IndexForm *form = index->type->rank ? an_index_form(s->func, s->forms, index) : NULL;
        unsigned own = 0;
        bool walks = false; /* places, forwards */
        for (int k = 0; form && !form->n_parts && k < index->type->rank; k++) {
            bool summed = axes[k] >= 0 && (s->domain.sums.summed >> axes[k] & 1);
            walks = walks || (axes[k] >= 0 && !summed && form->coef[k] > 0);
            own |= summed && form->coef[k] * sign > 0 ? 1u << axes[k] : 0;
        }
        taps |= walks ? own : 0;
    }
    return taps;
}

/* The taps with which windows fall, where the other factor has columns of its own. */
static unsigned falling_taps(const Reflect *s)
{
    const SummedProduct *sums = &s->domain.sums;
    unsigned falling = 0, growing = 0;
    unsigned kept = an_all_axes(sums->mul->results[0]->type) & ~sums->summed;
    for (int side = 0; side < 2; side++) {
        int axes[MAX_RANK];
        const Value *factor = sums->mul->operands[side], *other = sums->mul->operands[1 - side];
        const Op *read = domain_factor_read(&s->domain, factor, axes);
        unsigned columns = kept & an_varies(s->varies, other) & ~an_varies(s->varies, factor);
        if (read && read->kind == OP_GATHER) {
            falling |= columns ? taps_of(s, read, axes, -1) : 0;
            growing |= taps_of(s, read, axes, 1);
        }
    }
    return falling & ~growing;
}

/* What is summed: the product, with the conditions behind it. NULL: one lies between sums. */
static Value *summed_term(const Reflect *s)
{
    Value *term = s->domain.sums.mul->results[0];
    Op *user = value_only_user(s->func, term);
    while (user && domain_has_select(&s->domain, user)) {
        term = user->results[0];
        user = value_only_user(s->func, term);
    }
    for (int i = 0; i < s->domain.n_selects; i++) {
        const Op *select = s->domain.selects[i];
        bool behind = !op_is_before(select, s->domain.sums.mul);
        if (behind && select->results[0]->type->rank != term->type->rank) {
            return NULL;
        }
    }
    return user && an_is_sum(user) ? term : NULL;
}

static bool reflect_sum(Reflect *s, Op *sum)
{
    Func *func = s->func;
    unsigned taps = an_reduction_domain(func, s->forms, sum, &s->domain) ? falling_taps(s) : 0;
    Value *term = taps ? summed_term(s) : NULL;
    if (!term) {
        return false;
    }
    Type type = term->type;
    Builder b = build_before(func, term->def);
    b.span = sum->span;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = b, .forms = s->forms, .varies = s->varies, .rank = type->rank};
    int axes[MAX_RANK];
    r->old_rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        Dim last = poly_add(func, type->dims[i], poly_const(func, -1));
        const IndexForm *axis = form_axis(func, i);
        axes[i] = i;
        r->dims[i] = r->old_dims[i] = type->dims[i];
        r->at[i] = taps >> i & 1 ? form_sum(func, form_dim(func, last), axis, -1) : axis;
        if (!r->at[i]) {
            return false;
        }
    }
    Spread reflected = reindex_value(r, term, axes);
    if (!reflected.value) {
        return false;
    }
    func_replace_uses(func, term, reindex_spread(r, reflected, an_all_axes(type)));
    return true;
}

void pass_reflect_taps(Func *func)
{
    if (!func->target || !func->target->has_bulk_copy || !mma_first(func->target, "wgmma") ||
        !block_contains(func->body, OP_GATHER) || !block_contains(func->body, OP_REDUCE)) {
        return;
    }
    Reflect s = {.func = func, .forms = an_index_forms_all(func), .varies = an_varies_all(func)};
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        reflect_sum(&s, op);
    }
    memo_close(s.forms);
    memo_close(s.varies);
    func_remove_dead(func);
}
