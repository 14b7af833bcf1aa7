/* SPDX-License-Identifier: Apache-2.0 */
/* The table of built-in functions, and those of them that fill arrays, choose elements or ask for
 * facts about ranges. */
#include "frontend/lower/lower.h"

static const struct {
    const char *name;
    BuiltinFn *lower;
    Reducer reducer;
} BUILTINS[N_BUILTINS] = {
#define BUILTIN(id, name, lower, reducer) {name, lower, REDUCER_##reducer},
#include "frontend/lower/builtins.def"
#undef BUILTIN
};

const char *builtin_name(Builtin builtin)
{
    return BUILTINS[builtin].name;
}

Reducer builtin_reducer(Builtin builtin)
{
    return BUILTINS[builtin].reducer;
}

bool builtin_find(const char *name, Builtin *builtin)
{
    for (Builtin i = 0; i < N_BUILTINS; i++) {
        if (text_equal(BUILTINS[i].name, name)) {
            *builtin = i;
            return true;
        }
    }
    return false;
}

Val lower_builtin(Lower *l, const Expr *expr, Builtin builtin)
{
    return BUILTINS[builtin].lower(l, expr, builtin);
}

Val lower_extremum(Lower *l, const Expr *expr, Builtin builtin)
{
    OpKind kind = builtin == BUILTIN_MAX ? OP_MAX : OP_MIN;
    const Expr *first = expr->args.n ? expr->args.items[0] : NULL;
    if (expr->args.n < 2 || !positional(expr, expr->args.n)) {
        return lower_reduction(l, expr, builtin);
    }
    Val out = lower_operand(l, first);
    for (size_t i = 1; i < expr->args.n; i++) {
        const Expr *next = expr->args.items[i];
        Val val = lower_operand(l, next);
        if (!is_poison(&val) && !is_poison(&out) &&
            (dtype_of(&val) == DT_BOOL || dtype_of(&out) == DT_BOOL)) {
            lower_error(l, ERR_OPERATOR, expr->span, "`%s` does not apply to bool",
                        builtin_name(builtin));
            return poison_val();
        }
        out = apply_binary(l, expr, kind, NULL, &out, &val, first, next);
    }
    return out;
}

static Val filled(Lower *l, const Expr *expr, const Expr *type_expr, const Expr *value_expr,
                  Val value)
{
    Val type = lower_expr(l, type_expr);
    if (type.kind == VAL_DTYPE) {
        type.type = type_scalar(l->func, type.dtype);
    } else if (type.kind != VAL_TYPE) {
        if (!is_poison(&type)) {
            lower_error(l, ERR_TYPE_NAME, type_expr->span, "%s is not a type", val_text(l, &type));
        }
        return poison_val();
    }
    Shape shape = type_shape(type.type), from = shape_of(&value);
    if (is_poison(&value) ||
        !check_fits(l, ERR_ARGUMENTS, value_expr->span, &value, type.type->dtype, true)) {
        return poison_val();
    }
    if (from.rank > 0) {
        lower_error(l, ERR_ARGUMENTS, expr->span,
                    "%s was passed, where a scalar that fills the array is expected",
                    val_text(l, &value));
        return poison_val();
    }
    shape.lanes = value.lanes;
    return shaped_val(materialize(l, &value, type.type->dtype, &shape), &shape);
}

Val lower_fill(Lower *l, const Expr *expr, Builtin builtin)
{
    if (builtin == BUILTIN_FILL) {
        return positional(expr, 2) ? filled(l, expr, expr->args.items[1], expr->args.items[0],
                                            lower_operand(l, expr->args.items[0]))
                                   : wrong_arguments(l, expr, "write `fill(-inf, f32[M, 1])`");
    }
    if (!positional(expr, 1)) {
        return wrong_arguments(
            l, expr, arena_printf(l->arena, "write `%s(f32[M, N])`", builtin_name(builtin)));
    }
    Val value = int_val(builtin == BUILTIN_ONES, true);
    return filled(l, expr, expr->args.items[0], expr, value);
}

/* The step of a range `by exactly n`; 1 of another one, whose steps may be any. */
static int64_t exact_step(const Val *range)
{
    const Value *binder = poly_as_range(range->dim)->binder;
    const Op *op = binder && binder->block ? binder->block->parent : NULL;
    bool exact = op && op_int(op, ATTR_EXACT, 0);
    return exact ? op_attr(op, ATTR_STEPS)->ints[binder->index] : 1;
}

/* start, end or len; the last index of a range that has elements is below its extent. The starts of
 * a variable's ranges are all different. */
static Val range_fact(Lower *l, OpKind kind, const Val *range)
{
    Dim whole = poly_as_range(range->dim)->axis_extent;
    Dim last = dim_sub(l->func, whole, poly_const(l->func, 1));
    Val val = array_val(build_range_fact(&l->b, kind, range->value));
    IndexVar *var = index_var(l, poly_const(l->func, 0), kind == OP_START ? last : whole);
    if (kind == OP_START) {
        var->within = affine_as_var(range->affine);
        var->min_distance = exact_step(range);
    }
    val.affine = affine_var(l->func, var);
    return val;
}

Val lower_range_fact(Lower *l, const Expr *expr, Builtin builtin)
{
    const char *usage = arena_printf(
        l->arena, "write `%s(i)` of a range i: a loop variable with `by`", builtin_name(builtin));
    if (!positional(expr, 1)) {
        return wrong_arguments(l, expr, usage);
    }
    Val range = lower_expr(l, expr->args.items[0]);
    bool variable = expr->args.items[0]->kind == EXPR_NAME && affine_as_var(range.affine);
    if (variable && range.kind == VAL_ARRAY && builtin == BUILTIN_INDEX) {
        return range;
    }
    if (range.kind != VAL_RANGE) {
        if (!is_poison(&range)) {
            Diag *diag =
                lower_error(l, ERR_ARGUMENTS, expr->args.items[0]->span,
                            "%s was passed, where a range is expected", val_text(l, &range));
            diag_help(l->diags, diag, "%s", usage);
        }
        return poison_val();
    }
    switch (builtin) {
    case BUILTIN_START: return range_fact(l, OP_START, &range);
    case BUILTIN_END: return range_fact(l, OP_END, &range);
    case BUILTIN_LEN: return range_fact(l, OP_LEN, &range);
    default: break;
    }
    Val index = array_val(build_index(&l->b, range.value, DT_I64));
    index.affine = range.affine;
    return index;
}

Val lower_where(Lower *l, const Expr *expr, Builtin builtin)
{
    (void)builtin;
    if (!positional(expr, 3)) {
        return wrong_arguments(l, expr, "write `where(condition, a, b)`");
    }
    const Expr *const parts[3] = {expr->args.items[0], expr->args.items[1], expr->args.items[2]};
    return lower_select(l, expr, parts);
}
