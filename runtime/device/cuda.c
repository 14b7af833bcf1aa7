/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver as a device. Every call that needs a context is made between enter and leave:
 * the device's primary context is current in between, and the caller's context again afterwards. */
#include "runtime/device/cuda_device.h"
#include "runtime/device/device_launch.h"
#include "runtime/device/driver_library.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LOG_BYTES = 1400 };

static const LibrarySymbol SYMBOLS[] = {
#define CUDA_CALL(need, field, symbol, params)                                                     \
    {SYMBOL_##need, #symbol, offsetof(CudaDriver, field)},
#include "runtime/device/cuda.def"
#undef CUDA_CALL
};

bool cuda_check(const Cuda *cuda, CuResult result, const char *call, const char *what,
                DeviceError *error)
{
    if (result == CU_OK) {
        return true;
    }
    const char *name = NULL, *text = NULL;
    cuda->driver.error_name(result, &name);
    cuda->driver.error_string(result, &text);
    if (result == CU_ERROR_INVALID_HANDLE) {
        return device_fail_call(error, DIAG_USAGE, (int)result, call, what, name, DEVICE_FOREIGN);
    }
    bool is_fault = result == CU_ERROR_ILLEGAL_ADDRESS || result == CU_ERROR_LAUNCH_TIMEOUT ||
                    result == CU_ERROR_ASSERT ||
                    (result >= CU_ERROR_FIRST_FAULT && result <= CU_ERROR_LAUNCH_FAILED);
    return device_fail_call(error, is_fault ? DIAG_FAULT : DIAG_ENVIRONMENT, (int)result, call,
                            what, name, text);
}

bool cuda_check_wait(Device *device, CuResult result, const char *call, DeviceError *error)
{
    bool ok =
        cuda_check(device->state, result, call, device->running ? device->running : "", error);
    device->running = ok ? NULL : device->running;
    return ok;
}

/* A process that uses the primary context, as other libraries do, has it current already. */
CudaEntered cuda_enter(const Cuda *cuda, DeviceError *error)
{
    CuContext current = NULL;
    if (!cuda_check(cuda, cuda->driver.context_current(&current), "cuCtxGetCurrent", "", error)) {
        return (CudaEntered){false, false};
    }
    if (current == cuda->context) {
        return (CudaEntered){true, false};
    }
    bool ok =
        cuda_check(cuda, cuda->driver.context_push(cuda->context), "cuCtxPushCurrent", "", error);
    return (CudaEntered){ok, ok};
}

void cuda_leave(const Cuda *cuda, CudaEntered in)
{
    CuContext ours;
    if (in.pushed) {
        cuda->driver.context_pop(&ours);
    }
}

/* ---- opening ---- */

/* `probe`, which may be NULL, hears where the driver was looked for and found. */
static bool get_driver(const void *injected, Cuda *cuda, DeviceProbe *probe, DeviceError *error)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    if (injected) {
        memcpy(&cuda->driver, injected, sizeof cuda->driver);
        return true;
    }
    /* Never closed: drivers keep threads. */
    void *library = library_open(names, "CUDA driver", error);
    if (probe) {
        library_describe(names, library, probe);
    }
    return library && library_bind(library, "CUDA driver", SYMBOLS,
                                   sizeof SYMBOLS / sizeof *SYMBOLS, &cuda->driver, error);
}

static bool get_fact(const Cuda *cuda, CuDeviceAttribute attribute, int *value, DeviceError *error)
{
    return cuda_check(cuda, cuda->driver.device_attribute(value, attribute, cuda->device),
                      "cuDeviceGetAttribute", "", error);
}

