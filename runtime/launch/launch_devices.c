/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for devices, their memory, and launches on them. */
#include "runtime/device/device_memory.h"
#include "runtime/launch/launch_context.h"

#include "ir/ir_errors.h"
#include "ir/scalar.h"

#include <stdio.h>

enum { MAX_THREADS = 1024 };

const SeenDevice *context_seen_device(const TesseraContext *context, const char *name)
{
    int n = atomic_load(&context->n_seen);
    for (int i = 0; i < n; i++) {
        if (text_equal(context->seen[i].name, name)) {
            return &context->seen[i];
        }
    }
    return NULL;
}

static void see_device(TesseraContext *context, const DeviceFacts *facts)
{
    int n = atomic_load(&context->n_seen);
    if (n < MAX_SEEN && !context_seen_device(context, facts->name)) {
        SeenDevice *seen = &context->seen[n];
        snprintf(seen->name, sizeof seen->name, "%s", facts->name);
        seen->units = facts->units;
        seen->clock = facts->clock;
        atomic_store(&context->n_seen, n + 1);
    }
}

/* What was opened, or why it was not. */
static TesseraStatus opened(TesseraContext *context, const DeviceOps *ops, Device *made,
                            const DeviceError *error, TesseraDevice *device)
{
    device->context = context;
    device->device = made;
    if (!made) {
        TesseraStatus status = context_device_fail(context, error);
        if (status == TESSERA_ENVIRONMENT) {
            context_tell_code(context, status, ERR_NO_DEVICE);
        }
        return status;
    }
    const DeviceFacts *facts = &device->device->facts;
    device->info = (TesseraDeviceInfo){ops->name,          facts->name,         facts->target,
                                       facts->units,       facts->memory_bytes, facts->warp,
                                       facts->max_threads, facts->shared_bytes};
    see_device(context, facts);
    context_log(context, TESSERA_LOG_INFO, "device %s: %s, %s", ops->name, facts->name,
                facts->target);
    return TESSERA_OK;
}

static TesseraStatus open_kind(TesseraContext *context, const DeviceOps *ops, int ordinal,
                               TesseraDevice *device)
{
    DeviceError error = {0};
    Device *made = device_open(ops, context->allocator, ordinal, NULL, &error);
    return opened(context, ops, made, &error, device);
}

/* `auto` takes the first that opens and whose part we compile for. */
static TesseraStatus open_any(TesseraContext *context, int ordinal, TesseraDevice *device)
{
    size_t n;
    const DeviceOps *const *kinds = device_kinds(&n);
    for (size_t i = 0; i < n; i++) {
        bool host = kinds[i] == &device_host;
        if (open_kind(context, kinds[i], host ? 0 : ordinal, device) == TESSERA_OK) {
            if (!context->hooks || context->hooks->makes(device->info.target)) {
                return TESSERA_OK;
            }
            device_close(device->device);
        }
    }
    return context_fail_code(context, TESSERA_ENVIRONMENT, ERR_NO_DEVICE, "%s", "no device");
}

TesseraStatus tessera_device_open(TesseraContext *context, const char *kind, int ordinal,
                                  TesseraDevice **out)
{
    const char *null = NULL_ARGUMENT({out, "device"}, {kind, "kind"}, {context, "context"});
    if (out) {
        *out = NULL;
    }
    if (null) {
        return context_null(context, __func__, null);
    }
    const DeviceOps *ops = device_kind(kind);
    bool any = text_equal(kind, "auto");
    if (!ops && !any) {
        return context_fail_code(context, TESSERA_USAGE, ERR_DEVICE_NAME,
                                 "no device '%.60s': auto, cpu, cuda or hip", kind);
    }
    if (ordinal < 0 || (ops == &device_host && ordinal > MAX_THREADS)) {
        return context_fail_code(context, TESSERA_USAGE, ERR_DEVICE_NAME, "no device %s:%d", kind,
                                 ordinal);
    }
    TesseraDevice *device = handle_take(context, sizeof *device);
    if (!device) {
        return TESSERA_ENVIRONMENT;
    }
    TesseraStatus status =
        any ? open_any(context, ordinal, device) : open_kind(context, ops, ordinal, device);
    if (status != TESSERA_OK) {
        context_drop(context, device);
        return status;
    }
    *out = device;
    return TESSERA_OK;
}

