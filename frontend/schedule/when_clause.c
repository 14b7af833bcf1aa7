/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the `when` conditions of schedule and tune blocks. A condition compares polynomials in
 * sizes; the answer is yes, no, or open if some of the allowed sizes satisfy it and others do not.
 */
#include "frontend/schedule/when_clause.h"

#include "frontend/messages/frontend_errors.h"

/* ---- sizes ---- */

static const DimVar *size_named(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->name && text_equal(var->name, name)) {
            return var;
        }
    }
    return NULL;
}

/* A size that is given counts as the number: how it is scheduled makes no code wrong for others.
 * NULL: no sum of products of sizes and numbers. */
static Dim side(Func *func, const int64_t *sizes, const Expr *expr)
{
    if (expr->kind == EXPR_INT) {
        return poly_const(func, expr->integer);
    }
    const DimVar *var = expr->kind == EXPR_NAME ? size_named(func, expr->name) : NULL;
    if (var) {
        bool given = sizes && sizes[var->id] >= 0;
        return given ? poly_const(func, sizes[var->id])
                     : poly_var(func, func_size(func, expr->name));
    }
    if (expr->kind != EXPR_BINARY) {
        return NULL;
    }
    Dim a = side(func, sizes, expr->a), b = side(func, sizes, expr->b);
    switch (expr->op) {
    case TOK_PLUS: return poly_add(func, a, b);
    case TOK_MINUS: return poly_add(func, a, poly_mul(func, poly_const(func, -1), b));
    case TOK_STAR: return poly_mul(func, a, b);
    default: return NULL;
    }
}

static bool is_modulo(const Expr *expr)
{
    return expr->kind == EXPR_BINARY && expr->op == TOK_PERCENT;
}

static bool is_comparison(TokenKind op)
{
    return op == TOK_LT || op == TOK_LE || op == TOK_GT || op == TOK_GE || op == TOK_EQ ||
           op == TOK_NE;
}

/* ---- is it a condition? ---- */

static bool refuse(Func *func, const Expr *expr)
{
    Diag *diag = front_error(func->diags, ERR_WHEN, expr->span,
                             "this is no condition on the sizes of `%s`", func->name);
    diag_help(func->diags, diag,
              "write comparisons of its sizes and numbers, `M <= 64 and K %% 16 == 0`");
    return false;
}

static bool check_side(Func *func, const Expr *expr)
{
    return side(func, NULL, expr) || refuse(func, expr);
}

bool when_check(Func *func, const Expr *condition)
{
    const Expr *a = condition->a, *b = condition->b;
    if (condition->kind == EXPR_UNARY && condition->op == TOK_NOT) {
        return when_check(func, a);
    }
    if (condition->kind != EXPR_BINARY) {
        return refuse(func, condition);
    }
    if (condition->op == TOK_AND || condition->op == TOK_OR) {
        return when_check(func, a) && when_check(func, b);
    }
    if (!is_comparison(condition->op)) {
        return refuse(func, condition);
    }
    if (is_modulo(a)) {
        bool is_integral = a->b->kind == EXPR_INT && a->b->integer > 0 && b->kind == EXPR_INT &&
                           (condition->op == TOK_EQ || condition->op == TOK_NE);
        return check_side(func, a->a) && (is_integral || refuse(func, condition));
    }
    return check_side(func, a) && check_side(func, b);
}

/* ---- answers ---- */

static Answer negated(Answer answer)
{
    if (answer == ANSWER_OPEN) {
        return answer;
    }
    return answer == ANSWER_YES ? ANSWER_NO : ANSWER_YES;
}

static Answer remainder_is(Dim dim, int64_t by, int64_t rest)
{
    int64_t value;
    if (poly_is_const(dim, &value) || poly_least(dim) == poly_most(dim)) {
        value = poly_least(dim);
        return ((value % by) + by) % by == rest ? ANSWER_YES : ANSWER_NO;
    }
    if (poly_divisor(dim) % by == 0) {
        return rest == 0 ? ANSWER_YES : ANSWER_NO;
    }
    return ANSWER_OPEN;
}

static Answer compare(Func *func, TokenKind op, Dim a, Dim b)
{
    Dim left = poly_add(func, a, poly_mul(func, poly_const(func, -1), b));
    if (!left) {
        return ANSWER_OPEN;
    }
    int64_t least = poly_least(left), most = poly_most(left);
    bool bounded_most = most<INT64_MAX, bounded_least = least> INT64_MIN;
    Answer less = ANSWER_OPEN;
    if (most < 0) {
        less = ANSWER_YES;
    } else if (least >= 0) {
        less = ANSWER_NO;
    }
    Answer more = ANSWER_OPEN;
    if (bounded_least && least > 0) {
        more = ANSWER_YES;
    } else if (bounded_most && most <= 0) {
        more = ANSWER_NO;
    }
    Answer equal = ANSWER_OPEN;
    if (least == 0 && most == 0) {
        equal = ANSWER_YES;
    } else if (less == ANSWER_YES || more == ANSWER_YES) {
        equal = ANSWER_NO;
    }
    switch (op) {
    case TOK_LT: return less;
    case TOK_GE: return negated(less);
    case TOK_GT: return more;
    case TOK_LE: return negated(more);
    case TOK_EQ: return equal;
    default: return negated(equal);
    }
}

Answer when_holds(Func *func, const int64_t *sizes, const Expr *condition)
{
    const Expr *a = condition->a, *b = condition->b;
    if (condition->kind == EXPR_UNARY) {
        return negated(when_holds(func, sizes, a));
    }
    if (condition->op == TOK_AND || condition->op == TOK_OR) {
        Answer stops = condition->op == TOK_AND ? ANSWER_NO : ANSWER_YES;
        Answer left = when_holds(func, sizes, a), right = when_holds(func, sizes, b);
        if (left == stops || right == stops) {
            return stops;
        }
        return left == ANSWER_OPEN ? left : right;
    }
    if (is_modulo(a)) {
        Answer rest = remainder_is(side(func, sizes, a->a), a->b->integer, b->integer);
        return condition->op == TOK_EQ ? rest : negated(rest);
    }
    return compare(func, condition->op, side(func, sizes, a), side(func, sizes, b));
}
