/* SPDX-License-Identifier: Apache-2.0 */
/* AMD GPUs through HIP's module interface. Every call that works on a device is made between enter
 * and leave: our device is current in between (modules, the default stream and events belong to
 * the current device), and the caller's again afterwards. */
#include "runtime/device/driver_library.h"
#include "runtime/device/hip_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const LibrarySymbol SYMBOLS[] = {
#define HIP_CALL(need, field, symbol, params) {SYMBOL_##need, #symbol, offsetof(HipDriver, field)},
#define HIP_TEXT HIP_CALL
#include "runtime/device/hip.def"
#undef HIP_CALL
#undef HIP_TEXT
};

bool hip_check(const Hip *hip, HipResult result, const char *call, const char *what,
               DeviceError *error)
{
    if (result == HIP_OK) {
        return true;
    }
    const char *name = hip->driver.error_name(result);
    const char *text = hip->driver.error_string(result);
    if (result == HIP_ERROR_INVALID_HANDLE) {
        return device_fail_call(error, DIAG_USAGE, (int)result, call, what, name, DEVICE_FOREIGN);
    }
    bool is_fault = result == HIP_ERROR_ILLEGAL_ADDRESS || result == HIP_ERROR_LAUNCH_TIMEOUT ||
                    result == HIP_ERROR_ASSERT || result == HIP_ERROR_LAUNCH_FAILED;
    return device_fail_call(error, is_fault ? DIAG_FAULT : DIAG_ENVIRONMENT, (int)result, call,
                            what, name, text);
}

bool hip_check_wait(Device *device, HipResult result, const char *call, DeviceError *error)
{
    bool ok = hip_check(device->state, result, call, device->running ? device->running : "", error);
    device->running = ok ? NULL : device->running;
    return ok;
}

HipEntered hip_enter(const Hip *hip, DeviceError *error)
{
    HipEntered in = {.before = hip->ordinal};
    in.ok = hip_check(hip, hip->driver.device_current(&in.before), "hipGetDevice", "", error) &&
            (in.before == hip->ordinal ||
             hip_check(hip, hip->driver.device_set(hip->ordinal), "hipSetDevice", "", error));
    return in;
}

void hip_leave(const Hip *hip, HipEntered in)
{
    if (in.ok && in.before != hip->ordinal) {
        hip->driver.device_set(in.before);
    }
}

/* ---- opening ---- */

enum { MAX_FILES = 4, MAX_PATH = 512 };

typedef struct HipNames {
    char paths[MAX_FILES][MAX_PATH];
    const char *names[2 * MAX_FILES + 1];
} HipNames;

/* `probe`, which may be NULL, hears where the runtime was looked for and found. */
static bool get_driver(const void *injected, Hip *hip, DeviceProbe *probe, DeviceError *error)
{
    HipNames names;
    if (injected) {
        memcpy(&hip->driver, injected, sizeof hip->driver);
        return true;
    }
    static const char *const files[MAX_FILES] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                                 "libamdhip64.so.5", "libamdhip64.so"};
    const char *root = getenv("ROCM_PATH");
    int n = 0;
    for (int i = 0; i < MAX_FILES; i++) {
        int length = snprintf(names.paths[i], MAX_PATH, "%s/lib/%s",
                              root && *root ? root : "/opt/rocm", files[i]);
        if (length > 0 && length < MAX_PATH) {
            names.names[n++] = names.paths[i];
        }
    }
    for (int i = 0; i < MAX_FILES; i++) {
        names.names[n++] = files[i];
    }
    names.names[n] = NULL;
    void *library = library_open(names.names, "HIP runtime (libamdhip64)", error);
    if (probe) {
        library_describe(names.names, library, probe);
    }
    return library && library_bind(library, "HIP runtime", SYMBOLS,
                                   sizeof SYMBOLS / sizeof *SYMBOLS, &hip->driver, error);
}

static bool probe_driver(const Hip *hip, DeviceProbe *probe, DeviceError *error)
{
    const HipDriver *d = &hip->driver;
    int version = 0;
    if (!hip_check(hip, d->driver_version(&version), "hipRuntimeGetVersion", "", error)) {
        return false;
    }
    snprintf(probe->version, sizeof probe->version, "%d.%d.%d", version / 10000000,
             version / 100000 % 100, version % 100000);
    return hip_check(hip, d->init(0), "hipInit", "", error) &&
           hip_check(hip, d->device_count(&probe->n_devices), "hipGetDeviceCount", "", error);
}

static void hip_probe(const void *driver, DeviceProbe *probe)
{
    Hip hip = {0};
    *probe = (DeviceProbe){0};
    if (get_driver(driver, &hip, probe, &probe->error)) {
        probe_driver(&hip, probe, &probe->error);
    }
}

