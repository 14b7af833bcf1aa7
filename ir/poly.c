/* SPDX-License-Identifier: Apache-2.0 */
/* Polynomials over size variables. A polynomial under construction is a Sum: terms in any order,
 * like terms not yet merged; poly_intern sorts, merges and finds the existing equal one. */
#include "ir/poly.h"

#include "ir/interns.h"

#include <limits.h>
#include <string.h>

typedef struct Sum {
    Arena *arena;
    struct {
        PolyTerm *items;
        size_t n, cap;
    } terms;
} Sum;

/* Constant first, then by degree, then by the variables' ids. */
static int term_compare(const PolyTerm *a, const PolyTerm *b)
{
    if (a->n != b->n) {
        return a->n < b->n ? -1 : 1;
    }
    for (int i = 0; i < a->n; i++) {
        if (a->vars[i]->id != b->vars[i]->id) {
            return a->vars[i]->id < b->vars[i]->id ? -1 : 1;
        }
    }
    return 0;
}

static void sort_terms(PolyTerm *terms, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        PolyTerm moving = terms[i];
        size_t at = i;
        while (at > 0 && term_compare(&terms[at - 1], &moving) > 0) {
            terms[at] = terms[at - 1];
            at--;
        }
        terms[at] = moving;
    }
}

/* Adds up like terms of a sorted list and drops zeros. Returns the new length, or -1 on
 * overflow. */
static int merge_terms(PolyTerm *terms, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && term_compare(&terms[kept - 1], &terms[i]) == 0) {
            int64_t *coef = &terms[kept - 1].coef;
            if (__builtin_add_overflow(*coef, terms[i].coef, coef)) {
                return -1;
            }
        } else {
            terms[kept++] = terms[i];
        }
    }
    size_t out = 0;
    for (size_t i = 0; i < kept; i++) {
        if (terms[i].coef != 0) {
            terms[out++] = terms[i];
        }
    }
    return (int)out;
}

typedef struct Terms {
    const PolyTerm *items;
    int n;
} Terms;

static bool same_terms(const void *item, const void *key)
{
    const Poly *poly = item;
    const Terms *terms = key;
    if (poly->n_terms != terms->n) {
        return false;
    }
    for (int i = 0; i < terms->n; i++) {
        const PolyTerm *mine = &poly->terms[i], *other = &terms->items[i];
        if (mine->coef != other->coef || term_compare(mine, other) != 0) {
            return false;
        }
    }
    return true;
}

static uint64_t hash_terms(const Terms *terms)
{
    uint64_t hash = (uint64_t)terms->n;
    for (int i = 0; i < terms->n; i++) {
        const PolyTerm *term = &terms->items[i];
        hash = hash_word(hash_word(hash, (uint64_t)term->coef), term->n);
        for (int j = 0; j < term->n; j++) {
            hash = hash_word(hash, term->vars[j]->id);
        }
    }
    return hash;
}

static Dim poly_intern(Func *func, PolyTerm *terms, size_t count)
{
    sort_terms(terms, count);
    int n = merge_terms(terms, count);
    if (n < 0 || n > UINT16_MAX) {
        return NULL;
    }
    Terms key = {terms, n};
    uint64_t hash = hash_terms(&key);
    Poly *poly = table_find(&func->interns->polys, hash, same_terms, &key);
    if (poly) {
        return poly;
    }
    size_t bytes = sizeof(PolyTerm) * (size_t)n;
    poly = arena_alloc(func->arena, sizeof(Poly) + bytes);
    poly->n_terms = (uint16_t)n;
    memcpy(poly->terms, terms, bytes);
    table_add(func->arena, &func->interns->polys, hash, poly);
    return poly;
}

Dim poly_const(Func *func, int64_t value)
{
    PolyTerm term = {.coef = value};
    return poly_intern(func, &term, 1);
}

Dim poly_var(Func *func, DimVar *var)
{
    PolyTerm term = {.coef = 1, .n = 1, .vars = {var}};
    return poly_intern(func, &term, 1);
}

Dim poly_add(Func *func, Dim a, Dim b)
{
    if (!a || !b) {
        return NULL;
    }
    Sum sum = {.arena = func->arena};
    for (int i = 0; i < a->n_terms; i++) {
        ARENA_PUSH(func->arena, &sum.terms, a->terms[i]);
    }
    for (int i = 0; i < b->n_terms; i++) {
        ARENA_PUSH(func->arena, &sum.terms, b->terms[i]);
    }
    return poly_intern(func, sum.terms.items, sum.terms.n);
}

static bool term_mul(const PolyTerm *a, const PolyTerm *b, PolyTerm *out)
{
    if (a->n + b->n > MAX_DEGREE || __builtin_mul_overflow(a->coef, b->coef, &out->coef)) {
        return false;
    }
    out->n = (uint8_t)(a->n + b->n);
    for (int i = 0, at_a = 0, at_b = 0; i < out->n; i++) {
        bool take_a = at_b == b->n || (at_a < a->n && a->vars[at_a]->id <= b->vars[at_b]->id);
        out->vars[i] = take_a ? a->vars[at_a++] : b->vars[at_b++];
    }
    return true;
}

