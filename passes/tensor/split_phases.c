/* SPDX-License-Identifier: Apache-2.0 */
/* split_phases: splits sums of products whose terms are subject to a congruence (transposed
 * convolutions) into phases.
 *
 *   y[p] = sum(r in R if (p + pad - r) % s == 0) (x[(p + pad - r) // s] else 0) * w[r]
 *
 *   z[f in s, i in L + T - 1] = sum(t in T) (x[i + t - (T-1)] else 0) * (w[f + s*(T-1-t)] else 0)
 *   y[p] = z[(p + pad) % s, (p + pad) // s] else 0          T = (R + s - 1) // s
 *
 * In a transposed convolution, a congruence decides which inputs contribute to an output position.
 * The output positions with the same remainder are called a phase; the same taps contribute to all
 * of them, so each phase is a convolution with every s-th tap and without a condition. Phases are
 * one axis of one result, as all have T taps where w reads 0 behind its end. With a dilation d, as
 * in r*d, and g the greatest common divisor of d and s, only every g-th remainder is reached at
 * all, and the taps of a phase have the distance s/g. A sum may have several such conditions, each
 * of a place and a tap of its own: their phases are one axis, the last one's the fastest.
 * Conditions that only exclude what is outside of x are dropped; others stay conditions of a
 * factor. Requires the tensor level and simplify. Changes the order of the sum; a term that does
 * not count may be 0 times a number of the other factor. */
#include "passes/pass.h"
#include "passes/tensor/congruence.h"
#include "passes/tensor/reindex.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "support/int_math.h"

enum { MAX_SPLITS = 4, MAX_STRIDE = 64, MAX_PHASES = 4096 };

/* place + first - dilation * tap = 0 modulo stride. */
typedef struct Congruence {
    const Constraint *where;
    const Axis *place, *tap; /* of the sum: one that is kept, one that is summed */
    int64_t stride, dilation;
    Dim first;
    int64_t common;       /* of stride and dilation, the greatest common divisor */
    int64_t distance;     /* between taps of one phase */
    int64_t n_phases;     /* that have taps */
    Dim n_taps;           /* T */
    int64_t step;         /* of the window, from tap to tap: dilation / common, never negative */
    const Affine *phase;  /* its number among these */
    const Axis *i, *t;    /* of the phases: a place, and a tap; t NULL: each has one tap */
    const Affine *origin; /* what is added to a place's quotient */
    Dim extent;           /* of the window's places */
    Dim window;           /* of what it reads */
} Congruence;

typedef struct Split {
    Func *func;
    Computations *all;
    AxisSpace *space; /* of `all` */
    Memo *varies;
    const Compute *sum;
    TermAxes axes; /* of it */
    Congruence found[MAX_SPLITS];
    int n;
    const Axis *phases;          /* of all congruences; NULL: there is one phase */
    const Axis *old[MAX_RANK];   /* the term's axes … */
    const Affine *now[MAX_RANK]; /* … over those of the phases */
} Split;

/* ---- which conditions ---- */

/* One place that is kept, as it is or negated, and one tap that is summed. */
static bool read_congruence(const Split *s, const Constraint *where, Congruence *c)
{
    const Affine *of = where->of;
    int64_t sign = 0, tap = 0;
    *c = (Congruence){.where = where};
    if (of->n != 2 || !poly_is_const(where->mod, &c->stride) || c->stride > MAX_STRIDE) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        unsigned axis = compute_axes_of(s->sum, map_axis(s->space, of->terms[i].axis));
        bool summed = axis & s->axes.summed;
        *(summed ? &c->tap : &c->place) = of->terms[i].axis;
        if (!map_is_sum(of) || !poly_is_const(of->terms[i].coef, summed ? &tap : &sign)) {
            return false;
        }
    }
    if (!c->place || !c->tap || (sign != 1 && sign != -1)) {
        return false;
    }
    c->first = poly_mul(s->func, of->base, poly_const(s->func, sign));
    c->dilation = -tap * sign;
    c->common = gcd(c->dilation, c->stride);
    c->distance = c->stride / c->common;
    c->n_phases = min_i64(c->distance, max_i64(poly_most(c->tap->extent), 1));
    c->n_taps = congruence_terms(s->func, c->tap->extent, c->distance);
    c->step = (c->dilation < 0 ? -c->dilation : c->dilation) / c->common;
    c->origin = map_number(s->space, 0);
    return c->first && c->n_taps;
}

