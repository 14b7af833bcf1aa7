/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over axes: sum, prod, max, min, mean, any, all, var, std. A reduced axis stays with
 * extent 1; without an axis argument the result is a scalar. */
#include "frontend/lower/lower_reduce.h"

#include "frontend/lower/lint.h"

/* ---- arguments ---- */

static const Option *option_called(const Option *options, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (text_equal(options[i].name, name)) {
            return &options[i];
        }
    }
    return NULL;
}

bool take_options(Lower *l, const Expr *call, size_t positional, const Option *options, size_t n,
                  const char *usage)
{
    bool good = call->args.n >= positional;
    for (size_t i = 0; i < call->args.n && good; i++) {
        const Expr *arg = call->args.items[i];
        bool named = arg->kind == EXPR_NAMED;
        const Option *option = named ? option_called(options, n, arg->name) : NULL;
        good = named ? i >= positional && option && !*option->value : i < positional;
        if (option && good) {
            *option->value = arg->a;
        }
    }
    if (!good) {
        Diag *diag = lower_wrong_call(l, call);
        diag_help(l->diags, diag, "write `%s`", usage);
        const Expr *last = call->args.n == 2 ? call->args.items[1] : NULL;
        if (last && last->kind == EXPR_INT && positional == 1) {
            Val operand = lower_expr(l, call->args.items[0]);
            bool exists = last->integer < shape_of(&operand).rank;
            lower_fix(l, diag, last->span, "axis=%lld", exists ? (long long)last->integer : -1);
        }
    }
    return good;
}

void lower_no_axis(Lower *l, Span span, int64_t axis, int rank)
{
    Diag *diag = lower_error(l, ERR_AXIS, span, "there is no axis %lld: the operand has %d %s",
                             (long long)axis, rank, rank == 1 ? "axis" : "axes");
    if (rank == 1) {
        diag_help(l->diags, diag, "its only axis is 0");
    } else {
        diag_help(l->diags, diag, "axes are counted from 0 to %d, or from -1 back to -%d", rank - 1,
                  rank);
    }
}

static bool choose_axis(Lower *l, const Expr *expr, int rank, Axes *axes)
{
    int64_t axis;
    if (!const_int(l, expr, &axis)) {
        return false;
    }
    if (axis < -rank || axis >= rank) {
        lower_no_axis(l, expr->span, axis, rank);
        return false;
    }
    axes->chosen[axis < 0 ? axis + rank : axis] = true;
    return true;
}

bool choose_axes(Lower *l, const Expr *axis, int rank, Axes *axes)
{
    *axes = (Axes){.all = axis == NULL};
    for (int i = 0; i < rank && axes->all; i++) {
        axes->chosen[i] = true;
    }
    if (!axis || axis->kind != EXPR_LIST) {
        return !axis || choose_axis(l, axis, rank, axes);
    }
    for (size_t i = 0; i < axis->args.n; i++) {
        if (!choose_axis(l, axis->args.items[i], rank, axes)) {
            return false;
        }
    }
    return true;
}

bool choose_one(Lower *l, const Expr *call, const Expr *axis, int rank, int *out)
{
    Axes axes;
    *out = rank - 1;
    if (rank == 0) {
        lower_error(l, ERR_AXIS, call->span, "a scalar has no axis");
        return false;
    }
    if (!axis) {
        return true;
    }
    if (axis->kind == EXPR_LIST) {
        lower_error(l, ERR_AXIS, axis->span, "expected one axis");
        return false;
    }
    if (!choose_axes(l, axis, rank, &axes)) {
        return false;
    }
    for (*out = 0; !axes.chosen[*out]; (*out)++) {}
    return true;
}

bool choose_bool(Lower *l, const Expr *expr, bool *out)
{
    *out = false;
    if (!expr) {
        return true;
    }
    Val val = lower_expr(l, expr);
    if (val.kind == VAL_CONST && val.dtype == DT_BOOL) {
        *out = val.scalar.i;
        return true;
    }
    if (!is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_NOT_CONST, expr->span, "this is not known when compiling");
        diag_help(l->diags, diag, "write `true` or `false`, or a `const bool` parameter");
    }
    return false;
}

