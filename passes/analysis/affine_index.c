/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/affine_index.h"

#include "ir/build.h"
#include "ir/op_axes.h"
#include "support/int_math.h"

/* Sizes are below 2^40, because tensors fit into memory; a sum of a few sizes times numbers below
 * 2^20 does not overflow. */
static const int64_t MAX_COEF = 1 << 20;
static const int64_t MAX_BASE = (int64_t)1 << 40;

static bool is_small(Dim base)
{
    for (int i = 0; i < base->n_terms; i++) {
        const PolyTerm *term = &base->terms[i];
        int64_t most = term->n ? MAX_COEF : MAX_BASE;
        if (term->coef > most || term->coef < -most) {
            return false;
        }
    }
    return true;
}

/* The form itself if it keeps the limits. */
static const IndexForm *checked(const IndexForm *form)
{
    bool fits = form->base && is_small(form->base);
    for (int i = 0; i < FORM_AXES; i++) {
        fits = fits && form->coef[i] <= MAX_COEF && form->coef[i] >= -MAX_COEF;
    }
    for (int i = 0; i < form->n_parts; i++) {
        fits = fits && form->parts[i].times <= MAX_COEF && form->parts[i].times >= -MAX_COEF;
    }
    return fits ? form : NULL;
}

static IndexForm *new_form(Func *func, Dim base)
{
    IndexForm *form = ARENA_NEW(func->arena, IndexForm);
    *form = (IndexForm){.base = base};
    return form;
}

const IndexForm *form_dim(Func *func, Dim base)
{
    return base ? checked(new_form(func, base)) : NULL;
}

const IndexForm *form_axis(Func *func, int axis)
{
    IndexForm *form = new_form(func, poly_const(func, 0));
    form->coef[axis] = 1;
    return form;
}

/* ---- comparing ---- */

static bool same_part(const IndexPart *a, const IndexPart *b)
{
    return a->by == b->by && a->is_remainder == b->is_remainder && form_equal(a->of, b->of);
}

bool form_equal(const IndexForm *a, const IndexForm *b)
{
    bool same = a->base == b->base && a->n_parts == b->n_parts;
    for (int i = 0; same && i < FORM_AXES; i++) {
        same = a->coef[i] == b->coef[i];
    }
    for (int i = 0; same && i < a->n_parts; i++) {
        same = a->parts[i].times == b->parts[i].times && same_part(&a->parts[i], &b->parts[i]);
    }
    return same;
}

unsigned form_axes(const IndexForm *a)
{
    unsigned axes = 0;
    for (int i = 0; i < FORM_AXES; i++) {
        axes |= a->coef[i] ? 1u << i : 0;
    }
    for (int i = 0; i < a->n_parts; i++) {
        axes |= form_axes(a->parts[i].of);
    }
    return axes;
}

bool form_is_const(const IndexForm *a, int64_t *number)
{
    return a->n_parts == 0 && form_axes(a) == 0 && poly_is_const(a->base, number);
}

int form_as_axis(const IndexForm *a)
{
    int64_t base;
    int found = -1;
    if (a->n_parts || !poly_is_const(a->base, &base) || base) {
        return -1;
    }
    for (int i = 0; i < FORM_AXES; i++) {
        if (a->coef[i] && (a->coef[i] != 1 || found >= 0)) {
            return -1;
        }
        found = a->coef[i] ? i : found;
    }
    return found;
}

/* ---- sums ---- */

static bool add_part(IndexForm *to, const IndexPart *part, int64_t times)
{
    int64_t scaled, sum;
    if (__builtin_mul_overflow(part->times, times, &scaled)) {
        return false;
    }
    for (int i = 0; i < to->n_parts; i++) {
        IndexPart *own = &to->parts[i];
        if (same_part(own, part)) {
            bool fits = !__builtin_add_overflow(own->times, scaled, &sum);
            own->times = sum;
            if (fits && sum == 0) {
                *own = to->parts[--to->n_parts];
            }
            return fits;
        }
    }
    if (to->n_parts == FORM_PARTS || scaled == 0) {
        return scaled == 0;
    }
    to->parts[to->n_parts] = *part;
    to->parts[to->n_parts++].times = scaled;
    return true;
}

