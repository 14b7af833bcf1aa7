/* SPDX-License-Identifier: Apache-2.0 */
/* Statements and blocks. */
#include "frontend/parse.h"

static Stmt *stmt_new(Parser *p, StmtKind kind)
{
    Stmt *stmt = ARENA_NEW(p->arena, Stmt);
    stmt->kind = kind;
    stmt->span = p->token.span;
    parser_count(p);
    return stmt;
}

static Stmt *parse_definition(Parser *p, StmtKind kind)
{
    Stmt *stmt = stmt_new(p, kind);
    parser_next(p);
    stmt->name_span = p->token.span;
    stmt->name = parser_name(p, "a name");
    if (parser_take(p, TOK_COLON)) {
        stmt->type = parse_type(p);
    }
    if (parser_expect(p, TOK_ASSIGN, "and a value")) {
        stmt->value = parse_expr(p);
    }
    return stmt;
}

static Stmt *parse_return(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_RETURN);
    parser_next(p);
    do {
        ARENA_PUSH(p->arena, &stmt->values, parse_expr(p));
    } while (!p->recovering && parser_take(p, TOK_COMMA));
    return stmt;
}

static Stmt *parse_if(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_IF);
    if (!parser_enter(p, stmt->span)) {
        return stmt;
    }
    parser_next(p);
    stmt->value = parse_expr(p);
    stmt->body = parse_block(p);
    if (!p->recovering && parser_take(p, TOK_ELSE)) {
        if (parser_at(p, TOK_IF)) {
            ARENA_PUSH(p->arena, &stmt->otherwise, parse_if(p));
        } else {
            stmt->otherwise = parse_block(p);
        }
    }
    parser_leave(p);
    return stmt;
}

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

static void parse_axis(Parser *p, Stmt *stmt)
{
    Axis axis = {.span = p->token.span};
    axis.name = parser_name(p, "a loop variable");
    if (!parser_expect(p, TOK_IN, "after the loop variable")) {
        return;
    }
    axis.extent = parse_expr(p);
    if (!p->recovering && parser_take(p, TOK_DOTS)) {
        axis.to = parse_expr(p);
    }
    if (!p->recovering) {
        parse_by(p, &axis);
    }
    ARENA_PUSH(p->arena, &stmt->axes, axis);
}

static Stmt *parse_loop(Parser *p, StmtKind kind)
{
    Stmt *stmt = stmt_new(p, kind);
    parser_next(p);
    do {
        parse_axis(p, stmt);
    } while (kind == STMT_PARALLEL && !p->recovering && parser_take(p, TOK_COMMA));
    stmt->span = span_join(stmt->span, p->last);
    stmt->body = parse_block(p);
    return stmt;
}

static Stmt *parse_assume(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_ASSUME);
    parser_next(p);
    stmt->value = parse_expr(p);
    if (!p->recovering && parser_take(p, TOK_IN)) {
        do {
            ARENA_PUSH(p->arena, &stmt->values, parse_expr(p));
        } while (!p->recovering && parser_take(p, TOK_COMMA));
    }
    stmt->span = span_join(stmt->span, p->last);
    return stmt;
}

static void no_effect(Parser *p, const Expr *expr)
{
    bool print =
        expr->kind == EXPR_CALL && expr->a->kind == EXPR_NAME && text_same(expr->a->name, "print");
    if (print) {
        parser_unsupported(p, expr->span, "print is");
    } else if (expr->kind != EXPR_POISON && !p->recovering) {
        Diag *diag =
            front_error(p->diags, ERR_NO_EFFECT, expr->span, "this statement has no effect");
        diag_help(p->diags, diag, "give the value a name with `let`, return it, or store it");
    }
}

static bool at_update(const Parser *p)
{
    return parser_at(p, TOK_PLUS_EQ) || parser_at(p, TOK_MINUS_EQ) || parser_at(p, TOK_STAR_EQ) ||
           parser_at(p, TOK_SLASH_EQ);
}

