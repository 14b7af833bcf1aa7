/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the mock CUDA driver; most of them only count. */
#include "tests/mock_driver/mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CuContext retained[MOCK_MAX];
static char others;

void mock_be_elsewhere(void)
{
    mock.current = &others;
}

void mock_be_inside(void)
{
    mock.current = retained[MOCK_OPENED];
}

/* The device of the context; -1: it is none of ours. */
static int device_of(CuContext context)
{
    for (int i = 0; context && i < MOCK_MAX; i++) {
        if (context == retained[i]) {
            return i;
        }
    }
    return -1;
}

static void want_context(void)
{
    mock_want(device_of(mock.current) >= 0, "the device's context is not current");
}

#define CALL_INSIDE(name)                                                                          \
    do {                                                                                           \
        want_context();                                                                            \
        MOCK_CALL(name);                                                                           \
    } while (0)

/* A call that makes a handle, a pointer of any type, and stores it. */
static CuResult made(void *handle, size_t bytes, const char *name)
{
    CALL_INSIDE(name);
    void *opened = mock_open(bytes);
    memcpy(handle, &opened, sizeof opened);
    return 0;
}

/* A call that destroys one, which it does also where it reports a failure. */
static CuResult destroyed(void *handle, const char *name)
{
    want_context();
    mock_close(handle);
    MOCK_CALL(name);
    return 0;
}

/* ---- devices ---- */

static CuResult cu_init(unsigned int flags)
{
    (void)flags;
    MOCK_CALL("init");
    return 0;
}

static CuResult cu_driver_version(int *version)
{
    MOCK_CALL("driver_version");
    *version = mock.version ? mock.version : 13000;
    return 0;
}

static CuResult cu_error_name(CuResult result, const char **text)
{
    *text = mock_error_name(result);
    return *text ? 0 : 1;
}

static CuResult cu_error_string(CuResult result, const char **text)
{
    *text = mock_error_name(result);
    return *text ? 0 : 1;
}

static CuResult cu_device_count(int *count)
{
    MOCK_CALL("device_count");
    *count = mock.n_devices;
    return 0;
}

static CuResult cu_device_get(CuDevice *device, int ordinal)
{
    MOCK_CALL("device_get");
    *device = ordinal;
    return 0;
}

static CuResult cu_device_name(char *name, int n, CuDevice device)
{
    MOCK_CALL("device_name");
    const char *given = getenv("TESSERA_MOCK_NAME"); /* of a device of which facts are known */
    if (given) {
        snprintf(name, (size_t)n, "%s", given);
    } else {
        snprintf(name, (size_t)n, "Mock %d", device);
    }
    return 0;
}

static CuResult cu_device_attribute(int *value, CuDeviceAttribute attribute, CuDevice device)
{
    (void)device;
    MOCK_CALL("device_attribute");
    switch (attribute) {
    case CU_DEVICE_CLOCK: *value = 1500000; break;
    case CU_DEVICE_UNITS: *value = 10; break;
    case CU_DEVICE_WARP: *value = 32; break;
    case CU_DEVICE_MAX_THREADS: *value = 1024; break;
    case CU_DEVICE_SHARED_BYTES: *value = 232448; break;
    case CU_DEVICE_MAJOR: *value = mock.major; break;
    default: *value = 0;
    }
    return 0;
}

static CuResult cu_device_memory(size_t *bytes, CuDevice device)
{
    (void)device;
    MOCK_CALL("device_memory");
    *bytes = (size_t)1 << 30;
    return 0;
}

/* ---- contexts ---- */

static CuResult cu_context_retain(CuContext *context, CuDevice device)
{
    MOCK_CALL("context_retain");
    retained[device] = mock.retained[device]++ == 0 ? mock_open(1) : retained[device];
    *context = retained[device];
    return 0;
}

static CuResult cu_context_release(CuDevice device)
{
    if (--mock.retained[device] == 0) {
        mock_close(retained[device]);
        retained[device] = NULL;
        for (int i = 0; i < MOCK_MAX; i++) {
            mock.reaches[device][i] = mock.reaches[i][device] = 0;
        }
    }
    MOCK_CALL("context_release");
    return 0;
}

static CuResult cu_context_current(CuContext *context)
{
    MOCK_CALL("context_current");
    *context = mock.current;
    return 0;
}

