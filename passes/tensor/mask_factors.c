/* SPDX-License-Identifier: Apache-2.0 */
/* mask_factors: moves the conditions of a sum of products onto a factor.
 *
 *   %p = mul %a, %b : f32[M, N, K]              %m = select %c', %a', 0.0 : f32[M, K]
 *   %s = select %c, %p, 0.0               →     %p = mul %m, %b : f32[M, N, K]
 *   %r = reduce %s fn=sum axis=2                %r = reduce %p fn=sum axis=2
 *
 * A condition behind the product, `sum(k in K if k <= i)`, hides that it is a matrix product. A
 * condition that relates places (a triangle, a band) goes to the factor that has its axes; others
 * stay, because a range that comes from data excludes terms whatever they are. Comparisons of
 * places become `a >= b` with the sums of the positive terms on either side, as `peel` and
 * `bound_loops` read them. Requires the tensor level. A term that does not count may be 0 times a
 * number of the other factor. */
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "passes/analysis/axis_dependence.h"

typedef struct Masker {
    Func *func;
    Memo *forms, *varies;
    ReductionDomain domain;
} Masker;

/* form >= 0 as a comparison of what is added with what is subtracted. */
static Spread compared(Reindex *r, const IndexForm *form)
{
    Func *func = r->b.func;
    const IndexForm *zero = form_dim(func, poly_const(func, 0));
    IndexForm *sides[2] = {ARENA_NEW(func->arena, IndexForm), ARENA_NEW(func->arena, IndexForm)};
    *sides[0] = *sides[1] = *zero;
    for (int i = 0; i < FORM_AXES; i++) {
        sides[form->coef[i] < 0]->coef[i] = form->coef[i] < 0 ? -form->coef[i] : form->coef[i];
    }
    for (int i = 0; i < form->n_parts; i++) {
        bool less = form->parts[i].times < 0;
        IndexForm *side = sides[less];
        side->parts[side->n_parts] = form->parts[i];
        side->parts[side->n_parts++].times *= less ? -1 : 1;
    }
    sides[1]->base = poly_mul(func, form->base, poly_const(func, -1));
    Spread more = reindex_form(r, sides[0]), less = reindex_form(r, sides[1]);
    unsigned axes = more.axes | less.axes;
    if (!sides[1]->base || !axes) {
        return (Spread){NULL, 0};
    }
    return (Spread){
        build_cmp(&r->b, "ge", reindex_spread(r, more, axes), reindex_spread(r, less, axes)), axes};
}

/* ---- comparisons ---- */

static const char *const ORDERS[] = {"lt", "le", "gt", "ge"};

/* A difference of places that is compared with a number: as a comparison of places. */
static bool rewrite_comparison(Masker *s, Op *cmp)
{
    Func *func = s->func;
    const char *pred = op_word(cmp, ATTR_PRED);
    bool ordered = false;
    for (int i = 0; i < 4; i++) {
        ordered = ordered || text_equal(pred, ORDERS[i]);
    }
    const IndexForm *a = an_index_form(func, s->forms, cmp->operands[0]);
    const IndexForm *b = an_index_form(func, s->forms, cmp->operands[1]);
    bool places = a && b && form_as_axis(a) >= 0 && form_as_axis(b) >= 0;
    const IndexForm *form = form_sum(func, a, b, -1);
    unsigned axes = form ? form_axes(form) : 0;
    if (!ordered || places || !form || !(axes & (axes - 1))) {
        return false;
    }
    form = pred[0] == 'l' ? form_scaled(func, form, -1) : form;
    form = pred[1] == 't' ? form_sum(func, form, form_dim(func, poly_const(func, 1)), -1) : form;
    Type type = cmp->results[0]->type;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = build_before(func, cmp), .rank = type->rank};
    for (int i = 0; i < type->rank; i++) {
        r->dims[i] = type->dims[i];
    }
    Spread by = form ? compared(r, form) : (Spread){NULL, 0};
    if (!by.value) {
        return false;
    }
    func_replace_uses(func, cmp->results[0], reindex_spread(r, by, (1u << type->rank) - 1));
    return true;
}

