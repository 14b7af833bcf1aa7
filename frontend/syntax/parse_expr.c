/* SPDX-License-Identifier: Apache-2.0 */
/* Parses expressions by precedence climbing:
 *
 *   a if c else b  <  or  <  and  <  not  <  == != < <= > >=  <  |  <  ^  <  &  <  << >>
 *   <  + -  <  * / // % @  <  - ~ (unary)  <  calls, indices, fields
 *
 * A prefix reduction, `sum(r in R) x[r] * y[r]`, extends as far as a product would. */
#include "frontend/syntax/parser.h"

enum {
    LEVEL_OR = 1,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_BITOR,
    LEVEL_XOR,
    LEVEL_BITAND,
    LEVEL_SHIFT,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_UNARY
};

static int binary_level(TokenKind kind)
{
    switch (kind) {
    case TOK_OR: return LEVEL_OR;
    case TOK_AND: return LEVEL_AND;
    case TOK_EQ:
    case TOK_NE:
    case TOK_LT:
    case TOK_LE:
    case TOK_GT:
    case TOK_GE: return LEVEL_COMPARE;
    case TOK_BAR: return LEVEL_BITOR;
    case TOK_CARET: return LEVEL_XOR;
    case TOK_AMP: return LEVEL_BITAND;
    case TOK_SHL:
    case TOK_SHR: return LEVEL_SHIFT;
    case TOK_PLUS:
    case TOK_MINUS: return LEVEL_SUM;
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOOR:
    case TOK_PERCENT:
    case TOK_AT: return LEVEL_PRODUCT;
    default: return 0;
    }
}

static Expr *parse_level(Parser *p, int level);

Expr *expr_new(Parser *p, ExprKind kind, Span span)
{
    Expr *expr = ARENA_NEW(p->arena, Expr);
    expr->kind = kind;
    expr->span = span;
    expr->height = 1;
    parser_count(p);
    return expr;
}

static Expr *poison(Parser *p)
{
    return expr_new(p, EXPR_POISON, p->token.span);
}

Expr *expr_grown(Parser *p, Expr *expr)
{
    const Expr *children[] = {expr->a, expr->b, expr->c};
    for (int i = 0; i < 3; i++) {
        if (children[i] && children[i]->height >= expr->height) {
            expr->height = children[i]->height + 1;
        }
    }
    for (size_t i = 0; i < expr->args.n; i++) {
        if (expr->args.items[i]->height >= expr->height) {
            expr->height = expr->args.items[i]->height + 1;
        }
    }
    if (expr->height <= MAX_HEIGHT) {
        return expr;
    }
    Diag *diag = front_error(p->diags, ERR_LENGTH, p->last, "this expression is too long");
    diag_help(p->diags, diag, "a chain has %d operands at most: name a part of it with `let`",
              MAX_HEIGHT);
    p->recovering = true;
    return poison(p);
}

Expr *expr_binary(Parser *p, TokenKind op, Span op_span, Expr *a, Expr *b)
{
    Expr *expr = expr_new(p, EXPR_BINARY, span_join(a->span, b->span));
    expr->op = op;
    expr->op_span = op_span;
    expr->a = a;
    expr->b = b;
    return expr_grown(p, expr);
}

/* ---- primaries ---- */

static Expr *parse_word(Parser *p, ExprKind kind)
{
    Expr *expr = expr_new(p, kind, p->token.span);
    expr->name = token_name(p, p->token);
    expr->integer = p->token.kind == TOK_TRUE;
    parser_next(p);
    return expr;
}

static void misplaced_else(Parser *p)
{
    Diag *diag = front_error(p->diags, ERR_ELSE, p->token.span, "`else` belongs to nothing here");
    diag_help(p->diags, diag, "a read with a default has parentheses of its own: `(x[…] else v)`");
    p->recovering = true;
}

/* Opens a bracket; line ends are ignored until it is closed. */
int open_bracket(Parser *p)
{
    int outer = p->brackets;
    p->brackets = outer + 1;
    parser_next(p);
    return outer;
}

/* The count is restored before the closing bracket is read, so that line ends count again for the
 * token after it. */
