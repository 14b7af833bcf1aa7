/* SPDX-License-Identifier: Apache-2.0 */
/* Analyses a text: its tokens, its tree, its kernels' types. */
#include "lsp/analysis.h"
#include "frontend/stdlib_sources.h"
#include "lsp/names.h"
#include "support/clock.h"
#include "support/deep_stack.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TYPED = 1 << 18, MAX_ANALYSIS = 1 << 30 /* bytes */ };

/* ---- types ---- */

static void add_type(Analysis *a, TypedSpans *list, Span span, const char *type)
{
    if (span.source == a->source && list->n < MAX_TYPED) {
        TypedSpan typed = {.span = span, .type = type, .order = (uint32_t)list->n};
        ARENA_PUSH(&a->arena, list, typed);
    }
}

static void on_defined(void *user, Span name, const char *type)
{
    Analysis *a = user;
    add_type(a, &a->defined, name, type);
}

static void on_typed(void *user, Span expression, const char *type)
{
    Analysis *a = user;
    a->work++;
    add_type(a, &a->typed, expression, type);
}

static int by_place(Span x, Span y)
{
    if (x.start != y.start) {
        return (x.start < y.start ? -1 : 1);
    }
    return (x.end > y.end) - (x.end < y.end);
}

static int compare_typed(const void *x, const void *y)
{
    const TypedSpan *a = x, *b = y;
    int place = by_place(a->span, b->span);
    if (place) {
        return place;
    }
    return a->order < b->order ? -1 : 1;
}

/* By their places, of each the first one that was found. */
static void sort_types(TypedSpans *list)
{
    if (list->n == 0) {
        return;
    }
    qsort(list->items, list->n, sizeof *list->items, compare_typed);
    size_t kept = 0;
    for (size_t i = 1; i < list->n; i++) {
        TypedSpan *last = &list->items[kept];
        if (by_place(last->span, list->items[i].span) == 0) {
            last->several = last->several || !text_equal(last->type, list->items[i].type);
        } else {
            list->items[++kept] = list->items[i];
        }
    }
    list->n = kept + 1;
}

static const TypedSpan *find_type(const TypedSpans *list, Span span)
{
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int place = by_place(list->items[middle].span, span);
        if (place == 0) {
            return &list->items[middle];
        }
        low = place < 0 ? middle + 1 : low;
        high = place < 0 ? high : middle;
    }
    return NULL;
}

const TypedSpan *analysis_defined(const Analysis *a, Span name)
{
    return find_type(&a->defined, name);
}

const TypedSpan *analysis_typed(const Analysis *a, Span expression)
{
    return find_type(&a->typed, expression);
}

const TypedSpan *analysis_around(const Analysis *a, Span inner)
{
    const TypedSpan *best = NULL;
    for (size_t i = 0; i < a->typed.n && a->typed.items[i].span.start <= inner.start; i++) {
        const TypedSpan *typed = &a->typed.items[i];
        bool around = typed->span.end >= inner.end;
        if (around &&
            (!best || typed->span.end - typed->span.start < best->span.end - best->span.start)) {
            best = typed;
        }
    }
    return best;
}

/* ---- tokens ---- */

static void read_tokens(Analysis *a)
{
    Lexer lexer = lexer_new(&a->diags, a->source);
    lexer.diags = NULL;
    Token token;
    do {
        token = lexer_next(&lexer);
        ARENA_PUSH(&a->arena, &a->tokens, token);
        a->work++;
    } while (token.kind != TOK_END);
}

const Token *analysis_token(const Analysis *a, uint32_t offset)
{
    const Token *found = NULL;
    for (size_t i = 0; i + 1 < a->tokens.n && a->tokens.items[i].span.start <= offset; i++) {
        found = &a->tokens.items[i];
    }
    bool after = found && found->span.start < offset && found->span.end == offset;
    if (found && (offset < found->span.end || after)) {
        return found;
    }
    return found && found->span.start == offset ? found : NULL;
}

/* ---- the text ---- */

/* True if the text is one that the compiler has built in: an editor went to a definition there. */
static int library_source(const Analysis *a, const char *text, size_t n)
{
    for (size_t i = 0; i < stdlib_count; i++) {
        if (stdlib_sources[i].n == n && memcmp(stdlib_sources[i].text, text, n) == 0) {
            return a->module->standard->first_source + (int)i;
        }
    }
    return -1;
}

static void run(Analysis *a, const char *name, const char *text, size_t n, const Importer *importer)
{
    a->source = diags_add_source(&a->diags, name, text, n);
    a->module = frontend_read(&a->arena, &a->diags, a->source, importer);
    int library = a->module->standard ? library_source(a, text, n) : -1;
    if (library >= 0) {
        a->library = true;
        a->source = library;
        a->module = (Module *)a->module->standard;
        a->diags.list.n = 0;
        for (size_t i = 0; i < a->module->fns.n; i++) {
            fn_complete(a->module, a->module->fns.items[i]);
        }
    }
    read_tokens(a);
    a->names = names_of(a);
    if (!a->library) {
        TypeObserver observer = {on_defined, on_typed, a};
        frontend_observe(a->module, &observer);
        check_kernels(a);
        frontend_observe(a->module, NULL);
    }
}

typedef struct Reading {
    Analysis *analysis;
    const char *name, *text;
    size_t n;
    const Importer *importer;
} Reading;

static void run_guarded(void *user)
{
    const Reading *r = user;
    Analysis *a = r->analysis;
    a->seconds = -clock_cpu_seconds();
    if (setjmp(a->guard) == 0) {
        run(a, r->name, r->text, r->n, r->importer);
    }
    a->seconds += clock_cpu_seconds();
}

Analysis *analysis_new(const char *name, const char *text, size_t n, const Importer *importer,
                       Arena *reading)
{
    Analysis *a = calloc(1, sizeof *a);
    if (!a) {
        return NULL;
    }
    arena_init(&a->arena, allocator_default());
    a->arena.cap = MAX_ANALYSIS;
    a->arena.guard = &a->guard;
    reading->guard = &a->guard;
    diags_init(&a->diags, &a->arena);
    a->diags.bug_guard = &a->guard;
    deep_stack_call(run_guarded, &(Reading){a, name, text, n, importer});
    sort_types(&a->defined);
    sort_types(&a->typed);
    return a;
}

void analysis_free(Analysis *analysis)
{
    if (analysis) {
        arena_free(&analysis->arena);
        free(analysis);
    }
}
