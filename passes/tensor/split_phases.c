/* SPDX-License-Identifier: Apache-2.0 */
/* split_phases: splits sums of products whose terms count where a congruence holds into phases.
 *
 *   y[p] = sum(r in R if (p + pad - r) % s == 0) (x[(p + pad - r) // s] else 0) * w[r]
 *
 *   z[f in s, i in L + T - 1] = sum(t in T) (x[i + t - (T-1)] else 0) * (w[f + s*(T-1-t)] else 0)
 *   y[p] = z[(p + pad) % s, (p + pad) // s] else 0          T = (R + s - 1) // s
 *
 * A transposed convolution asks of each output which inputs reach it, which a condition says.
 * Places with the same remainder, a phase, are reached by the same taps, so each phase is a
 * convolution with every s-th tap, without a condition. Phases are one axis of one result, as all
 * have T taps where w reads 0 behind its end. With a dilation d, as in r*d, and g the greatest
 * common divisor of d and s, only every g-th remainder is reached at all, and the taps of a phase
 * are s/g apart. A sum may have several such conditions, each of a place and a tap of its own:
 * their phases are one axis, the last one's the fastest. Conditions that only exclude what is
 * outside of x are dropped; others stay conditions of a factor. Requires the tensor level and
 * simplify. Changes the order of the sum; a term that does not count may be 0 times a number of the
 * other factor. */
#include "passes/pass.h"
#include "passes/tensor/reindex.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "support/int_math.h"

enum { MAX_SPLITS = MAX_DERIVED, MAX_STRIDE = 64, MAX_PHASES = 4096 };

/* place + first - apart * tap = 0 modulo stride. */
typedef struct Congruence {
    const DomainAtom *atom;
    int place, tap; /* axes of the product: one that is kept, one that is summed */
    int64_t stride, apart;
    Dim first;
    int64_t common;          /* of stride and apart, the greatest common divisor */
    int64_t distance;        /* between taps of one phase */
    int64_t n_phases;        /* that have taps */
    Dim n_taps;              /* T */
    int64_t step;            /* of the window, from tap to tap: apart / common, never negative */
    const IndexForm *origin; /* what is added to a place's quotient */
    Dim extent;              /* of the window's places */
    Dim window;              /* of what it reads */
} Congruence;

typedef struct Split {
    Func *func;
    Memo *forms, *varies;
    ReductionDomain domain;
    Congruence found[MAX_SPLITS];
    int n;
    int phase_axis, axis_of[MAX_RANK]; /* of the product's axes: the new ones */
} Split;

/* ---- which conditions ---- */

/* The inverse of a modulo m; they have no common divisor. */
static int64_t inverse(int64_t a, int64_t m)
{
    for (int64_t i = 0; i < m; i++) {
        if ((a % m + m) % m * i % m == 1 % m) {
            return i;
        }
    }
    return 0;
}

/* The number if the facts of the sizes say it; else -1. */
static int64_t known(Dim dim)
{
    int64_t least = poly_least(dim), divisor = poly_divisor(dim), most = poly_most(dim);
    least = least > 0 && divisor > 1 ? round_up(least, divisor) : least;
    return least == most ? most : -1;
}

/* of // by, rounded up. */
static Dim parts_of(Func *func, Dim of, int64_t by)
{
    int64_t exact = known(of);
    if (exact >= 0) {
        return poly_const(func, ceil_div(exact, by));
    }
    return by == 1
               ? of
               : poly_var(func, func_own_quotient(
                                    func, NULL, poly_add(func, of, poly_const(func, by - 1)), by));
}

