/* SPDX-License-Identifier: Apache-2.0 */
/* The formatter keeps line breaks as the author set them, both between and within statements. It
 * changes only the space between tokens, the indentation and the number of empty lines. Blocks are
 * indented by four, and so are the continuation lines of a statement, however deep in brackets
 * they are. A comment behind code keeps its column if it fits, so that columns of comments stay
 * aligned. */
#include "frontend/syntax/formatter.h"

#include "frontend/syntax/ast.h"
#include "frontend/syntax/formatter_spacing.h"

#include <string.h>

enum { STEP = 4, GAP = 2 };

typedef struct Level {
    TokenKind kind;
    int indent; /* of the statement that opened it */
} Level;

typedef struct Formatter {
    Arena *arena;
    const Source *source;
    Text *out;
    size_t line;   /* where the current line begins in `out` */
    int statement; /* indent of the current statement */
    Spacer spacer;
    struct {
        Level *items;
        size_t n, cap;
    } levels;
    bool opened; /* only `{` precedes: no empty line follows */
} Formatter;

static TokenKind inside_of(const Formatter *f)
{
    return f->levels.n ? f->levels.items[f->levels.n - 1].kind : TOK_END;
}

static int level_indent(const Formatter *f)
{
    return f->levels.n ? f->levels.items[f->levels.n - 1].indent : -STEP;
}

/* ---- where a statement continues ---- */

static bool leaves_open(TokenKind kind)
{
    switch (kind) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_STRING:
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_LBRACE:
    case TOK_RBRACE:
    case TOK_SEMI:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE:
    case TOK_BREAK:
    case TOK_CONTINUE:
    case TOK_RETURN:
    case TOK_END: return false;
    default: return true;
    }
}

static bool begins_nothing(const Formatter *f, Token token)
{
    switch (token.kind) {
    case TOK_NAME: {
        const char *text = f->source->text + token.span.start;
        size_t n = token.span.end - token.span.start;
        return n == 5 && memcmp(text, "where", n) == 0 && text[5] != '(';
    }
    case TOK_ELSE: return f->spacer.before != TOK_RBRACE;
    case TOK_ARROW:
    case TOK_BY:
    case TOK_IN:
    case TOK_AND:
    case TOK_OR:
    case TOK_DOT: return true;
    default: return token.kind >= TOK_EQ && token.kind <= TOK_CARET;
    }
}

static int indent_of(Formatter *f, Token token)
{
    bool closing =
        token.kind == TOK_RPAREN || token.kind == TOK_RBRACKET || token.kind == TOK_RBRACE;
    if (closing) {
        return f->levels.n ? level_indent(f) : 0;
    }
    int indent = level_indent(f) + STEP;
    if (inside_of(f) == TOK_LPAREN || inside_of(f) == TOK_LBRACKET) {
        return indent;
    }
    bool ended = f->spacer.before == TOK_LBRACE || f->spacer.before == TOK_RBRACE ||
                 f->spacer.before == TOK_SEMI || f->spacer.before == TOK_END;
    bool goes_on = !ended && token.kind != TOK_LBRACE &&
                   (leaves_open(f->spacer.before) || begins_nothing(f, token));
    f->statement = goes_on ? f->statement : indent;
    return goes_on ? indent + STEP : indent;
}

/* ---- lines ---- */

static void end_line(Formatter *f)
{
    if (f->out->n > f->line) {
        text_char(f->out, '\n');
    }
    f->line = f->out->n;
}

static void begin_line(Formatter *f, int indent, bool empty_before)
{
    end_line(f);
    if (empty_before && f->out->n > 0 && !f->opened) {
        text_char(f->out, '\n');
    }
    f->line = f->out->n;
    f->opened = false;
    for (int i = 0; i < indent; i++) {
        text_char(f->out, ' ');
    }
}

/* Columns count characters; tabs as in diag_source_loc. */
static int columns(const char *from, const char *to)
{
    int n = 0;
    for (; from < to; from++) {
        n = *from == '\t' ? (n / STEP + 1) * STEP : n + ((*from & 0xc0) != 0x80);
    }
    return n;
}

static size_t comment_length(const char *comment, const char *end)
{
    const char *stop = memchr(comment, '\n', (size_t)(end - comment));
    size_t n = stop ? (size_t)(stop - comment) : (size_t)(end - comment);
    while (n > 0 && (comment[n - 1] == ' ' || comment[n - 1] == '\r' || comment[n - 1] == '\t')) {
        n--;
    }
    return n;
}

