/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on index maps, which are sums of axes times size expressions. Every function returns
 * NULL instead of a map that might overflow, so callers chain them and check once. A quotient or a
 * remainder by a constant becomes an axis of its own, which a later sum of both undoes. */
#include "passes/analysis/affine_map.h"

#include "ir/text/ir_text.h"
#include "passes/analysis/index_bounds.h"
#include "support/int_math.h"

#include <ctype.h>

enum { MAX_TERMS = 64 };

/* ---- axes ---- */

static Axis *add_axis(AxisSpace *space, const Axis *like)
{
    Axis *axis = ARENA_NEW(space->func->arena, Axis);
    *axis = *like;
    axis->id = (int)space->axes.n;
    ARENA_PUSH(space->func->arena, &space->axes, axis);
    return axis;
}

Axis *axis_new(AxisSpace *space, Dim extent, const Value *from)
{
    return add_axis(space, &(Axis){.make = AXIS_BASE, .extent = extent, .from = from});
}

/* ---- limits ---- */

/* Sizes are below 2^40, because tensors fit into memory; a sum of a few sizes times numbers below
 * 2^20 does not overflow. */
static const int64_t MAX_FACTOR = 1 << 20;
static const int64_t MAX_SIZE = (int64_t)1 << 40;

static bool is_small(Dim dim, int64_t most)
{
    bool fits = dim != NULL;
    for (int i = 0; fits && i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        int64_t limit = term->n ? MAX_FACTOR : most;
        fits = term->coef <= limit && term->coef >= -limit;
    }
    return fits;
}

/* The map itself if it cannot overflow; else NULL. */
static const Affine *checked(const Affine *a)
{
    bool fits = is_small(a->base, MAX_SIZE);
    for (int i = 0; fits && i < a->n; i++) {
        Dim extent = a->terms[i].axis->extent;
        int64_t most = extent ? poly_most(extent) : MAX_SIZE;
        most = min_i64(max_i64(most, 1), MAX_SIZE);
        fits = is_small(a->terms[i].coef, MAX_FACTOR * MAX_SIZE / most);
    }
    return fits ? a : NULL;
}

/* ---- sums ---- */

static Affine *new_affine(AxisSpace *space, Dim base, int n)
{
    Affine *result = arena_alloc(space->func->arena, sizeof(Affine) + sizeof(Term) * (size_t)n);
    result->base = base;
    result->n = n;
    return result;
}

const Affine *map_dim(AxisSpace *space, Dim base)
{
    return base ? new_affine(space, base, 0) : NULL;
}

const Affine *map_number(AxisSpace *space, int64_t base)
{
    return map_dim(space, poly_const(space->func, base));
}

const Affine *map_axis(AxisSpace *space, const Axis *axis)
{
    Affine *result = new_affine(space, poly_const(space->func, 0), 1);
    result->terms[0] = (Term){axis, poly_const(space->func, 1)};
    return result;
}

/* The terms of both, in the order of axes. NULL: overflow, or too many terms. */
static const Affine *merged(AxisSpace *space, const Affine *a, const Affine *b)
{
    Term terms[MAX_TERMS];
    int n = 0, i = 0, k = 0;
    Dim base = poly_add(space->func, a->base, b->base);
    while (base && (i < a->n || k < b->n)) {
        bool of_a = k == b->n || (i < a->n && a->terms[i].axis->id <= b->terms[k].axis->id);
        bool of_b = i == a->n || (k < b->n && b->terms[k].axis->id <= a->terms[i].axis->id);
        Term term = of_a ? a->terms[i] : b->terms[k];
        if (of_a && of_b) {
            term.coef = poly_add(space->func, term.coef, b->terms[k].coef);
        }
        i += of_a;
        k += of_b;
        if (!term.coef || n == MAX_TERMS) {
            return NULL;
        }
        if (!poly_is_number(term.coef, 0)) {
            terms[n++] = term;
        }
    }
    if (!base) {
        return NULL;
    }
    Affine *result = new_affine(space, base, n);
    for (i = 0; i < n; i++) {
        result->terms[i] = terms[i];
    }
    return checked(result);
}

