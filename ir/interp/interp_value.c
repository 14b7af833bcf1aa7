/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of the interpreter: reference counted and recycled, with poison and samples only if
 * needed. */
#include "ir/interp/interp_internal.h"

#include "support/target_clones.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- buffers ---- */

/* Four sizes for each power of two, from 64 bytes on. */
static uint32_t bin_of(size_t bytes, size_t *capacity)
{
    if (bytes <= 64) {
        *capacity = 64;
        return 0;
    }
    uint32_t bits = 63u - (uint32_t)__builtin_clzll(bytes - 1);
    uint32_t quarter = (uint32_t)((bytes - 1) >> (bits - 2)) & 3u;
    *capacity = (size_t)(5 + quarter) << (bits - 2);
    return (bits - 6) * 4 + quarter + 1;
}

Buffer *buffer_new(InterpRun *run, size_t bytes)
{
    if ((uint64_t)bytes >> 44) {
        run_fail(run, NULL, "an array of more than 2^44 bytes");
    }
    size_t capacity;
    uint32_t bin = bin_of(bytes, &capacity);
    Buffer *buffer = run->free_buffers[bin];
    if (buffer) {
        run->free_buffers[bin] = buffer->next;
    } else {
        buffer = arena_alloc(run->arena, sizeof *buffer + capacity);
        buffer->bin = bin;
    }
    buffer->next = NULL;
    buffer->refs = 1;
    return buffer;
}

Buffer *buffer_zeroed(InterpRun *run, size_t bytes)
{
    Buffer *buffer = buffer_new(run, bytes);
    memset(buffer->bytes, 0, bytes);
    return buffer;
}

Buffer *buffer_keep(Buffer *buffer)
{
    if (buffer) {
        buffer->refs++;
    }
    return buffer;
}

void buffer_drop(InterpRun *run, Buffer *buffer)
{
    if (buffer && --buffer->refs == 0) {
        buffer->next = run->free_buffers[buffer->bin];
        run->free_buffers[buffer->bin] = buffer;
    }
}

/* ---- arrays ---- */

static Array *array_header(InterpRun *run, DType dtype, int rank, const int64_t *dims)
{
    Array *array = run->free_arrays;
    if (array) {
        run->free_arrays = array->next;
    } else {
        array = arena_alloc(run->arena, sizeof *array);
    }
    memset(array, 0, sizeof *array);
    array->refs = 1;
    array->dtype = dtype;
    array->rank = rank;
    array->n = 1;
    bool empty = false, over = false;
    for (int i = 0; i < rank; i++) {
        array->dims[i] = dims[i];
        empty = empty || dims[i] == 0;
        over = __builtin_mul_overflow(array->n, dims[i], &array->n) || over;
    }
    if (empty) {
        array->n = 0;
    } else if (over || array->n > INT64_MAX / 64) {
        run_refuse(run, DIAG_ENVIRONMENT, NULL, "an array of more elements than memory can hold");
    }
    return array;
}

static size_t plane_bytes(const Array *array)
{
    return (size_t)array->n * (size_t)dtype_bytes(array->dtype);
}

Array *array_new(InterpRun *run, DType dtype, int rank, const int64_t *dims)
{
    Array *array = array_header(run, dtype, rank, dims);
    array->data = buffer_new(run, plane_bytes(array));
    return array;
}

static void eval_dims(InterpRun *run, const Op *op, Type type, int64_t *dims)
{
    for (int i = 0; i < type->rank; i++) {
        dims[i] = run_dim(run, op, run->extents, type->dims[i]);
    }
}

Array *array_of_type(InterpRun *run, const Op *op, Type type)
{
    int64_t dims[MAX_RANK];
    if (run->lanes && type->rank == 0) {
        return array_new(run, type->dtype, 1, &run->lanes);
    }
    eval_dims(run, op, type, dims);
    return array_new(run, type->dtype, type->rank, dims);
}

Array *array_alias(InterpRun *run, const Op *op, Type type, const Array *from)
{
    int64_t dims[MAX_RANK];
    eval_dims(run, op, type, dims);
    Array *array = array_header(run, type->dtype, type->rank, dims);
    if (array->n != from->n) {
        run_fail(run, op, "%lld elements become %lld", (long long)from->n, (long long)array->n);
    }
    array->data = buffer_keep(from->data);
    array->poison = buffer_keep(from->poison);
    array->samples = buffer_keep(from->samples);
    array->agent = from->agent;
    array->product = from->product;
    return array;
}

