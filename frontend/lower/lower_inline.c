/* SPDX-License-Identifier: Apache-2.0 */
/* Inlines functions at their calls. The parameters take the types of the arguments; the body sees
 * the functions of its own file and no names of the caller. */
#include "frontend/lower/lower_inline.h"

#include <string.h>

/* ---- arguments ---- */

static Val argument_error(Lower *l, const Expr *arg, const ParamDecl *param, const Val *val)
{
    Diag *diag =
        lower_error(l, ERR_ARGUMENTS, arg->span, "%s was passed as `%s`, where %s is expected",
                    val_text(l, val), param->name, param->type->name);
    diag_help(l->diags, diag, "cast the argument");
    return poison_val();
}

Val converted_val(Lower *l, Val val, DType dtype)
{
    if (val.kind == VAL_CONST) {
        return convert_const(&val, dtype);
    }
    Val out = lanes_val(build_cast(&l->b, as_value(l, &val), dtype), val.lanes);
    out.affine = dtype == dtype_of(&val) ? val.affine : NULL;
    return out;
}

static Val class_argument(Lower *l, const Expr *arg, const ParamDecl *param, TypeClass type_class,
                          Val val)
{
    if (type_class == CLASS_FLOAT && val.literal) {
        return convert_const(&val, DT_F32);
    }
    return type_class_holds(type_class, dtype_of(&val)) ? val : argument_error(l, arg, param, &val);
}

/* A parameter `x: f32` takes any shape of that element type. */
static Val typed_argument(Lower *l, const Expr *arg, const ParamDecl *param, Val val)
{
    DType dtype;
    TypeClass type_class;
    if (param->type->kind != EXPR_NAME) {
        return shaped_argument(l, arg, param, val);
    }
    val = as_operand(l, arg, val);
    if (is_poison(&val)) {
        return val;
    }
    if (type_class_find(param->type->name, &type_class)) {
        return class_argument(l, arg, param, type_class, val);
    }
    if (!dtype_from_name(param->type->name, strlen(param->type->name), &dtype)) {
        lower_error(l, ERR_TYPE_NAME, param->type->span, "no type is called `%s`",
                    param->type->name);
        return poison_val();
    }
    if (!check_fits(l, ERR_ARGUMENTS, arg->span, &val, dtype, false)) {
        return poison_val();
    }
    return converted_val(l, val, dtype);
}

static bool names_param(const Expr *expr, const char *name)
{
    return expr->kind == EXPR_NAME && text_equal(expr->name, name);
}

static bool is_indexed(const Lower *l, const Expr *expr, const char *name, int depth);

/* True if the called function may index its parameter n. */
static bool callee_indexes(const Lower *l, const Expr *call, size_t n, int depth)
{
    const Module *home;
    FnDecl *fn = call->a->kind == EXPR_NAME ? find_fn(l, call->a->name, &home) : NULL;
    if (!fn || n >= fn->params.n) {
        return false;
    }
    fn_complete(home, fn);
    const ParamDecl *param = &fn->params.items[n];
    bool unseen = call->args.items[n]->kind == EXPR_NAMED || !fn->value || depth == 0;
    return !param->type && (unseen || is_indexed(l, fn->value, param->name, depth - 1));
}

/* True if an expression indexes the parameter, or passes it to a function that does. */
static bool is_indexed(const Lower *l, const Expr *expr, const char *name, int depth)
{
    const Expr *children[] = {expr->a, expr->b, expr->c};
    bool found = expr->kind == EXPR_INDEX && names_param(expr->a, name);
    for (int i = 0; i < 3 && !found; i++) {
        found = children[i] && is_indexed(l, children[i], name, depth);
    }
    for (size_t i = 0; i < expr->args.n && !found; i++) {
        const Expr *arg = expr->args.items[i];
        bool handed = names_param(arg->kind == EXPR_NAMED ? arg->a : arg, name);
        found = expr->kind == EXPR_CALL && handed ? callee_indexes(l, expr, i, depth)
                                                  : is_indexed(l, arg, name, depth);
    }
    return found;
}

