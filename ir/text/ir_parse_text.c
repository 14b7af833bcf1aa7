/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest level of the parser: characters, words, numbers, quoted text, names of values. */
#include "ir/text/ir_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

_Noreturn void parse_fail(Parser *p, size_t start, const char *what)
{
    uint32_t end = (uint32_t)(p->at > start ? p->at : start + 1);
    diag_error(p->diags, 901, (Span){p->source, (uint32_t)start, end}, "IR text: %s", what);
    longjmp(p->failed, 1);
}

void parse_skip(Parser *p)
{
    while (p->at < p->n) {
        char c = p->text[p->at];
        if (c == ';') {
            while (p->at < p->n && p->text[p->at] != '\n') {
                p->at++;
            }
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            p->at++;
        } else {
            return;
        }
    }
}

char parse_peek(Parser *p)
{
    parse_skip(p);
    return p->at < p->n ? p->text[p->at] : 0;
}

bool parse_take(Parser *p, char c)
{
    if (parse_peek(p) != c) {
        return false;
    }
    p->at++;
    return true;
}

void parse_need(Parser *p, char c)
{
    if (!parse_take(p, c)) {
        parse_fail(p, p->at, arena_printf(p->arena, "expected `%c`", c));
    }
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-' || c == '@';
}

const char *parse_word(Parser *p)
{
    parse_skip(p);
    size_t start = p->at;
    while (p->at < p->n && is_word_char(p->text[p->at])) {
        p->at++;
    }
    return arena_strndup(p->arena, p->text + start, p->at - start);
}

bool parse_take_word(Parser *p, const char *wanted)
{
    parse_skip(p);
    size_t start = p->at;
    if (strcmp(parse_word(p), wanted) == 0) {
        return true;
    }
    p->at = start;
    return false;
}

void parse_need_word(Parser *p, const char *wanted)
{
    if (!parse_take_word(p, wanted)) {
        parse_fail(p, p->at, arena_printf(p->arena, "expected `%s`", wanted));
    }
}

int64_t parse_integer(Parser *p)
{
    parse_skip(p);
    size_t start = p->at;
    const char *digits = parse_word(p);
    char *end;
    errno = 0;
    int64_t value = strtoll(digits, &end, 10);
    if (!digits[0] || *end || errno) {
        parse_fail(p, start, "expected an integer");
    }
    return value;
}

/* ---- numbers ---- */

void parse_number(Parser *p, double *f, int64_t *i)
{
    parse_skip(p);
    size_t start = p->at;
    while (p->at < p->n && (is_word_char(p->text[p->at]) || p->text[p->at] == '+')) {
        p->at++;
    }
    const char *digits = arena_strndup(p->arena, p->text + start, p->at - start);
    char *end;
    *f = strtod(digits, &end);
    if (!digits[0] || *end) {
        parse_fail(p, start, "expected a number");
    }
    *i = strtoll(digits, NULL, 10);
}

int parse_int_list(Parser *p, int64_t *out, int most)
{
    int n = 0;
    parse_need(p, '[');
    while (!parse_take(p, ']')) {
        if (n) {
            parse_need(p, ',');
        }
        if (n == most) {
            parse_fail(p, p->at, "the list is too long");
        }
        out[n++] = parse_integer(p);
    }
    return n;
}

/* ---- quoted text ---- */

static int hex_digit(Parser *p)
{
    char c = p->at < p->n ? p->text[p->at++] : 0;
    if (!isxdigit((unsigned char)c)) {
        parse_fail(p, p->at, "expected two hexadecimal digits after \\x");
    }
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static char escaped(Parser *p)
{
    char c = p->at < p->n ? p->text[p->at++] : 0;
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case '"':
    case '\\': return c;
    case 'x': {
        int high = hex_digit(p), low = hex_digit(p);
        if (high == 0 && low == 0) {
            parse_fail(p, p->at - 1, "a text holds no zero byte");
        }
        return (char)(high * 16 + low);
    }
    default: parse_fail(p, p->at, "no such escape");
    }
}

const char *parse_quoted(Parser *p)
{
    Text out = text_new(p->arena);
    size_t start = p->at;
    parse_need(p, '"');
    for (;;) {
        char c = p->at < p->n ? p->text[p->at++] : '\n';
        if (c == '"') {
            return out.data;
        }
        if (c == '\n' || c == 0) {
            parse_fail(p, start, "a text that does not end on its line");
        }
        text_char(&out, c == '\\' ? escaped(p) : c);
    }
}

/* ---- names ---- */

/* What follows the first `.` is a suffix, which the printer replaces: no name begins with it. */
const char *parse_value_name(Parser *p)
{
    parse_need(p, '%');
    size_t start = p->at;
    const char *name = parse_word(p);
    if (!name[0] || name[0] == '.') {
        parse_fail(p, start, "expected a name after %");
    }
    return name;
}

static Value *lookup(Parser *p, const char *name)
{
    for (size_t i = p->names.n; i-- > 0;) {
        if (strcmp(p->names.items[i]->name, name) == 0) {
            return p->names.items[i];
        }
    }
    return NULL;
}

Value *parse_value(Parser *p)
{
    parse_skip(p);
    size_t start = p->at;
    Value *found = lookup(p, parse_value_name(p));
    if (!found) {
        parse_fail(p, start, "no such value");
    }
    return found;
}

void parse_define(Parser *p, Value *named, const char *name)
{
    named->name = name;
    ARENA_PUSH(p->arena, &p->names, named);
}
