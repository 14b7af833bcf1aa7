/* SPDX-License-Identifier: Apache-2.0 */
/* Folds by the program's own function. Its region runs on all scalars of one fold step at once.
 * The result is that of a left fold. The error of other association orders is sampled: by a
 * balanced tree, and by a tree that begins with the identity elements; the bound is SAFETY times
 * the larger of the two differences, doubled. Two orders may agree by chance, so if the function
 * rounds, the bound is at least one rounding of the largest folded value per level of a tree. */
#include "ir/interp/interp_reduce.h"

#include <math.h>
#include <string.h>

/* One execution: arrays of one plane, [outer, len, inner]. */
typedef struct Folding {
    InterpRun *run;
    const Op *op;
    int n;
    Axes axes;
    bool straight; /* the region has no regions: all elements at once */
    bool scan, reverse, exclusive;
} Folding;

static Array **tuple_new(const Folding *f)
{
    size_t bytes = sizeof(Array *) * (size_t)f->n;
    return (Array **)(void *)buffer_zeroed(f->run, bytes)->bytes;
}

static void tuple_drop(const Folding *f, Array **tuple)
{
    for (int i = 0; tuple && i < f->n; i++) {
        array_drop(f->run, tuple[i]);
    }
    if (tuple) {
        give_back(f->run, tuple);
    }
}

/* ---- parts of a line ---- */

static Array *flat_new(InterpRun *run, DType dtype, int64_t n, bool poison)
{
    Array *array = array_new(run, dtype, 1, &n);
    if (poison) {
        array_want_poison(run, array);
    }
    return array;
}

static void copy_elements(Array *to, int64_t at, const Array *from, int64_t start, int64_t count)
{
    int64_t bytes = dtype_bytes(to->dtype);
    memcpy(array_at(to, at), array_at(from, start), (size_t)(count * bytes));
    if (from->poison && to->poison) {
        memcpy(to->poison->bytes + at, from->poison->bytes + start, (size_t)count);
    }
}

/* Of an array with `len` elements on the axis: those at first, first + step, …, `count` of them. */
static Array *slice(const Folding *f, const Array *from, int64_t len, int64_t first, int64_t step,
                    int64_t count)
{
    int64_t inner = f->axes.inner, at = 0;
    Array *to = flat_new(f->run, from->dtype, f->axes.outer * count * inner, from->poison != NULL);
    for (int64_t o = 0; o < f->axes.outer; o++) {
        for (int64_t k = 0; k < count; k++, at += inner) {
            copy_elements(to, at, from, (o * len + first + k * step) * inner, inner);
        }
    }
    return to;
}

static Array **slices(const Folding *f, Array *const *from, int64_t len, int64_t first,
                      int64_t step, int64_t count)
{
    Array **to = tuple_new(f);
    for (int i = 0; i < f->n; i++) {
        to[i] = slice(f, from[i], len, first, step, count);
    }
    return to;
}

/* Two parts of each line, one behind the other. */
static Array **joined(const Folding *f, Array *const *a, int64_t a_len, Array *const *b,
                      int64_t b_len)
{
    int64_t inner = f->axes.inner, len = a_len + b_len;
    Array **to = tuple_new(f);
    for (int i = 0; i < f->n; i++) {
        to[i] = flat_new(f->run, a[i]->dtype, f->axes.outer * len * inner,
                         a[i]->poison || b[i]->poison);
        for (int64_t o = 0; o < f->axes.outer; o++) {
            copy_elements(to[i], o * len * inner, a[i], o * a_len * inner, a_len * inner);
            copy_elements(to[i], (o * len + a_len) * inner, b[i], o * b_len * inner, b_len * inner);
        }
    }
    return to;
}

static Array **neutrals(const Folding *f)
{
    Array **to = tuple_new(f);
    for (int i = 0; i < f->n; i++) {
        const Array *from = run_operand(f->run, f->op, f->n + i);
        to[i] = flat_new(f->run, from->dtype, f->axes.outer * f->axes.inner, false);
        array_fill(to[i], array_scalar(from, 0));
        if (array_has_poison(from)) {
            array_want_poison(f->run, to[i]);
            memset(to[i]->poison->bytes, 1, (size_t)to[i]->n);
        }
    }
    return to;
}

/* ---- the function ---- */

static void bind(const Folding *f, const Block *region, int first, Array *const *values)
{
    for (int i = 0; i < f->n; i++) {
        f->run->cells[region->args[first + i]->id].array = array_keep(values[i]);
    }
}

