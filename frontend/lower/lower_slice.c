/* SPDX-License-Identifier: Apache-2.0 */
/* Slices x[a: b: step]: a part of an axis, every step-th element of it, or in reverse order. The
 * ends are size expressions, so that the extent is one, too; a negative number counts from the end
 * of the axis. */
#include "frontend/lower/lower_index.h"

/* ---- extents ---- */

Dim dim_divided(Func *func, Dim dim, int64_t by)
{
    Dim sum = poly_const(func, 0);
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        if (by == 0 || term->coef % by) {
            return NULL;
        }
        Dim product = poly_const(func, term->coef / by);
        for (int k = 0; k < term->n; k++) {
            product = poly_mul(func, product, poly_var(func, term->vars[k]));
        }
        sum = poly_add(func, sum, product);
    }
    return sum;
}

/* How many of `n` elements every step-th is, rounded up: where no size expression says it without a
 * quotient, a quotient as a size of its own, which is D // 2 of D under D % 2 == 0. NULL: none. */
static Dim strided_count(Lower *l, Dim n, int64_t step)
{
    int64_t known;
    if (poly_is_const(n, &known)) {
        int64_t up = known + step - 1;
        return poly_const(l->func, up / step - (up % step < 0));
    }
    Dim count = NULL;
    for (int64_t more = 0; more < step && more < 64 && !count; more++) {
        count = dim_divided(l->func, poly_add(l->func, n, poly_const(l->func, more)), step);
    }
    Dim most = count ? NULL : poly_add(l->func, n, poly_const(l->func, step - 1));
    return count || !most ? count : dim_quotient(l->func, most, step);
}

/* ---- ends ---- */

typedef struct Slice {
    Dim first, past; /* elements first <= i < past, from whichever end it is walked */
    int64_t step;
} Slice;

static bool slice_end(Lower *l, const Expr *expr, Dim extent, Dim *out)
{
    Val val = lower_expr(l, expr);
    if (val.kind == VAL_DIM) {
        *out = val.dim;
        return true;
    }
    if (val.kind == VAL_CONST && dtype_is_int(val.dtype)) {
        Dim at = poly_const(l->func, val.scalar.i);
        *out = val.scalar.i < 0 ? poly_add(l->func, extent, at) : at;
        return *out != NULL;
    }
    if (!is_poison(&val)) {
        Diag *diag =
            lower_error(l, ERR_SLICE, expr->span, "an end of a slice is a size expression, not %s",
                        val_text(l, &val));
        diag_help(l->diags, diag,
                  "where it begins at an element that is computed, write indices: "
                  "`y[i] = (x[first + i] else 0)`");
    }
    return false;
}

static bool slice_step(Lower *l, const Expr *expr, int64_t *step)
{
    *step = 1;
    if (expr && !const_int(l, expr, step)) {
        return false;
    }
    if (*step == 0 || *step == INT64_MIN) {
        lower_error(l, ERR_SLICE, expr->span, "a step is a number other than 0");
        return false;
    }
    return true;
}

/* Backwards the first end is the later one: x[a: b: -1] has elements b < i <= a. */
static bool slice_ends(Lower *l, const Expr *expr, Dim extent, Slice *slice)
{
    bool back = slice->step < 0;
    const Expr *low = back ? expr->b : expr->a, *high = back ? expr->a : expr->b;
    Dim one = poly_const(l->func, 1);
    slice->first = poly_const(l->func, 0);
    slice->past = extent;
    if (low && !slice_end(l, low, extent, &slice->first)) {
        return false;
    }
    if (high && !slice_end(l, high, extent, &slice->past)) {
        return false;
    }
    slice->first = back && low ? poly_add(l->func, slice->first, one) : slice->first;
    slice->past = back && high ? poly_add(l->func, slice->past, one) : slice->past;
    return slice->first && slice->past;
}

