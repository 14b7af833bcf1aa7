/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler on one screen: compile() goes from text to a module that is loaded on a device. A
 * public call names how far it needs a kernel: tessera_compile the staged IR, a task or a bundle
 * the machine code, the first launch on a device all. A later call continues where an earlier one
 * ended. */
#include "runtime/context/error_boundary.h"
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

#include "frontend/messages/frontend_errors.h"
#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "ir/target/target_card.h"
#include "passes/warn_inefficiency.h"
#include "support/clock.h"

#include <string.h>

/* The card: named behind the target, that of the device for which it is compiled, or the target's
 * default one. */
bool compilation_target(Compilation *c)
{
    Arena *arena = &c->work->arena;
    const char *name = c->options.target, *device = c->options.device;
    const Target *similar = NULL;
    c->target = name ? target_on_card(arena, name, &similar) : NULL;
    if (c->target && device && c->target->family != FAMILY_CPU && !strchr(name, '@')) {
        const SeenDevice *seen = context_seen_device(c->work->context, device);
        c->target = target_of_device(arena, c->target, device, seen ? seen->units : 0,
                                     seen ? seen->clock : 0);
        /* A worker, and variants for other sizes, need not look again. */
        c->options.target = arena_printf(arena, "%s@%s", c->target->name, c->target->machine->name);
    }
    if (!name || c->target) {
        return true;
    }
    const char *like = similar ? NULL : nearest_target(name);
    Diag *diag = diag_failure_at(&c->work->diags, DIAG_USAGE, ERR_TARGET_NAME, SPAN_NONE,
                                 similar ? "no card '%s'" : "no target '%s'", name);
    if (similar) {
        diag_help(&c->work->diags, diag,
                  "cards of %s: %s; or 96x1500: this many multiprocessors, MHz", similar->name,
                  target_cards(arena, similar));
    } else if (like) {
        diag_help(&c->work->diags, diag, "did you mean '%s'? `tessera targets` lists all", like);
    } else {
        diag_help(&c->work->diags, diag, "`tessera targets` lists all");
    }
    return false;
}

static void assume_sorted(Compilation *c)
{
    for (size_t i = 0; c->func && c->sorted && i < c->func->params.n; i++) {
        Param *param = &c->func->params.items[i];
        param->sorted = param->sorted || text_equal(param->name, c->sorted);
    }
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
    assume_sorted(c);
    return c->func && fingerprint_typed(c, module, *kernel) &&
           strides_apply(c->func, options, c->target) && fingerprint_strided(c);
}

Compilation compilation_copy(const Compilation *c)
{
    return (Compilation){.work = c->work,
                         .name = c->name,
                         .text = c->text,
                         .n = c->n,
                         .imports = c->imports,
                         .options = c->options};
}

/* `schedule` and `tune` blocks of the source, as far as their conditions hold. */
static bool apply_schedule_blocks(Compilation *c, Module *module, const KernelSignature *kernel)
{
    const TesseraOptions *options = &c->options;
    const int64_t *sizes = sizes_by_id(c->func, options->sizes, options->n_sizes);
    const char *target = c->target ? c->target->name : "", *chosen;
    return lines_name(c->func, options->lines, options->n_lines, &chosen) &&
           frontend_schedule(module, kernel, c->func, target, sizes, chosen) &&
           frontend_choices(module, kernel, c->func, target, sizes, &c->choices);
}

bool compile(Compilation *c, CompileGoal goal)
{
    if (!c->func) {
        /* Text → AST → typed AST → tensor IR. Facts about sizes come before schedule blocks, whose
         * conditions test them. */
        Module *module;
        const KernelSignature *kernel;
        double start = clock_cpu_seconds();
        if (!compilation_target(c)) {
            return false;
        }
        bool lowered = pins_load(c) && compilation_type(c, &module, &kernel) &&
                       size_facts_apply(c->func, &c->options, c->target) &&
                       apply_schedule_blocks(c, module, kernel);
        debug_report_phase(c, "frontend", clock_cpu_seconds() - start);
        if (!lowered) {
            return false;
        }
        nominal_sizes_choose(c->func);

        /* Schedule entries from outside of the source: pins, and those of the caller. */
        c->func->target = c->target;
        c->flops = func_flops(c->func, &c->options);
        if (!pins_apply(c) ||
            !schedule_entries_apply(c->func, c->options.lines, c->options.n_lines)) {
            return false;
        }
        if (!debug_after_frontend(c) || !c->target) {
            return true; /* the interpreter runs tensor IR */
        }

        /* Tensor IR → staged IR. Whether tiles fit is known after layouts are assigned; while they
         * do not, the passes from `tile` on run again. */
        c->hooks = debug_hooks(c);
        bool done = passes_run_before_tile(c->func, &c->hooks);
        c->retry = done ? retry_begin(c->func, &c->hooks) : NULL;
        while (done && !passes_run_from_tile(c->func, &c->hooks)) {
            done = retry_with_smaller_tiles(c->retry);
        }
        debug_report_retries(c);
        if (!done) {
            return c->stopped;
        }
        lines_warn_unused(c->func);
        warn_waste(c->func);
    }
    if (goal.level == COMPILE_IR || c->stopped) {
        return true;
    }

    /* Staged IR → machine code and launch plan, unless the cache has them. */
    if (!c->has_code || c->code_kind != goal.kind) {
        double start = clock_seconds();
        CachedCode cached = cached_code_find(c, goal.kind);
        bool made = cached.state == CODE_MISSING && generate_code(c, goal.kind, &c->code, &c->plan);
        cached_code_done(c, &cached, made);
        if (!made && cached.state != CODE_FOUND) {
            return false;
        }
        c->has_code = true;
        c->code_kind = goal.kind;
        context_log(c->work->context, TESSERA_LOG_INFO, "%s for %s: machine code %s in %.3f ms",
                    c->func->name, c->target->name, made ? "made" : "taken from the cache",
                    1e3 * (clock_seconds() - start));
    }
    if (goal.level == COMPILE_CODE) {
        return true;
    }

    /* Machine code → a module that is loaded on a device. */
    DeviceImage image;
    return module_image(c, goal.module, &image) && module_open(c, goal.module, &image);
}
