/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes errors and warnings. What is wrong in an imported file is shown at its import. */
#include "lsp/server.h"

#include <string.h>

static int severity(const Diag *diag)
{
    if (diag->severity == SEVERITY_ERROR) {
        return 1;
    }
    return diag->severity == SEVERITY_WARNING ? 2 : 3;
}

/* The import by which the file came, or the start of the text. */
static Span place_in_text(const Analysis *a, Span span)
{
    if (span.source == a->source) {
        return span;
    }
    for (size_t i = 0; a->module && i < a->module->imports.n && span.source >= 0; i++) {
        const ImportDecl *import = &a->module->imports.items[i];
        if (import->module && import->module->source == span.source) {
            return import->span;
        }
    }
    for (size_t i = 0; a->module && i < a->module->imports.n && span.source >= 0; i++) {
        if (a->module->imports.items[i].is_file) { /* that file imports it in turn */
            return a->module->imports.items[i].span;
        }
    }
    return (Span){a->source, 0, 0};
}

static void put_message(Text *out, const Analysis *a, const Diag *diag, Arena *arena)
{
    Text text = text_new(arena);
    if (diag->span.source >= 0 && diag->span.source != a->source) {
        SourceLoc at = diag_source_loc(&a->diags, diag->span);
        text_printf(&text, "%s:%d: ", at.file, at.line);
    }
    text_add(&text, diag->message);
    if (diag->span_label) {
        text_printf(&text, ": %s", diag->span_label);
    }
    if (diag->note) {
        text_printf(&text, "\nnote: %s", diag->note);
    }
    if (diag->help) {
        text_printf(&text, "\nhelp: %s", diag->help);
    }
    put_text(out, "message", text.data);
}

static void put_related(Text *out, const Document *document, const Diag *diag, Arena *arena)
{
    text_add(out, ",\"relatedInformation\":[");
    for (size_t i = 0; i < diag->labels.n; i++) {
        const DiagLabel *label = &diag->labels.items[i];
        const char *uri = source_uri(arena, document, label->span.source);
        if (!uri) {
            continue;
        }
        LinedText lined = source_lines(arena, document, label->span.source);
        put_comma(out);
        text_add(out, "{\"location\":{");
        put_text(out, "uri", uri);
        text_add(out, ",\"range\":");
        put_range(out, &lined, label->span.start, label->span.end);
        text_add(out, "},");
        put_text(out, "message", label->text);
        text_char(out, '}');
    }
    text_char(out, ']');
}

void put_diagnostic(Text *out, const Document *document, const Diag *diag, bool related,
                    Arena *arena)
{
    const Analysis *a = document->analysis;
    Span span = place_in_text(a, diag->span);
    char code[8];
    diag_code_text(diag->code, code);
    text_add(out, "{\"range\":");
    put_range(out, &document->lined, span.start, span.end);
    text_printf(out, ",\"severity\":%d,\"source\":\"tessera\",", severity(diag));
    if (*code) {
        put_text(out, "code", code);
        text_char(out, ',');
    }
    put_message(out, a, diag, arena);
    if (related && diag->labels.n > 0) {
        put_related(out, document, diag, arena);
    }
    text_char(out, '}');
}

static void publish(Server *server, Document *document, Arena *arena)
{
    const Analysis *a = document_analysis(&server->documents, document);
    Text params = text_new(arena);
    text_char(&params, '{');
    put_text(&params, "uri", document->uri);
    text_printf(&params, ",\"version\":%lld,\"diagnostics\":[", (long long)document->version);
    for (size_t i = 0; a && i < a->diags.list.n; i++) {
        put_comma(&params);
        put_diagnostic(&params, document, &a->diags.list.items[i], server->related, arena);
    }
    text_add(&params, "]}");
    send_notification(server, arena, "textDocument/publishDiagnostics", params.data);
    document->published = true;
}

static void publish_one(Server *server, Document *document)
{
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    if (setjmp(guard) == 0) {
        publish(server, document, &arena);
    }
    document->published = true; /* or there is no memory for it */
    arena_free(&arena);
}

void publish_diagnostics(Server *server)
{
    for (Document *d = server->documents.first; d; d = d->next) {
        if (!d->published) {
            publish_one(server, d);
        }
    }
}

void publish_closed(Server *server, const char *uri)
{
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    if (setjmp(guard) == 0) {
        Text params = text_new(&arena);
        text_char(&params, '{');
        put_text(&params, "uri", uri);
        text_add(&params, ",\"diagnostics\":[]}");
        send_notification(server, &arena, "textDocument/publishDiagnostics", params.data);
    }
    arena_free(&arena);
}
