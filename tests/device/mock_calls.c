/* SPDX-License-Identifier: Apache-2.0 */
/* Most of a driver's calls have nothing to do but count. */
#include "tests/device/mock.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Mock mock;

void mock_reset(int fail_at)
{
    mock = (Mock){.fail_at = fail_at, .map_argument = -1, .device = MOCK_CALLERS};
}

enum { MOCK_ERROR = 2 };

/* True: this call is the one that fails. */
static bool fails(const char *name)
{
    if (++mock.calls != mock.fail_at) {
        return false;
    }
    snprintf(mock.last, sizeof mock.last, "%s", name);
    return true;
}

#define CALL(name)                                                                                 \
    do {                                                                                           \
        if (fails(name)) {                                                                         \
            return MOCK_ERROR;                                                                     \
        }                                                                                          \
    } while (0)

static CuContext retained;
static char others;

void mock_be_elsewhere(void)
{
    mock.current = &others;
}

void mock_be_inside(void)
{
    mock.current = retained;
}

/* What is given back is given back even where the context could not be made current. */
static void want_context(void)
{
    ck_assert(mock.current == retained || mock.last[0]);
}

static void want_device(void)
{
    ck_assert(mock.device == MOCK_OPENED || mock.last[0]);
}

#define CUDA_CALL_INSIDE(name)                                                                     \
    do {                                                                                           \
        want_context();                                                                            \
        CALL(name);                                                                                \
    } while (0)
#define HIP_CALL_INSIDE(name)                                                                      \
    do {                                                                                           \
        want_device();                                                                             \
        CALL(name);                                                                                \
    } while (0)

static void *opened(void)
{
    mock.open++;
    return malloc(1);
}

static void closed(void *handle)
{
    mock.open--;
    free(handle);
}

/* ---- CUDA ---- */

static CuResult cu_init(unsigned int flags)
{
    (void)flags;
    CALL("init");
    return 0;
}

static CuResult cu_version(int *version)
{
    CALL("driver_version");
    *version = 13000;
    return 0;
}

static CuResult cu_text(CuResult result, const char **text)
{
    *text = result == MOCK_ERROR ? "MOCK_ERROR" : NULL;
    return 0;
}

static CuResult cu_count(int *count)
{
    CALL("device_count");
    *count = MOCK_DEVICES;
    return 0;
}

static CuResult cu_device(CuDevice *device, int ordinal)
{
    CALL("device_get");
    *device = ordinal;
    return 0;
}

static CuResult cu_name(char *name, int n, CuDevice device)
{
    CALL("device_name");
    snprintf(name, (size_t)n, "Mock %d", device);
    return 0;
}

static CuResult cu_attribute(int *value, CuDeviceAttribute attribute, CuDevice device)
{
    (void)device;
    CALL("device_attribute");
    switch (attribute) {
    case CU_DEVICE_UNITS: *value = 10; break;
    case CU_DEVICE_WARP: *value = 32; break;
    case CU_DEVICE_MAX_THREADS: *value = 1024; break;
    case CU_DEVICE_SHARED_BYTES: *value = 232448; break;
    case CU_DEVICE_MAJOR: *value = 9; break;
    default: *value = 0;
    }
    return 0;
}

static CuResult cu_memory(size_t *bytes, CuDevice device)
{
    (void)device;
    CALL("device_memory");
    *bytes = (size_t)1 << 30;
    return 0;
}

static CuResult cu_retain(CuContext *context, CuDevice device)
{
    (void)device;
    CALL("context_retain");
    *context = retained = opened();
    return 0;
}

static CuResult cu_release_context(CuDevice device)
{
    (void)device;
    mock.open--;
    free(retained);
    retained = NULL;
    return 0;
}

static CuResult cu_current(CuContext *context)
{
    CALL("context_current");
    *context = mock.current;
    return 0;
}

static CuResult cu_push(CuContext context)
{
    CALL("context_push");
    ck_assert_ptr_eq(context, retained);
    ck_assert_int_lt(mock.pushed, 4);
    mock.below[mock.pushed++] = mock.current;
    mock.current = context;
    return 0;
}

static CuResult cu_pop(CuContext *context)
{
    mock.pops++;
    ck_assert_int_gt(mock.pushed, 0);
    *context = mock.current;
    mock.current = mock.below[--mock.pushed];
    return 0;
}

static CuResult cu_alloc(CuAddress *address, size_t bytes)
{
    CUDA_CALL_INSIDE("alloc");
    mock.open++;
    *address = (CuAddress)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return 0;
}

static CuResult cu_free(CuAddress address)
{
    want_context();
    closed((void *)(uintptr_t)address);
    return 0;
}

static CuResult cu_in(CuAddress to, const void *from, size_t n)
{
    CUDA_CALL_INSIDE("copy_in");
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}

static CuResult cu_out(void *to, CuAddress from, size_t n)
{
    CUDA_CALL_INSIDE("copy_out");
    memcpy(to, (void *)(uintptr_t)from, n);
    return 0;
}

