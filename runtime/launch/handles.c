/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the use of freed objects: the most recently freed handles are retained, so that a later
 * use is an error instead of undefined behaviour. */
#include "runtime/launch/launch_context.h"

void *handle_take(TesseraContext *context, size_t bytes)
{
    Handle *handle = context_take(context, bytes);
    if (handle) {
        handle->context = context;
    }
    return handle;
}

void handle_drop(TesseraContext *context, Handle *handle)
{
    Handle **place = &context->freed[context->n_freed++ % MAX_FREED];
    context_drop(context, *place);
    handle->context = context;
    handle->is_freed = true;
    *place = handle;
}

void handles_release(TesseraContext *context)
{
    for (int i = 0; i < MAX_FREED; i++) {
        context_drop(context, context->freed[i]);
        context->freed[i] = NULL;
    }
}

TesseraStatus handle_refuse(const Handle *handle, const char *call, const char *what)
{
    return context_usage(handle->context, "%s: %s has been freed", call, what);
}

TesseraStatus handle_refuse_lost(const Handle *handle, const char *call)
{
    return context_usage(handle->context,
                         "%s: the kernel or the device of the launch has been freed", call);
}
