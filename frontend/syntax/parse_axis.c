/* SPDX-License-Identifier: Apache-2.0 */
/* Parses index bindings: the axes of loops, of prefix reductions and of `let t[i in N]`. */
#include "frontend/syntax/parser.h"

static void parse_by(Parser *p, Axis *axis)
{
    if (!parser_take(p, TOK_BY)) {
        return;
    }
    if (parser_take_word(p, "auto")) {
        axis->by = BY_AUTO;
        return;
    }
    axis->by = parser_take_word(p, "exactly") ? BY_EXACTLY : BY_DEFAULT;
    axis->step = parse_expr(p);
}

bool parse_axis(Parser *p, bool steps, Axis *axis)
{
    *axis = (Axis){.span = p->token.span};
    axis->name = parser_name(p, steps ? "a loop variable" : "an index");
    if (p->recovering || !parser_expect(p, TOK_IN, "after its name")) {
        return false;
    }
    axis->extent = steps ? parse_expr(p) : parse_operand(p);
    if (!p->recovering && parser_take(p, TOK_DOTS)) {
        axis->to = steps ? parse_expr(p) : parse_operand(p);
    }
    if (!p->recovering && steps) {
        parse_by(p, axis);
    }
    return true;
}

bool parse_axes(Parser *p, TokenKind closing, AxisList *axes)
{
    do {
        Axis axis;
        if (!parse_axis(p, false, &axis)) {
            return false;
        }
        ARENA_PUSH(p->arena, axes, axis);
    } while (!p->recovering && parser_take(p, TOK_COMMA) && !parser_at(p, closing));
    return !p->recovering;
}

bool at_axes(const Parser *p)
{
    Lexer ahead = p->lexer;
    ahead.diags = NULL;
    return parser_at(p, TOK_LPAREN) && lexer_next(&ahead).kind == TOK_NAME &&
           lexer_next(&ahead).kind == TOK_IN;
}

Expr *parse_reduction(Parser *p, const Expr *name)
{
    Expr *expr = expr_new(p, EXPR_REDUCE, name->span);
    AxisList *axes = ARENA_NEW(p->arena, AxisList);
    expr->name = name->name;
    expr->axes = axes;
    expr->a = expr_new(p, EXPR_POISON, name->span);
    int outer = open_bracket(p);
    if (parse_axes(p, TOK_RPAREN, axes) && parser_take(p, TOK_IF)) {
        expr->b = parse_expr(p);
    }
    close_bracket(p, outer, TOK_RPAREN, "after the indices of this reduction");
    if (!p->recovering && parser_enter(p, name->span)) {
        expr->a = parse_product(p);
        parser_leave(p);
    }
    /* Extents are children of the node, as arguments are, so they count for the height of the
     * tree. */
    for (size_t i = 0; i < axes->n; i++) {
        ARENA_PUSH(p->arena, &expr->args, axes->items[i].extent);
        if (axes->items[i].to) {
            ARENA_PUSH(p->arena, &expr->args, axes->items[i].to);
        }
    }
    expr->op_span = name->span;
    expr->span = span_join(name->span, p->last);
    return expr_grown(p, expr);
}