/* One place that is kept, as it is or negated, and one tap that is summed. */
static bool read_congruence(const Split *s, const DomainAtom *atom, Congruence *c)
{
    const IndexForm *form = atom->form;
    const SummedProduct *sums = &s->domain.sums;
    Type type = sums->mul->results[0]->type;
    *c = (Congruence){.atom = atom, .place = -1, .tap = -1, .stride = atom->by};
    if (form->n_parts || atom->by > MAX_STRIDE) {
        return false;
    }
    for (int i = 0; i < FORM_AXES; i++) {
        int *axis = sums->summed >> i & 1 ? &c->tap : &c->place;
        if (form->coef[i] && *axis >= 0) {
            return false;
        }
        *axis = form->coef[i] ? i : *axis;
    }
    if (c->place < 0 || c->tap < 0) {
        return false;
    }
    int64_t sign = form->coef[c->place];
    c->first = poly_mul(s->func, form->base, poly_const(s->func, sign));
    c->apart = -form->coef[c->tap] * sign;
    c->common = gcd(c->apart, c->stride);
    c->distance = c->stride / c->common;
    c->n_phases = min_i64(c->distance, max_i64(poly_most(type->dims[c->tap]), 1));
    c->n_taps = parts_of(s->func, type->dims[c->tap], c->distance);
    c->step = (c->apart < 0 ? -c->apart : c->apart) / c->common;
    c->origin = form_dim(s->func, poly_const(s->func, 0));
    return (sign == 1 || sign == -1) && c->first && c->n_taps;
}

static bool find_congruences(Split *s)
{
    int64_t phases = 1;
    for (int i = 0; i < s->domain.n_atoms; i++) {
        const DomainAtom *atom = &s->domain.atoms[i];
        Congruence c;
        if (atom->kind != ATOM_CONGRUENT || s->n == MAX_SPLITS || !read_congruence(s, atom, &c)) {
            continue;
        }
        bool alone = true;
        for (int k = 0; k < s->n; k++) {
            alone = alone && s->found[k].place != c.place && s->found[k].tap != c.tap;
        }
        if (alone) {
            phases *= c.n_phases;
            s->found[s->n++] = c;
        }
    }
    return s->n > 0 && phases <= MAX_PHASES && s->domain.sums.rank + 1 <= MAX_RANK;
}

/* ---- the new axes ---- */

/* The phase of a congruence, as an axis of forms. */
static int derived_axis(int congruence)
{
    return MAX_RANK + congruence;
}

/* Which of its phase's taps a tap is, so that the window's index grows with it. */
static const IndexForm *tap_number(const Split *s, const Congruence *c)
{
    if (s->axis_of[c->tap] < 0) {
        return form_dim(s->func, poly_const(s->func, 0)); /* the only one */
    }
    const IndexForm *tap = form_axis(s->func, s->axis_of[c->tap]);
    Dim last = poly_add(s->func, c->n_taps, poly_const(s->func, -1));
    return c->apart < 0 ? tap : form_sum(s->func, form_dim(s->func, last), tap, -1);
}

/* What the old axes are: place = stride * (i - origin) + apart * phase - first, and
 * tap = phase + distance * number. */
static void place_axes(const Split *s, Reindex *r)
{
    Func *func = s->func;
    for (int i = 0; i < s->domain.sums.rank; i++) {
        r->at[i] = s->axis_of[i] >= 0 ? form_axis(func, s->axis_of[i]) : NULL;
    }
    for (int k = 0; k < s->n; k++) {
        const Congruence *c = &s->found[k];
        const IndexForm *phase = form_axis(func, derived_axis(k));
        const IndexForm *i = form_axis(func, s->axis_of[c->place]);
        const IndexForm *place = form_scaled(func, form_sum(func, i, c->origin, -1), c->stride);
        place = form_sum(func, place, phase, c->apart);
        r->at[c->place] = form_sum(func, place, form_dim(func, c->first), -1);
        r->at[c->tap] = form_sum(func, phase, tap_number(s, c), c->distance);
    }
}

static bool axes_are_placed(const Split *s, const Reindex *r)
{
    for (int i = 0; i < s->domain.sums.rank; i++) {
        if (!r->at[i]) {
            return false;
        }
    }
    return true;
}

/* ---- the window that each place reads ---- */