/* ---- axes ---- */

/* f16, bf16: f32; integers under 32 bits: i32 or u32 when they are added up. */
DType reduced_dtype(DType dtype, Reducer reducer)
{
    bool adds = reducer == REDUCER_SUM || reducer == REDUCER_PROD;
    if (adds && dtype_is_int(dtype) && dtype_bits(dtype) < 32) {
        return dtype_is_signed(dtype) ? DT_I32 : DT_U32;
    }
    return compute_dtype(dtype);
}

Value *squeeze_all(Lower *l, Value *value, const Axes *axes, int lanes)
{
    while (axes->all && value->type->rank > lanes) {
        value = build_squeeze(&l->b, value, lanes);
    }
    return value;
}

const char *reducer_name(Reducer reducer)
{
    static const char *const names[] = {[REDUCER_SUM] = "sum",
                                        [REDUCER_PROD] = "prod",
                                        [REDUCER_MAX] = "max",
                                        [REDUCER_MIN] = "min"};
    return names[reducer];
}

/* The lanes' axes come first, and are not the operand's own. The axes stay. */
static Val reduce_axes(Lower *l, Reducer reducer, const Val *val, DType dtype, const Axes *axes)
{
    Shape shape = shape_of(val);
    int lanes = lane_count(shape.lanes);
    Value *value = materialize(l, val, dtype, &shape);
    for (int i = value->type->rank - 1; i >= lanes; i--) {
        if (axes->chosen[i - lanes]) {
            value = build_reduce(&l->b, reducer_name(reducer), value, i);
        }
    }
    return shaped_val(value, &shape);
}

/* How many elements a mean is over, in its type. A tail's range counts what exists. */
static Value *count_elements(Lower *l, const Shape *shape, const Axes *axes, DType dtype)
{
    Value *count = NULL;
    for (int i = 0; i < shape->rank; i++) {
        if (!axes->chosen[i]) {
            continue;
        }
        DimVar *range = poly_as_range(shape->dims[i]);
        Value *n = range ? build_range_fact(&l->b, OP_LEN, range->binder)
                         : build_size(&l->b, shape->dims[i]);
        count = count ? build_binary(&l->b, OP_MUL, count, n) : n;
    }
    return build_cast(&l->b, count ? count : build_i64(&l->b, 1), dtype);
}

/* ---- the reductions ---- */

typedef struct Reduction {
    const Expr *expr;
    Reducer reducer;
    Val x;
    Axes axes;
} Reduction;

static Val plain(Lower *l, const Reduction *r)
{
    DType dtype = reduced_dtype(dtype_of(&r->x), r->reducer);
    if (r->reducer == REDUCER_SUM && r->expr->kind == EXPR_CALL && r->expr->args.n > 0) {
        lint_terms(l, r->expr->args.items[0], dtype_of(&r->x));
    }
    return reduce_axes(l, r->reducer, &r->x, dtype, &r->axes);
}

/* any is the greatest of 0 and 1, all the least; of nothing: false and true. */
static Val logical(Lower *l, const Reduction *r)
{
    Val extreme = reduce_axes(l, r->reducer, &r->x, DT_I32, &r->axes), zero = int_val(0, true);
    return apply_binary(l, r->expr, OP_CMP, "gt", &extreme, &zero, r->expr, r->expr);
}

static Val mean_of(Lower *l, const Reduction *r, const Val *x)
{
    DType dtype = compute_dtype(dtype_of(x));
    Shape shape = shape_of(x);
    Val sum = reduce_axes(l, REDUCER_SUM, x, dtype, &r->axes);
    Val count = array_val(count_elements(l, &shape, &r->axes, dtype));
    return apply_binary(l, r->expr, OP_DIV, NULL, &sum, &count, r->expr, r->expr);
}

static Val mean(Lower *l, const Reduction *r)
{
    return mean_of(l, r, &r->x);
}

/* The mean square of the distances from the mean: of the whole population. The mean is rounded, so
 * the distances have a mean of their own, whose square is subtracted (the corrected two-pass
 * algorithm): without it, equal elements would vary by the rounding of their mean. */
