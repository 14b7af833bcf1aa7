/* SPDX-License-Identifier: Apache-2.0 */
/* Scans and reductions with positions: cumsum and similar functions, argmax and argmin. */
#include "frontend/lower/lower_reduce.h"

/* ---- cumsum, cumprod, cummax, cummin ---- */

typedef struct ScanOptions {
    const Expr *axis, *reverse, *exclusive, *init;
    bool backward, excludes;
} ScanOptions;

/* Reports bools, and scans inside a loop that ends element by element. */
static bool is_refused(Lower *l, const Expr *expr, const Val *x, const char *name)
{
    if (dtype_of(x) == DT_BOOL) {
        Diag *diag = lower_error(l, ERR_OPERATOR, expr->args.items[0]->span,
                                 "`%s` does not apply to bool", name);
        diag_help(l->diags, diag, "cast it: `i32(…)`");
        return true;
    }
    if (l->lane_loop) {
        mixes_lanes(l, expr->span, name);
        return true;
    }
    return false;
}

Val lower_cumulative(Lower *l, const Expr *expr, Builtin builtin)
{
    ScanOptions o = {.axis = NULL};
    const char *name = builtin_name(builtin);
    Reducer reducer = builtin_reducer(builtin);
    const Option options[] = {
        {"axis", &o.axis}, {"reverse", &o.reverse}, {"exclusive", &o.exclusive}};
    const char *usage =
        arena_printf(l->arena, "%s(x, axis=-1, reverse=false, exclusive=false)", name);
    int axis;
    if (!take_options(l, expr, 1, options, 3, usage)) {
        return poison_val();
    }
    const Expr *arg = expr->args.items[0];
    Val x = lower_operand(l, arg);
    if (is_poison(&x) || !choose_bool(l, o.reverse, &o.backward) ||
        !choose_bool(l, o.exclusive, &o.excludes) ||
        !choose_one(l, expr, o.axis, shape_of(&x).rank, &axis)) {
        return poison_val();
    }
    if (is_refused(l, expr, &x, name)) {
        return poison_val();
    }
    Shape shape = shape_of(&x);
    Value *value = materialize(l, &x, reduced_dtype(dtype_of(&x), reducer), &shape);
    axis += lane_count(shape.lanes);
    return shaped_val(build_scan(&l->b, reducer_name(reducer), value, axis, o.backward, o.excludes),
                      &shape);
}

/* ---- argmax, argmin ---- */

static Value *is_nan(Lower *l, Value *value)
{
    return dtype_is_float(value->type->dtype) ? build_unary(&l->b, OP_ISNAN, value)
                                              : build_int(&l->b, type_scalar(l->func, DT_BOOL), 0);
}

Value *arg_extreme(Lower *l, Reducer reducer, Value *values, Value *indices, int axis)
{
    Type scalar = type_scalar(l->func, values->type->dtype);
    Value *neutrals[2] = {dtype_is_float(scalar->dtype) ? build_float(&l->b, scalar, 0)
                                                        : build_int(&l->b, scalar, 0),
                          build_i64(&l->b, -1)};
    Value *arrays[2] = {values, indices};
    Op *fold = build_fold(&l->b, 2, arrays, neutrals, axis, false, false, false);
    op_set_word(l->func, fold, ATTR_ARG, reducer_name(reducer));
    Builder outside = l->b;
    l->b = build_at_end(l->func, fold->regions[0]);
    l->b.span = outside.span;
    Value *const *args = fold->regions[0]->args;
    Builder *b = &l->b;
    Value *zero = build_i64(b, 0);
    Value *none = build_cmp(b, "lt", args[1], zero), *real = build_cmp(b, "ge", args[3], zero);
    Value *better = build_cmp(b, reducer == REDUCER_MAX ? "gt" : "lt", args[2], args[0]);
    Value *was_number = build_unary(b, OP_NOT, is_nan(l, args[0]));
    Value *is_first_nan = build_binary(b, OP_AND, is_nan(l, args[2]), was_number);
    Value *wins = build_binary(b, OP_OR, none, build_binary(b, OP_OR, better, is_first_nan));
    Value *take = build_binary(b, OP_AND, real, wins);
    Value *best[2] = {build_select(&l->b, take, args[2], args[0]),
                      build_select(&l->b, take, args[3], args[1])};
    build_yield(&l->b, 2, best);
    l->b = outside;
    return fold->results[1];
}

/* One axis after the other, the last first: of equals the first in row order stays. */
static Val best_of_all(Lower *l, Reducer reducer, const Val *x)
{
    Shape shape = shape_of(x);
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    Val sum = int_val(0, false);
    for (int i = 0; i < shape.rank; i++) {
        Val extent = dim_val(shape.dims[i]);
        Val own = array_val(build_iota(&l->b, shape.dims[i], DT_I64));
        for (int k = i + 1; k < shape.rank; k++) {
            own.value = build_expand(&l->b, own.value, own.value->type->rank);
        }
        sum = apply_binary(l, &none, OP_MUL, NULL, &sum, &extent, &none, &none);
        sum = apply_binary(l, &none, OP_ADD, NULL, &sum, &own, &none, &none);
    }
    Val index = sum;
    int lanes = lane_count(shape.lanes);
    Value *values = materialize(l, x, compute_dtype(dtype_of(x)), &shape);
    Value *indices = materialize(l, &index, DT_I64, &shape);
    if (shape.rank == 0) {
        return shaped_val(indices, &shape);
    }
    for (int axis = shape.rank - 1; axis > 0; axis--) { /* the elements of one row */
        Value *best = arg_extreme(l, reducer, values, indices, lanes + axis);
        values = build_reduce(&l->b, reducer_name(reducer), values, lanes + axis);
        indices = best;
    }
    Axes all = {.all = true};
    Value *best = arg_extreme(l, reducer, values, indices, lanes);
    return shaped_val(squeeze_all(l, best, &all, lanes), &shape);
}

Val lower_arg_extreme(Lower *l, const Expr *expr, Builtin builtin)
{
    const Expr *named = NULL;
    const char *name = builtin_name(builtin);
    Reducer reducer = builtin_reducer(builtin);
    const Option options[] = {{"axis", &named}};
    int axis;
    if (!take_options(
            l, expr, 1, options, 1,
            arena_printf(l->arena, "%s(x, axis=-1)`, or for all axes `%s(x)", name, name))) {
        return poison_val();
    }
    const Expr *arg = expr->args.items[0];
    Val x = lower_operand(l, arg);
    if (is_poison(&x)) {
        return x;
    }
    if (is_refused(l, expr, &x, name)) {
        return poison_val();
    }
    if (!named) {
        return best_of_all(l, reducer, &x);
    }
    Shape shape = shape_of(&x);
    if (!choose_one(l, expr, named, shape.rank, &axis)) {
        return poison_val();
    }
    DimVar *range = poly_as_range(shape.dims[axis]);
    Val own = array_val(range ? build_index(&l->b, range->binder, DT_I64)
                              : build_iota(&l->b, shape.dims[axis], DT_I64));
    for (int k = axis + 1; k < shape.rank; k++) {
        own.value = build_expand(&l->b, own.value, own.value->type->rank);
    }
    Val index = own;
    Value *values = materialize(l, &x, compute_dtype(dtype_of(&x)), &shape);
    Value *indices = materialize(l, &index, DT_I64, &shape);
    return shaped_val(arg_extreme(l, reducer, values, indices, lane_count(shape.lanes) + axis),
                      &shape);
}