static Array *yielded(const Folding *f, const Op *yield, int i, int64_t n)
{
    Array *value = run_operand(f->run, yield, i);
    if (value->n == n) {
        return array_keep(value);
    }
    Array *all = flat_new(f->run, value->dtype, n, array_has_poison(value)); /* from outside */
    array_fill(all, array_scalar(value, 0));
    if (all->poison) {
        memset(all->poison->bytes, 1, (size_t)n);
    }
    return all;
}

static Array **call_once(const Folding *f, Array *const *a, Array *const *b, int64_t lanes)
{
    const Block *region = f->op->regions[0];
    Array **to = tuple_new(f);
    bind(f, region, 0, a);
    bind(f, region, f->n, b);
    f->run->lanes = lanes;
    run_region(f->run, f->op, region);
    for (int i = 0; i < f->n; i++) {
        to[i] = yielded(f, region->last, i, lanes ? lanes : 1);
    }
    f->run->lanes = 0;
    drop_block(f->run, region);
    return to;
}

static Array **element(const Folding *f, Array *const *from, int64_t i)
{
    Array **to = tuple_new(f);
    for (int k = 0; k < f->n; k++) {
        to[k] = array_new(f->run, from[k]->dtype, 0, NULL);
        if (from[k]->poison) {
            array_want_poison(f->run, to[k]);
        }
        copy_elements(to[k], 0, from[k], i, 1);
    }
    return to;
}

static Array **call_each(const Folding *f, Array *const *a, Array *const *b)
{
    Array **to = tuple_new(f);
    for (int k = 0; k < f->n; k++) {
        to[k] = flat_new(f->run, a[k]->dtype, a[k]->n, true);
    }
    for (int64_t i = 0; i < a[0]->n; i++) {
        Array **x = element(f, a, i), **y = element(f, b, i);
        Array **one = call_once(f, x, y, 0);
        for (int k = 0; k < f->n; k++) {
            copy_elements(to[k], i, one[k], 0, 1);
        }
        tuple_drop(f, x);
        tuple_drop(f, y);
        tuple_drop(f, one);
    }
    return to;
}

/* f(earlier, later); takes both. */
static Array **call(const Folding *f, Array **a, Array **b)
{
    int64_t n = a[0]->n;
    Array **to = f->straight && n ? call_once(f, a, b, n) : call_each(f, a, b);
    tuple_drop(f, a);
    tuple_drop(f, b);
    return to;
}

/* ---- orders ---- */

static void put_line(const Folding *f, Array **to, int64_t l, Array *const *from)
{
    int64_t inner = f->axes.inner;
    for (int i = 0; i < f->n; i++) {
        if (from[i]->poison) {
            array_want_poison(f->run, to[i]);
        }
        for (int64_t o = 0; o < f->axes.outer; o++) {
            copy_elements(to[i], (o * f->axes.len + l) * inner, from[i], o * inner, inner);
        }
    }
}

/* One element after the other, from the end with `reverse`; into `every`, if given, each partial
 * result. */
static Array **left_fold(const Folding *f, Array *const *from, Array **every)
{
    int64_t len = f->axes.len;
    Array **sum = neutrals(f);
    for (int64_t step = 0; step < len; step++) {
        int64_t l = f->reverse ? len - 1 - step : step;
        Array **next = slices(f, from, len, l, 1, 1);
        if (every && f->exclusive) {
            put_line(f, every, l, sum);
        }
        if (step == 0) {
            tuple_drop(f, sum);
            sum = next;
        } else {
            sum = f->reverse ? call(f, next, sum) : call(f, sum, next);
        }
        if (every && !f->exclusive) {
            put_line(f, every, l, sum);
        }
    }
    return sum;
}

static Array **tree_fold(const Folding *f, Array **from, int64_t len)
{
    while (len > 1) {
        int64_t pairs = len / 2;
        Array **next =
            call(f, slices(f, from, len, 0, 2, pairs), slices(f, from, len, 1, 2, pairs));
        if (len % 2) {
            Array **last = slices(f, from, len, len - 1, 1, 1);
            Array **longer = joined(f, next, pairs, last, 1);
            tuple_drop(f, last);
            tuple_drop(f, next);
            next = longer;
        }
        tuple_drop(f, from);
        from = next;
        len = pairs + len % 2;
    }
    return from;
}

