/* SPDX-License-Identifier: Apache-2.0 */
/* The token cursor of the parser, and its error recovery: it reports an error once, unwinds to the
 * enclosing statement or declaration, skips to the next one and continues. */
#include "frontend/syntax/parser.h"

#include <string.h>

/* Moves the cursor to the end of the file, so that all callers unwind. */
static void stop(Parser *p)
{
    p->lexer.at = p->lexer.n;
    p->token = lexer_next(&p->lexer);
    p->recovering = p->stopped = true;
}

void parser_next(Parser *p)
{
    p->last = p->token.span;
    p->token = lexer_next(&p->lexer);
    if (errors_are_enough(p->diags)) {
        stop(p);
    }
}

void parser_count(Parser *p)
{
    if (++p->nodes == MAX_NODES) {
        front_error(p->diags, (ErrorCode)ERR_PROGRAM_SIZE, p->token.span,
                    "this program is too large");
        stop(p);
    }
}

Token parser_peek(const Parser *p)
{
    Lexer ahead = p->lexer;
    ahead.diags = NULL;
    return lexer_next(&ahead);
}

bool parser_at(const Parser *p, TokenKind kind)
{
    return p->token.kind == kind;
}

bool parser_take(Parser *p, TokenKind kind)
{
    if (p->token.kind != kind) {
        return false;
    }
    parser_next(p);
    return true;
}

/* The character of the escape sequence `\\c`, or 0. */
static char escaped(char c)
{
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case '"':
    case '\\': return c;
    default: return 0;
    }
}

const char *parser_string(Parser *p)
{
    Span span = p->token.span;
    const char *from = p->diags->sources.items[span.source].text + span.start + 1;
    size_t n = span.end - span.start, length = 0;
    n = n >= 2 ? n - 2 : 0;
    char *text = ARENA_ARRAY(p->arena, char, n + 1);
    for (size_t i = 0; i < n; i++) {
        text[length] = from[i] == '\\' && i + 1 < n ? escaped(from[++i]) : from[i];
        if (!text[length]) {
            Diag *diag = front_error(p->diags, ERR_STRING, span, "`\\%c` means nothing", from[i]);
            diag_help(p->diags, diag, "there are \\n, \\t, \\\" and \\\\");
            break;
        }
        length++;
    }
    text[length] = 0;
    parser_next(p);
    return text;
}

const char *token_name(const Parser *p, Token token)
{
    return arena_strndup(p->arena, p->lexer.text + token.span.start,
                         token.span.end - token.span.start);
}

static bool has_word(TokenKind kind)
{
    return kind == TOK_NAME || kind == TOK_INT || kind == TOK_FLOAT;
}

const char *parser_found(const Parser *p)
{
    if (parser_at(p, TOK_END)) {
        return token_text(TOK_END);
    }
    bool shown = has_word(p->token.kind) && p->token.span.end - p->token.span.start < 40;
    const char *text = shown ? token_name(p, p->token) : token_text(p->token.kind);
    bool named = !shown && (has_word(p->token.kind) || p->token.kind <= TOK_BAD);
    return named ? text : arena_printf(p->arena, "`%s`", text);
}

/* Returns a diagnostic that is not reported, because its place has one already; callers may add
 * labels to it. */
static Diag *unseen(Parser *p)
{
    return ARENA_NEW(p->arena, Diag);
}

Diag *parser_error(Parser *p, const char *what)
{
    if (p->recovering || p->stopped) {
        return unseen(p);
    }
    p->recovering = true;
    if (parser_at(p, TOK_BAD)) {
        return unseen(p); /* the lexer has reported it */
    }
    return front_error(p->diags, ERR_EXPECTED, p->token.span, "expected %s, found %s", what,
                       parser_found(p));
}

Diag *parser_unsupported(Parser *p, Span span, const char *what)
{
    if (p->recovering) {
        return unseen(p);
    }
    p->recovering = true;
    return front_unsupported(p->diags, span, "%s", what);
}

bool parser_expect(Parser *p, TokenKind kind, const char *where)
{
    if (parser_take(p, kind)) {
        return true;
    }
    Diag *diag = parser_error(p, arena_printf(p->arena, "`%s` %s", token_text(kind), where));
    if (kind == TOK_LBRACE && parser_at(p, TOK_ASSIGN)) {
        diag_help(p->diags, diag, "`==` compares");
        diag_fix(p->diags, diag, p->token.span, "==");
    } else if (kind == TOK_LBRACE) {
        parser_help_foreign(p, diag);
    }
    return false;
}

void parser_help_reserved(Parser *p, Diag *diag)
{
    if (parser_at(p, TOK_IF)) {
        diag_help(p->diags, diag, "of two values one is chosen by `a if c else b`");
    } else if (token_is_keyword(p->token.kind)) {
        diag_help(p->diags, diag, "`%s` is a word of the language: take another name",
                  token_text(p->token.kind));
    }
}

