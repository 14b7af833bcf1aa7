/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics, of two separate kinds:
 *    diag_error  the user's mistake: a code, a location, both sides, a fix; compilation continues
 *    diag_bug    our mistake: it names the pass and jumps to the error boundary
 *    neither prints: the caller renders the list when it needs text */
#ifndef TESSERA_SUPPORT_DIAG_H
#define TESSERA_SUPPORT_DIAG_H

#include "support/arena.h"
#include "support/text.h"

#include <stdint.h>

/* Half-open byte range of one source. `source` is an index into Diags.sources; spans of made-up
 * code have source -1. */
typedef struct Span {
    int32_t source;
    uint32_t start, end;
} Span;

#define SPAN_NONE ((Span){-1, 0, 0})

typedef struct Source {
    const char *name; /* as the user wrote it: a path, or "<text>" */
    const char *text;
    size_t n;
} Source;

typedef enum Severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

typedef struct DiagLabel {
    Span span;
    const char *text;
} DiagLabel;

/* An edit of the source that a help proposes: `text` instead of the span; an empty span inserts. */
typedef struct DiagFix {
    Span span;
    const char *text;
} DiagFix;

/* What kind of failure ended the work; the CLI's exit code and the API's error code follow. */
typedef enum DiagClass {
    DIAG_SOURCE,      /* the program text, or a size or value it does not allow */
    DIAG_USAGE,       /* an unknown target, option, kernel name */
    DIAG_ENVIRONMENT, /* a driver, a device, a file */
    DIAG_FAULT,       /* the kernel failed while running */
    DIAG_DIFFERENT,   /* answers differ */
    DIAG_INTERNAL,    /* our bug */
} DiagClass;

typedef struct Diag {
    Severity severity;
    DiagClass kind;
    int code; /* E0412 has code 412, W2001 2001; 0: none */
    Span span;
    const char *message;
    struct {
        DiagLabel *items;
        size_t n, cap;
    } labels;                /* further places */
    const char *span_label;  /* next to the caret; may be NULL */
    const char *help, *note; /* may be NULL */
    struct {
        DiagFix *items;
        size_t n, cap;
    } fixes; /* which together do what the help says; none: a person has to */
} Diag;

enum { FIRST_WARNING = 2000 }; /* codes from here on are W…, those below E… */

/* What becomes of warnings. */
typedef struct DiagPolicy {
    const int *allowed; /* codes that are not reported */
    size_t n_allowed;
    bool deny; /* warnings are errors */
} DiagPolicy;

typedef struct Diags {
    Arena *arena;
    struct {
        Source *items;
        size_t n, cap;
    } sources;
    struct {
        Diag *items;
        size_t n, cap;
    } list;
    int errors;         /* of severity error */
    const char *pass;   /* the pass at work, for diag_bug */
    jmp_buf *bug_guard; /* where diag_bug and diag_fatal jump, with value 2 */
    DiagPolicy policy;
} Diags;

void diags_init(Diags *diags, Arena *arena);
/* Keeps a copy of the text. Returns the source's index. */
int diags_add_source(Diags *diags, const char *name, const char *text, size_t n);

/* The returned Diag is valid until the next one is added; use it to add labels and help. */
Diag *diag_error(Diags *diags, int code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diag *diag_warning(Diags *diags, int code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* As diag_error of another kind, with a place or without. */
Diag *diag_failure_at(Diags *diags, DiagClass kind, int code, Span span, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* What is good to know. */
Diag *diag_remark(Diags *diags, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error without a place in a source: usage, environment, … */
Diag *diag_failure(Diags *diags, DiagClass kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_label(Diags *diags, Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_span_label(Diags *diags, Diag *diag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_help(Diags *diags, Diag *diag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(Diags *diags, Diag *diag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a tool may do in the user's stead. */
void diag_fix(Diags *diags, Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Has the same been said of this place? */
bool diag_is_reported(const Diags *diags, int code, Span span);

/* A limit that was met in the middle of the work: an error, and the end of the compilation. */
_Noreturn void diag_fatal(Diags *diags, DiagClass kind, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The end of the compilation, behind an error that it cannot continue after. */
_Noreturn void diag_leave(Diags *diags);
/* Our own bug. Does not return. */
_Noreturn void diag_bug(Diags *diags, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All count from 1. */
typedef struct SourceLoc {
    const char *file; /* NULL: it is in no source */
    int line, column; /* in characters; a tab is one */
    int byte;         /* the column in bytes */
} SourceLoc;
/* Of the span's start; line 0: it is in no source. */
SourceLoc diag_source_loc(const Diags *diags, Span span);
SourceLoc diag_end_place(const Diags *diags, Span span);

/* Renders one diagnostic as rustc does: message, place, source line, caret, labels, help. */
void diag_render(const Diags *diags, const Diag *diag, Text *out);
void diags_render(const Diags *diags, Text *out);
/* "E0412"; "" for none. */
void diag_code_text(int code, char text[8]);
/* One line each: `file:line:column: error[E0412]: message`, and an object of JSON. */
void diag_short(const Diags *diags, const Diag *diag, Text *out);
void diag_json(const Diags *diags, const Diag *diag, Text *out);

#endif
