/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA streams, events and graphs, and the pinned host memory that asynchronous copies need. */
#include "runtime/device/cuda_device.h"

#include <stdio.h>

/* ---- streams and events ---- */

static bool cuda_stream_open(Device *device, DeviceStream *stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CuStream made = NULL;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok && cuda_check(cuda, cuda->driver.stream_create(&made, CU_STREAM_FLAG_NON_BLOCKING),
                            "cuStreamCreate", "", error);
    cuda_leave(cuda, in);
    *stream = ok ? made : NULL;
    return ok;
}

static void cuda_stream_close(Device *device, DeviceStream stream)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    CudaEntered in = cuda_enter(cuda, &ignored);
    cuda->driver.stream_destroy(stream);
    cuda_leave(cuda, in);
}

static bool cuda_event_create(Device *device, DeviceEvent *event, DeviceError *error)
{
    Cuda *cuda = device->state;
    CuEvent made = NULL;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok && cuda_check(cuda, cuda->driver.event_create(&made, 0), "cuEventCreate", "", error);
    cuda_leave(cuda, in);
    *event = ok ? made : NULL;
    return ok;
}

static bool cuda_record(Device *device, DeviceEvent event, DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, cuda->driver.event_record(event, stream), "cuEventRecord",
                                  "", error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_wait(Device *device, DeviceStream stream, DeviceEvent event, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, cuda->driver.stream_wait(stream, event, 0),
                                  "cuStreamWaitEvent", "", error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_event_sync(Device *device, DeviceEvent event, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok &&
              cuda_check_wait(device, cuda->driver.event_sync(event), "cuEventSynchronize", error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- memory ---- */

static bool cuda_pin(Device *device, size_t bytes, void **memory, DeviceError *error)
{
    Cuda *cuda = device->state;
    char what[64];
    *memory = NULL;
    snprintf(what, sizeof what, "%zu bytes", bytes);
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok &&
              cuda_check(cuda, cuda->driver.host_alloc(memory, bytes ? bytes : 1, CU_HOST_PORTABLE),
                         "cuMemHostAlloc", what, error);
    cuda_leave(cuda, in);
    return ok;
}

static void cuda_unpin(Device *device, void *memory)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    CudaEntered in = cuda_enter(cuda, &ignored);
    cuda->driver.host_release(memory);
    cuda_leave(cuda, in);
}

static bool cuda_copy_in_async(Device *device, void *to, const void *from, size_t n,
                               DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok &&
        cuda_check(cuda, cuda->driver.copy_in_async((CuAddress)(uintptr_t)to, from, n, stream),
                   "cuMemcpyHtoDAsync", "", error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_copy_out_async(Device *device, void *to, const void *from, size_t n,
                                DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok &&
        cuda_check(cuda, cuda->driver.copy_out_async(to, (CuAddress)(uintptr_t)from, n, stream),
                   "cuMemcpyDtoHAsync", "", error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- copies from other devices ---- */

static bool is_peer(const Cuda *cuda, CuContext context)
{
    for (unsigned int i = 0; i < MAX_CUDA_PEERS && i < cuda->n_peers; i++) {
        if (cuda->peers[i] == context) {
            return true;
        }
    }
    return false;
}

static void add_peer(Cuda *cuda, CuContext context)
{
    cuda->peers[cuda->n_peers++ % MAX_CUDA_PEERS] = context;
}

/* Maps the memory of `peer` into the context of `cuda`. It decides only how fast copies are: where
 * it cannot be done, or somebody has done it before, the driver's answer changes nothing. */
static void enable_access(const Cuda *cuda, const Cuda *peer)
{
    int can = 0;
    DeviceError ignored;
    CudaEntered in = cuda_enter(cuda, &ignored);
    if (in.ok && cuda->driver.peer_possible(&can, cuda->device, peer->device) == CU_OK && can) {
        cuda->driver.peer_enable(peer->context, 0);
    }
    cuda_leave(cuda, in);
}

/* Without access to each other's memory the driver copies by way of the host, at a tenth of the
 * speed of NVLink. It is enabled at the first copy, since each allocation of either device is
 * mapped into both contexts from then on. Both devices note it: when one of them is opened anew, in
 * a context that may have the old one's address, that one's list is empty. */
static void connect_peers(Cuda *cuda, Cuda *peer)
{
    const CudaDriver *d = &cuda->driver;
    CuCaptureMode mode = CU_CAPTURE_RELAXED; /* to map memory is not a part of what is captured */
    if (!d->peer_possible || !d->peer_enable || cuda->device == peer->device ||
        (is_peer(cuda, peer->context) && is_peer(peer, cuda->context))) {
        return;
    }
    bool is_exchanged = d->capture_mode && d->capture_mode(&mode) == CU_OK;
    enable_access(cuda, peer);
    enable_access(peer, cuda);
    if (is_exchanged) {
        d->capture_mode(&mode);
    }
    add_peer(cuda, peer->context);
    add_peer(peer, cuda->context);
}

static bool cuda_copy_peer(Device *device, void *to, Device *other, const void *from, size_t n,
                           DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state, *peer = other->state;
    connect_peers(cuda, peer);
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda,
                                  cuda->driver.copy_peer((CuAddress)(uintptr_t)to, cuda->context,
                                                         (CuAddress)(uintptr_t)from, peer->context,
                                                         n, stream),
                                  "cuMemcpyPeerAsync", "", error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- graphs ---- */

static bool cuda_capture(Device *device, DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, cuda->driver.capture_begin(stream, CU_CAPTURE_THREAD_LOCAL),
                                  "cuStreamBeginCapture", "", error);
    cuda_leave(cuda, in);
    return ok;
}

/* What was captured, ready to be launched; what it was made from is not needed any more. */
static bool cuda_captured(Device *device, DeviceStream stream, DeviceGraph *graph,
                          DeviceError *error)
{
    Cuda *cuda = device->state;
    CuGraph recorded = NULL;
    CuGraphExec made = NULL;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok &&
              cuda_check(cuda, cuda->driver.capture_end(stream, &recorded), "cuStreamEndCapture",
                         "", error) &&
              cuda_check(cuda, cuda->driver.graph_instantiate(&made, recorded, 0),
                         "cuGraphInstantiateWithFlags", "", error);
    if (recorded) {
        cuda->driver.graph_destroy(recorded);
    }
    cuda_leave(cuda, in);
    *graph = ok ? made : NULL;
    return ok;
}

static bool cuda_replay(Device *device, DeviceGraph graph, DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, cuda->driver.graph_launch(graph, stream), "cuGraphLaunch",
                                  "", error);
    cuda_leave(cuda, in);
    return ok;
}

static void cuda_drop(Device *device, DeviceGraph graph)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    CudaEntered in = cuda_enter(cuda, &ignored);
    cuda->driver.instance_destroy(graph);
    cuda_leave(cuda, in);
}

const DeviceStreams cuda_streams = {
    .open = cuda_stream_open,
    .close = cuda_stream_close,
    .event_create = cuda_event_create,
    .record = cuda_record,
    .wait = cuda_wait,
    .event_sync = cuda_event_sync,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy_in = cuda_copy_in_async,
    .copy_out = cuda_copy_out_async,
    .copy_peer = cuda_copy_peer,
    .capture = cuda_capture,
    .captured = cuda_captured,
    .replay = cuda_replay,
    .drop = cuda_drop,
};
