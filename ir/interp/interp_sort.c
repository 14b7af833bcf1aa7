/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting and the ops that it is lowered to: counts of digits, and ranks among equal digits. Rows
 * are sorted by merging, by keys that order as u64 like the numbers themselves. */
#include "ir/interp/interp_reduce.h"

#include <math.h>
#include <string.h>

/* ---- keys ---- */

enum { SIGN_SHIFT = 63 };

static uint64_t float_key(double value)
{
    uint64_t bits, sign = (uint64_t)1 << SIGN_SHIFT;
    value = value == 0 ? 0 : value; /* -0 is +0 */
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        return UINT64_MAX;
    }
    return bits & sign ? ~bits : bits | sign;
}

static uint64_t *keys_of(InterpRun *run, const Array *array, int sample, bool descending,
                         Buffer **owner)
{
    bool is_float = dtype_is_float(array->dtype);
    Buffer *plane = is_float ? array_doubles(run, array, sample) : array_ints(run, array, sample);
    uint64_t flip = dtype_is_signed(array->dtype) ? (uint64_t)1 << SIGN_SHIFT : 0;
    *owner = buffer_new(run, (size_t)array->n * sizeof(uint64_t));
    uint64_t *keys = (uint64_t *)(void *)(*owner)->bytes;
    for (int64_t i = 0; i < array->n; i++) {
        keys[i] = is_float ? float_key(doubles(plane)[i]) : (uint64_t)ints(plane)[i] ^ flip;
        keys[i] = descending ? ~keys[i] : keys[i];
    }
    buffer_drop(run, plane);
    return keys;
}

/* ---- merging ---- */

/* Where the elements of a row in order come from: in what is returned, one of the two. */
static int64_t *merge_row(const uint64_t *keys, int64_t n, int64_t *order, int64_t *spare)
{
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t left = 0; left < n; left += 2 * run) {
            int64_t middle = left + run < n ? left + run : n;
            int64_t right = middle + run < n ? middle + run : n;
            /* Merges two sorted runs; of equal keys, the left run's element comes first, so the
             * sort is stable. */
            int64_t a = left, b = middle;
            for (int64_t i = left; i < right; i++) {
                bool first = a < middle && (b == right || keys[order[a]] <= keys[order[b]]);
                spare[i] = order[first ? a++ : b++];
            }
        }
        int64_t *swapped = order;
        order = spare;
        spare = swapped;
    }
    return order;
}

/* Of all rows of a plane, i64 within the row. */
static Buffer *order_of(InterpRun *run, const Array *array, int sample, bool descending)
{
    int64_t len = array->dims[array->rank - 1];
    Buffer *owner, *out = buffer_new(run, (size_t)array->n * sizeof(int64_t));
    Buffer *buffer = buffer_new(run, 2 * (size_t)len * sizeof(int64_t));
    const uint64_t *keys = keys_of(run, array, sample, descending, &owner);
    for (int64_t at = 0; at < array->n; at += len) {
        const int64_t *row = merge_row(keys + at, len, ints(buffer), ints(buffer) + len);
        memcpy(ints(out) + at, row, (size_t)len * sizeof *row);
    }
    buffer_drop(run, owner);
    buffer_drop(run, buffer);
    return out;
}

/* ---- sort ---- */

static void put_elements(const Array *from, Array *to, const int64_t *order)
{
    size_t bytes = (size_t)dtype_bytes(from->dtype);
    int64_t len = from->dims[from->rank - 1];
    for (int64_t i = 0; i < from->n; i++) {
        memcpy(array_at(to, i), array_at(from, i - i % len + order[i]), bytes);
    }
}

/* A row of which one element is poison has no order. */
static void poison_rows(InterpRun *run, const Array *from, Array *to)
{
    int64_t len = from->dims[from->rank - 1];
    for (int64_t at = 0; array_has_poison(from) && at < from->n; at += len) {
        if (memchr(from->poison->bytes + at, 1, (size_t)len)) {
            array_want_poison(run, to);
            memset(to->poison->bytes + at, 1, (size_t)len);
        }
    }
}