Array *array_keep(Array *array)
{
    array->refs++;
    return array;
}

void array_drop(InterpRun *run, Array *array)
{
    if (array && --array->refs == 0) {
        buffer_drop(run, array->data);
        buffer_drop(run, array->poison);
        buffer_drop(run, array->samples);
        array->next = run->free_arrays;
        run->free_arrays = array;
    }
}

void *array_at(const Array *array, int64_t i)
{
    return array->data->bytes + i * dtype_bytes(array->dtype);
}

void *array_plane(const Array *array, int sample)
{
    if (sample < 0 || !array->samples) {
        return array->data->bytes;
    }
    return array->samples->bytes + (size_t)sample * plane_bytes(array);
}

void array_want_poison(InterpRun *run, Array *array)
{
    if (!array->poison) {
        array->poison = buffer_zeroed(run, (size_t)array->n);
    }
}

void array_want_samples(InterpRun *run, Array *array)
{
    if (array->samples) {
        return;
    }
    size_t bytes = plane_bytes(array);
    array->samples = buffer_new(run, SAMPLES * bytes);
    for (int s = 0; s < SAMPLES; s++) {
        memcpy(array->samples->bytes + (size_t)s * bytes, array->data->bytes, bytes);
    }
}

bool array_has_poison(const Array *array)
{
    return array->poison && memchr(array->poison->bytes, 1, (size_t)array->n);
}

Scalar array_scalar(const Array *array, int64_t i)
{
    return scalar_load(array->dtype, array_at(array, i));
}

void array_fill(Array *array, Scalar value)
{
    unsigned char *to = array->data->bytes;
    size_t all = plane_bytes(array), done = (size_t)dtype_bytes(array->dtype);
    if (array->n > 0) {
        scalar_store(array->dtype, to, value);
    }
    for (size_t more; done < all; done += more) { /* twice as many each time */
        more = done < all - done ? done : all - done;
        memcpy(to + done, to, more);
    }
}

/* ---- samples ---- */

/* Of a sample that moves by source and element. */
static double sign_of(uint32_t source, int64_t i, int s)
{
    uint64_t hash = hash_word(hash_word(source, (uint64_t)i), (uint64_t)s);
    for (int shift = 32; shift > 0; shift /= 2) {
        hash ^= hash >> shift;
    }
    return hash & 1 ? -1.0 : 1.0;
}

/* By the source alone in the first samples: two of three sources see all four pairs of signs, and
 * what one source made inexact moves as a whole. By source and element in the others: two rows of
 * one reduction are off independently, and 2 a - b of them moves little where both move alike. */
static void signs_of(uint32_t source, int64_t i, double signs[SAMPLES])
{
    uint32_t turn = source / 3, row = 1 + source % 3;
    for (int s = 0; s < WHOLE_SAMPLES; s++) {
        uint32_t column = ((uint32_t)s * (2 * turn + 1) + turn) & (WHOLE_SAMPLES - 1);
        signs[s] = __builtin_parity(row & column) ? -1.0 : 1.0;
    }
    for (int s = WHOLE_SAMPLES; s < SAMPLES; s++) {
        signs[s] = sign_of(source, i, s);
    }
}

/* The next float from a finite one, upwards or downwards: nextafterf, without a branch. */
static float next_float(float from, bool up)
{
    uint32_t bits, least = up ? 1 : 0x80000001u;
    memcpy(&bits, &from, sizeof bits);
    bits = from == 0 ? least : bits + ((from > 0) == up ? 1u : ~0u);
    memcpy(&from, &bits, sizeof bits);
    return from;
}

static Scalar moved(DType dtype, Scalar from, double by)
{
    if (!dtype_is_float(dtype)) {
        int64_t whole = (int64_t)fmin(fmax(by, -0x1p62), 0x1p62);
        return (Scalar){.i = (int64_t)((uint64_t)from.i + (uint64_t)whole)};
    }
    double to = from.f + by;
    if (dtype == DT_F32 && by != 0 && (double)(float)to == from.f && isfinite(from.f)) {
        to = (double)next_float((float)from.f, by > 0);
    } else if (dtype == DT_F64 && by != 0 && to == from.f) {
        to = nextafter(from.f, by);
    }
    return (Scalar){.f = to};
}

