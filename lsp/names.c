/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a text, declaration by declaration. */
#include "lsp/names_walk.h"

#include <stdlib.h>
#include <string.h>

/* ---- declarations ---- */

/* The element type's name, which a function's parameter may bind, then the extents. */
static void walk_type(Resolver *r, const Expr *type)
{
    const Expr *base = type && type->kind == EXPR_INDEX ? type->a : type;
    TypeClass type_class;
    DType dtype;
    if (!base || base->kind != EXPR_NAME) {
        return;
    }
    bool known = visible(r, base->name) || type_class_find(base->name, &type_class) ||
                 dtype_from_name(base->name, strlen(base->name), &dtype);
    if (!known && r->fn) {
        define_name(r, NAME_TYPE, base->name, base->span);
    } else if (known) {
        bool binds = r->binds;
        r->binds = false;
        walk(r, base);
        r->binds = binds;
    }
    for (size_t i = 0; type->kind == EXPR_INDEX && i < type->args.n; i++) {
        walk(r, type->args.items[i]);
    }
}

static void define_params(Resolver *r, const ParamList *params, NameKind kind)
{
    for (size_t i = 0; i < params->n; i++) {
        const ParamDecl *param = &params->items[i];
        const char *text = r->a->diags.sources.items[r->a->source].text;
        size_t n = strlen(param->name);
        bool written = n > 0 && param->span.source == r->a->source &&
                       strncmp(text + param->span.start, param->name, n) == 0;
        if (written) { /* the result `out` is not */
            Definition *definition = define_name(r, kind, param->name, param->span);
            definition->param = param;
            definition->typed = true;
        }
    }
}

static void walk_head(Resolver *r, const ParamList *params, const ParamList *results,
                      const Where *where)
{
    for (size_t i = 0; i < where->generics.n; i++) {
        const GenericDecl *generic = &where->generics.items[i];
        define_name(r, NAME_TYPE, generic->name, generic->span);
    }
    for (size_t i = 0; i < where->defs.n; i++) {
        define_name(r, NAME_SIZE, where->defs.items[i].name, where->defs.items[i].span);
    }
    define_params(r, params, NAME_PARAM);
    r->binds = true;
    for (size_t i = 0; i < params->n; i++) {
        walk_type(r, params->items[i].type);
    }
    for (size_t i = 0; i < where->defs.n; i++) {
        walk(r, where->defs.items[i].value);
    }
    r->binds = false;
    for (size_t i = 0; i < params->n; i++) {
        walk(r, params->items[i].fallback);
    }
    define_params(r, results, NAME_RESULT);
    r->binds = r->kernel != NULL;
    for (size_t i = 0; i < results->n; i++) {
        walk_type(r, results->items[i].type);
    }
    r->binds = false;
    for (size_t i = 0; i < where->rules.n; i++) {
        walk(r, where->rules.items[i]);
    }
}

static void walk_kernel(Resolver *r, const KernelDecl *kernel)
{
    r->kernel = kernel;
    r->full_span = kernel->full_span;
    r->stack.n = 0;
    use(r, kernel->span, outer_name(r, NAME_KERNEL, kernel->name, kernel->span, NULL, kernel));
    if (kernel->derivative) {
        walk(r, kernel->derivative);
    } else {
        walk_head(r, &kernel->params, &kernel->results, &kernel->where);
        walk(r, kernel->value);
        walk_block(r, &kernel->body);
    }
    r->kernel = NULL;
}

static void walk_fn(Resolver *r, const FnDecl *fn)
{
    if (fn->span.source != r->a->source) {
        return;
    }
    r->fn = fn;
    r->full_span = fn->full_span;
    r->stack.n = 0;
    if (fn->derivative_of) {
        use(r, fn->span, find_outer(r, fn->derivative_of, 0));
    } else {
        Span span = fn->span;
        span.end = span.start + (uint32_t)strlen(fn->name);
        use(r, span, outer_name(r, NAME_FN, fn->name, fn->span, fn, NULL));
    }
    walk_head(r, &fn->params, &fn->results, &fn->where);
    walk_type(r, fn->result_type);
    walk(r, fn->value);
    walk_block(r, &fn->body);
    r->fn = NULL;
}

/* A size of the kernel by preference, else an index of one of its loops. */
static const Definition *axis_of(const Resolver *r, const KernelDecl *kernel, const char *name)
{
    const Definition *found = NULL;
    for (size_t i = 0; i < r->names->definitions.n; i++) {
        const Definition *definition = r->names->definitions.items[i];
        bool axis = definition->kind == NAME_SIZE || definition->kind == NAME_INDEX;
        if (axis && definition->kernel == kernel && text_equal(definition->name, name) &&
            (!found || definition->kind == NAME_SIZE)) {
            found = definition;
        }
    }
    return found;
}

