/* SPDX-License-Identifier: Apache-2.0 */
/* Generates and loads the code of a kernel at its first launch on a device. */
#include "runtime/compile/kernel_objects.h"

#include <stdlib.h>
#include <string.h>

static bool runs_on(const Target *target, const TesseraDevice *device)
{
    if (device->device->ops == &device_host) {
        return target->family == FAMILY_CPU;
    }
    return text_equal(target->name, device->info.target);
}

/* The driver assembles PTX, so that no toolkit is needed; an assembler that is named does it
 * instead. Register limits are directives of the PTX: both obey them. */
EmitKind kernel_kind(const TesseraKernel *kernel)
{
    const char *ptxas = getenv("TESSERA_PTXAS");
    switch (kernel->compilation.target->family) {
    case FAMILY_CPU: return EMIT_OBJ;
    case FAMILY_NVPTX: return ptxas && *ptxas ? EMIT_CUBIN : EMIT_PTX;
    default: return EMIT_HSACO;
    }
}

/* ---- machine code before the first launch ---- */

typedef struct CodeTask {
    TesseraKernel *kernel;
    EmitKind kind;
} CodeTask;

static bool code_task(void *user)
{
    CodeTask *task = user;
    return compile(&task->kernel->compilation, (CompileGoal){COMPILE_CODE, task->kind, NULL});
}

static void code_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((CodeTask *)user)->kernel->compilation, out);
}

TesseraStatus kernel_make_code(TesseraKernel *kernel, EmitKind kind)
{
    CodeTask task = {kernel, kind};
    kernel->work.diags.list.n = 0;
    kernel->work.diags.errors = 0;
    return error_boundary_run(&kernel->work, code_task, code_reproducer, &task);
}

/* ---- loading ---- */

typedef struct LoadTask {
    TesseraKernel *kernel;
    TesseraDevice *device;
    DeviceCode *module;
} LoadTask;

static bool load_task(void *user)
{
    LoadTask *task = user;
    TesseraKernel *kernel = task->kernel;
    Compilation *c = &kernel->compilation;
    if (c->stopped || !runs_on(c->target, task->device)) {
        diag_failure(&kernel->work.diags, DIAG_USAGE, "%s was compiled for %s, %s wants %s",
                     kernel->signature.name, c->stopped ? "its IR only" : c->target->name,
                     task->device->info.name, task->device->info.target);
        return false;
    }
    task->module = ARENA_NEW(&kernel->work.arena, DeviceCode);
    task->module->device = task->device;
    return compile(c, (CompileGoal){COMPILE_LOAD, kernel_kind(kernel), task->module});
}

static void load_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((LoadTask *)user)->kernel->compilation, out);
}

TesseraStatus kernel_load(TesseraKernel *kernel, TesseraDevice *device, DeviceCode **out)
{
    TesseraContext *context = kernel->work.context;
    for (*out = kernel->devices; *out; *out = (*out)->next) {
        if ((*out)->device == device && (*out)->loaded.device) {
            return TESSERA_OK;
        }
    }
    LoadTask task = {.kernel = kernel, .device = device};
    kernel->work.diags.list.n = 0;
    kernel->work.diags.errors = 0;
    TesseraStatus status = error_boundary_run(&kernel->work, load_task, load_reproducer, &task);
    DeviceCode *module = task.module;
    if (status != TESSERA_OK && module && module->is_refused) {
        /* Code that a driver refuses is a bug of the compiler and stays reported with what
         * reproduces it; other errors of a driver are reported as those of a launch. */
        if (module->error.kind != DIAG_INTERNAL) {
            return context_device_fail(context, &module->error);
        }
        context->error.driver_code = module->error.code;
    }
    if (status != TESSERA_OK) {
        return status;
    }
    loaded_keep(device, &module->loaded);
    module->next = kernel->devices;
    kernel->devices = *out = module;
    return TESSERA_OK;
}