/* ---- conditions of products ---- */

/* True if all conditions relate a place of the result to one that is summed. */
static bool relates_places(const Masker *s)
{
    const ReductionDomain *domain = &s->domain;
    for (int i = 0; i < domain->n_atoms; i++) {
        const DomainAtom *atom = &domain->atoms[i];
        unsigned axes = atom->kind == ATOM_OTHER ? 0 : form_axes(atom->form);
        if (!(axes & domain->sums.summed) || !(axes & ~domain->sums.summed)) {
            return false;
        }
    }
    return domain->n_atoms > 0;
}

/* True if the factors are a matrix product's: rows, columns and a depth. */
static bool is_product(const Masker *s)
{
    const SummedProduct *sums = &s->domain.sums;
    unsigned left = an_varies(s->varies, sums->mul->operands[0]);
    unsigned right = an_varies(s->varies, sums->mul->operands[1]);
    unsigned kept = an_all_axes(sums->mul->results[0]->type) & ~sums->summed;
    return (kept & left & ~right) && (kept & right & ~left) && (sums->summed & left & right);
}

static bool mask_sum(Masker *s, Op *sum)
{
    Func *func = s->func;
    const SummedProduct *sums = &s->domain.sums;
    if (!an_reduction_domain(func, s->forms, sum, &s->domain) || !relates_places(s) ||
        !is_product(s)) {
        return false;
    }
    Op *user = value_only_user(func, sums->mul->results[0]);
    if (!user || !domain_has_select(&s->domain, user)) {
        return false; /* the conditions are those of factors */
    }
    Value *term = sums->mul->results[0];
    for (; user && domain_has_select(&s->domain, user); user = value_only_user(func, term)) {
        term = user->results[0];
    }
    Type type = term->type;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = build_before(func, term->def),
                   .forms = s->forms,
                   .varies = s->varies,
                   .domain = &s->domain,
                   .rank = type->rank};
    int axes[MAX_RANK];
    r->old_rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        axes[i] = i;
        r->dims[i] = r->old_dims[i] = type->dims[i];
        r->at[i] = form_axis(func, i);
    }
    Spread factors[2];
    for (int side = 0; side < 2; side++) {
        factors[side] = reindex_value(r, sums->mul->operands[side], axes);
        if (!factors[side].value) {
            return false;
        }
    }
    for (int i = 0; i < s->domain.n_atoms; i++) {
        const DomainAtom *atom = &s->domain.atoms[i];
        Spread holds = atom->kind == ATOM_NOT_NEGATIVE
                           ? compared(r, atom->form)
                           : reindex_value(r, atom->condition, atom->axes);
        int side = (holds.axes & ~factors[0].axes) != 0;
        if (!holds.value || (holds.axes & ~factors[side].axes)) {
            return false;
        }
        if (atom->kind != ATOM_NOT_NEGATIVE && atom->negated) {
            holds.value = build_unary(&r->b, OP_NOT, holds.value);
        }
        factors[side] = reindex_masked(r, factors[side], holds);
    }
    unsigned all = an_all_axes(type);
    Value *product = build_binary(&r->b, OP_MUL, reindex_spread(r, factors[0], all),
                                  reindex_spread(r, factors[1], all));
    func_replace_uses(func, term, product);
    return true;
}

void pass_mask_factors(Func *func)
{
    if (!block_contains(func->body, OP_SELECT)) {
        return;
    }
    Masker s = {.func = func, .forms = an_index_forms_all(func), .varies = an_varies_all(func)};
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        if (op->kind == OP_REDUCE) {
            mask_sum(&s, op);
        } else if (op->kind == OP_CMP && op->operands[0]->type->rank > 1) {
            rewrite_comparison(&s, op);
        }
    }
    memo_close(s.forms);
    memo_close(s.varies);
    func_remove_dead(func);
}
