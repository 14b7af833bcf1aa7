/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs about size expressions. Each fact is a polynomial that is never negative: an extent of a
 * parameter, the dividend of a quotient (a launch refuses a negative one), and the two bounds of a
 * quotient q = of // by: by * q <= of < by * q + by. To prove that a polynomial is at least 0, the
 * search subtracts positive multiples of facts from it until the rest is at least 0 by the bounds
 * of its sizes. This is a search for a certificate as in Farkas' lemma, cut off at a small depth.
 */
#include "frontend/size_proofs.h"

#include "support/int_math.h"

enum {
    MAX_PROOF_DEPTH = 4,  /* facts in one proof; sums of windows need three */
    MAX_PROOF_TERMS = 24, /* of a polynomial on the way: longer ones are given up */
};

typedef struct Facts {
    Func *func;
    struct {
        Dim *items;
        size_t n, cap;
    } natural;
} Facts;

static Dim times(Func *func, Dim dim, int64_t factor)
{
    return poly_mul(func, dim, poly_const(func, factor));
}

Dim dim_sub(Func *func, Dim a, Dim b)
{
    return poly_add(func, a, times(func, b, -1));
}

static void add_fact(Facts *facts, Dim dim)
{
    if (dim && poly_least(dim) < 0) { /* else it follows from the bounds of its sizes */
        ARENA_PUSH(facts->func->arena, &facts->natural, dim);
    }
}

static Facts collect_facts(Func *func)
{
    Facts facts = {.func = func};
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->by > 0) {
            Dim multiple = times(func, poly_var(func, var), var->by);
            Dim above =
                poly_add(func, dim_sub(func, multiple, var->of), poly_const(func, var->by - 1));
            add_fact(&facts, var->of);
            add_fact(&facts, dim_sub(func, var->of, multiple));
            add_fact(&facts, above);
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = func->params.items[i].value->type;
        for (int k = 0; type->kind == TYPE_TENSOR && k < type->rank; k++) {
            add_fact(&facts, type->dims[k]);
        }
    }
    return facts;
}

/* ---- proofs ---- */

/* The product of the factors that `term` has beyond those of `of`; NULL if it lacks one of those,
 * or if one that it has beyond them may be negative. */
static Dim cofactor(Func *func, const PolyTerm *term, const PolyTerm *of)
{
    Dim product = poly_const(func, 1);
    int taken = 0;
    for (int i = 0; i < term->n; i++) {
        if (taken < of->n && term->vars[i] == of->vars[taken]) {
            taken++;
        } else if (term->vars[i]->kind == DIM_STRIDE) {
            return NULL;
        } else {
            product = poly_mul(func, product, poly_var(func, term->vars[i]));
        }
    }
    return taken == of->n ? product : NULL;
}

/* dim and the fact, both times positive numbers, subtracted so that the negative term is gone; NULL
 * where the fact does not have it. Of the fact's terms the one counts that leaves least to add. */
static Dim without_term(Func *func, Dim dim, const PolyTerm *term, Dim fact)
{
    const PolyTerm *best = NULL;
    Dim rest = NULL;
    for (int i = 0; i < fact->n_terms; i++) {
        const PolyTerm *of = &fact->terms[i];
        bool better = of->coef < 0 && of->coef > INT64_MIN && (!best || of->n > best->n);
        Dim extra = better ? cofactor(func, term, of) : NULL;
        if (extra) {
            best = of;
            rest = extra;
        }
    }
    if (!best) {
        return NULL;
    }
    int64_t common = gcd(-term->coef, -best->coef);
    Dim taken = times(func, poly_mul(func, fact, rest), -term->coef / common);
    return dim_sub(func, times(func, dim, -best->coef / common), taken);
}

