/* SPDX-License-Identifier: Apache-2.0 */
/* A source file as a module: parses it and finds its kernels. */
#include "frontend/messages/frontend_errors.h"
#include "frontend/stdlib_sources.h"
#include "frontend/syntax/ast.h"

#include <string.h>

enum { MAX_BYTES = 64 * 1024 * 1024 };

static Module *parse_standard(Arena *arena, Diags *diags)
{
    Module *standard = ARENA_NEW(arena, Module);
    *standard = (Module){.arena = arena, .diags = diags, .library = true};
    for (size_t i = 0; i < stdlib_count; i++) {
        const StdlibSource *from = &stdlib_sources[i];
        standard->source = diags_add_source(diags, from->name, from->text, from->n);
        standard->first_source = i ? standard->first_source : standard->source;
        parse_module(standard);
    }
    return standard;
}

static void say_twice(Module *module, const char *name, Span first, Span second)
{
    Diag *diag = front_error(module->diags, ERR_DUPLICATE, second, "`%s` is defined twice", name);
    diag_label(module->diags, diag, first, "first here");
}

void check_twice(Module *module)
{
    DType dtype;
    for (size_t i = 0; i < module->fns.n; i++) {
        const FnDecl *fn = module->fns.items[i];
        if (dtype_from_name(fn->name, strlen(fn->name), &dtype)) {
            front_error(module->diags, ERR_DUPLICATE, fn->span, "`%s` is a type", fn->name);
        }
        for (size_t j = 0; j < i; j++) {
            if (text_equal(module->fns.items[j]->name, fn->name)) {
                say_twice(module, fn->name, module->fns.items[j]->span, fn->span);
                break;
            }
        }
    }
    for (size_t i = 0; i < module->kernels.n; i++) {
        const KernelDecl *kernel = module->kernels.items[i];
        for (size_t j = 0; j < i; j++) {
            if (text_equal(module->kernels.items[j]->name, kernel->name)) {
                say_twice(module, kernel->name, module->kernels.items[j]->span, kernel->span);
                break;
            }
        }
    }
}

static const char *nearest_kernel(const Module *module, const char *name)
{
    Nearest nearest = nearest_to(name);
    for (size_t i = 0; i < module->kernels.n; i++) {
        nearest_try(&nearest, module->kernels.items[i]->name);
    }
    return nearest_found(&nearest);
}

static KernelDecl *kernel_called(const Module *module, const char *name)
{
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (text_equal(module->kernels.items[i]->name, name)) {
            return module->kernels.items[i];
        }
    }
    for (size_t i = 0; i < module->derived.n; i++) {
        if (text_equal(module->derived.items[i]->name, name)) {
            return module->derived.items[i];
        }
    }
    return NULL;
}

static void check_schedules(Module *module)
{
    for (size_t i = 0; i < module->schedules.n; i++) {
        const ScheduleDecl *schedule = module->schedules.items[i];
        if (kernel_called(module, schedule->kernel) || module->diags->errors) {
            continue;
        }
        Diag *diag = front_error(module->diags, ERR_KERNEL_NAME, schedule->span,
                                 "no kernel is called `%s`", schedule->kernel);
        const char *similar = nearest_kernel(module, schedule->kernel);
        if (similar) {
            diag_help(module->diags, diag, "did you mean `%s`?", similar);
            diag_fix(module->diags, diag, schedule->span, "%s", similar);
        }
    }
}

/* A declared derivative is of a function or kernel of its file. */
static void check_derivatives(Module *module)
{
    for (size_t i = 0; i < module->fns.n; i++) {
        const FnDecl *rule = module->fns.items[i];
        bool found = !rule->derivative_of || kernel_called(module, rule->derivative_of);
        for (size_t k = 0; k < module->fns.n && !found; k++) {
            found = text_equal(module->fns.items[k]->name, rule->derivative_of);
        }
        found = found || module->broken_fns.n || module->broken_kernels.n;
        if (!found) {
            Diag *diag = front_error(module->diags, ERR_DERIVATIVE, rule->span,
                                     "no function or kernel of this file is called `%s`",
                                     rule->derivative_of);
            diag_help(module->diags, diag,
                      "a derivative is declared in the file of what it is of");
        }
    }
}

