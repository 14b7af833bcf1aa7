/* SPDX-License-Identifier: Apache-2.0 */
/* A device's memory: who has how much of it, and what nobody gave back. */
#include "runtime/launch/context.h"

#include <string.h>

/* Room for one more. */
static bool grow(TesseraDevice *device)
{
    if (device->memory.allocations < device->capacity) {
        return true;
    }
    size_t capacity = device->capacity ? 2 * device->capacity : 16;
    Allocation *bigger = context_take(device->context, capacity * sizeof *bigger);
    if (!bigger) {
        return false;
    }
    if (device->allocations) {
        memcpy(bigger, device->allocations, device->memory.allocations * sizeof *bigger);
    }
    context_drop(device->context, device->allocations);
    device->allocations = bigger;
    device->capacity = capacity;
    return true;
}

TesseraStatus tessera_alloc(TesseraDevice *device, size_t bytes, void **memory)
{
    DeviceError error;
    if (memory) {
        *memory = NULL;
    }
    if (!device || !memory) {
        return context_null(device ? device->context : NULL, __func__,
                            device ? "memory" : "device");
    }
    if (!grow(device)) {
        return TESSERA_ENVIRONMENT;
    }
    if (!device->device->ops->alloc(device->device, bytes, memory, &error)) {
        return context_device_fail(device->context, &error);
    }
    TesseraMemory *now = &device->memory;
    device->allocations[now->allocations++] = (Allocation){*memory, bytes};
    now->bytes += bytes;
    now->most_bytes = now->bytes > now->most_bytes ? now->bytes : now->most_bytes;
    now->total++;
    return TESSERA_OK;
}

/* What was allocated last is most often what is released first. */
static void forget(TesseraDevice *device, const void *memory)
{
    TesseraMemory *now = &device->memory;
    for (size_t i = now->allocations; i > 0; i--) {
        if (device->allocations[i - 1].memory == memory) {
            now->bytes -= device->allocations[i - 1].bytes;
            device->allocations[i - 1] = device->allocations[--now->allocations];
            return;
        }
    }
}

void tessera_release(TesseraDevice *device, void *memory)
{
    if (device && memory) {
        forget(device, memory);
        device->device->ops->release(device->device, memory);
    }
}

TesseraStatus tessera_memory(TesseraDevice *device, TesseraMemory *memory)
{
    if (!device || !memory) {
        return context_null(device ? device->context : NULL, __func__,
                            device ? "memory" : "device");
    }
    *memory = device->memory;
    return TESSERA_OK;
}

void memory_close(TesseraDevice *device)
{
    TesseraMemory *left = &device->memory;
    if (left->allocations > 0) {
        context_log(device->context, TESSERA_LOG_WARNING,
                    "%s: %zu allocations of %zu bytes together were not released",
                    device->info.name, left->allocations, left->bytes);
    }
    for (size_t i = 0; i < left->allocations; i++) {
        device->device->ops->release(device->device, device->allocations[i].memory);
    }
    context_drop(device->context, device->allocations);
}