static bool get_facts(const Cuda *cuda, DeviceFacts *facts, DeviceError *error)
{
    int major = 0, minor = 0, khz = 0;
    const CudaDriver *d = &cuda->driver;
    bool ok = cuda_check(cuda, d->device_name(facts->name, sizeof facts->name, cuda->device),
                         "cuDeviceGetName", "", error) &&
              cuda_check(cuda, d->device_memory(&facts->memory_bytes, cuda->device),
                         "cuDeviceTotalMem", "", error) &&
              cuda_check(cuda, d->driver_version(&facts->driver_version), "cuDriverGetVersion", "",
                         error) &&
              get_fact(cuda, CU_DEVICE_UNITS, &facts->units, error) &&
              get_fact(cuda, CU_DEVICE_CLOCK, &khz, error) &&
              get_fact(cuda, CU_DEVICE_WARP, &facts->warp, error) &&
              get_fact(cuda, CU_DEVICE_MAX_THREADS, &facts->max_threads, error) &&
              get_fact(cuda, CU_DEVICE_SHARED_BYTES, &facts->shared_bytes, error) &&
              get_fact(cuda, CU_DEVICE_MAJOR, &major, error) &&
              get_fact(cuda, CU_DEVICE_MINOR, &minor, error);
    /* The target of a part is its own with all extensions (suffix `a`), or that of an
     * earlier part of the family whose code it executes. */
    static const struct {
        int major, minor;
        const char *target;
    } parts[] = {
        {8, 7, "sm_80"}, {8, 8, "sm_86"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {12, 1, "sm_120"}};
    snprintf(facts->target, sizeof facts->target, "sm_%d%d", major, minor);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].major == major && parts[i].minor == minor) {
            snprintf(facts->target, sizeof facts->target, "%s", parts[i].target);
        }
    }
    facts->ordinal = cuda->device;
    facts->clock = khz / 1000;
    return ok;
}

static bool probe_driver(const Cuda *cuda, DeviceProbe *probe, DeviceError *error)
{
    const CudaDriver *d = &cuda->driver;
    int version = 0;
    if (!cuda_check(cuda, d->driver_version(&version), "cuDriverGetVersion", "", error)) {
        return false;
    }
    snprintf(probe->version, sizeof probe->version, "%d.%d", version / 1000, version % 1000 / 10);
    return cuda_check(cuda, d->init(0), "cuInit", "", error) &&
           cuda_check(cuda, d->device_count(&probe->n_devices), "cuDeviceGetCount", "", error);
}

static void cuda_probe(const void *driver, DeviceProbe *probe)
{
    Cuda cuda = {0};
    *probe = (DeviceProbe){0};
    if (get_driver(driver, &cuda, probe, &probe->error)) {
        probe_driver(&cuda, probe, &probe->error);
    }
}

static bool open_device(Device *device, Cuda *cuda, int ordinal, DeviceError *error)
{
    int count = 0;
    const CudaDriver *d = &cuda->driver;
    if (!get_driver(device->driver, cuda, NULL, error) ||
        !cuda_check(cuda, d->init(0), "cuInit", "", error) ||
        !cuda_check(cuda, d->device_count(&count), "cuDeviceGetCount", "", error)) {
        return false;
    }
    if (ordinal < 0 || ordinal >= count) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "no CUDA device %d: there %s %d", ordinal,
                           count == 1 ? "is" : "are", count);
    }
    if (!cuda_check(cuda, d->device_get(&cuda->device, ordinal), "cuDeviceGet", "", error) ||
        !get_facts(cuda, &device->facts, error)) {
        return false;
    }
    return cuda_check(cuda, d->context_retain(&cuda->context, cuda->device),
                      "cuDevicePrimaryCtxRetain", "", error);
}

static bool cuda_open(Device *device, int ordinal, DeviceError *error)
{
    Cuda *cuda = device_host_alloc(device, sizeof *cuda);
    if (!cuda) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    device->state = cuda;
    if (!open_device(device, cuda, ordinal, error)) {
        device_host_free(device, cuda);
        return false;
    }
    return true;
}

