/* SPDX-License-Identifier: Apache-2.0 */
/* The f64 reference: the same program with all floats f64. The names of narrower types are
 * replaced in its text, and `fast.` is removed. Its result is almost free of rounding errors, so
 * the difference from it measures the rounding of the original program. */
#include "runtime/compile/compilation.h"

#include "frontend/syntax/lexer.h"

#include <string.h>

static bool is_token(const Source *source, Token token, const char *text)
{
    size_t n = token.span.end - token.span.start;
    return token.kind == TOK_NAME && strlen(text) == n &&
           memcmp(source->text + token.span.start, text, n) == 0;
}

static bool is_narrow(const Source *source, Token token)
{
    DType dtype;
    return token.kind == TOK_NAME &&
           dtype_from_name(source->text + token.span.start, token.span.end - token.span.start,
                           &dtype) &&
           dtype_is_float(dtype);
}

static const char *widen(Arena *arena, const char *text, size_t *n)
{
    Source source = {.text = text, .n = *n};
    Lexer lexer = {.text = text, .n = *n};
    Text out = text_new(arena);
    size_t copied = 0;
    for (Token token = lexer_next(&lexer); token.kind != TOK_END; token = lexer_next(&lexer)) {
        Lexer ahead = lexer;
        bool fast = is_token(&source, token, "fast") && lexer_next(&ahead).kind == TOK_DOT;
        if (fast || is_narrow(&source, token)) {
            text_add_n(&out, text + copied, token.span.start - copied);
            text_add(&out, fast ? "" : "f64");
            copied = fast ? ahead.at : token.span.end;
            lexer = fast ? ahead : lexer;
        }
    }
    text_add_n(&out, text + copied, *n - copied);
    *n = out.n;
    return out.n ? out.data : "";
}

/* T=bf16 becomes T=f64. */
static void widen_bindings(Arena *arena, TesseraOptions *options)
{
    TesseraPair *pairs = ARENA_ARRAY(arena, TesseraPair, options->n_bindings);
    for (size_t i = 0; i < options->n_bindings; i++) {
        DType dtype;
        pairs[i] = options->bindings[i];
        if (dtype_from_name(pairs[i].value, strlen(pairs[i].value), &dtype) &&
            dtype_is_float(dtype)) {
            pairs[i].value = "f64";
        }
    }
    options->bindings = pairs;
}

void compilation_to_f64(Compilation *c)
{
    Arena *arena = &c->work->arena;
    Imports *imports = ARENA_NEW(arena, Imports);
    *imports = (Imports){.arena = arena, .folder = c->imports->folder};
    for (size_t i = 0; i < c->imports->texts.n; i++) {
        ImportedText text = c->imports->texts.items[i];
        text.text = widen(arena, text.text, &text.n);
        ARENA_PUSH(arena, &imports->texts, text);
    }
    c->imports = imports;
    c->text = widen(arena, c->text, &c->n);
    widen_bindings(arena, &c->options);
}
