/* SPDX-License-Identifier: Apache-2.0 */
/* Dots: accumulated in f64 and rounded once, with an analytical error bound. */
#include "ir/interp/interp_reduce.h"
#include "support/target_clones.h"

#include <math.h>
#include <string.h>

enum {
    PANEL = 8,
    F8_STEP = 128,
    /* of a sum in f32, which has a total for long ones (passes/loops/chunk_accumulation.c): */
    MAX_CHAIN = 2 * 8192, /* terms that are added one after the other */
    MIN_CHUNK = 4096 / 2,
};

typedef struct Matrix {
    DType dtype;
    Buffer *values, *sizes; /* doubles or i64; |value| + bound, or NULL: exact */
    Buffer *poison;         /* of a's rows, of b's columns */
    int64_t rows, cols;
} Matrix;

/* to[m, n] = a[m, k] · b[k, n], b in panels of PANEL columns; ROWS rows at a time read a panel.
 * AVX2 has no multiply-adds, so that the bits are the same with it. */
TARGET_CLONES("avx2")
static void multiply_panel(const double *a, const double *panel, int64_t m, int64_t k, int64_t n,
                           int64_t width, double *to)
{
    enum { ROWS = 2 };
    for (int64_t i = 0; i < m; i += ROWS) {
        double sum[ROWS][PANEL] = {{0}};
        int64_t rows = m - i < ROWS ? m - i : ROWS;
        const double *first = a + i * k, *second = a + (i + rows - 1) * k;
        for (int64_t l = 0; l < k; l++) {
            for (int j = 0; j < PANEL; j++) {
                sum[0][j] += first[l] * panel[l * PANEL + j];
                sum[1][j] += second[l] * panel[l * PANEL + j];
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            memcpy(to + (i + r) * n, sum[r], (size_t)width * sizeof(double));
        }
    }
}

static Buffer *multiply(InterpRun *run, const Matrix *a, const Matrix *b, const double *av,
                        const double *bv)
{
    int64_t m = a->rows, k = a->cols, n = b->cols;
    Buffer *to = buffer_new(run, (size_t)(m * n) * sizeof(double));
    Buffer *panel = buffer_zeroed(run, (size_t)k * PANEL * sizeof(double));
    for (int64_t j = 0; j < n; j += PANEL) {
        int64_t width = n - j < PANEL ? n - j : PANEL;
        for (int64_t l = 0; l < k; l++) {
            memcpy(doubles(panel) + l * PANEL, bv + l * n + j, (size_t)width * sizeof(double));
        }
        multiply_panel(av, doubles(panel), m, k, n, width, doubles(to) + j);
    }
    buffer_drop(run, panel);
    return to;
}

static Buffer *multiply_ints(InterpRun *run, const Matrix *a, const Matrix *b)
{
    int64_t m = a->rows, k = a->cols, n = b->cols;
    Buffer *to = buffer_zeroed(run, (size_t)(m * n) * sizeof(int64_t));
    uint64_t *sum = (uint64_t *)(void *)to->bytes;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t l = 0; l < k; l++) {
            uint64_t x = (uint64_t)ints(a->values)[i * k + l];
            for (int64_t j = 0; j < n; j++) {
                sum[i * n + j] += x * (uint64_t)ints(b->values)[l * n + j];
            }
        }
    }
    return to;
}

static void transpose(InterpRun *run, Buffer **buffer, int64_t rows, int64_t cols)
{
    if (!*buffer) {
        return;
    }
    Buffer *to = buffer_new(run, (size_t)(rows * cols) * sizeof(int64_t));
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            ints(to)[j * rows + i] = ints(*buffer)[i * cols + j];
        }
    }
    buffer_drop(run, *buffer);
    *buffer = to;
}

/* Which rows (of a) or columns (of b) hold poison. */
static Buffer *poison_lines(InterpRun *run, const Array *from, bool transposed, bool by_row)
{
    if (!array_has_poison(from)) {
        return NULL;
    }
    int64_t rows = from->dims[0], cols = from->dims[1];
    bool first = by_row != transposed;
    Buffer *lines = buffer_zeroed(run, (size_t)(first ? rows : cols));
    for (int64_t i = 0; i < from->n; i++) {
        lines->bytes[first ? i / cols : i % cols] |= from->poison->bytes[i];
    }
    return lines;
}

