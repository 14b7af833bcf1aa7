/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the parser share: the token cursor, and one entry point each. */
#ifndef TESSERA_FRONTEND_SYNTAX_PARSER_H
#define TESSERA_FRONTEND_SYNTAX_PARSER_H

#include "frontend/messages/frontend_errors.h"
#include "frontend/syntax/ast.h"

enum { MAX_NESTING = 256, MAX_HEIGHT = 500, MAX_NODES = 1 << 20 };

typedef struct Parser {
    Module *module;
    Arena *arena;
    Diags *diags;
    Lexer lexer;
    Token token;     /* the current one */
    Span last;       /* of the token before */
    int nesting;     /* of expressions and blocks */
    int brackets;    /* open ones: lines do not matter inside */
    bool any_rank;   /* `...` may stand for axes: in the types of a kernel's parameters */
    bool rest;       /* there was one */
    bool stopped;    /* a limit was hit, the rest of the file is not read */
    int nodes;       /* of the tree so far */
    bool recovering; /* an error was reported and no statement has been found since */
} Parser;

void parser_next(Parser *p);
Token parser_peek(const Parser *p);
bool parser_at(const Parser *p, TokenKind kind);
/* Takes the token if it is there. */
bool parser_take(Parser *p, TokenKind kind);
/* Takes the token, or reports that it is missing; `where` completes "expected `:` …". */
bool parser_expect(Parser *p, TokenKind kind, const char *where);
/* Reports one error per statement; further ones are dropped. Never NULL. */
Diag *parser_error(Parser *p, const char *what);
Diag *parser_unsupported(Parser *p, Span span, const char *what);
const char *parser_name(Parser *p, const char *what); /* "" after an error */
/* Adds help about the current token: a reserved word, or a word of another language. */
void parser_help_reserved(Parser *p, Diag *diag);
void parser_help_foreign(Parser *p, Diag *diag);
/* Takes a string: the text between its quotes, escapes resolved. */
const char *parser_string(Parser *p);
const char *token_name(const Parser *p, Token token);
/* How the current token reads in a message. */
const char *parser_found(const Parser *p);
bool parser_at_word(const Parser *p, const char *word);
/* Takes a name that is a keyword only at this position: on, auto, exactly, where. */
bool parser_take_word(Parser *p, const char *word);

/* Counts a node of the tree: a file has MAX_NODES of them. */
void parser_count(Parser *p);
/* Enter and leave one level; false (and an error) when there are too many. */
bool parser_enter(Parser *p, Span span);
void parser_leave(Parser *p);

/* The indentation of the current token's line. */
uint32_t parser_indent(const Parser *p);
/* Skips to where a statement can begin: `;`, a brace, or a new line that begins with a statement's
 * word or is indented by at most `indent`. */
void parser_recover(Parser *p, uint32_t indent);

Expr *parse_expr(Parser *p);
/* As parse_expr, but `if` ends it. */
Expr *parse_operand(Parser *p);
/* A product, which is the body of a prefix reduction. */
Expr *parse_product(Parser *p);
/* parse_axis.c: `i in N`, `i in a..b`, with `by` where `steps`. */
bool parse_axis(Parser *p, bool steps, Axis *axis);
/* `i in N, j in M` up to `closing`, which stays. */
bool parse_axes(Parser *p, TokenKind closing, AxisList *axes);
/* At `(NAME in`? */
bool at_axes(const Parser *p);
/* `sum(r in R if c) body`, at the parenthesis. */
Expr *parse_reduction(Parser *p, const Expr *name);
/* Opens brackets, inside which line breaks do not matter; the count is passed to close_bracket. */
int open_bracket(Parser *p);
bool close_bracket(Parser *p, int outer, TokenKind closing, const char *where);
Expr *parse_type(Parser *p);
Expr *expr_new(Parser *p, ExprKind kind, Span span);
/* Sets the height of a node from its children; a tree that is too high becomes poison. */
Expr *expr_grown(Parser *p, Expr *expr);
Expr *expr_binary(Parser *p, TokenKind op, Span op_span, Expr *a, Expr *b);
/* `{ … }` */
StmtList parse_block(Parser *p);
/* schedule and tune blocks, after the keyword. */
void parse_schedule(Parser *p);
void parse_tune(Parser *p);

#endif
