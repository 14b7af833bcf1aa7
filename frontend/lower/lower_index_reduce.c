/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix reductions such as `sum(r in R, s in S if c) body`. The variables are lanes while the
 * body is lowered; then the lanes are reduced one after the other. */
#include "frontend/lower/lint.h"

#include <math.h>

typedef struct Prefix {
    const Expr *expr;
    Builtin builtin;
    Reducer reducer;
    Lanes lanes; /* that are reduced */
    Val body;
    Val condition; /* CONST true: all elements */
} Prefix;

/* ---- elements that do not count ---- */

static int64_t int_extreme(DType dtype, bool most)
{
    int bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype)) {
        if (!most) {
            return 0;
        }
        return bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
    }
    int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return most ? top : -top - 1;
}

/* The identity element of a reduction. */
static Val identity_val(Reducer reducer, DType dtype)
{
    Val val = {.kind = VAL_CONST, .dtype = dtype};
    bool is_float = dtype_is_float(dtype);
    switch (reducer) {
    case REDUCER_MAX:
    case REDUCER_MIN:
        if (is_float) {
            val.scalar.f = reducer == REDUCER_MAX ? -INFINITY : INFINITY;
        } else {
            val.scalar.i = int_extreme(dtype, reducer == REDUCER_MIN);
        }
        break;
    case REDUCER_PROD:
        if (is_float) {
            val.scalar.f = 1;
        } else {
            val.scalar.i = 1;
        }
        break;
    default: break; /* 0 */
    }
    return val;
}

/* A condition that is known when compiling may be false, too. */
static bool all_count(const Prefix *p)
{
    return p->condition.kind == VAL_CONST && p->condition.scalar.i;
}

static Val where_counted(Lower *l, const Prefix *p, Val val, Val otherwise)
{
    if (all_count(p)) {
        return val;
    }
    Val v[3] = {p->condition, val, otherwise};
    const Expr *const parts[3] = {p->expr->b, p->expr->a, p->expr->a};
    return select_vals(l, p->expr, parts, v);
}

/* ---- reducing lanes ---- */

/* All of the reduced lanes, also those on which the value does not depend. */
static Val spread(Lower *l, const Prefix *p, const Val *val, DType dtype)
{
    Shape shape = shape_of(val), full;
    shape.lanes |= p->lanes;
    if (!full_shape(l, p->expr->span, &shape, &full)) {
        return poison_val();
    }
    return shaped_val(materialize(l, val, dtype, &shape), &shape);
}

static Val reduce_body(Lower *l, const Prefix *p, Reducer reducer, const Val *body)
{
    DType dtype = reduced_dtype(dtype_of(body), reducer);
    Val typed = body->kind == VAL_CONST ? convert_const(body, dtype) : *body;
    Shape own = shape_of(body);
    if (typed.kind != VAL_CONST) {
        typed = shaped_val(materialize(l, &typed, dtype, &own), &own);
    }
    typed = where_counted(l, p, typed, identity_val(reducer, dtype));
    Val all = is_poison(&typed) ? typed : spread(l, p, &typed, dtype);
    /* The lanes are reduced one at a time, the innermost first. */
    for (int i = l->n_lanes - 1; i >= 0 && all.kind == VAL_ARRAY; i--) {
        if (p->lanes >> i & 1) {
            int axis = lane_count(all.lanes & (((Lanes)1 << i) - 1));
            Value *reduced = build_reduce(&l->b, reducer_name(reducer), all.value, axis);
            all.value = build_squeeze(&l->b, reduced, axis);
            all.lanes &= ~((Lanes)1 << i);
            all.affine = NULL;
        }
    }
    return all;
}

static bool check_body(Lower *l, const Prefix *p, bool wants_bool, bool wants_float)
{
    DType dtype = dtype_of(&p->body);
    bool fits = wants_bool == (dtype == DT_BOOL) && (!wants_float || dtype_is_float(dtype));
    if (!fits) {
        Diag *diag = lower_error(l, ERR_OPERATOR, p->expr->a->span, "`%s` does not apply to %s",
                                 p->expr->name, val_text(l, &p->body));
        const char *help = wants_float ? "cast it: `f32(…)`" : "cast it: `i32(…)`";
        if (wants_bool) {
            help = "its body is a condition, in parentheses: `any(i in N) (x[i] > 0)`";
        }
        diag_help(l->diags, diag, "%s", help);
    }
    return fits;
}

static Val prefix_plain(Lower *l, const Prefix *p)
{
    if (!check_body(l, p, false, false)) {
        return poison_val();
    }
    if (p->reducer == REDUCER_SUM) {
        lint_terms(l, p->expr->a, dtype_of(&p->body));
    }
    return reduce_body(l, p, p->reducer, &p->body);
}

/* any is the greatest of 0 and 1, all the least; of nothing: false and true. */
static Val prefix_logical(Lower *l, const Prefix *p)
{
    if (!check_body(l, p, true, false)) {
        return poison_val();
    }
    Shape own = shape_of(&p->body);
    Val number = shaped_val(materialize(l, &p->body, DT_I32, &own), &own);
    Val extreme = reduce_body(l, p, p->reducer, &number);
    if (is_poison(&extreme)) {
        return extreme;
    }
    Val zero = int_val(0, true);
    return apply_binary(l, p->expr, OP_CMP, "gt", &extreme, &zero, p->expr, p->expr);
}