/* Somebody's context, which stays theirs. */
static bool wrap_device(Device *device, Cuda *cuda, void *native, DeviceError *error)
{
    const CudaDriver *d = &cuda->driver;
    cuda->context = native;
    cuda->is_wrapped = true;
    if (!get_driver(device->driver, cuda, NULL, error) ||
        !cuda_check(cuda, d->init(0), "cuInit", "", error)) {
        return false;
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok &&
              cuda_check(cuda, d->context_device(&cuda->device), "cuCtxGetDevice", "", error) &&
              get_facts(cuda, &device->facts, error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_wrap(Device *device, void *native, DeviceError *error)
{
    Cuda *cuda = device_host_alloc(device, sizeof *cuda);
    if (!cuda) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    device->state = cuda;
    if (!wrap_device(device, cuda, native, error)) {
        device_host_free(device, cuda);
        return false;
    }
    return true;
}

static void cuda_close(Device *device)
{
    Cuda *cuda = device->state;
    if (!cuda->is_wrapped) {
        cuda->driver.context_release(cuda->device);
    }
    device_host_free(device, cuda);
}

/* ---- memory ---- */

static bool cuda_alloc(Device *device, size_t bytes, void **memory, DeviceError *error)
{
    Cuda *cuda = device->state;
    CuAddress address = 0;
    char what[64];
    snprintf(what, sizeof what, "%zu bytes", bytes);
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, cuda->driver.alloc(&address, bytes ? bytes : 1),
                                  "cuMemAlloc", what, error);
    cuda_leave(cuda, in);
    *memory = ok ? (void *)(uintptr_t)address : NULL;
    return ok;
}

static void cuda_release(Device *device, void *memory)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    if (memory) {
        CudaEntered in = cuda_enter(cuda, &ignored); /* without one it is tried, too */
        cuda->driver.release((CuAddress)(uintptr_t)memory);
        cuda_leave(cuda, in);
    }
}

/* The driver knows all memory that it gave, and what of the host's was registered with it. Other
 * memory is the host's alone, unless the device sees the process's own pages. */
static bool cuda_reaches(Device *device, const void *memory)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    unsigned int type = 0;
    int pageable = 0;
    if (!cuda->driver.pointer_attribute) {
        return true;
    }
    CudaEntered in = cuda_enter(cuda, &ignored);
    bool known = !in.ok || cuda->driver.pointer_attribute(&type, CU_POINTER_MEMORY_TYPE,
                                                          (CuAddress)(uintptr_t)memory) !=
                               CU_ERROR_INVALID_VALUE;
    known = known ||
            cuda->driver.device_attribute(&pageable, CU_DEVICE_PAGEABLE, cuda->device) != CU_OK;
    cuda_leave(cuda, in);
    return known || pageable;
}