/* The term that bounds of sizes do not bound from below; the first negative one where all are. */
static const PolyTerm *unbounded_term(Func *func, Dim dim)
{
    const PolyTerm *negative = NULL;
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        if (term->coef >= 0) {
            continue;
        }
        Dim alone = poly_const(func, term->coef);
        for (int k = 0; k < term->n; k++) {
            alone = poly_mul(func, alone, poly_var(func, term->vars[k]));
        }
        if (!alone || poly_least(alone) == INT64_MIN) {
            return term;
        }
        negative = negative ? negative : term;
    }
    return negative;
}

static bool prove(const Facts *facts, Dim dim, int depth)
{
    if (!dim || dim->n_terms > MAX_PROOF_TERMS) {
        return false;
    }
    if (poly_least(dim) >= 0) {
        return true;
    }
    const PolyTerm *term = depth > 0 ? unbounded_term(facts->func, dim) : NULL;
    for (size_t i = 0; term && term->coef > INT64_MIN && i < facts->natural.n; i++) {
        Dim rest = without_term(facts->func, dim, term, facts->natural.items[i]);
        if (rest && prove(facts, rest, depth - 1)) {
            return true;
        }
    }
    return false;
}

bool dim_is_natural(Func *func, Dim dim)
{
    if (!dim || poly_least(dim) >= 0) {
        return dim;
    }
    Facts facts = collect_facts(func);
    return prove(&facts, dim, MAX_PROOF_DEPTH);
}

void dim_assume_natural(Func *func, Dim dim)
{
    func_quotient(func, NULL, dim, 1);
}

/* ---- quotients ---- */

/* Does by divide what is divided, by the facts? `given` does whatever they say. */
static bool is_exact(Func *func, const DimVar *var, const DimVar *given)
{
    if (var->kind != DIM_SIZE || var->by <= 0) {
        return false;
    }
    bool exact = var == given || poly_divisor(var->of) % var->by == 0;
    for (size_t i = 0; i < func->dimvars.n && !exact; i++) {
        const DimVar *same = func->dimvars.items[i]; /* what an `assume` says of the sum itself */
        exact = same->kind == DIM_SIZE && same->by == 1 && same->of == var->of &&
                same->multiple % var->by == 0;
    }
    return exact;
}

static Dim exact_with(Func *func, Dim dim, const DimVar *given)
{
    Dim sum = poly_const(func, 0);
    for (int i = 0; dim && i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        int64_t coef = term->coef;
        Dim product = poly_const(func, 1);
        for (int j = 0; j < term->n; j++) {
            DimVar *var = term->vars[j];
            bool whole = is_exact(func, var, given) && coef % var->by == 0;
            coef = whole ? coef / var->by : coef;
            product = poly_mul(func, product, whole ? var->of : poly_var(func, var));
        }
        sum = poly_add(func, sum, times(func, product, coef));
    }
    return dim ? sum : NULL;
}

/* The polynomial with by * q for what q divides without remainder: N - N // 2 is N // 2 under
 * N % 2 == 0. Solved for the last size of what is divided that stands in it alone. */
static Dim expanded(Func *func, Dim dim, DimVar *q)
{
    for (int i = q->of->n_terms; i-- > 0;) {
        const PolyTerm *term = &q->of->terms[i];
        bool alone = term->n == 1 && (term->coef == 1 || term->coef == -1);
        Dim size = alone ? poly_var(func, term->vars[0]) : NULL;
        Dim rest = alone ? dim_sub(func, q->of, times(func, size, term->coef)) : NULL;
        if (rest && !poly_mentions(rest, term->vars[0]) && poly_mentions(dim, term->vars[0])) {
            Dim whole = dim_sub(func, times(func, poly_var(func, q), q->by), rest);
            whole = times(func, whole, term->coef);
            Dim found = whole ? poly_substitute(func, dim, term->vars[0], whole) : NULL;
            return found ? found : dim; /* NULL: a coefficient overflows */
        }
    }
    return dim;
}

static bool mentions_what_it_divides(Dim dim, const DimVar *q)
{
    bool found = false;
    for (int i = 0; i < q->of->n_terms && !found; i++) {
        for (int k = 0; k < q->of->terms[i].n && !found; k++) {
            found = poly_mentions(dim, q->of->terms[i].vars[k]);
        }
    }
    return found;
}