static int int_at(const char *bytes, size_t offset)
{
    int value;
    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static size_t size_at(const char *bytes, size_t offset)
{
    size_t value;
    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static bool get_facts(const Hip *hip, DeviceFacts *facts, DeviceError *error)
{
    _Alignas(16) char bytes[HIP_PROPERTIES_BYTES] = "";
    bool is_new = hip->driver.properties_new != NULL;
    HipLayout layout = is_new ? HIP_LAYOUT_NEW : HIP_LAYOUT_OLD;
    HipResult result = is_new ? hip->driver.properties_new(bytes, hip->ordinal)
                              : hip->driver.properties_old(bytes, hip->ordinal);
    if (!hip_check(hip, result, "hipGetDeviceProperties", "", error)) {
        return false;
    }
    const char *arch = bytes + layout.arch; /* "gfx90a:sramecc+:xnack-" */
    snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, bytes);
    snprintf(facts->target, sizeof facts->target, "%.*s",
             (int)strnlen(arch, sizeof facts->target - 1), arch);
    facts->target[strcspn(facts->target, ":")] = '\0';
    facts->memory_bytes = size_at(bytes, layout.memory);
    facts->shared_bytes = (int)size_at(bytes, layout.shared);
    facts->warp = int_at(bytes, layout.warp);
    facts->max_threads = int_at(bytes, layout.threads);
    facts->units = int_at(bytes, layout.units);
    facts->ordinal = hip->ordinal;
    return hip_check(hip, hip->driver.driver_version(&facts->driver_version),
                     "hipRuntimeGetVersion", "", error);
}

static bool open_device(Device *device, Hip *hip, DeviceError *error)
{
    int count = 0;
    if (!get_driver(device->driver, hip, NULL, error) ||
        !hip_check(hip, hip->driver.init(0), "hipInit", "", error) ||
        !hip_check(hip, hip->driver.device_count(&count), "hipGetDeviceCount", "", error)) {
        return false;
    }
    if (hip->ordinal < 0 || hip->ordinal >= count) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "no HIP device %d: there %s %d",
                           hip->ordinal, count == 1 ? "is" : "are", count);
    }
    return get_facts(hip, &device->facts, error);
}

static bool hip_open(Device *device, int ordinal, DeviceError *error)
{
    Hip *hip = device_host_alloc(device, sizeof *hip);
    if (!hip) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    hip->ordinal = ordinal;
    device->state = hip;
    if (!open_device(device, hip, error)) {
        device_host_free(device, hip);
        return false;
    }
    return true;
}

/* HIP's contexts are its devices: of a wrapped one the number is what counts. */
static bool hip_wrap(Device *device, void *native, DeviceError *error)
{
    return hip_open(device, (int)(intptr_t)native, error);
}

static void hip_close(Device *device)
{
    device_host_free(device, device->state);
}

/* ---- memory ---- */

static bool hip_alloc(Device *device, size_t bytes, void **memory, DeviceError *error)
{
    Hip *hip = device->state;
    char what[64];
    *memory = NULL;
    snprintf(what, sizeof what, "%zu bytes", bytes);
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.alloc(memory, bytes ? bytes : 1), "hipMalloc",
                                 what, error);
    hip_leave(hip, in);
    return ok;
}

static void hip_release(Device *device, void *memory)
{
    Hip *hip = device->state;
    DeviceError ignored;
    if (memory) {
        HipEntered in = hip_enter(hip, &ignored); /* without one it is tried, too */
        hip->driver.release(memory);
        hip_leave(hip, in);
    }
}

static void *unconst(const void *pointer)
{
    return (void *)(uintptr_t)pointer; /* HIP's prototypes lack the const */
}