const IndexForm *form_sum(Func *func, const IndexForm *a, const IndexForm *b, int64_t times)
{
    if (!a || !b) {
        return NULL;
    }
    IndexForm *sum = ARENA_NEW(func->arena, IndexForm);
    *sum = *a;
    sum->base = poly_add(func, a->base, poly_mul(func, b->base, poly_const(func, times)));
    bool fits = sum->base != NULL;
    for (int i = 0; i < FORM_AXES; i++) {
        int64_t scaled;
        fits = fits && !__builtin_mul_overflow(b->coef[i], times, &scaled) &&
               !__builtin_add_overflow(a->coef[i], scaled, &sum->coef[i]);
    }
    for (int i = 0; i < b->n_parts; i++) {
        fits = fits && add_part(sum, &b->parts[i], times);
    }
    return fits ? checked(sum) : NULL;
}

const IndexForm *form_scaled(Func *func, const IndexForm *a, int64_t times)
{
    return form_sum(func, form_dim(func, poly_const(func, 0)), a, times);
}

/* ---- quotients and remainders ---- */

/* base = by * whole + rest, term by term; the rest of a number is below `by`. */
static void split_base(Func *func, Dim base, int64_t by, Dim *whole, Dim *rest)
{
    *whole = *rest = poly_const(func, 0);
    for (int i = 0; i < base->n_terms; i++) {
        const PolyTerm *term = &base->terms[i];
        int64_t times = term->n == 0 || term->coef % by == 0 ? floor_div(term->coef, by) : 0;
        Dim product = poly_const(func, 1);
        for (int k = 0; k < term->n; k++) {
            product = poly_mul(func, product, poly_var(func, term->vars[k]));
        }
        Dim left = poly_mul(func, product, poly_const(func, term->coef - times * by));
        *whole = poly_add(func, *whole, poly_mul(func, product, poly_const(func, times)));
        *rest = poly_add(func, *rest, left);
    }
}

/* a = by * whole + rest: all that is divisible is in `whole`. */
static bool split_form(Func *func, const IndexForm *a, int64_t by, IndexForm *whole,
                       IndexForm *rest)
{
    *whole = *rest = (IndexForm){0};
    split_base(func, a->base, by, &whole->base, &rest->base);
    for (int i = 0; i < FORM_AXES; i++) {
        bool divides = a->coef[i] % by == 0;
        whole->coef[i] = divides ? a->coef[i] / by : 0;
        rest->coef[i] = divides ? 0 : a->coef[i];
    }
    for (int i = 0; i < a->n_parts; i++) {
        bool divides = a->parts[i].times % by == 0;
        IndexForm *to = divides ? whole : rest;
        to->parts[to->n_parts] = a->parts[i];
        to->parts[to->n_parts++].times /= divides ? by : 1;
    }
    return whole->base && rest->base;
}

/* A number from 0 to below `by`. */
static bool is_below(const IndexForm *rest, int64_t by)
{
    int64_t number;
    return form_is_const(rest, &number) && number >= 0 && number < by;
}

static const IndexForm *divided(Func *func, const IndexForm *a, int64_t by, bool is_remainder)
{
    IndexForm *whole = ARENA_NEW(func->arena, IndexForm), *rest = ARENA_NEW(func->arena, IndexForm);
    if (!a || by <= 0 || by > MAX_COEF || !split_form(func, a, by, whole, rest)) {
        return NULL;
    }
    if (is_below(rest, by)) {
        return checked(is_remainder ? rest : whole);
    }
    IndexForm *result = is_remainder ? new_form(func, poly_const(func, 0)) : whole;
    IndexPart part = {.of = rest, .by = by, .times = 1, .is_remainder = is_remainder};
    return add_part(result, &part, 1) ? checked(result) : NULL;
}

