/* SPDX-License-Identifier: Apache-2.0 */
/* Where names are: definition, references, highlights, rename, and the outline of a text. */
#include "lsp/describe.h"
#include "lsp/server.h"

#include <string.h>

static void put_location(Text *out, const char *uri, const LinedText *lined, Span span)
{
    text_char(out, '{');
    put_text(out, "uri", uri);
    text_add(out, ",\"range\":");
    put_range(out, lined, span.start, span.end);
    text_char(out, '}');
}

/* The name at the position of the parameters; NULL: none there. */
static const Definition *named(Call *call, Document **document, Span *span)
{
    uint32_t offset;
    *document = call_position(call, &offset);
    const Analysis *a = *document ? document_analysis(&call->server->documents, *document) : NULL;
    return a ? name_at(a, offset, span) : NULL;
}

void method_definition(Call *call)
{
    Document *document;
    Span span;
    const Definition *definition = named(call, &document, &span);
    const char *uri = definition && definition->span.source >= 0
                          ? source_uri(call->arena, document, definition->span.source)
                          : NULL;
    if (uri) {
        LinedText lined = source_lines(call->arena, document, definition->span.source);
        put_location(call->result, uri, &lined, definition->span);
    }
}

/* ---- all uses ---- */

/* Uses in another open text of what this text defines. */
static bool is_of(const Document *other, const Definition *there, const char *uri,
                  const Definition *here, Arena *arena)
{
    bool same = there->kind == here->kind && there->span.start == here->span.start &&
                there->span.source >= 0 && text_equal(there->name, here->name);
    const char *home = same ? source_uri(arena, other, there->span.source) : NULL;
    return home && text_equal(home, uri);
}

typedef void EachUse(Call *call, const Document *document, Span span, void *user);

static void each_use(Call *call, Document *document, const Definition *definition, EachUse *each,
                     void *user)
{
    const Analysis *a = document->analysis;
    for (size_t i = 0; i < a->names->uses.n; i++) {
        if (a->names->uses.items[i].definition == definition) {
            each(call, document, a->names->uses.items[i].span, user);
        }
    }
    const char *uri = definition->span.source >= 0
                          ? source_uri(call->arena, document, definition->span.source)
                          : NULL;
    for (Document *d = call->server->documents.first; d && uri; d = d->next) {
        const Analysis *other =
            d == document ? NULL : document_analysis(&call->server->documents, d);
        for (size_t i = 0; other && other->names && i < other->names->uses.n; i++) {
            const Use *use = &other->names->uses.items[i];
            if (is_of(d, use->definition, uri, definition, call->arena)) {
                each(call, d, use->span, user);
            }
        }
    }
}

static void put_reference(Call *call, const Document *document, Span span, void *user)
{
    (void)user;
    put_comma(call->result);
    put_location(call->result, document->uri, &document->lined, span);
}

void method_references(Call *call)
{
    Document *document;
    Span span;
    const Definition *definition = named(call, &document, &span);
    if (definition) {
        text_char(call->result, '[');
        each_use(call, document, definition, put_reference, NULL);
        text_char(call->result, ']');
    }
}

void method_highlight(Call *call)
{
    Document *document;
    Span span;
    const Definition *definition = named(call, &document, &span);
    const Names *names = definition ? document->analysis->names : NULL;
    text_add(call->result, names ? "[" : "");
    for (size_t i = 0; names && i < names->uses.n; i++) {
        if (names->uses.items[i].definition == definition) {
            put_comma(call->result);
            text_add(call->result, "{\"range\":");
            put_range(call->result, &document->lined, names->uses.items[i].span.start,
                      names->uses.items[i].span.end);
            text_char(call->result, '}');
        }
    }
    text_add(call->result, names ? "]" : "");
}

/* ---- rename ---- */

/* Why the name cannot be changed here; NULL: it can. */
static const char *fixed_name(const Document *document, const Definition *definition)
{
    if (definition->kind == NAME_FILE) {
        return "the name of a file is changed in its folder";
    }
    if (definition->span.source < 0) {
        return "this is a name of the language";
    }
    if (document->analysis->library ||
        document->analysis->diags.sources.items[definition->span.source].name[0] == '<') {
        return "this is a name of the standard library";
    }
    return definition->span.source == document->analysis->source
               ? NULL
               : "this is defined in another file: rename it there";
}

static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t n = text ? strlen(text) : 0;
    bool plain = n > 0 && n < 200 && strchr(letters, text[0]);
    for (size_t i = 0; i < n && plain; i++) {
        plain = strchr(letters, text[i]) || (text[i] >= '0' && text[i] <= '9');
    }
    return plain;
}

static bool is_keyword(const char *text)
{
    for (TokenKind kind = 0; kind < TOK_COUNT; kind++) {
        if (token_is_keyword(kind) && text_equal(token_text(kind), text)) {
            return true;
        }
    }
    DType dtype;
    return dtype_from_name(text, strlen(text), &dtype);
}

/* Another name that the new one would hide, or be hidden by. */
static bool is_taken(const Analysis *a, const Definition *definition, const char *name)
{
    for (size_t i = 0; i < a->names->definitions.n; i++) {
        const Definition *other = a->names->definitions.items[i];
        bool outer = other->kernel != definition->kernel || other->fn != definition->fn;
        bool local = other->kind != NAME_KERNEL && other->kind != NAME_FN;
        bool global = definition->kind == NAME_KERNEL || definition->kind == NAME_FN;
        bool in_scope = !outer || (global ? !local || other->span.source == a->source : !local);
        if (other != definition && in_scope && text_equal(other->name, name)) {
            return true;
        }
    }
    return false;
}

