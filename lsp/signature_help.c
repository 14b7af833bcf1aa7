/* SPDX-License-Identifier: Apache-2.0 */
/* Signature help: the parameters of the function whose call is being written. */
#include "lsp/describe.h"
#include "lsp/server.h"

#include <string.h>

/* A call that is open at a place. */
typedef struct OpenCall {
    Span name;
    int argument;      /* that is being written */
    const char *named; /* by this name; NULL: by position */
} OpenCall;

static const char *word_of(const Analysis *a, Arena *arena, Span span)
{
    const char *text = a->diags.sources.items[a->source].text;
    return arena_strndup(arena, text + span.start, span.end - span.start);
}

/* The innermost parenthesis before the offset that is open there; false: none is a call's. */
static bool find_call(const Analysis *a, Arena *arena, uint32_t offset, OpenCall *call)
{
    size_t i = 0;
    while (i < a->tokens.n && a->tokens.items[i].span.start < offset) {
        i++;
    }
    *call = (OpenCall){0};
    for (int depth = 0; i-- > 0;) {
        const Token *token = &a->tokens.items[i];
        TokenKind kind = token->kind;
        if (kind == TOK_LBRACE || kind == TOK_RBRACE) {
            return false;
        }
        depth += kind == TOK_RPAREN || kind == TOK_RBRACKET;
        call->argument += depth == 0 && kind == TOK_COMMA;
        if (depth == 0 && call->argument == 0 && kind == TOK_ASSIGN && i > 0) {
            call->named = word_of(a, arena, a->tokens.items[i - 1].span);
        }
        if ((kind == TOK_LPAREN || kind == TOK_LBRACKET) && depth-- == 0) {
            bool called =
                kind == TOK_LPAREN && i > 0 &&
                (a->tokens.items[i - 1].kind == TOK_NAME || a->tokens.items[i - 1].kind == TOK_VAR);
            if (called) {
                call->name = a->tokens.items[i - 1].span;
                bool dotted = i > 2 && a->tokens.items[i - 2].kind == TOK_DOT;
                call->name.start = dotted ? a->tokens.items[i - 3].span.start : call->name.start;
                return true;
            }
            call->argument = 0; /* a bracket inside of an argument */
            depth = 0;
        }
    }
    return false;
}

/* ---- the answer ---- */

typedef struct Signatures {
    Call *call;
    const Analysis *a;
    OpenCall open;
    int n, active; /* signatures; the first one that takes the argument, or -1 */
} Signatures;

static void begin_signature(Signatures *s, const char *label, const char *doc)
{
    Text *out = s->call->result;
    put_comma(out);
    text_char(out, '{');
    put_text(out, "label", label);
    if (doc) {
        text_add(out, ",\"documentation\":{\"kind\":\"markdown\",");
        put_text(out, "value", doc);
        text_char(out, '}');
    }
    text_add(out, ",\"parameters\":[");
}

static void end_signature(Signatures *s, int n_params, int active)
{
    bool takes = active < n_params;
    text_printf(s->call->result, "],\"activeParameter\":%d}", active);
    s->active = takes && s->active < 0 ? s->n : s->active;
    s->n++;
}

static bool add_fn(void *user, const Module *home, FnDecl *fn)
{
    (void)home;
    Signatures *s = user;
    Arena *arena = s->call->arena;
    int active = s->open.argument;
    begin_signature(s, source_text(&s->a->diags, arena, fn->head),
                    comment_above(&s->a->diags, arena, fn->span));
    for (size_t i = 0; i < fn->params.n; i++) {
        put_comma(s->call->result);
        text_char(s->call->result, '{');
        put_text(s->call->result, "label", param_code(s->a, arena, &fn->params.items[i]));
        text_char(s->call->result, '}');
        active = text_equal(fn->params.items[i].name, s->open.named) ? (int)i : active;
    }
    end_signature(s, (int)fn->params.n, active);
    return false;
}

/* The parameters stand between the parentheses of the word's signature. */
static void add_word(Signatures *s, const Word *word)
{
    begin_signature(s, word->signature, word->doc);
    int n = 0, active = s->open.argument;
    const char *at = strchr(word->signature, '(') + 1;
    for (; *at && *at != ')'; n++) {
        size_t length = strcspn(at, ",)"), name = strcspn(at, "=,)");
        const char *param = arena_strndup(s->call->arena, at, length);
        put_comma(s->call->result);
        text_char(s->call->result, '{');
        put_text(s->call->result, "label", param);
        text_char(s->call->result, '}');
        if (s->open.named && strlen(s->open.named) == name &&
            strncmp(s->open.named, at, name) == 0) {
            active = n;
        }
        at += length;
        at += strspn(at, ", ");
    }
    end_signature(s, n, active);
}

void method_signature_help(Call *call)
{
    uint32_t offset;
    Document *document = call_position(call, &offset);
    const Analysis *a = document ? document_analysis(&call->server->documents, document) : NULL;
    Signatures s = {.call = call, .a = a, .active = -1};
    if (!a || !a->module || !find_call(a, call->arena, offset, &s.open)) {
        return;
    }
    const char *name = word_of(a, call->arena, s.open.name);
    const Word *word = word_find(name);
    text_add(call->result, "{\"signatures\":[");
    each_fn(a->module, name, add_fn, &s);
    if (s.n == 0 && word && word->signature) {
        add_word(&s, word);
    }
    text_printf(call->result, "],\"activeSignature\":%d}", s.active < 0 ? 0 : s.active);
    if (s.n == 0) {
        call->result->n = 0;
    }
}