static Val variance(Lower *l, const Reduction *r)
{
    Val middle = mean_of(l, r, &r->x);
    Val far = apply_binary(l, r->expr, OP_SUB, NULL, &r->x, &middle, r->expr, r->expr);
    Val square = apply_binary(l, r->expr, OP_MUL, NULL, &far, &far, r->expr, r->expr);
    if (is_poison(&square)) {
        return square;
    }
    Val spread = mean_of(l, r, &square), rest = mean_of(l, r, &far), zero = int_val(0, true);
    rest = apply_binary(l, r->expr, OP_MUL, NULL, &rest, &rest, r->expr, r->expr);
    spread = apply_binary(l, r->expr, OP_SUB, NULL, &spread, &rest, r->expr, r->expr);
    return apply_binary(l, r->expr, OP_MAX, NULL, &spread, &zero, r->expr, r->expr);
}

static Val deviation(Lower *l, const Reduction *r)
{
    Val val = variance(l, r);
    return is_poison(&val) ? val : lanes_val(build_unary(&l->b, OP_SQRT, val.value), val.lanes);
}

typedef Val ReductionFn(Lower *l, const Reduction *r);

typedef enum Takes { TAKES_NUMBERS, TAKES_FLOATS, TAKES_BOOLS } Takes;

static const struct {
    ReductionFn *lower;
    Takes takes;
} REDUCTIONS[N_BUILTINS] = {
    [BUILTIN_SUM] = {plain, TAKES_NUMBERS},    [BUILTIN_PROD] = {plain, TAKES_NUMBERS},
    [BUILTIN_MAX] = {plain, TAKES_NUMBERS},    [BUILTIN_MIN] = {plain, TAKES_NUMBERS},
    [BUILTIN_ANY] = {logical, TAKES_BOOLS},    [BUILTIN_ALL] = {logical, TAKES_BOOLS},
    [BUILTIN_MEAN] = {mean, TAKES_FLOATS},     [BUILTIN_VAR] = {variance, TAKES_FLOATS},
    [BUILTIN_STD] = {deviation, TAKES_FLOATS},
};

static bool check_element(Lower *l, const Expr *arg, const char *name, DType dtype, Takes takes)
{
    bool fits = takes == TAKES_BOOLS
                    ? dtype == DT_BOOL
                    : dtype != DT_BOOL && (takes == TAKES_NUMBERS || dtype_is_float(dtype));
    if (!fits) {
        static const char *const helps[] = {"cast it: `i32(…)`", "cast it: `f32(…)`",
                                            "write a condition: `x > 0`"};
        Diag *diag = lower_error(l, ERR_OPERATOR, arg->span, "`%s` does not apply to %s", name,
                                 dtype_name(dtype));
        diag_help(l->diags, diag, "%s", helps[takes]);
    }
    return fits;
}

Val lower_reduction(Lower *l, const Expr *expr, Builtin builtin)
{
    const Expr *axis = NULL;
    const char *name = builtin_name(builtin);
    const Option options[] = {{"axis", &axis}};
    const char *usage =
        arena_printf(l->arena, "%s(x, axis=-1)`, or for all axes `%s(x)", name, name);
    if (!take_options(l, expr, 1, options, 1, usage)) {
        return poison_val();
    }
    const Expr *arg = expr->args.items[0];
    Reduction r = {.expr = expr, .reducer = builtin_reducer(builtin), .x = lower_operand(l, arg)};
    if (is_poison(&r.x) ||
        !check_element(l, arg, name, dtype_of(&r.x), REDUCTIONS[builtin].takes) ||
        !choose_axes(l, axis, shape_of(&r.x).rank, &r.axes)) {
        return poison_val();
    }
    if (l->lane_loop) {
        mixes_lanes(l, expr->span, name);
        return poison_val();
    }
    Val out = REDUCTIONS[builtin].lower(l, &r);
    if (!is_poison(&out)) {
        out.value = squeeze_all(l, out.value, &r.axes, lane_count(out.lanes));
    }
    return out;
}
