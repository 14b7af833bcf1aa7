/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a device: blocks in use, and freed blocks that are cached for reuse. A cached
 * block belongs to the stream in whose order it was freed: later work in that stream begins after
 * the earlier use has ended, so reuse needs no synchronization. */
#ifndef TESSERA_RUNTIME_DEVICE_DEVICE_MEMORY_H
#define TESSERA_RUNTIME_DEVICE_DEVICE_MEMORY_H

#include "runtime/device/device.h"

typedef enum MemoryKind {
    MEMORY_PLAIN,  /* the driver's, from and to it */
    MEMORY_PINNED, /* the host's, for copies by the device */
    MEMORY_POOLED, /* used again */
    MEMORY_WORK,   /* used again: intermediates of launches */
    MEMORY_KINDS,
} MemoryKind;

typedef struct MemoryCount {
    size_t blocks, bytes; /* now; bytes as they were asked for */
    size_t most_bytes;
    uint64_t total;
} MemoryCount;

typedef struct MemoryCounts {
    MemoryCount of[MEMORY_KINDS];
    size_t kept, kept_bytes; /* as they were allocated */
    size_t held_bytes;       /* kept ones, and those out that are used again; and at any time: */
    size_t most_held_bytes;
    uint64_t reused;
} MemoryCounts;

/* `stream` is the stream that uses the block. On allocation NULL means that it is not known yet; on
 * release, that no work uses the block any more. If the driver is out of memory, all kept blocks
 * are returned to it and the allocation is tried once more. */
bool memory_alloc(Device *device, MemoryKind kind, size_t bytes, const DeviceStream *stream,
                  void **memory, DeviceError *error);
/* False if no allocated block of this kind has that address. */
bool memory_free(Device *device, MemoryKind kind, void *memory, const DeviceStream *stream);
/* Limits the bytes of freed blocks that are kept; the excess is returned to the driver. */
bool memory_set_cache_limit(Device *device, size_t bytes, DeviceError *error);
/* Records that all work of the stream is done, so that any stream may reuse the blocks which were
 * freed on it. */
void memory_mark_stream_done(Device *device, DeviceStream stream);
/* Does the same for a stream that is being destroyed, after a wait for it if it has such blocks. */
void memory_leave(Device *device, DeviceStream stream);
MemoryCounts memory_counts(const Device *device);

/* An allocated block; memory_list sorts them by allocation. */
typedef struct MemoryBlock {
    void *memory;
    MemoryKind kind;
    size_t bytes;
    uint64_t number; /* counts all allocations of the device from 1 */
} MemoryBlock;
/* Returns the number of allocated blocks and stores up to `most` of them. */
size_t memory_list(const Device *device, MemoryBlock *blocks, size_t most);

/* Returns all memory to the driver, including blocks that callers have not freed. */
void memory_close(Device *device);

#endif
