/* SPDX-License-Identifier: Apache-2.0 */
/* Edits of a text: formatting, and what the helps of errors and warnings propose. */
#include "frontend/syntax/formatter.h"
#include "lsp/server.h"

#include <string.h>

/* ---- formatting ---- */

static void put_edit(Text *out, const LinedText *lined, uint32_t start, uint32_t end,
                     const char *text, size_t n)
{
    put_comma(out);
    text_add(out, "{\"range\":");
    put_range(out, lined, start, end);
    text_add(out, ",\"newText\":");
    text_json(out, text, n);
    text_char(out, '}');
}

/* One edit of what lies between the lines at the start and at the end that stay. */
static void put_difference(Text *out, const LinedText *lined, const Text *made)
{
    size_t start = 0, same = 0, shorter = lined->n < made->n ? lined->n : made->n;
    for (size_t i = 0; i < shorter && lined->text[i] == made->data[i]; i++) {
        start = lined->text[i] == '\n' ? i + 1 : start;
    }
    size_t tail = 0;
    while (tail < shorter - start &&
           lined->text[lined->n - tail - 1] == made->data[made->n - tail - 1]) {
        tail++;
        same = lined->text[lined->n - tail] == '\n' ? tail - 1 : same;
    }
    if (lined->n != made->n || memcmp(lined->text, made->data, made->n) != 0) {
        put_edit(out, lined, (uint32_t)start, (uint32_t)(lined->n - same), made->data + start,
                 made->n - start - same);
    }
}

/* False if the text has errors of syntax. */
static bool format(Arena *arena, const Document *document, Text *made)
{
    Diags diags;
    jmp_buf guard;
    diags_init(&diags, arena);
    diags.bug_guard = &guard;
    if (setjmp(guard) != 0) {
        return false;
    }
    int source = diags_add_source(&diags, "", document->lined.text, document->lined.n);
    return frontend_format(arena, &diags, source, made);
}

void method_formatting(Call *call)
{
    Document *document = call_document(call);
    if (!document) {
        return;
    }
    Text made = text_new(call->arena);
    text_char(call->result, '[');
    if (format(call->arena, document, &made)) {
        put_difference(call->result, &document->lined, &made);
    }
    text_char(call->result, ']');
}

/* ---- code actions ---- */

/* All edits are of this text, and the diagnostic touches the range. */
static bool is_offered(const Analysis *a, const Diag *diag, uint32_t start, uint32_t end)
{
    bool here = diag->span.source == a->source && diag->span.start <= end &&
                diag->span.end >= start && diag->fixes.n > 0 && diag->help;
    for (size_t i = 0; i < diag->fixes.n && here; i++) {
        here = diag->fixes.items[i].span.source == a->source;
    }
    return here;
}

static void put_action(Call *call, const Document *document, const Diag *diag)
{
    Text *out = call->result;
    put_comma(out);
    text_char(out, '{');
    put_text(out, "title", diag->help);
    text_add(out, ",\"kind\":\"quickfix\",\"isPreferred\":true,\"diagnostics\":[");
    put_diagnostic(out, document, diag, call->server->related, call->arena);
    text_add(out, "],\"edit\":{\"changes\":{");
    text_json(out, document->uri, strlen(document->uri));
    text_add(out, ":[");
    for (size_t i = 0; i < diag->fixes.n; i++) {
        const DiagFix *fix = &diag->fixes.items[i];
        put_edit(out, &document->lined, fix->span.start, fix->span.end, fix->text,
                 strlen(fix->text));
    }
    text_add(out, "]}}}");
}

/* True if the client asks for actions of the kind "quickfix". */
static bool wants_fixes(const Call *call)
{
    const Json *only = json_path(call->params, "context.only");
    bool any = !only || only->kind != JSON_ARRAY;
    for (const Json *kind = any ? NULL : only->first; kind; kind = kind->next) {
        any = any ||
              (kind->kind == JSON_STRING && (text_equal(kind->text, "quickfix") || kind->n == 0));
    }
    return any;
}

void method_actions(Call *call)
{
    Document *document = call_document(call);
    uint32_t start, end;
    if (!document || !call_range(call, document, "range", &start, &end)) {
        return;
    }
    const Analysis *a = document_analysis(&call->server->documents, document);
    text_char(call->result, '[');
    for (size_t i = 0; a && wants_fixes(call) && i < a->diags.list.n; i++) {
        if (is_offered(a, &a->diags.list.items[i], start, end)) {
            put_action(call, document, &a->diags.list.items[i]);
        }
    }
    text_char(call->result, ']');
}
