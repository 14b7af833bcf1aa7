/* SPDX-License-Identifier: Apache-2.0 */
/* Collects diagnostics; diag_render.c formats them. */
#include "support/diag.h"

#include <stdlib.h>
#include <string.h>

void diags_init(Diags *diags, Arena *arena)
{
    memset(diags, 0, sizeof *diags);
    diags->arena = arena;
}

int diags_add_source(Diags *diags, const char *name, const char *text, size_t n)
{
    Source source = {arena_strdup(diags->arena, name), arena_strndup(diags->arena, text, n), n};
    ARENA_PUSH(diags->arena, &diags->sources, source);
    return (int)diags->sources.n - 1;
}

static const char *format_text(Diags *diags, const char *format, va_list args)
{
    Text text = text_new(diags->arena);
    text_vprintf(&text, format, args);
    return text.data;
}

static Diag *add(Diags *diags, Severity severity, DiagClass kind, int code, Span span,
                 const char *format, va_list args)
{
    Diag diag = {.severity = severity, .kind = kind, .code = code, .span = span};
    diag.message = format_text(diags, format, args);
    ARENA_PUSH(diags->arena, &diags->list, diag);
    diags->errors += severity == SEVERITY_ERROR;
    return &diags->list.items[diags->list.n - 1];
}

static bool is_allowed(const Diags *diags, int code)
{
    for (size_t i = 0; i < diags->policy.n_allowed; i++) {
        if (diags->policy.allowed[i] == code) {
            return true;
        }
    }
    return false;
}

bool diag_is_reported(const Diags *diags, int code, Span span)
{
    for (size_t i = 0; i < diags->list.n; i++) {
        const Diag *diag = &diags->list.items[i];
        if (diag->code == code && diag->span.source == span.source &&
            diag->span.start == span.start && diag->span.end == span.end) {
            return true;
        }
    }
    return false;
}

Diag *diag_error(Diags *diags, int code, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *diag = add(diags, SEVERITY_ERROR, DIAG_SOURCE, code, span, format, args);
    va_end(args);
    return diag;
}

Diag *diag_warning(Diags *diags, int code, Span span, const char *format, ...)
{
    if (is_allowed(diags, code) || diag_is_reported(diags, code, span)) {
        return ARENA_NEW(diags->arena, Diag); /* which is never shown */
    }
    va_list args;
    va_start(args, format);
    Severity severity = diags->policy.deny ? SEVERITY_ERROR : SEVERITY_WARNING;
    Diag *diag = add(diags, severity, DIAG_SOURCE, code, span, format, args);
    va_end(args);
    return diag;
}

Diag *diag_remark(Diags *diags, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *diag = add(diags, SEVERITY_NOTE, DIAG_SOURCE, 0, span, format, args);
    va_end(args);
    return diag;
}

Diag *diag_failure(Diags *diags, DiagClass kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *diag = add(diags, SEVERITY_ERROR, kind, 0, SPAN_NONE, format, args);
    va_end(args);
    return diag;
}

Diag *diag_failure_at(Diags *diags, DiagClass kind, int code, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *diag = add(diags, SEVERITY_ERROR, kind, code, span, format, args);
    va_end(args);
    return diag;
}

void diag_label(Diags *diags, Diag *diag, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DiagLabel label = {span, format_text(diags, format, args)};
    va_end(args);
    ARENA_PUSH(diags->arena, &diag->labels, label);
}

void diag_span_label(Diags *diags, Diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag->span_label = format_text(diags, format, args);
    va_end(args);
}

void diag_help(Diags *diags, Diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag->help = format_text(diags, format, args);
    va_end(args);
}

void diag_note(Diags *diags, Diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag->note = format_text(diags, format, args);
    va_end(args);
}

void diag_fix(Diags *diags, Diag *diag, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DiagFix fix = {span, format_text(diags, format, args)};
    va_end(args);
    ARENA_PUSH(diags->arena, &diag->fixes, fix);
}

void diag_leave(Diags *diags)
{
    if (diags->bug_guard) {
        longjmp(*diags->bug_guard, 2);
    }
    abort(); /* a caller without a guard is a bug of ours, too */
}

void diag_fatal(Diags *diags, DiagClass kind, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diags, SEVERITY_ERROR, kind, code, SPAN_NONE, format, args);
    va_end(args);
    diag_leave(diags);
}

void diag_bug(Diags *diags, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *diag = add(diags, SEVERITY_ERROR, DIAG_INTERNAL, 0, SPAN_NONE, format, args);
    va_end(args);
    if (diags->pass) {
        diag_note(diags, diag, "in pass `%s`; this is a bug of Tessera, not of your program",
                  diags->pass);
    }
    diag_leave(diags);
}
