/* SPDX-License-Identifier: Apache-2.0 */
/* Formats diagnostics as text, in the manner of rustc:
 *
 *     error[E0301]: cannot find `exq`
 *      --> softmax.tile:3:13
 *       |
 *     3 |     let e = exq(x - m)
 *       |             ^^^   - this is f32[M, N]
 *       |             |
 *       |             no such function
 *       |
 *       = help: did you mean `exp`?
 *
 * Sources may be hostile: control characters and invalid UTF-8 are shown as U+FFFD, and of a very
 * long line only the part around the first mark is shown. */
#include "support/diag.h"
#include "support/unicode.h"

#include <string.h>

enum { LONGEST_LINE = 240, CONTEXT_BEFORE = 80, MAX_MARKS = 16 };

static int text_width(const char *text, size_t n)
{
    int width = 0;
    for (size_t at = 0; at < n;) {
        Char c = char_at(text + at, n - at);
        width += char_width(c.code);
        at += (size_t)c.bytes;
    }
    return width;
}

static void add_shown(Text *out, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        Char c = char_at(text + at, n - at);
        if (c.code == '\t') {
            text_repeat(out, ' ', TAB_WIDTH);
        } else if (c.code == 0xFFFD || char_is_control(c.code)) {
            text_add(out, "\xEF\xBF\xBD");
        } else {
            text_add_n(out, text + at, (size_t)c.bytes);
        }
        at += (size_t)c.bytes;
    }
}

/* ---- places ---- */

typedef struct LineAt {
    size_t start, end; /* bytes, without the line's end */
    int number;
} LineAt;

static const Source *source_of(const Diags *diags, Span span)
{
    bool known = span.source >= 0 && (size_t)span.source < diags->sources.n;
    return known ? &diags->sources.items[span.source] : NULL;
}

static LineAt line_at(const Source *source, size_t offset)
{
    LineAt line = {.number = 1, .start = text_mark(source->text, source->n)};
    offset = offset > source->n ? source->n : offset;
    const char *text = source->text;
    const char *newline = memchr(text, '\n', offset);
    while (newline) {
        line.start = (size_t)(newline - text) + 1;
        line.number++;
        newline = memchr(newline + 1, '\n', offset - line.start);
    }
    newline = memchr(text + offset, '\n', source->n - offset);
    line.end = newline ? (size_t)(newline - text) : source->n;
    if (line.end > line.start && text[line.end - 1] == '\r') {
        line.end--;
    }
    return line;
}

static size_t clamp(size_t value, size_t low, size_t high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}

static int characters(const char *text, size_t n)
{
    int count = 0;
    for (size_t at = 0; at < n; count++) {
        at += (size_t)char_at(text + at, n - at).bytes;
    }
    return count;
}

static SourceLoc place_of(const Source *source, size_t offset)
{
    if (!source) {
        return (SourceLoc){0};
    }
    LineAt line = line_at(source, offset);
    size_t before = clamp(offset, line.start, line.end) - line.start;
    return (SourceLoc){source->name, line.number, characters(source->text + line.start, before) + 1,
                       (int)before + 1};
}

SourceLoc diag_source_loc(const Diags *diags, Span span)
{
    return place_of(source_of(diags, span), span.start);
}

SourceLoc diag_end_place(const Diags *diags, Span span)
{
    return place_of(source_of(diags, span), span.end > span.start ? span.end : span.start);
}

/* ---- marks under one line ---- */

typedef struct Mark {
    Span span;
    const char *text; /* may be NULL */
    bool primary;
    LineAt line;
    int from, to; /* columns from 0, half open; relative to the part that is shown */
} Mark;

typedef struct Marks {
    Mark items[MAX_MARKS];
    int n;
} Marks;

/* A span of several lines is marked on its first and on its last one, which has the text. */
static void add_mark(Marks *marks, const Diags *diags, Span span, const char *text, bool primary)
{
    const Source *source = source_of(diags, span);
    if (!source || marks->n + 2 > MAX_MARKS) {
        return;
    }
    LineAt first = line_at(source, span.start);
    LineAt last = span.end > span.start ? line_at(source, span.end - 1) : first;
    if (last.number > first.number) {
        Span head = {span.source, span.start, (uint32_t)first.end};
        marks->items[marks->n++] = (Mark){head, NULL, primary, first, 0, 0};
        span.start = (uint32_t)last.start;
        while (span.start + 1 < span.end && strchr(" \t", source->text[span.start])) {
            span.start++;
        }
    }
    marks->items[marks->n++] = (Mark){span, text, primary, last, 0, 0};
}

