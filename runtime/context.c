/* SPDX-License-Identifier: Apache-2.0 */
/* What a context has besides that launching needs: the compiler's part. */
#include "runtime/runtime.h"

static void compiler_end(TesseraContext *context)
{
    Compiler *compiler = context->compiler;
    context_drop(context, compiler->warnings);
    context_drop(context, compiler->formatted);
    context_drop(context, compiler->allowed);
    doctor_free(context);
    cache_free(context);
    arena_free(&compiler->told);
    context_drop(context, compiler);
}

static bool makes(const char *target)
{
    return target_find(target) != NULL;
}

TesseraStatus tessera_context_new(const TesseraAllocator *allocator, TesseraContext **context)
{
    static const ContextHooks hooks = {context_tell_plain, compiler_end, makes};
    TesseraStatus status = context_open(allocator, &hooks, context);
    if (status != TESSERA_OK) {
        return status;
    }
    Allocator from = (*context)->allocator;
    Compiler *compiler = (*context)->compiler = from.alloc(from.user, sizeof *compiler);
    if (!compiler) {
        tessera_context_free(*context);
        *context = NULL;
        return TESSERA_ENVIRONMENT;
    }
    *compiler = (Compiler){0};
    arena_init(&compiler->told, from);
    return TESSERA_OK;
}

const char *tessera_warnings(const TesseraContext *context)
{
    return context && context->compiler->warnings ? context->compiler->warnings : "";
}

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered)
{
    context_set_error(context, status, 0, rendered);
    context_tell(context, diags);
    return status;
}