static const IndexForm *form_of_index(const Split *s, const Reindex *r, const Value *index,
                                      const int *axes)
{
    const IndexForm *by[FORM_AXES] = {NULL};
    for (int i = 0; i < index->type->rank; i++) {
        by[i] = axes[i] >= 0 ? r->at[axes[i]] : form_dim(s->func, poly_const(s->func, 0));
    }
    return form_substitute(s->func, an_index_form(s->func, s->forms, index), by);
}

/* The window's index is i + step * tap + base, and what is outside reads 0: i counts from the first
 * place whose window reaches the first element to the last one's. */
static bool take_window(Split *s, Congruence *c, const IndexForm *index, Dim extent)
{
    Func *func = s->func;
    int place = s->axis_of[c->place], tap = s->axis_of[c->tap];
    unsigned axes = 1u << place | (tap >= 0 ? 1u << tap : 0);
    bool fits = index && !index->n_parts && index->coef[place] == 1 &&
                (tap < 0 || index->coef[tap] == c->step) && (form_axes(index) & ~axes) == 0;
    if (!fits) {
        return false;
    }
    Dim before =
        poly_mul(func, poly_add(func, c->n_taps, poly_const(func, -1)), poly_const(func, c->step));
    Dim more = poly_mul(func, c->n_taps, poly_const(func, c->step));
    c->extent = poly_add(func, extent, before);
    if (c->extent && poly_least(c->extent) < 0) { /* nothing is known of the number of taps */
        c->extent = poly_add(func, extent, more);
    }
    c->origin = form_dim(func, poly_add(func, index->base, before));
    return c->extent && c->origin;
}

static bool find_window(Split *s, const Reindex *r, Congruence *c)
{
    for (int side = 0; side < 2; side++) {
        int axes[MAX_RANK];
        const Op *op = domain_factor_read(&s->domain, s->domain.sums.mul->operands[side], axes);
        bool zeros = op && op->kind == OP_GATHER && gather_reads_zeros(op);
        for (int i = 0; zeros && i < op->operands[0]->type->rank; i++) {
            const Value *index = op->operands[1 + i];
            if (index->type->rank && take_window(s, c, form_of_index(s, r, index, axes),
                                                 op->operands[0]->type->dims[i])) {
                c->window = op->operands[0]->type->dims[i];
                return true;
            }
        }
    }
    return false;
}

/* ---- the conditions that are left ---- */

/* True if a negative form implies an index of a window outside of what it reads, where terms are
 * zeros. */
static bool excludes_outside(const Split *s, const Congruence *c, const IndexForm *form)
{
    int place = s->axis_of[c->place], tap = s->axis_of[c->tap];
    unsigned axes = 1u << place | (tap >= 0 ? 1u << tap : 0);
    int64_t times = form->coef[place];
    Dim before = poly_mul(s->func, poly_add(s->func, c->n_taps, poly_const(s->func, -1)),
                          poly_const(s->func, c->step));
    if (form->n_parts || !times || (form_axes(form) & ~axes) ||
        (tap >= 0 && form->coef[tap] != times * c->step)) {
        return false;
    }
    /* form = times * index + rest */
    Dim rest = poly_add(s->func, form->base, poly_mul(s->func, before, poly_const(s->func, times)));
    if (rest && times < 0) { /* from the last element on */
        Dim last = poly_add(s->func, c->window, poly_const(s->func, -1));
        rest = poly_add(s->func, rest, poly_mul(s->func, last, poly_const(s->func, times)));
    }
    return rest && poly_least(rest) >= 0;
}

static bool is_implied(const Split *s, const Reindex *r, const DomainAtom *atom)
{
    const IndexForm *form =
        atom->kind == ATOM_NOT_NEGATIVE ? form_substitute(s->func, atom->form, r->at) : NULL;
    bool implied = form && !form->n_parts && !form_axes(form) && poly_least(form->base) >= 0;
    for (int i = 0; form && i < s->n; i++) {
        implied = implied || excludes_outside(s, &s->found[i], form);
    }
    return implied;
}

static bool is_split(const Split *s, const DomainAtom *atom)
{
    for (int i = 0; i < s->n; i++) {
        if (s->found[i].atom == atom) {
            return true;
        }
    }
    return false;
}