static const Affine *without_terms(AxisSpace *space, const Affine *a, int i, int k)
{
    Affine *rest = new_affine(space, a->base, a->n - 2);
    for (int t = 0, n = 0; t < a->n; t++) {
        if (t != i && t != k) {
            rest->terms[n++] = a->terms[t];
        }
    }
    return rest;
}

/* Is `outer` the quotient f // by of the remainder f % by, where f may be a quotient itself: g // a
 * // by, which is the axis g // (a * by)? */
static bool is_quotient_of(AxisSpace *space, const Axis *outer, const Axis *inner)
{
    const Axis *of = map_as_axis(inner->of);
    bool nested = of && of->make == AXIS_OUTER && map_equal(outer->of, of->of);
    bool plain = inner->by == outer->by && map_equal(inner->of, outer->of);
    return plain || (nested && outer->by == poly_mul(space->func, of->by, inner->by));
}

/* by * (f // by) + f % by is f. */
static const Affine *joined(AxisSpace *space, const Affine *a)
{
    for (int i = 0; a && i < a->n; i++) {
        const Axis *outer = a->terms[i].axis;
        for (int k = 0; outer->make == AXIS_OUTER && k < a->n; k++) {
            const Axis *inner = a->terms[k].axis;
            if (inner->make == AXIS_INNER && is_quotient_of(space, outer, inner) &&
                poly_mul(space->func, a->terms[k].coef, inner->by) == a->terms[i].coef) {
                const Affine *scaled = map_scale(space, inner->of, a->terms[k].coef);
                return map_add(space, without_terms(space, a, i, k), scaled);
            }
        }
    }
    return a;
}

const Affine *map_add(AxisSpace *space, const Affine *a, const Affine *b)
{
    return a && b ? joined(space, merged(space, a, b)) : NULL;
}

const Affine *map_scale(AxisSpace *space, const Affine *a, Dim by)
{
    if (!a || !by || poly_is_number(by, 0)) {
        return a && by ? map_number(space, 0) : NULL;
    }
    Affine *result = new_affine(space, poly_mul(space->func, a->base, by), a->n);
    for (int i = 0; i < a->n; i++) {
        result->terms[i] = (Term){a->terms[i].axis, poly_mul(space->func, a->terms[i].coef, by)};
    }
    return checked(result);
}

const Affine *map_subtract(AxisSpace *space, const Affine *a, const Affine *b)
{
    return map_add(space, a, map_scale(space, b, poly_const(space->func, -1)));
}

/* ---- questions ---- */

bool map_equal(const Affine *a, const Affine *b)
{
    bool same = a == b || (a && b && a->base == b->base && a->n == b->n);
    for (int i = 0; same && a != b && i < a->n; i++) {
        same = a->terms[i].axis == b->terms[i].axis && a->terms[i].coef == b->terms[i].coef;
    }
    return same;
}

uint64_t map_hash(uint64_t hash, const Affine *a)
{
    hash = hash_word(hash, (uintptr_t)a->base);
    for (int i = 0; i < a->n; i++) {
        hash = hash_word(hash, (uint64_t)a->terms[i].axis->id);
        hash = hash_word(hash, (uintptr_t)a->terms[i].coef);
    }
    return hash;
}

const Term *map_term(const Affine *a, const Axis *axis)
{
    for (int i = 0; i < a->n; i++) {
        if (a->terms[i].axis == axis) {
            return &a->terms[i];
        }
    }
    return NULL;
}

bool map_coef(const Affine *a, const Axis *axis, int64_t *coef)
{
    const Term *term = map_term(a, axis);
    *coef = 0;
    return !term || poly_is_const(term->coef, coef);
}

const Axis *map_as_axis(const Affine *a)
{
    int64_t coef;
    bool plain =
        a && a->n == 1 && poly_is_number(a->base, 0) && poly_is_const(a->terms[0].coef, &coef);
    return plain && coef == 1 ? a->terms[0].axis : NULL;
}

bool map_is_dim(const Affine *a)
{
    return a && a->n == 0;
}

bool map_is_number(const Affine *a, int64_t *number)
{
    return map_is_dim(a) && poly_is_const(a->base, number);
}

