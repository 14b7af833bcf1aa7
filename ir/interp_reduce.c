/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and products. Floats accumulate in f64 and round once: the interpreter is then off by
 * half a unit, and the bound speaks of the other executor alone. An executor may associate in any
 * way, and a matrix unit may truncate where IEEE rounds, hence the larger unit for products. */
#include "ir/interp_run.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef enum Fold { FOLD_SUM, FOLD_PROD, FOLD_MAX, FOLD_MIN } Fold;

static double *doubles(Buffer *buffer)
{
    return buffer ? (double *)(void *)buffer->bytes : NULL;
}

static int64_t *ints(Buffer *buffer)
{
    return buffer ? (int64_t *)(void *)buffer->bytes : NULL;
}

/* ---- reduce ---- */

/* The axis that is folded, between those outside and inside of it. */
typedef struct Axes {
    int64_t outer, len, inner;
    Fold fold;
    OpKind kind;
    DType dtype;
} Axes;

static Axes axes_of(Run *run, const Op *op, const Array *from)
{
    static const struct {
        const char *name;
        Fold fold;
        OpKind kind;
    } names[] = {{"sum", FOLD_SUM, OP_ADD},
                 {"prod", FOLD_PROD, OP_MUL},
                 {"max", FOLD_MAX, OP_MAX},
                 {"min", FOLD_MIN, OP_MIN}};
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Axes axes = {.outer = 1, .len = from->dims[axis], .inner = 1, .dtype = from->dtype};
    for (int i = 0; i < from->rank; i++) {
        axes.outer *= i < axis ? from->dims[i] : 1;
        axes.inner *= i > axis ? from->dims[i] : 1;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (text_same(names[i].name, op_word(op, ATTR_FN))) {
            axes.fold = names[i].fold;
            axes.kind = names[i].kind;
            return axes;
        }
    }
    run_fail(run, op, "no such reduction");
}

static int64_t least_int(DType dtype)
{
    return dtype_is_signed(dtype) ? (int64_t)(UINT64_MAX << (dtype_bits(dtype) - 1)) : 0;
}

/* What an empty axis gives. */
static Scalar neutral(const Axes *axes)
{
    bool is_float = dtype_is_float(axes->dtype);
    switch (axes->fold) {
    case FOLD_SUM:
        return is_float ? (Scalar){.f = 0} : (Scalar){.i = 0};
    case FOLD_PROD:
        return is_float ? (Scalar){.f = 1} : (Scalar){.i = 1};
    case FOLD_MAX:
        return is_float ? (Scalar){.f = -INFINITY} : (Scalar){.i = least_int(axes->dtype)};
    default:
        return is_float ? (Scalar){.f = INFINITY} : (Scalar){.i = ~least_int(axes->dtype)};
    }
}

static double fold_float(const Axes *axes, double a, double b)
{
    switch (axes->fold) {
    case FOLD_SUM:
        return a + b;
    case FOLD_PROD:
        return a * b;
    default: {
        Scalar both[2] = {{.f = a}, {.f = b}};
        return scalar_op(axes->kind, NULL, DT_F64, DT_F64, both).f;
    }
    }
}

static void fold_floats(const Axes *axes, const double *from, double *to)
{
    double start = neutral(axes).f;
    for (int64_t o = 0; o < axes->outer; o++, to += axes->inner) {
        for (int64_t i = 0; i < axes->inner; i++) {
            to[i] = start;
        }
        for (int64_t l = 0; l < axes->len; l++, from += axes->inner) {
            for (int64_t i = 0; i < axes->inner; i++) {
                to[i] = l == 0 ? from[i] : fold_float(axes, to[i], from[i]);
            }
        }
    }
}

static void fold_ints(const Axes *axes, const int64_t *from, int64_t *to)
{
    Scalar start = neutral(axes);
    if (dtype_is_int(axes->dtype) && !dtype_is_signed(axes->dtype) && axes->fold == FOLD_MIN) {
        start.i = scalar_op(OP_NOT, NULL, axes->dtype, axes->dtype, &(Scalar){.i = 0}).i;
    }
    for (int64_t o = 0; o < axes->outer; o++, to += axes->inner) {
        for (int64_t i = 0; i < axes->inner; i++) {
            to[i] = start.i;
        }
        for (int64_t l = 0; l < axes->len; l++, from += axes->inner) {
            for (int64_t i = 0; i < axes->inner; i++) {
                Scalar both[2] = {{.i = to[i]}, {.i = from[i]}};
                to[i] = scalar_op(axes->kind, NULL, axes->dtype, axes->dtype, both).i;
            }
        }
    }
}

