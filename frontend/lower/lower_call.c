/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: casts, and the intrinsics of the standard library. Built-in functions have files of their
 * own lower_builtin.c; calls of other functions are inlined (lower_inline.c). */
#include "frontend/lower/lower.h"
#include "ir/scalar_eval.h"

#include <string.h>

Val wrong_arguments(Lower *l, const Expr *expr, const char *usage)
{
    Diag *diag = lower_wrong_call(l, expr);
    diag_help(l->diags, diag, "%s", usage);
    return poison_val();
}

bool positional(const Expr *expr, size_t n)
{
    for (size_t i = 0; i < expr->args.n; i++) {
        if (expr->args.items[i]->kind == EXPR_NAMED) {
            return false;
        }
    }
    return expr->args.n == n;
}

/* ---- T(x) ---- */

static Val lower_cast(Lower *l, const Expr *expr, DType dtype)
{
    if (!positional(expr, 1)) {
        return wrong_arguments(l, expr, "a cast takes one value: `f32(x)`");
    }
    Val val = lower_operand(l, expr->args.items[0]);
    if (is_poison(&val)) {
        return val;
    }
    if (dtype == DT_BOOL && dtype_of(&val) != DT_BOOL) {
        Diag *diag = lower_error(l, ERR_CAST, expr->span, "numbers do not cast to bool");
        diag_help(l->diags, diag, "write `x != 0`");
        Span arg = expr->args.items[0]->span;
        lower_fix(l, diag, expr->span, "(%s != 0)", source_text(l->diags, l->arena, arg));
        return poison_val();
    }
    if (val.kind == VAL_CONST) {
        return convert_const(&val, dtype);
    }
    Val out = lanes_val(build_cast(&l->b, as_value(l, &val), dtype), val.lanes);
    out.affine = dtype == DT_I64 && dtype_of(&val) == DT_I64 ? val.affine : NULL;
    return out;
}

/* ---- ir.NAME(…): operations of ir/ops.def, for the standard library ---- */

static Val lower_bits(Lower *l, const Expr *expr)
{
    Val val = lower_operand(l, expr->args.items[0]), type = lower_expr(l, expr->args.items[1]);
    if (is_poison(&val) || type.kind != VAL_DTYPE ||
        dtype_bits(type.dtype) != dtype_bits(dtype_of(&val))) {
        return wrong_arguments(l, expr, "`ir.bits(x, type)`, of the same width");
    }
    if (val.kind == VAL_CONST) {
        Val out = {.kind = VAL_CONST, .dtype = type.dtype};
        val = convert_const(&val, val.dtype);
        out.scalar = scalar_op(OP_BITCAST, NULL, val.dtype, type.dtype, &val.scalar);
        return out;
    }
    return lanes_val(build_bitcast(&l->b, as_value(l, &val), type.dtype), val.lanes);
}

/* ir.sort(x, descending): a tuple of x along its last axis in order, and where its elements come
 * from. Numbers of four bits are sorted as bytes. */
static Val lower_sort(Lower *l, const Expr *expr)
{
    Val x = lower_operand(l, expr->args.items[0]);
    Val descending = lower_expr(l, expr->args.items[1]);
    Shape shape = shape_of(&x);
    if (is_poison(&x) || descending.kind != VAL_CONST || descending.dtype != DT_BOOL ||
        dtype_of(&x) == DT_BOOL) {
        return wrong_arguments(l, expr, "`ir.sort(x, descending)`, of numbers");
    }
    if (shape.rank == 0) {
        lower_error(l, ERR_ARGUMENTS, expr->span,
                    "%s was passed, where an axis to sort along is expected", val_text(l, &x));
        return poison_val();
    }
    if (l->lane_loop) {
        mixes_lanes(l, expr->span, "sort");
        return poison_val();
    }
    DType dtype = dtype_of(&x);
    DType bytes = DT_U8;
    if (!dtype_is_packed(dtype)) {
        bytes = dtype;
    } else if (dtype_is_signed(dtype)) {
        bytes = DT_I8;
    }
    Value *value = build_cast(&l->b, materialize(l, &x, dtype, &shape), bytes);
    Op *op = build_sort(&l->b, value, descending.scalar.i != 0);
    Val tuple = {.kind = VAL_TUPLE, .n_items = 2};
    tuple.items = ARENA_ARRAY(l->arena, Val, 2);
    tuple.items[0] = shaped_val(build_cast(&l->b, op->results[0], dtype), &shape);
    tuple.items[1] = shaped_val(op->results[1], &shape);
    return tuple;
}

typedef struct Operands {
    Val vals[3];
    DType dtype;
    Shape shape;
    bool all_const;
} Operands;

static bool collect_operands(Lower *l, const Expr *expr, Operands *out)
{
    *out = (Operands){.all_const = true};
    for (size_t i = 0; i < expr->args.n; i++) {
        Val *val = &out->vals[i];
        *val = lower_operand(l, expr->args.items[i]);
        if (is_poison(val)) {
            return false;
        }
        Val so_far = {.kind = VAL_CONST, .dtype = out->dtype};
        out->dtype = i ? out->dtype : compute_dtype(dtype_of(val));
        if (i && !arith_dtype(l, expr, &so_far, val, &out->dtype)) {
            return false;
        }
        Shape shape = shape_of(val);
        if (!broadcast_shapes(l, expr->span, expr->args.items[0], val, expr->args.items[i], val,
                              &out->shape, &shape, &out->shape)) {
            return false;
        }
        out->all_const = out->all_const && val->kind == VAL_CONST;
    }
    return true;
}