static CuResult cu_copy(CuAddress to, CuAddress from, size_t n, CuStream stream)
{
    (void)stream;
    CUDA_CALL_INSIDE("copy");
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return 0;
}

static CuResult cu_load(CuModule *module, const void *image, unsigned int n, CuJitOption *options,
                        void **values)
{
    (void)image;
    want_context();
    if (fails("module_load")) {
        ck_assert_uint_eq(n, 3);
        ck_assert_uint_eq(options[0], CU_JIT_LOG);
        snprintf(values[0], (size_t)(uintptr_t)values[1], "line 7: no such instruction");
        return MOCK_ERROR;
    }
    *module = opened();
    return 0;
}

static CuResult cu_unload(CuModule module)
{
    want_context();
    closed(module);
    return 0;
}

static CuResult cu_function(CuFunction *function, CuModule module, const char *name)
{
    CUDA_CALL_INSIDE("module_function");
    ck_assert_str_eq(name, "mock_0");
    *function = (CuFunction)(void *)module;
    return 0;
}

static CuResult cu_set(CuFunction function, CuFunctionAttribute attribute, int value)
{
    (void)function;
    CUDA_CALL_INSIDE("function_set");
    ck_assert_uint_eq(attribute, CU_FUNCTION_SHARED_BYTES);
    ck_assert_int_gt(value, 0);
    return 0;
}

static void note_launch(unsigned int grid, unsigned int block, unsigned int shared, void **args)
{
    mock.launches++;
    mock.grid = grid;
    mock.block = block;
    mock.shared = shared;
    memcpy(&mock.first_argument, args[0], sizeof mock.first_argument);
    if (mock.map_argument >= 0) {
        memcpy(mock.map, args[mock.map_argument], sizeof mock.map);
    }
}

static CuResult cu_launch(CuFunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                          unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                          CuStream stream, void **args, void **extra)
{
    (void)function, (void)stream, (void)extra;
    CUDA_CALL_INSIDE("launch");
    ck_assert_uint_eq(gy * gz * by * bz, 1);
    note_launch(gx, bx, shared, args);
    return 0;
}

static CuResult cu_launch_ex(const CuLaunchConfig *config, CuFunction function, void **args,
                             void **extra)
{
    (void)function, (void)extra;
    CUDA_CALL_INSIDE("launch_ex");
    ck_assert_uint_eq(config->n_attributes, 1);
    mock.cluster = config->attributes[0].value.cluster.x;
    note_launch(config->grid_x, config->block_x, config->shared_bytes, args);
    return 0;
}

static CuResult cu_sync(CuStream stream)
{
    (void)stream;
    CUDA_CALL_INSIDE("stream_sync");
    return 0;
}

static CuResult cu_event(CuEvent *event, unsigned int flags)
{
    (void)flags;
    CUDA_CALL_INSIDE("event_create");
    *event = opened();
    return 0;
}

static CuResult cu_record(CuEvent event, CuStream stream)
{
    (void)event, (void)stream;
    CUDA_CALL_INSIDE("event_record");
    return 0;
}

static CuResult cu_event_sync(CuEvent event)
{
    (void)event;
    CUDA_CALL_INSIDE("event_sync");
    return 0;
}

static CuResult cu_elapsed(float *milliseconds, CuEvent first, CuEvent last)
{
    (void)first, (void)last;
    CUDA_CALL_INSIDE("event_elapsed");
    *milliseconds = 5;
    return 0;
}

static CuResult cu_event_free(CuEvent event)
{
    want_context();
    closed(event);
    return 0;
}

static CuResult cu_encode(CuTensorMap *map, CuTensorMapType type, CuU32 rank, void *address,
                          const CuU64 *dims, const CuU64 *strides, const CuU32 *box,
                          const CuU32 *steps, CuTensorMapInterleave interleave,
                          CuTensorMapSwizzle swizzle, CuTensorMapPromotion promotion,
                          CuTensorMapFill fill)
{
    (void)address, (void)interleave, (void)promotion, (void)fill;
    CUDA_CALL_INSIDE("encode_tiled");
    ck_assert_uint_eq((uintptr_t)map % 64, 0);
    memset(map, 0x5a, sizeof *map);
    mock.map_rank = rank;
    mock.map_type = type;
    mock.map_swizzle = swizzle;
    for (CuU32 i = 0; i < rank; i++) {
        ck_assert_uint_eq(steps[i], 1);
        mock.map_dims[i] = dims[i];
        mock.map_box[i] = box[i];
        mock.map_strides[i] = strides[i];
    }
    return 0;
}

