/* SPDX-License-Identifier: Apache-2.0 */
/* Generates and loads the code of a kernel at its first launch on a device. */
#include "runtime/api/api_objects.h"
#include "runtime/api/error_boundary.h"
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

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

/* ---- the last steps of compile() ---- */

static void *find_symbol(void *user, const char *name)
{
    const DeviceCode *module = user;
    return module->codegen->jit_symbol(module->jit, name);
}

bool module_image(Compilation *c, DeviceCode *module, DeviceImage *image)
{
    module->plan = c->plan;
    if (c->target->family == FAMILY_CPU) {
        module->codegen = codegen_open(&c->work->arena, &c->work->diags);
        module->jit =
            module->codegen ? module->codegen->jit(c->func, &c->code, &module->plan) : NULL;
        *image = (DeviceImage){.symbol = find_symbol, .user = module};
        return module->jit != NULL;
    }
    char *ended = arena_alloc_raw(&c->work->arena, c->code.n + 1);
    memcpy(ended, c->code.bytes, c->code.n);
    ended[c->code.n] = '\0'; /* the driver expects PTX to end in one */
    *image = (DeviceImage){.bytes = ended, .n = c->code.n};
    return true;
}

bool module_open(Compilation *c, DeviceCode *module, const DeviceImage *image)
{
    Plan *plan = &module->plan;
    for (int i = 0; i < plan->n_sizes; i++) {
        PlanSize *size = &plan->sizes[i];
        for (size_t j = 0; j < c->options.n_sizes && !size->stride; j++) {
            if (text_equal(c->options.sizes[j].name, size->name)) {
                size->is_given = true; /* the code was compiled for this size */
                size->given = c->options.sizes[j].value;
            }
        }
    }
    if (loaded_open(module->device->device, plan, image, &module->loaded, &module->error)) {
        return true;
    }
    if (module->jit) {
        module->codegen->jit_free(module->jit);
    }
    module->is_refused = true;
    diag_failure(&c->work->diags, module->error.kind, "%s", module->error.text);
    return false;
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

static TesseraStatus load_on(TesseraKernel *kernel, TesseraDevice *device, DeviceCode **out)
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