static CuResult cu_context_push(CuContext context)
{
    MOCK_CALL("context_push");
    mock_want(device_of(context) >= 0, "another context is pushed");
    mock_want(mock.pushed < 4, "contexts are pushed and pushed");
    mock.below[mock.pushed++] = mock.current;
    mock.current = context;
    return 0;
}

static CuResult cu_context_pop(CuContext *context)
{
    mock_want(mock.pushed > 0, "no context to pop");
    *context = mock.current;
    mock.current = mock.below[--mock.pushed];
    MOCK_CALL("context_pop");
    return 0;
}

/* ---- memory ---- */

static CuResult cu_alloc(CuAddress *address, size_t bytes)
{
    CALL_INSIDE("alloc");
    *address = (CuAddress)(uintptr_t)mock_open(bytes);
    return 0;
}

/* What gives something back may tell of an earlier failure, and has done it all the same. */
static CuResult cu_release(CuAddress address)
{
    want_context();
    mock_close((void *)(uintptr_t)address);
    MOCK_CALL("release");
    return 0;
}

static CuResult cu_copy_in(CuAddress to, const void *from, size_t n)
{
    CALL_INSIDE("copy_in");
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}

static CuResult cu_copy_out(void *to, CuAddress from, size_t n)
{
    CALL_INSIDE("copy_out");
    mock_wait();
    memcpy(to, (void *)(uintptr_t)from, n);
    return 0;
}

static CuResult cu_copy(CuAddress to, CuAddress from, size_t n, CuStream stream)
{
    (void)stream;
    CALL_INSIDE("copy");
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return 0;
}

/* ---- modules ---- */

static CuResult cu_module_load(CuModule *module, const void *image, unsigned int n,
                               CuJitOption *options, void **values)
{
    want_context();
    if (mock_fails("module_load")) {
        mock_want(n == 3 && options[0] == CU_JIT_LOG, "no log is wanted");
        snprintf(values[0], (size_t)(uintptr_t)values[1], "line 7: no such instruction");
        return mock.error;
    }
    *module = mock_open_code(image);
    return 0;
}

static CuResult cu_module_unload(CuModule module)
{
    return destroyed(module, "module_unload");
}

static CuResult cu_module_function(CuFunction *function, CuModule module, const char *name)
{
    CALL_INSIDE("module_function");
    snprintf(mock.function, sizeof mock.function, "%s", name);
    *function = (CuFunction)(void *)module;
    return 0;
}

static CuResult cu_function_set(CuFunction function, CuFunctionAttribute attribute, int value)
{
    (void)function;
    CALL_INSIDE("function_set");
    mock_want(value > 0, "nothing is set");
    mock_want(attribute == CU_FUNCTION_SHARED_BYTES || attribute == CU_FUNCTION_LARGE_CLUSTERS,
              "an unknown attribute is set");
    mock.large_clusters = mock.large_clusters || attribute == CU_FUNCTION_LARGE_CLUSTERS;
    return 0;
}

/* ---- launches ---- */

static CuResult cu_launch(CuFunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                          unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                          CuStream stream, void **args, void **extra)
{
    (void)extra;
    CALL_INSIDE("launch");
    if (stream == MOCK_FOREIGN) {
        return CU_ERROR_INVALID_HANDLE;
    }
    mock_want(gy * gz * by * bz == 1, "a grid of more than one axis");
    mock_note_launch(gx, bx, shared, args);
    mock_run_code(function, args);
    return 0;
}

static CuResult cu_launch_ex(const CuLaunchConfig *config, CuFunction function, void **args,
                             void **extra)
{
    (void)extra;
    CALL_INSIDE("launch_ex");
    if (config->stream == MOCK_FOREIGN) {
        return CU_ERROR_INVALID_HANDLE;
    }
    mock.cluster = 1;
    mock_want(config->n_attributes > 0, "no attribute");
    for (unsigned int i = 0; i < config->n_attributes; i++) {
        const CuLaunchAttribute *attribute = &config->attributes[i];
        mock_want(attribute->id == CU_LAUNCH_CLUSTER || attribute->id == CU_LAUNCH_EARLY,
                  "an unknown attribute of a launch");
        if (attribute->id == CU_LAUNCH_CLUSTER) {
            mock.cluster = attribute->value.cluster.x;
        } else {
            mock_want(attribute->value.early == 1, "early, but not");
            mock.early++;
        }
    }
    mock_want(mock.cluster <= 8 || mock.large_clusters, "a large cluster that was not asked for");
    mock_note_launch(config->grid_x, config->block_x, config->shared_bytes, args);
    mock_run_code(function, args);
    return 0;
}