/* Same source first, then by line, then from right to left. */
static bool mark_before(const Mark *a, const Mark *b, int32_t first_source)
{
    if (a->span.source != b->span.source) {
        return a->span.source == first_source ||
               (b->span.source != first_source && a->span.source < b->span.source);
    }
    if (a->line.number != b->line.number) {
        return a->line.number < b->line.number;
    }
    return a->span.start > b->span.start;
}

static Marks collect_marks(const Diags *diags, const Diag *diag)
{
    Marks marks = {.n = 0};
    add_mark(&marks, diags, diag->span, diag->span_label, true);
    for (size_t i = 0; i < diag->labels.n; i++) {
        add_mark(&marks, diags, diag->labels.items[i].span, diag->labels.items[i].text, false);
    }
    for (int i = 1; i < marks.n; i++) {
        Mark moving = marks.items[i];
        int at = i;
        while (at > 0 && mark_before(&moving, &marks.items[at - 1], diag->span.source)) {
            marks.items[at] = marks.items[at - 1];
            at--;
        }
        marks.items[at] = moving;
    }
    return marks;
}

static void gutter(Text *out, int width, int number)
{
    if (number > 0) {
        text_printf(out, "%*d | ", width, number);
    } else {
        text_printf(out, "%*s | ", width, "");
    }
}

static void end_line(Text *out)
{
    while (out->n > 0 && out->data[out->n - 1] == ' ') {
        out->n--;
    }
    text_char(out, '\n');
}

/* Which bytes of a line are shown: all of a short one, else what is around `focus`. */
static LineAt shown_part(const Source *source, LineAt line, size_t focus)
{
    if (line.end - line.start <= LONGEST_LINE) {
        return line;
    }
    focus = clamp(focus, line.start, line.end);
    size_t start = focus - line.start > CONTEXT_BEFORE ? focus - CONTEXT_BEFORE : line.start;
    size_t end = line.end - start > LONGEST_LINE ? start + LONGEST_LINE : line.end;
    while (start > line.start && (source->text[start] & 0xC0) == 0x80) {
        start--;
    }
    while (end < line.end && (source->text[end] & 0xC0) == 0x80) {
        end++;
    }
    return (LineAt){start, end, line.number};
}

/* `^^^  ---` under the line; carets win where marks overlap. */
static int add_underlines(Text *out, const Mark *marks, int n)
{
    int width = 0;
    for (int i = 0; i < n; i++) {
        width = marks[i].to > width ? marks[i].to : width;
    }
    size_t base = out->n;
    text_repeat(out, ' ', width);
    for (int primary = 0; primary <= 1; primary++) {
        for (int i = 0; i < n; i++) {
            if (marks[i].primary == (primary == 1)) {
                memset(out->data + base + marks[i].from, primary ? '^' : '-',
                       (size_t)(marks[i].to - marks[i].from));
            }
        }
    }
    return width;
}

/* One row of `|` at the start of each mark in marks[from..n) that has a text; returns its width. */
static int add_bars(Text *out, const Mark *marks, int from, int n)
{
    int width = 0;
    for (int i = n - 1; i >= from; i--) {
        if (marks[i].text && marks[i].from >= width) {
            text_repeat(out, ' ', marks[i].from - width);
            text_char(out, '|');
            width = marks[i].from + 1;
        }
    }
    return width;
}

/* Marks go from right to left: the rightmost one's text stands next to it, if nothing is in the
 * way. */
static void render_marks(Text *out, int margin, const Mark *marks, int n)
{
    gutter(out, margin, 0);
    int width = add_underlines(out, marks, n);
    int hanging = 0;
    if (marks[0].text && marks[0].to >= width) {
        text_printf(out, " %s", marks[0].text);
        hanging = 1;
    }
    end_line(out);
    bool bars = false;
    for (int i = hanging; i < n; i++) {
        if (!marks[i].text) {
            continue;
        }
        if (!bars) {
            gutter(out, margin, 0);
            add_bars(out, marks, i, n);
            end_line(out);
            bars = true;
        }
        gutter(out, margin, 0);
        int at = add_bars(out, marks, i + 1, n);
        text_repeat(out, ' ', marks[i].from > at ? marks[i].from - at : at > 0);
        text_add(out, marks[i].text);
        end_line(out);
    }
}