static Buffer *folded(Run *run, const Axes *axes, Buffer *from, bool is_float)
{
    Buffer *to = buffer_new(run, (size_t)(axes->outer * axes->inner) * sizeof(double));
    if (is_float) {
        fold_floats(axes, doubles(from), doubles(to));
    } else {
        fold_ints(axes, ints(from), ints(to));
    }
    buffer_drop(run, from);
    return to;
}

static void put_plane(Array *to, const Buffer *from, bool is_float)
{
    const double *f = (const double *)(const void *)from->bytes;
    const int64_t *i64 = (const int64_t *)(const void *)from->bytes;
    for (int64_t i = 0; i < to->n; i++) {
        Scalar value = is_float ? (Scalar){.f = f[i]} : (Scalar){.i = i64[i]};
        scalar_store(to->dtype, array_at(to, i), value);
    }
}

static void fold_poison(Run *run, const Axes *axes, Array *to, const Array *from)
{
    if (!array_has_poison(from)) {
        return;
    }
    array_want_poison(run, to);
    for (int64_t i = 0; i < from->n; i++) {
        int64_t at = i / (axes->len * axes->inner) * axes->inner + i % axes->inner;
        to->poison->bytes[at] |= from->poison->bytes[i];
    }
}

/* ---- bounds of a reduction ---- */

static double unit_of(DType dtype)
{
    return dtype == DT_F64 ? 0x1p-53 : dtype == DT_F32 ? 0x1p-24 : 0x1p-8;
}

static double greatest_of(DType dtype)
{
    return dtype == DT_F64 ? DBL_MAX : dtype == DT_F16 ? 65504.0 : (double)FLT_MAX;
}

/* Rounding of at most n operations whose partial results stay under `size`. Where the parts leave
 * the type's range, so may another order's result. */
static double rounding(double n, double unit, double size, double greatest)
{
    if (!isfinite(size)) {
        return 0; /* of inputs that are no numbers every order makes the same */
    }
    return size > greatest ? INFINITY : n * unit * size * (1 + n * unit);
}

/* Per result: sum of |x| + bound, or product of it. */
static Buffer *sizes_of(Run *run, const Axes *axes, const Array *from, const double *bounds)
{
    Buffer *sizes = array_doubles(run, from, -1);
    double *size = doubles(sizes);
    for (int64_t i = 0; i < from->n; i++) {
        size[i] = fabs(size[i]) + (bounds ? bounds[i] : 0);
    }
    Axes along = *axes;
    along.dtype = DT_F64;
    return folded(run, &along, sizes, true);
}

static Buffer *sum_of_bounds(Run *run, const Axes *axes, Buffer *bounds)
{
    Axes along = *axes;
    along.dtype = DT_F64;
    bool extreme = along.fold == FOLD_MAX || along.fold == FOLD_MIN;
    along.fold = extreme ? FOLD_MAX : FOLD_SUM;
    along.kind = OP_MAX;
    return folded(run, &along, buffer_keep(bounds), true);
}

static void bound_sum(const Axes *axes, const double *size, const double *moved, int64_t n,
                      double *out)
{
    for (int64_t i = 0; i < n; i++) {
        double terms = axes->len > 2 ? (double)axes->len : 0;
        out[i] = rounding(terms, unit_of(axes->dtype), size[i], greatest_of(axes->dtype))
                 + (moved ? moved[i] : 0);
    }
}

static void bound_prod(const Axes *axes, const double *size, const double *exact, int64_t n,
                       double *out)
{
    for (int64_t i = 0; i < n; i++) {
        double terms = axes->len > 2 ? (double)axes->len : 0;
        out[i] = rounding(terms, unit_of(axes->dtype), size[i], greatest_of(axes->dtype));
        out[i] += isfinite(size[i]) ? size[i] - fabs(exact[i]) : 0;
    }
}