static bool hip_copy_in(Device *device, void *to, const void *from, size_t n, DeviceError *error)
{
    Hip *hip = device->state;
    if (n == 0) {
        return true;
    }
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check_wait(device, hip->driver.copy_in(to, unconst(from), n),
                                      "hipMemcpyHtoD", error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_copy_out(Device *device, void *to, const void *from, size_t n, DeviceError *error)
{
    Hip *hip = device->state;
    if (n == 0) {
        return true;
    }
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check_wait(device, hip->driver.copy_out(to, unconst(from), n),
                                      "hipMemcpyDtoH", error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_copy(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                     DeviceError *error)
{
    Hip *hip = device->state;
    if (n == 0) {
        return true;
    }
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.copy(to, unconst(from), n, stream),
                                 "hipMemcpyDtoDAsync", "", error);
    hip_leave(hip, in);
    return ok;
}

/* ---- modules ---- */

static bool hip_load(Device *device, const DeviceImage *image, DeviceModule *module,
                     DeviceError *error)
{
    Hip *hip = device->state;
    if (!image->bytes) {
        return device_fail(error, DIAG_USAGE, 0, "HIP loads an image, not code in memory");
    }
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip, hip->driver.module_load(module, image->bytes),
                                 "hipModuleLoadData", image->name ? image->name : "", error);
    hip_leave(hip, in);
    return ok;
}

static void hip_unload(Device *device, DeviceModule module)
{
    Hip *hip = device->state;
    DeviceError ignored;
    HipEntered in = hip_enter(hip, &ignored);
    hip->driver.module_unload(module);
    hip_leave(hip, in);
}

static bool hip_find(Device *device, DeviceModule module, const PlanLaunch *launch,
                     DeviceKernel *kernel, DeviceError *error)
{
    Hip *hip = device->state;
    *kernel = (DeviceKernel){.symbol = launch->symbol,
                             .threads = launch->threads,
                             .shared_bytes = launch->shared_bytes,
                             .cluster = 1};
    if (launch->shared_bytes > device->facts.shared_bytes) {
        return device_fail(error, DIAG_ENVIRONMENT, 0,
                           "%s needs %d bytes of shared memory a block, %s has %d", launch->symbol,
                           launch->shared_bytes, device->facts.name, device->facts.shared_bytes);
    }
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check(hip, hip->driver.module_function(&kernel->function, module, kernel->symbol),
                        "hipModuleGetFunction", kernel->symbol, error);
    hip_leave(hip, in);
    return ok;
}

/* ---- launching ---- */

/* HIP counts a grid's threads in 32 bits. */
static bool hip_launch(Device *device, const DeviceKernel *kernel, int64_t blocks, void **args,
                       DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    int64_t most = UINT32_MAX / (int64_t)kernel->threads;
    if (blocks > most) {
        return device_fail(error, DIAG_SOURCE, 0,
                           "%s: %" PRId64 " blocks of %d threads, HIP allows %" PRId64,
                           kernel->symbol, blocks, kernel->threads, most);
    }
    unsigned int n = (unsigned int)blocks, threads = (unsigned int)kernel->threads;
    unsigned int shared = (unsigned int)kernel->shared_bytes;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check(hip,
                                 hip->driver.launch(kernel->function, n, 1, 1, threads, 1, 1,
                                                    shared, stream, args, NULL),
                                 "hipModuleLaunchKernel", kernel->symbol, error);
    hip_leave(hip, in);
    return ok;
}

static bool hip_sync(Device *device, DeviceStream stream, DeviceError *error)
{
    Hip *hip = device->state;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && hip_check_wait(device, hip->driver.stream_sync(stream),
                                      "hipStreamSynchronize", error);
    hip_leave(hip, in);
    return ok;
}

/* ---- time ---- */

static bool record(Hip *hip, DeviceStream stream, void **event, DeviceError *error)
{
    if (!hip_check(hip, hip->driver.event_create(event), "hipEventCreate", "", error)) {
        return false;
    }
    if (!hip_check(hip, hip->driver.event_record(*event, stream), "hipEventRecord", "", error)) {
        hip->driver.event_destroy(*event);
        return false;
    }
    return true;
}

static bool hip_event_record(Device *device, DeviceStream stream, DeviceEvent *out,
                             DeviceError *error)
{
    Hip *hip = device->state;
    void *event = NULL;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok && record(hip, stream, &event, error);
    hip_leave(hip, in);
    *out = ok ? event : NULL;
    return ok;
}

static bool hip_elapsed(Device *device, DeviceEvent first, DeviceEvent last, double *seconds,
                        DeviceError *error)
{
    Hip *hip = device->state;
    float milliseconds = 0;
    HipEntered in = hip_enter(hip, error);
    bool ok = in.ok &&
              hip_check_wait(device, hip->driver.event_sync(last), "hipEventSynchronize", error) &&
              hip_check(hip, hip->driver.event_elapsed(&milliseconds, first, last),
                        "hipEventElapsedTime", "", error);
    hip_leave(hip, in);
    *seconds = (double)milliseconds * 1e-3;
    return ok;
}

static void hip_event_destroy(Device *device, DeviceEvent event)
{
    Hip *hip = device->state;
    DeviceError ignored;
    if (event) {
        HipEntered in = hip_enter(hip, &ignored);
        hip->driver.event_destroy(event);
        hip_leave(hip, in);
    }
}

const DeviceOps device_hip = {
    .name = "hip",
    .probe = hip_probe,
    .open = hip_open,
    .wrap = hip_wrap,
    .close = hip_close,
    .alloc = hip_alloc,
    .release = hip_release,
    .copy_in = hip_copy_in,
    .copy_out = hip_copy_out,
    .copy = hip_copy,
    .load = hip_load,
    .unload = hip_unload,
    .find = hip_find,
    .launch = hip_launch,
    .sync = hip_sync,
    .event_record = hip_event_record,
    .elapsed = hip_elapsed,
    .event_destroy = hip_event_destroy,
    .streams = &hip_streams,
};
