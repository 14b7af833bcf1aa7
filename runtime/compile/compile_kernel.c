/* SPDX-License-Identifier: Apache-2.0 */
/* Creates kernels: one compilation each, and a second one without pins if the pinned schedule does
 * not fit. */
#include "runtime/compile/kernel_objects.h"
#include "runtime/context/compiler_context.h"

#include "ir/ir_errors.h"
#include "support/clock.h"

#include <stdio.h>

typedef struct CompileTask {
    TesseraKernel *kernel;
    const TesseraProgram *program;
    const TesseraOptions *options;
    PinLookup pinned;
    const char *refused; /* what was wrong with pins that were tried before; NULL: nothing was */
} CompileTask;

static bool compile_task(void *user)
{
    CompileTask *task = user;
    TesseraKernel *kernel = task->kernel;
    Compilation *c = &kernel->compilation;
    *c = (Compilation){.work = &kernel->work,
                       .name = task->program->name,
                       .text = task->program->text,
                       .n = task->program->n,
                       .pinned = task->pinned};
    c->imports = imports_copy(&kernel->work.arena, &task->program->imports);
    options_copy(&kernel->work.arena, task->options, &c->options);
    if (c->pinned.bucket) {
        c->pinned.bucket = arena_strdup(&kernel->work.arena, c->pinned.bucket);
    }
    if (c->pinned.text) {
        c->pinned.file = arena_strdup(&kernel->work.arena, c->pinned.file);
        c->pinned.text = arena_strndup(&kernel->work.arena, c->pinned.text, c->pinned.n);
    }
    c->name = arena_strdup(&kernel->work.arena, c->name);
    c->text = arena_strndup(&kernel->work.arena, c->text, c->n);
    if (!compile(c, (CompileGoal){COMPILE_IR}) || kernel->work.diags.errors > 0) {
        return false; /* warnings that are errors, too */
    }
    if (task->refused) {
        Diag *diag = diag_warning(&kernel->work.diags, ERR_PINS_UNUSED, SPAN_NONE,
                                  "a pin of %s does not apply here and is ignored", c->func->name);
        diag_note(&kernel->work.diags, diag, "%s", task->refused);
        if (kernel->work.diags.errors > 0) {
            return false;
        }
    }
    signature_of_func(c->func, &kernel->signature);
    Text warnings = text_new(&kernel->work.arena);
    if (kernel->work.diags.list.n > 0) {
        diags_render(&kernel->work.diags, &warnings);
    }
    context_set(kernel->work.context, &kernel->work.context->compiler->warnings, warnings.data);
    context_store_diagnostics(kernel->work.context, &kernel->work.diags);
    bool lost =
        kernel->work.diags.list.n > 0 && (!kernel->work.context->compiler->warnings ||
                                          kernel->work.context->compiler->n_diagnostics == 0);
    if (lost) {
        diag_failure(&kernel->work.diags, DIAG_ENVIRONMENT, "out of memory");
    }
    return !lost;
}

static void compile_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((CompileTask *)user)->kernel->compilation, out);
}

static TesseraStatus make(TesseraContext *context, CompileTask *task)
{
    TesseraKernel *kernel = task->kernel = handle_take(context, sizeof *kernel);
    if (!kernel) {
        return TESSERA_ENVIRONMENT;
    }
    work_init(&kernel->work, context);
    return error_boundary_run(&kernel->work, compile_task, compile_reproducer, task);
}

/* What was said first: a line, without the source's. */
static char *first_message(TesseraContext *context, const Diags *diags)
{
    char *stored = NULL, buffer[512];
    for (size_t i = 0; i < diags->list.n && !stored; i++) {
        const Diag *diag = &diags->list.items[i];
        SourceLoc place = diag_source_loc(diags, diag->span);
        if (diag->severity == SEVERITY_ERROR && place.line > 0) {
            snprintf(buffer, sizeof buffer, "%s:%d: %s", place.file, place.line, diag->message);
        } else {
            snprintf(buffer, sizeof buffer, "%s", diag->message);
        }
        context_set(context, &stored, diag->severity == SEVERITY_ERROR ? buffer : NULL);
    }
    return stored;
}

