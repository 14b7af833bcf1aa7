/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives: of a kernel, as a kernel, and the derivatives that sources declare of functions.
 *
 *   derivative of tanh(x, y, g) = g * (1 - y * y)
 *
 * Its parameters are those of the function, then the results, then the results' gradients; it
 * gives the gradients of the function's floats, in order. A call of such a function is noted while
 * it is lowered, and the sweep (passes/derive) asks here for the gradients of its arguments. */
#include "frontend/lower/lower_derived.h"

enum { MAX_RESULTS = 16 };

/* A call as the front end saw it. */
typedef struct NotedCall {
    DeriveCall call;
    FnDecl *rule; /* NULL: a reshape */
    const Module *home;
    Val *vals, result;
    int n_vals, n_lanes;
    Lane *lanes; /* that were open */
    Span span;
} NotedCall;

/* ---- noting calls ---- */

/* A derivative with as many parameters as the call asks for, else any; NULL: none is declared. */
static FnDecl *rule_of(const FnDecl *fn, const Module *home, size_t n_params)
{
    FnDecl *any = NULL;
    for (size_t i = 0; i < home->fns.n; i++) {
        FnDecl *rule = home->fns.items[i];
        if (rule->derivative_of && text_equal(rule->derivative_of, fn->name)) {
            if (rule->params.n == n_params) {
                return rule;
            }
            any = rule;
        }
    }
    return home->library ? NULL : any; /* the library's functions call others of their names */
}

static bool is_float(const Val *val)
{
    bool has_dtype =
        val->kind == VAL_TENSOR || val->kind == VAL_ARRAY || val->kind == VAL_CONST;
    return has_dtype && dtype_is_float(dtype_of(val));
}

static void add_results(Lower *l, NotedCall *noted, const Val *result, uint32_t first)
{
    int n = result->kind == VAL_TUPLE ? result->n_items : 1;
    noted->call.results = ARENA_ARRAY(l->arena, Value *, (size_t)n);
    for (int i = 0; i < n; i++) {
        const Val *item = result->kind == VAL_TUPLE ? &result->items[i] : result;
        if (item->kind == VAL_ARRAY && item->value->id >= first && is_float(item)) {
            noted->call.results[noted->call.n_results++] = item->value;
        }
    }
}

static void note(Lower *l, FnDecl *rule, const Module *home, const Val *vals, int n,
                 const Val *result, uint32_t first)
{
    NotedCall *noted = ARENA_NEW(l->arena, NotedCall);
    *noted = (NotedCall){.rule = rule, .home = home, .result = *result, .n_vals = n};
    noted->vals = ARENA_ARRAY(l->arena, Val, (size_t)n + 1);
    noted->call.args = ARENA_ARRAY(l->arena, Value *, (size_t)n + 1);
    noted->call.n_args = n;
    noted->call.name = rule ? rule->derivative_of : NULL;
    noted->call.rule = noted;
    for (int i = 0; i < n; i++) {
        noted->vals[i] = vals[i];
        bool array = is_float(&vals[i]) && vals[i].kind != VAL_CONST;
        noted->call.args[i] = array ? vals[i].value : NULL;
    }
    noted->span = l->b.span;
    noted->n_lanes = l->n_lanes;
    noted->lanes = ARENA_ARRAY(l->arena, Lane, (size_t)l->n_lanes + 1);
    for (int i = 0; i < l->n_lanes; i++) {
        noted->lanes[i] = l->lanes[i];
    }
    add_results(l, noted, result, first);
    if (noted->call.n_results) {
        const DeriveCall *call = &noted->call;
        ARENA_PUSH(l->arena, &l->derivable, call);
    }
}

void note_derivable(Lower *l, const FnDecl *fn, const Module *home, const Val *vals,
                    const Val *result, uint32_t first)
{
    if (fn->derivative_of || is_poison(result)) {
        return;
    }
    size_t n = fn->params.n;
    const Val *items = result->kind == VAL_TUPLE ? result->items : result;
    int n_items = result->kind == VAL_TUPLE ? result->n_items : 1;
    for (int i = 0; i < n_items; i++) {
        n += is_float(&items[i]) ? 2 : 1;
    }
    FnDecl *rule = rule_of(fn, home, n);
    if (rule) {
        note(l, rule, home, vals, (int)fn->params.n, result, first);
    }
}