bool map_is_sum(const Affine *a)
{
    bool sum = a != NULL;
    for (int i = 0; sum && i < a->n; i++) {
        sum = a->terms[i].axis->make == AXIS_BASE;
    }
    return sum;
}

bool map_depends_on(const Affine *a, const Axis *base)
{
    for (int i = 0; a && i < a->n; i++) {
        const Axis *axis = a->terms[i].axis;
        if (axis == base || (axis->of && map_depends_on(axis->of, base))) {
            return true;
        }
    }
    return false;
}

static Dim plus(Func *func, Dim a, int64_t n)
{
    return poly_add(func, a, poly_const(func, n));
}

void map_bounds(AxisSpace *space, const Affine *a, Dim *lo, Dim *hi)
{
    Func *func = space->func;
    *lo = *hi = a->base;
    for (int i = 0; i < a->n; i++) {
        const Term *term = &a->terms[i];
        Dim last = plus(func, term->axis->extent, -1);
        Dim most = poly_mul(func, last, term->coef);
        bool up = poly_least(term->coef) >= 0, down = poly_most(term->coef) <= 0;
        if (!last || (!up && !down)) {
            *lo = *hi = NULL;
            return;
        }
        *hi = up ? poly_add(func, *hi, most) : *hi;
        *lo = down ? poly_add(func, *lo, most) : *lo;
    }
}

bool map_is_inside(AxisSpace *space, const Affine *a, Dim extent)
{
    Dim lo, hi;
    if (!a || !extent) {
        return false;
    }
    map_bounds(space, a, &lo, &hi);
    bool not_negative = lo && poly_least(lo) >= 0;
    return not_negative && dim_is_ordered(space->func, plus(space->func, hi, 1), extent);
}

/* ---- quotients and remainders ---- */

/* True if `by` is not 0 wherever the map has a value: it is a factor of an axis' extent, or a
 * number. */
static bool is_positive(const Affine *a, Dim by)
{
    if (poly_least(by) >= 1) {
        return true;
    }
    for (int i = 0; i < a->n && by->n_terms == 1; i++) {
        const Axis *axis = a->terms[i].axis;
        bool factor = axis->extent && axis->extent->n_terms == 1 && by->terms[0].coef > 0;
        for (int k = 0; factor && k < by->terms[0].n; k++) {
            factor = poly_mentions(axis->extent, by->terms[0].vars[k]);
        }
        if (factor || (axis->of && is_positive(axis->of, by))) {
            return true;
        }
    }
    return false;
}

/* a = by * scaled + rest: each term that `by` divides is in `scaled`. */
typedef struct Parts {
    const Affine *scaled, *rest;
} Parts;

/* The same of a base, the number in which leaves a rest from 0 to below a number `by`. */
static bool split_base(Func *func, Dim base, Dim by, Dim *scaled, Dim *rest)
{
    int64_t times;
    *scaled = *rest = poly_const(func, 0);
    for (int i = 0; i < base->n_terms; i++) {
        const PolyTerm *term = &base->terms[i];
        Dim own = poly_const(func, term->coef);
        for (int k = 0; k < term->n && own; k++) {
            own = poly_mul(func, own, poly_var(func, term->vars[k]));
        }
        Dim exact = own ? an_exact_quotient(func, own, by) : NULL;
        if (!exact && term->n == 0 && poly_is_const(by, &times)) {
            exact = poly_const(func, floor_div(term->coef, times));
            own = poly_const(func, term->coef - floor_div(term->coef, times) * times);
            *rest = poly_add(func, *rest, own);
        } else if (!exact) {
            *rest = poly_add(func, *rest, own);
        }
        *scaled = exact ? poly_add(func, *scaled, exact) : *scaled;
    }
    return *scaled && *rest;
}

static Parts split_by(AxisSpace *space, const Affine *a, Dim by)
{
    Func *func = space->func;
    Dim base[2];
    if (!split_base(func, a->base, by, &base[0], &base[1])) {
        return (Parts){NULL, NULL};
    }
    Affine *scaled = new_affine(space, base[0], a->n), *rest = new_affine(space, base[1], a->n);
    scaled->n = rest->n = 0;
    for (int i = 0; i < a->n; i++) {
        Dim exact = an_exact_quotient(func, a->terms[i].coef, by);
        if (exact) {
            scaled->terms[scaled->n++] = (Term){a->terms[i].axis, exact};
        } else {
            rest->terms[rest->n++] = a->terms[i];
        }
    }
    return (Parts){scaled, rest};
}