/* How many elements count, in this type. */
static Val count_lanes(Lower *l, const Prefix *p, DType dtype)
{
    Val one = {.kind = VAL_CONST, .dtype = DT_I64, .scalar.i = 1};
    if (!all_count(p)) {
        Val count = reduce_body(l, p, REDUCER_SUM, &one);
        return lanes_val(build_cast(&l->b, count.value, dtype), count.lanes);
    }
    Dim product = poly_const(l->func, 1);
    for (int i = 0; i < l->n_lanes; i++) {
        Dim factor = p->lanes >> i & 1 ? l->lanes[i].extent : poly_const(l->func, 1);
        product = poly_mul(l->func, product, factor);
    }
    if (!product) {
        lower_error(l, ERR_SIZE, p->expr->span, "there are too many elements to count");
        return poison_val();
    }
    return array_val(build_cast(&l->b, build_size(&l->b, product), dtype));
}

static Val prefix_mean(Lower *l, const Prefix *p)
{
    if (!check_body(l, p, false, true)) {
        return poison_val();
    }
    Val sum = reduce_body(l, p, REDUCER_SUM, &p->body);
    if (is_poison(&sum)) {
        return sum;
    }
    Val count = count_lanes(l, p, dtype_of(&sum));
    return apply_binary(l, p->expr, OP_DIV, NULL, &sum, &count, p->expr, p->expr);
}

/* The variable where the body is greatest or least. */
static Val prefix_arg(Lower *l, const Prefix *p)
{
    if (!check_body(l, p, false, false)) {
        return poison_val();
    }
    if (p->expr->axes->n != 1) {
        Diag *diag = lower_error(l, ERR_ARGUMENTS, p->expr->span,
                                 "`%s` was passed %zu indices, where one is expected",
                                 p->expr->name, p->expr->axes->n);
        diag_help(l->diags, diag, "for several nest them, or fold tuples with `reduce`");
        return poison_val();
    }
    Lanes lane = p->lanes;
    Val values = spread(l, p, &p->body, compute_dtype(dtype_of(&p->body)));
    Val index = where_counted(l, p, l->lanes[l->n_lanes - 1].index, int_val(-1, false));
    if (is_poison(&values) || is_poison(&index)) {
        return poison_val();
    }
    Shape shape = shape_of(&values);
    shape.lanes |= index.lanes;
    Value *indices = materialize(l, &index, DT_I64, &shape);
    Value *best = arg_extreme(l, p->reducer, materialize(l, &values, dtype_of(&values), &shape),
                              indices, lane_count(shape.lanes) - 1);
    return lanes_val(build_squeeze(&l->b, best, lane_count(shape.lanes) - 1), shape.lanes & ~lane);
}

typedef Val PrefixFn(Lower *l, const Prefix *p);

static PrefixFn *const PREFIXES[N_BUILTINS] = {
    [BUILTIN_SUM] = prefix_plain, [BUILTIN_PROD] = prefix_plain,  [BUILTIN_MAX] = prefix_plain,
    [BUILTIN_MIN] = prefix_plain, [BUILTIN_ANY] = prefix_logical, [BUILTIN_ALL] = prefix_logical,
    [BUILTIN_MEAN] = prefix_mean, [BUILTIN_ARGMAX] = prefix_arg,  [BUILTIN_ARGMIN] = prefix_arg,
};

/* Finds the function that reduces indices; false after an error. */
static bool find_prefix(Lower *l, const Expr *expr, Builtin *builtin)
{
    if (builtin_find(expr->name, builtin) && PREFIXES[*builtin]) {
        return true;
    }
    Nearest nearest = nearest_to(expr->name);
    for (Builtin i = 0; i < N_BUILTINS; i++) {
        if (PREFIXES[i]) {
            nearest_try(&nearest, builtin_name(i));
        }
    }
    Diag *diag = lower_error(l, ERR_FUNCTION, expr->op_span, "`%s` reduces nothing", expr->name);
    if (!lower_fix_similar(l, diag, expr->op_span, &nearest)) {
        diag_help(l->diags, diag,
                  "indices are reduced by sum, prod, max, min, any, all, mean, argmax, argmin");
    }
    return false;
}

static bool lower_condition(Lower *l, const Expr *expr, Val *out)
{
    *out = bool_val(true);
    if (!expr) {
        return true;
    }
    *out = lower_operand(l, expr);
    if (!is_poison(out) && (dtype_of(out) != DT_BOOL || shape_of(out).rank > 0)) {
        not_a_condition(l, expr, out);
        return false;
    }
    return !is_poison(out);
}

/* ---- inside of loops whose elements end by themselves ---- */

/* There, nothing may mix elements: the reduction becomes a loop, as if it were written
 *     var reduced = neutral
 *     for r in R { if c { reduced = reduced + body } } */
static const char *const REDUCED = "reduced.value"; /* no name of the program */