static void render_line(Text *out, const Source *source, int margin, Mark *marks, int n)
{
    LineAt line = marks[0].line;
    LineAt part = shown_part(source, line, marks[n - 1].span.start);
    bool cut = part.start > line.start;
    gutter(out, margin, line.number);
    if (cut) {
        text_add(out, "...");
    }
    add_shown(out, source->text + part.start, part.end - part.start);
    if (part.end < line.end) {
        text_add(out, "...");
    }
    end_line(out);
    for (int i = 0; i < n; i++) {
        Mark *mark = &marks[i];
        size_t start = clamp(mark->span.start, part.start, part.end);
        size_t end = clamp(mark->span.end, start, part.end);
        mark->from = (cut ? 3 : 0) + text_width(source->text + part.start, start - part.start);
        mark->to = mark->from + text_width(source->text + start, end - start);
        if (mark->to == mark->from) {
            mark->to++;
        }
    }
    render_marks(out, margin, marks, n);
}

/* ---- the whole ---- */

static int margin_of(const Marks *marks)
{
    int most = 1, digits = 1;
    for (int i = 0; i < marks->n; i++) {
        most = marks->items[i].line.number > most ? marks->items[i].line.number : most;
    }
    for (; most >= 10; most /= 10) {
        digits++;
    }
    return digits;
}

static void render_place(Text *out, const Diags *diags, Span span, int margin, const char *arrow)
{
    SourceLoc place = diag_source_loc(diags, span);
    text_printf(out, "%*s%s ", margin, "", arrow);
    add_shown(out, place.file, strlen(place.file));
    text_printf(out, ":%d:%d\n", place.line, place.column);
    gutter(out, margin, 0);
    end_line(out);
}

static void render_sources(const Diags *diags, Span span, Marks *marks, int margin, Text *out)
{
    render_place(out, diags, span, margin, "-->");
    for (int i = 0; i < marks->n;) {
        Mark *mark = &marks->items[i];
        int n = 1;
        while (i + n < marks->n && mark[n].span.source == mark->span.source &&
               mark[n].line.number == mark->line.number) {
            n++;
        }
        bool same = i > 0 && mark[-1].span.source == mark->span.source;
        if (i > 0 && !same) {
            render_place(out, diags, mark->span, margin, ":::");
        } else if (same && mark[-1].line.number + 1 < mark->line.number) {
            text_add(out, "...\n");
        }
        render_line(out, source_of(diags, mark->span), margin, mark, n);
        i += n;
    }
}

static void render_advice(Text *out, int margin, const char *kind, const char *advice)
{
    if (!advice) {
        return;
    }
    text_printf(out, "%*s = %s: ", margin, "", kind);
    const char *line = advice;
    for (const char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
        text_add_n(out, line, (size_t)(end - line) + 1);
        text_repeat(out, ' ', margin + 5 + (int)strlen(kind));
        line = end + 1;
    }
    text_add(out, line);
    text_char(out, '\n');
}

static void render_head(const Diag *diag, Text *out)
{
    static const char *const names[] = {"error", "warning", "note"};
    const char *name = names[diag->severity];
    if (diag->kind == DIAG_INTERNAL) {
        name = "internal error";
    }
    text_add(out, name);
    if (diag->code) {
        char code[8];
        diag_code_text(diag->code, code);
        text_printf(out, "[%s]", code);
    }
    text_add(out, ": ");
    text_add(out, diag->message);
    text_char(out, '\n');
}

void diag_render(const Diags *diags, const Diag *diag, Text *out)
{
    Marks marks = collect_marks(diags, diag);
    int margin = margin_of(&marks);
    render_head(diag, out);
    if (source_of(diags, diag->span)) {
        render_sources(diags, diag->span, &marks, margin, out);
        if (diag->help || diag->note) {
            gutter(out, margin, 0);
            end_line(out);
        }
    }
    render_advice(out, margin, "help", diag->help);
    render_advice(out, margin, "note", diag->note);
}

void diags_render(const Diags *diags, Text *out)
{
    for (size_t i = 0; i < diags->list.n; i++) {
        if (i > 0) {
            text_char(out, '\n');
        }
        diag_render(diags, &diags->list.items[i], out);
    }
}
