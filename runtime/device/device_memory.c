/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator of a device. Freed blocks are kept per size class and stream and are
 * reused without a driver call; a hash table by address finds the block that a caller frees. */
#include "runtime/device/device_memory.h"

#include <stdlib.h>

/* Blocks that are kept after their release have one of eight sizes per power of two: at most an
 * eighth of a block is unused, and blocks of one size replace each other. */
enum { MIN_BITS = 9, STEP_BITS = 3, SIZES = (64 - MIN_BITS) << STEP_BITS, MAX_BUCKETS = 64 };
enum { KEEP_BYTES = 256 << 20 };

typedef struct Block Block;
struct Block {
    Block *next;
    MemoryBlock is;
    size_t allocated;    /* as allocated */
    bool settled;        /* no stream uses it any more */
    DeviceStream stream; /* if kept and not settled: the stream that freed it */
};

typedef struct Memory {
    MemoryCounts counts;
    size_t keep;
    uint64_t numbers;
    Block *kept[SIZES];
    size_t unsettled; /* kept blocks that their stream may still use */
    Block **out;      /* by address */
    size_t n_buckets, n_out;
} Memory;

/* ---- allocated blocks, by address ---- */

static size_t bucket_of(const Memory *m, const void *memory)
{
    uint64_t bits = (uint64_t)(uintptr_t)memory * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(bits >> 32) & (m->n_buckets - 1);
}

/* Doubles the number of buckets; if there is no memory for that, the chains become longer. */
static bool grow(Device *device, Memory *m)
{
    size_t before = m->n_buckets, n = before ? 2 * before : MAX_BUCKETS;
    Block **old = m->out, **bigger = device_host_alloc(device, n * sizeof(Block *));
    if (!bigger) {
        return before > 0;
    }
    m->out = bigger;
    m->n_buckets = n;
    for (size_t i = 0; i < before; i++) {
        for (Block *block = old[i], *next; block; block = next) {
            size_t at = bucket_of(m, block->is.memory);
            next = block->next;
            block->next = bigger[at];
            bigger[at] = block;
        }
    }
    device_host_free(device, old);
    return true;
}

static Block *remove_out(Memory *m, MemoryKind kind, const void *memory)
{
    for (Block **at = &m->out[bucket_of(m, memory)]; *at; at = &(*at)->next) {
        if ((*at)->is.memory == memory && (*at)->is.kind == kind) {
            Block *block = *at;
            *at = block->next;
            m->n_out--;
            return block;
        }
    }
    return NULL;
}

/* ---- counts ---- */

static bool is_reused(MemoryKind kind)
{
    return kind == MEMORY_POOLED || kind == MEMORY_WORK;
}

/* ---- kept blocks ---- */

/* The index and the bytes of the size class. False if `bytes` exceed the address space. */
static bool size_of(size_t bytes, size_t *nth, size_t *allocated)
{
    size_t least = (size_t)1 << MIN_BITS, above = bytes > least ? bytes - 1 : least - 1;
    unsigned int top = 63 - (unsigned int)__builtin_clzll(above); /* 2^top <= above */
    unsigned int shift = top - STEP_BITS;
    size_t step = (size_t)1 << shift, steps = (above >> shift) + 1;
    *nth = ((size_t)(top + 1 - MIN_BITS) << STEP_BITS) + steps - ((size_t)1 << STEP_BITS) - 1;
    return bytes <= SIZE_MAX / 2 && !__builtin_mul_overflow(steps, step, allocated) && *nth < SIZES;
}

static Block *remove_kept(Memory *m, Block **at)
{
    Block *block = *at;
    *at = block->next;
    m->counts.kept--;
    m->counts.kept_bytes -= block->allocated;
    m->unsettled -= !block->settled;
    return block;
}

static Block *find_kept(Memory *m, size_t nth, const DeviceStream *stream)
{
    for (Block **at = &m->kept[nth]; *at; at = &(*at)->next) {
        if ((*at)->settled || (stream && (*at)->stream == *stream)) {
            return remove_kept(m, at);
        }
    }
    return NULL;
}

static void release(Device *device, Block *block)
{
    if (block->is.kind == MEMORY_PINNED) {
        device->ops->streams->unpin(device, block->is.memory);
    } else {
        device->ops->release(device, block->is.memory);
    }
    device_host_free(device, block);
}

/* Returns kept blocks to the driver, the largest first, until at most `keep` bytes are kept. */
static void shrink(Device *device, Memory *m, size_t keep)
{
    for (size_t nth = SIZES; nth-- > 0 && m->counts.kept_bytes > keep;) {
        while (m->kept[nth] && m->counts.kept_bytes > keep) {
            Block *block = remove_kept(m, &m->kept[nth]);
            m->counts.held_bytes -= block->allocated;
            release(device, block);
        }
    }
}

static void keep(Device *device, Memory *m, Block *block, const DeviceStream *stream)
{
    size_t nth, allocated;
    if (block->allocated > m->keep) {
        m->counts.held_bytes -= block->allocated;
        release(device, block);
        return;
    }
    size_of(block->allocated, &nth, &allocated);
    block->settled = !stream || device->ops->points; /* a launch on the host returns when done */
    block->stream = stream ? *stream : NULL;
    block->next = m->kept[nth];
    m->kept[nth] = block;
    m->counts.kept++;
    m->counts.kept_bytes += block->allocated;
    m->unsettled += !block->settled;
    shrink(device, m, m->keep);
}

/* ---- allocation ---- */

