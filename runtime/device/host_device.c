/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: its memory is the process's, a module is code that is already loaded, and
 * a launch is a call of its function for all blocks. */
#include "runtime/device/device.h"
#include "runtime/device/thread_pool.h"
#include "support/host_cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

enum { HOST_ALIGN = 64 };

static void host_facts(DeviceFacts *facts, int threads)
{
    struct sysinfo info;
    int vector = host_vector_bytes();
    const char *vectors = "";
    if (vector >= 64) {
        vectors = ", AVX-512";
    } else if (vector >= 32) {
        vectors = ", AVX2";
    }
    snprintf(facts->name, sizeof facts->name, "CPU, %d thread%s%s", threads,
             threads == 1 ? "" : "s", vectors);
    snprintf(facts->target, sizeof facts->target, "native");
    facts->units = threads;
    facts->warp = 1;
    facts->max_threads = 1;
    if (sysinfo(&info) == 0) {
        facts->memory_bytes = (size_t)info.totalram * info.mem_unit;
    }
}

static bool host_open(Device *device, int ordinal, DeviceError *error)
{
    int threads = ordinal > 0 ? ordinal : pool_cpus();
    device->state = pool_new(device->allocator, threads);
    if (!device->state) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    host_facts(&device->facts, threads);
    return true;
}

static void host_close(Device *device)
{
    pool_free(device->state);
}

/* The allocator promises no alignment: the true address stands before the given one. */
static bool host_alloc(Device *device, size_t bytes, void **memory, DeviceError *error)
{
    Allocator *a = &device->allocator;
    size_t total;
    char *block = NULL;
    if (!__builtin_add_overflow(bytes, HOST_ALIGN + sizeof block, &total)) {
        block = a->alloc(a->user, total);
    }
    if (!block) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory: %zu bytes", bytes);
    }
    char *start = block + sizeof block;
    start += (HOST_ALIGN - (uintptr_t)start % HOST_ALIGN) % HOST_ALIGN;
    memcpy(start - sizeof block, &block, sizeof block);
    *memory = start;
    return true;
}

static void host_release(Device *device, void *memory)
{
    if (memory) {
        char *block;
        memcpy(&block, (char *)memory - sizeof block, sizeof block);
        device->allocator.release(device->allocator.user, block);
    }
}

static bool host_copy(Device *device, void *to, const void *from, size_t n, DeviceError *error)
{
    (void)device;
    (void)error;
    if (n) {
        memcpy(to, from, n);
    }
    return true;
}

enum { PIECE = 1 << 18 };

static void copy_pieces(void *const *args, int64_t first, int64_t last)
{
    size_t n, start = (size_t)first * PIECE, end = (size_t)last * PIECE;
    memcpy(&n, args[2], sizeof n);
    end = end < n ? end : n;
    memcpy((char *)args[0] + start, (const char *)args[1] + start, end - start);
}

/* Large ones by all threads: one does not fill the memory's bandwidth. */
static bool host_copy_inside(Device *device, void *to, const void *from, size_t n,
                             DeviceStream stream, DeviceError *error)
{
    void *args[] = {to, (void *)(uintptr_t)from, &n};
    (void)stream;
    (void)error;
    pool_run(device->state, copy_pieces, args, (int64_t)(n / PIECE + (n % PIECE != 0)), 0);
    return true;
}

static bool host_load(Device *device, const DeviceImage *image, DeviceModule *module,
                      DeviceError *error)
{
    if (!image->symbol) {
        return device_fail(error, DIAG_USAGE, 0, "the host runs code in memory, not an image");
    }
    DeviceImage *kept = device_host_alloc(device, sizeof *kept);
    if (!kept) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    *kept = *image;
    *module = kept;
    return true;
}

static void host_unload(Device *device, DeviceModule module)
{
    device_host_free(device, module);
}

static bool host_find(Device *device, DeviceModule module, const PlanLaunch *launch,
                      DeviceKernel *kernel, DeviceError *error)
{
    const DeviceImage *image = module;
    (void)device;
    *kernel = (DeviceKernel){.function = image->symbol(image->user, launch->symbol),
                             .symbol = launch->symbol,
                             .threads = 1,
                             .workers = launch->workers,
                             .cluster = 1};
    if (!kernel->function) {
        return device_fail(error, DIAG_INTERNAL, 0, "no symbol '%s' in the code", launch->symbol);
    }
    return true;
}

static bool host_launch(Device *device, const DeviceKernel *kernel, int64_t blocks, void **args,
                        DeviceStream stream, DeviceError *error)
{
    PoolWork *work;
    (void)stream;
    (void)error;
    memcpy(&work, &kernel->function, sizeof work);
    pool_run(device->state, work, args, blocks, kernel->workers);
    return true;
}

static bool host_sync(Device *device, DeviceStream stream, DeviceError *error)
{
    (void)device;
    (void)stream;
    (void)error;
    return true;
}

static bool host_event_record(Device *device, DeviceStream stream, DeviceEvent *event,
                              DeviceError *error)
{
    struct timespec *now = device_host_alloc(device, sizeof *now);
    (void)stream;
    if (!now) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    clock_gettime(CLOCK_MONOTONIC, now);
    *event = now;
    return true;
}

static bool host_elapsed(Device *device, DeviceEvent first, DeviceEvent last, double *seconds,
                         DeviceError *error)
{
    const struct timespec *a = first, *b = last;
    (void)device;
    (void)error;
    *seconds = (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
    return true;
}

/* ---- streams: all is done when the call returns ---- */

static bool host_stream_open(Device *device, DeviceStream *stream, DeviceError *error)
{
    *stream = device_host_alloc(device, 1);
    return *stream || device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
}

static bool host_event_create(Device *device, DeviceEvent *event, DeviceError *error)
{
    return host_event_record(device, NULL, event, error);
}

static bool host_record(Device *device, DeviceEvent event, DeviceStream stream, DeviceError *error)
{
    (void)device, (void)stream, (void)error;
    clock_gettime(CLOCK_MONOTONIC, event);
    return true;
}

static bool host_wait(Device *device, DeviceStream stream, DeviceEvent event, DeviceError *error)
{
    (void)device, (void)stream, (void)event, (void)error;
    return true;
}

static bool host_event_sync(Device *device, DeviceEvent event, DeviceError *error)
{
    return host_wait(device, NULL, event, error);
}

static bool host_copy_stream(Device *device, void *to, const void *from, size_t n,
                             DeviceStream stream, DeviceError *error)
{
    (void)stream;
    return host_copy(device, to, from, n, error);
}

static bool host_copy_peer(Device *device, void *to, Device *other, const void *from, size_t n,
                           DeviceStream stream, DeviceError *error)
{
    (void)other;
    return host_copy_stream(device, to, from, n, stream, error);
}

static const DeviceStreams host_streams = {
    .open = host_stream_open,
    .close = device_host_free,
    .event_create = host_event_create,
    .record = host_record,
    .wait = host_wait,
    .event_sync = host_event_sync,
    .pin = host_alloc,
    .unpin = host_release,
    .copy_in = host_copy_stream,
    .copy_out = host_copy_stream,
    .copy_peer = host_copy_peer,
};

const DeviceOps device_host = {
    .name = "cpu",
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .release = host_release,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy = host_copy_inside,
    .load = host_load,
    .unload = host_unload,
    .find = host_find,
    .launch = host_launch,
    .sync = host_sync,
    .event_record = host_event_record,
    .elapsed = host_elapsed,
    .event_destroy = device_host_free,
    .streams = &host_streams,
    .points = true,
};
