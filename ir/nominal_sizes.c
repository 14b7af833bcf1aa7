/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the nominal value of each size that no fact bounds, and evaluates size expressions for
 * these values. The cost models need a number for every extent; the code that is generated never
 * depends on one of these. */
#include "ir/nominal_sizes.h"

#include "support/int_math.h"

/* The least size from `wanted` on for which the facts hold. */
static int64_t fitting(const DimVar *var, int64_t wanted)
{
    int64_t multiple = max_i64(1, var->multiple), least = max_i64(1, var->least);
    int64_t value = max_i64(wanted, least), over = value % multiple;
    return over && value <= INT64_MAX - multiple ? value - over + multiple : value;
}

static int64_t var_nominal(const DimVar *var)
{
    if (var->kind == DIM_RANGE) {
        int64_t whole = var->axis_extent ? poly_nominal(var->axis_extent) : NOMINAL_AXIS;
        return var->capacity > 0 ? min_i64(var->capacity, whole) : whole;
    }
    if (var->most < INT64_MAX) {
        return var->most;
    }
    if (var->kind == DIM_SIZE && var->by > 0) {
        return max_i64(poly_nominal(var->of) / var->by, max_i64(0, var->least));
    }
    return var->nominal > 0 ? var->nominal : fitting(var, NOMINAL_AXIS); /* of a pass */
}

/* False on overflow. */
static bool nominal_value(Dim poly, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < poly->n_terms; i++) {
        const PolyTerm *term = &poly->terms[i];
        int64_t value = term->coef;
        for (int j = 0; j < term->n; j++) {
            if (__builtin_mul_overflow(value, var_nominal(term->vars[j]), &value)) {
                return false;
            }
        }
        if (__builtin_add_overflow(*out, value, out)) {
            return false;
        }
    }
    return true;
}

int64_t poly_nominal(Dim poly)
{
    int64_t most = poly_most(poly), value;
    if (most < INT64_MAX) {
        return most;
    }
    return nominal_value(poly, &value) ? max_i64(0, value) : INT64_MAX;
}

bool poly_is_nominal(Dim poly)
{
    const DimVar *range = poly_as_range(poly);
    return poly_most(range && range->axis_extent ? range->axis_extent : poly) == INT64_MAX;
}

/* ---- the vector ---- */

static bool is_free(const DimVar *var)
{
    return var->kind == DIM_SIZE && var->by == 0 && var->most == INT64_MAX;
}

/* A size that several places have is what the one takes it for that wants most. */
static void choose_by_place(Type type)
{
    for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
        Dim dim = type->dims[axis];
        int64_t wanted = type->rank > 2 && axis == 0 ? NOMINAL_BATCH : NOMINAL_AXIS;
        for (int i = 0; i < dim->n_terms; i++) {
            DimVar *var = dim->terms[i].n ? dim->terms[i].vars[0] : NULL;
            if (var && is_free(var)) {
                var->nominal = max_i64(var->nominal, wanted);
            }
        }
    }
}

static void choose_taps(Dim dim)
{
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        for (int j = 0; j < term->n && term->coef < 0; j++) {
            DimVar *var = term->vars[j];
            var->nominal = is_free(var) ? NOMINAL_TAPS : var->nominal;
        }
    }
}

static int64_t count_elements(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n = mul_sat(n, max_i64(1, poly_nominal(type->dims[i])));
    }
    return n;
}

/* Elements of the largest tensor that has the size. */
static int64_t largest_with(const Func *func, const DimVar *var)
{
    int64_t most = 0;
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = param_given(&func->params.items[i]);
        bool has = false;
        for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
            has = has || poly_mentions(type->dims[axis], var);
        }
        most = has ? max_i64(most, count_elements(type)) : most;
    }
    return most;
}

/* The longest axis of few rows, or a vector, is so long that the device is busy. */
static void lengthen(const Func *func, Type type)
{
    DimVar *longest = NULL;
    for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
        DimVar *var = poly_as_var(type->dims[axis]);
        bool longer = var && is_free(var) && (!longest || var->nominal > longest->nominal);
        longest = longer ? var : longest;
    }
    while (longest && longest->nominal < NOMINAL_ELEMENTS &&
           largest_with(func, longest) < NOMINAL_ELEMENTS) {
        longest->nominal = fitting(longest, longest->nominal * 2);
    }
}

/* The size to make less, or more, so that the sum is less: the greatest that may change. */
static DimVar *greatest_in(Dim sum, bool positive, bool shrinks)
{
    DimVar *found = NULL;
    for (int i = 0; i < sum->n_terms; i++) {
        const PolyTerm *term = &sum->terms[i];
        for (int j = 0; j < term->n && (term->coef > 0) == positive; j++) {
            DimVar *var = term->vars[j];
            bool can = is_free(var) && (!shrinks || fitting(var, var->nominal / 2) < var->nominal);
            found = can && (!found || var->nominal > found->nominal) ? var : found;
        }
    }
    return found;
}

/* A defined size is at least 0, or what facts say: of two that are subtracted the second becomes
 * less, or else the first one more. That is how facts about sums are written, too. */
static void hold_fact(const DimVar *fact)
{
    enum { MAX_CHANGES = 64 };
    int64_t least = max_i64(0, fact->least);
    for (int i = 0; i < MAX_CHANGES; i++) {
        int64_t value = 0;
        bool low = !nominal_value(fact->of, &value) || value / fact->by < least || value < 0;
        bool high = !low && fact->most < INT64_MAX && value / fact->by > fact->most;
        DimVar *less = low || high ? greatest_in(fact->of, high, true) : NULL;
        DimVar *more = low && !less ? greatest_in(fact->of, true, false) : NULL;
        if (less) {
            less->nominal = fitting(less, less->nominal / 2);
        } else if (more && more->nominal < INT32_MAX) {
            more->nominal = fitting(more, more->nominal * 2);
        } else {
            return;
        }
    }
}

void nominal_sizes_choose(Func *func)
{
    for (size_t i = 0; i < func->params.n; i++) {
        choose_by_place(param_given(&func->params.items[i]));
    }
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = param_given(&func->params.items[i]);
        for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
            choose_taps(type->dims[axis]);
        }
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->by > 0 && !var->unnamed) {
            choose_taps(var->of);
        }
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (is_free(var)) {
            var->nominal = fitting(var, var->nominal > 0 ? var->nominal : NOMINAL_AXIS);
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        lengthen(func, param_given(&func->params.items[i]));
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->by > 0) {
            hold_fact(var);
        }
    }
}