static CuResult cu_stream_sync(CuStream stream)
{
    (void)stream;
    CALL_INSIDE("stream_sync");
    mock_wait();
    return 0;
}

static CuResult cu_event_create(CuEvent *event, unsigned int flags)
{
    (void)flags;
    return made(event, 1, "event_create");
}

static CuResult cu_event_record(CuEvent event, CuStream stream)
{
    (void)event, (void)stream;
    CALL_INSIDE("event_record");
    return 0;
}

static CuResult cu_event_sync(CuEvent event)
{
    (void)event;
    CALL_INSIDE("event_sync");
    mock_wait();
    return 0;
}

static CuResult cu_event_elapsed(float *milliseconds, CuEvent first, CuEvent last)
{
    (void)first, (void)last;
    CALL_INSIDE("event_elapsed");
    *milliseconds = mock.milliseconds > 0 ? mock.milliseconds * (float)mock.launches : 5;
    mock.launches = mock.sweeps ? 0 : mock.launches;
    return 0;
}

static CuResult cu_event_destroy(CuEvent event)
{
    return destroyed(event, "event_destroy");
}

/* What both kinds of tensor maps have. */
static void note_map(CuTensorMap *map, CuTensorMapType type, CuU32 rank, void *address,
                     const CuU64 *dims, const CuU64 *strides, CuTensorMapSwizzle swizzle)
{
    mock.map_address = address;
    mock_want((uintptr_t)map % 64 == 0, "a descriptor that is not aligned");
    memset(map, 0x5a, sizeof *map);
    mock.map_rank = rank;
    mock.map_type = type;
    mock.map_swizzle = swizzle;
    for (CuU32 i = 0; i < rank; i++) {
        mock.map_dims[i] = dims[i];
        mock.map_strides[i] = strides[i];
    }
}

static CuResult cu_encode_tiled(CuTensorMap *map, CuTensorMapType type, CuU32 rank, void *address,
                                const CuU64 *dims, const CuU64 *strides, const CuU32 *box,
                                const CuU32 *steps, CuTensorMapInterleave interleave,
                                CuTensorMapSwizzle swizzle, CuTensorMapPromotion promotion,
                                CuTensorMapFill fill)
{
    (void)interleave, (void)promotion, (void)fill;
    CALL_INSIDE("encode_tiled");
    note_map(map, type, rank, address, dims, strides, swizzle);
    for (CuU32 i = 0; i < rank; i++) {
        mock_want(steps[i] == 1, "steps of a bulk copy");
        mock.map_box[i] = box[i];
    }
    return 0;
}

static CuResult cu_pointer_attribute(void *value, CuPointerAttribute attribute, CuAddress address)
{
    CALL_INSIDE("pointer_attribute");
    mock_want(attribute == CU_POINTER_MEMORY_TYPE, "another attribute of an address");
    *(unsigned int *)value = 2;
    return (void *)(uintptr_t)address == mock.foreign ? CU_ERROR_INVALID_VALUE : 0;
}

static CuResult cu_encode_im2col(CuTensorMap *map, CuTensorMapType type, CuU32 rank, void *address,
                                 const CuU64 *dims, const CuU64 *strides, const int *lower,
                                 const int *upper, CuU32 channels, CuU32 pixels, const CuU32 *steps,
                                 CuTensorMapInterleave interleave, CuTensorMapSwizzle swizzle,
                                 CuTensorMapPromotion promotion, CuTensorMapFill fill)
{
    (void)interleave, (void)promotion, (void)fill;
    CALL_INSIDE("encode_im2col");
    note_map(map, type, rank, address, dims, strides, swizzle);
    mock.map_channels = channels;
    mock.map_pixels = pixels;
    for (CuU32 i = 0; i < rank; i++) {
        mock.map_steps[i] = steps[i];
    }
    for (CuU32 i = 0; i + 2 < rank; i++) {
        mock.map_lower[i] = lower[i];
        mock.map_upper[i] = upper[i];
    }
    return 0;
}

