/* SPDX-License-Identifier: Apache-2.0 */
/* The transpose of a gather. y[i] = x[f(i)] gives x at u the sum of the gradients of all i with
 * f(i) = u. Where the indices are affine that is a sum again, over the axes of y that f does not
 * determine, of the gradient read at the inverse:
 *
 *   y[p, r] = x[2*p + r - 1]          gx[u] = sum(r) (g[(u + 1 - r) // 2, r] else 0)
 *                                             where (u + 1 - r) % 2 == 0
 *
 * Reshapes and other maps of digits have an inverse (inverse_map.h). Indices from data have none:
 * the gradients are added up in memory by atomics. */
#include "passes/derive/derive_sweep.h"

#include "passes/analysis/computations.h"
#include "passes/analysis/inverse_map.h"

/* A value over some axes of the space that is summed over: those of x, then the free ones of y. */
typedef struct Over {
    Value *value;
    unsigned axes;
} Over;

typedef struct Transpose {
    Derive *d;
    const Op *op;
    Value *g;
    Type x, y;
    const Axis *axes[MAX_RANK];    /* of y; NULL: of one element */
    const Affine *maps[MAX_RANK];  /* by axis of x, over those of y; NULL: the index has none */
    int solved[MAX_RANK];             /* by axis of x: the axis of y that follows from it; -1 */
    Over at[MAX_RANK];                /* by axis of y: its coordinate; NULL: not known yet */
    Over condition;                   /* NULL: always */
    int rank;
    Dim dims[MAX_RANK];
} Transpose;

/* ---- values over some axes ---- */

static Value *spread(Transpose *t, Over of, unsigned axes)
{
    Dim dims[MAX_RANK];
    Value *value = of.value;
    int rank = 0;
    bool scalar = of.value->type->rank == 0;
    for (int i = 0; i < t->rank; i++) {
        if (axes >> i & 1) {
            value = scalar || (of.axes >> i & 1) ? value : build_expand(&t->d->b, value, rank);
            dims[rank++] = t->dims[i];
        }
    }
    return build_broadcast(&t->d->b, value, rank, dims);
}

static Over binary(Transpose *t, OpKind kind, Over a, Over c)
{
    unsigned axes = a.axes | c.axes;
    Value *right = spread(t, c, axes);
    return (Over){build_binary(&t->d->b, kind, spread(t, a, axes), right), axes};
}

static Over compared(Transpose *t, Over a, Over c)
{
    unsigned axes = a.axes | c.axes;
    Value *right = spread(t, c, axes);
    return (Over){build_cmp(&t->d->b, "eq", spread(t, a, axes), right), axes};
}

static Over number(Transpose *t, int64_t value)
{
    return (Over){build_i64(&t->d->b, value), 0};
}

static Over place(Transpose *t, int axis)
{
    return (Over){build_iota(&t->d->b, t->dims[axis], DT_I64), 1u << axis};
}

static void require(Transpose *t, Over condition)
{
    t->condition = t->condition.value ? binary(t, OP_AND, t->condition, condition) : condition;
}

static Over map_value(Transpose *t, const Affine *map, int without);

static Over term_value(Transpose *t, const Term *term)
{
    Over value = {NULL, 0};
    for (int i = 0; i < t->y->rank; i++) {
        value = t->axes[i] == term->axis ? t->at[i] : value;
    }
    if (!value.value) {
        Over by = {build_size(&t->d->b, term->axis->by), 0};
        value = binary(t, term->axis->make == AXIS_OUTER ? OP_DIV : OP_MOD,
                       map_value(t, term->axis->of, -1), by);
    }
    int64_t one;
    bool plain = poly_is_const(term->coef, &one) && one == 1;
    return plain ? value
                 : binary(t, OP_MUL, value, (Over){build_size(&t->d->b, term->coef), 0});
}