static bool is_same_axis(const void *item, const void *key)
{
    const Axis *axis = item, *wanted = key;
    return axis->make == wanted->make && axis->by == wanted->by && map_equal(axis->of, wanted->of);
}

/* The axis f // by or f % by: an equal one that there is, or a new one. */
static const Affine *derived_axis(AxisSpace *space, AxisMake make, const Affine *of, Dim by)
{
    Func *func = space->func;
    Axis like = {.make = make, .of = of, .by = by};
    uint64_t hash = map_hash(hash_word(make, (uintptr_t)by), of);
    const Axis *known = table_find(&space->derived, hash, is_same_axis, &like);
    if (known) {
        return map_axis(space, known);
    }
    Dim lo, hi;
    map_bounds(space, of, &lo, &hi);
    bool not_negative = lo && poly_least(lo) >= 0;
    if (make == AXIS_INNER) {
        like.extent = by;
    } else if (not_negative && hi) {
        like.extent = dim_steps(func, plus(func, hi, 1), by);
    }
    Axis *added = add_axis(space, &like);
    table_add(func->arena, &space->derived, hash, added);
    return map_axis(space, added);
}

/* Divides, or takes the remainder of, a map that is no multiple and not below `by`. */
static const Affine *divided_rest(AxisSpace *space, const Affine *rest, Dim by, bool remainder)
{
    const Axis *axis = map_as_axis(rest);
    for (int i = 0; i < rest->n; i++) { /* (g * f + small) // (g * n) is f // n */
        Dim g = rest->terms[i].coef, n = an_exact_quotient(space->func, by, g);
        Parts parts =
            n && poly_least(g) >= 0 && n != by ? split_by(space, rest, g) : (Parts){NULL, NULL};
        if (parts.scaled && parts.rest && map_is_inside(space, parts.rest, g)) {
            return remainder
                       ? map_add(space, map_scale(space, map_modulo(space, parts.scaled, n), g),
                                 parts.rest)
                       : map_divide(space, parts.scaled, n);
        }
    }
    bool nested = axis && axis->make != AXIS_BASE && axis->by;
    if (nested && !remainder && axis->make == AXIS_OUTER) {
        Dim both = poly_mul(space->func, axis->by, by);
        return both ? map_divide(space, axis->of, both) : NULL;
    }
    Dim times =
        nested && axis->make == AXIS_INNER ? an_exact_quotient(space->func, axis->by, by) : NULL;
    if (times) { /* f % (by * n) % by, and f % (by * n) // by */
        return remainder ? map_modulo(space, axis->of, by)
                         : map_modulo(space, map_divide(space, axis->of, by), times);
    }
    return derived_axis(space, remainder ? AXIS_INNER : AXIS_OUTER, rest, by);
}

static const Affine *divided(AxisSpace *space, const Affine *a, Dim by, bool remainder)
{
    if (!a || !by) {
        return NULL;
    }
    if (!is_positive(a, by)) {
        return derived_axis(space, remainder ? AXIS_INNER : AXIS_OUTER, a, by);
    }
    Parts parts = split_by(space, a, by);
    if (!parts.scaled || !parts.rest) {
        return NULL;
    }
    bool below = (map_is_dim(parts.rest) && poly_is_number(parts.rest->base, 0)) ||
                 map_is_inside(space, parts.rest, by);
    if (below) {
        return remainder ? parts.rest : parts.scaled;
    }
    const Affine *rest = divided_rest(space, parts.rest, by, remainder);
    return remainder ? rest : map_add(space, parts.scaled, rest);
}

const Affine *map_divide(AxisSpace *space, const Affine *a, Dim by)
{
    return divided(space, a, by, false);
}

const Affine *map_modulo(AxisSpace *space, const Affine *a, Dim by)
{
    return divided(space, a, by, true);
}

/* ---- other axes ---- */

