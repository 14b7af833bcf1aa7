/* SPDX-License-Identifier: Apache-2.0 */
/* solve_congruences: turns a congruence that the terms of a reduction must satisfy into a larger
 * step of the reduced axis.
 *
 *   y[p] = sum(r in R if (p + a - d*r) % s == 0) f(p, r)
 *
 *   y[p] = sum(t in T if r < R and (p + a) % g == 0) f(p, r)      g = gcd(d, s), T = ceil(R*g / s)
 *          with r = (p + a) // g * (d // g)^-1 % (s // g) + s // g * t
 *
 * A transposed convolution whose products are made before (`z[o, r, h] = w[o, r, :] @ x[:, h]`), an
 * upsampled window and a polyphase filter ask of each tap whether it reaches a place. For one place
 * the taps that do are a residue class, whose least member is computed by an inverse modulo the
 * stride; the others follow at a fixed distance. With a stride of 5 and 3 taps that is one term
 * instead of three, and instead of nine in two dimensions. Any affine expression of the other axes
 * may take the place of p, and any function that reduces the place of the sum. Sums of products are
 * left to split_phases, which makes convolutions of them. A residue that is the same for all places
 * is left alone: it saves no memory traffic, and vector loads would become single ones.
 *
 * Requires the tensor level and simplify. Changes the order of the reduction. */
#include "passes/pass.h"
#include "passes/tensor/congruence.h"
#include "passes/tensor/reindex.h"

#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/reduce_identity.h"
#include "support/int_math.h"

enum { MAX_SOLVED = 4 };

/* factor * tap + rest = 0 modulo `modulus`. */
typedef struct Congruence {
    const Constraint *where;
    const Axis *tap;
    int64_t factor, modulus;
    int64_t common; /* of factor and modulus, the greatest common divisor: rest is a multiple */
    int64_t step;   /* between the taps that satisfy it: modulus / common */
    const Affine *rest;
    Dim n_terms;          /* T */
    const Axis *t;        /* NULL: there is one term */
    const Affine *solved; /* what the tap is */
} Congruence;

typedef struct Solve {
    Func *func;
    Computations *all;
    AxisSpace *space; /* of `all` */
    Memo *varies;
    const Compute *fold;
    TermAxes axes; /* of it */
    Congruence found[MAX_SOLVED];
    int n;
    const Axis *old[MAX_RANK];   /* the term's axes … */
    const Affine *now[MAX_RANK]; /* … over those that are left */
} Solve;

/* ---- which conditions ---- */

/* The rest depends on an axis of the result, and on no tap that is solved for. */
static bool is_residue_of_places(const Solve *s, const Affine *rest)
{
    for (int i = 0; i < s->n; i++) {
        if (map_depends_on(rest, s->found[i].tap)) {
            return false;
        }
    }
    return compute_axes_of(s->fold, rest) & s->axes.kept;
}

/* No condition that is solved already has the tap in its rest. */
static bool is_free(const Solve *s, const Axis *tap)
{
    for (int i = 0; i < s->n; i++) {
        if (s->found[i].tap == tap || map_depends_on(s->found[i].rest, tap)) {
            return false;
        }
    }
    return true;
}

/* Solves the condition for one of its taps: the one that leaves the fewest terms. */
static bool read_congruence(const Solve *s, const Constraint *where, Congruence *best)
{
    const Affine *of = where->of;
    int64_t modulus;
    *best = (Congruence){.step = 1};
    if (where->kind != WHERE_CONGRUENT || !map_is_sum(of) ||
        !poly_is_const(where->mod, &modulus) || modulus > INT32_MAX) {
        return false;
    }
    for (int i = 0; i < of->n; i++) {
        const Affine *tap = map_axis(s->space, of->terms[i].axis);
        Congruence c = {.where = where, .tap = of->terms[i].axis, .modulus = modulus};
        bool summed = compute_axes_of(s->fold, tap) & s->axes.summed;
        if (!summed || !is_free(s, c.tap) || !poly_is_const(of->terms[i].coef, &c.factor)) {
            continue;
        }
        c.factor %= modulus; /* other multiples of it mean the same */
        c.common = gcd(c.factor, modulus);
        c.step = modulus / c.common;
        c.rest = map_subtract(s->space, of, map_scale(s->space, tap, of->terms[i].coef));
        if (c.step > best->step && c.rest && is_residue_of_places(s, c.rest)) {
            *best = c;
        }
    }
    if (best->step == 1) {
        return false;
    }
    best->n_terms = congruence_terms(s->func, best->tap->extent, best->step);
    return best->n_terms;
}