static void walk_entry(Resolver *r, const KernelDecl *kernel, const EntryDecl *entry)
{
    if (kernel && *entry->sub) {
        use(r, entry->sub_span, axis_of(r, kernel, entry->sub));
    }
}

static void walk_schedule(Resolver *r, const ScheduleDecl *schedule)
{
    const KernelDecl *kernel = find_kernel(r, schedule->kernel);
    r->stack.n = 0;
    if (kernel) {
        use(r, schedule->span,
            outer_name(r, NAME_KERNEL, kernel->name, kernel->span, NULL, kernel));
    }
    for (size_t i = 0; kernel && i < r->names->definitions.n; i++) {
        Definition *definition = r->names->definitions.items[i];
        bool head = definition->kind == NAME_SIZE || definition->kind == NAME_PARAM ||
                    definition->kind == NAME_TYPE;
        if (head && definition->kernel == kernel) {
            ARENA_PUSH(r->arena, &r->stack, definition);
        }
    }
    walk(r, schedule->when);
    for (size_t i = 0; i < schedule->entries.n; i++) {
        walk_entry(r, kernel, &schedule->entries.items[i]);
    }
    for (size_t i = 0; i < schedule->choices.n; i++) {
        walk_entry(r, kernel, &schedule->choices.items[i].entry);
    }
}

static void walk_import(Resolver *r, const ImportDecl *import)
{
    const Diags *diags = &r->a->diags;
    Span file = {import->module ? import->module->source : -1, 0, 0};
    for (size_t i = 0; !import->is_file && i < diags->sources.n; i++) {
        const char *name = arena_printf(r->arena, "<stdlib/%s.tile>", import->path);
        file.source = text_equal(diags->sources.items[i].name, name) ? (int)i : file.source;
    }
    if (file.source >= 0) {
        use(r, import->span, outer_name(r, NAME_FILE, import->path, file, NULL, NULL));
    }
}

static int by_start(const void *x, const void *y)
{
    const Use *a = x, *b = y;
    if (a->span.start != b->span.start) {
        return a->span.start < b->span.start ? -1 : 1;
    }
    return (a->span.end > b->span.end) - (a->span.end < b->span.end);
}

/* An operand of `+=` is walked twice. */
static void sort_uses(Names *names)
{
    if (names->uses.n == 0) {
        return;
    }
    qsort(names->uses.items, names->uses.n, sizeof *names->uses.items, by_start);
    size_t kept = 0;
    for (size_t i = 1; i < names->uses.n; i++) {
        if (by_start(&names->uses.items[kept], &names->uses.items[i]) != 0) {
            names->uses.items[++kept] = names->uses.items[i];
        }
    }
    names->uses.n = kept + 1;
}

Names *names_of(Analysis *a)
{
    Resolver r = {.a = a, .arena = &a->arena, .names = ARENA_NEW(&a->arena, Names)};
    const Module *module = a->module;
    for (size_t i = 0; i < module->imports.n; i++) {
        walk_import(&r, &module->imports.items[i]);
    }
    for (size_t i = 0; i < module->kernels.n; i++) {
        walk_kernel(&r, module->kernels.items[i]);
    }
    for (size_t i = 0; i < module->broken_kernels.n; i++) {
        walk_kernel(&r, module->broken_kernels.items[i]);
    }
    for (size_t i = 0; i < module->fns.n; i++) {
        walk_fn(&r, module->fns.items[i]);
    }
    for (size_t i = 0; i < module->broken_fns.n; i++) {
        walk_fn(&r, module->broken_fns.items[i]);
    }
    for (size_t i = 0; i < module->schedules.n; i++) {
        walk_schedule(&r, module->schedules.items[i]);
    }
    sort_uses(r.names);
    return r.names;
}

/* ---- questions ---- */

const Definition *name_at(const Analysis *a, uint32_t offset, Span *span)
{
    const Use *found = NULL;
    for (size_t i = 0; a->names && i < a->names->uses.n; i++) {
        const Use *use = &a->names->uses.items[i];
        if (use->span.start <= offset && offset <= use->span.end) {
            bool inside = !found || offset < use->span.end;
            found = inside ? use : found;
        }
    }
    if (found && span) {
        *span = found->span;
    }
    return found ? found->definition : NULL;
}

const KernelDecl *kernel_at(const Analysis *a, uint32_t offset)
{
    const Module *module = a->module;
    for (size_t i = 0; module && i < module->kernels.n + module->broken_kernels.n; i++) {
        const KernelDecl *kernel = i < module->kernels.n
                                       ? module->kernels.items[i]
                                       : module->broken_kernels.items[i - module->kernels.n];
        if (kernel->full_span.start <= offset && offset <= kernel->full_span.end) {
            return kernel;
        }
    }
    return NULL;
}