Dim poly_mul(Func *func, Dim a, Dim b)
{
    if (!a || !b) {
        return NULL;
    }
    Sum sum = {.arena = func->arena};
    for (int i = 0; i < a->n_terms; i++) {
        for (int j = 0; j < b->n_terms; j++) {
            PolyTerm term = {0};
            if (!term_mul(&a->terms[i], &b->terms[j], &term)) {
                return NULL;
            }
            ARENA_PUSH(func->arena, &sum.terms, term);
        }
    }
    return poly_intern(func, sum.terms.items, sum.terms.n);
}

bool poly_is_const(Dim poly, int64_t *value)
{
    if (poly->n_terms > 1 || (poly->n_terms == 1 && poly->terms[0].n > 0)) {
        return false;
    }
    *value = poly->n_terms == 1 ? poly->terms[0].coef : 0;
    return true;
}

bool poly_is_number(Dim poly, int64_t number)
{
    int64_t value;
    return poly && poly_is_const(poly, &value) && value == number;
}

DimVar *poly_as_var(Dim poly)
{
    bool is_var = poly->n_terms == 1 && poly->terms[0].n == 1 && poly->terms[0].coef == 1;
    return is_var ? poly->terms[0].vars[0] : NULL;
}

DimVar *poly_as_range(Dim poly)
{
    DimVar *var = poly_as_var(poly);
    return var && var->kind == DIM_RANGE ? var : NULL;
}

const DimVar *poly_name_giver(Dim poly)
{
    const PolyTerm *longest = NULL;
    for (int i = 0; i < poly->n_terms; i++) {
        const PolyTerm *term = &poly->terms[i];
        bool longer = term->coef > 0 && term->n > 0 && (!longest || term->n > longest->n);
        longest = longer ? term : longest;
    }
    return longest ? longest->vars[longest->n - 1] : NULL;
}

int64_t size_if_fixed(const DimVar *var)
{
    bool one = var->kind == DIM_SIZE && var->by == 0 && var->least >= 1 && var->most < INT32_MAX &&
               var->multiple == var->most;
    return one ? var->most : 0;
}

bool poly_mentions(Dim poly, const DimVar *var)
{
    for (int i = 0; i < poly->n_terms; i++) {
        for (int j = 0; j < poly->terms[i].n; j++) {
            if (poly->terms[i].vars[j] == var) {
                return true;
            }
        }
    }
    return false;
}

static Dim substitute_term(Func *func, const PolyTerm *term, const DimVar *var, Dim by)
{
    Dim product = poly_const(func, term->coef);
    for (int i = 0; i < term->n; i++) {
        DimVar *factor = term->vars[i];
        product = poly_mul(func, product, factor == var ? by : poly_var(func, factor));
    }
    return product;
}

Dim poly_substitute(Func *func, Dim poly, const DimVar *var, Dim by)
{
    if (!poly_mentions(poly, var)) {
        return poly;
    }
    Dim sum = poly_const(func, 0);
    for (int i = 0; i < poly->n_terms; i++) {
        sum = poly_add(func, sum, substitute_term(func, &poly->terms[i], var, by));
    }
    return sum;
}

/* ---- facts ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* Divides the term's value; a product that overflows is cut off, which still divides. */
static uint64_t term_divisor(const PolyTerm *term)
{
    uint64_t divisor = magnitude(term->coef);
    for (int i = 0; i < term->n; i++) {
        const DimVar *var = term->vars[i];
        uint64_t multiple = var->kind != DIM_RANGE ? magnitude(var->multiple) : 1;
        uint64_t product;
        if (multiple > 1 && !__builtin_mul_overflow(divisor, multiple, &product)) {
            divisor = product;
        }
    }
    return divisor;
}

int64_t poly_divisor(Dim poly)
{
    uint64_t divisor = 0;
    for (int i = 0; i < poly->n_terms; i++) {
        divisor = gcd(divisor, term_divisor(&poly->terms[i]));
    }
    if (divisor == 1 && poly->n_terms > 1) { /* together they may be a number that is known */
        int64_t most = poly_most(poly);
        divisor = most > 1 && most < INT64_MAX && poly_least(poly) == most ? (uint64_t)most : 1;
    }
    /* Everything divides zero; one large power of two says so without being zero itself. */
    bool as_zero = divisor == 0 || divisor > INT64_MAX;
    return as_zero ? (int64_t)1 << 62 : (int64_t)divisor;
}