/* The comments before a token; returns how many line ends precede the token itself. */
static int emit_comments(Formatter *f, uint32_t from, uint32_t to)
{
    const char *end = f->source->text + to;
    int lines = from == 0 ? 1 : 0;
    for (const char *at = f->source->text + from; at < end; at++) {
        if (*at == '\n') {
            lines++;
        } else if (*at == '#') {
            size_t n = comment_length(at, end);
            if (lines == 0) {
                const char *begin = at;
                while (begin > f->source->text && begin[-1] != '\n') {
                    begin--;
                }
                int column = columns(begin, at);
                int width = columns(f->out->data + f->line, f->out->data + f->out->n);
                for (int i = width; i < column || i < width + GAP; i++) {
                    text_char(f->out, ' ');
                }
                text_add_n(f->out, at, n);
            } else {
                begin_line(f, level_indent(f) + STEP, lines > 1 && from > 0);
                text_add_n(f->out, at, n);
            }
            lines = 0;
            from = 1; /* the output has begun: no longer the start of the file */
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            at = stop ? stop - 1 : end - 1;
        }
    }
    return lines;
}

/* ---- tokens ---- */

/* True if two tokens would be read as different ones without a space between them. */
static bool must_part(const Formatter *f, Span last, Span span)
{
    Text both = text_new(f->arena);
    size_t before = last.end - last.start;
    text_add_n(&both, f->source->text + last.start, before);
    text_add_n(&both, f->source->text + span.start, span.end - span.start);
    Lexer lexer = {.text = both.data, .n = both.n};
    return lexer_next(&lexer).span.end != before || lexer_next(&lexer).span.end != both.n;
}

static void emit_token(Formatter *f, Token token, Span last, uint32_t next_start)
{
    int lines = emit_comments(f, last.end, token.span.start);
    if (token.kind == TOK_END) {
        end_line(f);
        return;
    }
    bool spaced = token.first || last.end < token.span.start;
    if (token.first) {
        begin_line(f, indent_of(f, token), lines > 1 && token.kind != TOK_RBRACE);
    }
    bool space = space_before(&f->spacer, token, inside_of(f), spaced, token.span.end < next_start);
    if (!token.first && (space || must_part(f, last, token.span))) {
        text_char(f->out, ' ');
    }
    text_add_n(f->out, f->source->text + token.span.start, token.span.end - token.span.start);
    switch (token.kind) {
    case TOK_LBRACE:
    case TOK_LPAREN:
    case TOK_LBRACKET: {
        Level level = {token.kind, f->statement};
        ARENA_PUSH(f->arena, &f->levels, level);
        f->opened = token.kind == TOK_LBRACE;
        break;
    }
    case TOK_RBRACE:
    case TOK_RPAREN:
    case TOK_RBRACKET:
        f->levels.n -= f->levels.n > 0;
        f->opened = false;
        break;
    default: f->opened = false;
    }
}

static void format(Formatter *f, Diags *diags, int source)
{
    Lexer lexer = lexer_new(diags, source);
    lexer.diags = NULL;
    Token token = lexer_next(&lexer);
    for (Span last = {0};; last = token.span, token = lexer_next(&lexer)) {
        Lexer ahead = lexer;
        emit_token(f, token, last, lexer_next(&ahead).span.start);
        if (token.kind == TOK_END) {
            return;
        }
    }
}

/* ---- that nothing was lost ---- */

static bool same_token(const char *a, Token x, const char *b, Token y)
{
    size_t n = x.span.end - x.span.start;
    return x.kind == y.kind && x.first == y.first && n == y.span.end - y.span.start &&
           memcmp(a + x.span.start, b + y.span.start, n) == 0;
}

/* Counts the characters of a text other than blanks and line ends. */
static size_t count_ink(const char *text, size_t n)
{
    size_t ink = 0;
    for (size_t i = 0; i < n; i++) {
        ink += text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n';
    }
    return ink;
}

static bool means_the_same(const Source *source, const Text *out)
{
    Lexer old = {.text = source->text, .n = source->n}, new = {.text = out->data, .n = out->n};
    for (;;) {
        Token x = lexer_next(&old), y = lexer_next(&new);
        if (!same_token(source->text, x, out->data, y)) {
            return false;
        }
        if (x.kind == TOK_END) {
            size_t mark = text_mark(source->text, source->n);
            return count_ink(source->text, source->n) == count_ink(out->data, out->n) + mark;
        }
    }
}

bool frontend_format(Arena *arena, Diags *diags, int source, Text *out)
{
    Module *module = ARENA_NEW(arena, Module);
    int errors = diags->errors;
    /* Sources of the standard library are allowed, too: names of their functions may contain a
     * dot. */
    *module = (Module){.arena = arena, .diags = diags, .source = source, .library = true};
    parse_module(module);
    if (diags->errors > errors) {
        return false;
    }
    Formatter f = {.arena = arena, .source = &diags->sources.items[source], .out = out};
    f.spacer.before = TOK_END;
    format(&f, diags, source);
    if (!means_the_same(f.source, out)) {
        diag_bug(diags, "formatting %s changes what it says", f.source->name);
    }
    return true;
}