bool close_bracket(Parser *p, int outer, TokenKind closing, const char *where)
{
    p->brackets = outer;
    if (parser_at(p, TOK_ELSE) && !p->recovering) {
        misplaced_else(p);
        return false;
    }
    return parser_expect(p, closing, where);
}

/* `(x[…] else v)`, after the read. */
static Expr *parse_default(Parser *p, Expr *read)
{
    if (read->kind != EXPR_INDEX) {
        misplaced_else(p);
        return read;
    }
    Expr *expr = expr_new(p, EXPR_ELSE, read->span);
    parser_next(p);
    expr->a = read;
    expr->b = parse_expr(p);
    return expr_grown(p, expr);
}

/* `(a, b)`, after the first. */
static Expr *parse_tuple(Parser *p, Expr *first)
{
    Expr *tuple = expr_new(p, EXPR_TUPLE, first->span);
    ARENA_PUSH(p->arena, &tuple->args, first);
    while (!p->recovering && parser_take(p, TOK_COMMA) && !parser_at(p, TOK_RPAREN)) {
        ARENA_PUSH(p->arena, &tuple->args, parse_expr(p));
    }
    return expr_grown(p, tuple);
}

static Expr *parse_parens(Parser *p)
{
    Span start = p->token.span;
    int outer = open_bracket(p);
    Expr *expr = parse_expr(p);
    if (parser_at(p, TOK_ELSE) && !p->recovering) {
        expr = parse_default(p, expr);
    } else if (parser_at(p, TOK_COMMA)) {
        expr = parse_tuple(p, expr);
    }
    close_bracket(p, outer, TOK_RPAREN, "after this expression");
    expr->span = span_join(start, p->last);
    return expr;
}

static Expr *parse_list(Parser *p)
{
    Expr *expr = expr_new(p, EXPR_LIST, p->token.span);
    int outer = open_bracket(p);
    while (!parser_at(p, TOK_RBRACKET) && !p->recovering) {
        ARENA_PUSH(p->arena, &expr->args, parse_expr(p));
        if (!parser_take(p, TOK_COMMA)) {
            break;
        }
    }
    close_bracket(p, outer, TOK_RBRACKET, "at the end of this list");
    expr->span = span_join(expr->span, p->last);
    return expr_grown(p, expr);
}

/* True if the token directly follows another one of its kind, without a space: `**`, `&&`. */
static bool twice(Parser *p, TokenKind kind)
{
    return parser_at(p, kind) && p->last.end == p->token.span.start &&
           text_equal(source_text(p->diags, p->arena, p->last), token_text(kind));
}

static Expr *parse_primary(Parser *p)
{
    switch (p->token.kind) {
    case TOK_INT:
    case TOK_FLOAT: {
        Expr *expr = expr_new(p, p->token.kind == TOK_INT ? EXPR_INT : EXPR_FLOAT, p->token.span);
        expr->integer = p->token.integer;
        expr->number = p->token.number;
        expr->number32 = p->token.number32;
        parser_next(p);
        return expr;
    }
    case TOK_TRUE:
    case TOK_FALSE: return parse_word(p, EXPR_BOOL);
    case TOK_NAME: return parse_word(p, EXPR_NAME);
    case TOK_STRING: {
        Expr *expr = expr_new(p, EXPR_TEXT, p->token.span);
        expr->name = parser_string(p);
        return expr;
    }
    case TOK_VAR: /* var(x): the variance */
        if (parser_peek(p).kind == TOK_LPAREN) {
            return parse_word(p, EXPR_NAME);
        }
        parser_error(p, "an expression");
        break;
    case TOK_NONE: return parse_word(p, EXPR_NONE);
    case TOK_LPAREN: return parse_parens(p);
    case TOK_LBRACKET: return parse_list(p);
    case TOK_BAD: p->recovering = true; break; /* the lexer has reported it */
    default: {
        bool power = twice(p, TOK_STAR);
        const char *both = NULL;
        if (twice(p, TOK_AMP)) {
            both = "and";
        } else if (twice(p, TOK_BAR)) {
            both = "or";
        }
        Diag *diag = parser_error(p, "an expression");
        if (parser_at(p, TOK_KERNEL) || parser_at(p, TOK_FN) || parser_at(p, TOK_SCHEDULE) ||
            parser_at(p, TOK_TUNE) || parser_at(p, TOK_IMPORT)) {
            diag_help(p->diags, diag,
                      "`%s` begins a declaration, which cannot be inside of another one",
                      token_text(p->token.kind));
        } else {
            parser_help_reserved(p, diag);
        }
        if (both) {
            diag_help(p->diags, diag, "of conditions it is `a %s b`", both);
            diag_fix(p->diags, diag, span_join(p->last, p->token.span), "%s", both);
        }
        if (power) {
            diag_help(p->diags, diag, "there is no `**`: a power is `pow(x, y)`, a square `x * x`");
        }
    } break;
    }
    Expr *bad = poison(p);
    return bad;
}

