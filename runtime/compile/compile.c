/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler on one screen: text → tensor IR → scheduled IR. codegen_emit makes machine code of
 * the result; loading and launching are in runtime/device. */
#include "runtime/api/error_boundary.h"
#include "runtime/compile/compilation.h"

#include "frontend/messages/frontend_errors.h"
#include "ir/ir_errors.h"
#include "passes/warn_inefficiency.h"
#include "support/clock.h"

static bool choose_target(Compilation *c)
{
    const char *name = c->options.target;
    c->target = name ? target_find(name) : NULL;
    if (name && !c->target) {
        const char *near = nearest_target(name);
        Diag *diag = diag_failure_at(&c->work->diags, DIAG_USAGE, ERR_TARGET_NAME, SPAN_NONE,
                                     "no target '%s'", name);
        if (near) {
            diag_help(&c->work->diags, diag, "did you mean '%s'? `tessera targets` lists all",
                      near);
        } else {
            diag_help(&c->work->diags, diag, "`tessera targets` lists all");
        }
    }
    return !name || c->target;
}

bool compilation_type(Compilation *c, Module **out, const KernelSignature **kernel)
{
    ErrorBoundary *work = c->work;
    const TesseraOptions *options = &c->options;
    Binding *bindings = ARENA_ARRAY(&work->arena, Binding, options->n_bindings);
    for (size_t i = 0; i < options->n_bindings; i++) {
        bindings[i] = (Binding){options->bindings[i].name, options->bindings[i].value};
    }
    c->source = diags_add_source(&work->diags, c->name, c->text, c->n);
    Importer importer = imports_kept(c->imports);
    Module *module = *out = frontend_parse(&work->arena, &work->diags, c->source, &importer);
    *kernel = module ? frontend_find(module, options->kernel) : NULL;
    c->func = *kernel ? frontend_lower(module, *kernel, bindings, options->n_bindings) : NULL;
    return c->func && fingerprint_typed(c, module, *kernel) &&
           strides_apply(c->func, options, c->target) && fingerprint_strided(c);
}

/* Facts come before schedule blocks, whose conditions are about them. */
static bool lower(Compilation *c)
{
    Module *module;
    const KernelSignature *kernel;
    const TesseraOptions *options = &c->options;
    if (!pins_load(c) || !compilation_type(c, &module, &kernel) ||
        !size_facts_apply(c->func, options, c->target)) {
        return false;
    }
    const int64_t *sizes = sizes_by_id(c->func, options->sizes, options->n_sizes);
    const char *target = c->target ? c->target->name : "", *chosen;
    return lines_name(c->func, options->lines, options->n_lines, &chosen) &&
           frontend_schedule(module, kernel, c->func, target, sizes, chosen) &&
           frontend_choices(module, kernel, c->func, target, sizes, &c->choices);
}

Compilation compilation_again(const Compilation *c)
{
    return (Compilation){.work = c->work,
                         .name = c->name,
                         .text = c->text,
                         .n = c->n,
                         .imports = c->imports,
                         .options = c->options};
}

bool compile(Compilation *c)
{
    if (!choose_target(c)) {
        return false;
    }
    double start = clock_cpu_seconds();
    bool good = lower(c);
    debug_took(c, "frontend", clock_cpu_seconds() - start);
    debug_counted(c, "frontend");
    if (!good) {
        return false;
    }
    c->func->target = c->target;
    c->flops = func_flops(c->func, &c->options);
    if (!pins_apply(c) || !schedule_entries_apply(c->func, c->options.lines, c->options.n_lines)) {
        return false;
    }
    if (!debug_after_frontend(c) || !c->target) {
        return true;
    }
    PassHooks hooks = debug_hooks(c);
    if (!passes_run(c->func, &hooks)) {
        return c->stopped;
    }
    lines_warn_unused(c->func);
    warn_waste(c->func);
    return true;
}