/* NULL: exact. `exact`: the results before rounding. */
static Buffer *bounds_of(Run *run, const Axes *axes, const Array *from, Buffer *exact, int64_t n)
{
    Buffer *bounds = array_bounds(run, from);
    bool extreme = axes->fold == FOLD_MAX || axes->fold == FOLD_MIN;
    if (!bounds && (extreme || axes->len <= 2 || !dtype_is_float(axes->dtype))) {
        return NULL;
    }
    if (extreme || !dtype_is_float(axes->dtype)) {
        Buffer *sum = sum_of_bounds(run, axes, bounds);
        buffer_drop(run, bounds);
        return sum;
    }
    Buffer *sizes = sizes_of(run, axes, from, doubles(bounds));
    Buffer *moved = bounds ? sum_of_bounds(run, axes, bounds) : NULL;
    Buffer *result = buffer_new(run, (size_t)n * sizeof(double));
    if (axes->fold == FOLD_SUM) {
        bound_sum(axes, doubles(sizes), doubles(moved), n, doubles(result));
    } else {
        bound_prod(axes, doubles(sizes), doubles(exact), n, doubles(result));
    }
    buffer_drop(run, sizes);
    buffer_drop(run, moved);
    buffer_drop(run, bounds);
    return result;
}

static void spread_all(Run *run, const Op *op, Array *array, Buffer *bounds)
{
    uint32_t source = run->source[op->results[0]->id];
    for (int64_t i = 0; bounds && i < array->n; i++) {
        array_spread(run, array, source, i, doubles(bounds)[i]);
    }
    buffer_drop(run, bounds);
}

void interp_reduce(Run *run, const Op *op)
{
    Array *from = run_operand(run, op, 0);
    if (op->n_operands > 1) {
        interp_scratch(run, op, op_access(op, 1));
    }
    Axes axes = axes_of(run, op, from);
    Array *to = array_of_type(run, op, op->results[0]->type);
    bool is_float = dtype_is_float(from->dtype);
    Buffer *elements = is_float ? array_doubles(run, from, -1) : array_ints(run, from, -1);
    Buffer *result = folded(run, &axes, elements, is_float);
    put_plane(to, result, is_float);
    fold_poison(run, &axes, to, from);
    if (run->options->bounds) {
        spread_all(run, op, to, bounds_of(run, &axes, from, result, to->n));
    }
    buffer_drop(run, result);
    run_result(run, op, 0, to);
}

/* ---- products ---- */

enum { PANEL = 8 };

typedef struct Matrix {
    Buffer *values, *sizes; /* doubles or i64; |value| + bound, or NULL: exact */
    Buffer *poison;         /* of a's rows, of b's columns */
    int64_t rows, cols;
} Matrix;

/* to[m, n] += a[m, k] · b[k, n], b in panels of PANEL columns. */
static void multiply_panel(const double *a, const double *panel, int64_t m, int64_t k, int64_t n,
                           int64_t width, double *to)
{
    for (int64_t i = 0; i < m; i++) {
        double sum[PANEL] = {0};
        const double *row = a + i * k;
        for (int64_t l = 0; l < k; l++) {
            for (int j = 0; j < PANEL; j++) {
                sum[j] += row[l] * panel[l * PANEL + j];
            }
        }
        memcpy(to + i * n, sum, (size_t)width * sizeof(double));
    }
}