static Matrix matrix_of(InterpRun *run, const Op *op, const Array *from, bool is_a)
{
    Matrix matrix = {.dtype = from->dtype, .rows = from->dims[0], .cols = from->dims[1]};
    bool transposed = op_int(op, is_a ? ATTR_TA : ATTR_TB, 0) != 0;
    bool is_float = dtype_is_float(op->results[0]->type->dtype);
    matrix.values = is_float ? array_doubles(run, from, -1) : array_ints(run, from, -1);
    matrix.poison = poison_lines(run, from, transposed, is_a);
    matrix.sizes = run->options->bounds && is_float ? array_bounds(run, from) : NULL;
    for (int64_t i = 0; matrix.sizes && i < from->n; i++) {
        doubles(matrix.sizes)[i] += fabs(doubles(matrix.values)[i]);
    }
    if (transposed) {
        transpose(run, &matrix.values, matrix.rows, matrix.cols);
        transpose(run, &matrix.sizes, matrix.rows, matrix.cols);
        matrix.rows = from->dims[1];
        matrix.cols = from->dims[0];
    }
    return matrix;
}

static void matrix_drop(InterpRun *run, Matrix *matrix)
{
    buffer_drop(run, matrix->values);
    buffer_drop(run, matrix->sizes);
    buffer_drop(run, matrix->poison);
}

static Buffer *absolute(InterpRun *run, const Matrix *matrix)
{
    size_t n = (size_t)(matrix->rows * matrix->cols);
    Buffer *to = buffer_new(run, n * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        doubles(to)[i] = fabs(doubles(matrix->values)[i]);
    }
    return to;
}

/* What a matrix unit may lose of sums of 8-bit floats, of the sum of their sizes: each of its
 * addends is cut 13 bits behind the point of the greatest, and others add up what it makes of
 * F8_STEP of them. */
static double lost_by_unit(DType operands, double terms)
{
    bool f8 = operands == DT_F8E4M3 || operands == DT_F8E5M2;
    return f8 ? fmin(terms, F8_STEP) * 0x1p-13 : 0;
}

/* Both operands have but tf32's bits, as far as the op shows: a matrix unit adds all of k in one
 * sum, as it does for narrower operands. */
static bool is_tf32(const Op *op)
{
    const Op *a = op->operands[0]->def, *b = op->operands[1] ? op->operands[1]->def : NULL;
    return op_attr(op, ATTR_PRECISION) || (a && a->kind == OP_TF32) || (b && b->kind == OP_TF32);
}

/* With s = |x| + bound: the operands' part is sa·sb - |a|·|b|, the rounding follows sa·sb. */
static Buffer *product_bounds(InterpRun *run, const Op *op, const Matrix *a, const Matrix *b,
                              const Array *c)
{
    DType dtype = op->results[0]->type->dtype;
    Buffer *abs_a = absolute(run, a), *abs_b = absolute(run, b);
    Buffer *exact = multiply(run, a, b, doubles(abs_a), doubles(abs_b));
    Buffer *wide = buffer_keep(exact);
    if (a->sizes || b->sizes) {
        buffer_drop(run, wide);
        wide = multiply(run, a, b, doubles(a->sizes ? a->sizes : abs_a),
                        doubles(b->sizes ? b->sizes : abs_b));
    }
    Buffer *result = buffer_new(run, (size_t)(a->rows * b->cols) * sizeof(double));
    double terms = (double)a->cols + (c ? 1 : 0), lost = lost_by_unit(a->dtype, terms);
    /* The longest chain of additions that one term passes through. */
    bool chunks = a->dtype == DT_F32 && dtype == DT_F32 && !is_tf32(op);
    terms = chunks && terms > MAX_CHAIN ? MAX_CHAIN + terms / MIN_CHUNK : terms;
    for (int64_t i = 0; i < a->rows * b->cols; i++) {
        double size = doubles(wide)[i] + (c ? fabs(array_scalar(c, i).f) : 0);
        double difference = doubles(wide)[i] - doubles(exact)[i];
        doubles(result)[i] = rounding(terms, 2 * unit_of(dtype), size, greatest_of(dtype)) +
                             (isnan(difference) ? 0 : difference) +
                             (isfinite(size) ? lost * size : 0);
    }
    buffer_drop(run, abs_a);
    buffer_drop(run, abs_b);
    buffer_drop(run, exact);
    buffer_drop(run, wide);
    return result;
}

static void add_plane(Array *to, const Array *c, const Buffer *sum, int sample)
{
    bool is_float = dtype_is_float(to->dtype);
    size_t bytes = (size_t)dtype_bytes(to->dtype);
    unsigned char *out = array_plane(to, sample);
    const unsigned char *add = c ? array_plane(c, sample) : NULL;
    for (size_t i = 0; i < (size_t)to->n; i++) {
        Scalar from = is_float ? (Scalar){.f = 0} : (Scalar){.i = 0};
        if (c) {
            from = scalar_load(to->dtype, add + i * bytes);
        }
        if (is_float) {
            from.f += ((const double *)(const void *)sum->bytes)[i];
        } else {
            from.i = (int64_t)((uint64_t)from.i + ((const uint64_t *)(const void *)sum->bytes)[i]);
        }
        scalar_store(to->dtype, out + i * bytes, from);
    }
}

