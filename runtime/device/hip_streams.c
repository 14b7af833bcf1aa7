/* SPDX-License-Identifier: Apache-2.0 */
/* HIP streams, events and graphs, and the pinned host memory that asynchronous copies need. */
#include "runtime/device/hip_device.h"

#include <stdio.h>

/* ---- streams and events ---- */

static bool hip_stream_open(Device *device, DeviceStream *stream, DeviceError *error)
{
    Hip *hip = device->state;
    void *made = NULL;
    HipEntered in = hip_enter(hip, error);
    bool ok =
        in.ok && hip_check(hip, hip->driver.stream_create(&made, HIP_STREAM_FLAG_NON_BLOCKING),
                           "hipStreamCreateWithFlags", "", error);
    hip_leave(hip, in);
    *stream = ok ? made : NULL;
    return ok;
}

static void hip_stream_close(Device *device, DeviceStream stream)
{
    Hip *hip = device->state;
    DeviceError ignored;
    HipEntered in = hip_enter(hip, &ignored);
    hip->driver.stream_destroy(stream);
    hip_leave(hip, in);
}

static bool hip_event_create(Device *device, DeviceEvent *event, DeviceError *error)
{
    Hip *hip = device->state;
    void *made = NULL;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.event_create(&made), "hipEventCreate", "", error);
    hip_leave(hip, in);
    *event = ok ? made : NULL;
    return ok;
}

static bool hip_record(Device *device, DeviceEvent event, DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check(hip, hip->driver.event_record(event, stream), "hipEventRecord", "", error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_wait(Device *device, DeviceStream stream, DeviceEvent event, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.stream_wait(stream, event, 0),
                                 "hipStreamWaitEvent", "", error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_event_sync(Device *device, DeviceEvent event, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check_wait(device, hip->driver.event_sync(event), "hipEventSynchronize", error);
    hip_leave(hip, in);
    return ok;
}

/* ---- memory ---- */

static bool hip_pin(Device *device, size_t bytes, void **memory, DeviceError *error)
{
    Hip *hip = device->state;
    char what[64];
    *memory = NULL;
    snprintf(what, sizeof what, "%zu bytes", bytes);
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check(hip, hip->driver.host_alloc(memory, bytes ? bytes : 1, HIP_HOST_PORTABLE),
                        "hipHostMalloc", what, error);
    hip_leave(hip, in);
    return ok;
}

static void hip_unpin(Device *device, void *memory)
{
    Hip *hip = device->state;
    DeviceError ignored;
    HipEntered in = hip_enter(hip, &ignored);
    hip->driver.host_release(memory);
    hip_leave(hip, in);
}

static bool hip_copy_in_async(Device *device, void *to, const void *from, size_t n,
                              DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok =
        in.ok && hip_check(hip, hip->driver.copy_in_async(to, (void *)(uintptr_t)from, n, stream),
                           "hipMemcpyHtoDAsync", "", error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_copy_out_async(Device *device, void *to, const void *from, size_t n,
                               DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok =
        in.ok && hip_check(hip, hip->driver.copy_out_async(to, (void *)(uintptr_t)from, n, stream),
                           "hipMemcpyDtoHAsync", "", error);
    hip_leave(hip, in);
    return ok;
}

/* ---- copies from other devices ---- */

/* As in cuda_streams.c. An error is taken back, since the next hipGetLastError of whoever else uses
 * HIP in this thread would have it. */
static void enable_access(const Hip *hip, const Hip *peer)
{
    int can = 0;
    DeviceError ignored;
    HipEntered in = hip_enter(hip, &ignored);
    if (in.ok && hip->driver.peer_possible(&can, hip->ordinal, peer->ordinal) == HIP_OK && can &&
        hip->driver.peer_enable(peer->ordinal, 0) != HIP_OK && hip->driver.last_error) {
        hip->driver.last_error();
    }
    hip_leave(hip, in);
}

static uint64_t bit_of(const Hip *hip)
{
    return hip->ordinal < MAX_HIP_PEERS ? UINT64_C(1) << hip->ordinal : 0;
}

static void connect_peers(Hip *hip, Hip *peer)
{
    const HipDriver *d = &hip->driver;
    unsigned int mode = HIP_CAPTURE_RELAXED;
    if (!d->peer_possible || !d->peer_enable || hip->ordinal == peer->ordinal ||
        (hip->peers & bit_of(peer))) {
        return;
    }
    bool is_exchanged = d->capture_mode && d->capture_mode(&mode) == HIP_OK;
    enable_access(hip, peer);
    enable_access(peer, hip);
    if (is_exchanged) {
        d->capture_mode(&mode);
    }
    hip->peers |= bit_of(peer);
    peer->peers |= bit_of(hip);
}

static bool hip_copy_peer(Device *device, void *to, Device *other, const void *from, size_t n,
                          DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    Hip *peer = other->state;
    connect_peers(hip, peer);
    HipEntered in = hip_enter(hip, error);
    bool ok =
        in.ok &&
        hip_check(hip, hip->driver.copy_peer(to, hip->ordinal, from, peer->ordinal, n, stream),
                  "hipMemcpyPeerAsync", "", error);
    hip_leave(hip, in);
    return ok;
}

/* ---- graphs ---- */

static bool hip_capture(Device *device, DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.capture_begin(stream, HIP_CAPTURE_THREAD_LOCAL),
                                 "hipStreamBeginCapture", "", error);
    hip_leave(hip, in);
    return ok;
}

/* What was captured, ready to be launched; what it was made from is not needed any more. */
static bool hip_captured(Device *device, DeviceStream stream, DeviceGraph *graph,
                         DeviceError *error)
{
    Hip *hip = device->state;
    void *recorded = NULL;
    void *made = NULL;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check(hip, hip->driver.capture_end(stream, &recorded), "hipStreamEndCapture", "",
                        error) &&
              hip_check(hip, hip->driver.graph_instantiate(&made, recorded, 0),
                        "hipGraphInstantiateWithFlags", "", error);
    if (recorded) {
        hip->driver.graph_destroy(recorded);
    }
    hip_leave(hip, in);
    *graph = ok ? made : NULL;
    return ok;
}

static bool hip_replay(Device *device, DeviceGraph graph, DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check(hip, hip->driver.graph_launch(graph, stream), "hipGraphLaunch", "", error);
    hip_leave(hip, in);
    return ok;
}

static void hip_drop(Device *device, DeviceGraph graph)
{
    Hip *hip = device->state;
    DeviceError ignored;
    HipEntered in = hip_enter(hip, &ignored);
    hip->driver.instance_destroy(graph);
    hip_leave(hip, in);
}

const DeviceStreams hip_streams = {
    .open = hip_stream_open,
    .close = hip_stream_close,
    .event_create = hip_event_create,
    .record = hip_record,
    .wait = hip_wait,
    .event_sync = hip_event_sync,
    .pin = hip_pin,
    .unpin = hip_unpin,
    .copy_in = hip_copy_in_async,
    .copy_out = hip_copy_out_async,
    .copy_peer = hip_copy_peer,
    .capture = hip_capture,
    .captured = hip_captured,
    .replay = hip_replay,
    .drop = hip_drop,
};