static bool find_congruences(Split *s)
{
    int64_t phases = 1;
    s->n = 0;
    for (size_t i = 0; i < s->sum->where.n; i++) {
        const Constraint *where = &s->sum->where.items[i];
        Congruence c;
        if (where->kind != WHERE_CONGRUENT || s->n == MAX_SPLITS ||
            !read_congruence(s, where, &c)) {
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
    return s->n > 0 && phases <= MAX_PHASES && s->sum->term.value->type->rank + 1 <= MAX_RANK;
}

/* ---- the new axes ---- */

/* The axis of all phases, whose digits are those of each congruence, the last one's the fastest. */
static void number_phases(Split *s)
{
    int64_t phases = 1;
    for (int k = 0; k < s->n; k++) {
        phases *= s->found[k].n_phases;
    }
    Dim extent = poly_const(s->func, phases);
    s->phases = phases > 1 ? axis_new(s->space, extent, NULL) : NULL;
    const Affine *rest = phases > 1 ? map_axis(s->space, s->phases) : map_number(s->space, 0);
    for (int k = s->n; k-- > 0;) {
        Dim own = poly_const(s->func, s->found[k].n_phases);
        s->found[k].phase = map_modulo(s->space, rest, own);
        rest = map_divide(s->space, rest, own);
    }
}

/* Which of its phase's taps a tap is, so that the window's index grows with it. */
static const Affine *tap_number(const Split *s, const Congruence *c)
{
    if (!c->t) {
        return map_number(s->space, 0); /* the only one */
    }
    const Affine *tap = map_axis(s->space, c->t);
    Dim last = poly_add(s->func, c->n_taps, poly_const(s->func, -1));
    return c->dilation < 0 ? tap : map_subtract(s->space, map_dim(s->space, last), tap);
}

/* What the old axes are: place = stride * (i - origin) + dilation * phase - first, and
 * tap = phase + distance * number. False: it cannot be said. */
static bool place_axes(Split *s)
{
    AxisSpace *space = s->space;
    int rank = s->sum->term.value->type->rank;
    for (int i = 0; i < rank; i++) {
        s->old[i] = map_as_axis(s->sum->term.at[i]);
        s->now[i] = s->sum->term.at[i];
    }
    for (int k = 0; k < s->n; k++) {
        Congruence *c = &s->found[k];
        Dim stride = poly_const(s->func, c->stride), dilation = poly_const(s->func, c->dilation);
        bool one_tap = c->n_taps != c->tap->extent && congruence_number(c->n_taps) == 1;
        c->i = axis_new(space, c->extent, NULL);
        c->t = one_tap ? NULL : axis_new(space, c->n_taps, NULL);
        const Affine *i = map_subtract(space, map_axis(space, c->i), c->origin);
        const Affine *place =
            map_subtract(space, map_scale(space, i, stride), map_dim(space, c->first));
        const Affine *tap = map_scale(space, tap_number(s, c), poly_const(s->func, c->distance));
        s->now[compute_term_axis(s->sum, c->place)] =
            map_add(space, place, map_scale(space, c->phase, dilation));
        s->now[compute_term_axis(s->sum, c->tap)] = map_add(space, c->phase, tap);
    }
    bool placed = true;
    for (int i = 0; i < rank; i++) {
        placed = placed && s->now[i];
    }
    return placed;
}

/* A map, or elements, over the sum's axes: over those of the phases. */
static const Affine *map_now(const Split *s, const Affine *map)
{
    return map_substitute(s->space, map, s->sum->term.value->type->rank, s->old, s->now);
}

static Instance instance_now(const Split *s, const Instance *old)
{
    Instance now = {.value = old->value};
    for (int i = 0; i < old->value->type->rank; i++) {
        now.at[i] = map_now(s, old->at[i]);
    }
    return now;
}

/* ---- the window that each place reads ---- */

/* of = times * (place + step * tap) + base of the window, with a constant number of times; false:
 * it is another map. */
static bool read_window(const Congruence *c, const Affine *of, int64_t *times)
{
    int64_t tap = 0;
    return of && of->n == 1 + (c->t != NULL) && map_coef(of, c->i, times) && *times &&
           (!c->t || (map_coef(of, c->t, &tap) && tap == *times * c->step));
}

/* The window's index is i + step * tap + base, and what is outside reads 0: i counts from the first
 * place whose window reaches the first element to the last one's. */
static bool take_window(Split *s, Congruence *c, const Affine *index, Dim extent)
{
    Func *func = s->func;
    int64_t times;
    if (!read_window(c, index, &times) || times != 1) {
        return false;
    }
    Dim before =
        poly_mul(func, poly_add(func, c->n_taps, poly_const(func, -1)), poly_const(func, c->step));
    Dim more = poly_mul(func, c->n_taps, poly_const(func, c->step));
    c->extent = poly_add(func, extent, before);
    if (c->extent && poly_least(c->extent) < 0) { /* nothing is known of the number of taps */
        c->extent = poly_add(func, extent, more);
    }
    c->origin = map_dim(s->space, poly_add(func, index->base, before));
    c->window = extent;
    return c->extent && c->origin;
}

static bool find_window(Split *s, Congruence *c)
{
    for (int side = 0; side < 2; side++) {
        const Op *op = s->sum->factors[side].value->def;
        Instance read = instance_now(s, &s->sum->factors[side]);
        bool zeros = op && op->kind == OP_GATHER && gather_reads_zeros(op);
        for (int i = 0; zeros && i < op->operands[0]->type->rank; i++) {
            const Affine *index = computations_map(s->all, op->operands[1 + i], read.at);
            if (take_window(s, c, index, op->operands[0]->type->dims[i])) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the conditions that are left ---- */

/* True if a negative map implies an index of a window outside of what it reads, where terms are
 * zeros. */
static bool excludes_outside(const Split *s, const Congruence *c, const Affine *of)
{
    int64_t times;
    Dim before = poly_mul(s->func, poly_add(s->func, c->n_taps, poly_const(s->func, -1)),
                          poly_const(s->func, c->step));
    if (!read_window(c, of, &times)) {
        return false;
    }
    /* of = times * index + rest */
    Dim rest = poly_add(s->func, of->base, poly_mul(s->func, before, poly_const(s->func, times)));
    if (rest && times < 0) { /* from the last element on */
        Dim last = poly_add(s->func, c->window, poly_const(s->func, -1));
        rest = poly_add(s->func, rest, poly_mul(s->func, last, poly_const(s->func, times)));
    }
    return rest && poly_least(rest) >= 0;
}

static bool is_implied(const Split *s, const Constraint *where)
{
    bool plain = where->kind == WHERE_AT_LEAST && !where->data.value;
    const Affine *of = plain ? map_now(s, where->of) : NULL;
    bool implied = map_is_dim(of) && poly_least(of->base) >= 0;
    for (int i = 0; of && i < s->n; i++) {
        implied = implied || excludes_outside(s, &s->found[i], of);
    }
    return implied;
}

static bool is_split(const Split *s, const Constraint *where)
{
    for (int i = 0; i < s->n; i++) {
        if (s->found[i].where == where) {
            return true;
        }
    }
    return false;
}

/* True if an index that depends on the tap alone is outside, where 0 is read, for each tap behind
 * the last one. */
static bool is_outside_behind(const Split *s, const Congruence *c, const Affine *index, Dim extent)
{
    Func *func = s->func;
    Dim taps = c->tap->extent, minus = poly_const(func, -1), behind = NULL;
    int64_t coef;
    if (!index || index->n != 1 || !map_coef(index, c->tap, &coef)) {
        return false;
    }
    if (coef == 1) { /* base + taps - extent */
        behind = poly_add(func, poly_add(func, taps, index->base), poly_mul(func, extent, minus));
    } else if (coef == -1) { /* taps - base - 1 */
        behind = poly_add(func, poly_add(func, taps, minus), poly_mul(func, index->base, minus));
    }
    return behind && poly_least(behind) >= 0;
}

/* True if a factor reads 0 for taps behind the last one. */
static bool reads_zero_behind(const Split *s, const Congruence *c)
{
    int64_t all = congruence_number(c->tap->extent);
    bool zeros = all >= 0 && (c->n_phases == all || all % c->distance == 0);
    for (int side = 0; side < 2 && !zeros; side++) {
        const Instance *read = &s->sum->factors[side];
        const Op *op = read->value->def;
        for (int i = 0; op && op->kind == OP_LOAD && i < op->results[0]->type->rank; i++) {
            zeros = zeros || map_as_axis(read->at[i]) == c->tap;
        }
        bool gathers = op && op->kind == OP_GATHER && gather_reads_zeros(op);
        for (int i = 0; gathers && i < op->operands[0]->type->rank; i++) {
            const Affine *index = computations_map(s->all, op->operands[1 + i], read->at);
            zeros = zeros || is_outside_behind(s, c, index, op->operands[0]->type->dims[i]);
        }
    }
    return zeros;
}

/* The condition on the factor that has more of its axes; false: it could not be made. */
static bool add_condition(Reindex *r, Spread holds, Spread *factors)
{
    int more = __builtin_popcount(holds.axes & factors[1].axes) >
               __builtin_popcount(holds.axes & factors[0].axes);
    factors[more] = holds.value ? reindex_masked(r, factors[more], holds) : factors[more];
    return holds.value != NULL;
}

/* The conditions that are left, and those that taps behind the last one do not count. */
static bool add_conditions(const Split *s, Reindex *r, Spread *factors)
{
    for (size_t i = 0; i < s->sum->where.n; i++) {
        const Constraint *where = &s->sum->where.items[i];
        if (is_split(s, where) || is_implied(s, where)) {
            continue;
        }
        Instance holds = instance_now(s, &where->holds);
        if (!add_condition(r, reindex_condition(r, where, &holds), factors)) {
            return false;
        }
    }
    for (int k = 0; k < s->n; k++) {
        const Congruence *c = &s->found[k];
        if (reads_zero_behind(s, c)) {
            continue;
        }
        Spread holds = reindex_map(r, s->now[compute_term_axis(s->sum, c->tap)]);
        Spread end = {build_size(&r->b, c->tap->extent), 0};
        holds.value = build_cmp(&r->b, "lt", holds.value, reindex_spread(r, end, holds.axes));
        if (!add_condition(r, holds, factors)) {
            return false;
        }
    }
    return true;
}

/* ---- the result ---- */

/* The phases' axis first, then the sum's, but for taps of which a phase has one. */
static void order_axes(Split *s, Reindex *r)
{
    r->rank = 0;
    if (s->phases) {
        r->axes[r->rank++] = s->phases;
    }
    for (int i = 0; i < s->sum->term.value->type->rank; i++) {
        const Axis *axis = s->old[i];
        for (int k = 0; k < s->n; k++) {
            const Congruence *c = &s->found[k];
            if (s->old[i] == c->place) {
                axis = c->i;
            } else if (s->old[i] == c->tap) {
                axis = c->t;
            }
        }
        r->axes[r->rank] = axis;
        r->rank += axis != NULL;
    }
    for (int i = 0; i < r->rank; i++) {
        r->dims[i] = r->axes[i]->extent;
    }
}

/* z: the sums of all phases, over the phases and the axes that are kept. */
static Value *sum_phases(const Split *s, Reindex *r)
{
    Spread factors[2];
    Instance term = instance_now(s, &s->sum->term);
    for (int side = 0; side < 2; side++) {
        Instance factor = term;
        factor.value = term.value->def->operands[side];
        factors[side] = reindex_instance(r, &factor);
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
    for (int i = r->rank; i-- > 0;) {
        unsigned old = compute_axes_of(s->sum, map_axis(s->space, r->axes[i]));
        bool summed = old & s->axes.summed;
        for (int k = 0; k < s->n; k++) {
            summed = summed || r->axes[i] == s->found[k].t;
        }
        sum = summed ? build_squeeze(&r->b, build_reduce(&r->b, "sum", sum, i), i) : sum;
    }
    return sum;
}

/* A place of the result, from which its phase and its number there are counted. */
static const Affine *counted_place(const Split *s, const Congruence *c)
{
    return map_add(s->space, map_axis(s->space, c->place), map_dim(s->space, c->first));
}

/* Of a place of the result: its phase's number among those of the congruence. */
static const Affine *phase_of(const Split *s, const Congruence *c)
{
    AxisSpace *space = s->space;
    Dim distance = poly_const(s->func, c->distance);
    const Affine *rest = map_modulo(space, counted_place(s, c), poly_const(s->func, c->stride));
    const Affine *phase = map_divide(space, rest, poly_const(s->func, c->common));
    int64_t times = congruence_inverse(c->dilation / c->common, c->distance);
    const Affine *inverted = map_scale(space, phase, poly_const(s->func, times));
    return times == 1 ? phase : map_modulo(space, inverted, distance);
}

/* Of a place of the result: its number among those of its phase. */
static const Affine *place_number(const Split *s, const Congruence *c)
{
    AxisSpace *space = s->space;
    const Affine *first = counted_place(s, c);
    if (c->dilation != 1) {
        const Affine *phase = map_scale(space, phase_of(s, c), poly_const(s->func, c->dilation));
        first = map_subtract(space, first, phase);
    }
    const Affine *number = map_divide(space, first, poly_const(s->func, c->stride));
    return map_add(space, number, c->origin);
}

/* Whether the place is in a phase that has taps; true for all: `holds` stays as it is. */
static Spread add_validity(const Split *s, Reindex *r, const Congruence *c, Spread holds)
{
    const Affine *maps[2] = {NULL, NULL};
    if (c->common > 1) {
        maps[0] = map_modulo(s->space, counted_place(s, c), poly_const(s->func, c->common));
    }
    if (c->n_phases < c->distance) {
        maps[1] = phase_of(s, c);
    }
    for (int i = 0; i < 2; i++) {
        if (maps[i]) {
            Spread number = reindex_map(r, maps[i]);
            Value *than = build_int(&r->b, number.value->type, i ? c->n_phases : 0);
            Spread valid = {build_cmp(&r->b, i ? "lt" : "eq", number.value, than), number.axes};
            holds = holds.value ? reindex_binary(r, OP_AND, holds, valid) : valid;
        }
    }
    return holds;
}

/* y: each place's element of z, as the result of the sum. */
static Value *read_phases(const Split *s, Builder b, Value *z)
{
    AxisSpace *space = s->space;
    Reindex *r = ARENA_NEW(s->func->arena, Reindex);
    *r = (Reindex){.b = b, .all = s->all};
    reindex_over_term(r, s->sum);
    const Affine *at[MAX_RANK], *phase = map_number(space, 0);
    const Axis *kept[MAX_RANK];
    Spread holds = {NULL, 0};
    int64_t guards[MAX_RANK] = {0};
    int n = s->phases != NULL, n_kept = 0;
    for (int i = 0; i < r->rank; i++) {
        if (!(s->axes.kept >> i & 1)) {
            continue;
        }
        kept[n_kept++] = s->old[i];
        at[n] = s->sum->term.at[i];
        for (int k = 0; k < s->n; k++) {
            if (s->found[k].place == s->old[i]) {
                at[n] = place_number(s, &s->found[k]);
                guards[n] = 1;
            }
        }
        n++;
    }
    for (int k = 0; k < s->n; k++) {
        const Congruence *c = &s->found[k];
        phase = map_scale(space, phase, poly_const(s->func, c->n_phases));
        phase = map_add(space, phase, phase_of(s, c));
        holds = add_validity(s, r, c, holds);
    }
    if (s->phases) {
        at[0] = phase;
        guards[0] = holds.value != NULL;
    }
    Value *indices[MAX_RANK];
    for (int i = 0; i < n; i++) {
        Spread index = reindex_map(r, at[i]);
        if (!index.value) {
            return NULL;
        }
        indices[i] = reindex_spread(r, index, s->axes.kept);
    }
    Value *y = build_gather(&r->b, z, indices);
    op_set_num(s->func, y->def, ATTR_VALUE, 0, 0);
    op_set_ints(s->func, y->def, ATTR_GUARD, n, guards);
    y = holds.value ? reindex_masked(r, (Spread){y, s->axes.kept}, holds).value : y;
    return reindex_restored(&r->b, s->sum, y, kept);
}

/* ---- the pass ---- */

static bool split_sum(Split *s, const Op *op)
{
    Func *func = s->func;
    s->sum = computations_product(s->all, op);
    if (!s->sum || !compute_term_axes(s->sum, &s->axes) || !find_congruences(s) ||
        __builtin_popcount(s->axes.kept) >= TENSOR_RANK) {
        return false;
    }
    number_phases(s);
    if (!place_axes(s)) {
        return false;
    }
    for (int k = 0; k < s->n; k++) {
        if (!find_window(s, &s->found[k])) {
            return false;
        }
    }
    Builder b = build_before(func, (Op *)op);
    b.span = op->span;
    Reindex *r = ARENA_NEW(func->arena, Reindex);
    *r = (Reindex){.b = b, .all = s->all, .varies = s->varies, .sum = s->sum};
    Value *z = NULL;
    if (place_axes(s)) {
        order_axes(s, r);
        z = sum_phases(s, r);
    }
    Value *y = z ? read_phases(s, b, z) : NULL;
    if (!y) {
        return false;
    }
    y->name = op->results[0]->name;
    func_replace_uses(func, op->results[0], y);
    return true;
}

void pass_split_phases(Func *func)
{
    if (!block_contains(func->body, OP_REDUCE) || !block_contains(func->body, OP_SELECT)) {
        return;
    }
    Split s = {.func = func, .all = computations_open(func), .varies = an_varies_all(func)};
    s.space = &s.all->space;
    bool changed = false;
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        changed = split_sum(&s, op) || changed;
    }
    computations_close(s.all);
    memo_close(s.varies);
    func_remove_dead(func);
    if (changed) {
        pass_simplify(func);
    }
}
