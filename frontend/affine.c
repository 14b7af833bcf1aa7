/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of index variables, and the bounds of their values. */
#include "frontend/affine.h"

enum { MOST_TERMS = 16, MOST_DIVISOR = 1 << 20 };

Dim dim_sub(Func *func, Dim a, Dim b)
{
    return poly_add(func, a, poly_mul(func, poly_const(func, -1), b));
}

static Affine *affine_new(Func *func, Dim base, int n)
{
    Affine *a = arena_alloc(func->arena, sizeof(Affine) + sizeof(AffineTerm) * (size_t)n);
    a->base = base;
    a->n = 0;
    return a;
}

const Affine *affine_const(Func *func, Dim base)
{
    return base ? affine_new(func, base, 0) : NULL;
}

const Affine *affine_var(Func *func, const IndexVar *var)
{
    Affine *a = affine_new(func, poly_const(func, 0), 1);
    a->terms[a->n++] = (AffineTerm){var, poly_const(func, 1)};
    return a;
}

static bool is_zero(Dim dim)
{
    int64_t value;
    return poly_is_const(dim, &value) && value == 0;
}

/* Terms are given by ascending id. */
static bool push_term(Func *func, Affine *to, const IndexVar *var, Dim coef)
{
    if (!coef) {
        return false;
    }
    AffineTerm *last = to->n ? &to->terms[to->n - 1] : NULL;
    if (!last || last->var != var) {
        to->terms[to->n++] = (AffineTerm){var, coef};
    } else {
        last->coef = poly_add(func, last->coef, coef);
    }
    last = &to->terms[to->n - 1];
    if (last->coef && is_zero(last->coef)) {
        to->n--;
    }
    return to->n == 0 || to->terms[to->n - 1].coef;
}

/* a + scale * b */
static const Affine *combine(Func *func, const Affine *a, const Affine *b, int64_t scale)
{
    if (!a || !b || a->n + b->n > MOST_TERMS) {
        return NULL;
    }
    Dim factor = poly_const(func, scale);
    Affine *sum =
        affine_new(func, poly_add(func, a->base, poly_mul(func, factor, b->base)), a->n + b->n);
    bool good = sum->base != NULL;
    for (int i = 0, j = 0; good && (i < a->n || j < b->n);) {
        bool first = j == b->n || (i < a->n && a->terms[i].var->id <= b->terms[j].var->id);
        const AffineTerm *term = first ? &a->terms[i++] : &b->terms[j++];
        Dim coef = first ? term->coef : poly_mul(func, factor, term->coef);
        good = push_term(func, sum, term->var, coef);
    }
    return good ? sum : NULL;
}

const Affine *affine_add(Func *func, const Affine *a, const Affine *b)
{
    return combine(func, a, b, 1);
}

const Affine *affine_sub(Func *func, const Affine *a, const Affine *b)
{
    return combine(func, a, b, -1);
}

const Affine *affine_mul(Func *func, const Affine *a, const Affine *b)
{
    if (!a || !b || (a->n && b->n)) {
        return NULL;
    }
    const Affine *sum = a->n ? a : b;
    Dim factor = a->n ? b->base : a->base;
    Affine *product = affine_new(func, poly_mul(func, sum->base, factor), sum->n);
    bool good = product->base != NULL;
    for (int i = 0; good && i < sum->n; i++) {
        good =
            push_term(func, product, sum->terms[i].var, poly_mul(func, sum->terms[i].coef, factor));
    }
    return good ? product : NULL;
}

const IndexVar *affine_as_var(const Affine *a)
{
    int64_t coef;
    bool one =
        a && a->n == 1 && is_zero(a->base) && poly_is_const(a->terms[0].coef, &coef) && coef == 1;
    return one ? a->terms[0].var : NULL;
}

/* All coefficients are divisible. */
static Dim dim_divided(Func *func, Dim dim, int64_t by)
{
    Dim sum = poly_const(func, 0);
    for (int i = 0; dim && i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        Dim product = poly_const(func, term->coef / by);
        for (int j = 0; j < term->n; j++) {
            product = poly_mul(func, product, poly_var(func, term->vars[j]));
        }
        sum = poly_add(func, sum, product);
    }
    return dim ? sum : NULL;
}

/* A quotient q = of // by is at most of / by: -(m * by) * q is -m * of at least. */
static Dim quotients_down(Func *func, Dim dim)
{
    Dim sum = poly_const(func, 0);
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        Dim product = poly_const(func, term->coef);
        bool used = false;
        for (int j = 0; j < term->n; j++) {
            DimVar *var = term->vars[j];
            bool bounds = !used && var->kind == DIM_SIZE && var->by > 0 && term->coef < 0 &&
                          term->coef % var->by == 0;
            Dim factor = bounds ? var->of : poly_var(func, var);
            product = poly_mul(func, product, factor);
            if (bounds) {
                product = dim_divided(func, product, var->by);
            }
            used = used || bounds;
        }
        sum = poly_add(func, sum, product);
    }
    return sum;
}