/* The ends of all intervals of a row, in the order of the result. */
static Buffer *ends_of(InterpRun *run, const Array *from, const Buffer *bounds, double side,
                       bool descending)
{
    Buffer *values = array_doubles(run, from, -1);
    Array *ends = array_new(run, DT_F64, from->rank, from->dims);
    Buffer *out = buffer_new(run, (size_t)from->n * sizeof(double));
    int64_t len = from->dims[from->rank - 1];
    for (int64_t i = 0; i < from->n; i++) {
        double bound = ((const double *)(const void *)bounds->bytes)[i];
        ((double *)array_at(ends, 0))[i] = doubles(values)[i] + side * bound;
    }
    Buffer *order = order_of(run, ends, -1, descending);
    for (int64_t i = 0; i < from->n; i++) {
        doubles(out)[i] = ((double *)array_at(ends, 0))[i - i % len + ints(order)[i]];
    }
    buffer_drop(run, order);
    buffer_drop(run, values);
    array_drop(run, ends);
    return out;
}

static double distance(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
}

/* The p-th of a row lies between the p-th of the lower ends and the p-th of the upper ones. */
static Buffer *sorted_bounds(InterpRun *run, const Array *from, const Array *to, bool descending)
{
    Buffer *bounds = array_bounds(run, from);
    if (!bounds) {
        return NULL;
    }
    Buffer *low = ends_of(run, from, bounds, -1, descending);
    Buffer *high = ends_of(run, from, bounds, 1, descending);
    Buffer *middle = array_doubles(run, to, -1);
    for (int64_t i = 0; i < from->n; i++) {
        double value = doubles(middle)[i];
        double far = fmax(distance(doubles(low)[i], value), distance(doubles(high)[i], value));
        doubles(bounds)[i] = isnan(far) ? INFINITY : far;
    }
    buffer_drop(run, low);
    buffer_drop(run, high);
    buffer_drop(run, middle);
    return bounds;
}

static void place_samples(InterpRun *run, const Array *from, Array *places, bool descending)
{
    array_want_samples(run, places);
    for (int sample = 0; sample < SAMPLES; sample++) {
        Buffer *order = order_of(run, from, sample, descending);
        memcpy(array_plane(places, sample), order->bytes, (size_t)from->n * sizeof(int64_t));
        buffer_drop(run, order);
    }
}

void interp_sort(InterpRun *run, const Op *op)
{
    const Array *from = run_operand(run, op, 0);
    bool descending = op_int(op, ATTR_DESCENDING, 0) != 0;
    Array *to = array_of_type(run, op, op->results[0]->type);
    Array *places = array_of_type(run, op, op->results[1]->type);
    Buffer *order = order_of(run, from, -1, descending);
    put_elements(from, to, ints(order));
    memcpy(places->data->bytes, order->bytes, (size_t)from->n * sizeof(int64_t));
    poison_rows(run, from, to);
    poison_rows(run, from, places);
    if (run->options->bounds) {
        spread_all(run, op, 0, to, sorted_bounds(run, from, to, descending));
    }
    if (from->samples) {
        place_samples(run, from, places, descending);
    }
    buffer_drop(run, order);
    run_result(run, op, 0, to);
    run_result(run, op, 1, places);
}

/* ---- digits ---- */

static bool is_poison(const Array *array, int64_t i)
{
    return array->poison && array->poison->bytes[i];
}

/* The group of digit i; -1: none. */
static int64_t group_of(const Array *digits, int64_t i, int64_t groups)
{
    int64_t digit = array_scalar(digits, i).i;
    return digit >= 0 && digit < groups ? digit : -1;
}

void interp_histogram(InterpRun *run, const Op *op)
{
    const Array *digits = run_operand(run, op, 0);
    if (op->n_operands > 1) {
        interp_scratch(run, op, op_access(op, 1));
    }
    Array *to = array_of_type(run, op, op->results[0]->type);
    Buffer *counts = buffer_zeroed(run, (size_t)to->n * sizeof(int64_t));
    for (int64_t i = 0; i < digits->n; i++) {
        int64_t group = group_of(digits, i, to->n);
        if (is_poison(digits, i)) {
            array_want_poison(run, to);
            memset(to->poison->bytes, 1, (size_t)to->n);
        } else if (group >= 0) {
            ints(counts)[group]++;
        }
    }
    put_plane(to, counts, false);
    buffer_drop(run, counts);
    run_result(run, op, 0, to);
}

