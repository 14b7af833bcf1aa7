/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics for programs: one line each, or one JSON object per line (RFC 8259). */
#include "support/diag.h"

#include <stdio.h>
#include <string.h>

void diag_code_text(int code, char text[8])
{
    text[0] = 0;
    if (code > 0 && code < 10000) {
        snprintf(text, 8, "%c%04d", code >= FIRST_WARNING ? 'W' : 'E', code);
    }
}

static const char *severity_name(const Diag *diag)
{
    static const char *const names[] = {"error", "warning", "note"};
    return diag->kind == DIAG_INTERNAL ? "internal error" : names[diag->severity];
}

/* ---- one line ---- */

/* A line's end inside of the text would begin another diagnostic. */
static void add_flat(Text *out, const char *text)
{
    for (; *text; text++) {
        text_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
    }
}

void diag_short(const Diags *diags, const Diag *diag, Text *out)
{
    SourceLoc place = diag_source_loc(diags, diag->span);
    char code[8];
    diag_code_text(diag->code, code);
    if (place.file) {
        add_flat(out, place.file);
        text_printf(out, ":%d:%d: ", place.line, place.column);
    }
    text_add(out, severity_name(diag));
    if (*code) {
        text_printf(out, "[%s]", code);
    }
    text_add(out, ": ");
    add_flat(out, diag->message);
    if (diag->span_label) {
        text_add(out, ": ");
        add_flat(out, diag->span_label);
    }
    text_char(out, '\n');
}

/* ---- JSON ---- */

static void add_text(Text *out, const char *key, const char *text)
{
    text_printf(out, "\"%s\":", key);
    if (!text) {
        text_add(out, "null");
        return;
    }
    text_json(out, text, strlen(text));
}

/* The members of a place, without braces. */
static void add_place(const Diags *diags, Span span, Text *out)
{
    SourceLoc from = diag_source_loc(diags, span), to = diag_end_place(diags, span);
    if (!from.file) {
        text_add(out, "\"file\":null");
        return;
    }
    add_text(out, "file", from.file);
    text_printf(out, ",\"line\":%d,\"column\":%d,\"byte_column\":%d", from.line, from.column,
                from.byte);
    text_printf(out, ",\"end_line\":%d,\"end_column\":%d,\"end_byte_column\":%d", to.line,
                to.column, to.byte);
    text_printf(out, ",\"start\":%u,\"end\":%u", span.start, span.end);
}

void diag_json(const Diags *diags, const Diag *diag, Text *out)
{
    char code[8];
    diag_code_text(diag->code, code);
    text_char(out, '{');
    add_text(out, "severity", severity_name(diag));
    text_char(out, ',');
    add_text(out, "code", *code ? code : NULL);
    text_char(out, ',');
    add_text(out, "message", diag->message);
    text_char(out, ',');
    add_place(diags, diag->span, out);
    text_char(out, ',');
    add_text(out, "label", diag->span_label);
    text_add(out, ",\"labels\":[");
    for (size_t i = 0; i < diag->labels.n; i++) {
        const DiagLabel *label = &diag->labels.items[i];
        text_add(out, i > 0 ? ",{" : "{");
        add_text(out, "text", label->text);
        text_char(out, ',');
        add_place(diags, label->span, out);
        text_char(out, '}');
    }
    text_char(out, ']');
    text_add(out, ",\"notes\":[");
    if (diag->note) {
        text_json(out, diag->note, strlen(diag->note));
    }
    text_char(out, ']');
    text_add(out, ",\"helps\":[");
    if (diag->help) {
        text_char(out, '{');
        add_text(out, "text", diag->help);
        text_add(out, ",\"edits\":[");
        for (size_t i = 0; i < diag->fixes.n; i++) {
            const DiagFix *fix = &diag->fixes.items[i];
            text_add(out, i > 0 ? ",{" : "{");
            add_text(out, "replacement", fix->text);
            text_char(out, ',');
            add_place(diags, fix->span, out);
            text_char(out, '}');
        }
        text_add(out, "]}");
    }
    text_char(out, ']');
    text_add(out, "}\n");
}