/* ---- postfix ---- */

static Expr *parse_argument(Parser *p)
{
    if (parser_at(p, TOK_NAME) && parser_peek(p).kind == TOK_ASSIGN) {
        Expr *named = expr_new(p, EXPR_NAMED, p->token.span);
        named->name = token_name(p, p->token);
        parser_next(p);
        parser_next(p);
        named->a = parse_expr(p);
        return expr_grown(p, named);
    }
    return parse_expr(p);
}

static Expr *parse_call(Parser *p, Expr *callee)
{
    Expr *call = expr_new(p, EXPR_CALL, callee->span);
    call->a = callee;
    int outer = open_bracket(p);
    while (!parser_at(p, TOK_RPAREN) && !p->recovering) {
        ARENA_PUSH(p->arena, &call->args, parse_argument(p));
        if (!parser_take(p, TOK_COMMA)) {
            break;
        }
    }
    close_bracket(p, outer, TOK_RPAREN, "after the arguments of this call");
    call->span = span_join(callee->span, p->last);
    return expr_grown(p, call);
}

/* `:`, `a:`, `:b`, `a:b`, each with `:step` after it, or an index. */
static Expr *parse_index(Parser *p)
{
    Expr *from = parser_at(p, TOK_COLON) ? NULL : parse_expr(p);
    if (!parser_at(p, TOK_COLON)) {
        return from;
    }
    Expr *slice = expr_new(p, EXPR_SLICE, from ? from->span : p->token.span);
    slice->a = from;
    parser_next(p);
    if (!parser_at(p, TOK_COMMA) && !parser_at(p, TOK_RBRACKET) && !parser_at(p, TOK_COLON)) {
        slice->b = parse_expr(p);
    }
    if (parser_take(p, TOK_COLON)) {
        slice->c = parse_expr(p);
    }
    slice->span = span_join(slice->span, p->last);
    return expr_grown(p, slice);
}

/* `...` is one axis until a rank is asked for (any_rank.c). */
static Expr *parse_rest(Parser *p)
{
    Expr *rest = expr_new(p, EXPR_NAME, p->token.span);
    p->rest = true;
    rest->op = TOK_ELLIPSIS;
    rest->name = "d0";
    parser_next(p);
    return rest;
}

static Expr *parse_subscript(Parser *p, Expr *base)
{
    Expr *index = expr_new(p, EXPR_INDEX, base->span);
    index->a = base;
    int outer = open_bracket(p);
    while (!parser_at(p, TOK_RBRACKET) && !p->recovering) {
        bool rest = p->any_rank && parser_at(p, TOK_ELLIPSIS);
        ARENA_PUSH(p->arena, &index->args, rest ? parse_rest(p) : parse_index(p));
        if (!parser_take(p, TOK_COMMA)) {
            break;
        }
    }
    close_bracket(p, outer, TOK_RBRACKET, "after the indices");
    index->span = span_join(base->span, p->last);
    return expr_grown(p, index);
}

static Expr *parse_field(Parser *p, Expr *base)
{
    Expr *field = expr_new(p, EXPR_FIELD, base->span);
    field->a = base;
    parser_next(p);
    if (parser_at(p, TOK_AND) || parser_at(p, TOK_OR)) { /* atomic.and */
        field->name = token_name(p, p->token);
        parser_next(p);
    } else {
        field->name = parser_name(p, "a name after `.`");
    }
    field->span = span_join(base->span, p->last);
    return expr_grown(p, field);
}

