/* SPDX-License-Identifier: Apache-2.0 */
/* Checks an im2col view against the limits of TMA's descriptors: the bits of the box corners and of
 * the offsets, and the strides between output positions. */
#include "passes/analysis/im2col_limits.h"

enum { MAX_STEP = 8 }; /* pixels between positions that the engine walks */

/* Displacements share 16 bits, so that each of several axes has fewer. */
int64_t an_im2col_limit(int spatial)
{
    static const int bits[1 + MAX_SPATIAL] = {[1] = 16, [2] = 8, [3] = 5};
    return INT64_C(1) << bits[spatial];
}

static bool within(int64_t value, int64_t limit)
{
    return value >= -limit / 2 && value < limit / 2;
}

/* Bounds of a difference of sizes which may be rounded down: by * (of // by) is of, or up to by - 1
 * less. What is a quotient of a quotient comes later among the sizes. */
static void bounds_of(Func *func, Dim dim, int64_t *least, int64_t *most)
{
    int64_t below = 0, above = 0;
    for (size_t i = func->dimvars.n; i-- > 0;) {
        const DimVar *var = func->dimvars.items[i];
        int64_t coef = 0;
        int seen = 0;
        for (int t = 0; var->by > 0 && t < dim->n_terms; t++) {
            const PolyTerm *term = &dim->terms[t];
            for (int k = 0; k < term->n; k++) {
                seen += term->vars[k] == var;
            }
            coef = term->n == 1 && term->vars[0] == var ? term->coef : coef;
        }
        if (seen == 1 && coef % var->by == 0 && coef) {
            Dim times = poly_mul(func, poly_const(func, coef / var->by), var->of);
            Dim rest = poly_substitute(func, dim, var, poly_const(func, 0));
            Dim sum = poly_add(func, rest, times);
            int64_t slack = coef / var->by * (var->by - 1);
            dim = sum ? sum : dim;
            below += sum && slack > 0 ? slack : 0;
            above += sum && slack < 0 ? -slack : 0;
        }
    }
    *least = poly_least(dim);
    *most = poly_most(dim);
    *least -= *least > INT64_MIN / 2 ? below : 0;
    *most += *most < INT64_MAX / 2 ? above : 0;
}

bool an_im2col_steps(const Im2colView *view, int axis)
{
    return view->axes[axis].stride <= MAX_STEP;
}

/* Where the last position's window begins, from the last element on: the box's other corner. */
static bool corner_fits(Func *func, const Im2colView *view, int axis, Dim extent, Dim positions)
{
    int64_t limit = an_im2col_limit(view->n), least, most, lowest, highest;
    Dim offset = view->axes[axis].offset, step = poly_const(func, view->axes[axis].stride);
    Dim last = poly_mul(func, positions, step);
    last = poly_add(func, last, poly_const(func, 1 - view->axes[axis].stride));
    last = poly_add(func, last, offset);
    last = poly_add(func, last, poly_mul(func, extent, poly_const(func, -1)));
    if (!last) {
        return false;
    }
    bounds_of(func, last, &least, &most);
    bounds_of(func, offset, &lowest, &highest);
    return within(least, limit) && within(most, limit) && within(lowest, limit) &&
           within(highest, limit);
}

static bool reach_of(int64_t distance, Dim extent, int64_t *reach)
{
    *reach = 0;
    return !distance || !__builtin_mul_overflow(poly_most(extent), distance, reach);
}

bool an_im2col_fits(Func *func, const Im2colView *view, int axis, const Im2colExtents *extents)
{
    int64_t inner, taps;
    return corner_fits(func, view, axis, extents->source, extents->positions) &&
           reach_of(view->axes[axis].inner, extents->inner, &inner) &&
           reach_of(view->axes[axis].dilation, extents->taps, &taps) &&
           inner <= an_im2col_limit(view->n) && taps <= an_im2col_limit(view->n) - inner;
}