static Val lower_intrinsic(Lower *l, const Expr *expr, const char *name)
{
    OpKind kind;
    Operands operands;
    if (text_equal(name, "bits") && positional(expr, 2)) {
        return lower_bits(l, expr);
    }
    if (text_equal(name, "sort") && positional(expr, 2)) {
        return lower_sort(l, expr);
    }
    bool known = op_from_name(name, strlen(name), &kind) && kind != OP_NAMED &&
                 (op_info(kind)->traits & TRAIT_ELEMENTWISE) && kind != OP_CMP &&
                 kind != OP_SELECT && kind != OP_CAST && kind != OP_BITCAST;
    if (!known || !positional(expr, (size_t)op_info(kind)->operands)) {
        return wrong_arguments(l, expr, "`ir.` names an elementwise operation of ir/ops.def");
    }
    if (!collect_operands(l, expr, &operands)) {
        return poison_val();
    }
    if ((kind == OP_SQRT || kind == OP_FLOOR || kind == OP_CEIL || kind == OP_TRUNC ||
         kind == OP_RINT || kind == OP_ISNAN || kind == OP_FMA ||
         (op_info(kind)->traits & TRAIT_APPROX)) &&
        !dtype_is_float(operands.dtype)) {
        Diag *diag = lower_error(l, ERR_OPERATOR, expr->span, "`%s` does not apply to %s", name,
                                 dtype_name(operands.dtype));
        diag_help(l->diags, diag, "cast it: `f32(…)`");
        return poison_val();
    }
    DType out = kind == OP_ISNAN ? DT_BOOL : operands.dtype;
    if (operands.all_const) {
        Scalar scalars[3];
        for (size_t i = 0; i < expr->args.n; i++) {
            scalars[i] = convert_const(&operands.vals[i], operands.dtype).scalar;
        }
        Val val = {.kind = VAL_CONST, .dtype = out};
        val.scalar = scalar_op(kind, NULL, operands.dtype, out, scalars);
        return val;
    }
    Value *values[3];
    for (size_t i = 0; i < expr->args.n; i++) {
        values[i] = materialize(l, &operands.vals[i], operands.dtype, &operands.shape);
    }
    Type type = type_with_dtype(l->func, values[0]->type, out);
    Op *op = build_op(&l->b, kind, (int)expr->args.n, values, 1, &type, 0);
    return shaped_val(op->results[0], &operands.shape);
}

/* ---- which of them ---- */

/* `name` or `space.name`, unless its first part is a value; NULL otherwise. */
static const char *callee_name(const Lower *l, const Expr *callee, bool *intrinsic)
{
    *intrinsic = false;
    if (callee->kind == EXPR_NAME) {
        return callee->name;
    }
    bool spaced = callee->kind == EXPR_FIELD && callee->a->kind == EXPR_NAME &&
                  !find_symbol(l, callee->a->name);
    if (!spaced) {
        return NULL;
    }
    *intrinsic = text_equal(callee->a->name, "ir");
    return *intrinsic ? callee->name
                      : arena_printf(l->arena, "%s.%s", callee->a->name, callee->name);
}

static Val call_intrinsic(Lower *l, const Expr *expr, const char *name)
{
    const Module *here = l->calls ? l->calls->module : l->module;
    if (!here->library) {
        Diag *diag = lower_error(l, ERR_INTERNAL_NAME, expr->a->span,
                                 "`ir.` belongs to the standard library");
        diag_help(l->diags, diag, "call its functions: exp, log, tanh, sqrt, floor, …");
        return poison_val();
    }
    return lower_intrinsic(l, expr, name);
}

static Val not_a_function(Lower *l, const Expr *expr)
{
    if (expr->a->kind != EXPR_POISON) {
        Diag *diag = lower_error(l, ERR_FUNCTION, expr->a->span, "this is not a function");
        if (expr->a->kind == EXPR_FIELD) {
            diag_help(l->diags, diag, "arrays have no methods: write `%s(x)`", expr->a->name);
        } else if (expr->a->kind == EXPR_NAME) {
            diag_help(l->diags, diag, "`%s` is a value here: give it another name", expr->a->name);
        }
    }
    return poison_val();
}

static Val call_named(Lower *l, const Expr *expr, const char *name)
{
    DType dtype;
    const Module *home;
    Builtin builtin;
    FnDecl *fn = find_fn(l, name, &home);
    if (is_atomic(name)) {
        return lower_atomic(l, expr, name, true);
    }
    if (named_dtype(l, name, &dtype)) {
        return lower_cast(l, expr, dtype);
    }
    const Symbol *symbol = find_symbol(l, name);
    if (symbol && is_poison(&symbol->val)) {
        return poison_val();
    }
    if (symbol && !fn) {
        return not_a_function(l, expr);
    }
    if (fn && !home->library) {
        return inline_fn(l, expr, fn, home);
    }
    if (builtin_find(name, &builtin)) {
        return lower_builtin(l, expr, builtin);
    }
    if (fn) {
        return inline_fn(l, expr, fn, home);
    }
    unknown_function(l, expr->a, name);
    return poison_val();
}

void lower_effect(Lower *l, const Expr *expr)
{
    bool intrinsic;
    const char *name = callee_name(l, expr->a, &intrinsic);
    if (is_atomic(name)) {
        lower_atomic(l, expr, name, false);
    } else if (name && message_kind(name) != MESSAGE_NONE) {
        lower_print(l, expr, message_kind(name));
    } else {
        lower_call(l, expr);
    }
}

Val lower_call(Lower *l, const Expr *expr)
{
    bool intrinsic;
    if (is_derived_call(l, expr->a)) {
        return lower_derived_call(l, expr);
    }
    const char *name = callee_name(l, expr->a, &intrinsic);
    if (!name) {
        return not_a_function(l, expr);
    }
    return intrinsic ? call_intrinsic(l, expr, name) : call_named(l, expr, name);
}