/* On a new line outside of brackets, `(` and `[` begin a new statement. */
static bool continues(const Parser *p)
{
    return !p->token.first || p->brackets > 0;
}

static Expr *parse_postfix(Parser *p)
{
    Expr *expr = parse_primary(p);
    if (expr->kind == EXPR_NAME && continues(p) && at_axes(p)) {
        return parse_reduction(p, expr);
    }
    while (!p->recovering) {
        if (parser_at(p, TOK_LPAREN) && continues(p)) {
            expr = parse_call(p, expr);
        } else if (parser_at(p, TOK_LBRACKET) && continues(p)) {
            expr = parse_subscript(p, expr);
        } else if (parser_at(p, TOK_DOT)) {
            expr = parse_field(p, expr);
        } else {
            break;
        }
    }
    return expr;
}

/* ---- operators ---- */

static Expr *parse_prefix(Parser *p, int operand_level)
{
    Expr *expr = expr_new(p, EXPR_UNARY, p->token.span);
    expr->op = p->token.kind;
    if (!parser_enter(p, expr->span)) {
        return poison(p);
    }
    parser_next(p);
    expr->a = parse_level(p, operand_level);
    parser_leave(p);
    expr->span = span_join(expr->span, expr->a->span);
    return expr_grown(p, expr);
}

static Expr *parse_unary(Parser *p)
{
    if (parser_at(p, TOK_MINUS) || parser_at(p, TOK_TILDE) || parser_at(p, TOK_PLUS)) {
        return parse_prefix(p, LEVEL_UNARY);
    }
    return parse_postfix(p);
}

static Expr *parse_level(Parser *p, int level)
{
    if (level >= LEVEL_UNARY) {
        return parse_unary(p);
    }
    Expr *left = parser_at(p, TOK_NOT) ? parse_prefix(p, LEVEL_NOT) : parse_level(p, LEVEL_UNARY);
    bool compared = false;
    for (int found = binary_level(p->token.kind); found >= level && found > 0 && !p->recovering;
         found = binary_level(p->token.kind)) {
        Token op = p->token;
        if (found == LEVEL_COMPARE && compared) {
            Diag *diag = front_error(p->diags, ERR_CHAIN, span_join(left->span, p->token.span),
                                     "comparisons do not chain");
            diag_help(p->diags, diag, "write `a < b and b < c`");
            if (left->kind == EXPR_BINARY) {
                Span at = {p->token.span.source, p->token.span.start, p->token.span.start};
                diag_fix(p->diags, diag, at, "and %s ",
                         source_text(p->diags, p->arena, left->b->span));
            }
        }
        compared = found == LEVEL_COMPARE;
        parser_next(p);
        left = expr_binary(p, op.kind, op.span, left, parse_level(p, found + 1));
    }
    return left;
}

static Expr *parse_choice(Parser *p, Expr *yes)
{
    Expr *choice = expr_new(p, EXPR_IF, yes->span);
    choice->a = yes;
    parser_next(p);
    choice->b = parse_level(p, LEVEL_OR);
    if (!parser_expect(p, TOK_ELSE, "in `a if condition else b`")) {
        return poison(p);
    }
    choice->c = parse_expr(p);
    choice->span = span_join(yes->span, choice->c->span);
    return expr_grown(p, choice);
}

Expr *parse_expr(Parser *p)
{
    if (!parser_enter(p, p->token.span)) {
        return poison(p);
    }
    Expr *expr = parse_level(p, LEVEL_OR);
    if (parser_at(p, TOK_IF) && continues(p) && !p->recovering) {
        expr = parse_choice(p, expr);
    }
    parser_leave(p);
    return expr;
}

Expr *parse_operand(Parser *p)
{
    return parse_level(p, LEVEL_OR);
}

Expr *parse_product(Parser *p)
{
    return parse_level(p, LEVEL_PRODUCT);
}

/* A type reads as an expression: f32, T[M, N + 1]. */
Expr *parse_type(Parser *p)
{
    if (!parser_at(p, TOK_NAME)) {
        parser_error(p, "a type");
        return poison(p);
    }
    Expr *type = parse_word(p, EXPR_NAME);
    if (parser_at(p, TOK_LBRACKET) && continues(p)) {
        type = parse_subscript(p, type);
    }
    return type;
}
