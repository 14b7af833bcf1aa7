/* SPDX-License-Identifier: Apache-2.0 */
/* Affine forms of index values: sums of index variables with size coefficients, and the bounds of
 * such sums. */
#include "frontend/index_affine.h"

enum { MAX_TERMS = 16 };

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
    if (last->coef && poly_is_number(last->coef, 0)) {
        to->n--;
    }
    return to->n == 0 || to->terms[to->n - 1].coef;
}

/* a + scale * b */
static const Affine *combine(Func *func, const Affine *a, const Affine *b, int64_t scale)
{
    if (!a || !b || a->n + b->n > MAX_TERMS) {
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
    bool one = a && a->n == 1 && poly_is_number(a->base, 0) &&
               poly_is_const(a->terms[0].coef, &coef) && coef == 1;
    return one ? a->terms[0].var : NULL;
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
    Dim difference = dim_sub(func, dim_sub(func, extent, poly_const(func, 1)), most);
    return dim_is_natural(func, least) && dim_is_natural(func, difference);
}