/* Pins make nothing impossible: where their lines do not hold the compiler derives all again. */
static TesseraStatus make_or_derive(TesseraContext *context, CompileTask *task)
{
    TesseraStatus status = make(context, task);
    bool pinned = task->kernel && task->kernel->compilation.pinned.taken;
    bool refused = status == TESSERA_SOURCE || status == TESSERA_USAGE;
    if (status == TESSERA_OK || !pinned || !refused || task->pinned.bucket) {
        return status;
    }
    char *stored = first_message(context, &task->kernel->work.diags);
    tessera_kernel_free(task->kernel);
    task->pinned.forbidden = true;
    task->refused = stored ? stored : "";
    status = make(context, task);
    context_drop(context, stored);
    return status;
}

static TesseraStatus make_kernel(TesseraContext *context, CompileTask *task, TesseraKernel **out)
{
    double start = clock_seconds();
    TesseraStatus status = make_or_derive(context, task);
    if (status != TESSERA_OK) {
        tessera_kernel_free(task->kernel);
        return status;
    }
    context_log(context, TESSERA_LOG_INFO, "%s for %s: compiled in %.1f ms",
                task->kernel->signature.name, task->options->target,
                1e3 * (clock_seconds() - start));
    *out = task->kernel;
    return TESSERA_OK;
}

TesseraStatus kernel_make(TesseraContext *context, TesseraProgram *program,
                          const TesseraOptions *options, TesseraKernel **out)
{
    return make_kernel(context, &(CompileTask){.program = program, .options = options}, out);
}

TesseraStatus kernel_remake(TesseraContext *context, TesseraProgram *program,
                            const TesseraOptions *options, const PinLookup *pinned,
                            TesseraKernel **out)
{
    CompileTask task = {.program = program, .options = options, .pinned = pins_copy(pinned)};
    return make_kernel(context, &task, out);
}

TesseraStatus kernel_make_pinned(TesseraKernel *like, const char *bucket,
                                 const TesseraOptions *options, TesseraKernel **out)
{
    const Compilation *c = &like->compilation;
    TesseraProgram program = {.name = c->name, .text = c->text, .n = c->n, .imports = *c->imports};
    CompileTask task = {.program = &program, .options = options, .pinned = pins_copy(&c->pinned)};
    task.pinned.bucket = bucket;
    return make_kernel(like->work.context, &task, out);
}

TesseraStatus kernel_make_vjp(TesseraKernel *of, const char *const *by, size_t n_by,
                              TesseraKernel **out)
{
    const Compilation *c = &of->compilation;
    TesseraOptions options = c->options;
    TesseraProgram program = {.name = c->name, .text = c->text, .n = c->n, .imports = *c->imports};
    Text name = text_new(&of->work.arena);
    text_printf(&name, "vjp(%s", options.kernel ? options.kernel : c->func->name);
    for (size_t i = 0; i < n_by; i++) {
        text_printf(&name, ", %s", by[i]);
    }
    text_char(&name, ')');
    options.kernel = name.data;
    options.n_args = options.n_lines = 0;
    CompileTask task = {.program = &program, .options = &options};
    return make_kernel(of->work.context, &task, out);
}

void tessera_kernel_free(TesseraKernel *kernel)
{
    if (!kernel || handle_is_freed(&kernel->handle)) {
        return;
    }
    TesseraContext *context = kernel->work.context;
    while (kernel->variants) {
        TesseraKernel *variant = kernel->variants;
        kernel->variants = variant->next;
        tessera_kernel_free(variant);
    }
    for (DeviceCode *at = kernel->devices; at; at = at->next) {
        loaded_end(at->device, &at->loaded);
        if (at->jit) {
            at->codegen->jit_free(at->jit);
        }
    }
    work_free(&kernel->work);
    context_drop(context, kernel->bucket);
    handle_drop(context, &kernel->handle);
}