static bool cuda_copy_in(Device *device, void *to, const void *from, size_t n, DeviceError *error)
{
    Cuda *cuda = device->state;
    if (n == 0) {
        return true;
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok && cuda_check_wait(device, cuda->driver.copy_in((CuAddress)(uintptr_t)to, from, n),
                                 "cuMemcpyHtoD", error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_copy_out(Device *device, void *to, const void *from, size_t n, DeviceError *error)
{
    Cuda *cuda = device->state;
    if (n == 0) {
        return true;
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok && cuda_check_wait(device, cuda->driver.copy_out(to, (CuAddress)(uintptr_t)from, n),
                                 "cuMemcpyDtoH", error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_copy(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                      DeviceError *error)
{
    Cuda *cuda = device->state;
    if (n == 0) {
        return true;
    }
    CudaEntered in = cuda_enter(cuda, error);
    CuAddress target = (CuAddress)(uintptr_t)to, source = (CuAddress)(uintptr_t)from;
    bool ok = in.ok && cuda_check(cuda, cuda->driver.copy(target, source, n, stream),
                                  "cuMemcpyDtoDAsync", "", error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- modules ---- */

/* PTX that the driver's assembler refuses is ours, and its words are what a report needs. */
static bool load(Cuda *cuda, const DeviceImage *image, DeviceModule *module, DeviceError *error)
{
    char log[LOG_BYTES] = "";
    CuJitOption options[] = {CU_JIT_LOG, CU_JIT_LOG_BYTES, CU_JIT_LINES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log, (void *)(uintptr_t)1};
    CuModule loaded = NULL;
    CuResult result = cuda->driver.module_load(&loaded, image->bytes, 3, options, values);
    const char *name = image->name ? image->name : "";
    if (!cuda_check(cuda, result, "cuModuleLoadDataEx", name, error)) {
        size_t n = strlen(error->text);
        log[sizeof log - 1] = '\0';
        error->kind = result == CU_ERROR_INVALID_PTX ? DIAG_INTERNAL : error->kind;
        snprintf(error->text + n, sizeof error->text - n, "%s%s%s", *log ? "\n" : "", log,
                 result == CU_ERROR_PTX_VERSION || result == CU_ERROR_NO_ASSEMBLER
                     ? "\nhelp: with $TESSERA_PTXAS naming NVIDIA's ptxas, that assembles and the "
                       "driver need not"
                     : "");
        return false;
    }
    *module = loaded;
    return true;
}

static bool cuda_load(Device *device, const DeviceImage *image, DeviceModule *module,
                      DeviceError *error)
{
    Cuda *cuda = device->state;
    if (!image->bytes) {
        return device_fail(error, DIAG_USAGE, 0, "CUDA loads an image, not code in memory");
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && load(cuda, image, module, error);
    cuda_leave(cuda, in);
    return ok;
}

static void cuda_unload(Device *device, DeviceModule module)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    CudaEntered in = cuda_enter(cuda, &ignored);
    cuda->driver.module_unload(module);
    cuda_leave(cuda, in);
}

static bool set_attribute(const Cuda *cuda, const DeviceKernel *kernel, CuFunctionAttribute which,
                          int value, DeviceError *error)
{
    return cuda_check(cuda, cuda->driver.function_set(kernel->function, which, value),
                      "cuFuncSetAttribute", kernel->symbol, error);
}

static bool find(Cuda *cuda, DeviceModule module, DeviceKernel *kernel, DeviceError *error)
{
    enum { PORTABLE_CLUSTER = 8 }; /* blocks; larger ones are to be asked for */
    CuFunction function = NULL;
    if (!cuda_check(cuda, cuda->driver.module_function(&function, module, kernel->symbol),
                    "cuModuleGetFunction", kernel->symbol, error)) {
        return false;
    }
    kernel->function = function;
    return (kernel->shared_bytes == 0 ||
            set_attribute(cuda, kernel, CU_FUNCTION_SHARED_BYTES, kernel->shared_bytes, error)) &&
           (kernel->cluster <= PORTABLE_CLUSTER ||
            set_attribute(cuda, kernel, CU_FUNCTION_LARGE_CLUSTERS, 1, error));
}

/* Graphs take such launches since 12.3. */
static bool can_be_early(const Device *device)
{
    enum { MIN_VERSION = 12030 };
    const Cuda *cuda = device->state;
    return cuda->driver.launch_ex && device->facts.driver_version >= MIN_VERSION;
}

static bool cuda_find(Device *device, DeviceModule module, const PlanLaunch *launch,
                      DeviceKernel *kernel, DeviceError *error)
{
    Cuda *cuda = device->state;
    *kernel = (DeviceKernel){.symbol = launch->symbol,
                             .threads = launch->threads,
                             .shared_bytes = launch->shared_bytes,
                             .cluster = launch->cluster,
                             .early = launch->dependent && can_be_early(device)};
    if (launch->shared_bytes > device->facts.shared_bytes) {
        return device_fail(error, DIAG_ENVIRONMENT, 0,
                           "%s needs %d bytes of shared memory a block, %s has %d", launch->symbol,
                           launch->shared_bytes, device->facts.name, device->facts.shared_bytes);
    }
    if (launch->cluster > 1 && !cuda->driver.launch_ex) {
        return device_fail(error, DIAG_ENVIRONMENT, 0,
                           "%s needs clusters: the CUDA driver has no cuLaunchKernelEx",
                           launch->symbol);
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && find(cuda, module, kernel, error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- launching ---- */

static CuResult launch_with(const Cuda *cuda, const DeviceKernel *kernel, unsigned int blocks,
                            void **args, CuStream stream)
{
    CuLaunchAttribute attributes[2] = {0};
    unsigned int n = 0;
    if (kernel->cluster > 1) {
        attributes[n].id = CU_LAUNCH_CLUSTER;
        attributes[n].value.cluster.x = (unsigned int)kernel->cluster;
        attributes[n].value.cluster.y = attributes[n].value.cluster.z = 1;
        n++;
    }
    if (kernel->early) {
        attributes[n].id = CU_LAUNCH_EARLY;
        attributes[n].value.early = 1;
        n++;
    }
    CuLaunchConfig config = {blocks,
                             1,
                             1,
                             (unsigned int)kernel->threads,
                             1,
                             1,
                             (unsigned int)kernel->shared_bytes,
                             stream,
                             attributes,
                             n};
    return cuda->driver.launch_ex(&config, kernel->function, args, NULL);
}

static bool has_attributes(const DeviceKernel *kernel)
{
    return kernel->cluster > 1 || kernel->early;
}

static CuResult launch(const Cuda *cuda, const DeviceKernel *kernel, unsigned int blocks,
                       void **args, CuStream stream)
{
    if (has_attributes(kernel)) {
        return launch_with(cuda, kernel, blocks, args, stream);
    }
    return cuda->driver.launch(kernel->function, blocks, 1, 1, (unsigned int)kernel->threads, 1, 1,
                               (unsigned int)kernel->shared_bytes, stream, args, NULL);
}

static bool cuda_launch(Device *device, const DeviceKernel *kernel, int64_t blocks, void **args,
                        DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    if (blocks > INT_MAX) {
        return device_fail(error, DIAG_SOURCE, 0, "%s: %" PRId64 " blocks, CUDA allows %d",
                           kernel->symbol, blocks, INT_MAX);
    }
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check(cuda, launch(cuda, kernel, (unsigned int)blocks, args, stream),
                                  has_attributes(kernel) ? "cuLaunchKernelEx" : "cuLaunchKernel",
                                  kernel->symbol, error);
    cuda_leave(cuda, in);
    return ok;
}

static bool cuda_sync(Device *device, DeviceStream stream, DeviceError *error)
{
    Cuda *cuda = device->state;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok && cuda_check_wait(device, cuda->driver.stream_sync(stream),
                                       "cuStreamSynchronize", error);
    cuda_leave(cuda, in);
    return ok;
}

/* ---- time ---- */

static bool cuda_event_record(Device *device, DeviceStream stream, DeviceEvent *out,
                              DeviceError *error)
{
    Cuda *cuda = device->state;
    CuEvent event = NULL;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok =
        in.ok && cuda_check(cuda, cuda->driver.event_create(&event, 0), "cuEventCreate", "", error);
    if (ok &&
        !cuda_check(cuda, cuda->driver.event_record(event, stream), "cuEventRecord", "", error)) {
        cuda->driver.event_destroy(event);
        ok = false;
    }
    cuda_leave(cuda, in);
    *out = ok ? event : NULL;
    return ok;
}

static bool cuda_elapsed(Device *device, DeviceEvent first, DeviceEvent last, double *seconds,
                         DeviceError *error)
{
    Cuda *cuda = device->state;
    float milliseconds = 0;
    CudaEntered in = cuda_enter(cuda, error);
    bool ok = in.ok &&
              cuda_check_wait(device, cuda->driver.event_sync(last), "cuEventSynchronize", error) &&
              cuda_check(cuda, cuda->driver.event_elapsed(&milliseconds, first, last),
                         "cuEventElapsedTime", "", error);
    cuda_leave(cuda, in);
    *seconds = (double)milliseconds * 1e-3;
    return ok;
}

static void cuda_event_destroy(Device *device, DeviceEvent event)
{
    Cuda *cuda = device->state;
    DeviceError ignored;
    if (event) {
        CudaEntered in = cuda_enter(cuda, &ignored);
        cuda->driver.event_destroy(event);
        cuda_leave(cuda, in);
    }
}

const DeviceOps device_cuda = {
    .name = "cuda",
    .probe = cuda_probe,
    .open = cuda_open,
    .wrap = cuda_wrap,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .reaches = cuda_reaches,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .load = cuda_load,
    .unload = cuda_unload,
    .find = cuda_find,
    .map = cuda_map,
    .launch = cuda_launch,
    .sync = cuda_sync,
    .event_record = cuda_event_record,
    .elapsed = cuda_elapsed,
    .event_destroy = cuda_event_destroy,
    .streams = &cuda_streams,
};
