/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer: it turns UTF-8 text into tokens and reports characters, numbers and strings that are
 * malformed. The tables of punctuation and keywords come from tokens.def. */
#include "frontend/syntax/lexer.h"

#include "frontend/messages/frontend_errors.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const TEXTS[TOK_COUNT] = {
#define TOKEN(id, text) text,
#include "frontend/syntax/tokens.def"
};

static const struct {
    TokenKind kind;
    const char *text;
} PUNCTUATION[] =
    {
#define TOKEN(id, text)
#define PUNCT(id, text) {TOK_##id, text},
#define KEYWORD(id, text)
#include "frontend/syntax/tokens.def"
},
  KEYWORDS[] = {
#define TOKEN(id, text)
#define PUNCT(id, text)
#define KEYWORD(id, text) {TOK_##id, text},
#include "frontend/syntax/tokens.def"
};

enum { LONGEST_NUMBER = 1000 };

const char *token_text(TokenKind kind)
{
    return TEXTS[kind];
}

bool token_is_keyword(TokenKind kind)
{
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        if (KEYWORDS[i].kind == kind) {
            return true;
        }
    }
    return false;
}

Lexer lexer_new(Diags *diags, int source)
{
    const Source *from = &diags->sources.items[source];
    return (Lexer){diags, source, from->text, from->n, 0};
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The text is terminated, so one byte past the end reads 0. */
static char at(const Lexer *lexer, size_t offset)
{
    return lexer->at + offset < lexer->n ? lexer->text[lexer->at + offset] : 0;
}

static Span span_from(const Lexer *lexer, size_t start)
{
    return (Span){lexer->source, (uint32_t)start, (uint32_t)lexer->at};
}

/* Skips spaces and comments. True if a line ended among them. */
static bool skip_space(Lexer *lexer)
{
    bool first = lexer->at == 0;
    lexer->at += first ? text_mark(lexer->text, lexer->n) : 0;
    while (lexer->at < lexer->n) {
        char c = lexer->text[lexer->at];
        if (c == '#') {
            const char *end = memchr(lexer->text + lexer->at, '\n', lexer->n - lexer->at);
            lexer->at = end ? (size_t)(end - lexer->text) : lexer->n;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            first = first || c == '\n';
            lexer->at++;
        } else {
            break;
        }
    }
    return first;
}

/* ---- numbers ---- */

static int digit_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

/* Digits of one base with `_` between; false when the value does not fit an i64. */
static bool scan_integer(Lexer *lexer, int base, int64_t *value)
{
    bool fits = true;
    *value = 0;
    while (digit_value(at(lexer, 0)) < base || at(lexer, 0) == '_') {
        if (at(lexer, 0) != '_') {
            fits = fits && !__builtin_mul_overflow(*value, base, value) &&
                   !__builtin_add_overflow(*value, digit_value(at(lexer, 0)), value);
        }
        lexer->at++;
    }
    return fits;
}

static void skip_digits(Lexer *lexer)
{
    while (is_digit(at(lexer, 0)) || at(lexer, 0) == '_') {
        lexer->at++;
    }
}

/* Skips `.digits` and the exponent. True if there was either. */
static bool skip_fraction(Lexer *lexer)
{
    bool is_float = false;
    if (at(lexer, 0) == '.' && at(lexer, 1) != '.' && !is_letter(at(lexer, 1))) {
        is_float = true;
        lexer->at++;
        skip_digits(lexer);
    }
    size_t sign = at(lexer, 1) == '+' || at(lexer, 1) == '-' ? 1 : 0;
    if ((at(lexer, 0) | 0x20) == 'e' && is_digit(at(lexer, 1 + sign))) {
        is_float = true;
        lexer->at += 2 + sign;
        skip_digits(lexer);
    }
    return is_float;
}

static void number_error(const Lexer *lexer, ErrorCode code, Span span, const char *help)
{
    if (lexer->diags) {
        const char *what = code == ERR_TOO_LARGE ? "this number is too large" : "malformed number";
        Diag *diag = front_error(lexer->diags, code, span, "%s", what);
        diag_help(lexer->diags, diag, "%s", help);
    }
}

static void scan_decimal(Lexer *lexer, size_t start, Token *token)
{
    bool fits = scan_integer(lexer, 10, &token->integer);
    bool is_float = skip_fraction(lexer);
    token->kind = is_float ? TOK_FLOAT : TOK_INT;
    if (lexer->at - start > LONGEST_NUMBER) {
        number_error(lexer, ERR_NUMBER, span_from(lexer, start),
                     "a number has at most 1000 characters");
        return;
    }
    char digits[LONGEST_NUMBER + 16];
    size_t n = 0;
    const char *point = localeconv()->decimal_point;
    size_t point_size = strlen(point) < 8 ? strlen(point) : 1;
    for (size_t i = start; i < lexer->at; i++) {
        char c = lexer->text[i];
        if (c == '.') {
            memcpy(digits + n, point, point_size);
            n += point_size;
        } else if (c != '_') {
            digits[n++] = c;
        }
    }
    digits[n] = 0;
    token->number = strtod(digits, NULL);
    token->number32 = strtof(digits, NULL);
    if (!is_float && !fits) {
        number_error(lexer, ERR_TOO_LARGE, span_from(lexer, start),
                     "an integer is at most 9223372036854775807");
    } else if (is_float && isinf(token->number)) {
        number_error(lexer, ERR_TOO_LARGE, span_from(lexer, start),
                     "the largest f64 is about 1.8e308; write `inf` for infinity");
    }
}

static void scan_number(Lexer *lexer, Token *token)
{
    size_t start = lexer->at;
    char mark = (char)(at(lexer, 1) | 0x20);
    if (at(lexer, 0) == '0' && (mark == 'x' || mark == 'b')) {
        token->kind = TOK_INT;
        lexer->at += 2;
        size_t digits = lexer->at;
        bool fits = scan_integer(lexer, mark == 'x' ? 16 : 2, &token->integer);
        if (lexer->at == digits) {
            number_error(lexer, ERR_NUMBER, span_from(lexer, start), "digits follow 0x and 0b");
        } else if (!fits) {
            number_error(lexer, ERR_TOO_LARGE, span_from(lexer, start),
                         "an integer is at most 9223372036854775807");
        }
        token->number = (double)token->integer;
        token->number32 = (float)token->integer;
    } else {
        scan_decimal(lexer, start, token);
    }
    if (is_letter(at(lexer, 0)) || is_digit(at(lexer, 0))) {
        while (is_letter(at(lexer, 0)) || is_digit(at(lexer, 0))) {
            lexer->at++;
        }
        number_error(lexer, ERR_NUMBER, span_from(lexer, start),
                     "a number does not run into a name");
    }
}

/* ---- the rest ---- */

static TokenKind keyword(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        if (KEYWORDS[i].text[0] == text[0] && strlen(KEYWORDS[i].text) == n &&
            memcmp(KEYWORDS[i].text, text, n) == 0) {
            return KEYWORDS[i].kind;
        }
    }
    return TOK_NAME;
}