TesseraStatus tessera_device_wrap(TesseraContext *context, const char *kind, void *native,
                                  TesseraDevice **out)
{
    DeviceError error = {0};
    const char *null = NULL_ARGUMENT({out, "device"}, {kind, "kind"}, {context, "context"});
    if (out) {
        *out = NULL;
    }
    if (null) {
        return context_null(context, __func__, null);
    }
    const DeviceOps *ops = device_kind(kind);
    if (!ops || !ops->wrap) {
        return context_fail_code(context, TESSERA_USAGE, ERR_DEVICE_NAME,
                                 "no context of '%.60s' to take: cuda or hip", kind);
    }
    TesseraDevice *device = handle_take(context, sizeof *device);
    if (!device) {
        return TESSERA_ENVIRONMENT;
    }
    Device *made = device_wrap(ops, context->allocator, native, NULL, &error);
    TesseraStatus status = opened(context, ops, made, &error, device);
    if (status != TESSERA_OK) {
        context_drop(context, device);
        return status;
    }
    *out = device;
    return TESSERA_OK;
}

/* What it has on the device is given back, and its handle left. */
static void end_launch(TesseraLaunch **place)
{
    TesseraLaunch *launch = *place;
    *place = launch->next;
    launch_free(launch->prepared);
    launch->prepared = NULL;
    launch->plan = NULL;
}

/* Those of this code, or of any. */
static void end_launches(TesseraDevice *device, const LoadedModule *loaded)
{
    for (TesseraLaunch **place = &device->launches; *place;) {
        if (!loaded || (*place)->loaded == loaded) {
            end_launch(place);
        } else {
            place = &(*place)->next;
        }
    }
}

void loaded_keep(TesseraDevice *device, LoadedModule *loaded)
{
    loaded->next = device->loaded;
    device->loaded = loaded;
}

void loaded_end(TesseraDevice *device, LoadedModule *loaded)
{
    if (!loaded->device) {
        return;
    }
    LoadedModule **place = &device->loaded;
    while (*place != loaded) {
        place = &(*place)->next;
    }
    *place = loaded->next;
    end_launches(device, loaded);
    loaded_close(loaded);
}

void tessera_device_free(TesseraDevice *device)
{
    if (device && !device->handle.is_freed) {
        end_launches(device, NULL);
        while (device->loaded) {
            loaded_end(device, device->loaded);
        }
        bundles_free(device);
        events_end(device);
        memory_report(device);
        device_close(device->device);
        handle_drop(device->context, &device->handle);
    }
}

const TesseraDeviceInfo *tessera_device_info(const TesseraDevice *device)
{
    return device && !device->handle.is_freed ? &device->info : NULL;
}

TesseraStatus device_check(TesseraDevice *device, bool ok, const DeviceError *error)
{
    return ok ? TESSERA_OK : context_device_fail(device->context, error);
}

TesseraStatus device_missing(TesseraDevice *device, const char *call, const char *what)
{
    return context_null(device ? device->context : NULL, call, device ? what : "device");
}

/* ---- memory ---- */

TesseraStatus tessera_copy_in(TesseraDevice *device, void *to, const void *from, size_t bytes)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, to ? "from_host" : "to");
    }
    Device *d = device->device;
    return device_check(device, d->ops->copy_in(d, to, from, bytes, &error), &error);
}

TesseraStatus tessera_copy_out(TesseraDevice *device, void *to, const void *from, size_t bytes)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, to ? "from" : "to_host");
    }
    Device *d = device->device;
    return device_check(device, d->ops->copy_out(d, to, from, bytes, &error), &error);
}

TesseraStatus tessera_sync(TesseraDevice *device, void *stream)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device) {
        return device_missing(device, __func__, NULL);
    }
    Device *d = device->device;
    bool ok = d->ops->sync(d, stream, &error);
    if (ok) {
        memory_mark_stream_done(d, stream);
    }
    return device_check(device, ok, &error);
}

/* ---- time ---- */

typedef bool TimedWork(void *user, void *stream, DeviceError *error);