static Array *matrix_product(InterpRun *run, const Op *op, Array *a, Array *b, Array *c, Array *to)
{
    Matrix ma = matrix_of(run, op, a, true);
    Matrix mb = matrix_of(run, op, b, false);
    if (ma.cols != mb.rows || to->rank != 2 || to->dims[0] != ma.rows || to->dims[1] != mb.cols) {
        run_fail(run, op, "[%lld, %lld] times [%lld, %lld] is not the result's shape",
                 (long long)ma.rows, (long long)ma.cols, (long long)mb.rows, (long long)mb.cols);
    }
    bool is_float = dtype_is_float(to->dtype);
    Buffer *sum = is_float ? multiply(run, &ma, &mb, doubles(ma.values), doubles(mb.values))
                           : multiply_ints(run, &ma, &mb);
    add_plane(to, c, sum, -1);
    /* An element is poison if its row of a, its column of b or its element of c holds poison. */
    bool from_c = c && array_has_poison(c);
    if (ma.poison || mb.poison || from_c) {
        array_want_poison(run, to);
        for (int64_t i = 0; i < to->n; i++) {
            to->poison->bytes[i] = (ma.poison && ma.poison->bytes[i / mb.cols]) ||
                                   (mb.poison && mb.poison->bytes[i % mb.cols]) ||
                                   (from_c && c->poison->bytes[i]);
        }
    }
    if (is_float && run->options->bounds) {
        array_want_samples(run, to);
        for (int s = 0; s < SAMPLES; s++) {
            add_plane(to, c, sum, s);
        }
        spread_all(run, op, 0, to, product_bounds(run, op, &ma, &mb, c));
    }
    buffer_drop(run, sum);
    matrix_drop(run, &ma);
    matrix_drop(run, &mb);
    return to;
}

/* ---- batches ---- */

static size_t matrix_bytes(const Array *array)
{
    int64_t n = array->dims[array->rank - 2] * array->dims[array->rank - 1];
    return (size_t)(n * dtype_bytes(array->dtype));
}

/* The n-th matrix of an array, as an array of its own. */
static Array *matrix_at(InterpRun *run, const Array *from, int64_t n)
{
    Array *to = array_new(run, from->dtype, 2, from->dims + from->rank - 2);
    size_t bytes = matrix_bytes(from), at = (size_t)n * bytes;
    memcpy(to->data->bytes, from->data->bytes + at, bytes);
    if (from->samples) {
        array_want_samples(run, to);
        for (int s = 0; s < SAMPLES; s++) {
            memcpy(array_plane(to, s), (unsigned char *)array_plane(from, s) + at, bytes);
        }
    }
    if (from->poison) {
        array_want_poison(run, to);
        memcpy(to->poison->bytes, from->poison->bytes + n * to->n, (size_t)to->n);
    }
    return to;
}

Array *interp_product(InterpRun *run, const Op *op, Array *a, Array *b, Array *c)
{
    Array *to = array_of_type(run, op, op->results[0]->type);
    if (a->rank < 2 || a->rank != b->rank || a->rank != to->rank) {
        run_fail(run, op, "the operands are no matrices");
    }
    if (to->rank == 2) {
        return matrix_product(run, op, a, b, c, to);
    }
    int64_t batches = 1;
    for (int i = 0; i < to->rank - 2; i++) {
        batches *= to->dims[i];
    }
    if (run->options->bounds && dtype_is_float(to->dtype) && to->n) {
        memset(to->data->bytes, 0, (size_t)to->n * (size_t)dtype_bytes(to->dtype));
        array_want_samples(run, to);
    }
    for (int64_t i = 0; i < batches && to->n; i++) {
        Array *parts[3] = {matrix_at(run, a, i), matrix_at(run, b, i),
                           c ? matrix_at(run, c, i) : NULL};
        Array *part = array_new(run, to->dtype, 2, to->dims + to->rank - 2);
        matrix_product(run, op, parts[0], parts[1], parts[2], part);
        /* The batch's matrix is copied into the result with its samples and its poison. */
        size_t bytes = matrix_bytes(part), at = (size_t)i * bytes;
        memcpy(to->data->bytes + at, part->data->bytes, bytes);
        if (part->samples) {
            array_want_samples(run, to);
            for (int s = 0; s < SAMPLES; s++) {
                memcpy((unsigned char *)array_plane(to, s) + at, array_plane(part, s), bytes);
            }
        }
        if (part->poison) {
            array_want_poison(run, to);
            memcpy(to->poison->bytes + i * part->n, part->poison->bytes, (size_t)part->n);
        }
        for (int k = 0; k < 3; k++) {
            if (parts[k]) {
                array_drop(run, parts[k]);
            }
        }
        array_drop(run, part);
    }
    return to;
}