static Buffer *multiply(Run *run, const Matrix *a, const Matrix *b, const double *av,
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

static Buffer *multiply_ints(Run *run, const Matrix *a, const Matrix *b)
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

static void transpose(Run *run, Buffer **buffer, int64_t rows, int64_t cols)
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
static Buffer *poison_lines(Run *run, const Array *from, bool transposed, bool by_row)
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

static Matrix matrix_of(Run *run, const Array *from, bool transposed, bool is_a)
{
    Matrix matrix = {.rows = from->dims[0], .cols = from->dims[1]};
    bool is_float = dtype_is_float(from->dtype);
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

static void matrix_drop(Run *run, Matrix *matrix)
{
    buffer_drop(run, matrix->values);
    buffer_drop(run, matrix->sizes);
    buffer_drop(run, matrix->poison);
}

static Buffer *absolute(Run *run, const Matrix *matrix)
{
    size_t n = (size_t)(matrix->rows * matrix->cols);
    Buffer *to = buffer_new(run, n * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        doubles(to)[i] = fabs(doubles(matrix->values)[i]);
    }
    return to;
}

/* With s = |x| + bound: the operands' part is sa·sb - |a|·|b|, the rounding follows sa·sb. */
static Buffer *product_bounds(Run *run, const Matrix *a, const Matrix *b, const Array *c,
                              DType dtype)
{
    Buffer *abs_a = absolute(run, a), *abs_b = absolute(run, b);
    Buffer *exact = multiply(run, a, b, doubles(abs_a), doubles(abs_b));
    Buffer *wide = buffer_keep(exact);
    if (a->sizes || b->sizes) {
        buffer_drop(run, wide);
        wide = multiply(run, a, b, doubles(a->sizes ? a->sizes : abs_a),
                        doubles(b->sizes ? b->sizes : abs_b));
    }
    Buffer *result = buffer_new(run, (size_t)(a->rows * b->cols) * sizeof(double));
    double terms = (double)a->cols + (c ? 1 : 0);
    for (int64_t i = 0; i < a->rows * b->cols; i++) {
        double size = doubles(wide)[i] + (c ? fabs(array_scalar(c, i).f) : 0);
        double apart = doubles(wide)[i] - doubles(exact)[i];
        doubles(result)[i] = rounding(terms, 2 * unit_of(dtype), size, greatest_of(dtype))
                             + (isnan(apart) ? 0 : apart);
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
        Scalar from = c ? scalar_load(to->dtype, add + i * bytes)
                        : (is_float ? (Scalar){.f = 0} : (Scalar){.i = 0});
        if (is_float) {
            from.f += ((const double *)(const void *)sum->bytes)[i];
        } else {
            from.i = (int64_t)((uint64_t)from.i + ((const uint64_t *)(const void *)sum->bytes)[i]);
        }
        scalar_store(to->dtype, out + i * bytes, from);
    }
}

static void product_poison(Run *run, Array *to, const Matrix *a, const Matrix *b, const Array *c)
{
    bool from_c = c && array_has_poison(c);
    if (!a->poison && !b->poison && !from_c) {
        return;
    }
    array_want_poison(run, to);
    for (int64_t i = 0; i < to->n; i++) {
        to->poison->bytes[i] = (a->poison && a->poison->bytes[i / b->cols])
                               || (b->poison && b->poison->bytes[i % b->cols])
                               || (from_c && c->poison->bytes[i]);
    }
}

static void check_product(Run *run, const Op *op, const Matrix *a, const Matrix *b, const Array *to)
{
    if (a->cols != b->rows || to->rank != 2 || to->dims[0] != a->rows || to->dims[1] != b->cols) {
        run_fail(run, op, "[%lld, %lld] times [%lld, %lld] is not the result's shape",
                 (long long)a->rows, (long long)a->cols, (long long)b->rows, (long long)b->cols);
    }
}

Array *interp_product(Run *run, const Op *op, Array *a, Array *b, Array *c)
{
    if (a->rank != 2 || b->rank != 2) {
        run_fail(run, op, "the operands are no matrices");
    }
    Matrix ma = matrix_of(run, a, op_int(op, ATTR_TA, 0) != 0, true);
    Matrix mb = matrix_of(run, b, op_int(op, ATTR_TB, 0) != 0, false);
    Array *to = array_of_type(run, op, op->results[0]->type);
    check_product(run, op, &ma, &mb, to);
    bool is_float = dtype_is_float(to->dtype);
    Buffer *sum = is_float ? multiply(run, &ma, &mb, doubles(ma.values), doubles(mb.values))
                           : multiply_ints(run, &ma, &mb);
    add_plane(to, c, sum, -1);
    product_poison(run, to, &ma, &mb, c);
    if (is_float && run->options->bounds) {
        array_want_samples(run, to);
        for (int s = 0; s < SAMPLES; s++) {
            add_plane(to, c, sum, s);
        }
        spread_all(run, op, to, product_bounds(run, &ma, &mb, c, to->dtype));
    }
    buffer_drop(run, sum);
    matrix_drop(run, &ma);
    matrix_drop(run, &mb);
    return to;
}