const Affine *map_substitute(AxisSpace *space, const Affine *a, int n, const Axis *const *axes,
                             const Affine *const *by)
{
    const Affine *result = a ? map_dim(space, a->base) : NULL;
    for (int i = 0; result && i < a->n; i++) {
        const Axis *axis = a->terms[i].axis;
        const Affine *place = map_axis(space, axis);
        for (int k = 0; k < n; k++) {
            place = axis == axes[k] ? by[k] : place;
        }
        if (axis->of) {
            const Affine *of = map_substitute(space, axis->of, n, axes, by);
            place = divided(space, of, axis->by, axis->make == AXIS_INNER);
        }
        result = map_add(space, result, map_scale(space, place, a->terms[i].coef));
    }
    return result;
}

/* ---- as text ---- */

/* The name of the value that has the axis, or that of its size in small letters. */
static const char *wanted_name(AxisSpace *space, const Axis *axis)
{
    const DimVar *size = axis->extent ? poly_as_var(axis->extent) : NULL;
    bool named = axis->from && axis->from->name && isalpha((unsigned char)axis->from->name[0]);
    const char *like = "i";
    if (named) {
        like = axis->from->name;
    } else if (size) {
        like = size->name;
    }
    char *name = arena_strdup(space->func->arena, like);
    for (char *c = name; *c; c++) {
        *c = (char)(isalnum((unsigned char)*c) ? tolower((unsigned char)*c) : '_');
    }
    return name;
}

void map_name_axes(AxisSpace *space)
{
    size_t n = space->axes.n;
    const char **wanted = ARENA_ARRAY(space->func->arena, const char *, n ? n : 1);
    for (size_t i = 0; i < n; i++) {
        Axis *axis = space->axes.items[i];
        int before = 0;
        wanted[i] = axis->make == AXIS_BASE ? wanted_name(space, axis) : "";
        for (size_t k = 0; k < i; k++) {
            before += text_equal(wanted[k], wanted[i]);
        }
        axis->name =
            before ? arena_printf(space->func->arena, "%s.%d", wanted[i], before) : wanted[i];
    }
}

static void print_axis(const AxisSpace *space, const Axis *axis, Text *out)
{
    if (axis->make == AXIS_BASE) {
        text_add(out, axis->name ? axis->name : "?");
        return;
    }
    bool simple = map_as_axis(axis->of) != NULL, one = axis->by->n_terms == 1;
    text_add(out, simple ? "" : "(");
    map_print(space, axis->of, out);
    text_add(out, simple ? "" : ")");
    text_add(out, axis->make == AXIS_OUTER ? " // " : " % ");
    text_add(out, one ? "" : "(");
    say_dim(space->func, axis->by, out);
    text_add(out, one ? "" : ")");
}

static void print_term(const AxisSpace *space, const Term *term, bool first, Text *out)
{
    int64_t number;
    bool is_number = poly_is_const(term->coef, &number), derived = term->axis->make != AXIS_BASE;
    bool minus = is_number && number < 0;
    static const char *const signs[2][2] = {{" + ", " - "}, {"", "-"}};
    text_add(out, signs[first][minus]);
    number = minus ? -number : number;
    if (is_number && number != 1) {
        text_i64(out, number);
        text_add(out, "*");
    } else if (!is_number) {
        text_add(out, term->coef->n_terms == 1 ? "" : "(");
        say_dim(space->func, term->coef, out);
        text_add(out, term->coef->n_terms == 1 ? "*" : ")*");
    }
    bool alone = first && is_number && number == 1 && !minus;
    text_add(out, derived && !alone ? "(" : "");
    print_axis(space, term->axis, out);
    text_add(out, derived && !alone ? ")" : "");
}

void map_print(const AxisSpace *space, const Affine *a, Text *out)
{
    int64_t number;
    Text base = text_new(space->func->arena);
    for (int i = 0; i < a->n; i++) {
        print_term(space, &a->terms[i], i == 0, out);
    }
    say_dim(space->func, a->base, &base);
    bool minus = a->n > 0 && base.data[0] == '-';
    if (a->n == 0) {
        text_add(out, base.data);
    } else if (!poly_is_const(a->base, &number) || number != 0) {
        text_printf(out, " %c %s", minus ? '-' : '+', base.data + minus);
    }
}
