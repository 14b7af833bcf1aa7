/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a page, and how the terminal shows them. The Markdown of pages has headings `#`,
 * paragraphs, items `- `, code between lines of three backquotes, `code` and *emphasis*. */
#include "cli/learn/page.h"
#include "cli/session_memory.h"
#include "cli/terminal.h"

#include <string.h>

/* ---- blocks ---- */

static size_t line_length(const char *at)
{
    return strcspn(at, "\n");
}

static const char *line_after(const char *at)
{
    size_t n = line_length(at);
    return at + n + (at[n] == '\n');
}

static bool begins_block(const char *at)
{
    return *at == '#' || *at == '\n' || *at == '\0' || strncmp(at, "```", 3) == 0 ||
           strncmp(at, "- ", 2) == 0;
}

static void read_code(const char **at, PageBlock *block)
{
    const char *from = line_after(*at), *end = from;
    while (*end && strncmp(end, "```", 3) != 0) {
        end = line_after(end);
    }
    block->kind = PAGE_CODE;
    block->text = session_text(from, (size_t)(end - from));
    *at = line_after(end);
}

bool page_next(const char **at, PageBlock *block)
{
    *at += strspn(*at, "\n");
    if (!**at) {
        return false;
    }
    if (strncmp(*at, "```", 3) == 0) {
        read_code(at, block);
        return true;
    }
    bool heading = **at == '#', item = strncmp(*at, "- ", 2) == 0;
    if (heading) {
        block->kind = PAGE_HEADING;
        *at += strspn(*at, "# ");
    } else if (item) {
        block->kind = PAGE_ITEM;
        *at += 2;
    } else {
        block->kind = PAGE_PARAGRAPH;
    }

    block->text = session_alloc(strlen(*at) + 1);
    size_t n = 0;
    do {
        const char *from = *at + strspn(*at, " ");
        size_t length = line_length(from);
        n += (size_t)sprintf(block->text + n, "%s%.*s", n ? " " : "", (int)length, from);
        *at = line_after(from);
    } while (!heading && !begins_block(*at));
    return true;
}

bool page_span(const char **at, char *mark, const char **text, size_t *n)
{
    if (!**at) {
        return false;
    }
    char sign = **at;
    const char *end = NULL;
    if (sign == '`' || (sign == '*' && (*at)[1] != ' ')) {
        end = strchr(*at + 1, sign);
    }
    if (end) {
        *mark = sign;
        *text = *at + 1;
        *n = (size_t)(end - *text);
        *at = end + 1;
        return true;
    }
    *mark = ' ';
    *text = *at;
    *n = 1 + strcspn(*at + 1, "`*");
    *at += *n;
    return true;
}

/* ---- the terminal ---- */

typedef struct Wrapper {
    FILE *to;
    int width, indent, column;
    char word[512]; /* what is not yet printed, with the sequences of styles */
    size_t n;
    int columns; /* of the word */
} Wrapper;

static void end_word(Wrapper *w)
{
    if (w->columns == 0) {
        return;
    }
    if (w->column > w->indent && w->column + 1 + w->columns > w->width) {
        fprintf(w->to, "\n%*s", w->indent, "");
        w->column = w->indent;
    } else if (w->column > w->indent) {
        fputc(' ', w->to);
        w->column++;
    }
    fwrite(w->word, 1, w->n, w->to);
    w->column += w->columns;
    w->n = 0;
    w->columns = 0;
}

static void put_bytes(Wrapper *w, const char *text)
{
    size_t n = strlen(text);
    if (w->n + n < sizeof w->word) {
        memcpy(w->word + w->n, text, n);
        w->n += n;
    }
}

/* Continuation bytes of UTF-8 take no column. */
static void put_char(Wrapper *w, char c)
{
    char text[2] = {c, '\0'};
    if (w->n + 16 > sizeof w->word && ((unsigned char)c & 0xc0) != 0x80) {
        end_word(w);
    }
    put_bytes(w, text);
    w->columns += ((unsigned char)c & 0xc0) != 0x80;
}

static void wrap(Wrapper *w, const char *text)
{
    char mark;
    const char *part;
    size_t n;
    while (page_span(&text, &mark, &part, &n)) {
        bool code = mark == '`', plain = mark == ' ';
        const char *marked = style_of(w->to, code ? STYLE_CODE : STYLE_BOLD);
        const char *begin = plain ? "" : marked;
        bool quoted = code && !*begin; /* without colour the marks stay */
        put_bytes(w, begin);
        if (quoted) {
            put_char(w, '`');
        }
        for (size_t i = 0; i < n; i++) {
            if (part[i] == ' ') {
                put_bytes(w, *begin ? style_of(w->to, STYLE_NONE) : "");
                end_word(w);
                put_bytes(w, begin);
            } else {
                put_char(w, part[i]);
            }
        }
        if (quoted) {
            put_char(w, '`');
        }
        put_bytes(w, *begin ? style_of(w->to, STYLE_NONE) : "");
    }
    end_word(w);
    fputc('\n', w->to);
}

static void show_code(FILE *to, const char *text)
{
    for (; *text; text = line_after(text)) {
        size_t n = line_length(text);
        fprintf(to, "%s%s%.*s%s\n", n ? "    " : "", style_of(to, STYLE_CODE), (int)n, text,
                style_of(to, STYLE_NONE));
    }
}

void page_show(FILE *to, const char *text)
{
    PageBlock block;
    PageBlockKind before = PAGE_HEADING;
    for (bool first = true; page_next(&text, &block); first = false) {
        Wrapper w = {.to = to, .width = terminal_columns()};
        if (!first && !(before == PAGE_ITEM && block.kind == PAGE_ITEM)) {
            fputc('\n', to);
        }
        before = block.kind;
        switch (block.kind) {
        case PAGE_CODE: show_code(to, block.text); break;
        case PAGE_HEADING:
            fputs(style_of(to, STYLE_BOLD), to);
            wrap(&w, block.text);
            fputs(style_of(to, STYLE_NONE), to);
            break;
        case PAGE_ITEM:
            fputs("- ", to);
            w.indent = w.column = 2;
            wrap(&w, block.text);
            break;
        case PAGE_PARAGRAPH: wrap(&w, block.text); break;
        }
    }
}

enum { LABEL_COLUMNS = 9 };

void page_line(FILE *to, Style style, const char *label, const char *text)
{
    Wrapper w = {
        .to = to, .width = terminal_columns(), .indent = LABEL_COLUMNS, .column = LABEL_COLUMNS};
    fprintf(to, "%s%-*s%s", style_of(to, style), LABEL_COLUMNS, label, style_of(to, STYLE_NONE));
    wrap(&w, text);
}