/* A tensor stays one when the body may index it; else its use is here, and it is loaded once. */
static Val bind_argument(Lower *l, const Expr *arg, const ParamDecl *param, const FnDecl *fn,
                         Val val)
{
    if (is_poison(&val)) {
        return val;
    }
    if (val.is_local) {
        return read_result(l, arg);
    }
    if (val.kind == VAL_TENSOR && !val.is_result && fn->value &&
        !is_indexed(l, fn->value, param->name, 3)) {
        val = as_operand(l, arg, val);
    }
    if (param->is_const && val.kind != VAL_CONST) {
        lower_error(l, ERR_NOT_CONST, arg->span, "`%s` needs a constant", param->name);
        return poison_val();
    }
    if (is_generic(fn, param->type)) {
        return as_operand(l, arg, val);
    }
    return param->type ? typed_argument(l, arg, param, val) : val;
}

/* Which argument of the call goes to parameter n; the number of arguments: its default. */
static size_t argument_for(const Expr *expr, const FnDecl *fn, size_t n)
{
    if (n < expr->args.n && expr->args.items[n]->kind != EXPR_NAMED) {
        return n;
    }
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        if (arg->kind == EXPR_NAMED && text_equal(arg->name, fn->params.items[n].name)) {
            return i;
        }
    }
    return expr->args.n;
}

static const char *usage(Lower *l, const FnDecl *fn)
{
    Text text = text_new(l->arena);
    text_printf(&text, "%s(", fn->name);
    for (size_t i = 0; i < fn->params.n; i++) {
        text_printf(&text, "%s%s", i ? ", " : "", fn->params.items[i].name);
    }
    text_char(&text, ')');
    return text.data;
}