/* The map at coordinates of y that are known, without the term of axis `without`. */
static Over map_value(Transpose *t, const Affine *map, int without)
{
    int64_t base = 0;
    bool nothing = poly_is_const(map->base, &base) && base == 0;
    Over sum = {build_size(&t->d->b, map->base), 0};
    for (int i = 0; i < map->n; i++) {
        if (without < 0 || map->terms[i].axis != t->axes[without]) {
            Over term = term_value(t, &map->terms[i]);
            sum = nothing ? term : binary(t, OP_ADD, sum, term);
            nothing = false;
        }
    }
    return sum;
}

/* ---- which axis of y follows from which axis of x ---- */

/* The axes of y on which the map depends, as bits. */
static unsigned axes_of(const Transpose *t, const Affine *map)
{
    unsigned axes = 0;
    for (int i = 0; map && i < t->y->rank; i++) {
        axes |= t->axes[i] && map_depends_on(map, t->axes[i]) ? 1u << i : 0;
    }
    return axes;
}

/* True if the map is a multiple of the coordinate along axis i of y, and of others. */
static bool is_linear_in(const Transpose *t, const Affine *map, int i)
{
    int64_t coef;
    bool linear = t->axes[i] && map_coef(map, t->axes[i], &coef) && coef != 0;
    for (int k = 0; k < map->n && linear; k++) {
        const Axis *axis = map->terms[k].axis;
        linear = axis->make == AXIS_BASE || !map_depends_on(axis->of, t->axes[i]);
    }
    return linear;
}

/* The axis of y for which axis `at` of x is solved: none of those in `taken`. Result axes come
 * before summed ones in index notation, and are longer as a rule; an axis of constant extent comes
 * last. */
static int axis_to_solve(const Transpose *t, int at, unsigned taken)
{
    const Affine *map = t->maps[at];
    int best = -1;
    int64_t extent;
    for (int i = 0; map && i < t->y->rank; i++) {
        if ((taken >> i & 1) || !is_linear_in(t, map, i)) {
            continue;
        }
        bool short_one = poly_is_const(t->y->dims[i], &extent);
        bool was_short = best >= 0 && poly_is_const(t->y->dims[best], &extent);
        best = best < 0 || (was_short && !short_one) ? i : best;
    }
    return best;
}

/* Single axes first, so that what the others need of them is known; what a solved map needs
 * besides them stays free. */
static unsigned solve_axes(Transpose *t)
{
    unsigned taken = 0, needed = 0;
    for (int i = 0; i < t->y->rank; i++) {
        taken |= t->axes[i] ? 0 : 1u << i;
    }
    for (int i = 0; i < t->x->rank; i++) {
        t->solved[i] = -1;
    }
    for (int most = 1; most <= MAX_RANK; most++) {
        for (int i = 0; i < t->x->rank; i++) {
            unsigned axes = axes_of(t, t->maps[i]);
            if (t->solved[i] < 0 && __builtin_popcount(axes) == most) {
                t->solved[i] = axis_to_solve(t, i, taken | needed);
                taken |= t->solved[i] >= 0 ? 1u << t->solved[i] : 0;
                needed |= t->solved[i] >= 0 ? axes & ~taken : 0;
            }
        }
    }
    return taken;
}

static void open_space(Transpose *t, unsigned taken)
{
    t->rank = 0;
    for (int i = 0; i < t->x->rank; i++) {
        t->dims[t->rank++] = t->x->dims[i];
    }
    for (int i = 0; i < t->y->rank; i++) {
        if (!t->axes[i]) {
            t->at[i] = number(t, 0);
        } else if (!(taken >> i & 1) && t->rank < MAX_RANK) {
            t->dims[t->rank] = t->y->dims[i];
            t->at[i] = place(t, t->rank++);
        }
    }
}

/* coef * (the coordinate) + rest = u */
static void solve_axis(Transpose *t, int axis)
{
    const Affine *map = t->maps[axis];
    int solved = t->solved[axis];
    int64_t coef, base;
    Over u = place(t, axis), left = u;
    map_coef(map, t->axes[solved], &coef);
    bool plain = map->n == 1 && poly_is_const(map->base, &base) && base == 0;
    if (!plain) {
        Over rest = map_value(t, map, solved);
        left = coef > 0 ? binary(t, OP_SUB, u, rest) : binary(t, OP_SUB, rest, u);
    } else if (coef < 0) {
        left = binary(t, OP_SUB, number(t, 0), u);
    }
    Over by = number(t, coef > 0 ? coef : -coef);
    if (coef != 1 && coef != -1) {
        Over zero = number(t, 0);
        require(t, compared(t, binary(t, OP_MOD, left, by), zero));
        left = binary(t, OP_DIV, left, by);
    }
    t->at[solved] = left;
}

