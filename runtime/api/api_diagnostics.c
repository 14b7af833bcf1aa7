/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics in the public interface: copies that the context keeps until the next call, rendered
 * in each form. */
#include "runtime/api/api_objects.h"

#include "frontend/messages/frontend_errors.h"

#include <string.h>

static TesseraSpan span_of(Arena *arena, const Diags *diags, Span span)
{
    SourceLoc from = diag_source_loc(diags, span), to = diag_end_place(diags, span);
    if (!from.file) {
        return (TesseraSpan){0};
    }
    return (TesseraSpan){
        .file = arena_strdup(arena, from.file),
        .line = from.line,
        .column = from.column,
        .byte_column = from.byte,
        .end_line = to.line,
        .end_column = to.column,
        .end_byte_column = to.byte,
        .begin = span.start,
        .end = span.end,
    };
}

static const char *copy(Arena *arena, const char *text)
{
    return text ? arena_strdup(arena, text) : NULL;
}

static const char *rendered(Arena *arena, const Diags *diags, const Diag *diag,
                            void (*render)(const Diags *, const Diag *, Text *))
{
    Text text = text_new(arena);
    render(diags, diag, &text);
    return text.data;
}

static void copy_places(Arena *arena, const Diags *diags, const Diag *diag, TesseraDiagnostic *out)
{
    TesseraLabel *labels = ARENA_ARRAY(arena, TesseraLabel, diag->labels.n);
    TesseraEdit *edits = ARENA_ARRAY(arena, TesseraEdit, diag->fixes.n);
    for (size_t i = 0; i < diag->labels.n; i++) {
        const DiagLabel *label = &diag->labels.items[i];
        labels[i] = (TesseraLabel){span_of(arena, diags, label->span), copy(arena, label->text)};
    }
    for (size_t i = 0; i < diag->fixes.n; i++) {
        const DiagFix *fix = &diag->fixes.items[i];
        edits[i] = (TesseraEdit){span_of(arena, diags, fix->span), copy(arena, fix->text)};
    }
    out->labels = labels;
    out->n_labels = diag->labels.n;
    out->edits = edits;
    out->n_edits = diag->fixes.n;
}

static void copy_diag(Arena *arena, const Diags *diags, const Diag *diag, TesseraDiagnostic *out)
{
    static const TesseraSeverity severities[] = {
        [SEVERITY_ERROR] = TESSERA_IS_ERROR,
        [SEVERITY_WARNING] = TESSERA_IS_WARNING,
        [SEVERITY_NOTE] = TESSERA_IS_NOTE,
    };
    *out = (TesseraDiagnostic){
        .severity = severities[diag->severity],
        .message = copy(arena, diag->message),
        .span = span_of(arena, diags, diag->span),
        .label = copy(arena, diag->span_label),
        .note = copy(arena, diag->note),
        .help = copy(arena, diag->help),
        .human = rendered(arena, diags, diag, diag_render),
        .brief = rendered(arena, diags, diag, diag_short),
        .json = rendered(arena, diags, diag, diag_json),
    };
    diag_code_text(diag->code, out->code);
    copy_places(arena, diags, diag, out);
}

/* What was told before is gone, also when this fails. */
void context_store_diagnostics(TesseraContext *context, const Diags *diags)
{
    jmp_buf guard;
    Arena *arena = &context->compiler->told;
    context->compiler->diagnostics = NULL;
    context->compiler->n_diagnostics = 0;
    arena_free(arena);
    arena_init(arena, context->allocator);
    arena->guard = &guard;
    if (diags->list.n > 0 && setjmp(guard) == 0) {
        context->compiler->diagnostics = ARENA_ARRAY(arena, TesseraDiagnostic, diags->list.n);
        for (size_t i = 0; i < diags->list.n; i++) {
            copy_diag(arena, diags, &diags->list.items[i], &context->compiler->diagnostics[i]);
        }
        context->compiler->n_diagnostics = diags->list.n;
    }
    arena->guard = NULL;
}

