/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their memory, and launches on them. */
#include "runtime/runtime.h"

#include "ir/errors.h"
#include "ir/interp.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024 };

static TesseraStatus open_kind(TesseraContext *context, const DeviceOps *ops, int ordinal,
                               TesseraDevice *device)
{
    DeviceError error = {0};
    device->context = context;
    device->device = device_open(ops, context->allocator, ordinal, NULL, &error);
    if (!device->device) {
        TesseraStatus status = context_device_fail(context, &error);
        if (status == TESSERA_ENVIRONMENT) {
            context_tell_plain(context, status, ERR_NO_DEVICE, context->error.message);
        }
        return status;
    }
    const DeviceFacts *facts = &device->device->facts;
    device->info = (TesseraDeviceInfo){ops->name, facts->name, facts->target, facts->units,
                                       facts->memory_bytes, facts->warp, facts->max_threads,
                                       facts->shared_bytes};
    return TESSERA_OK;
}

/* `auto` takes the first that opens and whose part we compile for. */
static TesseraStatus open_any(TesseraContext *context, int ordinal, TesseraDevice *device)
{
    size_t n;
    const DeviceOps *const *kinds = device_kinds(&n);
    for (size_t i = 0; i < n; i++) {
        bool host = kinds[i] == &device_host;
        if (open_kind(context, kinds[i], host ? 0 : ordinal, device) == TESSERA_OK) {
            if (target_find(device->info.target)) {
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
    const char *null = !out ? "device" : !kind ? "kind" : !context ? "context" : NULL;
    if (out) {
        *out = NULL;
    }
    if (null) {
        return context_null(context, __func__, null);
    }
    const DeviceOps *ops = device_kind(kind);
    bool any = text_same(kind, "auto");
    if (!ops && !any) {
        return context_fail_code(context, TESSERA_USAGE, ERR_DEVICE_NAME,
                                 "no device '%.60s': auto, cpu, cuda or hip", kind);
    }
    if (ordinal < 0 || (ops == &device_host && ordinal > MOST_THREADS)) {
        return context_fail_code(context, TESSERA_USAGE, ERR_DEVICE_NAME, "no device %s:%d", kind,
                                 ordinal);
    }
    TesseraDevice *device = context_take(context, sizeof *device);
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

void tessera_device_free(TesseraDevice *device)
{
    if (device) {
        device_close(device->device);
        context_drop(device->context, device);
    }
}

const TesseraDeviceInfo *tessera_device_info(const TesseraDevice *device)
{
    return device ? &device->info : NULL;
}

/* ---- memory ---- */

static TesseraStatus told(TesseraDevice *device, bool ok, const DeviceError *error)
{
    return ok ? TESSERA_OK : context_device_fail(device->context, error);
}

static TesseraStatus no_device(TesseraDevice *device, const char *call, const char *what)
{
    return context_null(device ? device->context : NULL, call, device ? what : "device");
}

TesseraStatus tessera_alloc(TesseraDevice *device, size_t bytes, void **memory)
{
    DeviceError error;
    if (memory) {
        *memory = NULL;
    }
    if (!device || !memory) {
        return no_device(device, __func__, "memory");
    }
    return told(device, device->device->ops->alloc(device->device, bytes, memory, &error), &error);
}

void tessera_release(TesseraDevice *device, void *memory)
{
    if (device) {
        device->device->ops->release(device->device, memory);
    }
}

TesseraStatus tessera_copy_in(TesseraDevice *device, void *to, const void *from, size_t bytes)
{
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return no_device(device, __func__, to ? "from_host" : "to");
    }
    Device *d = device->device;
    return told(device, d->ops->copy_in(d, to, from, bytes, &error), &error);
}

TesseraStatus tessera_copy_out(TesseraDevice *device, void *to, const void *from, size_t bytes)
{
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return no_device(device, __func__, to ? "from" : "to_host");
    }
    Device *d = device->device;
    return told(device, d->ops->copy_out(d, to, from, bytes, &error), &error);
}

TesseraStatus tessera_sync(TesseraDevice *device, void *stream)
{
    DeviceError error;
    if (!device) {
        return no_device(device, __func__, NULL);
    }
    Device *d = device->device;
    return told(device, d->ops->sync(d, stream, &error), &error);
}

/* ---- time ---- */

typedef bool TimedWork(void *user, void *stream, DeviceError *error);

static bool timed(Device *d, void *stream, int times, TimedWork *work, void *user, double *seconds,
                  DeviceError *error)
{
    DeviceMoment first = NULL, last = NULL;
    bool ok = d->ops->moment(d, stream, &first, error);
    for (int i = 0; ok && i < times; i++) {
        ok = work(user, stream, error);
    }
    ok = ok && d->ops->moment(d, stream, &last, error) &&
         d->ops->elapsed(d, first, last, seconds, error);
    d->ops->forget(d, first);
    d->ops->forget(d, last);
    return ok;
}

static bool launch_work(void *user, void *stream, DeviceError *error)
{
    return launch_run(user, stream, error);
}

TesseraStatus tessera_launch_time(TesseraLaunch *launch, void *stream, int times, double *seconds)
{
    DeviceError error;
    if (!launch || !seconds) {
        return context_null(launch ? launch->device->context : NULL, __func__,
                            launch ? "seconds" : "launch");
    }
    *seconds = 0;
    return told(launch->device,
                timed(launch->device->device, stream, times, launch_work, launch->prepared, seconds,
                      &error),
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
    DeviceError error;
    if (!device || !seconds || (bytes > 0 && (!to || !from))) {
        return no_device(device, __func__, !seconds ? "seconds" : to ? "from" : "to");
    }
    CopyWork copy = {device->device, to, from, bytes};
    *seconds = 0;
    return told(device, timed(device->device, NULL, times, copy_work, &copy, seconds, &error),
                &error);
}

/* ---- code on a device ---- */

typedef struct LoadTask {
    TesseraKernel *kernel;
    TesseraDevice *device;
    OnDevice *made;
    DeviceImage image;
    DeviceError error;
} LoadTask;

static bool runs_on(const Target *target, const TesseraDevice *device)
{
    if (device->device->ops == &device_host) {
        return target->family == FAMILY_CPU;
    }
    return text_same(target->name, device->info.target);
}

static void *find_symbol(void *user, const char *name)
{
    return jit_symbol(user, name);
}

/* The driver assembles PTX, so that no toolkit is needed; an assembler that is named does it
 * instead. Register limits are directives of the PTX: both obey them. */
static EmitKind kind_to_load(const Target *target)
{
    const char *ptxas = getenv("TESSERA_PTXAS");
    switch (target->family) {
    case FAMILY_CPU: return EMIT_OBJ;
    case FAMILY_NVPTX: return ptxas && *ptxas ? EMIT_CUBIN : EMIT_PTX;
    default: return EMIT_HSACO;
    }
}

/* The sizes that the code was compiled for. */
static void give_sizes(Plan *plan, const TesseraOptions *options)
{
    for (int i = 0; i < plan->n_sizes; i++) {
        PlanSize *size = &plan->sizes[i];
        for (size_t j = 0; j < options->n_sizes && !size->stride; j++) {
            if (text_same(options->sizes[j].name, size->name)) {
                size->is_given = true;
                size->given = options->sizes[j].value;
            }
        }
    }
}

static bool make_code(LoadTask *task)
{
    TesseraKernel *kernel = task->kernel;
    Compilation *c = &kernel->compilation;
    OnDevice *made = task->made;
    Code code = {0};
    if (!cached_emit(c, kind_to_load(c->target), &code, &made->plan)) {
        return false;
    }
    if (c->target->family == FAMILY_CPU) {
        made->jit = codegen_jit(c->func, &code, &made->plan);
        task->image = (DeviceImage){.symbol = find_symbol, .user = made->jit};
        return made->jit != NULL;
    }
    char *ended = arena_alloc(&kernel->work.arena, code.n + 1); /* PTX ends in a zero */
    memcpy(ended, code.bytes, code.n);
    task->image = (DeviceImage){.bytes = ended, .n = code.n};
    return true;
}

static bool load_task(void *user)
{
    LoadTask *task = user;
    TesseraKernel *kernel = task->kernel;
    Diags *diags = &kernel->work.diags;
    const Compilation *c = &kernel->compilation;
    if (c->stopped || !runs_on(c->target, task->device)) {
        diag_failure(diags, DIAG_USAGE, "%s was compiled for %s, %s wants %s",
                     kernel->signature.name, c->stopped ? "its IR only" : c->target->name,
                     task->device->info.name, task->device->info.target);
        return false;
    }
    task->made = ARENA_NEW(&kernel->work.arena, OnDevice);
    task->made->device = task->device;
    if (!make_code(task)) {
        return false;
    }
    give_sizes(&task->made->plan, &c->options);
    return true;
}

static void load_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((LoadTask *)user)->kernel->compilation, out);
}

/* Code of ours that a driver refuses is a bug to report, with what reproduces it. */
static bool refused_task(void *user)
{
    LoadTask *task = user;
    diag_failure(&task->kernel->work.diags, task->error.kind, "%s", task->error.text);
    return false;
}

static TesseraStatus load_failed(LoadTask *task)
{
    TesseraContext *context = task->kernel->work.context;
    if (task->made->jit) {
        jit_free(task->made->jit);
    }
    if (task->error.kind != DIAG_INTERNAL) {
        return context_device_fail(context, &task->error);
    }
    TesseraStatus status = work_run(&task->kernel->work, refused_task, load_reproducer, task);
    context->error.driver_code = task->error.code;
    return status;
}

static TesseraStatus load_on(TesseraKernel *kernel, TesseraDevice *device, OnDevice **out)
{
    for (*out = kernel->devices; *out; *out = (*out)->next) {
        if ((*out)->device == device) {
            return TESSERA_OK;
        }
    }
    LoadTask task = {.kernel = kernel, .device = device};
    kernel->work.diags.list.n = 0;
    kernel->work.diags.errors = 0;
    TesseraStatus status = work_run(&kernel->work, load_task, load_reproducer, &task);
    if (status != TESSERA_OK) {
        return status;
    }
    if (!loaded_open(device->device, &task.made->plan, &task.image, &task.made->loaded,
                     &task.error)) {
        return load_failed(&task);
    }
    task.made->next = kernel->devices;
    kernel->devices = *out = task.made;
    return TESSERA_OK;
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

static void pack_arg(const PlanParam *param, const TesseraArg *from, LaunchArg *to)
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

static TesseraStatus prepare_on(OnDevice *on, const TesseraArg *args, LaunchArg *packed,
                                TesseraLaunch *launch)
{
    DeviceError error;
    for (int i = 0; i < on->plan.n_params; i++) {
        pack_arg(&on->plan.params[i], &args[i], &packed[i]);
    }
    launch->device = on->device;
    launch->plan = &on->plan;
    launch->prepared = launch_prepare(&on->loaded, packed, &error);
    return told(on->device, launch->prepared != NULL, &error);
}

TesseraStatus tessera_prepare(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args,
                              size_t n_args, TesseraLaunch **out)
{
    TesseraContext *context = kernel ? kernel->work.context : NULL;
    OnDevice *on;
    const char *null = !kernel ? "kernel" : !device ? "device" : !out ? "launch" : NULL;
    if (out) {
        *out = NULL;
    }
    if (null) {
        return context_null(context, __func__, null);
    }
    TesseraStatus status = args_check(context, &kernel->signature, args, n_args);
    status = status == TESSERA_OK ? load_on(kernel, device, &on) : status;
    if (status != TESSERA_OK) {
        return status;
    }
    TesseraLaunch *launch = context_take(context, sizeof *launch);
    LaunchArg *packed = context_take(context, (n_args + 1) * sizeof *packed);
    status = launch && packed ? prepare_on(on, args, packed, launch) : TESSERA_ENVIRONMENT;
    context_drop(context, packed);
    if (status != TESSERA_OK) {
        context_drop(context, launch);
        return status;
    }
    *out = launch;
    return TESSERA_OK;
}

void tessera_launch_free(TesseraLaunch *launch)
{
    if (launch) {
        launch_free(launch->prepared);
        context_drop(launch->device->context, launch);
    }
}

TesseraStatus tessera_launch(TesseraLaunch *launch, void *stream)
{
    DeviceError error;
    if (!launch) {
        return TESSERA_USAGE;
    }
    return told(launch->device, launch_run(launch->prepared, stream, &error), &error);
}
