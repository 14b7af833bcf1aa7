/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's runtime with the emulator as its device: libamdhip64.so.6 in a folder that serves as
 * $ROCM_PATH, so that everything that runs with --device hip executes AMD code without a GPU.
 * TESSERA_EMULATED names the GPU (gfx942). An illegal action of a kernel ends the process with the
 * emulator's message; so does the use of scratch memory, unless TESSERA_EMULATED_SCRATCH is set.
 * One call runs at a time; the work of a stream is finished when the call returns. */
#include "tests/codegen/amdgcn/emulator/launch.h"

#include "runtime/device/hip_driver.h"
#include "tests/codegen/emulator/cards.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
enum { UNITS = 3 };

typedef struct Function {
    const Object *object;
    char symbol[256];
    struct Function *next; /* of its module */
} Function;

typedef struct Module {
    Object object;
    uint8_t *image;
    Function *functions;
} Module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *target(void)
{
    const char *named = getenv("TESSERA_EMULATED");
    return named && *named ? named : "gfx942";
}

/* ---- devices ---- */

static HipResult hip_init(unsigned int flags)
{
    (void)flags;
    return HIP_OK;
}

static HipResult hip_driver_version(int *version)
{
    *version = 60342131;
    return HIP_OK;
}

static HipResult hip_device_count(int *count)
{
    *count = 1;
    return HIP_OK;
}

static HipResult hip_device_set(int device)
{
    return device == 0 ? HIP_OK : HIP_ERROR_INVALID_HANDLE;
}

static HipResult hip_device_current(int *device)
{
    *device = 0;
    return HIP_OK;
}

static void fill_properties(char *bytes, HipLayout at)
{
    int warp = target()[3] == '9' ? 64 : 32, units = UNITS, threads = 1024;
    size_t shared = strcmp(target(), "gfx950") == 0 ? 160 << 10 : 64 << 10;
    size_t memory = (size_t)1 << 32;
    snprintf(bytes, 256, "Emulated %s", card_title(target()));
    strcpy(bytes + at.arch, target());
    memcpy(bytes + at.warp, &warp, sizeof warp);
    memcpy(bytes + at.units, &units, sizeof units);
    memcpy(bytes + at.threads, &threads, sizeof threads);
    memcpy(bytes + at.shared, &shared, sizeof shared);
    memcpy(bytes + at.memory, &memory, sizeof memory);
}

static HipResult hip_properties_new(void *properties, int device)
{
    (void)device;
    fill_properties(properties, HIP_LAYOUT_NEW);
    return HIP_OK;
}

static HipResult hip_properties_old(void *properties, int device)
{
    (void)device;
    fill_properties(properties, HIP_LAYOUT_OLD);
    return HIP_OK;
}

/* ---- memory ---- */

static uint8_t *at_address(uintptr_t address, size_t n)
{
    for (int i = 0; i < n_buffers; i++) {
        uint64_t offset = address - buffers[i].address;
        if (buffers[i].bytes && offset <= buffers[i].size && n <= buffers[i].size - offset) {
            return buffers[i].bytes + offset;
        }
    }
    fail("a copy", "from or to what is no memory of the device");
}

