/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a name is: a visible one of the stack, or one outside of kernels and functions. */
#include "lsp/names_walk.h"
#include "frontend/lower/lower.h"

#include <string.h>

/* ---- places ---- */

static size_t token_after(const Analysis *a, uint32_t offset)
{
    size_t low = 0, high = a->tokens.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (a->tokens.items[middle].span.start < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const Token *brace_around(const Analysis *a, uint32_t offset)
{
    int depth = 0;
    for (size_t i = token_after(a, offset); i-- > 0;) {
        const Token *token = &a->tokens.items[i];
        depth += token->kind == TOK_RBRACE;
        if (token->kind == TOK_LBRACE && depth-- == 0) {
            return token;
        }
    }
    return NULL;
}

uint32_t block_end(const Analysis *a, uint32_t offset)
{
    int depth = 0;
    for (size_t i = token_after(a, offset); i < a->tokens.n; i++) {
        depth += a->tokens.items[i].kind == TOK_LBRACE;
        if (a->tokens.items[i].kind == TOK_RBRACE && depth-- == 0) {
            return a->tokens.items[i].span.start;
        }
    }
    return a->tokens.items[a->tokens.n - 1].span.end;
}

uint32_t end_of_body(const Analysis *a, uint32_t offset)
{
    int depth = 0;
    for (size_t i = token_after(a, offset); i < a->tokens.n; i++) {
        depth += a->tokens.items[i].kind == TOK_LBRACE;
        if (a->tokens.items[i].kind == TOK_RBRACE && --depth <= 0) {
            return a->tokens.items[i].span.start;
        }
    }
    return a->tokens.items[a->tokens.n - 1].span.end;
}

/* ---- definitions and uses ---- */

void use(Resolver *r, Span span, const Definition *definition)
{
    if (definition && span.source == r->a->source && span.end > span.start) {
        Use found = {span, definition};
        ARENA_PUSH(r->arena, &r->names->uses, found);
    }
}

static Definition *add(Resolver *r, NameKind kind, const char *name, Span span)
{
    Definition *definition = ARENA_NEW(r->arena, Definition);
    *definition = (Definition){.kind = kind,
                               .name = name,
                               .span = span,
                               .from = r->full_span.start,
                               .to = r->full_span.end,
                               .fn = r->fn,
                               .kernel = r->kernel};
    ARENA_PUSH(r->arena, &r->names->definitions, definition);
    return definition;
}

/* A parameter that a call above its function has named already; NULL: it is new. */
static Definition *known_at(const Resolver *r, NameKind kind, Span span)
{
    for (size_t i = 0; kind == NAME_PARAM && i < r->names->definitions.n; i++) {
        Definition *known = r->names->definitions.items[i];
        if (known->kind == kind && known->span.source == span.source &&
            known->span.start == span.start) {
            return known;
        }
    }
    return NULL;
}

Definition *define_name(Resolver *r, NameKind kind, const char *name, Span span)
{
    span.end = span.start + (uint32_t)strlen(name);
    Definition *definition = known_at(r, kind, span);
    if (!definition) {
        definition = add(r, kind, name, span);
    }
    definition->from = r->full_span.start;
    definition->to = r->full_span.end;
    ARENA_PUSH(r->arena, &r->stack, definition);
    use(r, span, definition);
    return definition;
}

Definition *visible(const Resolver *r, const char *name)
{
    for (size_t i = r->stack.n; i-- > 0;) {
        if (text_equal(r->stack.items[i]->name, name)) {
            return r->stack.items[i];
        }
    }
    return NULL;
}

Definition *outer_name(Resolver *r, NameKind kind, const char *name, Span span, const FnDecl *fn,
                       const KernelDecl *kernel)
{
    Names *names = r->names;
    for (size_t i = 0; i < names->definitions.n; i++) {
        Definition *known = names->definitions.items[i];
        if (known->kind == kind && known->fn == fn && known->kernel == kernel &&
            text_equal(known->name, name) && known->span.source == span.source) {
            return known;
        }
    }
    Definition *definition = add(r, kind, name, span);
    definition->fn = fn;
    definition->kernel = kernel;
    definition->from = definition->to = 0;
    return definition;
}

/* ---- functions ---- */

static FnDecl *fn_of(const Module *module, const char *name, EachFn *each, void *user)
{
    for (size_t i = 0; module && i < module->fns.n; i++) {
        FnDecl *fn = module->fns.items[i];
        bool named = !name || text_equal(fn->name, name);
        if (named && !fn->derivative_of && each(user, module, fn)) {
            return fn;
        }
    }
    return NULL;
}

FnDecl *each_fn(const Module *module, const char *name, EachFn *each, void *user)
{
    FnDecl *found = NULL;
    for (; module && !found; module = module->standard) {
        found = fn_of(module, name, each, user);
        for (size_t i = 0; i < module->imports.n && !found; i++) {
            found = fn_of(module->imports.items[i].module, name, each, user);
        }
    }
    return found;
}

static bool takes(void *user, const Module *home, FnDecl *fn)
{
    (void)home;
    return fn->params.n >= *(const size_t *)user;
}

static bool any(void *user, const Module *home, FnDecl *fn)
{
    (void)user;
    (void)home;
    (void)fn;
    return true;
}

/* That takes this many arguments, if there is one. */
static const FnDecl *find_function(const Resolver *r, const char *name, size_t n)
{
    const FnDecl *fn = each_fn(r->a->module, name, takes, &n);
    return fn ? fn : each_fn(r->a->module, name, any, NULL);
}

const KernelDecl *find_kernel(const Resolver *r, const char *name)
{
    const Module *module = r->a->module;
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (text_equal(module->kernels.items[i]->name, name)) {
            return module->kernels.items[i];
        }
    }
    for (size_t i = 0; i < module->broken_kernels.n; i++) {
        if (text_equal(module->broken_kernels.items[i]->name, name)) {
            return module->broken_kernels.items[i];
        }
    }
    return NULL;
}

Definition *find_outer(Resolver *r, const char *name, size_t n_arguments)
{
    const KernelDecl *kernel = find_kernel(r, name);
    const FnDecl *fn = kernel ? NULL : find_function(r, name, n_arguments);
    Builtin builtin;
    DType dtype;
    if (kernel) {
        return outer_name(r, NAME_KERNEL, kernel->name, kernel->span, NULL, kernel);
    }
    if (fn) {
        return outer_name(r, NAME_FN, fn->name, fn->span, fn, NULL);
    }
    if (builtin_find(name, &builtin)) {
        return outer_name(r, NAME_BUILTIN, builtin_name(builtin), SPAN_NONE, NULL, NULL);
    }
    bool is_dtype = dtype_from_name(name, strlen(name), &dtype);
    return is_dtype ? outer_name(r, NAME_DTYPE, dtype_name(dtype), SPAN_NONE, NULL, NULL) : NULL;
}