void note_reshape(Lower *l, const Val *from, const Val *result, uint32_t first)
{
    if (!is_poison(result)) {
        note(l, NULL, NULL, from, 1, result, first);
    }
}

static void replace_value(Val *val, const Value *old, Value *by)
{
    for (int i = 0; val->kind == VAL_TUPLE && i < val->n_items; i++) {
        replace_value(&val->items[i], old, by);
    }
    if (val->kind == VAL_ARRAY && val->value == old) {
        val->value = by;
    }
}

void replace_noted(Lower *l, const Value *old, Value *by)
{
    for (size_t i = 0; i < l->derivable.n; i++) {
        NotedCall *noted = (NotedCall *)l->derivable.items[i]->rule;
        for (int k = 0; k < noted->n_vals; k++) {
            replace_value(&noted->vals[k], old, by);
            noted->call.args[k] = noted->call.args[k] == old ? by : noted->call.args[k];
        }
        for (int k = 0; k < noted->call.n_results; k++) {
            Value **result = &noted->call.results[k];
            *result = *result == old ? by : *result;
        }
        replace_value(&noted->result, old, by);
    }
}

/* ---- the gradients of a noted call ---- */

/* The gradient over the axes of the argument alone. */
static Value *gradient_of(Lower *l, const Val *gradient, const Val *arg)
{
    Value *value = as_value(l, gradient);
    Lanes more = gradient->lanes & ~arg->lanes;
    int axis = 0;
    for (int i = 0; i < l->n_lanes; i++) {
        if (more >> i & 1) {
            value = build_squeeze(&l->b, build_reduce(&l->b, "sum", value, axis), axis);
        } else {
            axis += (int)(gradient->lanes >> i & 1);
        }
    }
    Val rest = lanes_val(value, gradient->lanes & arg->lanes);
    value = add_lanes(l, &rest, arg->lanes);
    Type type = arg->value->type;
    int own = shape_of(arg).rank, extra = value->type->rank - lane_count(arg->lanes) - own;
    for (int i = 0; i < extra; i++) {
        axis = lane_count(arg->lanes);
        value = build_squeeze(&l->b, build_reduce(&l->b, "sum", value, axis), axis);
    }
    for (int i = 0; i < own && extra >= 0; i++) {
        axis = lane_count(arg->lanes) + i;
        bool one = poly_const(l->func, 1) == type->dims[axis];
        if (one && value->type->dims[axis] != type->dims[axis]) {
            value = build_reduce(&l->b, "sum", value, axis);
        }
    }
    return build_broadcast(&l->b, value, type->rank, type->dims);
}

static Val zero_like(Lower *l, const Val *result)
{
    Type type = result->value->type;
    type = type_array(l->func, compute_dtype(type->dtype), type->rank, type->dims);
    return lanes_val(build_float(&l->b, type, 0), result->lanes);
}

/* The arguments of the derivative: those of the call, its results, their gradients. */
static int rule_arguments(Lower *l, const NotedCall *noted, Value *const *gradients, Val *given)
{
    int n = 0, k = 0;
    const Val *items = noted->result.kind == VAL_TUPLE ? noted->result.items : &noted->result;
    int n_items = noted->result.kind == VAL_TUPLE ? noted->result.n_items : 1;
    for (int i = 0; i < noted->n_vals; i++) {
        given[n++] = noted->vals[i];
    }
    for (int i = 0; i < n_items; i++) {
        given[n++] = items[i];
    }
    for (int i = 0; i < n_items; i++) {
        if (!is_float(&items[i])) {
            continue;
        }
        bool known = k < noted->call.n_results && noted->call.results[k] == items[i].value;
        Value *gradient = known ? gradients[k++] : NULL;
        given[n++] = gradient ? lanes_val(gradient, items[i].lanes) : zero_like(l, &items[i]);
    }
    return n;
}