void parser_help_foreign(Parser *p, Diag *diag)
{
    const char *help = parser_at(p, TOK_NAME) ? foreign_word_help(token_name(p, p->token)) : NULL;
    if (help) {
        diag_help(p->diags, diag, "%s", help);
    }
}

const char *parser_name(Parser *p, const char *what)
{
    if (!parser_at(p, TOK_NAME)) {
        parser_help_reserved(p, parser_error(p, what));
        return "";
    }
    const char *name = token_name(p, p->token);
    parser_next(p);
    return name;
}

bool parser_at_word(const Parser *p, const char *word)
{
    size_t n = strlen(word);
    return parser_at(p, TOK_NAME) && p->token.span.end - p->token.span.start == n &&
           memcmp(p->lexer.text + p->token.span.start, word, n) == 0;
}

bool parser_take_word(Parser *p, const char *word)
{
    if (!parser_at_word(p, word)) {
        return false;
    }
    parser_next(p);
    return true;
}

bool parser_enter(Parser *p, Span span)
{
    if (p->nesting >= MAX_NESTING) {
        if (!p->recovering) {
            Diag *diag = front_error(p->diags, ERR_NESTING, span, "nested too deeply");
            diag_note(p->diags, diag, "the limit is %d levels", MAX_NESTING);
        }
        p->recovering = true;
        return false;
    }
    p->nesting++;
    return true;
}

void parser_leave(Parser *p)
{
    p->nesting--;
}

uint32_t parser_indent(const Parser *p)
{
    const char *text = p->lexer.text;
    uint32_t start = p->token.span.start, indent = 0;
    while (start > 0 && text[start - 1] != '\n') {
        start--;
    }
    while (start + indent < p->token.span.start && strchr(" \t", text[start + indent])) {
        indent++;
    }
    return indent;
}

static bool begins_statement(const Parser *p)
{
    switch (p->token.kind) {
    case TOK_LET:
    case TOK_VAR:
    case TOK_IF:
    case TOK_FOR:
    case TOK_WHILE:
    case TOK_PARALLEL:
    case TOK_RETURN:
    case TOK_BREAK:
    case TOK_ASSUME:
    case TOK_END: return true;
    default: return false;
    }
}

void parser_recover(Parser *p, uint32_t indent)
{
    while (!(p->token.first && (begins_statement(p) || parser_indent(p) <= indent)) &&
           !parser_at(p, TOK_RBRACE) && !parser_at(p, TOK_SEMI) && !parser_at(p, TOK_END)) {
        if (parser_at(p, TOK_LBRACE)) {
            int depth = 0;
            do {
                depth += parser_at(p, TOK_LBRACE);
                depth -= parser_at(p, TOK_RBRACE);
                parser_next(p);
            } while (depth > 0 && !parser_at(p, TOK_END));
        } else {
            parser_next(p);
        }
    }
    p->recovering = false;
    p->brackets = 0;
}

bool expr_mentions(const Expr *expr, const char *name)
{
    if (!expr) {
        return false;
    }
    bool found = expr->kind == EXPR_NAME && text_equal(expr->name, name);
    for (size_t i = 0; !found && i < expr->args.n; i++) {
        found = expr_mentions(expr->args.items[i], name);
    }
    return found || expr_mentions(expr->a, name) || expr_mentions(expr->b, name) ||
           expr_mentions(expr->c, name);
}

static bool any_mentions(const ExprList *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (expr_mentions(list->items[i], name)) {
            return true;
        }
    }
    return false;
}

static bool block_mentions(const StmtList *block, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < block->n && !found; i++) {
        const Stmt *stmt = block->items[i];
        found = expr_mentions(stmt->type, name) || expr_mentions(stmt->target, name) ||
                expr_mentions(stmt->value, name) || any_mentions(&stmt->values, name) ||
                block_mentions(&stmt->body, name) || block_mentions(&stmt->otherwise, name);
        for (size_t k = 0; k < stmt->axes.n && !found; k++) {
            const Axis *axis = &stmt->axes.items[k];
            found = expr_mentions(axis->extent, name) || expr_mentions(axis->to, name) ||
                    expr_mentions(axis->step, name);
        }
    }
    return found;
}

bool fn_mentions(const FnDecl *fn, const char *name)
{
    return expr_mentions(fn->value, name) || block_mentions(&fn->body, name);
}

const char *source_text(const Diags *diags, Arena *arena, Span span)
{
    const Source *source = &diags->sources.items[span.source];
    Text text = text_new(arena);
    bool space = false;
    for (uint32_t i = span.start; i < span.end && i < source->n; i++) {
        char c = source->text[i];
        if (c == '#') {
            while (i + 1 < span.end && source->text[i + 1] != '\n') {
                i++;
            }
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            space = text.n > 0;
        } else {
            if (space) {
                text_char(&text, ' ');
            }
            space = false;
            text_char(&text, c);
        }
    }
    return text.data;
}