static void scan_string(Lexer *lexer, Token *token)
{
    size_t start = lexer->at++;
    token->kind = TOK_STRING;
    while (lexer->at < lexer->n && at(lexer, 0) != '"' && at(lexer, 0) != '\n') {
        lexer->at += at(lexer, 0) == '\\' && at(lexer, 1) != '\n' ? 2 : 1;
    }
    if (lexer->at > lexer->n) {
        lexer->at = lexer->n;
    }
    if (at(lexer, 0) == '"') {
        lexer->at++;
    } else if (lexer->diags) {
        front_error(lexer->diags, ERR_STRING, span_from(lexer, start), "this string does not end");
    }
}

/* The help for characters that editors and other languages use in place of ASCII ones. */
static const char *bad_help(const char *text, size_t n)
{
    static const struct {
        const char *text, *help;
    } LIKE[] = {
        {"!", "a condition is negated by `not`, an array of bool by `~` or `not`"},
        {"'", "text stands in straight double quotes: \"text\""},
        {"\xe2\x80\x9c", "text stands in straight double quotes: \"text\""},
        {"\xe2\x80\x9d", "text stands in straight double quotes: \"text\""},
        {"\xe2\x88\x92", "write `-`"},
        {"\xe2\x80\x93", "write `-`"},
        {"\xc3\x97", "write `*`"},
        {"\xc2\xb7", "write `*`"},
        {"\xe2\x89\xa4", "write `<=`"},
        {"\xe2\x89\xa5", "write `>=`"},
        {"\xe2\x89\xa0", "write `!=`"},
        {"\xe2\x86\x92", "write `->`"},
        {"\xc2\xa0", "this is a space that does not break: write a plain one"},
    };
    for (size_t i = 0; i < sizeof LIKE / sizeof *LIKE; i++) {
        size_t m = strlen(LIKE[i].text);
        if (n >= m && memcmp(text, LIKE[i].text, m) == 0) {
            return LIKE[i].help;
        }
    }
    return "names are made of the letters a to z and A to Z, digits and `_`; comments may hold "
           "anything";
}

static void scan_punctuation(Lexer *lexer, Token *token)
{
    for (size_t i = 0; i < sizeof PUNCTUATION / sizeof *PUNCTUATION; i++) {
        const char *text = PUNCTUATION[i].text;
        size_t n = 0;
        while (text[n] && text[n] == at(lexer, n)) {
            n++;
        }
        if (!text[n]) {
            token->kind = PUNCTUATION[i].kind;
            lexer->at += n;
            return;
        }
    }
    size_t start = lexer->at;
    token->kind = TOK_BAD;
    lexer->at++;
    while (lexer->at < lexer->n && ((unsigned char)at(lexer, 0) >= 0x80 || at(lexer, 0) == 0)) {
        lexer->at++;
    }
    bool utf16 =
        start == 0 && lexer->n > 1 &&
        (memcmp(lexer->text, "\xff\xfe", 2) == 0 || memcmp(lexer->text, "\xfe\xff", 2) == 0);
    if (lexer->diags) {
        Diag *diag = front_error(lexer->diags, ERR_CHARACTER, span_from(lexer, start),
                                 "this character means nothing here");
        diag_help(lexer->diags, diag, "%s",
                  utf16 ? "this is UTF-16: save the file as UTF-8"
                        : bad_help(lexer->text + start, lexer->at - start));
    }
    lexer->at = utf16 ? lexer->n : lexer->at; /* else all characters would be reported */
}

Token lexer_next(Lexer *lexer)
{
    Token token = {.first = skip_space(lexer)};
    size_t start = lexer->at;
    char c = at(lexer, 0);
    if (lexer->at >= lexer->n) {
        token.kind = TOK_END;
        token.first = true;
    } else if (is_digit(c) || (c == '.' && is_digit(at(lexer, 1)))) {
        scan_number(lexer, &token);
    } else if (is_letter(c)) {
        while (is_letter(at(lexer, 0)) || is_digit(at(lexer, 0))) {
            lexer->at++;
        }
        token.kind = keyword(lexer->text + start, lexer->at - start);
    } else if (c == '"') {
        scan_string(lexer, &token);
    } else {
        scan_punctuation(lexer, &token);
    }
    token.span = span_from(lexer, start);
    return token;
}
