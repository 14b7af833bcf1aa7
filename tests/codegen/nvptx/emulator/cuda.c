/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's driver with the emulator as its device: libcuda.so.1 in a folder of LD_LIBRARY_PATH, so
 * that everything that runs with --device cuda executes PTX without a GPU. TESSERA_EMULATED names
 * the GPU (sm_90a). An illegal action of a kernel ends the process with the emulator's message.
 * One call runs at a time; the work of a stream is finished when the call returns. */
#include "tests/codegen/nvptx/emulator/launch.h"

#include "runtime/device/cuda_driver.h"
#include "tests/codegen/emulator/cards.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
enum { UNITS = 3, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

typedef struct Function {
    const Kernel *kernel;
    struct Function *next; /* of its module */
} Function;

typedef struct Code {
    Module module;
    Function *functions;
} Code;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CuContext current;
static char context;

static const char *target(void)
{
    const char *named = getenv("TESSERA_EMULATED");
    return named && *named ? named : "sm_90a";
}

/* ---- devices ---- */

static CuResult cu_init(unsigned int flags)
{
    (void)flags;
    return CU_OK;
}

static CuResult cu_driver_version(int *version)
{
    *version = 13000;
    return CU_OK;
}

static CuResult cu_error_name(CuResult result, const char **text)
{
    *text = result == NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED" : "CUDA_ERROR_UNKNOWN";
    return CU_OK;
}

static CuResult cu_error_string(CuResult result, const char **text)
{
    *text = result == NOT_SUPPORTED ? "not emulated" : "another error";
    return CU_OK;
}

static CuResult cu_device_count(int *count)
{
    *count = 1;
    return CU_OK;
}

static CuResult cu_device_get(CuDevice *device, int ordinal)
{
    *device = ordinal;
    return CU_OK;
}

static CuResult cu_device_name(char *name, int n, CuDevice device)
{
    (void)device;
    snprintf(name, (size_t)n, "Emulated %s", card_title(target()));
    return CU_OK;
}

static CuResult cu_device_attribute(int *value, CuDeviceAttribute attribute, CuDevice device)
{
    int part = atoi(target() + 3); /* sm_90a */
    (void)device;
    switch (attribute) {
    case CU_DEVICE_CLOCK: *value = 1000000; break;
    case CU_DEVICE_UNITS: *value = UNITS; break;
    case CU_DEVICE_WARP: *value = LANES; break;
    case CU_DEVICE_MAX_THREADS: *value = MAX_WARPS * LANES; break;
    case CU_DEVICE_SHARED_BYTES:
        *value = part == 80 ? 166912 : part >= 90 && part < 120 ? 232448 : 101376;
        break;
    case CU_DEVICE_MAJOR: *value = part / 10; break;
    case CU_DEVICE_MINOR: *value = part % 10; break;
    default: *value = 0;
    }
    return CU_OK;
}

static CuResult cu_device_memory(size_t *bytes, CuDevice device)
{
    (void)device;
    *bytes = (size_t)1 << 32;
    return CU_OK;
}

/* ---- contexts ---- */

static CuResult cu_context_retain(CuContext *retained, CuDevice device)
{
    (void)device;
    *retained = (CuContext)(void *)&context;
    return CU_OK;
}

static CuResult cu_context_release(CuDevice device)
{
    (void)device;
    return CU_OK;
}

static CuResult cu_context_current(CuContext *now)
{
    *now = current;
    return CU_OK;
}

static CuResult cu_context_push(CuContext pushed)
{
    current = pushed;
    return CU_OK;
}

static CuResult cu_context_pop(CuContext *popped)
{
    *popped = current;
    return CU_OK;
}

static CuResult cu_peer_possible(int *can, CuDevice device, CuDevice peer)
{
    (void)device, (void)peer;
    *can = 0;
    return CU_OK;
}

static CuResult cu_peer_enable(CuContext peer, unsigned int flags)
{
    (void)peer, (void)flags;
    return NOT_SUPPORTED;
}

static CuResult cu_context_device(CuDevice *device)
{
    *device = 0;
    return CU_OK;
}

/* ---- memory ---- */

static uint8_t *at_address(CuAddress address, size_t n)
{
    for (int i = 0; i < n_buffers; i++) {
        uint64_t offset = address - buffers[i].address;
        if (buffers[i].bytes && offset <= buffers[i].size && n <= buffers[i].size - offset) {
            return buffers[i].bytes + offset;
        }
    }
    fail("a copy", "from or to what is no memory of the device");
}

static CuResult cu_alloc(CuAddress *address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    char name[64];
    snprintf(name, sizeof name, "%zu bytes of memory", bytes);
    /* Whole words, as of any device: atomics of smaller elements change those. */
    *address = buffer_new(name, (bytes + 3) / 4 * 4, true)->address;
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_release(CuAddress address)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; address && i < n_buffers; i++) {
        if (buffers[i].address == address) {
            buffer_free(&buffers[i]);
        }
    }
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_copy_in(CuAddress to, const void *from, size_t n)
{
    pthread_mutex_lock(&lock);
    memcpy(at_address(to, n), from, n);
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_copy_out(void *to, CuAddress from, size_t n)
{
    pthread_mutex_lock(&lock);
    memcpy(to, at_address(from, n), n);
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_copy(CuAddress to, CuAddress from, size_t n, CuStream stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    memmove(at_address(to, n), at_address(from, n), n);
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_copy_in_async(CuAddress to, const void *from, size_t n, CuStream stream)
{
    (void)stream;
    return cu_copy_in(to, from, n);
}

static CuResult cu_copy_out_async(void *to, CuAddress from, size_t n, CuStream stream)
{
    (void)stream;
    return cu_copy_out(to, from, n);
}

static CuResult cu_copy_peer(CuAddress to, CuContext to_context, CuAddress from,
                             CuContext from_context, size_t n, CuStream stream)
{
    (void)to_context, (void)from_context;
    return cu_copy(to, from, n, stream);
}

static CuResult cu_host_alloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    *memory = malloc(bytes);
    return CU_OK;
}

static CuResult cu_host_release(void *memory)
{
    free(memory);
    return CU_OK;
}

static CuResult cu_pointer_attribute(void *value, CuPointerAttribute attribute, CuAddress address)
{
    enum { OF_DEVICE = 2 };
    char why[256];
    if (attribute != CU_POINTER_MEMORY_TYPE || !buffer_at(address, 1, false, why, sizeof why)) {
        return CU_ERROR_INVALID_VALUE;
    }
    *(unsigned int *)value = OF_DEVICE;
    return CU_OK;
}

/* ---- maps: a number, the map in a list ---- */

static const char OF_EMULATOR[8] = "emulated";
static Map *kept;
static size_t n_kept;

static int element_bytes(CuTensorMapType type)
{
    switch (type) {
    case CU_MAP_U8: return 1;
    case CU_MAP_U16:
    case CU_MAP_F16:
    case CU_MAP_BF16: return 2;
    case CU_MAP_U64:
    case CU_MAP_I64:
    case CU_MAP_F64: return 8;
    default: return 4;
    }
}

static Map map_of(CuTensorMapType type, CuU32 rank, const void *address, const CuU64 *dims,
                  const CuU64 *strides, CuTensorMapSwizzle swizzle)
{
    Map map = {.address = (uint64_t)(uintptr_t)address,
               .rank = (int)rank,
               .element = element_bytes(type),
               .swizzle = swizzle ? 16 << swizzle : 0,
               .tf32 = type == CU_MAP_TF32};
    for (CuU32 i = 0; i < rank && i < 5; i++) {
        map.dims[i] = (int64_t)dims[i];
        map.strides[i] = i ? (int64_t)strides[i - 1] : 0;
    }
    return map;
}

static CuResult keep(CuTensorMap *to, const Map *map)
{
    pthread_mutex_lock(&lock);
    kept = realloc(kept, (n_kept + 1) * sizeof *kept);
    kept[n_kept] = *map;
    memset(to, 0, sizeof *to);
    memcpy(&to->words[0], OF_EMULATOR, sizeof OF_EMULATOR);
    to->words[1] = n_kept++;
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_encode_tiled(CuTensorMap *to, CuTensorMapType type, CuU32 rank, void *address,
                                const CuU64 *dims, const CuU64 *strides, const CuU32 *box,
                                const CuU32 *steps, CuTensorMapInterleave interleave,
                                CuTensorMapSwizzle swizzle, CuTensorMapPromotion promotion,
                                CuTensorMapFill fill)
{
    (void)steps, (void)interleave, (void)promotion, (void)fill;
    Map map = map_of(type, rank, address, dims, strides, swizzle);
    for (int i = 0; i < map.rank && i < 5; i++) {
        map.box[i] = box[i];
    }
    return keep(to, &map);
}

static CuResult cu_encode_im2col(CuTensorMap *to, CuTensorMapType type, CuU32 rank, void *address,
                                 const CuU64 *dims, const CuU64 *strides, const int *lower,
                                 const int *upper, CuU32 channels, CuU32 pixels, const CuU32 *steps,
                                 CuTensorMapInterleave interleave, CuTensorMapSwizzle swizzle,
                                 CuTensorMapPromotion promotion, CuTensorMapFill fill)
{
    (void)interleave, (void)promotion, (void)fill;
    Map map = map_of(type, rank, address, dims, strides, swizzle);
    map.n_windows = map.rank - 2;
    map.box[0] = channels;
    map.box[1] = pixels;
    for (int i = 0; i < map.n_windows && i < 3; i++) {
        map.lower[i] = lower[i];
        map.upper[i] = upper[i];
        map.step[i] = steps[1 + i];
    }
    return keep(to, &map);
}

/* ---- modules and launches ---- */

static CuResult cu_module_load(CuModule *loaded, const void *image, unsigned int n,
                               CuJitOption *options, void **values)
{
    (void)n, (void)options, (void)values;
    pthread_mutex_lock(&lock);
    Code *code = calloc(1, sizeof *code);
    module_parse(&code->module, image, "the module");
    *loaded = (CuModule)(void *)code;
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_module_unload(CuModule unloaded)
{
    Code *code = (Code *)(void *)unloaded;
    while (code->functions) {
        Function *next = code->functions->next;
        free(code->functions);
        code->functions = next;
    }
    module_drop(&code->module);
    free(code);
    return CU_OK;
}

static CuResult cu_module_function(CuFunction *function, CuModule of, const char *name)
{
    Code *code = (Code *)(void *)of;
    const Kernel *kernel = kernel_named(&code->module, name);
    if (!kernel) {
        return NOT_FOUND;
    }
    Function *made = calloc(1, sizeof *made);
    made->kernel = kernel;
    made->next = code->functions;
    code->functions = made;
    *function = (CuFunction)(void *)made;
    return CU_OK;
}

static CuResult cu_function_set(CuFunction function, CuFunctionAttribute attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return CU_OK;
}

/* An argument's bytes; a map's, as the list has it. */
static void give_argument(const Kernel *kernel, int i, const void *bytes)
{
    unsigned offset = (unsigned)kernel->param_offset[i], size = (unsigned)kernel->param_bytes[i];
    uint64_t which;
    if (size == MAP_BYTES && memcmp(bytes, OF_EMULATOR, sizeof OF_EMULATOR) == 0) {
        memcpy(&which, (const char *)bytes + sizeof OF_EMULATOR, sizeof which);
        launch_map(offset, &kept[which]);
    } else {
        launch_argument(offset, size, bytes);
    }
}

static CuResult launch(CuFunction launched, unsigned blocks, unsigned threads, unsigned shared,
                       unsigned cluster, void **args)
{
    const Kernel *kernel = ((const Function *)(void *)launched)->kernel;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < kernel->n_params; i++) {
        give_argument(kernel, i, args[i]);
    }
    launch_kernel(kernel, blocks, (int)threads, (int)shared, (int)cluster);
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static CuResult cu_launch(CuFunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                          unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                          CuStream stream, void **args, void **extra)
{
    (void)stream;
    if (gx == 0 || gy * gz * by * bz != 1 || extra) {
        fail("a launch of another form", "cuLaunchKernel");
    }
    return launch(function, gx, bx, shared, 1, args);
}

static CuResult cu_launch_ex(const CuLaunchConfig *config, CuFunction function, void **args,
                             void **extra)
{
    unsigned cluster = 1;
    if (config->grid_x == 0 || extra ||
        config->grid_y * config->grid_z * config->block_y * config->block_z != 1) {
        fail("a launch of another form", "cuLaunchKernelEx");
    }
    for (unsigned i = 0; i < config->n_attributes; i++) {
        const CuLaunchAttribute *attribute = &config->attributes[i];
        cluster = attribute->id == CU_LAUNCH_CLUSTER ? attribute->value.cluster.x : cluster;
    }
    return launch(function, config->grid_x, config->block_x, config->shared_bytes, cluster, args);
}

/* ---- time, streams ---- */

static CuResult cu_event_create(CuEvent *event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, 1);
    return CU_OK;
}

static CuResult cu_event_record(CuEvent event, CuStream stream)
{
    (void)event, (void)stream;
    return CU_OK;
}

static CuResult cu_event_sync(CuEvent event)
{
    (void)event;
    return CU_OK;
}

static CuResult cu_event_elapsed(float *milliseconds, CuEvent first, CuEvent last)
{
    (void)first, (void)last;
    *milliseconds = 1;
    return CU_OK;
}

static CuResult cu_event_destroy(CuEvent event)
{
    free(event);
    return CU_OK;
}

static CuResult cu_stream_create(CuStream *stream, unsigned int flags)
{
    (void)flags;
    *stream = calloc(1, 1);
    return CU_OK;
}

static CuResult cu_stream_destroy(CuStream stream)
{
    free(stream);
    return CU_OK;
}

static CuResult cu_stream_sync(CuStream stream)
{
    (void)stream;
    return CU_OK;
}

static CuResult cu_stream_wait(CuStream stream, CuEvent event, unsigned int flags)
{
    (void)stream, (void)event, (void)flags;
    return CU_OK;
}

/* ---- graphs: none ---- */

static CuResult cu_capture_begin(CuStream stream, CuCaptureMode mode)
{
    (void)stream, (void)mode;
    return NOT_SUPPORTED;
}

static CuResult cu_capture_mode(CuCaptureMode *mode)
{
    (void)mode;
    return CU_OK;
}

static CuResult cu_capture_end(CuStream stream, CuGraph *graph)
{
    (void)stream, (void)graph;
    return NOT_SUPPORTED;
}

static CuResult cu_graph_instantiate(CuGraphExec *instance, CuGraph graph, unsigned long long flags)
{
    (void)instance, (void)graph, (void)flags;
    return NOT_SUPPORTED;
}

static CuResult cu_graph_launch(CuGraphExec instance, CuStream stream)
{
    (void)instance, (void)stream;
    return NOT_SUPPORTED;
}

static CuResult cu_graph_destroy(CuGraph graph)
{
    (void)graph;
    return NOT_SUPPORTED;
}

static CuResult cu_instance_destroy(CuGraphExec instance)
{
    (void)instance;
    return NOT_SUPPORTED;
}

/* All calls of the table, under the driver's names. */
#define CUDA_CALL(need, field, symbol, params)                                                     \
    SHOWN CuResult symbol params __attribute__((alias("cu_" #field)));
#include "runtime/device/cuda.def"
#undef CUDA_CALL