static Stmt *parse_assignment(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_ASSIGN);
    stmt->target = parse_expr(p);
    if (p->recovering) {
        return stmt;
    }
    if (at_update(p)) {
        Diag *diag = parser_unsupported(p, p->token.span, "updates such as `a += b` are");
        diag_help(p->diags, diag, "write `a = a + b`");
        return stmt;
    }
    if (!parser_at(p, TOK_ASSIGN)) {
        no_effect(p, stmt->target);
        stmt->target = NULL;
        return stmt;
    }
    parser_next(p);
    stmt->value = parse_expr(p);
    stmt->span = span_join(stmt->target->span, p->last);
    return stmt;
}

static Stmt *unsupported_statement(Parser *p, const char *what)
{
    parser_unsupported(p, p->token.span, what);
    return NULL;
}

static Stmt *parse_statement(Parser *p)
{
    switch (p->token.kind) {
    case TOK_LET: return parse_definition(p, STMT_LET);
    case TOK_VAR: return parse_definition(p, STMT_VAR);
    case TOK_RETURN: return parse_return(p);
    case TOK_IF: return parse_if(p);
    case TOK_FOR: return parse_loop(p, STMT_FOR);
    case TOK_PARALLEL: return parse_loop(p, STMT_PARALLEL);
    case TOK_ASSUME: return parse_assume(p);
    case TOK_WHILE: return unsupported_statement(p, "`while` is");
    case TOK_BREAK: return unsupported_statement(p, "`break` is");
    case TOK_CONTINUE: return unsupported_statement(p, "`continue` is");
    case TOK_UNCHECKED: return unsupported_statement(p, "`unchecked` is");
    case TOK_ASSERT: return unsupported_statement(p, "`assert` is");
    case TOK_FN: return unsupported_statement(p, "functions inside of functions are");
    default: return parse_assignment(p);
    }
}

static void end_statement(Parser *p)
{
    if (p->token.first || parser_at(p, TOK_RBRACE) || parser_at(p, TOK_SEMI)) {
        return;
    }
    if (parser_at(p, TOK_ELSE)) {
        parser_unsupported(p, p->token.span, "reads with a default, `x[…] else v`, are");
        return;
    }
    p->recovering = true;
    if (parser_at(p, TOK_BAD)) {
        return;
    }
    Diag *diag = front_error(p->diags, ERR_STATEMENT_END, p->token.span,
                             "expected the end of the statement, found %s", parser_found(p));
    diag_help(p->diags, diag, "statements end with their line, or with `;`");
}

/* A declaration at the start of a line: its block was not closed. */
static bool at_declaration(const Parser *p)
{
    return p->token.first && (parser_at(p, TOK_KERNEL) || parser_at(p, TOK_SCHEDULE) ||
                              parser_at(p, TOK_TUNE) || parser_at(p, TOK_END));
}

static void parse_statements(Parser *p, StmtList *list)
{
    while (!parser_at(p, TOK_RBRACE) && !at_declaration(p)) {
        if (parser_take(p, TOK_SEMI)) {
            continue;
        }
        size_t before = p->lexer.at;
        Stmt *stmt = parse_statement(p);
        if (!p->recovering) {
            end_statement(p);
        }
        if (p->recovering && p->lexer.at == before) {
            parser_next(p);
        }
        if (p->recovering) {
            parser_recover(p);
        } else if (stmt && (stmt->kind != STMT_ASSIGN || stmt->target)) {
            ARENA_PUSH(p->arena, list, stmt);
        }
    }
}

StmtList parse_block(Parser *p)
{
    StmtList list = {0};
    Span open = p->token.span;
    if (p->recovering || !parser_expect(p, TOK_LBRACE, "to begin a block") ||
        !parser_enter(p, open)) {
        return list;
    }
    parse_statements(p, &list);
    parser_leave(p);
    if (!parser_take(p, TOK_RBRACE)) {
        Diag *diag = parser_error(p, "`}` at the end of this block");
        if (diag) {
            diag_label(p->diags, diag, open, "it begins here");
        }
    }
    return list;
}
