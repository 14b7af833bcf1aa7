/* SPDX-License-Identifier: Apache-2.0 */
/* mask_factors: moves the conditions of a sum of products onto a factor.
 *
 *   %p = mul %a, %b : f32[M, N, K]              %m = select %c', %a', 0.0 : f32[M, K]
 *   %s = select %c, %p, 0.0               →     %p = mul %m, %b : f32[M, N, K]
 *   %r = reduce %s fn=sum axis=2                %r = reduce %p fn=sum axis=2
 *
 * A condition behind the product, `sum(k in K if k <= i)`, hides that it is a matrix product. A
 * condition that relates places (a triangle, a band) goes to the factor that has its axes: a
 * term that does not count may be 0 times a number of the other factor. Any other condition,
 * such as a range that comes from data (`k < length[b]`), excludes terms whatever they are: both
 * factors become 0 where it does not hold. Its kept axes, as the segments of `at[s] <= k`, are
 * then batch axes, so rows and columns must be left beside them. Comparisons of places become `a
 * >= b` with the sums of the positive terms on either side, as `peel` and `bound_loops` read
 * them. Requires the tensor level. */
#include "ir/op_axes.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "passes/analysis/axis_dependence.h"

/* Of a condition; a deeper one is taken as one that comes from data. */
enum { MAX_DEPTH = 12 };

typedef struct Masker {
    Func *func;
    Memo *forms, *varies, *places; /* of an_index_form, an_varies and is_of_places */
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

/* True if the value is computed from places and sizes alone. */
static bool is_of_places(Memo *known, const Value *value, int depth)
{
    const Op *op = value->def;
    int64_t found;
    if (memo_known(known, value, depth, &found)) {
        return found != 0;
    }
    bool of_places = op && depth < MAX_DEPTH && op->n_regions == 0 &&
                     (op->kind == OP_IOTA || op->kind == OP_CONST || op->kind == OP_SIZE ||
                      op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE));
    for (int i = 0; of_places && i < op->n_operands; i++) {
        of_places = is_of_places(known, op->operands[i], depth + 1);
    }
    return memo_keep(known, value, depth, of_places) != 0;
}

/* True if the condition relates a place of the result to one that is summed. */
static bool relates_places(const Masker *s, const DomainAtom *atom)
{
    unsigned axes = 0;
    if (atom->kind != ATOM_OTHER) {
        axes = form_axes(atom->form);
    } else if (is_of_places(s->places, atom->condition, 0)) {
        unsigned own = an_varies(s->varies, atom->condition);
        for (int i = 0; i < atom->condition->type->rank; i++) {
            axes |= (own >> i & 1) && atom->axes[i] >= 0 ? 1u << atom->axes[i] : 0;
        }
    }
    return (axes & s->domain.sums.summed) && (axes & ~s->domain.sums.summed);
}

/* True if factors with these axes make a matrix product: rows, columns and a depth. */
static bool is_product(const Masker *s, unsigned left, unsigned right)
{
    const SummedProduct *sums = &s->domain.sums;
    unsigned kept = an_all_axes(sums->mul->results[0]->type) & ~sums->summed;
    return (kept & left & ~right) && (kept & right & ~left) && (sums->summed & left & right);
}

static bool mask_sum(Masker *s, Op *sum)
{
    Func *func = s->func;
    const SummedProduct *sums = &s->domain.sums;
    if (!an_reduction_domain(func, s->forms, sum, &s->domain) || s->domain.n_atoms == 0 ||
        !is_product(s, an_varies(s->varies, sums->mul->operands[0]),
                    an_varies(s->varies, sums->mul->operands[1]))) {
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
        unsigned left = factors[0].axes, right = factors[1].axes;
        bool fits[2] = {!(holds.axes & ~left), !(holds.axes & ~right)};
        bool one = relates_places(s, atom) && !(holds.axes & ~(left | right));
        if (!holds.value || (one ? !fits[0] && !fits[1]
                                 : !is_product(s, left | holds.axes, right | holds.axes))) {
            return false;
        }
        if (atom->kind != ATOM_NOT_NEGATIVE && atom->negated) {
            holds.value = build_unary(&r->b, OP_NOT, holds.value);
        }
        for (int side = 0; side < 2; side++) {
            if (one ? side == !fits[0] : true) {
                factors[side] = reindex_masked(r, factors[side], holds);
            }
        }
    }
    unsigned all = an_all_axes(type);
    Value *product = build_binary(&r->b, OP_MUL, reindex_spread(r, factors[0], all),
                                  reindex_spread(r, factors[1], all));
    func_replace_uses(func, term, product);
    return true;
}

/* ---- axes that the condition alone has ---- */

/* The value, its axes moved as the ops from `move` down to it move those of another. */
static Value *moved_alike(Builder *b, const Op *move, const Value *from, Value *value)
{
    if (move->operands[0] != from) {
        value = moved_alike(b, move->operands[0]->def, from, value);
    }
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, move->operands[0], value);
    return clone_op(b, &map, move)->results[0];
}

/* A product to which only its condition adds axes, `sum(k in K if at[s] <= k) a[m, k] * b[k, n]`
 * over s, m and n, has them itself: the conditions of a domain are behind the product. */
static void widen_product(Func *func, Op *select)
{
    const Value *term = select->operands[1];
    const Op *move = term->def;
    while (term->def && op_moves_axes(term->def) && value_only_user(func, term)) {
        term = term->def->operands[0];
    }
    const Op *mul = term->def;
    if (term == select->operands[1] || !mul || mul->kind != OP_MUL ||
        !value_only_user(func, term) || !value_is_const(select->operands[2], 0)) {
        return;
    }
    unsigned all = an_all_axes(term->type);
    if (an_varies(NULL, mul->operands[0]) == all || an_varies(NULL, mul->operands[1]) == all) {
        return; /* no product of matrices */
    }
    Builder b = build_before(func, select);
    Value *left = moved_alike(&b, move, term, mul->operands[0]);
    Value *right = moved_alike(&b, move, term, mul->operands[1]);
    op_set_operand(select, 1, build_binary(&b, OP_MUL, left, right));
}

void pass_mask_factors(Func *func)
{
    if (!block_contains(func->body, OP_SELECT)) {
        return;
    }
    for (Op *op = func->body->first; op; op = op->next) {
        Op *user = op->kind == OP_SELECT ? value_only_user(func, op->results[0]) : NULL;
        if (user && an_is_sum(user)) {
            widen_product(func, op);
        }
    }
    Masker s = {.func = func,
                .forms = an_index_forms_all(func),
                .varies = an_varies_all(func),
                .places = memo_open(func)};
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
    memo_close(s.places);
    func_remove_dead(func);
}
