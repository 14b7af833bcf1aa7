/* SPDX-License-Identifier: Apache-2.0 */
/* sum, prod, max, min, mean over axes. An axis stays, with extent 1; no axis: a scalar. */
#include "frontend/lower.h"

typedef struct Axes {
    bool all;
    bool chosen[MAX_RANK];
} Axes;

static bool choose_axis(Lower *l, const Expr *expr, int rank, Axes *axes)
{
    int64_t axis;
    if (!const_int(l, expr, &axis)) {
        return false;
    }
    if (axis < -rank || axis >= rank) {
        lower_error(l, ERR_AXIS, expr->span, "there is no axis %lld: the operand has %d %s",
                    (long long)axis, rank, rank == 1 ? "axis" : "axes");
        return false;
    }
    axes->chosen[axis < 0 ? axis + rank : axis] = true;
    return true;
}

static bool choose_axes(Lower *l, const Expr *named, int rank, Axes *axes)
{
    *axes = (Axes){.all = named == NULL};
    for (int i = 0; i < rank && axes->all; i++) {
        axes->chosen[i] = true;
    }
    if (!named || named->a->kind != EXPR_LIST) {
        return !named || choose_axis(l, named->a, rank, axes);
    }
    for (size_t i = 0; i < named->a->args.n; i++) {
        if (!choose_axis(l, named->a->args.items[i], rank, axes)) {
            return false;
        }
    }
    return true;
}

/* f16, bf16: f32; integers under 32 bits: i32 or u32 when they are added up. */
DType reduced_dtype(DType dtype, const char *fn)
{
    bool adds = text_same(fn, "sum") || text_same(fn, "prod");
    if (adds && dtype_is_int(dtype) && dtype_bits(dtype) < 32) {
        return dtype_is_signed(dtype) ? DT_I32 : DT_U32;
    }
    return compute_dtype(dtype);
}

/* The first `lanes` axes are not the operand's own. */
static Value *reduce_axes(Lower *l, const char *fn, Value *value, const Axes *axes, int lanes)
{
    for (int i = value->type->rank - 1; i >= lanes; i--) {
        if (axes->chosen[i - lanes]) {
            value = build_reduce(&l->b, fn, value, i);
        }
    }
    while (axes->all && value->type->rank > lanes) {
        value = build_squeeze(&l->b, value, lanes);
    }
    return value;
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

static bool check_element(Lower *l, const Expr *arg, const char *name, DType dtype)
{
    bool mean = text_same(name, "mean");
    if (dtype != DT_BOOL && (!mean || dtype_is_float(dtype))) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_OPERATOR, arg->span, "`%s` does not apply to %s", name,
                             dtype_name(dtype));
    diag_help(l->diags, diag, "cast it: `%s(…)`", mean ? "f32" : "i32");
    return false;
}

static Val divide_by_count(Lower *l, Value *sum, const Shape *shape, const Axes *axes)
{
    Value *count = count_elements(l, shape, axes, sum->type->dtype);
    count = build_broadcast(&l->b, count, sum->type->rank, sum->type->dims);
    return shaped_val(build_binary(&l->b, OP_DIV, sum, count), shape);
}

Val lower_reduction(Lower *l, const Expr *expr, const char *name)
{
    const Expr *named = expr->args.n == 2 ? expr->args.items[1] : NULL;
    bool mean = text_same(name, "mean");
    const char *fn = mean ? "sum" : name;
    Axes axes;
    if (expr->args.n < 1 || expr->args.n > 2 || expr->args.items[0]->kind == EXPR_NAMED ||
        (named && (named->kind != EXPR_NAMED || !text_same(named->name, "axis")))) {
        Diag *diag =
            lower_error(l, ERR_ARGUMENTS, expr->span, "`%s` takes an array and an axis", name);
        diag_help(l->diags, diag, "write `%s(x, axis=1)`, or `%s(x)` for all axes", name, name);
        return poison_val();
    }
    Val val = lower_operand(l, expr->args.items[0]);
    Shape shape = shape_of(&val);
    if (is_poison(&val) || !check_element(l, expr->args.items[0], name, dtype_of(&val)) ||
        !choose_axes(l, named, shape.rank, &axes)) {
        return poison_val();
    }
    DType dtype = reduced_dtype(dtype_of(&val), fn);
    Value *operand = materialize(l, &val, dtype, &shape);
    Value *reduced = reduce_axes(l, fn, operand, &axes, lane_count(shape.lanes));
    return mean ? divide_by_count(l, reduced, &shape, &axes) : shaped_val(reduced, &shape);
}
