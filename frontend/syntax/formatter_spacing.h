/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which adjacent tokens of a line are separated by a space. */
#ifndef TESSERA_FRONTEND_SYNTAX_FORMATTER_SPACING_H
#define TESSERA_FRONTEND_SYNTAX_FORMATTER_SPACING_H

#include "frontend/syntax/lexer.h"

typedef struct Spacer {
    const char *text; /* of the source */
    TokenKind before; /* the last token; TOK_END: none */
    bool unary;       /* it was an operator before its operand */
    bool tight;       /* it was an operator that its author wrote without spaces */
} Spacer;

/* Whether a space goes between the last token and `token`, both on one line, where `inside` is the
 * innermost open bracket (TOK_END: none), and `spaced`, `spaced_after`: whether the source has
 * spaces before and after the token. Takes `token` as the last one. */
bool space_before(Spacer *spacer, Token token, TokenKind inside, bool spaced, bool spaced_after);

#endif