/* ---- the new axes ---- */

/* tap = -rest // common * (factor // common)^-1 % step + step * t */
static const Affine *solve_for_tap(Solve *s, Congruence *c)
{
    AxisSpace *space = s->space;
    int64_t times = congruence_inverse(-(c->factor / c->common), c->step);
    const Affine *reduced = map_divide(space, c->rest, poly_const(s->func, c->common));
    const Affine *first = map_modulo(space, map_scale(space, reduced, poly_const(s->func, times)),
                                     poly_const(s->func, c->step));
    bool one = congruence_number(c->n_terms) == 1;
    c->t = one ? NULL : axis_new(space, c->n_terms, NULL);
    const Affine *more = one ? map_number(space, 0)
                             : map_scale(space, map_axis(space, c->t),
                                         poly_const(s->func, c->step));
    return map_add(space, first, more);
}

/* What the old axes are over those that are left. False: there is nothing to solve. */
static bool replace_taps(Solve *s)
{
    const Instance *term = &s->fold->term;
    s->n = 0;
    for (size_t i = 0; i < s->fold->where.n && s->n < MAX_SOLVED; i++) {
        Congruence c;
        if (read_congruence(s, &s->fold->where.items[i], &c)) {
            s->found[s->n++] = c;
        }
    }
    for (int i = 0; i < term->value->type->rank; i++) {
        s->old[i] = map_as_axis(term->at[i]);
        s->now[i] = term->at[i];
    }
    bool solved = s->n > 0;
    for (int k = 0; k < s->n; k++) {
        Congruence *c = &s->found[k];
        c->solved = solve_for_tap(s, c);
        s->now[compute_term_axis(s->fold, c->tap)] = c->solved;
        solved = solved && c->solved;
    }
    return solved;
}

static Instance instance_now(const Solve *s, const Instance *old)
{
    int rank = s->fold->term.value->type->rank;
    Instance now = {.value = old->value};
    for (int i = 0; i < old->value->type->rank; i++) {
        now.at[i] = map_substitute(s->space, old->at[i], rank, s->old, s->now);
    }
    return now;
}

static bool is_solved(const Solve *s, const Constraint *where)
{
    for (int i = 0; i < s->n; i++) {
        if (s->found[i].where == where) {
            return true;
        }
    }
    return false;
}

/* ---- the result ---- */

/* The axes of the term in their order, with what is left of a tap in its place. */
static void order_axes(const Solve *s, Reindex *r)
{
    int rank = s->fold->term.value->type->rank;
    r->rank = 0;
    for (int i = 0; i < rank; i++) {
        const Axis *axis = s->old[i];
        for (int k = 0; k < s->n; k++) {
            axis = s->found[k].tap == s->old[i] ? s->found[k].t : axis;
        }
        if (axis) {
            r->axes[r->rank] = axis;
            r->dims[r->rank++] = axis->extent;
        }
    }
}

/* The number compares with the bound as `pred` says, and what held before does. */
static Spread also(Reindex *r, Spread holds, const char *pred, const Affine *number, Dim bound)
{
    Spread left = reindex_map(r, number);
    if (!left.value) {
        return left;
    }
    Value *right = reindex_spread(r, (Spread){build_size(&r->b, bound), 0}, left.axes);
    left.value = build_cmp(&r->b, pred, left.value, right);
    return holds.value ? reindex_binary(r, OP_AND, holds, left) : left;
}

/* The conditions that are left, into `holds`, whose value stays NULL if there is none. False: one
 * could not be made. */