static Expr *named(Lower *l, const Expr *expr, const char *name)
{
    Expr *out = ARENA_NEW(l->arena, Expr);
    *out = (Expr){.kind = EXPR_NAME, .span = expr->op_span, .name = name, .height = 1};
    return out;
}

/* `reduced + body`, or `max(reduced, body)`. */
static Expr *spelled_step(Lower *l, const Expr *expr, Builtin builtin)
{
    static const TokenKind operators[N_BUILTINS] = {[BUILTIN_SUM] = TOK_PLUS,
                                                    [BUILTIN_PROD] = TOK_STAR,
                                                    [BUILTIN_ANY] = TOK_OR,
                                                    [BUILTIN_ALL] = TOK_AND};
    Expr *step = ARENA_NEW(l->arena, Expr);
    *step = (Expr){.kind = EXPR_CALL, .span = expr->span, .op_span = expr->op_span};
    if (builtin == BUILTIN_MAX || builtin == BUILTIN_MIN) {
        step->a = named(l, expr, expr->name);
        ARENA_PUSH(l->arena, &step->args, named(l, expr, REDUCED));
        ARENA_PUSH(l->arena, &step->args, expr->a);
    } else {
        step->kind = EXPR_BINARY;
        step->op = operators[builtin];
        step->a = named(l, expr, REDUCED);
        step->b = expr->a;
    }
    return step;
}

static Stmt *statement(Lower *l, const Expr *expr, StmtKind kind, Stmt *inner)
{
    Stmt *stmt = ARENA_NEW(l->arena, Stmt);
    *stmt = (Stmt){.kind = kind, .span = expr->op_span};
    if (inner) {
        ARENA_PUSH(l->arena, &stmt->body, inner);
    }
    return stmt;
}

/* The body's element type: what is lowered for it is unused, and dropped. */
static bool body_dtype(Lower *l, const Expr *expr, Reducer reducer, DType *out)
{
    Symbol *symbols = l->symbols;
    for (size_t i = 0; i < expr->axes->n; i++) {
        const Axis *axis = &expr->axes->items[i];
        define(l, axis->name, axis->span, array_val(build_i64(&l->b, 0)));
    }
    Val body = lower_operand(l, expr->a);
    l->symbols = symbols;
    *out = reduced_dtype(dtype_of(&body), reducer);
    return !is_poison(&body);
}

Val lower_prefix(Lower *l, const Expr *expr)
{
    Builtin builtin;
    bool known = find_prefix(l, expr, &builtin);
    if (l->lane_loop && known) {
        Symbol *symbols = l->symbols;
        DType dtype;
        if (builtin == BUILTIN_MEAN || builtin == BUILTIN_ARGMAX || builtin == BUILTIN_ARGMIN) {
            Diag *diag = lower_error(l, ERR_LANE_LOOP, expr->span,
                                     "`%s` is not possible inside of a loop that ends element by "
                                     "element",
                                     expr->name);
            diag_help(l->diags, diag, "write a `for` loop, or for a mean `sum(…)` by the count");
            return poison_val();
        }
        if (!body_dtype(l, expr, builtin_reducer(builtin), &dtype)) {
            return poison_val();
        }
        bool logical = builtin == BUILTIN_ANY || builtin == BUILTIN_ALL;
        Val identity = logical ? bool_val(builtin == BUILTIN_ALL)
                               : identity_val(builtin_reducer(builtin), dtype);
        Symbol *reduced = define(l, REDUCED, expr->op_span, array_val(as_value(l, &identity)));
        reduced->is_var = true;
        Stmt *stmt = statement(l, expr, STMT_ASSIGN, NULL);
        stmt->target = named(l, expr, REDUCED);
        stmt->value = spelled_step(l, expr, builtin);
        if (expr->b) {
            stmt = statement(l, expr, STMT_IF, stmt);
            stmt->value = expr->b;
        }
        for (size_t i = expr->axes->n; i > 0; i--) {
            Axis axis = expr->axes->items[i - 1];
            if (!axis.to) {
                Expr *zero = ARENA_NEW(l->arena, Expr);
                *zero = (Expr){.kind = EXPR_INT, .span = axis.extent->span, .height = 1};
                axis.to = axis.extent;
                axis.extent = zero;
            }
            stmt = statement(l, expr, STMT_FOR, stmt);
            ARENA_PUSH(l->arena, &stmt->axes, axis);
        }
        const Stmt *loops = stmt;
        lower_loop(l, loops);
        l->symbols = symbols;
        return reduced->val;
    }
    Symbol *symbols = l->symbols;
    int lanes = l->n_lanes;
    Prefix p = {.expr = expr};
    if (known) {
        p.builtin = builtin;
        p.reducer = builtin_reducer(builtin);
    }
    Val out = poison_val();
    bool good = open_axes(l, expr->axes);
    good = lower_condition(l, expr->b, &p.condition) && good;
    p.body = lower_operand(l, expr->a);
    p.lanes = lanes_from(l, lanes);
    if (known && good && !is_poison(&p.body)) {
        out = PREFIXES[builtin](l, &p);
    }
    close_lanes(l, lanes);
    l->symbols = symbols;
    return out;
}