/* Each named argument names a parameter that no position has filled. */
static bool names_fit(const Expr *expr, const FnDecl *fn)
{
    bool named = false;
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        if (arg->kind != EXPR_NAMED) {
            if (named) {
                return false;
            }
            continue;
        }
        named = true;
        bool found = false;
        for (size_t k = 0; k < fn->params.n; k++) {
            bool filled = k < expr->args.n && expr->args.items[k]->kind != EXPR_NAMED;
            found = found || (!filled && text_equal(fn->params.items[k].name, arg->name));
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* Each parameter has an argument or a default, and no argument is left. */
static bool arguments_fit(const Expr *expr, const FnDecl *fn)
{
    bool fits = expr->args.n <= fn->params.n && names_fit(expr, fn);
    for (size_t i = 0; i < fn->params.n && fits; i++) {
        fits = fn->params.items[i].fallback || argument_for(expr, fn, i) < expr->args.n;
    }
    return fits;
}

static Val *lower_arguments(Lower *l, const Expr *expr)
{
    Val *given = ARENA_ARRAY(l->arena, Val, expr->args.n);
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        given[i] = lower_expr(l, arg->kind == EXPR_NAMED ? arg->a : arg);
    }
    return given;
}

/* The default of parameter n: a constant of its own, or what a parameter before it was passed. */
static Val default_argument(Lower *l, const FnDecl *fn, size_t n, const Val *vals)
{
    const Expr *fallback = fn->params.items[n].fallback;
    for (size_t i = 0; i < n && fallback->kind == EXPR_NAME; i++) {
        if (names_param(fallback, fn->params.items[i].name)) {
            return vals[i];
        }
    }
    return lower_expr(l, fallback);
}

static bool bind_arguments(Lower *l, const Expr *expr, const FnDecl *fn, const Val *given,
                           Val *vals)
{
    bool good = true;
    for (size_t i = 0; i < fn->params.n; i++) {
        const ParamDecl *param = &fn->params.items[i];
        size_t n = argument_for(expr, fn, i);
        const Expr *arg = n < expr->args.n ? expr->args.items[n] : param->fallback;
        Val val = n < expr->args.n ? given[n] : default_argument(l, fn, i, vals);
        vals[i] = bind_argument(l, arg->kind == EXPR_NAMED ? arg->a : arg, param, fn, val);
        good = good && !is_poison(&vals[i]);
    }
    return good;
}

/* ---- functions of one name that differ in the types of their parameters ---- */

/* True if the parameter accepts the value without a cast. */
static bool accepts(const FnDecl *fn, const ParamDecl *param, const Val *val)
{
    bool has_dtype = val->kind == VAL_TENSOR || val->kind == VAL_ARRAY || val->kind == VAL_CONST;
    bool shaped = param->type && param->type->kind == EXPR_INDEX;
    const Expr *type = shaped ? param->type->a : param->type;
    const GenericDecl *generic =
        type && type->kind == EXPR_NAME ? generic_called(fn, type->name) : NULL;
    if (val->kind == VAL_TUPLE) {
        return !param->type;
    }
    if (generic && has_dtype && !type_class_holds(generic->type_class, dtype_of(val))) {
        return false;
    }
    if (shaped && has_dtype) {
        return shape_of(val).rank == (int)param->type->args.n;
    }
    if (!param->type || param->type->kind != EXPR_NAME || !has_dtype) {
        return true;
    }
    DType dtype;
    TypeClass type_class;
    if (type_class_find(param->type->name, &type_class)) {
        return val->literal || type_class_holds(type_class, dtype_of(val));
    }
    return !dtype_from_name(param->type->name, strlen(param->type->name), &dtype) ||
           dtype_converts(dtype_of(val), dtype, val->literal, false);
}

static bool accepts_all(const Expr *expr, const FnDecl *fn, const Val *given)
{
    bool good = arguments_fit(expr, fn);
    for (size_t i = 0; i < fn->params.n && good; i++) {
        size_t n = argument_for(expr, fn, i);
        good = n == expr->args.n || accepts(fn, &fn->params.items[i], &given[n]);
    }
    return good;
}

/* The first function that accepts the arguments; if none does, the first, whose errors are
 * reported. */
static FnDecl *choose_overload(const Expr *expr, FnDecl *first, const Module *home,
                               const Val *given)
{
    for (size_t i = 0; i < home->fns.n; i++) {
        FnDecl *fn = home->fns.items[i];
        if (text_equal(fn->name, first->name) && accepts_all(expr, fn, given)) {
            return fn;
        }
    }
    return first;
}

/* ---- the body ---- */

static Val result_of(Lower *l, const FnDecl *fn, Val val)
{
    if (!fn->result_type || is_poison(&val)) {
        return val;
    }
    ParamDecl as_param = {.name = fn->name, .type = fn->result_type};
    DType dtype;
    bool plain = fn->result_type->kind == EXPR_NAME &&
                 dtype_from_name(fn->result_type->name, strlen(fn->result_type->name), &dtype);
    if (!plain) {
        return val.kind == VAL_POISON ? val : typed_argument(l, fn->result_type, &as_param, val);
    }
    if (!check_fits(l, ERR_RESULT, fn->result_type->span, &val, dtype, true)) {
        return poison_val();
    }
    return converted_val(l, val, dtype);
}

static Val lower_body(Lower *l, const Expr *call, const FnDecl *fn)
{
    int errors = l->diags->errors;
    l->returned = false;
    if (fn->value) {
        l->result = lower_any(l, fn->value);
        l->returned = true;
    } else {
        lower_block(l, &fn->body);
    }
    if (fn->results.n && l->diags->errors == errors) {
        return local_results(l, call, fn, l->returned ? &l->result : NULL);
    }
    if (l->returned) {
        return l->result;
    }
    if (l->diags->errors == errors && !fn->broken) {
        Diag *diag = lower_error(l, ERR_RETURN, fn->span, "`%s` returns nothing", fn->name);
        diag_help(l->diags, diag,
                  "end it with `return`, or name a result that it writes: "
                  "`-> y: f32[N]`");
    }
    return poison_val();
}

/* The first argument by a name that no parameter has; NULL: none. */
static const Expr *stray_name(const Expr *expr, const FnDecl *fn)
{
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        bool known = arg->kind != EXPR_NAMED;
        for (size_t k = 0; k < fn->params.n && !known; k++) {
            known = text_equal(fn->params.items[k].name, arg->name);
        }
        if (!known) {
            return arg;
        }
    }
    return NULL;
}