static int64_t var_most(const DimVar *var)
{
    if (var->kind == DIM_SIZE && var->by > 0) {
        int64_t of = poly_most(var->of), most = of / var->by;
        return of < INT64_MAX && most < var->most ? most : var->most;
    }
    if (var->kind != DIM_RANGE) {
        return var->most;
    }
    int64_t whole = var->axis_extent ? poly_most(var->axis_extent) : INT64_MAX;
    return var->capacity > 0 && var->capacity < whole ? var->capacity : whole;
}

/* A size that is a multiple of 8, and not 0, is 8 or more. */
static int64_t var_least(const DimVar *var)
{
    if (var->kind != DIM_SIZE) {
        return var->kind != DIM_RANGE && var->least > 0 ? var->least : 0;
    }
    int64_t least = var->least > 0 ? var->least : 0;
    if (var->by > 0) {
        int64_t of = poly_least(var->of);
        least = of / var->by > least ? of / var->by : least;
    }
    int64_t over = var->multiple > 1 ? least % var->multiple : 0;
    return over ? least - over + var->multiple : least;
}

/* The product of the factors' bounds; false when there is none. */
static bool factors_bound(const PolyTerm *term, bool most, int64_t *out)
{
    int64_t product = 1;
    for (int i = 0; i < term->n; i++) {
        if (term->vars[i]->kind == DIM_STRIDE && term->vars[i]->least < 0) {
            return false;
        }
        int64_t bound = most ? var_most(term->vars[i]) : var_least(term->vars[i]);
        if (bound == INT64_MAX || __builtin_mul_overflow(product, bound, &product)) {
            return false;
        }
    }
    *out = product;
    return true;
}

/* Variables are never negative (of strides that are, nothing is known), so a term's extremes are at
 * its factors' extremes. */
static int64_t poly_bound(Dim poly, bool most, int64_t none)
{
    int64_t sum = 0;
    for (int i = 0; i < poly->n_terms; i++) {
        const PolyTerm *term = &poly->terms[i];
        int64_t factors;
        int64_t value;
        if (!factors_bound(term, (term->coef > 0) == most, &factors) ||
            __builtin_mul_overflow(term->coef, factors, &value) ||
            __builtin_add_overflow(sum, value, &sum)) {
            return none;
        }
    }
    return sum;
}

int64_t poly_most(Dim poly)
{
    return poly_bound(poly, true, INT64_MAX);
}

int64_t poly_least(Dim poly)
{
    return poly_bound(poly, false, INT64_MIN);
}

int64_t poly_exact(Dim poly)
{
    int64_t most = poly_most(poly);
    return poly_least(poly) == most ? most : -1;
}

int64_t poly_capacity(Dim poly)
{
    int64_t value;
    if (poly_is_const(poly, &value)) {
        return value;
    }
    const DimVar *range = poly_as_range(poly);
    return range && range->capacity > 0 ? range->capacity : -1;
}

bool poly_eval(Dim poly, const int64_t *sizes, int64_t *out)
{
    int64_t sum = 0;
    for (int i = 0; i < poly->n_terms; i++) {
        const PolyTerm *term = &poly->terms[i];
        int64_t value = term->coef;
        for (int j = 0; j < term->n; j++) {
            if (__builtin_mul_overflow(value, sizes[term->vars[j]->id], &value)) {
                return false;
            }
        }
        if (__builtin_add_overflow(sum, value, &sum)) {
            return false;
        }
    }
    *out = sum;
    return true;
}

/* ---- solving ---- */

/* The term is factor * unknown, where unknown is NULL for a known term. False: something else. */
static bool term_split(const PolyTerm *term, const int64_t *sizes, const DimVar **unknown,
                       int64_t *factor)
{
    *unknown = NULL;
    *factor = term->coef;
    for (int i = 0; i < term->n; i++) {
        const DimVar *var = term->vars[i];
        bool known = sizes[var->id] >= 0;
        if ((!known && *unknown) ||
            (known && __builtin_mul_overflow(*factor, sizes[var->id], factor))) {
            return false;
        }
        *unknown = known ? *unknown : var;
    }
    return true;
}

Solved poly_solve(Dim poly, const int64_t *sizes, int64_t value, const DimVar **var, int64_t *out)
{
    int64_t slope = 0, rest = value;
    *var = NULL;
    for (int i = 0; i < poly->n_terms; i++) {
        const DimVar *unknown;
        int64_t factor;
        if (!term_split(&poly->terms[i], sizes, &unknown, &factor) ||
            (unknown && *var && unknown != *var) ||
            (unknown ? __builtin_add_overflow(slope, factor, &slope)
                     : __builtin_sub_overflow(rest, factor, &rest))) {
            return SOLVE_OPEN;
        }
        *var = unknown ? unknown : *var;
    }
    if (!*var || slope == 0) {
        return SOLVE_OPEN;
    }
    bool whole = slope == -1 ? rest > INT64_MIN : rest % slope == 0;
    *out = whole ? rest / slope : -1;
    return *out >= 0 ? SOLVE_FOUND : SOLVE_NEVER;
}