void array_spread(InterpRun *run, Array *array, uint32_t source, int64_t i, double bound)
{
    array_want_samples(run, array);
    size_t bytes = (size_t)dtype_bytes(array->dtype), plane = plane_bytes(array);
    unsigned char *at = array->samples->bytes + (size_t)i * bytes;
    double signs[SAMPLES];
    signs_of(source, i, signs);
    for (int s = 0; s < SAMPLES; s++, at += plane) {
        Scalar sample = scalar_load(array->dtype, at);
        scalar_store(array->dtype, at, moved(array->dtype, sample, bound * signs[s]));
    }
}

/* One plane of samples in f32, as array_spread moves each of them. */
TARGET_CLONES("arch=x86-64-v3")
static void spread_floats(uint32_t source, int s, int64_t n, const double *bounds, float *at)
{
    double signs[SAMPLES];
    signs_of(source, 0, signs);
    for (int64_t i = 0; i < n; i++) {
        double by = bounds[i] * (s < WHOLE_SAMPLES ? signs[s] : sign_of(source, i, s));
        float from = at[i], to = (float)((double)from + by);
        bool stuck = (by != 0) & (to == from) & (fabsf(from) <= FLT_MAX);
        float next = next_float(from, by > 0);
        at[i] = stuck ? next : to;
    }
}

void array_spread_all(InterpRun *run, Array *array, uint32_t source, const double *bounds)
{
    array_want_samples(run, array);
    for (int s = 0; array->dtype == DT_F32 && s < SAMPLES; s++) {
        spread_floats(source, s, array->n, bounds, (float *)(void *)array_plane(array, s));
    }
    for (int64_t i = 0; array->dtype != DT_F32 && i < array->n; i++) {
        array_spread(run, array, source, i, bounds[i]);
    }
}

void array_spread_share(InterpRun *run, Array *array, uint32_t source, double share, double least)
{
    for (int64_t i = 0; i < array->n; i++) {
        double value = array_scalar(array, i).f;
        array_spread(run, array, source, i, isfinite(value) ? share * fabs(value) + least : 0);
    }
}

int array_rounding_way(uint32_t source, int sample, int64_t i)
{
    static const int WAYS[] = {0, 1, -1};
    return WAYS[hash_word(hash_word(~source, (uint64_t)i), (uint64_t)sample) % 3];
}

void array_round_other_way(Array *array, int way, int sample, int64_t i, double exact, double off)
{
    size_t bytes = (size_t)dtype_bytes(array->dtype);
    unsigned char *at = (unsigned char *)array_plane(array, sample) + (size_t)i * bytes;
    Scalar value = scalar_load(array->dtype, at);
    if (value.f == 0 || !isfinite(value.f)) {
        return;
    }
    Scalar other = moved(array->dtype, value, way * DBL_TRUE_MIN);
    if (!(fabs(exact - (value.f + other.f) / 2) > SAFETY * off)) {
        scalar_store(array->dtype, at, other);
    }
}

/* How far two values are from one another. Zeros of two signs differ, NaN is far from all but NaN.
 */
static double distance(double a, double b)
{
    if (a == b && a != 0) {
        return 0;
    }
    double far = fabs(a - b);
    if (far > 0) {
        return far;
    }
    if (a == b) {
        return signbit(a) != signbit(b) ? DBL_TRUE_MIN : 0;
    }
    return isnan(a) && isnan(b) ? 0 : INFINITY;
}

/* A cast to 16 bits spreads over the hull, so that the samples already are its ends. */
static double widened(DType dtype, double value, double far)
{
    switch (dtype) {
    case DT_F32: return SAFETY * far + (isfinite(value) ? fabs(value) * FLT_EPSILON + 0x1p-149 : 0);
    case DT_F64:
        return SAFETY * far + (isfinite(value) ? fabs(value) * DBL_EPSILON + 0x1p-1074 : 0);
    default: return far;
    }
}

double array_bound(const Array *array, int64_t i)
{
    if (!array->samples) {
        return 0;
    }
    size_t bytes = (size_t)dtype_bytes(array->dtype), plane = plane_bytes(array);
    const unsigned char *at = array->samples->bytes + (size_t)i * bytes;
    bool is_float = dtype_is_float(array->dtype);
    Scalar value = array_scalar(array, i);
    double middle = is_float ? value.f : (double)value.i, far = 0;
    for (int s = 0; s < SAMPLES; s++, at += plane) {
        Scalar sample = scalar_load(array->dtype, at);
        double d = distance(middle, is_float ? sample.f : (double)sample.i);
        far = d > far ? d : far;
    }
    return widened(array->dtype, middle, far);
}