/* ---- the sum ---- */

/* The index along an axis of x that is not solved, at the coordinates that are known. */
static Over index_at(Transpose *t, int axis)
{
    Value *index = build_cast(&t->d->b, t->op->operands[axis + 1], DT_I64), *at[MAX_RANK];
    unsigned axes = 0;
    if (type_is_scalar(index->type)) {
        return (Over){index, 0};
    }
    if (t->maps[axis]) {
        return map_value(t, t->maps[axis], -1);
    }
    for (int i = 0; i < t->y->rank; i++) {
        axes |= t->at[i].axes;
    }
    for (int i = 0; i < t->y->rank; i++) {
        at[i] = spread(t, t->at[i], axes);
    }
    return (Over){build_gather(&t->d->b, index, at), axes};
}

static Value *sum_over_free(Transpose *t)
{
    Derive *d = t->d;
    Value *indices[MAX_RANK], *value = t->g;
    unsigned all = (1u << t->rank) - 1;
    for (int i = 0; i < t->y->rank; i++) {
        indices[i] = spread(t, t->at[i], all);
    }
    if (t->y->rank > 0) {
        value = build_gather(&d->b, t->g, indices);
    } else {
        value = build_broadcast(&d->b, t->g, t->rank, t->dims);
    }
    if (t->condition.value) {
        Value *zero = derive_number(d, value, 0);
        value = build_select(&d->b, spread(t, t->condition, all), value, zero);
    }
    for (int i = t->rank - 1; i >= t->x->rank; i--) {
        value = build_squeeze(&d->b, build_reduce(&d->b, "sum", value, i), i);
    }
    return value;
}

/* NULL: that would take a sum over all elements for each of x. */
static Value *by_sum(Transpose *t)
{
    unsigned taken = solve_axes(t);
    int free_axes = t->y->rank - __builtin_popcount(taken);
    if (free_axes + t->x->rank > MAX_RANK) {
        return NULL;
    }
    for (int i = 0; i < t->x->rank; i++) {
        bool single = type_is_scalar(t->op->operands[i + 1]->type) ||
                      (t->maps[i] && map_is_dim(t->maps[i]));
        if (t->solved[i] < 0 && !single && free_axes > 0) {
            return NULL;
        }
    }
    open_space(t, taken);
    for (int most = 1; most <= MAX_RANK; most++) {
        for (int i = 0; i < t->x->rank; i++) {
            if (t->solved[i] >= 0 && __builtin_popcount(axes_of(t, t->maps[i])) == most) {
                solve_axis(t, i);
            }
        }
    }
    for (int i = 0; i < t->x->rank; i++) {
        if (t->solved[i] < 0) {
            Over index = index_at(t, i);
            require(t, compared(t, place(t, i), index));
        }
    }
    return sum_over_free(t);
}

/* ---- inverses ---- */

/* low * ((u - base) // weight % count), or low * (base - u). */
static Over digit(Transpose *t, const InverseTerm *term)
{
    Builder *b = &t->d->b;
    int64_t one;
    Over u = place(t, term->axis), base = {build_size(b, term->base), 0};
    bool from_zero = poly_is_const(term->base, &one) && one == 0;
    if (term->reversed) {
        u = binary(t, OP_SUB, base, u);
    } else if (!from_zero) {
        u = binary(t, OP_SUB, u, base);
    }
    if (!poly_is_const(term->weight, &one) || one != 1) {
        u = binary(t, OP_DIV, u, (Over){build_size(b, term->weight), 0});
    }
    if (term->count) {
        u = binary(t, OP_MOD, u, (Over){build_size(b, term->count), 0});
    }
    bool unscaled = poly_is_const(term->low, &one) && one == 1;
    return unscaled ? u : binary(t, OP_MUL, u, (Over){build_size(b, term->low), 0});
}