/* The assumption about one size that would prove the slice, as `N >= 5`; NULL if there is none. */
static const char *rule_for(Lower *l, Dim extent, const Slice *slice)
{
    Dim parts[] = {slice->first, dim_sub(l->func, slice->past, slice->first),
                   dim_sub(l->func, extent, slice->past)};
    const DimVar *size = NULL;
    int64_t most = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int64_t least;
        bool natural = parts[i] && dim_is_natural(l->func, parts[i]);
        const DimVar *var = !natural && parts[i] ? single_size(parts[i], &least) : NULL;
        if (!natural && (!var || (size && var != size))) {
            return NULL;
        }
        size = var ? var : size;
        most = var && least > most ? least : most;
    }
    return size ? arena_printf(l->arena, "%s >= %lld", size->name, (long long)most) : NULL;
}

/* The first comparison of sizes that is not known to hold; NULL where none can be written. */
static const char *comparison_for(Lower *l, Dim extent, const Slice *slice, Dim count)
{
    if (!count) {
        return NULL;
    }
    if (!dim_is_natural(l->func, slice->first)) {
        return arena_printf(l->arena, "%s >= 0", dim_text(l, slice->first));
    }
    Dim low = dim_is_natural(l->func, count) ? slice->past : slice->first;
    Dim high = low == slice->past ? extent : slice->past;
    return poly_most(dim_sub(l->func, high, low)) < 0
               ? NULL
               : arena_printf(l->arena, "%s <= %s", dim_text(l, low), dim_text(l, high));
}

static bool check_slice(Lower *l, const Expr *expr, Dim extent, const Slice *slice)
{
    Dim length = dim_sub(l->func, slice->past, slice->first);
    Dim remainder = dim_sub(l->func, extent, slice->past);
    /* x[1::2] of 0 elements: -1 of them, in steps of 2, are none. */
    Dim count = length && slice->step > 1 ? strided_count(l, length, slice->step) : NULL;
    count = count ? count : length;
    if (dim_is_natural(l->func, slice->first) && count && dim_is_natural(l->func, count) &&
        remainder && dim_is_natural(l->func, remainder)) {
        return true;
    }
    const char *rule = rule_for(l, extent, slice);
    rule = rule ? rule : comparison_for(l, extent, slice, count);
    Diag *diag =
        lower_error(l, ERR_SLICE, expr->span, "this slice is not provably a part of an axis of %s",
                    dim_text(l, extent));
    diag_note(l->diags, diag, "it is elements %s to %s", dim_text(l, slice->first),
              dim_text(l, dim_sub(l->func, slice->past, poly_const(l->func, 1))));
    if (rule) {
        diag_help(l->diags, diag, "if the axis always is that long: `assume %s`", rule);
        lower_fix_assume(l, diag, rule);
    } else {
        diag_help(l->diags, diag, "say with `assume` how long the axis is, or choose other ends");
    }
    return false;
}

/* ---- indices ---- */

static Val arithmetic(Lower *l, OpKind kind, Val a, Val b)
{
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    return apply_binary(l, &none, kind, NULL, &a, &b, &none, &none);
}

bool lower_slice(Lower *l, const Expr *expr, AxisIndex *axis_index)
{
    Slice slice = {.step = 1};
    if (!slice_step(l, expr->c, &slice.step) || !slice_ends(l, expr, axis_index->extent, &slice) ||
        !check_slice(l, expr, axis_index->extent, &slice)) {
        return false;
    }
    int64_t stride = slice.step < 0 ? -slice.step : slice.step;
    Dim length = dim_exact(l->func, dim_sub(l->func, slice.past, slice.first));
    Dim count = strided_count(l, length, stride);
    if (!count) {
        Diag *diag = lower_error(l, ERR_SLICE, expr->span,
                                 "%s elements in steps of %lld: how many is no size expression",
                                 dim_text(l, length), (long long)stride);
        diag_help(l->diags, diag,
                  "write indices, with the result's extent in the signature: `y[i] = x[%lld*i]`",
                  (long long)slice.step);
        return false;
    }
    Dim last = dim_sub(l->func, slice.past, poly_const(l->func, 1));
    Val start = dim_val(slice.step < 0 ? last : slice.first);
    Val steps = arithmetic(l, OP_MUL, iota_val(l, count, 0), int_val(stride, true));
    axis_index->kind = INDEX_SLICE;
    axis_index->count = count;
    axis_index->val = arithmetic(l, slice.step < 0 ? OP_SUB : OP_ADD, start, steps);
    axis_index->inside = true; /* by the ends, which were checked */
    return !is_poison(&axis_index->val);
}
