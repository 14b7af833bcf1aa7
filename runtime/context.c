/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char NO_MEMORY[] = "out of memory";

const char *tessera_version(void)
{
    return TESSERA_VERSION;
}

TesseraStatus tessera_context_new(const TesseraAllocator *allocator, TesseraContext **context)
{
    Allocator from = allocator_default();
    if (!context || (allocator && (!allocator->alloc || !allocator->release))) {
        return TESSERA_USAGE;
    }
    if (allocator) {
        from = (Allocator){allocator->alloc, allocator->release, allocator->user};
    }
    *context = from.alloc(from.user, sizeof **context);
    if (!*context) {
        return TESSERA_ENVIRONMENT;
    }
    memset(*context, 0, sizeof **context);
    (*context)->allocator = from;
    (*context)->error.message = "";
    arena_init(&(*context)->told, from);
    return TESSERA_OK;
}

void context_drop(TesseraContext *context, void *memory)
{
    if (memory) {
        context->allocator.release(context->allocator.user, memory);
    }
}

void *context_take(TesseraContext *context, size_t bytes)
{
    void *memory = context->allocator.alloc(context->allocator.user, bytes);
    if (memory) {
        memset(memory, 0, bytes);
    } else {
        context_fail(context, TESSERA_ENVIRONMENT, 0, NO_MEMORY);
    }
    return memory;
}

void tessera_context_free(TesseraContext *context)
{
    if (context) {
        context_drop(context, context->message);
        context_drop(context, context->reproducer);
        context_drop(context, context->warnings);
        context_drop(context, context->formatted);
        context_drop(context, context->allowed);
        said_free(context);
        doctor_free(context);
        cache_free(context);
        arena_free(&context->told);
        context_drop(context, context);
    }
}

const TesseraError *tessera_error(const TesseraContext *context)
{
    static const TesseraError none = {TESSERA_USAGE, "the context is NULL", 0, NULL};
    return context ? &context->error : &none;
}

const char *tessera_warnings(const TesseraContext *context)
{
    return context && context->warnings ? context->warnings : "";
}

void context_set(TesseraContext *context, char **slot, const char *text)
{
    char *copy = NULL;
    if (text && *text) {
        size_t bytes = strlen(text) + 1;
        copy = context->allocator.alloc(context->allocator.user, bytes);
        if (copy) {
            memcpy(copy, text, bytes);
        }
    }
    context_drop(context, *slot);
    *slot = copy;
}

static TesseraStatus set_error(TesseraContext *context, TesseraStatus status, int driver_code,
                               const char *message)
{
    context_set(context, &context->message, message);
    context_set(context, &context->reproducer, NULL);
    context->error = (TesseraError){
        .status = status,
        .message = context->message ? context->message : NO_MEMORY,
        .driver_code = driver_code,
    };
    return status;
}

TesseraStatus context_fail(TesseraContext *context, TesseraStatus status, int driver_code,
                           const char *message)
{
    if (!context) {
        return status;
    }
    set_error(context, status, driver_code, message);
    context_tell_plain(context, status, 0, context->error.message);
    return status;
}

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered)
{
    set_error(context, status, 0, rendered);
    context_tell(context, diags);
    return status;
}

TesseraStatus context_fail_code(TesseraContext *context, TesseraStatus status, int code,
                                const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (context) {
        set_error(context, status, 0, text);
        context_tell_plain(context, status, code, text);
    }
    return status;
}

TesseraStatus context_usage(TesseraContext *context, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return context_fail(context, TESSERA_USAGE, 0, text);
}

TesseraStatus status_of(DiagClass kind)
{
    switch (kind) {
    case DIAG_SOURCE: return TESSERA_SOURCE;
    case DIAG_USAGE: return TESSERA_USAGE;
    case DIAG_ENVIRONMENT: return TESSERA_ENVIRONMENT;
    case DIAG_FAULT: return TESSERA_FAULT;
    case DIAG_DIFFERENT: return TESSERA_DIFFERENT;
    case DIAG_INTERNAL: break;
    }
    return TESSERA_INTERNAL;
}

TesseraStatus context_device_fail(TesseraContext *context, const DeviceError *error)
{
    return context_fail(context, status_of(error->kind), error->code, error->text);
}
