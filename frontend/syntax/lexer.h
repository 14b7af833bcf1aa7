/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer: text to tokens, one at a time. A Lexer is a value: copy it to look ahead. */
#ifndef TESSERA_FRONTEND_SYNTAX_LEXER_H
#define TESSERA_FRONTEND_SYNTAX_LEXER_H

#include "support/diag.h"

typedef enum TokenKind {
#define TOKEN(id, text) TOK_##id,
#include "frontend/syntax/tokens.def"
    TOK_COUNT
} TokenKind;

typedef struct Token {
    TokenKind kind;
    bool first; /* on its line */
    Span span;
    int64_t integer; /* INT */
    double number;   /* INT and FLOAT: the nearest f64, */
    float number32;  /* and the nearest f32, rounded once */
} Token;

typedef struct Lexer {
    Diags *diags; /* NULL: reports nothing, for looking ahead */
    int source;
    const char *text;
    size_t n, at;
} Lexer;

Lexer lexer_new(Diags *diags, int source);
Token lexer_next(Lexer *lexer);
/* How a kind of token is called in messages: `->`, a name. */
const char *token_text(TokenKind kind);
/* True if the token is spelt like a name but is a keyword. */
bool token_is_keyword(TokenKind kind);

#endif
