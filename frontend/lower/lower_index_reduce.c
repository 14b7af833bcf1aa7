/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix reductions such as `sum(r in R, s in S if c) body`. The variables are lanes while the
 * body is lowered; then the lanes are reduced one after the other. */
#include "frontend/lower/lower.h"

#include <math.h>
#include <string.h>

typedef struct Prefix {
    const Expr *expr;
    Lanes lanes; /* that are reduced */
    Val body;
    Val condition; /* CONST true: all elements */
} Prefix;

/* ---- elements that do not count ---- */

static bool int_extreme(DType dtype, bool most, int64_t *out)
{
    int bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype)) {
        *out = !most ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
        return true;
    }
    int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    *out = most ? top : -top - 1;
    return true;
}

/* What changes no sum, product, greatest or least. */
static Val neutral_val(const char *fn, DType dtype)
{
    Val val = {.kind = VAL_CONST, .dtype = dtype};
    bool least = text_equal(fn, "max"), most = text_equal(fn, "min");
    if (dtype_is_float(dtype)) {
        val.scalar.f = least ? -INFINITY : most ? INFINITY : text_equal(fn, "prod") ? 1 : 0;
    } else if (least || most) {
        int_extreme(dtype, most, &val.scalar.i);
    } else {
        val.scalar.i = text_equal(fn, "prod");
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

static Val reduce_lanes(Lower *l, const Prefix *p, const char *fn, Val val)
{
    for (int i = l->n_lanes - 1; i >= 0 && val.kind == VAL_ARRAY; i--) {
        if (p->lanes >> i & 1) {
            int axis = lane_count(val.lanes & (((Lanes)1 << i) - 1));
            val.value = build_squeeze(&l->b, build_reduce(&l->b, fn, val.value, axis), axis);
            val.lanes &= ~((Lanes)1 << i);
            val.affine = NULL;
        }
    }
    return val;
}

static Val reduce_body(Lower *l, const Prefix *p, const char *fn, const Val *body)
{
    DType dtype = reduced_dtype(dtype_of(body), fn);
    Val typed = body->kind == VAL_CONST ? convert_const(body, dtype) : *body;
    Val neutral = neutral_val(fn, dtype);
    Shape own = shape_of(body);
    if (typed.kind != VAL_CONST) {
        typed = shaped_val(materialize(l, &typed, dtype, &own), &own);
    }
    typed = where_counted(l, p, typed, neutral);
    Val all = is_poison(&typed) ? typed : spread(l, p, &typed, dtype);
    return reduce_lanes(l, p, fn, all);
}

static bool check_body(Lower *l, const Prefix *p, bool wants_bool, bool wants_float)
{
    DType dtype = dtype_of(&p->body);
    bool fits = wants_bool == (dtype == DT_BOOL) && (!wants_float || dtype_is_float(dtype));
    if (!fits) {
        Diag *diag = lower_error(l, ERR_OPERATOR, p->expr->a->span, "`%s` does not apply to %s",
                                 p->expr->name, val_text(l, &p->body));
        diag_help(l->diags, diag, "%s",
                  wants_bool ? "its body is a condition, in parentheses: `any(i in N) (x[i] > 0)`"
                  : wants_float ? "cast it: `f32(…)`"
                                : "cast it: `i32(…)`");
    }
    return fits;
}

static Val prefix_plain(Lower *l, const Prefix *p)
{
    return check_body(l, p, false, false) ? reduce_body(l, p, p->expr->name, &p->body)
                                          : poison_val();
}

/* any is the greatest of 0 and 1, all the least; of nothing: false and true. */
static Val prefix_logical(Lower *l, const Prefix *p)
{
    bool any = text_equal(p->expr->name, "any");
    if (!check_body(l, p, true, false)) {
        return poison_val();
    }
    Shape own = shape_of(&p->body);
    Val number = shaped_val(materialize(l, &p->body, DT_I32, &own), &own);
    Val extreme = reduce_body(l, p, any ? "max" : "min", &number);
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
        Val count = reduce_body(l, p, "sum", &one);
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
    Val sum = reduce_body(l, p, "sum", &p->body);
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
                                 "`%s` was passed %zu indices, where one is wanted", p->expr->name,
                                 p->expr->axes->n);
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
    Value *best = arg_extreme(l, text_equal(p->expr->name, "argmax"),
                              materialize(l, &values, dtype_of(&values), &shape),
                              materialize(l, &index, DT_I64, &shape), lane_count(shape.lanes) - 1);
    return lanes_val(build_squeeze(&l->b, best, lane_count(shape.lanes) - 1), shape.lanes & ~lane);
}

typedef Val PrefixFn(Lower *l, const Prefix *p);

static const struct {
    const char *name;
    PrefixFn *lower;
} PREFIXES[] = {
    {"sum", prefix_plain}, {"prod", prefix_plain},  {"max", prefix_plain},
    {"min", prefix_plain}, {"any", prefix_logical}, {"all", prefix_logical},
    {"mean", prefix_mean}, {"argmax", prefix_arg},  {"argmin", prefix_arg},
};

static PrefixFn *prefix_fn(Lower *l, const Expr *expr)
{
    Nearest nearest = nearest_to(expr->name);
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        if (text_equal(PREFIXES[i].name, expr->name)) {
            return PREFIXES[i].lower;
        }
        nearest_try(&nearest, PREFIXES[i].name);
    }
    Diag *diag = lower_error(l, ERR_FUNCTION, expr->op_span, "`%s` reduces nothing", expr->name);
    if (!lower_fix_near(l, diag, expr->op_span, &nearest)) {
        diag_help(l->diags, diag,
                  "indices are reduced by sum, prod, max, min, any, all, mean, argmax, argmin");
    }
    return NULL;
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

static Expr *spelled_step(Lower *l, const Expr *expr)
{
    static const struct {
        const char *name;
        TokenKind op;
    } steps[] = {{"sum", TOK_PLUS}, {"prod", TOK_STAR}, {"any", TOK_OR}, {"all", TOK_AND}};
    Expr *step = ARENA_NEW(l->arena, Expr);
    *step = (Expr){.kind = EXPR_CALL, .span = expr->span, .op_span = expr->op_span};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (text_equal(steps[i].name, expr->name)) {
            step->kind = EXPR_BINARY;
            step->op = steps[i].op;
            step->a = named(l, expr, REDUCED);
            step->b = expr->a;
            return step;
        }
    }
    step->a = named(l, expr, expr->name);
    ARENA_PUSH(l->arena, &step->args, named(l, expr, REDUCED));
    ARENA_PUSH(l->arena, &step->args, expr->a);
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

static Stmt *spelled_loops(Lower *l, const Expr *expr)
{
    Stmt *stmt = statement(l, expr, STMT_ASSIGN, NULL);
    stmt->target = named(l, expr, REDUCED);
    stmt->value = spelled_step(l, expr);
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
    return stmt;
}

/* The body's element type: what is lowered for it is unused, and dropped. */
static bool body_dtype(Lower *l, const Expr *expr, DType *out)
{
    Symbol *symbols = l->symbols;
    for (size_t i = 0; i < expr->axes->n; i++) {
        const Axis *axis = &expr->axes->items[i];
        define(l, axis->name, axis->span, array_val(build_i64(&l->b, 0)));
    }
    Val body = lower_operand(l, expr->a);
    l->symbols = symbols;
    *out = reduced_dtype(dtype_of(&body), expr->name);
    return !is_poison(&body);
}

static Val spelled_prefix(Lower *l, const Expr *expr)
{
    Symbol *symbols = l->symbols;
    DType dtype;
    if (text_equal(expr->name, "mean") || strncmp(expr->name, "arg", 3) == 0) {
        Diag *diag =
            lower_error(l, ERR_LANE_LOOP, expr->span,
                        "`%s` inside of a loop that ends for each element by itself", expr->name);
        diag_help(l->diags, diag, "write a `for` loop, or for a mean `sum(…)` by the count");
        return poison_val();
    }
    if (!body_dtype(l, expr, &dtype)) {
        return poison_val();
    }
    Val neutral = neutral_val(text_equal(expr->name, "all") ? "prod" : expr->name, dtype);
    Symbol *reduced = define(l, REDUCED, expr->op_span, array_val(as_value(l, &neutral)));
    reduced->is_var = true;
    const Stmt *loops = spelled_loops(l, expr);
    lower_loop(l, loops);
    l->symbols = symbols;
    return reduced->val;
}

Val lower_prefix(Lower *l, const Expr *expr)
{
    if (l->lane_loop && prefix_fn(l, expr)) {
        return spelled_prefix(l, expr);
    }
    Symbol *symbols = l->symbols;
    int lanes = l->n_lanes;
    Prefix p = {.expr = expr};
    Val out = poison_val();
    PrefixFn *fn = prefix_fn(l, expr);
    bool good = open_axes(l, expr->axes);
    good = lower_condition(l, expr->b, &p.condition) && good;
    p.body = lower_operand(l, expr->a);
    p.lanes = lanes_from(l, lanes);
    if (fn && good && !is_poison(&p.body)) {
        out = fn(l, &p);
    }
    close_lanes(l, lanes);
    l->symbols = symbols;
    return out;
}