Module *frontend_read(Arena *arena, Diags *diags, int source, const Importer *importer)
{
    Module *module = ARENA_NEW(arena, Module);
    ModuleSet *set = ARENA_NEW(arena, ModuleSet);
    *set = (ModuleSet){.importer = importer};
    *module = (Module){.arena = arena, .diags = diags, .source = source, .set = set};
    if (diags->sources.items[source].n > MAX_BYTES) {
        front_error(diags, ERR_SOURCE_SIZE, (Span){source, 0, 0}, "a source has at most 64 MiB");
        return module;
    }
    module->standard = parse_standard(arena, diags);
    parse_module(module);
    check_twice(module);
    load_imports(module);
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (complete_derived(module, module->kernels.items[i])) {
            make_signature(module, module->kernels.items[i]);
        }
    }
    check_derivatives(module);
    check_schedules(module);
    return module;
}

Module *frontend_parse(Arena *arena, Diags *diags, int source, const Importer *importer)
{
    int errors = diags->errors;
    Module *module = frontend_read(arena, diags, source, importer);
    return diags->errors > errors ? NULL : module;
}

void frontend_observe(Module *module, const TypeObserver *observer)
{
    module->observer = observer;
}

size_t frontend_kernel_count(const Module *module)
{
    return module->kernels.n;
}

const KernelSignature *frontend_kernel(const Module *module, size_t n)
{
    return &module->kernels.items[n]->signature;
}

const KernelDecl *kernel_of_signature(const Module *module, const KernelSignature *signature)
{
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (&module->kernels.items[i]->signature == signature) {
            return module->kernels.items[i];
        }
    }
    for (size_t i = 0; i < module->derived.n; i++) {
        if (&module->derived.items[i]->signature == signature) {
            return module->derived.items[i];
        }
    }
    return NULL;
}

static const char *kernel_names(const Module *module)
{
    Text names = text_new(module->arena);
    for (size_t i = 0; i < module->kernels.n && i < 16; i++) {
        text_printf(&names, "%s`%s`", i ? ", " : "", module->kernels.items[i]->name);
    }
    return names.data;
}

static const KernelSignature *find_only(Module *module)
{
    if (module->kernels.n == 1) {
        return &module->kernels.items[0]->signature;
    }
    const char *name = module->diags->sources.items[module->source].name;
    Diag *diag =
        diag_failure_at(module->diags, DIAG_USAGE, ERR_WHICH_KERNEL, SPAN_NONE, "%s has %s", name,
                        module->kernels.n ? "several kernels" : "no kernel");
    if (module->kernels.n) {
        diag_help(module->diags, diag, "name one of %s", kernel_names(module));
    }
    return NULL;
}

const KernelSignature *frontend_find(Module *module, const char *name)
{
    if (!name) {
        return find_only(module);
    }
    const KernelDecl *kernel = kernel_called(module, name);
    if (kernel) {
        return &kernel->signature;
    }
    if (strchr(name, '(')) { /* vjp(f) */
        Expr *expr = parse_derivative_text(module, name);
        kernel = expr ? find_derived(module, expr) : NULL;
        return kernel ? &kernel->signature : NULL;
    }
    if (names_rank(name)) { /* f[3] */
        kernel = find_of_rank(module, name);
        return kernel ? &kernel->signature : NULL;
    }
    Diag *diag = diag_failure_at(module->diags, DIAG_USAGE, ERR_NO_KERNEL, SPAN_NONE,
                                 "no kernel is called `%s`", name);
    const char *similar = nearest_kernel(module, name);
    if (similar) {
        diag_help(module->diags, diag, "did you mean `%s`?", similar);
    } else if (module->kernels.n) {
        diag_help(module->diags, diag, "there are %s", kernel_names(module));
    }
    return NULL;
}

const char *frontend_definition(const Module *module, const char *kernel, const char *size,
                                size_t *n)
{
    const KernelDecl *decl = kernel_called(module, kernel);
    for (size_t i = 0; decl && i < decl->where.defs.n; i++) {
        const SizeDef *def = &decl->where.defs.items[i];
        if (text_equal(def->name, size)) {
            Span span = def->value->span;
            *n = span.end - span.start;
            return module->diags->sources.items[span.source].text + span.start;
        }
    }
    return NULL;
}

const int64_t *frontend_allowed(const Module *module, const KernelSignature *kernel,
                                const char *size, size_t *n)
{
    *n = 0;
    const KernelDecl *decl = kernel_called(module, kernel->name);
    for (size_t i = 0; decl && i < decl->sets.n; i++) {
        if (text_equal(decl->sets.items[i].size, size)) {
            *n = decl->sets.items[i].n;
            return decl->sets.items[i].values;
        }
    }
    return NULL;
}
