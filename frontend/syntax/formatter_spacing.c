/* SPDX-License-Identifier: Apache-2.0 */
/* The spacing rules of the formatter. Operators have a space on both sides, or none if the author
 * wrote none: `2*pad + 1` shows what binds more tightly. There is no space between a name and the
 * bracket of its call or index, and none before a comma. */
#include "frontend/syntax/formatter_spacing.h"

static bool is_keyword(TokenKind kind)
{
    switch (kind) {
#define TOKEN(id, text)
#define PUNCT(id, text)
#define KEYWORD(id, text) case TOK_##id:
#include "frontend/syntax/tokens.def"
        return kind != TOK_TRUE && kind != TOK_FALSE && kind != TOK_NONE;
    default: return false;
    }
}

static bool ends_operand(TokenKind kind)
{
    switch (kind) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_STRING:
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE: return true;
    default: return false;
    }
}

static bool is_arithmetic(TokenKind kind)
{
    switch (kind) {
    case TOK_PLUS:
    case TOK_MINUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOOR:
    case TOK_PERCENT:
    case TOK_AT:
    case TOK_AMP:
    case TOK_BAR:
    case TOK_CARET:
    case TOK_SHL:
    case TOK_SHR:
    case TOK_TILDE: return true;
    default: return false;
    }
}

/* True if a space precedes an opening bracket. */
static bool opens_spaced(const Spacer *s, TokenKind kind, bool spaced)
{
    if (s->before == TOK_RPAREN || s->before == TOK_RBRACKET) {
        return kind == TOK_LPAREN && spaced; /* sum(i in N) (x[i] + 1), or a call */
    }
    return !ends_operand(s->before);
}

/* The colons of a slice keep the author's spacing; other colons follow the name before them without
 * a space. */
static bool colon_spaced(const Spacer *s, TokenKind kind, TokenKind inside, bool spaced)
{
    if (inside == TOK_LBRACKET) {
        return spaced && s->before != TOK_LBRACKET;
    }
    return kind != TOK_COLON;
}

static bool by_last(const Spacer *s, TokenKind kind, bool *decided)
{
    *decided = true;
    if (s->before == TOK_LPAREN || s->before == TOK_LBRACKET || s->before == TOK_DOT ||
        s->before == TOK_DOTS || s->unary || (s->tight && kind != TOK_RBRACE)) {
        return false;
    }
    if (s->before == TOK_COMMA || s->before == TOK_SEMI || s->before == TOK_LBRACE) {
        return true;
    }
    *decided = false;
    return false;
}

static bool decide(const Spacer *s, TokenKind kind, TokenKind inside, bool spaced)
{
    bool decided;
    bool answer = by_last(s, kind, &decided);
    switch (kind) {
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_COMMA:
    case TOK_SEMI:
    case TOK_DOTS: return false;
    case TOK_ELLIPSIS: return s->before == TOK_COMMA;
    case TOK_DOT: return decided && answer;
    default: break;
    }
    if (kind == TOK_COLON || (s->before == TOK_COLON && !decided)) {
        return decided ? answer : colon_spaced(s, kind, inside, spaced);
    }
    if (decided) {
        return answer;
    }
    if (kind == TOK_LPAREN || kind == TOK_LBRACKET) {
        return is_keyword(s->before) || opens_spaced(s, kind, spaced);
    }
    return true;
}

bool space_before(Spacer *s, Token token, TokenKind inside, bool spaced, bool spaced_after)
{
    TokenKind kind = token.kind;
    bool sign = is_arithmetic(kind) && !ends_operand(s->before);
    bool binary = is_arithmetic(kind) && !sign;
    bool named = kind == TOK_ASSIGN && inside == TOK_LPAREN; /* axis=1 */
    bool tight = (binary || named) && !spaced && !spaced_after;
    bool space = !tight && decide(s, kind, inside, spaced);
    s->before = kind;
    s->unary = sign;
    s->tight = tight;
    return space;
}
