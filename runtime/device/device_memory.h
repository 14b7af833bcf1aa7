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

/* stream: where it is used; NULL: not known yet, or, of what is given back, nothing uses it any
 * more. Where the driver has no more, what is kept goes back to it, and it is asked again. */
bool memory_alloc(Device *device, MemoryKind kind, size_t bytes, const DeviceStream *stream,
                  void **memory, DeviceError *error);
/* False: there is no such memory out. */
bool memory_free(Device *device, MemoryKind kind, void *memory, const DeviceStream *stream);
/* What is kept beyond this goes back to the driver, now and later. */
bool memory_set_cache_limit(Device *device, size_t bytes, DeviceError *error);
/* All work of the stream is done: whoever comes may have what it kept. */
void memory_settle(Device *device, DeviceStream stream);
/* The stream ends: the same, after waiting for it if it has something. */
void memory_leave(Device *device, DeviceStream stream);
MemoryCounts memory_counts(const Device *device);

/* What is out, in the order in which it was asked for. */
typedef struct MemoryBlock {
    void *memory;
    MemoryKind kind;
    size_t bytes;
    uint64_t number; /* of all that were ever asked for, from 1 on */
} MemoryBlock;
/* How many there are; fills up to `most`. */
size_t memory_list(const Device *device, MemoryBlock *blocks, size_t most);

/* Everything back to the driver, what is out, too. */
void memory_close(Device *device);

#endif