Dim dim_exact(Func *func, Dim dim)
{
    const Dim given = dim;
    for (size_t i = 0; dim && i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (poly_mentions(dim, var) && is_exact(func, var, NULL) &&
            mentions_what_it_divides(dim, var)) {
            dim = expanded(func, dim, var);
        }
    }
    Dim exact = exact_with(func, dim, NULL);
    return exact ? exact : given;
}

bool dim_same(Func *func, Dim a, Dim b)
{
    return a && b && (a == b || poly_is_number(dim_exact(func, dim_sub(func, a, b)), 0));
}

Dim dim_same_if_divisible(Func *func, Dim a, Dim b, int64_t *by)
{
    Dim difference = a && b ? dim_sub(func, a, b) : NULL;
    for (int i = 0; difference && i < difference->n_terms; i++) {
        const PolyTerm *term = &difference->terms[i];
        for (int j = 0; j < term->n; j++) {
            const DimVar *var = term->vars[j];
            if (var->kind == DIM_SIZE && var->by > 0 &&
                poly_is_number(exact_with(func, difference, var), 0)) {
                *by = var->by;
                return var->of;
            }
        }
    }
    return NULL;
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
        int64_t quotient = term->coef / by - (term->coef % by < 0);
        int64_t left = term->coef - quotient * by;
        if (term->n > 0 && left != 0) { /* kept together: what remains keeps its sign */
            quotient = 0;
            left = term->coef;
        }
        *whole = poly_add(func, *whole, times(func, product, quotient));
        *rest = poly_add(func, *rest, times(func, product, left));
    }
    return *whole && *rest;
}

static Dim without_constant(Func *func, Dim dim)
{
    const PolyTerm *first = &dim->terms[0];
    bool constant = dim->n_terms > 0 && first->n == 0;
    return constant ? poly_add(func, dim, poly_const(func, -first->coef)) : dim;
}

/* The same quotient of what differs by a multiple of `by`, as (N + 2) // 2 and N // 2: one size
 * stands for all of them, so that they are equal where they are. */
static Dim known_quotient(Func *func, Dim of, int64_t by)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        Dim difference = var->kind == DIM_SIZE && var->by == by ? dim_sub(func, of, var->of) : NULL;
        Dim whole, rest;
        if (difference && divide_terms(func, difference, by, &whole, &rest) &&
            poly_is_number(rest, 0)) {
            return poly_add(func, whole, poly_var(func, var));
        }
    }
    return NULL;
}

/* a // by = whole + rest // by, where `rest` has no term that `by` divides; what is added to a
 * multiple of `by` and is less than it is left out. */
static bool split_quotient(Func *func, Dim a, int64_t by, Dim *whole, Dim *rest)
{
    if (!a || !divide_terms(func, a, by, whole, rest)) {
        return false;
    }
    Dim varying = without_constant(func, *rest);
    if (poly_is_number(varying, 0) || poly_divisor(varying) % by == 0) {
        *rest = varying;
    }
    return true;
}

Dim dim_quotient(Func *func, Dim a, int64_t by)
{
    Dim whole, rest;
    if (!split_quotient(func, a, by, &whole, &rest)) {
        return NULL;
    }
    if (poly_is_number(rest, 0)) {
        return whole;
    }
    Dim known = known_quotient(func, rest, by);
    if (!known && dim_is_natural(func, rest)) {
        known = poly_var(func, func_quotient(func, NULL, rest, by));
    }
    return known ? poly_add(func, whole, known) : NULL;
}

Dim dim_defined_quotient(Func *func, const char *name, Dim a, int64_t by)
{
    Dim whole, rest;
    if (split_quotient(func, a, by, &whole, &rest) && poly_is_number(rest, 0)) {
        dim_assume_natural(func, whole);
        return whole;
    }
    Dim known = known_quotient(func, a, by);
    return known ? known : poly_var(func, func_quotient(func, name, a, by));
}