/* The first argument by the name of a parameter that has another one already; NULL: none. */
static const Expr *passed_twice(const Expr *expr, const FnDecl *fn)
{
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        for (size_t k = 0; k < i && arg->kind == EXPR_NAMED; k++) {
            const Expr *before = expr->args.items[k];
            const char *name = "";
            if (before->kind == EXPR_NAMED) {
                name = before->name;
            } else if (k < fn->params.n) {
                name = fn->params.items[k].name;
            }
            if (text_equal(name, arg->name)) {
                return arg;
            }
        }
    }
    return NULL;
}

/* The function with its parameters bound, as part of the caller. */
static Val run_body(Lower *l, const Expr *expr, FnDecl *fn, const Module *home, const Val *vals)
{
    CallFrame frame = {fn, home, expr->span, l->calls, l->n_lanes, l->parallel, l->symbols};
    bool returned = l->returned, nested = l->nested;
    int loops = l->loops, branches = l->branches;
    LoopExitFlags leaving = l->leaving;
    bool unchecked = l->unchecked;
    l->nested = nested || loops || branches || l->n_lanes || l->parallel;
    l->calls = &frame;
    l->symbols = NULL;
    l->leaving = (LoopExitFlags){NULL, NULL};
    l->unchecked = false;
    l->loops = l->branches = 0;
    for (size_t i = 0; i < fn->params.n; i++) {
        define(l, fn->params.items[i].name, fn->params.items[i].span, vals[i]);
    }
    Val result = poison_val();
    if (bind_shapes(l, expr, fn, vals) && bind_where(l, expr, fn) && define_results(l, fn)) {
        result = result_of(l, fn, lower_body(l, expr, fn));
    }
    l->calls = frame.up;
    l->symbols = frame.symbols;
    l->nested = nested;
    l->returned = returned;
    l->loops = loops;
    l->branches = branches;
    l->leaving = leaving;
    l->unchecked = unchecked;
    return result;
}

/* ---- functions that keep their name ---- */

static bool is_named(const FnDecl *fn, const Module *home, const Val *vals)
{
    const ParamDecl *x = fn->params.n == 1 ? &fn->params.items[0] : NULL;
    bool takes = x && x->type && x->type->kind == EXPR_NAME && text_equal(x->type->name, "f32");
    bool array = takes && (vals[0].kind == VAL_ARRAY || vals[0].kind == VAL_TENSOR);
    return home->library && array && named_function(fn->name);
}

/* What the library's function does with a scalar, separately from all callers. */
static void add_function(Lower *l, const Expr *expr, FnDecl *fn, const Module *home)
{
    const Shape scalar = {0};
    Builder caller = l->b;
    int lanes = l->n_lanes;
    Block *block = build_block(l->func, NULL);
    Value *x = block_arg(l->func, block, type_array(l->func, DT_F32, 0, NULL), "x");
    l->b = build_at_end(l->func, block);
    l->n_lanes = 0;
    Val given = shaped_val(x, &scalar), result = run_body(l, expr, fn, home, &given);
    Value *value = materialize(l, &result, DT_F32, &scalar);
    build_yield(&l->b, 1, &value);
    l->b = caller;
    l->n_lanes = lanes;
    func_add_function(l->func, fn->name, block);
}

static Val call_named_function(Lower *l, const Expr *expr, FnDecl *fn, const Module *home,
                               const Val *val)
{
    if (!func_function(l->func, fn->name)) {
        add_function(l, expr, fn, home);
    }
    Shape shape = shape_of(val);
    Value *x = materialize(l, val, DT_F32, &shape);
    Value *result = build_unary(&l->b, OP_NAMED, x);
    op_set_word(l->func, result->def, ATTR_FN, named_function(fn->name)->name);
    return shaped_val(result, &shape);
}