/* ---- streams and graphs ---- */

static CuResult cu_context_device(CuDevice *device)
{
    MOCK_CALL("context_device");
    *device = MOCK_OPENED;
    return 0;
}

static CuResult cu_stream_create(CuStream *stream, unsigned int flags)
{
    CALL_INSIDE("stream_create");
    mock_want(flags == CU_STREAM_FLAG_NON_BLOCKING, "a stream that waits for the default one");
    *stream = mock_open(1);
    return 0;
}

static CuResult cu_stream_destroy(CuStream stream)
{
    return destroyed(stream, "stream_destroy");
}

static CuResult cu_stream_wait(CuStream stream, CuEvent event, unsigned int flags)
{
    (void)stream, (void)event, (void)flags;
    CALL_INSIDE("stream_wait");
    return 0;
}

static CuResult cu_host_alloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    return made(memory, bytes, "host_alloc");
}

static CuResult cu_host_release(void *memory)
{
    return destroyed(memory, "host_release");
}

static CuResult cu_copy_in_async(CuAddress to, const void *from, size_t n, CuStream stream)
{
    (void)stream;
    CALL_INSIDE("copy_in_async");
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}

static CuResult cu_copy_out_async(void *to, CuAddress from, size_t n, CuStream stream)
{
    (void)stream;
    CALL_INSIDE("copy_out_async");
    memcpy(to, (void *)(uintptr_t)from, n);
    return 0;
}

static CuResult cu_copy_peer(CuAddress to, CuContext to_context, CuAddress from,
                             CuContext from_context, size_t n, CuStream stream)
{
    (void)stream;
    CALL_INSIDE("copy_peer");
    mock_want(to_context == mock.current && device_of(from_context) >= 0,
              "a copy to another context");
    mock_note_copy(device_of(to_context), device_of(from_context));
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return 0;
}

static CuResult cu_peer_possible(int *can, CuDevice device, CuDevice peer)
{
    MOCK_CALL("peer_possible");
    *can = device != peer && !mock.apart;
    return 0;
}

static CuResult cu_peer_enable(CuContext peer, unsigned int flags)
{
    CALL_INSIDE("peer_enable");
    mock_want(device_of(peer) >= 0 && flags == 0, "access to no context");
    return mock_reach(device_of(mock.current), device_of(peer));
}

static CuResult cu_capture_mode(CuCaptureMode *mode)
{
    MOCK_CALL("capture_mode");
    CuCaptureMode before = mock.capture;
    mock.capture = *mode;
    *mode = before;
    return 0;
}

static CuResult cu_capture_begin(CuStream stream, CuCaptureMode mode)
{
    CALL_INSIDE("capture_begin");
    mock_want(stream && mode == CU_CAPTURE_THREAD_LOCAL, "a capture that stops other threads");
    mock.captures = true;
    return 0;
}

static CuResult cu_capture_end(CuStream stream, CuGraph *graph)
{
    (void)stream;
    CALL_INSIDE("capture_end");
    mock.captures = false;
    *graph = mock_open(1);
    return 0;
}

static CuResult cu_graph_instantiate(CuGraphExec *instance, CuGraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    return made(instance, 1, "graph_instantiate");
}

static CuResult cu_graph_launch(CuGraphExec instance, CuStream stream)
{
    (void)instance, (void)stream;
    CALL_INSIDE("graph_launch");
    return 0;
}

static CuResult cu_graph_destroy(CuGraph graph)
{
    return destroyed(graph, "graph_destroy");
}

static CuResult cu_instance_destroy(CuGraphExec instance)
{
    return destroyed(instance, "instance_destroy");
}

/* All calls of the table, under our names and, for dlsym, under the driver's. */
const CudaDriver mock_cuda = {
#define CUDA_CALL(need, field, symbol, params) .field = cu_##field,
#include "runtime/device/cuda.def"
#undef CUDA_CALL
};

#ifdef MOCK_LIBRARY
#define CUDA_CALL(need, field, symbol, params)                                                     \
    MOCK_SHOWN CuResult symbol params __attribute__((alias("cu_" #field)));
#include "runtime/device/cuda.def"
#undef CUDA_CALL
#endif
