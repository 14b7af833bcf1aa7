/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnostics of the last call that had any: copies that the context keeps until the next call,
 * rendered in each form. */
#include "runtime/context/compiler_context.h"

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

/* What was reported before is gone, also when this fails. */
void context_store_diagnostics(TesseraContext *context, const Diags *diags)
{
    jmp_buf guard;
    Arena *arena = &context->compiler->diagnostics_arena;
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

DiagClass diag_class_of(TesseraStatus status)
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
    Diag diag = {
        .kind = diag_class_of(status), .code = code, .span = SPAN_NONE, .message = message};
    Diags diags = {0};
    diags.list.items = &diag;
    diags.list.n = 1;
    context_store_diagnostics(context, &diags);
}

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered)
{
    context_set_error(context, status, 0, rendered);
    context_store_diagnostics(context, diags);
    return status;
}