static bool timed(Device *d, void *stream, int times, TimedWork *work, void *user, double *seconds,
                  DeviceError *error)
{
    DeviceEvent first = NULL, last = NULL;
    bool ok = d->ops->event_record(d, stream, &first, error);
    for (int i = 0; ok && i < times; i++) {
        ok = work(user, stream, error);
    }
    ok = ok && d->ops->event_record(d, stream, &last, error) &&
         d->ops->elapsed(d, first, last, seconds, error);
    d->ops->event_destroy(d, first);
    d->ops->event_destroy(d, last);
    return ok;
}

static bool launch_work(void *user, void *stream, DeviceError *error)
{
    return launch_run(user, stream, error);
}

TesseraStatus tessera_launch_time(TesseraLaunch *launch, void *stream, int times, double *seconds)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    if (!launch || !seconds) {
        return context_null(launch ? launch->device->context : NULL, __func__,
                            launch ? "seconds" : "launch");
    }
    *seconds = 0;
    return device_check(launch->device,
                        timed(launch->device->device, stream, times, launch_work, launch->prepared,
                              seconds, &error),
                        &error);
}

typedef struct CopyWork {
    Device *device;
    void *to;
    const void *from;
    size_t bytes;
} CopyWork;

static bool copy_work(void *user, void *stream, DeviceError *error)
{
    const CopyWork *copy = user;
    return copy->device->ops->copy(copy->device, copy->to, copy->from, copy->bytes, stream, error);
}

TesseraStatus tessera_copy_time(TesseraDevice *device, void *to, const void *from, size_t bytes,
                                int times, double *seconds)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || !seconds || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, !seconds ? "seconds" : to ? "from" : "to");
    }
    CopyWork copy = {device->device, to, from, bytes};
    *seconds = 0;
    return device_check(
        device, timed(device->device, NULL, times, copy_work, &copy, seconds, &error), &error);
}

/* ---- launches ---- */

static uint64_t pack_scalar(DType dtype, const TesseraArg *arg)
{
    uint64_t bits = 0;
    Scalar value = {.i = arg->integer};
    if (dtype_is_float(dtype)) {
        value.f = arg->number;
    }
    scalar_store(dtype, &bits, value);
    return bits;
}

void launch_pack(const PlanParam *param, const TesseraArg *from, LaunchArg *to)
{
    *to = (LaunchArg){0};
    if (param->rank < 0) {
        to->scalar = pack_scalar(param->dtype, from);
        return;
    }
    const TesseraTensor *tensor = &from->tensor;
    to->tensor = (DeviceTensor){
        .data = tensor->data, .dtype = (DType)tensor->type, .rank = tensor->rank, .strided = true};
    int64_t strides[TESSERA_MAX_RANK];
    tensor_strides(tensor, strides);
    for (int axis = 0; axis < tensor->rank; axis++) {
        int at = tensor->rank == param->rank ? param->order[axis] : axis;
        to->tensor.dims[axis] = tensor->dims[at];
        to->tensor.strides[axis] = strides[at];
    }
}

TesseraStatus launch_make(TesseraDevice *device, const LoadedModule *loaded, const TesseraArg *args,
                          TesseraLaunch **out)
{
    DeviceError error;
    TesseraContext *context = device->context;
    const Plan *plan = loaded->plan;
    TesseraLaunch *launch = NULL;
    LaunchArg *packed = context_take(context, ((size_t)plan->n_params + 1) * sizeof *packed);
    TesseraStatus status = packed ? TESSERA_OK : TESSERA_ENVIRONMENT;
    for (int i = 0; packed && i < plan->n_params; i++) {
        launch_pack(&plan->params[i], &args[i], &packed[i]);
    }
    if (status == TESSERA_OK) {
        PreparedLaunch *prepared = launch_prepare(loaded, packed, &error);
        status = device_check(device, prepared != NULL, &error);
        launch = prepared ? launch_keep(device, loaded, prepared) : NULL;
        status = prepared && !launch ? TESSERA_ENVIRONMENT : status;
    }
    context_drop(context, packed);
    *out = launch;
    return status;
}

