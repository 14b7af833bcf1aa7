/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes devices through the table of device kinds (CUDA, HIP, host), and builds the
 * error messages of failed driver calls. Everything that depends on a driver is behind the table.
 */
#include "runtime/device/device.h"
#include "runtime/device/device_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const DeviceOps *const KINDS[] = {&device_cuda, &device_hip, &device_host};

const DeviceOps *const *device_kinds(size_t *n)
{
    *n = sizeof KINDS / sizeof *KINDS;
    return KINDS;
}

const DeviceOps *device_kind(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (text_equal(KINDS[i]->name, name)) {
            return KINDS[i];
        }
    }
    return NULL;
}

bool device_fail(DeviceError *error, DiagClass kind, int code, const char *format, ...)
{
    va_list args;
    error->kind = kind;
    error->code = code;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}

bool device_fail_call(DeviceError *error, DiagClass kind, int code, const char *call,
                      const char *what, const char *name, const char *text)
{
    return device_fail(error, kind, code, "%s failed%s%s: %s (%d)%s%s", call, *what ? " for " : "",
                       what, name ? name : "an unknown error", code, text ? ": " : "",
                       text ? text : "");
}

void *device_host_alloc(Device *device, size_t bytes)
{
    void *memory = device->allocator.alloc(device->allocator.user, bytes);
    if (memory) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void device_host_free(Device *device, void *memory)
{
    if (memory) {
        device->allocator.release(device->allocator.user, memory);
    }
}

static Device *new_device(const DeviceOps *ops, Allocator allocator, const void *driver,
                          DeviceError *error)
{
    Device *device = allocator.alloc(allocator.user, sizeof *device);
    if (!device) {
        device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
        return NULL;
    }
    *device = (Device){.ops = ops, .allocator = allocator, .driver = driver};
    return device;
}

Device *device_open(const DeviceOps *ops, Allocator allocator, int ordinal, const void *driver,
                    DeviceError *error)
{
    Device *device = new_device(ops, allocator, driver, error);
    if (device && !ops->open(device, ordinal, error)) {
        device_host_free(device, device);
        device = NULL;
    }
    return device;
}

Device *device_wrap(const DeviceOps *ops, Allocator allocator, void *native, const void *driver,
                    DeviceError *error)
{
    Device *device = new_device(ops, allocator, driver, error);
    if (device && !ops->wrap(device, native, error)) {
        device_host_free(device, device);
        device = NULL;
    }
    return device;
}

void device_close(Device *device)
{
    if (device) {
        memory_close(device);
        device->ops->close(device);
        device_host_free(device, device);
    }
}