void method_prepare_rename(Call *call)
{
    Document *document;
    Span span;
    const Definition *definition = named(call, &document, &span);
    const char *why = definition ? fixed_name(document, definition) : NULL;
    if (why) {
        call_fail(call, RPC_FAILED, why);
    } else if (definition) {
        text_add(call->result, "{\"range\":");
        put_range(call->result, &document->lined, span.start, span.end);
        text_char(call->result, ',');
        put_text(call->result, "placeholder", definition->name);
        text_char(call->result, '}');
    }
}

typedef struct Renaming {
    const Document *document; /* whose edits are written now */
    const char *name;
} Renaming;

static void put_renamed(Call *call, const Document *document, Span span, void *user)
{
    Renaming *renaming = user;
    if (renaming->document != document) {
        text_add(call->result, renaming->document ? "]," : "");
        text_json(call->result, document->uri, strlen(document->uri));
        text_add(call->result, ":[");
        renaming->document = document;
    }
    put_comma(call->result);
    text_add(call->result, "{\"range\":");
    put_range(call->result, &document->lined, span.start, span.end);
    text_char(call->result, ',');
    put_text(call->result, "newText", renaming->name);
    text_char(call->result, '}');
}

void method_rename(Call *call)
{
    Document *document;
    Span span;
    const Definition *definition = named(call, &document, &span);
    const char *name = json_text(call->params, "newName");
    const char *why = definition ? fixed_name(document, definition) : "there is no name here";
    if (call->error) {
        return;
    }
    if (!is_name(name)) {
        call_fail(call, RPC_INVALID_PARAMS, "a name is made of letters, digits and `_`");
    } else if (why) {
        call_fail(call, RPC_FAILED, why);
    } else if (is_keyword(name)) {
        call_fail(call, RPC_FAILED, "this is a word of the language");
    } else if (is_taken(document->analysis, definition, name)) {
        call_fail(call, RPC_FAILED, "there is another thing of this name");
    } else {
        Renaming renaming = {NULL, name};
        text_add(call->result, "{\"changes\":{");
        each_use(call, document, definition, put_renamed, &renaming);
        text_add(call->result, renaming.document ? "]}}" : "}}");
    }
}

/* ---- the outline ---- */

enum { SYMBOL_FUNCTION = 12, SYMBOL_VARIABLE = 13, SYMBOL_PROPERTY = 7 };

static void begin_symbol(Text *out, const Document *document, const char *name, const char *detail,
                         int kind, Span full_span, Span own)
{
    put_comma(out);
    text_char(out, '{');
    put_text(out, "name", name);
    text_printf(out, ",\"kind\":%d,", kind);
    put_text(out, "detail", detail);
    text_add(out, ",\"range\":");
    put_range(out, &document->lined, full_span.start,
              full_span.end > own.end ? full_span.end : own.end);
    text_add(out, ",\"selectionRange\":");
    put_range(out, &document->lined, own.start, own.end);
}

/* The names that the kernel or function defines. */
static void put_members(Call *call, const Document *document, const Definition *of)
{
    const Analysis *a = document->analysis;
    text_add(call->result, ",\"children\":[");
    for (size_t i = 0; i < a->names->definitions.n; i++) {
        const Definition *d = a->names->definitions.items[i];
        bool inside = of->kind == NAME_KERNEL ? d->kernel == of->kernel : d->fn == of->fn;
        if (inside && d->span.source == a->source && (d->kind == NAME_LET || d->kind == NAME_VAR)) {
            const char *type = definition_type(a, d);
            begin_symbol(call->result, document, d->name, type ? type : "", SYMBOL_VARIABLE,
                         d->span, d->span);
            text_char(call->result, '}');
        }
    }
    text_char(call->result, ']');
}

void method_symbols(Call *call)
{
    Document *document = call_document(call);
    const Analysis *a = document ? document_analysis(&call->server->documents, document) : NULL;
    text_add(call->result, a && a->names ? "[" : "");
    for (size_t i = 0; a && a->names && i < a->names->definitions.n; i++) {
        const Definition *d = a->names->definitions.items[i];
        bool declared = d->kind == NAME_KERNEL || d->kind == NAME_FN;
        if (declared && d->span.source == a->source) {
            Span full_span = d->kind == NAME_KERNEL ? d->kernel->full_span : d->fn->full_span;
            Span own = {d->span.source, d->span.start, d->span.start + (uint32_t)strlen(d->name)};
            begin_symbol(call->result, document, d->name, d->kind == NAME_KERNEL ? "kernel" : "fn",
                         SYMBOL_FUNCTION, full_span, own);
            put_members(call, document, d);
            text_char(call->result, '}');
        }
    }
    for (size_t i = 0; a && a->names && i < a->module->schedules.n; i++) {
        const ScheduleDecl *schedule = a->module->schedules.items[i];
        if (*schedule->kernel && schedule->full_span.source == a->source) {
            begin_symbol(call->result, document, schedule->kernel,
                         schedule->tune ? "tune" : "schedule", SYMBOL_PROPERTY, schedule->full_span,
                         schedule->span);
            text_char(call->result, '}');
        }
    }
    text_add(call->result, a && a->names ? "]" : "");
}
