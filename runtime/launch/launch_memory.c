/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions about the memory of a device: how much is used and by whom, and which
 * allocations were never freed. */
#include "runtime/device/device_memory.h"

#include "runtime/launch/launch_context.h"

enum { MAX_LISTED = 8 }; /* of what was not released, one by one */

static const char *const CALLS[MEMORY_KINDS] = {
    [MEMORY_PLAIN] = "tessera_alloc",
    [MEMORY_PINNED] = "tessera_alloc_host",
    [MEMORY_POOLED] = "tessera_pool_alloc",
    [MEMORY_WORK] = "a launch's workspace",
};

static TesseraStatus take(TesseraDevice *device, const char *call, MemoryKind kind, size_t bytes,
                          const DeviceStream *stream, void **memory)
{
    DeviceError error;
    if (memory) {
        *memory = NULL;
    }
    if (!device || !memory) {
        return context_null(device ? device->context : NULL, call, device ? "memory" : "device");
    }
    return memory_alloc(device->device, kind, bytes, stream, memory, &error)
               ? TESSERA_OK
               : context_device_fail(device->context, &error);
}

TesseraStatus tessera_alloc(TesseraDevice *device, size_t bytes, void **memory)
{
    REFUSE_FREED(device);
    return take(device, __func__, MEMORY_PLAIN, bytes, NULL, memory);
}

TesseraStatus tessera_alloc_host(TesseraDevice *device, size_t bytes, void **memory)
{
    REFUSE_FREED(device);
    return take(device, __func__, MEMORY_PINNED, bytes, NULL, memory);
}

TesseraStatus tessera_pool_alloc(TesseraDevice *device, size_t bytes, void *stream, void **memory)
{
    REFUSE_FREED(device);
    return take(device, __func__, MEMORY_POOLED, bytes, &stream, memory);
}

/* What is not out is left alone: giving it to the driver would free somebody else's. */
static void give(TesseraDevice *device, const char *call, MemoryKind kind, void *memory)
{
    if (device && memory && !memory_free(device->device, kind, memory, NULL)) {
        context_log(device->context, TESSERA_LOG_WARNING,
                    "%s: %p is not memory of %s, or was released before", call, memory,
                    CALLS[kind]);
    }
}

void tessera_release(TesseraDevice *device, void *memory)
{
    ANSWER_FREED(device, );
    give(device, __func__, MEMORY_PLAIN, memory);
}

void tessera_release_host(TesseraDevice *device, void *memory)
{
    ANSWER_FREED(device, );
    give(device, __func__, MEMORY_PINNED, memory);
}

TesseraStatus tessera_pool_release(TesseraDevice *device, void *memory, void *stream)
{
    REFUSE_FREED(device);
    if (!device) {
        return context_null(NULL, __func__, "device");
    }
    if (!memory || memory_free(device->device, MEMORY_POOLED, memory, &stream)) {
        return TESSERA_OK;
    }
    return context_usage(device->context, "%s: %p is not memory of %s, or was released before",
                         __func__, memory, CALLS[MEMORY_POOLED]);
}

TesseraStatus tessera_pool_keep(TesseraDevice *device, size_t bytes)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device) {
        return context_null(NULL, __func__, "device");
    }
    return memory_set_cache_limit(device->device, bytes, &error)
               ? TESSERA_OK
               : context_device_fail(device->context, &error);
}

TesseraStatus tessera_memory(TesseraDevice *device, TesseraMemory *memory)
{
    REFUSE_FREED(device);
    if (!device || !memory) {
        return context_null(device ? device->context : NULL, __func__,
                            device ? "memory" : "device");
    }
    MemoryCounts counts = memory_counts(device->device);
    const MemoryCount *plain = &counts.of[MEMORY_PLAIN], *pinned = &counts.of[MEMORY_PINNED];
    const MemoryCount *pooled = &counts.of[MEMORY_POOLED], *work = &counts.of[MEMORY_WORK];
    *memory = (TesseraMemory){
        .allocations = plain->blocks,
        .bytes = plain->bytes,
        .most_bytes = plain->most_bytes,
        .total = plain->total,
        .pinned = pinned->blocks,
        .pinned_bytes = pinned->bytes,
        .pooled = pooled->blocks,
        .pooled_bytes = pooled->bytes,
        .workspaces = work->blocks,
        .workspace_bytes = work->bytes,
        .kept = counts.kept,
        .kept_bytes = counts.kept_bytes,
        .most_pool_bytes = counts.most_held_bytes,
        .pool_total = pooled->total + work->total,
        .reused = counts.reused,
    };
    return TESSERA_OK;
}

/* ---- what was not given back ---- */

TesseraStatus tessera_memory_list(TesseraDevice *device, const TesseraAllocation **list, size_t *n)
{
    if (list) {
        *list = NULL;
    }
    REFUSE_FREED(device);
    const char *null = NULL_ARGUMENT({device, "device"}, {list, "list"}, {n, "n"});
    if (null) {
        return context_null(device ? device->context : NULL, __func__, null);
    }
    *n = memory_list(device->device, NULL, 0);
    MemoryBlock *blocks = context_take(device->context, (*n + 1) * sizeof *blocks);
    TesseraAllocation *made = context_take(device->context, (*n + 1) * sizeof *made);
    if (!blocks || !made) {
        context_drop(device->context, blocks);
        context_drop(device->context, made);
        *n = 0;
        return TESSERA_ENVIRONMENT;
    }
    memory_list(device->device, blocks, *n);
    for (size_t i = 0; i < *n; i++) {
        made[i] = (TesseraAllocation){blocks[i].memory, blocks[i].bytes, blocks[i].number,
                                      CALLS[blocks[i].kind]};
    }
    context_drop(device->context, blocks);
    context_drop(device->context, device->listed);
    *list = device->listed = made;
    return TESSERA_OK;
}

/* Without taking memory: this may be the end of a program that has none. */
void memory_report(TesseraDevice *device)
{
    MemoryBlock first[MAX_LISTED];
    MemoryCounts counts = memory_counts(device->device);
    size_t n = 0, bytes = 0;
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        n += counts.of[kind].blocks;
        bytes += counts.of[kind].bytes;
    }
    context_drop(device->context, device->listed);
    if (n == 0) {
        return;
    }
    context_log(device->context, TESSERA_LOG_WARNING,
                "%s: %zu allocations of %zu bytes together were not released", device->info.name, n,
                bytes);
    size_t n_listed = memory_list(device->device, first, MAX_LISTED);
    for (size_t i = 0; i < n_listed && i < MAX_LISTED; i++) {
        context_log(device->context, TESSERA_LOG_WARNING, "  %s: %zu bytes at %p, number %llu",
                    CALLS[first[i].kind], first[i].bytes, first[i].memory,
                    (unsigned long long)first[i].number);
    }
}