static bool collect_conditions(const Solve *s, Reindex *r, Spread *holds)
{
    Dim zero = poly_const(s->func, 0);
    *holds = (Spread){NULL, 0};
    for (size_t i = 0; i < s->fold->where.n; i++) {
        const Constraint *where = &s->fold->where.items[i];
        if (is_solved(s, where)) {
            continue;
        }
        Instance old = instance_now(s, &where->holds);
        Spread made = reindex_condition(r, where, &old);
        *holds = holds->value && made.value ? reindex_binary(r, OP_AND, *holds, made) : made;
        if (!holds->value) {
            return false;
        }
    }
    for (int k = 0; k < s->n; k++) {
        const Congruence *c = &s->found[k];
        int64_t taps = congruence_number(c->tap->extent);
        if (taps < 0 || taps % c->step) {
            *holds = also(r, *holds, "lt", c->solved, c->tap->extent);
            if (!holds->value) {
                return false;
            }
        }
        if (c->common > 1) {
            Dim common = poly_const(s->func, c->common);
            *holds = also(r, *holds, "eq", map_modulo(s->space, c->rest, common), zero);
            if (!holds->value) {
                return false;
            }
        }
    }
    return true;
}

/* The reduction over what is left of the taps, and over the other axes as before. */
static Value *reduce_terms(const Solve *s, Reindex *r)
{
    Instance now = instance_now(s, &s->fold->term);
    Spread term = reindex_instance(r, &now), holds;
    if (!term.value || !collect_conditions(s, r, &holds)) {
        return NULL;
    }
    Value *value = reindex_spread(r, term, (1u << r->rank) - 1);
    if (holds.value) {
        Value *condition = reindex_spread(r, holds, (1u << r->rank) - 1);
        Value *neutral = reduce_neutral_tile(&r->b, s->fold->fn, value->type);
        value = build_select(&r->b, condition, value, neutral);
    }
    const Axis *kept[MAX_RANK];
    int n_kept = 0;
    for (int i = r->rank; i-- > 0;) {
        bool keeps = compute_axes_of(s->fold, map_axis(s->space, r->axes[i])) & s->axes.kept;
        if (!keeps) {
            value = build_squeeze(&r->b, build_reduce(&r->b, s->fold->fn, value, i), i);
        }
    }
    for (int i = 0; i < r->rank; i++) {
        bool keeps = compute_axes_of(s->fold, map_axis(s->space, r->axes[i])) & s->axes.kept;
        kept[n_kept] = r->axes[i];
        n_kept += keeps;
    }
    return reindex_restored(&r->b, s->fold, value, kept);
}

/* ---- the pass ---- */

static bool solve_reduction(Solve *s, const Op *op)
{
    if (op->kind != OP_REDUCE || !value_has_uses(s->func, op->results[0])) {
        return false;
    }
    s->fold = computations_of(s->all, op);
    if (s->fold->is_product || s->fold->where.n == 0 || !compute_term_axes(s->fold, &s->axes) ||
        !replace_taps(s)) {
        return false;
    }
    Builder b = build_before(s->func, (Op *)op);
    b.span = op->span;
    Reindex *r = ARENA_NEW(s->func->arena, Reindex);
    *r = (Reindex){.b = b, .all = s->all, .varies = s->varies, .reduces = true};
    order_axes(s, r);
    Value *result = reduce_terms(s, r);
    if (!result) {
        return false;
    }
    result->name = op->results[0]->name;
    func_replace_uses(s->func, op->results[0], result);
    return true;
}

void pass_solve_congruences(Func *func)
{
    if (!block_contains(func->body, OP_REDUCE) || !block_contains(func->body, OP_SELECT)) {
        return;
    }
    Solve s = {.func = func, .all = computations_open(func), .varies = an_varies_all(func)};
    s.space = &s.all->space;
    bool changed = false;
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        changed = solve_reduction(&s, op) || changed;
    }
    computations_close(s.all);
    memo_close(s.varies);
    func_remove_dead(func);
    if (changed) {
        pass_simplify(func);
    }
}