static Memory *memory_of(Device *device, DeviceError *error)
{
    Memory *m = device->memory;
    if (!m) {
        m = device_host_alloc(device, sizeof *m);
        if (!m) {
            device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
            return NULL;
        }
        m->keep = KEEP_BYTES;
        device->memory = m;
    }
    return m;
}

static Block *new_block(Device *device, Memory *m, MemoryKind kind, size_t allocated,
                        DeviceError *error)
{
    Block *block = NULL;
    if (m->n_out < m->n_buckets || grow(device, m)) {
        block = device_host_alloc(device, sizeof *block);
    }
    if (!block) {
        device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
        return NULL;
    }
    block->is.kind = kind;
    block->allocated = allocated;
    /* If the driver is out of memory, kept blocks are returned to it before a second attempt. */
    void **memory = &block->is.memory;
    bool made = kind == MEMORY_PINNED ? device->ops->streams->pin(device, allocated, memory, error)
                                      : device->ops->alloc(device, allocated, memory, error);
    if (!made && kind != MEMORY_PINNED && m->counts.kept > 0) {
        shrink(device, m, 0);
        made = device->ops->alloc(device, allocated, memory, error);
    }
    if (!made) {
        device_host_free(device, block);
        return NULL;
    }
    size_t bytes = is_reused(kind) ? allocated : 0;
    MemoryCounts *counts = &m->counts;
    counts->held_bytes += bytes;
    if (counts->held_bytes > counts->most_held_bytes) {
        counts->most_held_bytes = counts->held_bytes;
    }
    return block;
}

bool memory_alloc(Device *device, MemoryKind kind, size_t bytes, const DeviceStream *stream,
                  void **memory, DeviceError *error)
{
    Memory *m = memory_of(device, error);
    size_t nth = 0, allocated = bytes;
    Block *block = NULL;
    *memory = NULL;
    if (m && is_reused(kind)) {
        if (!size_of(bytes, &nth, &allocated)) {
            return device_fail(error, DIAG_ENVIRONMENT, 0, "no memory has %zu bytes", bytes);
        }
        block = find_kept(m, nth, stream);
        m->counts.reused += block != NULL;
    }
    if (m && !block) {
        block = new_block(device, m, kind, allocated, error);
    }
    if (!block) {
        return false;
    }
    block->is = (MemoryBlock){block->is.memory, kind, bytes, ++m->numbers};
    size_t at = bucket_of(m, block->is.memory);
    block->next = m->out[at];
    m->out[at] = block;
    m->n_out++;
    MemoryCount *count = &m->counts.of[block->is.kind];
    count->blocks++;
    count->bytes += block->is.bytes;
    count->total++;
    count->most_bytes = count->bytes > count->most_bytes ? count->bytes : count->most_bytes;
    *memory = block->is.memory;
    return true;
}

bool memory_free(Device *device, MemoryKind kind, void *memory, const DeviceStream *stream)
{
    Memory *m = device->memory;
    Block *block = m && m->out ? remove_out(m, kind, memory) : NULL;
    if (!block) {
        return false;
    }
    m->counts.of[kind].blocks--;
    m->counts.of[kind].bytes -= block->is.bytes;
    if (is_reused(kind)) {
        keep(device, m, block, stream);
    } else {
        release(device, block);
    }
    return true;
}

bool memory_set_cache_limit(Device *device, size_t bytes, DeviceError *error)
{
    Memory *m = memory_of(device, error);
    if (m) {
        m->keep = bytes;
        shrink(device, m, bytes);
    }
    return m != NULL;
}

/* ---- streams ---- */

static bool has_kept(const Memory *m, DeviceStream stream)
{
    for (size_t nth = 0; m && m->unsettled && nth < SIZES; nth++) {
        for (const Block *block = m->kept[nth]; block; block = block->next) {
            if (!block->settled && block->stream == stream) {
                return true;
            }
        }
    }
    return false;
}

void memory_mark_stream_done(Device *device, DeviceStream stream)
{
    Memory *m = device->memory;
    for (size_t nth = 0; m && m->unsettled && nth < SIZES; nth++) {
        for (Block *block = m->kept[nth]; block; block = block->next) {
            if (!block->settled && block->stream == stream) {
                block->settled = true;
                m->unsettled--;
            }
        }
    }
}

void memory_leave(Device *device, DeviceStream stream)
{
    DeviceError ignored;
    if (has_kept(device->memory, stream)) {
        device->ops->sync(device, stream, &ignored); /* a failed stream is idle, too */
        memory_mark_stream_done(device, stream);
    }
}

/* ---- listing ---- */

MemoryCounts memory_counts(const Device *device)
{
    const Memory *m = device->memory;
    return m ? m->counts : (MemoryCounts){0};
}

static int by_number(const void *left, const void *right)
{
    const MemoryBlock *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

size_t memory_list(const Device *device, MemoryBlock *blocks, size_t most)
{
    const Memory *m = device->memory;
    size_t n = 0;
    for (size_t i = 0; m && i < m->n_buckets; i++) {
        for (const Block *block = m->out[i]; block; block = block->next) {
            if (n < most) {
                blocks[n] = block->is;
            }
            n++;
        }
    }
    if (n > 0 && n <= most) {
        qsort(blocks, n, sizeof *blocks, by_number);
    }
    return n;
}

void memory_close(Device *device)
{
    Memory *m = device->memory;
    if (!m) {
        return;
    }
    for (size_t i = 0; i < m->n_buckets; i++) {
        for (Block *block = m->out[i], *next; block; block = next) {
            next = block->next;
            release(device, block);
        }
    }
    shrink(device, m, 0);
    device_host_free(device, m->out);
    device_host_free(device, m);
    device->memory = NULL;
}