/* True if a factor reads 0 for taps behind the last one. */
static bool reads_zero_behind(const Split *s, const Congruence *c)
{
    Dim taps = s->domain.sums.mul->results[0]->type->dims[c->tap];
    int64_t all = known(taps);
    bool zeros = all >= 0 && (c->n_phases == all || all % c->distance == 0);
    for (int side = 0; side < 2 && !zeros; side++) {
        int axes[MAX_RANK];
        const Op *op = domain_factor_read(&s->domain, s->domain.sums.mul->operands[side], axes);
        for (int i = 0; op && op->kind == OP_LOAD && i < op->results[0]->type->rank; i++) {
            zeros = zeros || axes[i] == c->tap;
        }
        bool gathers = op && op->kind == OP_GATHER && gather_reads_zeros(op);
        for (int i = 0; gathers && i < op->operands[0]->type->rank; i++) {
            const Value *index = op->operands[1 + i];
            const IndexForm *form =
                index->type->rank ? an_index_form(s->func, s->forms, index) : NULL;
            unsigned own = form ? form_axes(form) : 0;
            int axis = own && !(own & (own - 1)) ? __builtin_ctz(own) : -1;
            if (axis < 0 || axis >= index->type->rank || axes[axis] != c->tap || form->n_parts) {
                continue;
            }
            Dim extent = op->operands[0]->type->dims[i];
            Dim behind = form->coef[axis] == 1 ? poly_add(s->func, taps, form->base) : NULL;
            Dim left = behind ? poly_add(s->func, behind,
                                         poly_mul(s->func, extent, poly_const(s->func, -1)))
                              : NULL;
            if (form->coef[axis] == -1) {
                left =
                    poly_add(s->func, taps, poly_mul(s->func, form->base, poly_const(s->func, -1)));
                left = left ? poly_add(s->func, left, poly_const(s->func, -1)) : NULL;
            }
            zeros = zeros || (left && poly_least(left) >= 0);
        }
    }
    return zeros;
}

/* The conditions that are left, on the factor that has more of their axes. */
static bool add_conditions(const Split *s, Reindex *r, Spread *factors)
{
    for (int i = 0; i < s->domain.n_atoms + s->n; i++) {
        Spread holds;
        if (i < s->domain.n_atoms) {
            const DomainAtom *atom = &s->domain.atoms[i];
            if (is_split(s, atom) || is_implied(s, r, atom)) {
                continue;
            }
            holds = reindex_value(r, atom->condition, atom->axes);
            if (holds.value && atom->negated) {
                holds.value = build_unary(&r->b, OP_NOT, holds.value);
            }
        } else {
            const Congruence *c = &s->found[i - s->domain.n_atoms];
            if (reads_zero_behind(s, c)) {
                continue;
            }
            holds = reindex_form(r, r->at[c->tap]);
            Spread end = {build_size(&r->b, s->domain.sums.mul->results[0]->type->dims[c->tap]), 0};
            holds.value = build_cmp(&r->b, "lt", holds.value, reindex_spread(r, end, holds.axes));
        }
        if (!holds.value) {
            return false;
        }
        int more = __builtin_popcount(holds.axes & factors[1].axes) >
                   __builtin_popcount(holds.axes & factors[0].axes);
        factors[more] = reindex_masked(r, factors[more], holds);
    }
    return true;
}

/* ---- the result ---- */