const IndexForm *form_quotient(Func *func, const IndexForm *a, int64_t by)
{
    return divided(func, a, by, false);
}

const IndexForm *form_remainder(Func *func, const IndexForm *a, int64_t by)
{
    return divided(func, a, by, true);
}

const IndexForm *form_substitute(Func *func, const IndexForm *a, const IndexForm *const *by)
{
    const IndexForm *result = a ? form_dim(func, a->base) : NULL;
    for (int i = 0; result && i < FORM_AXES; i++) {
        result = a->coef[i] ? form_sum(func, result, by[i], a->coef[i]) : result;
    }
    for (int i = 0; result && i < a->n_parts; i++) {
        const IndexPart *part = &a->parts[i];
        const IndexForm *of = form_substitute(func, part->of, by);
        result =
            form_sum(func, result, divided(func, of, part->by, part->is_remainder), part->times);
    }
    return result;
}

/* ---- values ---- */

static const IndexForm *form_moved(Func *func, Memo *memo, const Op *op)
{
    const IndexForm *by[FORM_AXES] = {NULL};
    const IndexForm *zero = form_dim(func, poly_const(func, 0));
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        by[i] = axis.role == AXIS_TIED ? form_axis(func, axis.result) : zero;
    }
    return form_substitute(func, an_index_form(func, memo, op->operands[0]), by);
}

static const IndexForm *form_product(Func *func, const IndexForm *a, const IndexForm *b)
{
    int64_t times;
    if (!a || !b) {
        return NULL;
    }
    if (form_is_const(a, &times) || form_is_const(b, &times)) {
        return form_scaled(func, form_is_const(a, &times) ? b : a, times);
    }
    bool still = !form_axes(a) && !form_axes(b) && !a->n_parts && !b->n_parts;
    return still ? form_dim(func, poly_mul(func, a->base, b->base)) : NULL;
}

static const IndexForm *form_computed(Func *func, Memo *memo, const Op *op)
{
    const IndexForm *a = an_index_form(func, memo, op->operands[0]);
    const IndexForm *b = an_index_form(func, memo, op->operands[1]);
    int64_t by;
    switch (op->kind) {
    case OP_ADD: return form_sum(func, a, b, 1);
    case OP_SUB: return form_sum(func, a, b, -1);
    case OP_MUL: return form_product(func, a, b);
    default:
        return a && b && form_is_const(b, &by) ? divided(func, a, by, op->kind == OP_MOD) : NULL;
    }
}

static const IndexForm *form_made(Func *func, Memo *memo, const Op *op)
{
    switch (op->kind) {
    case OP_CONST: return form_dim(func, poly_const(func, op_attr(op, ATTR_VALUE)->i));
    case OP_SIZE: return form_dim(func, op_attr(op, ATTR_DIM)->dims[0]);
    case OP_IOTA:
    case OP_INDEX: return form_axis(func, 0);
    case OP_NEG: return form_scaled(func, an_index_form(func, memo, op->operands[0]), -1);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD: return form_computed(func, memo, op);
    default: return op_moves_axes(op) ? form_moved(func, memo, op) : NULL;
    }
}

const IndexForm *an_index_form(Func *func, Memo *memo, const Value *value)
{
    int64_t found;
    if (!value->def || value->type->kind != TYPE_ARRAY || value->type->dtype != DT_I64) {
        return NULL;
    }
    if (!memo_known(memo, value, 0, &found)) {
        found = memo_keep(memo, value, 0, (intptr_t)form_made(func, memo, value->def));
    }
    return (const IndexForm *)(intptr_t)found;
}

typedef struct Noting {
    Func *func;
    Memo *memo;
} Noting;

static void note(Op *op, void *user)
{
    const Noting *noting = user;
    for (int i = 0; i < op->n_results; i++) {
        an_index_form(noting->func, noting->memo, op->results[i]);
    }
}

Memo *an_index_forms_all(Func *func)
{
    Noting noting = {func, memo_open(func)};
    func_walk(func, note, &noting); /* operands before what is made of them: no deep recursion */
    return noting.memo;
}