/* What stands behind a digit that is not known is not known either. */
static Array *ranks_from(InterpRun *run, const Op *op, int nth, const Array *digits)
{
    const Array *table = run_operand(run, op, nth + 1);
    Array *to = array_of_type(run, op, op->results[nth]->type);
    Buffer *next = array_ints(run, table, -1);
    Buffer *ranks = buffer_zeroed(run, (size_t)to->n * sizeof(int64_t));
    bool lost = false;
    for (int64_t i = 0; i < digits->n; i++) {
        int64_t group = group_of(digits, i, table->n);
        lost = lost || is_poison(digits, i);
        if (lost || group < 0 || is_poison(table, group)) {
            array_want_poison(run, to);
            to->poison->bytes[i] = 1;
        } else {
            ints(ranks)[i] = ints(next)[group]++;
        }
    }
    put_plane(to, ranks, false);
    buffer_drop(run, next);
    buffer_drop(run, ranks);
    return to;
}

void interp_rank(InterpRun *run, const Op *op)
{
    const Array *digits = run_operand(run, op, 0);
    int n = op->n_results;
    if (op->n_operands > n + 1) {
        interp_scratch(run, op, op_access(op, n + 1));
    }
    for (int i = 0; i < n; i++) {
        run_result(run, op, i, ranks_from(run, op, i, digits));
    }
}

/* ---- tile_scatter ---- */

static void move_plane(const Array *from, const Array *places, Array *to, int sample)
{
    size_t bytes = (size_t)dtype_bytes(from->dtype);
    const unsigned char *source = array_plane(from, sample);
    unsigned char *target = array_plane(to, sample);
    for (int64_t i = 0; i < from->n; i++) {
        int64_t place = array_scalar(places, i).i;
        if (place >= 0 && place < to->n && !is_poison(places, i)) {
            memcpy(target + (size_t)place * bytes, source + (size_t)i * bytes, bytes);
        }
    }
}

void interp_arrange(InterpRun *run, const Op *op)
{
    const Array *from = run_operand(run, op, 0), *places = run_operand(run, op, 1);
    if (op->n_operands > 2) {
        interp_scratch(run, op, op_access(op, 2));
    }
    Array *to = array_of_type(run, op, op->results[0]->type);
    memset(to->data->bytes, 0, (size_t)to->n * (size_t)dtype_bytes(to->dtype));
    /* A place to which no element moves is poison. */
    array_want_poison(run, to);
    memset(to->poison->bytes, 1, (size_t)to->n);
    for (int64_t i = 0; i < from->n; i++) {
        int64_t place = array_scalar(places, i).i;
        if (is_poison(places, i)) {
            run_fail(run, op, "a place depends on padding or unset memory");
        }
        if (place >= 0 && place < to->n) {
            to->poison->bytes[place] = is_poison(from, i);
        }
    }
    move_plane(from, places, to, -1);
    if (from->samples) {
        array_want_samples(run, to);
        for (int sample = 0; sample < SAMPLES; sample++) {
            move_plane(from, places, to, sample);
        }
    }
    run_result(run, op, 0, to);
}

/* ---- lookup ---- */

static void look_up_plane(const Array *table, const Array *indices, Array *to, int sample)
{
    size_t bytes = (size_t)dtype_bytes(table->dtype);
    const unsigned char *source = array_plane(table, sample);
    unsigned char *target = array_plane(to, sample);
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t index = array_scalar(indices, i).i;
        if (index >= 0 && index < table->n) {
            memcpy(target + (size_t)i * bytes, source + (size_t)index * bytes, bytes);
        }
    }
}

void interp_lookup(InterpRun *run, const Op *op)
{
    const Array *table = run_operand(run, op, 0), *indices = run_operand(run, op, 1);
    if (op->n_operands > 2) {
        interp_scratch(run, op, op_access(op, 2));
    }
    Array *to = array_of_type(run, op, op->results[0]->type);
    memset(to->data->bytes, 0, (size_t)to->n * (size_t)dtype_bytes(to->dtype));
    for (int64_t i = 0; i < to->n; i++) {
        int64_t index = array_scalar(indices, i).i;
        if (is_poison(indices, i) || index < 0 || index >= table->n || is_poison(table, index)) {
            array_want_poison(run, to);
            to->poison->bytes[i] = 1;
        }
    }
    look_up_plane(table, indices, to, -1);
    if (table->samples) {
        array_want_samples(run, to);
        for (int sample = 0; sample < SAMPLES; sample++) {
            look_up_plane(table, indices, to, sample);
        }
    }
    run_result(run, op, 0, to);
}