/* Every partial result, by spans that double: element l takes in those that end at l - span. */
static Array **tree_scan(const Folding *f, Array **from, int64_t len)
{
    for (int64_t span = 1; span < len; span *= 2) {
        Array **low = slices(f, from, len, 0, 1, len - span);
        Array **high = slices(f, from, len, span, 1, len - span);
        Array **moved = call(f, low, high);
        Array **stays = slices(f, from, len, f->reverse ? len - span : 0, 1, span);
        Array **next = f->reverse ? joined(f, moved, len - span, stays, span)
                                  : joined(f, stays, span, moved, len - span);
        tuple_drop(f, moved);
        tuple_drop(f, stays);
        tuple_drop(f, from);
        from = next;
    }
    return from;
}

/* In another order; `shifted`: beginning with the neutral elements. */
static Array **other_order(const Folding *f, Array *const *from, bool shifted)
{
    int64_t len = f->axes.len;
    Array **line = slices(f, from, len, 0, 1, len);
    if (shifted || (f->scan && f->exclusive)) {
        Array **first = neutrals(f);
        Array **longer =
            f->reverse ? joined(f, line, len, first, 1) : joined(f, first, 1, line, len);
        tuple_drop(f, first);
        tuple_drop(f, line);
        line = longer;
        len++;
    }
    if (!f->scan) {
        return tree_fold(f, line, len);
    }
    line = tree_scan(f, line, len);
    bool drop_first = (len > f->axes.len) && (f->exclusive == f->reverse);
    Array **part = slices(f, line, len, drop_first ? 1 : 0, 1, f->axes.len);
    tuple_drop(f, line);
    return part;
}

static Array **in_order(const Folding *f, Array *const *from)
{
    if (!f->scan) {
        return left_fold(f, from, NULL);
    }
    /* A scan keeps each partial result: whole arrays hold them. */
    Array **every = tuple_new(f);
    for (int i = 0; i < f->n; i++) {
        DType dtype = f->op->results[i]->type->dtype;
        every[i] = flat_new(f->run, dtype, f->axes.outer * f->axes.len * f->axes.inner, false);
    }
    tuple_drop(f, left_fold(f, from, every));
    return every;
}

/* ---- all ---- */

static Array **planes(const Folding *f, int sample)
{
    Array **to = tuple_new(f);
    for (int i = 0; i < f->n; i++) {
        const Array *from = run_operand(f->run, f->op, i);
        to[i] = flat_new(f->run, from->dtype, from->n, from->poison != NULL);
        memcpy(to[i]->data->bytes, array_plane(from, sample),
               (size_t)from->n * (size_t)dtype_bytes(from->dtype));
        if (from->poison) {
            memcpy(to[i]->poison->bytes, from->poison->bytes, (size_t)from->n);
        }
    }
    return to;
}

static bool is_inexact(const Folding *f)
{
    for (int i = 0; i < f->n; i++) {
        if (run_operand(f->run, f->op, i)->samples) {
            return true;
        }
    }
    return false;
}

static void take_samples(const Folding *f, Array **results)
{
    for (int s = 0; is_inexact(f) && s < SAMPLES; s++) {
        Array **from = planes(f, s), **sums = in_order(f, from);
        for (int i = 0; i < f->n; i++) {
            array_want_samples(f->run, results[i]);
            memcpy(array_plane(results[i], s), sums[i]->data->bytes,
                   (size_t)sums[i]->n * (size_t)dtype_bytes(sums[i]->dtype));
        }
        tuple_drop(f, from);
        tuple_drop(f, sums);
    }
}

static double distance(const Array *a, const Array *b, int64_t i)
{
    Scalar x = array_scalar(a, i), y = array_scalar(b, i);
    if (!dtype_is_float(a->dtype)) {
        return x.i == y.i ? 0 : fabs((double)x.i - (double)y.i);
    }
    double far = fabs(x.f - y.f);
    if (x.f == y.f || (isnan(x.f) && isnan(y.f))) {
        return 0;
    }
    return isnan(far) ? INFINITY : far;
}

static void split_results(const Folding *f, Array *const *base, Array *const *other,
                          Buffer **bounds)
{
    for (int i = 0; i < f->n; i++) {
        for (int64_t k = 0; k < base[i]->n; k++) {
            if (!base[i]->poison || !base[i]->poison->bytes[k]) {
                double far = 2 * SAFETY * distance(base[i], other[i], k);
                doubles(bounds[i])[k] = fmax(doubles(bounds[i])[k], far);
            }
        }
    }
}