static Value *by_inverse(Transpose *t, const InverseMap *inverse)
{
    for (int i = 0; i < t->x->rank; i++) {
        t->dims[t->rank++] = t->x->dims[i];
    }
    for (int i = 0; i < t->y->rank; i++) {
        const InverseCoord *coord = &inverse->coords[i];
        Over sum = number(t, 0);
        for (int k = 0; k < coord->n; k++) {
            Over term = digit(t, &coord->terms[k]);
            sum = k ? binary(t, OP_ADD, sum, term) : term;
        }
        int64_t none;
        if (coord->add && (!poly_is_const(coord->add, &none) || none != 0)) {
            sum = binary(t, OP_SUB, sum, (Over){build_size(&t->d->b, coord->add), 0});
        }
        t->at[i] = sum;
    }
    return sum_over_free(t);
}

static bool is_number(Dim dim, int64_t number)
{
    int64_t value;
    return poly_is_const(dim, &value) && value == number;
}

/* A slice of one axis: its gradient is 0 outside of it. */
static void note_slice(Transpose *t, const InverseMap *inverse, const Value *gradient)
{
    Func *func = t->d->func;
    int axis = -1;
    Dim lo = NULL;
    bool slice = t->x->rank == t->y->rank;
    for (int i = 0; slice && i < t->y->rank; i++) {
        const InverseCoord *coord = &inverse->coords[i];
        const InverseTerm *term = &coord->terms[0];
        slice = coord->n == 1 && term->axis == i && !term->reversed && !term->count &&
                is_number(term->weight, 1) && is_number(term->low, 1);
        bool whole = slice && t->x->dims[i] == t->y->dims[i];
        slice = slice && (whole || axis < 0) && inverse->inside[i];
        if (slice && !whole) {
            axis = i;
            lo = coord->add ? poly_add(func, term->base, coord->add) : term->base;
        }
    }
    if (slice && lo) {
        derive_note_part(t->d, gradient, axis, lo, poly_add(func, lo, t->y->dims[axis]));
    }
}

/* ---- indices from data ---- */

static Value *by_atomics(Transpose *t)
{
    Derive *d = t->d;
    Value *none[MAX_RANK] = {NULL};
    Type type = type_array(d->func, t->g->type->dtype, t->x->rank, t->x->dims);
    Value *sums = func_scratch(d->func, type);
    build_store(&d->b, sums, none, build_float(&d->b, type, 0));
    Op *scatter = build_scatter(&d->b, "add", sums, t->op->operands + 1, t->g, NULL, NULL, false);
    const Attr *guard = op_attr(t->op, ATTR_GUARD);
    if (guard) {
        op_set_ints(d->func, scatter, ATTR_GUARD, guard->n, guard->ints);
    }
    return build_load(&d->b, sums, none);
}

void derive_gather(Derive *d, const Op *op, Value *g)
{
    Transpose t = {.d = d, .op = op, .g = g};
    InverseMap inverse;
    t.x = op->operands[0]->type;
    t.y = op->results[0]->type;
    Computations *all = computations_open(d->func);
    Instance own = computations_own(all, op->results[0]);
    for (int i = 0; i < t.y->rank; i++) {
        t.axes[i] = map_as_axis(own.at[i]);
    }
    for (int i = 0; i < t.x->rank; i++) {
        bool scalar = type_is_scalar(op->operands[i + 1]->type);
        t.maps[i] = scalar ? NULL : computations_map(all, op->operands[i + 1], own.at);
    }
    bool has_inverse = t.y->rank > 0 && an_inverse_map(d->func, op, &inverse);
    Value *gradient = has_inverse ? by_inverse(&t, &inverse) : by_sum(&t);
    if (has_inverse) {
        note_slice(&t, &inverse, gradient);
    }
    computations_close(all);
    derive_add(d, op->operands[0], gradient ? gradient : by_atomics(&t));
}