/* z: the sums of all phases, over the phases and the axes that are kept. */
static Value *sum_phases(const Split *s, Reindex *r)
{
    const SummedProduct *sums = &s->domain.sums;
    Spread factors[2];
    int axes[MAX_RANK];
    for (int i = 0; i < sums->rank; i++) {
        axes[i] = i;
    }
    for (int side = 0; side < 2; side++) {
        factors[side] = reindex_value(r, sums->mul->operands[side], axes);
        if (!factors[side].value) {
            return NULL;
        }
    }
    if (!add_conditions(s, r, factors)) {
        return NULL;
    }
    unsigned all = (1u << r->rank) - 1;
    Value *left = reindex_spread(r, factors[0], all), *right = reindex_spread(r, factors[1], all);
    Value *sum = build_binary(&r->b, OP_MUL, left, right);
    for (int i = sums->rank; i-- > 0;) {
        if ((sums->summed >> i & 1) && s->axis_of[i] >= 0) {
            sum =
                build_squeeze(&r->b, build_reduce(&r->b, "sum", sum, s->axis_of[i]), s->axis_of[i]);
        }
    }
    return sum;
}

/* Of a place of the result: its phase's number among those of the congruence. */
static const IndexForm *phase_of(Func *func, const Congruence *c, const IndexForm *from)
{
    const IndexForm *phase = form_quotient(func, form_remainder(func, from, c->stride), c->common);
    int64_t times = inverse(c->apart / c->common, c->distance);
    return times == 1 ? phase : form_remainder(func, form_scaled(func, phase, times), c->distance);
}

/* Whether the place is in a phase that has taps; true for all: `holds` stays as it is. */
static Spread add_validity(Reindex *r, const Congruence *c, const IndexForm *from, Spread holds)
{
    Func *func = r->b.func;
    const IndexForm *forms[2] = {c->common > 1 ? form_remainder(func, from, c->common) : NULL,
                                 c->n_phases < c->distance ? phase_of(func, c, from) : NULL};
    for (int i = 0; i < 2; i++) {
        if (forms[i]) {
            Spread number = reindex_form(r, forms[i]);
            Value *than = build_int(&r->b, number.value->type, i ? c->n_phases : 0);
            Spread valid = {build_cmp(&r->b, i ? "lt" : "eq", number.value, than), number.axes};
            holds = holds.value ? reindex_binary(r, OP_AND, holds, valid) : valid;
        }
    }
    return holds;
}

/* y: each place's element of z, over the product's axes that are kept. */
static Value *read_phases(const Split *s, Builder b, Value *z)
{
    Func *func = s->func;
    const SummedProduct *sums = &s->domain.sums;
    Type type = sums->mul->results[0]->type;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = b, .rank = sums->rank};
    for (int i = 0; i < sums->rank; i++) {
        r->dims[i] = type->dims[i];
    }
    Spread at[MAX_RANK], phase = {NULL, 0}, holds = {NULL, 0};
    int64_t guards[MAX_RANK] = {0};
    for (int i = 0; i < sums->rank; i++) {
        if (!(sums->summed >> i & 1)) {
            at[s->axis_of[i]] = reindex_form(r, form_axis(func, i));
        }
    }
    for (int k = 0; k < s->n; k++) {
        const Congruence *c = &s->found[k];
        const IndexForm *from = form_axis(func, c->place);
        from = form_sum(func, from, form_dim(func, c->first), 1);
        const IndexForm *own = from ? phase_of(func, c, from) : NULL;
        const IndexForm *first = c->apart == 1 ? from : form_sum(func, from, own, -c->apart);
        const IndexForm *i = form_sum(func, form_quotient(func, first, c->stride), c->origin, 1);
        if (!own || !i) {
            return NULL;
        }
        at[s->axis_of[c->place]] = reindex_form(r, i);
        guards[s->axis_of[c->place]] = 1;
        if (phase.value) {
            Value *times = build_int(&r->b, phase.value->type, c->n_phases);
            phase.value = build_binary(&r->b, OP_MUL, phase.value, times);
        }
        Spread number = reindex_form(r, own);
        phase = phase.value ? reindex_binary(r, OP_ADD, phase, number) : number;
        holds = add_validity(r, c, from, holds);
    }
    if (s->phase_axis >= 0) {
        at[s->phase_axis] = phase;
        guards[s->phase_axis] = holds.value != NULL;
    }
    Value *indices[MAX_RANK];
    unsigned kept = an_all_axes(type) & ~sums->summed;
    for (int i = 0; i < z->type->rank; i++) {
        indices[i] = reindex_spread(r, at[i], kept);
    }
    Value *y = build_gather(&r->b, z, indices);
    op_set_num(func, y->def, ATTR_VALUE, 0, 0);
    op_set_ints(func, y->def, ATTR_GUARD, z->type->rank, guards);
    return holds.value ? reindex_masked(r, (Spread){y, kept}, holds).value : y;
}