/* What makes the coefficients of quotients that are taken away multiples of their divisors. */
static int64_t divisors_of(Dim dim)
{
    int64_t scale = 1;
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        for (int j = 0; j < term->n && term->coef < 0; j++) {
            int64_t by = term->vars[j]->kind == DIM_SIZE ? term->vars[j]->by : 0;
            bool counts = by > 0 && by <= MOST_DIVISOR && scale <= MOST_DIVISOR;
            scale *= counts && term->coef % by * (scale % by) % by != 0 ? by : 1;
        }
    }
    return scale;
}

bool dim_is_natural(Func *func, Dim dim)
{
    if (!dim || poly_least(dim) >= 0) {
        return dim;
    }
    dim = poly_mul(func, dim, poly_const(func, divisors_of(dim)));
    Dim lower = dim ? quotients_down(func, dim) : NULL;
    return lower && lower != dim && poly_least(lower) >= 0;
}

/* Quotients that leave no remainder, by the facts: the product of one with its divisor is what was
 * divided. */
static Dim quotients_exact(Func *func, Dim dim)
{
    Dim sum = poly_const(func, 0);
    for (int i = 0; dim && i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        int64_t coef = term->coef;
        Dim product = poly_const(func, 1);
        for (int j = 0; j < term->n; j++) {
            const DimVar *var = term->vars[j];
            bool whole = var->kind == DIM_SIZE && var->by > 0 && coef % var->by == 0 &&
                         poly_divisor(var->of) % var->by == 0;
            coef = whole ? coef / var->by : coef;
            product = poly_mul(func, product, whole ? var->of : poly_var(func, term->vars[j]));
        }
        sum = poly_add(func, sum, poly_mul(func, product, poly_const(func, coef)));
    }
    return sum;
}

bool dim_same(Func *func, Dim a, Dim b)
{
    Dim rest = a && b && a != b ? quotients_exact(func, dim_sub(func, a, b)) : NULL;
    return a && b && (a == b || (rest && is_zero(rest)));
}

/* What of it is divisible, divided, and the rest. */
static bool divide_terms(Func *func, Dim dim, int64_t by, Dim *whole, Dim *rest)
{
    *whole = *rest = poly_const(func, 0);
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        Dim product = poly_const(func, 1);
        for (int j = 0; j < term->n; j++) {
            product = poly_mul(func, product, poly_var(func, term->vars[j]));
        }
        int64_t times = term->coef / by - (term->coef % by < 0);
        int64_t left = term->coef - times * by;
        if (term->n > 0 && left != 0) { /* kept together: what remains keeps its sign */
            times = 0;
            left = term->coef;
        }
        *whole = poly_add(func, *whole, poly_mul(func, product, poly_const(func, times)));
        *rest = poly_add(func, *rest, poly_mul(func, product, poly_const(func, left)));
    }
    return *whole && *rest;
}

static Dim without_constant(Func *func, Dim dim)
{
    const PolyTerm *first = &dim->terms[0];
    bool constant = dim->n_terms > 0 && first->n == 0;
    return constant ? poly_add(func, dim, poly_const(func, -first->coef)) : dim;
}

Dim dim_quotient(Func *func, Dim a, int64_t by)
{
    Dim whole, rest;
    int64_t value;
    if (!divide_terms(func, a, by, &whole, &rest)) {
        return NULL;
    }
    if (poly_is_const(rest, &value)) {
        return whole; /* 0 <= value < by */
    }
    if (poly_least(rest) < 0) {
        return NULL;
    }
    Dim varying = without_constant(func, rest);
    if (poly_divisor(varying) % by == 0) {
        rest = varying; /* what is beside a multiple is less than `by` */
    }
    return poly_add(func, whole, poly_var(func, func_quotient(func, NULL, rest, by)));
}

static Dim affine_bound(Func *func, const Affine *a, bool most)
{
    Dim sum = a ? a->base : NULL;
    for (int i = 0; sum && i < a->n; i++) {
        const AffineTerm *term = &a->terms[i];
        bool up = dim_is_natural(func, term->coef);
        if (!up && !dim_is_natural(func, dim_sub(func, poly_const(func, 0), term->coef))) {
            return NULL;
        }
        Dim end = up == most ? term->var->most : term->var->least; /* NULL: none */
        sum = poly_add(func, sum, poly_mul(func, term->coef, end));
    }
    return sum;
}

Dim affine_least(Func *func, const Affine *a)
{
    return affine_bound(func, a, false);
}

Dim affine_most(Func *func, const Affine *a)
{
    return affine_bound(func, a, true);
}

bool affine_inside(Func *func, const Affine *a, Dim extent)
{
    Dim least = affine_least(func, a), most = affine_most(func, a);
    Dim room = dim_sub(func, dim_sub(func, extent, poly_const(func, 1)), most);
    return dim_is_natural(func, least) && dim_is_natural(func, room);
}
