/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of functions inside of expressions: `grad(f)(x)`, `vjp(f)(x, g)`, `jvp(f)(x, t)`. The
 * function is inlined with copies of its arguments, which tell its uses of a value from others; the
 * sweep goes over what it made. */
#include "frontend/lower/lower_derived.h"

enum { MAX_CALL_ARGS = 32 };

typedef struct DerivedCall {
    Lower *l;
    const Expr *expr;
    const char *kind;
    FnDecl *fn;
    const Module *home;
    int n_args; /* of the function */
    Lanes lanes;
    Val given[MAX_CALL_ARGS], copies[MAX_CALL_ARGS], result;
    Op *before; /* the last one before the function's */
} DerivedCall;

bool is_derived_call(const Lower *l, const Expr *callee)
{
    const char *name = callee->kind == EXPR_CALL && callee->a->kind == EXPR_NAME ? callee->a->name
                                                                                : "";
    bool known = text_equal(name, "vjp") || text_equal(name, "grad") || text_equal(name, "jvp");
    return known && !find_symbol(l, name);
}

static Val wrong_call(const DerivedCall *c, const char *what)
{
    Diag *diag = lower_error(c->l, ERR_DERIVATIVE, c->expr->span, "%s", what);
    diag_help(c->l->diags, diag,
              "write `grad(f)(x)`, `vjp(f)(x, g)` with a gradient for each result of floats, or "
              "`jvp(f)(x, t)` with a tangent for each argument of floats");
    return poison_val();
}

static bool is_float_val(const Val *val)
{
    return (val->kind == VAL_ARRAY || val->kind == VAL_CONST) && dtype_is_float(dtype_of(val));
}

/* An array of the value over all lanes of the arguments that nothing else reads. */
static Val copy_of(DerivedCall *c, const Val *val)
{
    Lower *l = c->l;
    Shape shape = shape_of(val);
    shape.lanes = c->lanes;
    Value *value = materialize(l, val, dtype_of(val), &shape);
    Type type = value->type;
    return shaped_val(build_op(&l->b, OP_CAST, 1, &value, 1, &type, 0)->results[0], &shape);
}

static bool take_arguments(DerivedCall *c)
{
    Lower *l = c->l;
    int n = (int)c->expr->args.n;
    for (int i = 0; i < n; i++) {
        const Expr *arg = c->expr->args.items[i];
        if (arg->kind == EXPR_NAMED) {
            wrong_call(c, "a derivative takes its arguments by position");
            return false;
        }
        c->given[i] = lower_operand(l, arg);
        if (is_poison(&c->given[i])) {
            return false;
        }
        c->lanes |= c->given[i].kind == VAL_ARRAY ? c->given[i].lanes : 0;
    }
    for (int i = 0; i < c->n_args; i++) {
        bool array = c->given[i].kind == VAL_ARRAY && is_float_val(&c->given[i]);
        c->copies[i] = array ? copy_of(c, &c->given[i]) : c->given[i];
    }
    return true;
}

static int count_results(const Val *result)
{
    return result->kind == VAL_TUPLE ? result->n_items : 1;
}

static const Val *result_at(const Val *result, int i)
{
    return result->kind == VAL_TUPLE ? &result->items[i] : result;
}

/* The value in the shape of another, as its gradient. */
static Value *gradient_like(Lower *l, const Val *val, const Val *like)
{
    Shape shape = shape_of(like);
    shape.lanes = like->lanes;
    return materialize(l, val, derive_dtype(dtype_of(like)), &shape);
}

static Val gradient_or_zero(Lower *l, Value *gradient, const Val *of)
{
    Type type = of->value->type;
    type = type_array(l->func, derive_dtype(type->dtype), type->rank, type->dims);
    return lanes_val(gradient ? gradient : build_float(&l->b, type, 0), of->lanes);
}

static Val packed(Lower *l, const Val *items, int n)
{
    if (n == 1) {
        return items[0];
    }
    Val tuple = {.kind = VAL_TUPLE, .n_items = n, .items = ARENA_ARRAY(l->arena, Val, (size_t)n)};
    for (int i = 0; i < n; i++) {
        tuple.items[i] = items[i];
    }
    return tuple;
}

/* Gradients of the copies from those of the results (NULL: none). False after an error. */
static bool sweep_back(DerivedCall *c, Value *const *seeds, Value **out)
{
    Lower *l = c->l;
    DeriveRules rules = derive_rules(l);
    Derive *d = derive_begin(l->func, l->b.block, &rules);
    derive_from(d, c->before ? c->before->next : l->b.block->first);
    for (int i = 0; i < c->n_args; i++) {
        if (c->copies[i].value != c->given[i].value) {
            derive_by(d, c->copies[i].value);
        }
    }
    for (int i = 0; i < count_results(&c->result); i++) {
        const Val *result = result_at(&c->result, i);
        if (seeds[i] && result->kind == VAL_ARRAY) {
            derive_seed(d, result->value, seeds[i]);
        }
    }
    bool good = derive_run(d);
    for (int i = 0; i < c->n_args; i++) {
        bool copied = c->copies[i].value != c->given[i].value;
        out[i] = copied && good ? derive_gradient(d, c->copies[i].value) : NULL;
    }
    return good;
}

