/* SPDX-License-Identifier: Apache-2.0 */
/* Generates and loads the code of a kernel at its first launch on a device. */
#include "runtime/api/api_objects.h"
#include "runtime/api/error_boundary.h"
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

#include <stdlib.h>
#include <string.h>

typedef struct LoadTask {
    TesseraKernel *kernel;
    TesseraDevice *device;
    DeviceCode *made;
    DeviceImage image;
    DeviceError error;
} LoadTask;

static bool runs_on(const Target *target, const TesseraDevice *device)
{
    if (device->device->ops == &device_host) {
        return target->family == FAMILY_CPU;
    }
    return text_equal(target->name, device->info.target);
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
            if (text_equal(options->sizes[j].name, size->name)) {
                size->is_given = true;
                size->given = options->sizes[j].value;
            }
        }
    }
}

static bool make_ahead(void *user)
{
    TesseraKernel *kernel = user;
    kernel->is_made =
        cached_emit(&kernel->compilation, kernel->made_kind, &kernel->made, &kernel->made_plan);
    return kernel->is_made;
}

static void ahead_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((TesseraKernel *)user)->compilation, out);
}

EmitKind kernel_kind(const TesseraKernel *kernel)
{
    return kind_to_load(kernel->compilation.target);
}

TesseraStatus kernel_make_code(TesseraKernel *kernel, EmitKind kind)
{
    if (kernel->compilation.stopped) {
        return TESSERA_OK;
    }
    kernel->made_kind = kind;
    kernel->work.diags.list.n = 0;
    kernel->work.diags.errors = 0;
    return error_boundary_run(&kernel->work, make_ahead, ahead_reproducer, kernel);
}

/* As it was made ahead, or now. */
static bool get_code(TesseraKernel *kernel, Code *code, Plan *plan)
{
    Compilation *c = &kernel->compilation;
    if (kernel->is_made && kernel->made_kind == kind_to_load(c->target)) {
        *code = kernel->made;
        *plan = kernel->made_plan;
        return true;
    }
    return cached_emit(c, kind_to_load(c->target), code, plan);
}

static bool make_code(LoadTask *task)
{
    TesseraKernel *kernel = task->kernel;
    Compilation *c = &kernel->compilation;
    DeviceCode *made = task->made;
    Code code = {0};
    if (!get_code(kernel, &code, &made->plan)) {
        return false;
    }
    if (c->target->family == FAMILY_CPU) {
        made->jit = codegen_jit(c->func, &code, &made->plan);
        task->image = (DeviceImage){.symbol = find_symbol, .user = made->jit};
        return made->jit != NULL;
    }
    char *ended = arena_alloc_raw(&kernel->work.arena, code.n + 1);
    memcpy(ended, code.bytes, code.n);
    ended[code.n] = '\0'; /* of PTX the driver asks for it */
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
    task->made = ARENA_NEW(&kernel->work.arena, DeviceCode);
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
    TesseraStatus status =
        error_boundary_run(&task->kernel->work, refused_task, load_reproducer, task);
    context->error.driver_code = task->error.code;
    return status;
}

static TesseraStatus load_on(TesseraKernel *kernel, TesseraDevice *device, DeviceCode **out)
{
    for (*out = kernel->devices; *out; *out = (*out)->next) {
        if ((*out)->device == device && (*out)->loaded.device) {
            return TESSERA_OK;
        }
    }
    LoadTask task = {.kernel = kernel, .device = device};
    kernel->work.diags.list.n = 0;
    kernel->work.diags.errors = 0;
    TesseraStatus status = error_boundary_run(&kernel->work, load_task, load_reproducer, &task);
    if (status != TESSERA_OK) {
        return status;
    }
    if (!loaded_open(device->device, &task.made->plan, &task.image, &task.made->loaded,
                     &task.error)) {
        return load_failed(&task);
    }
    loaded_keep(device, &task.made->loaded);
    task.made->next = kernel->devices;
    kernel->devices = *out = task.made;
    return TESSERA_OK;
}

TesseraStatus tessera_kernel_load(TesseraKernel *kernel, TesseraDevice *device)
{
    REFUSE_FREED(device);
    REFUSE_FREED(kernel);
    DeviceCode *on;
    if (!kernel || !device) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "device" : "kernel");
    }
    return load_on(kernel, device, &on);
}

/* ---- launches ---- */

TesseraStatus tessera_prepare(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args,
                              size_t n_args, TesseraLaunch **out)
{
    TesseraContext *context = kernel ? kernel->work.context : NULL;
    DeviceCode *on;
    const char *null = !kernel ? "kernel" : !device ? "device" : !out ? "launch" : NULL;
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(device);
    REFUSE_FREED(kernel);
    if (null) {
        return context_null(context, __func__, null);
    }
    TesseraStatus status = args_check(context, &kernel->signature, args, n_args);
    if (status == TESSERA_OK) {
        status = load_on(kernel_for(kernel, device, args), device, &on);
    }
    if (status != TESSERA_OK) {
        return status;
    }
    return launch_make(device, &on->loaded, args, out);
}