static DiagClass class_of(TesseraStatus status)
{
    for (int kind = DIAG_SOURCE; kind < DIAG_INTERNAL; kind++) {
        if (status_of((DiagClass)kind) == status) {
            return (DiagClass)kind;
        }
    }
    return DIAG_INTERNAL;
}

void context_tell_plain(TesseraContext *context, TesseraStatus status, int code,
                        const char *message)
{
    Diag diag = {.kind = class_of(status), .code = code, .span = SPAN_NONE, .message = message};
    Diags diags = {0};
    diags.list.items = &diag;
    diags.list.n = 1;
    context_store_diagnostics(context, &diags);
}

size_t tessera_diagnostics(const TesseraContext *context, const TesseraDiagnostic **diagnostics)
{
    if (diagnostics) {
        *diagnostics = context ? context->compiler->diagnostics : NULL;
    }
    return context && diagnostics ? context->compiler->n_diagnostics : 0;
}

/* ---- warnings ---- */

/* "W2001"; 0: it is no code of a warning. */
static int warning_code(const char *text)
{
    char name[8];
    for (size_t i = 0; text && error_row(i); i++) {
        int code = error_row(i)->code;
        diag_code_text(code, name);
        if (code >= FIRST_WARNING && text_equal(name, text)) {
            return code;
        }
    }
    return 0;
}

static TesseraStatus unknown_warning(TesseraContext *context, const char *text)
{
    return context_fail_code(context, TESSERA_USAGE, ERR_WARNING_NAME,
                             "no warning is called '%.60s': they are W2001 and on",
                             text ? text : "");
}

static size_t count_warnings(void)
{
    size_t n = 0;
    for (size_t i = 0; error_row(i); i++) {
        n += error_row(i)->code >= FIRST_WARNING;
    }
    return n;
}

/* "all" takes the room of every code. */
static size_t allow(int *codes, size_t n, const char *text)
{
    if (!text_equal(text, "all")) {
        codes[n++] = warning_code(text);
        return n;
    }
    for (size_t i = 0; error_row(i); i++) {
        if (error_row(i)->code >= FIRST_WARNING) {
            codes[n++] = error_row(i)->code;
        }
    }
    return n;
}

TesseraStatus tessera_warn(TesseraContext *context, const TesseraWarnings *warnings)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    size_t n = warnings ? warnings->n_allow : 0, n_codes = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = warnings->allow ? warnings->allow[i] : NULL;
        if (!text || (!text_equal(text, "all") && !warning_code(text))) {
            return unknown_warning(context, text);
        }
    }
    int *codes = n ? context_take(context, n * count_warnings() * sizeof *codes) : NULL;
    if (n && !codes) {
        return TESSERA_ENVIRONMENT;
    }
    for (size_t i = 0; i < n; i++) {
        n_codes = allow(codes, n_codes, warnings->allow[i]);
    }
    context_drop(context, context->compiler->allowed);
    context->compiler->allowed = codes;
    context->compiler->policy = (DiagPolicy){codes, n_codes, warnings && warnings->deny};
    return TESSERA_OK;
}

/* ---- explanations ---- */

bool tessera_explanation(size_t index, TesseraExplanation *explanation)
{
    const ErrorRow *row = error_row(index);
    if (!row || !explanation) {
        return false;
    }
    const ErrorExample *example = error_example(row->code);
    *explanation = (TesseraExplanation){.title = row->title, .text = row->explanation};
    diag_code_text(row->code, explanation->code);
    if (example) {
        explanation->wrong = example->wrong;
        explanation->mended = example->mended;
    }
    return true;
}

/* With or without its letter and its zeros. */
static bool names_code(const char *text, const char *code)
{
    if (text_equal(text, code)) {
        return true;
    }
    text += *text == code[0] || *text == code[0] + ('a' - 'A');
    text += strspn(text, "0");
    return text_equal(text, code + 1 + strspn(code + 1, "0"));
}

bool tessera_explain(const char *code, TesseraExplanation *explanation)
{
    for (size_t i = 0; code && tessera_explanation(i, explanation); i++) {
        if (names_code(code, explanation->code)) {
            return true;
        }
    }
    return false;
}
