/* SPDX-License-Identifier: Apache-2.0 */
/* Parses statements and blocks. */
#include "frontend/syntax/parser.h"

static Stmt *stmt_new(Parser *p, StmtKind kind)
{
    Stmt *stmt = ARENA_NEW(p->arena, Stmt);
    stmt->kind = kind;
    stmt->span = p->token.span;
    parser_count(p);
    return stmt;
}

static void parse_defined(Parser *p, Stmt *stmt)
{
    stmt->name_span = p->token.span;
    if (parser_at(p, TOK_LPAREN)) {
        /* Parses `(a, b)`: names for the elements of a tuple. */
        parser_next(p);
        do {
            Expr *name = expr_new(p, EXPR_NAME, p->token.span);
            name->name = parser_name(p, "a name");
            ARENA_PUSH(p->arena, &stmt->names, name);
        } while (!p->recovering && parser_take(p, TOK_COMMA) && !parser_at(p, TOK_RPAREN));
        parser_expect(p, TOK_RPAREN, "after the names");
        return;
    }
    stmt->name = parser_name(p, "a name");
    if (parser_at(p, TOK_LBRACKET) && stmt->kind == STMT_LET) {
        /* Parses `t[i in N, j in M]`: an array that is defined by its indices. */
        int outer = open_bracket(p);
        parse_axes(p, TOK_RBRACKET, &stmt->axes);
        close_bracket(p, outer, TOK_RBRACKET, "after the indices");
    }
}

static Stmt *parse_definition(Parser *p, StmtKind kind)
{
    Stmt *stmt = stmt_new(p, kind);
    parser_next(p);
    parse_defined(p, stmt);
    if (p->recovering) {
        return stmt;
    }
    if (parser_take(p, TOK_COLON)) {
        stmt->type = parse_type(p);
    }
    if (stmt->kind == STMT_VAR && parser_at(p, TOK_LBRACKET)) {
        Diag *diag = parser_error(p, "`=` and a value");
        diag_help(p->diags, diag,
                  "`let` makes an array by its indices, `let a[i in N] = …`; then `var %s = a`",
                  stmt->name);
    } else if (parser_expect(p, TOK_ASSIGN, "and a value")) {
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

static Stmt *parse_loop(Parser *p, StmtKind kind)
{
    Stmt *stmt = stmt_new(p, kind);
    parser_next(p);
    do {
        Axis axis;
        if (parse_axis(p, true, &axis)) {
            ARENA_PUSH(p->arena, &stmt->axes, axis);
        }
    } while (kind == STMT_PARALLEL && !p->recovering && parser_take(p, TOK_COMMA));
    stmt->span = span_join(stmt->span, p->last);
    stmt->body = parse_block(p);
    return stmt;
}

static Stmt *parse_while(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_WHILE);
    parser_next(p);
    stmt->value = parse_expr(p);
    stmt->span = span_join(stmt->span, p->last);
    stmt->body = parse_block(p);
    return stmt;
}

static Stmt *parse_unchecked(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_UNCHECKED);
    parser_next(p);
    stmt->body = parse_block(p);
    return stmt;
}

