/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's part of a public context, which libtessera-launch does not have. */
#include "runtime/api/api_objects.h"

#include <string.h>

static void compiler_end(TesseraContext *context)
{
    CompilerState *compiler = context->compiler;
    context_drop(context, compiler->warnings);
    context_drop(context, compiler->formatted);
    context_drop(context, compiler->allowed);
    context_drop(context, compiler->worker);
    context_drop(context, compiler->host);
    context_drop(context, compiler->pins);
    tasks_free(context);
    doctor_free(context);
    cache_free(context);
    arena_free(&compiler->diagnostics_arena);
    context_drop(context, compiler);
}

static bool makes(const char *target)
{
    return target_find(target) != NULL;
}

TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                   TesseraContext **context)
{
    static const ContextHooks hooks = {context_tell_plain, compiler_end, makes};
    TesseraStatus status = context_open(abi, allocator, &hooks, context);
    if (status != TESSERA_OK) {
        return status;
    }
    Allocator from = (*context)->allocator;
    CompilerState *compiler = (*context)->compiler = from.alloc(from.user, sizeof *compiler);
    if (!compiler) {
        tessera_context_free(*context);
        *context = NULL;
        return context_fail(NULL, TESSERA_ENVIRONMENT, 0, "out of memory");
    }
    *compiler = (CompilerState){0};
    arena_init(&compiler->diagnostics_arena, from);
    return TESSERA_OK;
}

/* A program that asks for this name at run time gets the first version of the structures. */
TesseraStatus(tessera_context_new)(const TesseraAllocator *allocator, TesseraContext **context)
{
    return tessera_context_open(1, allocator, context);
}

const char *tessera_warnings(const TesseraContext *context)
{
    return context && context->compiler->warnings ? context->compiler->warnings : "";
}

TesseraStatus tessera_isolate(TesseraContext *context, TesseraIsolate when, const char *worker,
                              double seconds)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    if (when > TESSERA_ISOLATE_ALWAYS || !(seconds >= 0)) {
        return context_usage(context, "%s: no such way, or no such time", __func__);
    }
    CompilerState *compiler = context->compiler;
    context_set(context, &compiler->worker, worker);
    compiler->isolate = when;
    compiler->isolate_seconds = seconds;
    return TESSERA_OK;
}

/* ---- contexts of tasks ---- */

TesseraStatus context_like(TesseraContext *context, const TesseraContext *from)
{
    CompilerState *to = context->compiler;
    const CompilerState *like = from->compiler;
    size_t bytes = like->policy.n_allowed * sizeof *like->allowed;
    if (bytes > 0) {
        to->allowed = context_take(context, bytes);
        if (!to->allowed) {
            return TESSERA_ENVIRONMENT;
        }
        memcpy(to->allowed, like->allowed, bytes);
    }
    to->policy = (DiagPolicy){to->allowed, like->policy.n_allowed, like->policy.deny};
    to->cache_only = like->cache_only;
    to->isolate = like->isolate;
    to->isolate_seconds = like->isolate_seconds;
    context_set(context, &to->worker, like->worker);
    context_set(context, &to->pins, like->pins);
    return tessera_cache_use(context, like->cache_folder, like->cache_limit);
}

void context_take_over(TesseraContext *context, TesseraContext *from)
{
    TesseraContext before = *context;
    CompilerState *to = context->compiler, *of = from->compiler, had = *to;
    if (from->error.status != TESSERA_OK) { /* what went well leaves an earlier error */
        context_forget_orphan();
        context->error = from->error;
        context->message = from->message;
        context->reproducer = from->reproducer;
        from->message = before.message;
        from->reproducer = before.reproducer;
    }
    to->warnings = of->warnings;
    to->diagnostics_arena = of->diagnostics_arena;
    to->diagnostics = of->diagnostics;
    to->n_diagnostics = of->n_diagnostics;
    of->warnings = had.warnings;
    of->diagnostics_arena = had.diagnostics_arena;
    of->diagnostics = had.diagnostics;
    of->n_diagnostics = had.n_diagnostics;
}
