/* SPDX-License-Identifier: Apache-2.0 */
/* The public context as far as launching needs it: memory, the error of the last call, and the
 * log. It also keeps the error of a call that had no context. */
#include "runtime/launch/launch_context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char NO_MEMORY[] = "out of memory";

/* The failure of a call that had no context to keep it: of this thread, and older than no other. So
 * tessera_error never has an older one in its place. */
static _Thread_local struct {
    bool is_last;
    TesseraError error;
    char text[256];
} orphan;

static TesseraStatus fail_without_context(TesseraStatus status, const char *message)
{
    snprintf(orphan.text, sizeof orphan.text, "%.255s", message);
    orphan.error = (TesseraError){.status = status, .message = orphan.text};
    orphan.is_last = true;
    return status;
}

void context_forget_orphan(void)
{
    orphan.is_last = false;
}

const char *tessera_version(void)
{
    return TESSERA_VERSION;
}

TesseraStatus context_open(int abi, const TesseraAllocator *allocator, const ContextHooks *hooks,
                           TesseraContext **context)
{
    Allocator from = allocator_default();
    if (context) {
        *context = NULL;
    }
    if (abi < 1 || abi > TESSERA_ABI) {
        return context_fail(NULL, abi < 1 ? TESSERA_USAGE : TESSERA_ENVIRONMENT, 0,
                            abi < 1 ? "tessera_context_open: no such version of the structures"
                                    : "the library is older than the header that the program was "
                                      "compiled with");
    }
    if (!context || (allocator && (!allocator->alloc || !allocator->release))) {
        return context_usage(NULL, "tessera_context_open: %s is NULL",
                             context ? "a function of the allocator" : "context");
    }
    if (allocator) {
        from = (Allocator){allocator->alloc, allocator->release, allocator->user};
    }
    *context = from.alloc(from.user, sizeof **context);
    if (!*context) {
        return context_fail(NULL, TESSERA_ENVIRONMENT, 0, NO_MEMORY);
    }
    **context =
        (TesseraContext){.allocator = from, .abi = abi, .error = {.message = ""}, .hooks = hooks};
    return TESSERA_OK;
}

void tessera_context_free(TesseraContext *context)
{
    if (context) {
        if (context->compiler) {
            context->hooks->end(context);
        }
        context_drop(context, context->message);
        context_drop(context, context->reproducer);
        kernel_messages_free(context);
        handles_release(context);
        context_drop(context, context);
    }
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

const TesseraError *tessera_error(const TesseraContext *context)
{
    static const TesseraError none = {TESSERA_USAGE, "the context is NULL", 0, NULL};
    if (orphan.is_last) {
        return &orphan.error;
    }
    return context ? &context->error : &none;
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

TesseraStatus context_set_error(TesseraContext *context, TesseraStatus status, int driver_code,
                                const char *message)
{
    context_forget_orphan();
    context_set(context, &context->message, message);
    context_set(context, &context->reproducer, NULL);
    context->error = (TesseraError){
        .status = status,
        .message = context->message ? context->message : NO_MEMORY,
        .driver_code = driver_code,
    };
    return status;
}

void context_tell_code(TesseraContext *context, TesseraStatus status, int code)
{
    if (context->hooks) {
        context->hooks->tell(context, status, code, context->error.message);
    }
}

TesseraStatus context_fail(TesseraContext *context, TesseraStatus status, int driver_code,
                           const char *message)
{
    if (!context) {
        return fail_without_context(status, message);
    }
    context_set_error(context, status, driver_code, message);
    context_tell_code(context, status, 0);
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
    if (!context) {
        return fail_without_context(status, text);
    }
    context_set_error(context, status, 0, text);
    context_tell_code(context, status, code);
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

/* ---- the log ---- */

TesseraStatus tessera_log(TesseraContext *context, TesseraLog *log, void *user)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    context->log = log;
    context->log_user = user;
    return TESSERA_OK;
}

void context_log(TesseraContext *context, TesseraLogLevel level, const char *format, ...)
{
    char text[512];
    if (context->log) {
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        context->log(context->log_user, level, text);
    }
}
