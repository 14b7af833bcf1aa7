/* SPDX-License-Identifier: Apache-2.0 */
/* Hover and inlay hints: types, shapes, axes and documentation where the text has none. */
#include "lsp/describe.h"
#include "lsp/schedules.h"

#include <string.h>

static const char *token_of(const Analysis *a, Arena *arena, const Token *token)
{
    const char *text = a->diags.sources.items[a->source].text;
    return arena_strndup(arena, text + token->span.start, token->span.end - token->span.start);
}

static void put_hover(Call *call, const Document *document, Span span, const char *code,
                      const char *text)
{
    Text value = text_new(call->arena);
    text_printf(&value, "```tile\n%s\n```", code);
    if (*text) {
        text_printf(&value, "\n\n%s", text);
    }
    text_add(call->result, "{\"contents\":{\"kind\":\"markdown\",");
    put_text(call->result, "value", value.data);
    text_add(call->result, "},\"range\":");
    put_range(call->result, &document->lined, span.start, span.end);
    text_char(call->result, '}');
}

/* The operation that the token names in `ir.NAME`, as the standard library has it; NULL: none. */
static const OpInfo *operation_of(const Analysis *a, Arena *arena, const Token *token)
{
    size_t at = (size_t)(token - a->tokens.items);
    bool dotted = at >= 2 && token[-1].kind == TOK_DOT && token[-2].kind == TOK_NAME &&
                  text_equal(token_of(a, arena, &token[-2]), "ir");
    const char *name = dotted ? token_of(a, arena, token) : "";
    for (OpKind kind = 0; kind < OP_COUNT && dotted; kind++) {
        if (text_equal(op_info(kind)->name, name)) {
            return op_info(kind);
        }
    }
    return NULL;
}

/* An operation of the IR, a schedule key at its place, a word of the language, or the type of what
 * is around the token. */
static void hover_token(Call *call, const Document *document, const Token *token, uint32_t offset)
{
    const Analysis *a = document->analysis;
    const char *name = token_of(a, call->arena, token);
    const ScheduleKey *key = schedule_around(a, offset) ? schedule_key(name) : NULL;
    const Word *word = word_find(name);
    const TypedSpan *typed = analysis_around(a, token->span);
    const OpInfo *op = operation_of(a, call->arena, token);
    if (op) {
        put_hover(call, document, token->span, arena_printf(call->arena, "ir.%s", op->name),
                  op->doc);
    } else if (key) {
        put_hover(call, document, token->span, name, schedule_key_text(call->arena, key));
    } else if (word) {
        const char *of = word->kind == WORD_OPERATOR && typed
                             ? arena_printf(call->arena, "%s\n\nhere: `%s`", word->doc, typed->type)
                             : word->doc;
        put_hover(call, document, token->span, word->signature ? word->signature : name, of);
    } else if (typed) {
        const char *code = source_text(&a->diags, call->arena, typed->span);
        put_hover(call, document, typed->span,
                  arena_printf(call->arena, "%.200s: %s", code, typed->type), "");
    }
}

/* What this call of a function gives: a call begins with the function's name. NULL: not known. */
static const TypedSpan *call_type(const Analysis *a, const Definition *definition, Span name)
{
    bool is_call = definition->kind == NAME_FN || definition->kind == NAME_BUILTIN;
    for (size_t i = 0; i < a->typed.n && is_call; i++) {
        const TypedSpan *typed = &a->typed.items[i];
        if (typed->span.start == name.start && typed->span.end > name.end) {
            return typed;
        }
    }
    return NULL;
}

void method_hover(Call *call)
{
    uint32_t offset;
    Document *document = call_position(call, &offset);
    const Analysis *a = document ? document_analysis(&call->server->documents, document) : NULL;
    const Token *token = a ? analysis_token(a, offset) : NULL;
    if (!token) {
        return;
    }
    Span span;
    const Definition *definition = name_at(a, offset, &span);
    if (!definition) {
        hover_token(call, document, token, offset);
        return;
    }
    Text text = text_new(call->arena);
    text_add(&text, definition_text(a, call->arena, definition));
    const TypedSpan *here = call_type(a, definition, span);
    if (here) {
        text_printf(&text, "%shere: `%s`", text.n ? "\n\n" : "", here->type);
    }
    put_hover(call, document, span, definition_code(a, call->arena, definition), text.data);
}

/* ---- inlay hints ---- */

/* The derived schedule of a kernel, behind its head. */
static void put_schedule(Call *call, const Document *document, const KernelDecl *kernel)
{
    const Derived *derived = derived_find(document, kernel->name);
    if (!derived) {
        return;
    }
    put_comma(call->result);
    text_add(call->result, "{\"position\":");
    put_position(call->result, &document->lined, kernel->head.end);
    text_add(call->result, ",\"paddingLeft\":true,");
    put_text(call->result, "label", derived->line);
    text_add(call->result, ",\"tooltip\":{\"kind\":\"markdown\",");
    put_text(call->result, "value", arena_printf(call->arena, "```tile\n%s```", derived->block));
    text_add(call->result, "}}");
}

void method_hints(Call *call)
{
    Document *document = call_document(call);
    uint32_t start, end;
    if (!document || !call_range(call, document, "range", &start, &end)) {
        return;
    }
    const Analysis *a = document_analysis(&call->server->documents, document);
    document->derived_wanted = document->derived_wanted || !document->derived_asked;
    document->derived_asked = true;
    if (!call->server->refreshes) {
        derive_schedules(call->server);
    }
    text_char(call->result, '[');
    for (size_t i = 0; a && a->module && i < a->module->kernels.n; i++) {
        const KernelDecl *kernel = a->module->kernels.items[i];
        if (kernel->head.end >= start && kernel->head.end <= end) {
            put_schedule(call, document, kernel);
        }
    }
    for (size_t i = 0; a && a->names && i < a->names->definitions.n; i++) {
        const Definition *definition = a->names->definitions.items[i];
        bool named = definition->kind == NAME_LET || definition->kind == NAME_VAR;
        const char *type = named && !definition->typed && definition->span.source == a->source
                               ? definition_type(a, definition)
                               : NULL;
        if (type && definition->span.end >= start && definition->span.end <= end) {
            put_comma(call->result);
            text_add(call->result, "{\"position\":");
            put_position(call->result, &document->lined, definition->span.end);
            text_add(call->result, ",\"kind\":1,");
            put_text(call->result, "label", arena_printf(call->arena, ": %s", type));
            text_char(call->result, '}');
        }
    }
    text_char(call->result, ']');
}
