/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the mock HIP runtime; most of them only count. */
#include "tests/mock_driver/mock.h"

#include <stdio.h>
#include <string.h>

static void want_device(void)
{
    mock_want(mock.device == mock.opened, "another device is current");
}

#define CALL_INSIDE(name)                                                                          \
    do {                                                                                           \
        want_device();                                                                             \
        MOCK_CALL(name);                                                                           \
    } while (0)

/* ---- devices ---- */

static HipResult hip_init(unsigned int flags)
{
    (void)flags;
    MOCK_CALL("init");
    return 0;
}

static HipResult hip_driver_version(int *version)
{
    MOCK_CALL("driver_version");
    *version = 60342131;
    return 0;
}

static HipResult hip_device_count(int *count)
{
    MOCK_CALL("device_count");
    *count = mock.n_devices;
    return 0;
}

static HipResult hip_device_set(int device)
{
    MOCK_CALL("device_set");
    mock.device = device;
    return 0;
}

static HipResult hip_device_current(int *device)
{
    MOCK_CALL("device_current");
    *device = mock.device;
    return 0;
}

static HipResult fill_properties(char *bytes, HipLayout at)
{
    int warp = 64, units = 304, threads = 1024;
    size_t shared = 65536, memory = (size_t)1 << 37;
    MOCK_CALL("properties");
    strcpy(bytes, "Mock AMD");
    strcpy(bytes + at.arch, "gfx942:sramecc+:xnack-");
    memcpy(bytes + at.warp, &warp, sizeof warp);
    memcpy(bytes + at.units, &units, sizeof units);
    memcpy(bytes + at.threads, &threads, sizeof threads);
    memcpy(bytes + at.shared, &shared, sizeof shared);
    memcpy(bytes + at.memory, &memory, sizeof memory);
    return 0;
}

static HipResult hip_properties_new(void *properties, int device)
{
    (void)device;
    return fill_properties(properties, HIP_LAYOUT_NEW);
}

static HipResult hip_properties_old(void *properties, int device)
{
    (void)device;
    return fill_properties(properties, HIP_LAYOUT_OLD);
}

/* ---- memory ---- */

static HipResult hip_alloc(void **memory, size_t bytes)
{
    CALL_INSIDE("alloc");
    *memory = mock_open(bytes);
    return 0;
}

static HipResult give_back(void *handle, const char *name)
{
    want_device();
    mock_close(handle);
    MOCK_CALL(name);
    return 0;
}

static HipResult hip_release(void *memory)
{
    return give_back(memory, "release");
}