/* Results of integers are the same in every order, or the function is not associative. */
static void check_whole(const Folding *f, Array *const *base, Buffer *const *bounds)
{
    for (int i = 0; i < f->n; i++) {
        for (int64_t k = 0; !dtype_is_float(base[i]->dtype) && k < base[i]->n; k++) {
            if (((double *)(void *)bounds[i]->bytes)[k] > 0) {
                interp_note(f->run, INTERP_UNORDERED, f->op);
                return;
            }
        }
    }
}

/* Does the function round? Choosing, comparing and changing signs do not. */
static bool rounds(const Op *op)
{
    for (const Op *inner = op->regions[0]->first; inner; inner = inner->next) {
        bool exact = inner->kind == OP_MIN || inner->kind == OP_MAX || inner->kind == OP_NEG ||
                     inner->kind == OP_ABS || inner->kind == OP_SELECT;
        bool is_float = inner->n_results == 1 && dtype_is_float(inner->results[0]->type->dtype);
        if (inner->n_regions || (op_has(inner, TRAIT_ELEMENTWISE) && is_float && !exact)) {
            return true;
        }
    }
    return false;
}

static double largest_of_line(const Array *from, int64_t start, int64_t len, int64_t stride)
{
    double largest = 0;
    for (int64_t i = 0; i < len; i++) {
        double size = fabs(array_scalar(from, start + i * stride).f);
        largest = isfinite(size) ? fmax(largest, size) : largest;
    }
    return largest;
}

static void spread_levels(const Folding *f, const Array *base, const Array *from, Buffer *bound)
{
    int64_t len = f->axes.len, inner = f->axes.inner, kept = f->scan ? len : 1;
    double levels = 2 + ceil(log2((double)len));
    double each = SAFETY * levels * unit_of(from->dtype);
    for (int64_t line = 0; line < f->axes.outer * inner; line++) {
        int64_t outer = line / inner, at = line % inner;
        double largest = largest_of_line(from, outer * len * inner + at, len, inner);
        for (int64_t i = 0; i < kept; i++) {
            int64_t k = (outer * kept + i) * inner + at;
            double size = fmax(largest, fabs(array_scalar(base, k).f));
            doubles(bound)[k] = fmax(doubles(bound)[k], isfinite(size) ? each * size : 0);
        }
    }
}

static bool is_straight(const Block *region)
{
    for (const Op *op = region->first; op; op = op->next) {
        if (op->n_regions) {
            return false;
        }
    }
    return true;
}

void interp_fold(InterpRun *run, const Op *op)
{
    Folding f = {.run = run, .op = op, .n = fold_count(op)};
    f.axes = reduce_axes(run, op, run_operand(run, op, 0));
    if (op->n_operands > 2 * f.n) {
        interp_scratch(run, op, op_access(op, 2 * f.n));
    }
    f.straight = is_straight(op->regions[0]);
    f.scan = op_int(op, ATTR_SCAN, 0) != 0;
    f.reverse = f.scan && op_int(op, ATTR_REVERSE, 0) != 0;
    f.exclusive = f.scan && op_int(op, ATTR_EXCLUSIVE, 0) != 0;
    Array **from = planes(&f, -1), **base = in_order(&f, from);
    if (run->options->bounds) {
        take_samples(&f, base);
        /* An element's bound is the difference between the results of several orders of evaluation,
         * plus the rounding of each level of the tree. */
        Buffer **bounds = ARENA_ARRAY(f.run->arena, Buffer *, f.n);
        for (int i = 0; i < f.n; i++) {
            bounds[i] = buffer_zeroed(f.run, (size_t)base[i]->n * sizeof(double));
        }
        for (int shifted = 0; shifted < 2 && f.axes.len > 0; shifted++) {
            Array **other = other_order(&f, from, shifted != 0);
            split_results(&f, base, other, bounds);
            tuple_drop(&f, other);
        }
        check_whole(&f, base, bounds);
        for (int i = 0; i < f.n && f.axes.len > 1 && rounds(f.op); i++) {
            if (dtype_is_float(from[i]->dtype)) {
                spread_levels(&f, base[i], from[i], bounds[i]);
            }
        }
        for (int i = 0; i < f.n; i++) {
            bool any = false;
            for (int64_t k = 0; k < base[i]->n; k++) {
                any = any || doubles(bounds[i])[k] > 0;
            }
            if (any) {
                spread_all(f.run, f.op, i, base[i], bounds[i]);
            } else {
                buffer_drop(f.run, bounds[i]);
            }
        }
    }
    for (int i = 0; i < f.n; i++) {
        run_result(run, op, i, array_alias(run, op, op->results[i]->type, base[i]));
    }
    tuple_drop(&f, from);
    tuple_drop(&f, base);
}