/* ---- the pass ---- */

/* The phases' axis first, then the product's, but for taps of which a phase has one. */
static void number_axes(Split *s, Reindex *r)
{
    Type type = s->domain.sums.mul->results[0]->type;
    int64_t phases = 1;
    for (int k = 0; k < s->n; k++) {
        phases *= s->found[k].n_phases;
    }
    s->phase_axis = phases > 1 ? 0 : -1;
    r->rank = phases > 1;
    r->dims[0] = poly_const(s->func, phases);
    for (int i = 0; i < type->rank; i++) {
        Dim dim = type->dims[i];
        for (int k = 0; k < s->n; k++) {
            dim = s->found[k].tap == i ? s->found[k].n_taps : dim;
        }
        bool gone = dim != type->dims[i] && known(dim) == 1;
        s->axis_of[i] = gone ? -1 : r->rank;
        r->dims[r->rank] = gone ? r->dims[r->rank] : dim;
        r->rank += !gone;
        r->old_dims[i] = type->dims[i];
    }
    r->old_rank = type->rank;
}

/* The phases of each congruence: digits of the phases' axis. */
static void derive_phases(const Split *s, Reindex *r)
{
    const IndexForm *rest = s->phase_axis < 0 ? form_dim(s->func, poly_const(s->func, 0))
                                              : form_axis(s->func, s->phase_axis);
    for (int k = s->n; k-- > 0;) {
        const IndexForm *own = k ? form_remainder(s->func, rest, s->found[k].n_phases) : rest;
        rest = form_quotient(s->func, rest, s->found[k].n_phases);
        r->derived[k] = reindex_form(r, own);
    }
}

static bool split_sum(Split *s, Op *sum)
{
    Func *func = s->func;
    const SummedProduct *sums = &s->domain.sums;
    s->n = 0;
    if (!an_reduction_domain(func, s->forms, sum, &s->domain) || !find_congruences(s) ||
        sums->rank - __builtin_popcount(sums->summed) >= TENSOR_RANK) {
        return false;
    }
    Builder b = build_before(func, sum);
    b.span = sum->span;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = b, .forms = s->forms, .varies = s->varies, .domain = &s->domain};
    number_axes(s, r);
    derive_phases(s, r);
    place_axes(s, r);
    for (int k = 0; k < s->n; k++) {
        if (!axes_are_placed(s, r) || !find_window(s, r, &s->found[k])) {
            return false;
        }
        r->dims[s->axis_of[s->found[k].place]] = s->found[k].extent;
    }
    place_axes(s, r);
    Value *z = axes_are_placed(s, r) ? sum_phases(s, r) : NULL;
    Value *y = z ? read_phases(s, b, z) : NULL;
    if (!y) {
        return false;
    }
    for (int i = 0; i < sums->rank; i++) {
        bool stays = (sums->summed >> i & 1) && !(sums->dropped >> i & 1);
        int at = __builtin_popcount(~sums->dropped & ((1u << i) - 1));
        y = stays ? build_expand(&b, y, at) : y;
    }
    y->name = sum->results[0]->name;
    func_replace_uses(func, sum->results[0], y);
    return true;
}

void pass_split_phases(Func *func)
{
    if (!block_contains(func->body, OP_REDUCE) || !block_contains(func->body, OP_SELECT)) {
        return;
    }
    Split s = {func, an_index_forms_all(func), an_varies_all(func), .n = 0};
    bool changed = false;
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        changed = split_sum(&s, op) || changed;
    }
    memo_close(s.forms);
    memo_close(s.varies);
    func_remove_dead(func);
    if (changed) {
        pass_simplify(func);
    }
}