static HipResult hip_copy_in(void *to, void *from, size_t n)
{
    CALL_INSIDE("copy_in");
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_copy_out(void *to, void *from, size_t n)
{
    CALL_INSIDE("copy_out");
    mock_wait();
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_copy(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    CALL_INSIDE("copy");
    memmove(to, from, n);
    return 0;
}

/* ---- modules and launches ---- */

static HipResult hip_module_load(void **module, const void *image)
{
    (void)image;
    CALL_INSIDE("module_load");
    *module = mock_open(1);
    return 0;
}

static HipResult hip_module_unload(void *module)
{
    return give_back(module, "module_unload");
}

static HipResult hip_module_function(void **function, void *module, const char *name)
{
    CALL_INSIDE("module_function");
    snprintf(mock.function, sizeof mock.function, "%s", name);
    *function = module;
    return 0;
}

static HipResult hip_launch(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                            unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                            void *stream, void **args, void **extra)
{
    (void)function, (void)extra;
    CALL_INSIDE("launch");
    if (stream == MOCK_FOREIGN) {
        return HIP_ERROR_INVALID_HANDLE;
    }
    mock_want(gy * gz * by * bz == 1, "a grid of more than one axis");
    mock_note_launch(gx, bx, shared, args);
    return 0;
}

static HipResult hip_stream_sync(void *stream)
{
    (void)stream;
    CALL_INSIDE("stream_sync");
    mock_wait();
    return 0;
}

static HipResult hip_event_create(void **event)
{
    CALL_INSIDE("event_create");
    *event = mock_open(1);
    return 0;
}

static HipResult hip_event_record(void *event, void *stream)
{
    (void)event, (void)stream;
    CALL_INSIDE("event_record");
    return 0;
}

static HipResult hip_event_sync(void *event)
{
    (void)event;
    CALL_INSIDE("event_sync");
    mock_wait();
    return 0;
}

static HipResult hip_event_elapsed(float *milliseconds, void *first, void *last)
{
    (void)first, (void)last;
    CALL_INSIDE("event_elapsed");
    *milliseconds = 5;
    return 0;
}

static HipResult hip_event_destroy(void *event)
{
    return give_back(event, "event_destroy");
}

/* ---- streams and graphs ---- */

static HipResult hip_stream_create(void **stream, unsigned int flags)
{
    CALL_INSIDE("stream_create");
    mock_want(flags == HIP_STREAM_FLAG_NON_BLOCKING, "a stream that waits for the default one");
    *stream = mock_open(1);
    return 0;
}

static HipResult hip_stream_destroy(void *stream)
{
    return give_back(stream, "stream_destroy");
}

static HipResult hip_stream_wait(void *stream, void *event, unsigned int flags)
{
    (void)stream, (void)event, (void)flags;
    CALL_INSIDE("stream_wait");
    return 0;
}

static HipResult hip_host_alloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    CALL_INSIDE("host_alloc");
    *memory = mock_open(bytes);
    return 0;
}

static HipResult hip_host_release(void *memory)
{
    return give_back(memory, "host_release");
}

static HipResult hip_copy_in_async(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    CALL_INSIDE("copy_in_async");
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_copy_out_async(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    CALL_INSIDE("copy_out_async");
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_copy_peer(void *to, int to_device, const void *from, int from_device, size_t n,
                               void *stream)
{
    (void)stream;
    CALL_INSIDE("copy_peer");
    mock_want(to_device == mock.opened, "a copy to another device");
    mock_note_copy(to_device, from_device);
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_peer_possible(int *can, int device, int peer)
{
    MOCK_CALL("peer_possible");
    *can = device != peer && !mock.apart;
    return 0;
}

static HipResult hip_peer_enable(int peer, unsigned int flags)
{
    MOCK_CALL("peer_enable");
    mock_want(flags == 0, "access with flags");
    mock.untaken = mock_reach(mock.device, peer);
    return mock.untaken;
}

static HipResult hip_last_error(void)
{
    HipResult last = mock.untaken;
    mock.untaken = 0;
    return last;
}

static HipResult hip_capture_mode(unsigned int *mode)
{
    MOCK_CALL("capture_mode");
    unsigned int before = mock.capture;
    mock.capture = *mode;
    *mode = before;
    return 0;
}

static HipResult hip_capture_begin(void *stream, unsigned int mode)
{
    CALL_INSIDE("capture_begin");
    mock_want(stream && mode == HIP_CAPTURE_THREAD_LOCAL, "a capture that stops other threads");
    mock.captures = true;
    return 0;
}

static HipResult hip_capture_end(void *stream, void **graph)
{
    (void)stream;
    CALL_INSIDE("capture_end");
    mock.captures = false;
    *graph = mock_open(1);
    return 0;
}

static HipResult hip_graph_instantiate(void **instance, void *graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    CALL_INSIDE("graph_instantiate");
    *instance = mock_open(1);
    return 0;
}

static HipResult hip_graph_launch(void *instance, void *stream)
{
    (void)instance, (void)stream;
    CALL_INSIDE("graph_launch");
    return 0;
}

static HipResult hip_graph_destroy(void *graph)
{
    return give_back(graph, "graph_destroy");
}

static HipResult hip_instance_destroy(void *instance)
{
    return give_back(instance, "instance_destroy");
}

static const char *hip_error_name(HipResult result)
{
    return mock_error_name(result);
}

static const char *hip_error_string(HipResult result)
{
    return mock_error_name(result);
}

/* As in cuda.c. */
const HipDriver mock_hip = {
#define HIP_CALL(need, field, symbol, params) .field = hip_##field,
#define HIP_TEXT HIP_CALL
#include "runtime/device/hip.def"
#undef HIP_CALL
#undef HIP_TEXT
};

#ifdef MOCK_LIBRARY
#define HIP_CALL(need, field, symbol, params)                                                      \
    MOCK_SHOWN HipResult symbol params __attribute__((alias("hip_" #field)));
#define HIP_TEXT(need, field, symbol, params)                                                      \
    MOCK_SHOWN const char *symbol params __attribute__((alias("hip_" #field)));
#include "runtime/device/hip.def"
#undef HIP_CALL
#undef HIP_TEXT
#endif
