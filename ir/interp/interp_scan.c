/* SPDX-License-Identifier: Apache-2.0 */
/* Scans, as reductions of every prefix of an axis. As there, floats accumulate in f64 and are
 * rounded once; element i has the bound of a reduction of its terms in any order. */
#include "ir/interp/interp_reduce.h"

#include <math.h>

typedef struct Way {
    bool reverse, exclusive;
} Way;

/* Walks one line of the axis: where the step-th element of the way is. */
static int64_t line_at(const Axes *axes, const Way *way, int64_t outer, int64_t inner, int64_t step)
{
    int64_t l = way->reverse ? axes->len - 1 - step : step;
    return (outer * axes->len + l) * axes->inner + inner;
}

/* From the neutral element on: no sum is -0, whatever is added before what. */
static void scan_floats(const Axes *axes, const Way *way, const double *from, double *to)
{
    double start = axes_neutral(axes).f;
    for (int64_t line = 0; line < axes->outer * axes->inner; line++) {
        double sum = start;
        for (int64_t step = 0; step < axes->len; step++) {
            int64_t at = line_at(axes, way, line / axes->inner, line % axes->inner, step);
            double next = axes_fold(axes, sum, from[at]);
            to[at] = way->exclusive ? sum : next;
            sum = next;
        }
    }
}

static void scan_ints(const Axes *axes, const Way *way, const int64_t *from, int64_t *to)
{
    int64_t start = axes_neutral(axes).i;
    for (int64_t line = 0; line < axes->outer * axes->inner; line++) {
        int64_t sum = start;
        for (int64_t step = 0; step < axes->len; step++) {
            int64_t at = line_at(axes, way, line / axes->inner, line % axes->inner, step);
            int64_t next = axes_fold_int(axes, sum, from[at]);
            to[at] = way->exclusive ? sum : next;
            sum = next;
        }
    }
}

/* ---- bounds ---- */

static Buffer *scanned(InterpRun *run, Axes axes, Fold fold, const Way *way, Buffer *from,
                       int64_t n)
{
    static const OpKind kinds[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN};
    Buffer *to = buffer_new(run, (size_t)n * sizeof(double));
    axes.dtype = DT_F64;
    axes.fold = fold;
    axes.kind = kinds[fold];
    scan_floats(&axes, way, doubles(from), doubles(to));
    return to;
}

/* How many terms the element has that the step-th of the way shows. */
static double terms_at(const Axes *axes, const Way *way, int64_t at)
{
    int64_t l = at / axes->inner % axes->len;
    int64_t step = way->reverse ? axes->len - 1 - l : l;
    int64_t terms = step + (way->exclusive ? 0 : 1);
    return terms > 2 ? (double)terms : 0;
}

static Buffer *sizes_of(InterpRun *run, const Array *from, Buffer *bounds)
{
    Buffer *sizes = array_doubles(run, from, -1);
    for (int64_t i = 0; i < from->n; i++) {
        doubles(sizes)[i] = fabs(doubles(sizes)[i]) + (bounds ? doubles(bounds)[i] : 0);
    }
    return sizes;
}

/* Of sums and products of floats. `exact`: the results before rounding. */
static Buffer *rounding_bounds(InterpRun *run, const Axes *axes, const Way *way, const Array *from,
                               Buffer *bounds, Buffer *exact)
{
    Buffer *sizes = sizes_of(run, from, bounds);
    Buffer *size = scanned(run, *axes, axes->fold, way, sizes, from->n);
    Buffer *moved = bounds ? scanned(run, *axes, FOLD_SUM, way, bounds, from->n) : NULL;
    Buffer *out = buffer_new(run, (size_t)from->n * sizeof(double));
    for (int64_t i = 0; i < from->n; i++) {
        double whole = doubles(size)[i];
        doubles(out)[i] =
            rounding(terms_at(axes, way, i), unit_of(axes->dtype), whole, greatest_of(axes->dtype));
        if (axes->fold == FOLD_PROD) {
            doubles(out)[i] += isfinite(whole) ? whole - fabs(doubles(exact)[i]) : 0;
        } else {
            doubles(out)[i] += moved ? doubles(moved)[i] : 0;
        }
    }
    buffer_drop(run, sizes);
    buffer_drop(run, size);
    buffer_drop(run, moved);
    return out;
}

static Buffer *bounds_of(InterpRun *run, const Axes *axes, const Way *way, const Array *from,
                         Buffer *exact)
{
    Buffer *bounds = array_bounds(run, from), *out;
    bool extreme = axes->fold == FOLD_MAX || axes->fold == FOLD_MIN;
    bool is_float = dtype_is_float(axes->dtype);
    if (!bounds && (extreme || !is_float || axes->len <= 2)) {
        return NULL;
    }
    if (extreme || !is_float) {
        out = scanned(run, *axes, extreme ? FOLD_MAX : FOLD_SUM, way, bounds, from->n);
        for (int64_t i = 0; extreme && i < from->n; i++) {
            doubles(out)[i] = fmax(doubles(out)[i], 0); /* max of nothing: -inf */
        }
    } else {
        out = rounding_bounds(run, axes, way, from, bounds, exact);
    }
    buffer_drop(run, bounds);
    return out;
}

void interp_scan(InterpRun *run, const Op *op)
{
    Array *from = run_operand(run, op, 0);
    if (op->n_operands > 1) {
        interp_scratch(run, op, op_access(op, 1));
    }
    Axes axes = reduce_axes(run, op, from);
    Way way = {op_int(op, ATTR_REVERSE, 0) != 0, op_int(op, ATTR_EXCLUSIVE, 0) != 0};
    Array *to = array_of_type(run, op, op->results[0]->type);
    bool is_float = dtype_is_float(from->dtype);
    Buffer *elements = is_float ? array_doubles(run, from, -1) : array_ints(run, from, -1);
    Buffer *result = buffer_new(run, (size_t)from->n * sizeof(double));
    if (is_float) {
        scan_floats(&axes, &way, doubles(elements), doubles(result));
    } else {
        scan_ints(&axes, &way, ints(elements), ints(result));
    }
    put_plane(to, result, is_float);
    /* A result is poison from the first poisoned element of its line on. */
    if (array_has_poison(from)) {
        array_want_poison(run, to);
        for (int64_t line = 0; line < axes.outer * axes.inner; line++) {
            uint8_t any = 0;
            for (int64_t step = 0; step < axes.len; step++) {
                int64_t at = line_at(&axes, &way, line / axes.inner, line % axes.inner, step);
                uint8_t next = any | from->poison->bytes[at];
                to->poison->bytes[at] = way.exclusive ? any : next;
                any = next;
            }
        }
    }
    if (run->options->bounds) {
        spread_all(run, op, 0, to, bounds_of(run, &axes, &way, from, result));
    }
    buffer_drop(run, elements);
    buffer_drop(run, result);
    run_result(run, op, 0, to);
}