static Val inline_chosen(Lower *l, const Expr *expr, FnDecl *fn, const Module *home,
                         const Val *given)
{
    fn_complete(home, fn);
    bool active = false;
    for (const CallFrame *frame = l->calls; frame; frame = frame->up) {
        if (frame->fn == fn) {
            active = true;
            break;
        }
    }
    if (active) {
        lower_error(l, ERR_RECURSION, expr->span, "`%s` calls itself", fn->name);
        return poison_val();
    }
    if (!arguments_fit(expr, fn)) {
        const Expr *stray = stray_name(expr, fn), *repeated = passed_twice(expr, fn);
        size_t n = expr->args.n;
        Diag *diag;
        if (stray) {
            diag = lower_error(l, ERR_ARGUMENTS, stray->span, "`%s` has no parameter `%s`",
                               fn->name, stray->name);
        } else if (repeated) {
            diag = lower_error(l, ERR_ARGUMENTS, repeated->span,
                               "`%s` was passed `%s` twice, where once is expected", fn->name,
                               repeated->name);
        } else {
            diag = lower_error(l, ERR_ARGUMENTS, expr->span,
                               "`%s` was passed %zu argument%s, where %zu %s expected", fn->name, n,
                               n == 1 ? "" : "s", fn->params.n, fn->params.n == 1 ? "is" : "are");
        }
        diag_help(l->diags, diag, "write `%s`", usage(l, fn));
        return poison_val();
    }
    Val *vals = ARENA_ARRAY(l->arena, Val, fn->params.n);
    if (!bind_arguments(l, expr, fn, given, vals)) {
        return poison_val();
    }
    uint32_t first = l->func->n_values;
    Val result = is_named(fn, home, vals) ? call_named_function(l, expr, fn, home, &vals[0])
                                          : run_body(l, expr, fn, home, vals);
    note_derivable(l, fn, home, vals, &result, first);
    return result;
}

Val inline_vals(Lower *l, const Expr *expr, FnDecl *fn, const Module *home, const Val *given)
{
    return inline_chosen(l, expr, choose_overload(expr, fn, home, given), home, given);
}

/* The arguments, which are literals, as f64: those with a point, or all if none has one. False: not
 * all are literals. */
static bool as_f64(const Expr *expr, const Val *given, Val *wide)
{
    bool point = false, literals = expr->args.n > 0;
    for (size_t i = 0; i < expr->args.n; i++) {
        literals = literals && given[i].kind == VAL_CONST && given[i].literal;
        point = point || given[i].dtype == DT_F32;
    }
    for (size_t i = 0; literals && i < expr->args.n; i++) {
        bool becomes = given[i].dtype == DT_F32 || !point;
        wide[i] = becomes ? convert_const(&given[i], DT_F64) : given[i];
    }
    return literals;
}

/* A function of the library gives a literal for literals, as arithmetic does: `exp(0.1)` that
 * becomes an f64 is that of f64. */
Val inline_fn(Lower *l, const Expr *expr, FnDecl *fn, const Module *home)
{
    Val *given = lower_arguments(l, expr), *wide = ARENA_ARRAY(l->arena, Val, expr->args.n + 1);
    FnDecl *chosen = choose_overload(expr, fn, home, given);
    Val val = inline_chosen(l, expr, chosen, home, given);
    if (val.kind != VAL_CONST || val.dtype != DT_F32 || val.literal ||
        !in_library(l, chosen->span) || !as_f64(expr, given, wide)) {
        return val;
    }
    FnDecl *other = choose_overload(expr, fn, home, wide);
    Val f64 = accepts_all(expr, other, wide) ? inline_chosen(l, expr, other, home, wide) : val;
    return f64.kind == VAL_CONST && f64.dtype == DT_F64 ? literal_val(val.scalar.f, f64.scalar.f)
                                                        : val;
}