TesseraLaunch *launch_keep(TesseraDevice *device, const LoadedModule *loaded,
                           PreparedLaunch *prepared)
{
    TesseraLaunch *launch = handle_take(device->context, sizeof *launch);
    if (!launch) {
        launch_free(prepared);
        return NULL;
    }
    launch->device = device;
    launch->plan = loaded->plan;
    launch->loaded = loaded;
    launch->prepared = prepared;
    launch->next = device->launches;
    device->launches = launch;
    return launch;
}

void tessera_launch_free(TesseraLaunch *launch)
{
    if (!launch || launch->handle.is_freed) {
        return;
    }
    if (launch->prepared) {
        TesseraLaunch **place = &launch->device->launches;
        while (*place != launch) {
            place = &(*place)->next;
        }
        end_launch(place);
    }
    handle_drop(launch->handle.context, &launch->handle);
}

TesseraStatus tessera_launch(TesseraLaunch *launch, void *stream)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    if (!launch) {
        return context_null(NULL, __func__, "launch");
    }
    return device_check(launch->device, launch_run(launch->prepared, stream, &error), &error);
}

/* ---- other arguments for what is prepared ---- */

/* The parameter, when it is of the kind that is to be set. */
static TesseraStatus find_param(TesseraLaunch *launch, const char *call, size_t index, bool tensor)
{
    const Plan *plan = launch->plan;
    TesseraContext *context = launch->device->context;
    if (index >= (size_t)plan->n_params) {
        return context_usage(context, "%s: %s has no parameter %zu", call, plan->kernel, index);
    }
    const PlanParam *param = &plan->params[index];
    if ((param->rank >= 0) != tensor) {
        return context_usage(context, "%s: '%s' of %s is a %s", call, param->name, plan->kernel,
                             tensor ? "scalar" : "tensor");
    }
    return TESSERA_OK;
}

TesseraStatus tessera_launch_set(TesseraLaunch *launch, size_t index, void *data)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    if (!launch) {
        return context_null(NULL, __func__, "launch");
    }
    TesseraStatus status = find_param(launch, __func__, index, true);
    return status != TESSERA_OK
               ? status
               : device_check(launch->device,
                              launch_set(launch->prepared, (int)index, data, &error), &error);
}

TesseraStatus tessera_launch_set_scalar(TesseraLaunch *launch, size_t index, double number,
                                        int64_t integer)
{
    REFUSE_ENDED(launch);
    if (!launch) {
        return context_null(NULL, __func__, "launch");
    }
    TesseraStatus status = find_param(launch, __func__, index, false);
    if (status == TESSERA_OK) {
        TesseraArg value = {.number = number, .integer = integer};
        launch_set_scalar(launch->prepared, (int)index,
                          pack_scalar(launch->plan->params[index].dtype, &value));
    }
    return status;
}

TesseraStatus tessera_launch_with(TesseraLaunch *launch, void *stream, void *const *tensors,
                                  size_t n_tensors)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    if (!launch || (n_tensors > 0 && !tensors)) {
        return context_null(launch ? launch->device->context : NULL, __func__,
                            launch ? "tensors" : "launch");
    }
    /* A caller that gives another number has another kernel in mind. */
    const Plan *plan = launch->plan;
    size_t n = 0;
    for (int i = 0; i < plan->n_params; i++) {
        n += plan->params[i].rank >= 0;
    }
    TesseraStatus status =
        n == n_tensors ? TESSERA_OK
                       : context_usage(launch->device->context, "%s: %s has %zu tensors, not %zu",
                                       __func__, plan->kernel, n, n_tensors);
    return status != TESSERA_OK ? status
                                : device_check(launch->device,
                                               launch_set_all(launch->prepared, tensors, &error) &&
                                                   launch_run(launch->prepared, stream, &error),
                                               &error);
}

TesseraStatus tessera_launch_reserve(TesseraLaunch *launch, void *stream)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    if (!launch) {
        return context_null(NULL, __func__, "launch");
    }
    return device_check(launch->device, launch_reserve(launch->prepared, stream, &error), &error);
}

size_t tessera_workspace_size(const TesseraLaunch *launch)
{
    return launch && launch->prepared ? launch_workspace(launch->prepared) : 0;
}