static bool take_gradients(Lower *l, const NotedCall *noted, const Val *result, Value **args)
{
    int n = 0, wanted = 0;
    for (int i = 0; i < noted->n_vals; i++) {
        wanted += is_float(&noted->vals[i]);
    }
    int given = result->kind == VAL_TUPLE ? result->n_items : 1;
    bool all = given == noted->n_vals; /* those of integers count for nothing */
    if (wanted != given && !all) {
        Diag *diag = lower_error(l, ERR_DERIVATIVE, noted->rule->span,
                                 "%d gradient%s returned, where %d %s expected", given,
                                 given == 1 ? " is" : "s are", wanted, wanted == 1 ? "is" : "are");
        diag_help(l->diags, diag, "return one for each float that `%s` is passed",
                  noted->rule->derivative_of);
        return false;
    }
    for (int i = 0; i < noted->n_vals; i++) {
        if (!is_float(&noted->vals[i])) {
            continue;
        }
        int at = all ? i : n++;
        const Val *gradient = result->kind == VAL_TUPLE ? &result->items[at] : result;
        args[i] = noted->call.args[i] ? gradient_of(l, gradient, &noted->vals[i]) : NULL;
    }
    return true;
}

static bool apply_rule(Lower *l, const NotedCall *noted, Value *const *gradients, Value **args)
{
    Val given[MAX_RESULTS * 3 + 128];
    Expr place = {.kind = EXPR_NAME, .name = noted->rule->derivative_of, .span = noted->span};
    Expr call = {.kind = EXPR_CALL, .a = &place, .span = noted->span};
    int n = rule_arguments(l, noted, gradients, given);
    for (int i = 0; i < n; i++) {
        Expr *arg = &place;
        ARENA_PUSH(l->arena, &call.args, arg);
    }
    Val result = inline_vals(l, &call, noted->rule, noted->home, given);
    return !is_poison(&result) && take_gradients(l, noted, &result, args);
}

static bool apply(void *user, Builder *b, const DeriveCall *call, Value *const *results,
                  Value **args)
{
    Lower *l = user;
    const NotedCall *noted = call->rule;
    Builder before = l->b;
    int n_lanes = l->n_lanes;
    Lane *lanes = ARENA_ARRAY(l->arena, Lane, (size_t)n_lanes + 1);
    for (int i = 0; i < n_lanes; i++) {
        lanes[i] = l->lanes[i];
    }
    l->b = *b;
    l->n_lanes = noted->n_lanes;
    for (int i = 0; i < noted->n_lanes; i++) {
        l->lanes[i] = noted->lanes[i];
    }
    bool good = true;
    if (noted->rule) {
        good = apply_rule(l, noted, results, args);
    } else {
        Val gradient = lanes_val(results[0], noted->result.lanes);
        Shape to = shape_of(&noted->vals[0]);
        Val whole = reshaped(l, &gradient, &to);
        args[0] = as_value(l, &whole);
    }
    l->n_lanes = n_lanes;
    for (int i = 0; i < n_lanes; i++) {
        l->lanes[i] = lanes[i];
    }
    l->b = before;
    return good;
}

/* Another value of the same axes, or an array instead of a scalar. */
static Val moved_val(const Val *from, Value *value)
{
    bool same = value->type->rank == from->value->type->rank;
    return same ? lanes_val(value, from->lanes) : array_val(value);
}

static const DeriveCall *moved(void *user, const DeriveCall *call, Value **results, Value **args)
{
    Lower *l = user;
    NotedCall *noted = ARENA_NEW(l->arena, NotedCall);
    const NotedCall *from = call->rule;
    *noted = *from;
    noted->call.results = results;
    noted->call.args = args;
    noted->call.rule = noted;
    noted->vals = ARENA_ARRAY(l->arena, Val, (size_t)from->n_vals + 1);
    for (int i = 0; i < from->n_vals; i++) {
        noted->vals[i] = args[i] ? moved_val(&from->vals[i], args[i]) : from->vals[i];
    }
    const DeriveCall *made = &noted->call;
    ARENA_PUSH(l->arena, &l->derivable, made);
    if (from->result.kind != VAL_TUPLE) {
        noted->result = moved_val(&from->result, results[0]);
        return made;
    }
    noted->result.items = ARENA_ARRAY(l->arena, Val, (size_t)from->result.n_items);
    for (int i = 0, k = 0; i < from->result.n_items; i++) {
        bool known = k < call->n_results && call->results[k] == from->result.items[i].value;
        const Val *item = &from->result.items[i];
        noted->result.items[i] = known ? moved_val(item, results[k++]) : *item;
    }
    return made;
}

DeriveRules derive_rules(Lower *l)
{
    return (DeriveRules){l->derivable.items, l->derivable.n, apply, moved, l};
}