const CudaDriver mock_cuda = {
    .init = cu_init, .driver_version = cu_version, .error_name = cu_text, .error_string = cu_text,
    .device_count = cu_count, .device_get = cu_device, .device_name = cu_name,
    .device_attribute = cu_attribute, .device_memory = cu_memory, .context_retain = cu_retain,
    .context_release = cu_release_context, .context_current = cu_current,
    .context_push = cu_push, .context_pop = cu_pop,
    .alloc = cu_alloc, .release = cu_free, .copy_in = cu_in, .copy_out = cu_out, .copy = cu_copy,
    .module_load = cu_load, .module_unload = cu_unload, .module_function = cu_function,
    .function_set = cu_set, .launch = cu_launch, .stream_sync = cu_sync,
    .event_create = cu_event, .event_record = cu_record, .event_sync = cu_event_sync,
    .event_elapsed = cu_elapsed, .event_destroy = cu_event_free, .launch_ex = cu_launch_ex,
    .encode_tiled = cu_encode,
};

/* ---- HIP ---- */

static HipResult hip_count(int *count)
{
    return cu_count(count);
}

static HipResult hip_set(int device)
{
    CALL("device_set");
    mock.device = device;
    return 0;
}

static HipResult hip_current(int *device)
{
    CALL("device_current");
    *device = mock.device;
    return 0;
}

static HipResult fill_properties(char *bytes, HipLayout at)
{
    int warp = 64, units = 304, threads = 1024;
    size_t shared = 65536, memory = (size_t)1 << 37;
    CALL("properties");
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

static HipResult hip_alloc(void **memory, size_t bytes)
{
    HIP_CALL_INSIDE("alloc");
    mock.open++;
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return 0;
}

static HipResult hip_free(void *memory)
{
    want_device();
    closed(memory);
    return 0;
}

static HipResult hip_in(void *to, void *from, size_t n)
{
    HIP_CALL_INSIDE("copy_in");
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_out(void *to, void *from, size_t n)
{
    HIP_CALL_INSIDE("copy_out");
    memcpy(to, from, n);
    return 0;
}

static HipResult hip_copy(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    HIP_CALL_INSIDE("copy");
    memmove(to, from, n);
    return 0;
}

static HipResult hip_load(void **module, const void *image)
{
    (void)image;
    HIP_CALL_INSIDE("module_load");
    *module = opened();
    return 0;
}

static HipResult hip_function(void **function, void *module, const char *name)
{
    (void)name;
    HIP_CALL_INSIDE("module_function");
    *function = module;
    return 0;
}

static HipResult hip_launch(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                            unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                            void *stream, void **args, void **extra)
{
    (void)function, (void)stream, (void)extra;
    HIP_CALL_INSIDE("launch");
    ck_assert_uint_eq(gy * gz * by * bz, 1);
    note_launch(gx, bx, shared, args);
    return 0;
}

static HipResult hip_sync(void *stream)
{
    (void)stream;
    HIP_CALL_INSIDE("stream_sync");
    return 0;
}

static HipResult hip_event(void **event)
{
    HIP_CALL_INSIDE("event_create");
    *event = opened();
    return 0;
}

static HipResult hip_record(void *event, void *stream)
{
    (void)event, (void)stream;
    HIP_CALL_INSIDE("event_record");
    return 0;
}

static HipResult hip_event_sync(void *event)
{
    (void)event;
    HIP_CALL_INSIDE("event_sync");
    return 0;
}

static HipResult hip_elapsed(float *milliseconds, void *first, void *last)
{
    (void)first, (void)last;
    HIP_CALL_INSIDE("event_elapsed");
    *milliseconds = 5;
    return 0;
}

static const char *hip_text(HipResult result)
{
    return result == MOCK_ERROR ? "MOCK_ERROR" : NULL;
}

const HipDriver mock_hip = {
    .init = cu_init, .driver_version = cu_version, .device_count = hip_count,
    .device_set = hip_set, .device_current = hip_current, .properties_new = hip_properties_new,
    .properties_old = hip_properties_old, .alloc = hip_alloc, .release = hip_free,
    .copy_in = hip_in, .copy_out = hip_out, .copy = hip_copy, .module_load = hip_load,
    .module_unload = hip_free, .module_function = hip_function, .launch = hip_launch,
    .stream_sync = hip_sync, .event_create = hip_event, .event_record = hip_record,
    .event_sync = hip_event_sync, .event_elapsed = hip_elapsed, .event_destroy = hip_free,
    .error_name = hip_text, .error_string = hip_text,
};

START_TEST(tables_are_complete)
{
    void *const *cuda = (void *const *)&mock_cuda, *const *hip = (void *const *)&mock_hip;
    for (size_t i = 0; i < sizeof mock_cuda / sizeof *cuda; i++) {
        ck_assert_ptr_nonnull(cuda[i]);
    }
    for (size_t i = 0; i < sizeof mock_hip / sizeof *hip; i++) {
        ck_assert_ptr_nonnull(hip[i]);
    }
}
END_TEST

UNIT_TESTS(device_mock_calls)
{
    TCase *tests = tcase_create("mock");
    tcase_add_test(tests, tables_are_complete);
    return tests;
}