void array_hull(const Array *array, int64_t i, int64_t hull[2])
{
    size_t at = (size_t)i * (size_t)dtype_bytes(array->dtype);
    hull[0] = hull[1] = array_scalar(array, i).i;
    for (int s = 0; array->samples && s < SAMPLES; s++) {
        int64_t sample = scalar_load(array->dtype, (unsigned char *)array_plane(array, s) + at).i;
        hull[0] = sample < hull[0] ? sample : hull[0];
        hull[1] = sample > hull[1] ? sample : hull[1];
    }
}

void array_free(InterpRun *run, Array *array, int64_t i, Scalar least, Scalar most)
{
    size_t at = (size_t)i * (size_t)dtype_bytes(array->dtype);
    array_want_samples(run, array);
    for (int s = 0; s < SAMPLES; s++) {
        scalar_store(array->dtype, (unsigned char *)array_plane(array, s) + at,
                     s % 2 ? most : least);
    }
}

void array_any(InterpRun *run, Array *array, int64_t i)
{
    bool is_float = dtype_is_float(array->dtype), is_bool = array->dtype == DT_BOOL;
    Scalar least = {.i = is_bool ? 0 : dtype_least(array->dtype)};
    Scalar most = {.i = is_bool ? 1 : ~dtype_least(array->dtype)};
    if (array->dtype == DT_U64) {
        most.i = INT64_MAX;
    }
    if (is_float) {
        least.f = -(double)INFINITY;
        most.f = (double)INFINITY;
    }
    array_free(run, array, i, least, most);
}

/* ---- planes in one type ---- */

static void to_doubles(DType dtype, int64_t n, const unsigned char *from, double *to)
{
    size_t bytes = (size_t)dtype_bytes(dtype);
    if (dtype == DT_F32) {
        const float *floats = (const float *)(const void *)from;
        for (int64_t i = 0; i < n; i++) {
            to[i] = (double)floats[i];
        }
        return;
    }
    if (dtype == DT_BF16) {
        const uint16_t *halves = (const uint16_t *)(const void *)from;
        for (int64_t i = 0; i < n; i++) {
            to[i] = (double)bf16_to_f32(halves[i]);
        }
        return;
    }
    bool is_float = dtype_is_float(dtype);
    for (int64_t i = 0; i < n; i++) {
        Scalar value = scalar_load(dtype, from + (size_t)i * bytes);
        to[i] = is_float ? value.f : (double)value.i;
    }
}

Buffer *array_doubles(InterpRun *run, const Array *array, int sample)
{
    Buffer *buffer = buffer_new(run, (size_t)array->n * sizeof(double));
    to_doubles(array->dtype, array->n, array_plane(array, sample), (double *)(void *)buffer->bytes);
    return buffer;
}

Buffer *array_ints(InterpRun *run, const Array *array, int sample)
{
    Buffer *buffer = buffer_new(run, (size_t)array->n * sizeof(int64_t));
    int64_t *to = (int64_t *)(void *)buffer->bytes;
    const unsigned char *from = array_plane(array, sample);
    size_t bytes = (size_t)dtype_bytes(array->dtype);
    for (int64_t i = 0; i < array->n; i++) {
        to[i] = scalar_load(array->dtype, from + (size_t)i * bytes).i;
    }
    return buffer;
}

Buffer *array_bounds(InterpRun *run, const Array *array)
{
    if (!array->samples) {
        return NULL;
    }
    Buffer *values = array_doubles(run, array, -1);
    const double *middle = (const double *)(const void *)values->bytes;
    Buffer *result = buffer_zeroed(run, (size_t)array->n * sizeof(double));
    double *far = (double *)(void *)result->bytes;
    for (int s = 0; s < SAMPLES; s++) {
        Buffer *plane = array_doubles(run, array, s);
        const double *sample = (const double *)(const void *)plane->bytes;
        for (int64_t i = 0; i < array->n; i++) {
            double d = distance(middle[i], sample[i]);
            far[i] = d > far[i] ? d : far[i];
        }
        buffer_drop(run, plane);
    }
    for (int64_t i = 0; i < array->n; i++) {
        far[i] = widened(array->dtype, middle[i], far[i]);
    }
    buffer_drop(run, values);
    return result;
}