static HipResult hip_alloc(void **memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    char name[64];
    snprintf(name, sizeof name, "%zu bytes of memory", bytes);
    /* Whole words, as of any device: atomics of smaller elements change those. */
    *memory = (void *)(uintptr_t)buffer_new(name, (bytes + 3) / 4 * 4, true)->address;
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_release(void *memory)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; memory && i < n_buffers; i++) {
        if (buffers[i].address == (uintptr_t)memory) {
            buffer_free(&buffers[i]);
        }
    }
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_copy_in(void *to, void *from, size_t n)
{
    pthread_mutex_lock(&lock);
    memcpy(at_address((uintptr_t)to, n), from, n);
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_copy_out(void *to, void *from, size_t n)
{
    pthread_mutex_lock(&lock);
    memcpy(to, at_address((uintptr_t)from, n), n);
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_copy(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    memmove(at_address((uintptr_t)to, n), at_address((uintptr_t)from, n), n);
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_copy_in_async(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    return hip_copy_in(to, from, n);
}

static HipResult hip_copy_out_async(void *to, void *from, size_t n, void *stream)
{
    (void)stream;
    return hip_copy_out(to, from, n);
}

static HipResult hip_copy_peer(void *to, int to_device, const void *from, int from_device, size_t n,
                               void *stream)
{
    (void)to_device, (void)from_device;
    return hip_copy(to, (void *)(uintptr_t)from, n, stream);
}

/* There is one device. */
static HipResult hip_peer_possible(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return HIP_OK;
}

static HipResult hip_peer_enable(int peer, unsigned int flags)
{
    (void)peer, (void)flags;
    return HIP_OK;
}

static HipResult hip_last_error(void)
{
    return HIP_OK;
}

static HipResult hip_capture_mode(unsigned int *mode)
{
    (void)mode;
    return HIP_OK;
}

static HipResult hip_host_alloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    *memory = malloc(bytes);
    return HIP_OK;
}

static HipResult hip_host_release(void *memory)
{
    free(memory);
    return HIP_OK;
}

/* ---- modules and launches ---- */

/* The last part of an object are its section headers. */
static size_t image_bytes(const uint8_t *image)
{
    uint64_t headers;
    uint16_t each, n;
    memcpy(&headers, image + 40, sizeof headers);
    memcpy(&each, image + 58, sizeof each);
    memcpy(&n, image + 60, sizeof n);
    return (size_t)headers + (size_t)each * n;
}

static HipResult hip_module_load(void **made, const void *image)
{
    pthread_mutex_lock(&lock);
    Module *module = calloc(1, sizeof *module);
    size_t size = image_bytes(image);
    module->image = malloc(size);
    memcpy(module->image, image, size);
    object_load(&module->object, module->image, size);
    if (strcmp(module->object.target, target()) != 0) {
        fail("the code is for another part", module->object.target);
    }
    *made = module;
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

static HipResult hip_module_unload(void *unloaded)
{
    Module *module = unloaded;
    while (module->functions) {
        Function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    object_drop(&module->object);
    free(module->image);
    free(module);
    return HIP_OK;
}

static HipResult hip_module_function(void **function, void *of, const char *name)
{
    enum { NOT_FOUND = 500 };
    Module *module = of;
    if (!kernel_named(&module->object, name)) {
        return NOT_FOUND;
    }
    Function *made = calloc(1, sizeof *made);
    made->object = &module->object;
    snprintf(made->symbol, sizeof made->symbol, "%s", name);
    made->next = module->functions;
    module->functions = made;
    *function = made;
    return HIP_OK;
}

static void give_arguments(const Kernel *kernel, void **args)
{
    for (int i = 0; i < kernel->n_args; i++) {
        uint64_t value = 0;
        unsigned size = (unsigned)kernel->args[i][1];
        if (size > sizeof value) {
            fail("an argument of more than 8 bytes", kernel->name);
        }
        memcpy(&value, args[i], size);
        launch_argument((unsigned)kernel->args[i][0], size, value);
    }
}

static HipResult hip_launch(void *launched, unsigned int gx, unsigned int gy, unsigned int gz,
                            unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                            void *stream, void **args, void **extra)
{
    const Function *function = launched;
    uint64_t steps;
    (void)stream;
    if (gx == 0 || gy * gz * by * bz != 1 || shared || extra) {
        fail("a launch of another form", function->symbol);
    }
    pthread_mutex_lock(&lock);
    give_arguments(kernel_named(function->object, function->symbol), args);
    const Kernel *kernel = launch_kernel(function->object, function->symbol, gx, (int)bx, &steps);
    if (kernel->scratch_bytes && !getenv("TESSERA_EMULATED_SCRATCH")) {
        fail("scratch memory", function->symbol);
    }
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

/* ---- time, streams ---- */

static HipResult hip_event_create(void **event)
{
    *event = calloc(1, 1);
    return HIP_OK;
}

static HipResult hip_event_record(void *event, void *stream)
{
    (void)event, (void)stream;
    return HIP_OK;
}

static HipResult hip_event_sync(void *event)
{
    (void)event;
    return HIP_OK;
}

static HipResult hip_event_elapsed(float *milliseconds, void *first, void *last)
{
    (void)first, (void)last;
    *milliseconds = 1;
    return HIP_OK;
}

static HipResult hip_event_destroy(void *event)
{
    free(event);
    return HIP_OK;
}

static HipResult hip_stream_create(void **stream, unsigned int flags)
{
    (void)flags;
    return hip_event_create(stream);
}

static HipResult hip_stream_destroy(void *stream)
{
    return hip_event_destroy(stream);
}

static HipResult hip_stream_sync(void *stream)
{
    (void)stream;
    return HIP_OK;
}

static HipResult hip_stream_wait(void *stream, void *event, unsigned int flags)
{
    (void)stream, (void)event, (void)flags;
    return HIP_OK;
}

/* ---- graphs: none ---- */

enum { NOT_SUPPORTED = 801 };

static HipResult hip_capture_begin(void *stream, unsigned int mode)
{
    (void)stream, (void)mode;
    return NOT_SUPPORTED;
}

static HipResult hip_capture_end(void *stream, void **graph)
{
    (void)stream, (void)graph;
    return NOT_SUPPORTED;
}

static HipResult hip_graph_instantiate(void **instance, void *graph, unsigned long long flags)
{
    (void)instance, (void)graph, (void)flags;
    return NOT_SUPPORTED;
}

static HipResult hip_graph_launch(void *instance, void *stream)
{
    (void)instance, (void)stream;
    return NOT_SUPPORTED;
}

static HipResult hip_graph_destroy(void *graph)
{
    (void)graph;
    return NOT_SUPPORTED;
}

static HipResult hip_instance_destroy(void *instance)
{
    (void)instance;
    return NOT_SUPPORTED;
}

static const char *hip_error_name(HipResult result)
{
    return result == NOT_SUPPORTED ? "hipErrorNotSupported" : "hipErrorUnknown";
}

static const char *hip_error_string(HipResult result)
{
    return result == NOT_SUPPORTED ? "not emulated" : "another error";
}

/* All calls of the table, under the runtime's names. */
#define HIP_CALL(need, field, symbol, params)                                                      \
    SHOWN HipResult symbol params __attribute__((alias("hip_" #field)));
#define HIP_TEXT(need, field, symbol, params)                                                      \
    SHOWN const char *symbol params __attribute__((alias("hip_" #field)));
#include "runtime/device/hip.def"
#undef HIP_CALL
#undef HIP_TEXT