static Stmt *parse_leave(Parser *p, StmtKind kind)
{
    Stmt *stmt = stmt_new(p, kind);
    parser_next(p);
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

MessageKind message_kind(const char *name)
{
    static const char *const names[] = {[MESSAGE_PRINT] = "print", [MESSAGE_ASSERT] = "assert"};
    for (MessageKind kind = MESSAGE_PRINT; kind <= MESSAGE_ASSERT; kind++) {
        if (text_equal(name, names[kind])) {
            return kind;
        }
    }
    return MESSAGE_NONE;
}

static bool at_statement_end(const Parser *p)
{
    return p->token.first || parser_at(p, TOK_RBRACE) || parser_at(p, TOK_SEMI);
}

/* The operator of `a += b`; TOK_END if the token is not such an operator. */
static TokenKind update_operator(const Parser *p)
{
    switch (p->token.kind) {
    case TOK_PLUS_EQ: return TOK_PLUS;
    case TOK_MINUS_EQ: return TOK_MINUS;
    case TOK_STAR_EQ: return TOK_STAR;
    case TOK_SLASH_EQ: return TOK_SLASH;
    default: return TOK_END;
    }
}

/* True for a call that is a statement because of its effect: `atomic.add(y[i], v)`, `print(x)`. */
static bool has_effect(const Expr *expr)
{
    const Expr *callee = expr->kind == EXPR_CALL ? expr->a : NULL;
    return callee && (callee->kind == EXPR_NAME
                          ? message_kind(callee->name)
                          : callee->kind == EXPR_FIELD && callee->a->kind == EXPR_NAME &&
                                text_equal(callee->a->name, "atomic"));
}

static Stmt *parse_effect(Parser *p, Stmt *stmt)
{
    stmt->kind = STMT_EXPR;
    stmt->value = stmt->target;
    stmt->span = stmt->target->span;
    if (!has_effect(stmt->value)) {
        const Expr *expr = stmt->value;
        bool bare = expr->kind == EXPR_NAME && message_kind(expr->name) && !at_statement_end(p);
        if (bare) {
            Diag *diag = parser_error(p, "`(`");
            diag_help(p->diags, diag, "write `%s(…)`", expr->name);
        } else if (expr->kind != EXPR_POISON && !p->recovering && at_statement_end(p)) {
            Diag *diag =
                front_error(p->diags, ERR_NO_EFFECT, expr->span, "this statement has no effect");
            diag_help(p->diags, diag, "give the value a name with `let`, return it, or store it");
        }
        return NULL;
    }
    return stmt;
}

static Stmt *parse_assignment(Parser *p)
{
    Stmt *stmt = stmt_new(p, STMT_ASSIGN);
    stmt->target = parse_expr(p);
    if (p->recovering) {
        return stmt;
    }
    TokenKind update = update_operator(p);
    Span op_span = p->token.span;
    if (update == TOK_END && !parser_at(p, TOK_ASSIGN)) {
        return parse_effect(p, stmt);
    }
    parser_next(p);
    stmt->value = parse_expr(p);
    if (update != TOK_END) {
        stmt->value = expr_binary(p, update, op_span, stmt->target, stmt->value);
    }
    stmt->span = span_join(stmt->target->span, p->last);
    return stmt;
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
    case TOK_WHILE: return parse_while(p);
    case TOK_BREAK: return parse_leave(p, STMT_BREAK);
    case TOK_CONTINUE: return parse_leave(p, STMT_CONTINUE);
    case TOK_UNCHECKED: return parse_unchecked(p);
    case TOK_FN: {
        Diag *diag = parser_unsupported(p, p->token.span, "functions inside of functions are");
        diag_help(p->diags, diag,
                  "define it next to the kernel; what it reads here is an argument then");
        return NULL;
    }
    default: return parse_assignment(p);
    }
}

static void end_statement(Parser *p)
{
    if (at_statement_end(p)) {
        return;
    }
    p->recovering = true;
    if (parser_at(p, TOK_BAD)) {
        return;
    }
    Diag *diag = front_error(p->diags, ERR_STATEMENT_END, p->token.span,
                             "expected the end of the statement, found %s", parser_found(p));
    bool is_default = parser_at(p, TOK_ELSE);
    if (parser_at(p, TOK_NAME) && foreign_word_help(token_name(p, p->token))) {
        parser_help_foreign(p, diag);
        return;
    }
    diag_help(p->diags, diag, "%s",
              is_default ? "a read with a default has parentheses of its own: `(x[…] else v)`"
                         : "statements end with their line, or with `;`");
}

/* What is kept of a statement with an error of syntax: a definition's names, so that they are known
 * further down. NULL: nothing. */
static Stmt *broken_part(Parser *p, Stmt *stmt)
{
    bool named = stmt && (stmt->kind == STMT_LET || stmt->kind == STMT_VAR) &&
                 (stmt->names.n || (stmt->name && *stmt->name));
    if (!named) {
        return NULL;
    }
    stmt->type = NULL;
    stmt->axes = (AxisList){0};
    stmt->value = expr_new(p, EXPR_POISON, stmt->span);
    return stmt;
}

/* A declaration in the first column, where a statement is expected: the block was not closed. */
static bool at_next_declaration(const Parser *p)
{
    bool begins = parser_at(p, TOK_KERNEL) || parser_at(p, TOK_SCHEDULE) || parser_at(p, TOK_TUNE);
    bool outside = (parser_at(p, TOK_FN) || parser_at(p, TOK_IMPORT)) && parser_indent(p) == 0 &&
                   p->token.span.start > 0 && p->lexer.text[p->token.span.start - 1] == '\n';
    return p->token.first && (begins || outside || parser_at(p, TOK_END));
}

static void parse_statements(Parser *p, StmtList *list)
{
    while (!parser_at(p, TOK_RBRACE) && !at_next_declaration(p)) {
        if (parser_take(p, TOK_SEMI)) {
            continue;
        }
        size_t before = p->lexer.at;
        uint32_t indent = parser_indent(p);
        Stmt *stmt = parse_statement(p);
        if (!p->recovering) {
            end_statement(p);
        }
        if (p->recovering && p->lexer.at == before) {
            parser_next(p);
        }
        if (p->recovering) {
            stmt = broken_part(p, stmt);
            parser_recover(p, indent);
        }
        if (stmt) {
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
        diag_label(p->diags, diag, open, "it begins here");
    }
    return list;
}