static bool sweep_forwards(DerivedCall *c, Value *const *seeds, Value *const *back, Val *out)
{
    Lower *l = c->l;
    int at = c->n_args, n = 0;
    Value *tangents[MAX_CALL_ARGS] = {NULL};
    for (int i = 0; i < c->n_args; i++) {
        if (is_float_val(&c->given[i])) {
            tangents[i] = gradient_like(l, &c->given[at++], &c->copies[i]);
        }
    }
    DeriveRules rules = derive_rules(l);
    Derive *d = derive_begin(l->func, l->b.block, &rules);
    derive_from(d, c->before ? c->before->next : l->b.block->first);
    for (int i = 0; i < count_results(&c->result); i++) {
        if (seeds[i]) {
            derive_by(d, seeds[i]);
        }
    }
    for (int i = 0; i < c->n_args; i++) {
        if (tangents[i] && back[i]) {
            derive_seed(d, back[i], tangents[i]);
        }
    }
    if (!derive_run(d)) {
        return false;
    }
    for (int i = 0; i < count_results(&c->result); i++) {
        if (seeds[i]) {
            out[n++] = gradient_or_zero(l, derive_gradient(d, seeds[i]),
                                        result_at(&c->result, i));
        }
    }
    return true;
}

/* By result: its gradient, which the call gives, or 1; of jvp a value that stands for it. */
static int seed_results(DerivedCall *c, Value **seeds)
{
    Lower *l = c->l;
    int at = c->n_args, n = 0;
    for (int i = 0; i < count_results(&c->result); i++) {
        const Val *result = result_at(&c->result, i);
        seeds[i] = NULL;
        if (result->kind != VAL_ARRAY || !is_float_val(result)) {
            at += is_float_val(result) && text_equal(c->kind, "vjp");
            continue;
        }
        n++;
        Val one = float_val(text_equal(c->kind, "grad") ? 1 : 0);
        bool given = text_equal(c->kind, "vjp") && at < (int)c->expr->args.n;
        seeds[i] = gradient_like(l, given ? &c->given[at++] : &one, result);
    }
    return n;
}

static bool counts_fit(const DerivedCall *c, int n_results)
{
    int floats = 0;
    for (int i = 0; i < c->n_args; i++) {
        floats += is_float_val(&c->given[i]);
    }
    int more = text_equal(c->kind, "vjp") ? n_results : 0;
    more = text_equal(c->kind, "jvp") ? floats : more;
    return (int)c->expr->args.n == c->n_args + more && floats > 0;
}

static bool is_single(const DerivedCall *c)
{
    Shape shape = shape_of(&c->result);
    bool single = c->result.kind == VAL_ARRAY;
    for (int i = 0; single && i < shape.rank; i++) {
        single = shape.dims[i] == poly_const(c->l->func, 1);
    }
    return single;
}

/* The copies are what they are copies of again. */
static void drop_copies(DerivedCall *c)
{
    for (int i = 0; i < c->n_args; i++) {
        if (c->copies[i].value != c->given[i].value) {
            Op *copy = c->copies[i].value->def;
            func_replace_uses(c->l->func, copy->results[0], copy->operands[0]);
            replace_noted(c->l, copy->results[0], copy->operands[0]);
            op_remove(copy);
        }
    }
}

static Val derive_call(DerivedCall *c)
{
    Lower *l = c->l;
    Expr call = {.kind = EXPR_CALL, .a = c->expr->a->args.items[0], .span = c->expr->span};
    for (int i = 0; i < c->n_args; i++) {
        ARENA_PUSH(l->arena, &call.args, c->expr->args.items[i]);
    }
    c->before = l->b.block->last;
    c->result = inline_vals(l, &call, c->fn, c->home, c->copies);
    Value *seeds[MAX_CALL_ARGS], *back[MAX_CALL_ARGS];
    Val out[MAX_CALL_ARGS];
    if (is_poison(&c->result) || count_results(&c->result) > MAX_CALL_ARGS) {
        return poison_val();
    }
    if (text_equal(c->kind, "grad") && !is_single(c)) {
        return wrong_call(c, "`grad` is of a function with one result, a single float");
    }
    int n = seed_results(c, seeds);
    if (!counts_fit(c, n)) {
        return wrong_call(c, "this call of a derivative has another number of arguments");
    }
    if (!sweep_back(c, seeds, back)) {
        return poison_val();
    }
    if (text_equal(c->kind, "jvp")) {
        return sweep_forwards(c, seeds, back, out) ? packed(l, out, n) : poison_val();
    }
    n = 0;
    for (int i = 0; i < c->n_args; i++) {
        if (c->copies[i].value != c->given[i].value) {
            out[n++] = gradient_or_zero(l, back[i], &c->copies[i]);
        }
    }
    return packed(l, out, n);
}

Val lower_derived_call(Lower *l, const Expr *expr)
{
    const Expr *of = expr->a->args.n == 1 ? expr->a->args.items[0] : NULL;
    DerivedCall *c = ARENA_NEW(l->arena, DerivedCall);
    *c = (DerivedCall){.l = l, .expr = expr, .kind = expr->a->a->name};
    if (!of || of->kind != EXPR_NAME) {
        return wrong_call(c, "a derivative is of a function");
    }
    c->fn = find_fn(l, of->name, &c->home);
    if (!c->fn) {
        unknown_function(l, of, of->name);
        return poison_val();
    }
    c->n_args = (int)c->fn->params.n;
    if ((int)expr->args.n < c->n_args || expr->args.n > MAX_CALL_ARGS) {
        return wrong_call(c, "this call of a derivative has another number of arguments");
    }
    if (!take_arguments(c)) {
        return poison_val();
    }
    Val result = derive_call(c);
    if (!is_poison(&result)) {
        drop_copies(c);
    }
    return result;
}
