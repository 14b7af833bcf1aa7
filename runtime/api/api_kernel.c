/* SPDX-License-Identifier: Apache-2.0 */
/* Public kernels: one compilation each, and the queries on it. */
#include "runtime/api/api_objects.h"

#include "ir/ir_errors.h"
#include "ir/text/ir_text.h"
#include "runtime/device/plan_json.h"
#include "support/clock.h"

#include <inttypes.h>
#include <string.h>

/* ---- compiling and loading ---- */

TesseraStatus tessera_compile(TesseraProgram *program, const TesseraOptions *options,
                              TesseraKernel **out)
{
    TesseraContext *context = program ? program->work.context : NULL;
    const TesseraSignature *signature;
    const char *null = NULL_ARGUMENT({program, "program"}, {options, "options"}, {out, "kernel"});
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(program);
    if (null) {
        return context_null(context, __func__, null);
    }
    TesseraStatus status = options_suit_compiling(program, options, &signature);
    return status == TESSERA_OK ? kernel_make(context, program, options, out) : status;
}

TesseraStatus tessera_kernel_vjp(TesseraKernel *kernel, const char *const *by, size_t n_by,
                                 TesseraKernel **out)
{
    TesseraContext *context = kernel ? kernel->work.context : NULL;
    const char *null = NULL_ARGUMENT({kernel, "kernel"}, {n_by > 0 ? (const void *)by : "", "by"},
                                     {out, "vjp"});
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(kernel);
    for (size_t i = 0; !null && i < n_by; i++) {
        null = by[i] ? NULL : "a name";
    }
    return null ? context_null(context, __func__, null) : kernel_make_vjp(kernel, by, n_by, out);
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
    return kernel_load(kernel, device, &on);
}

TesseraStatus tessera_prepare(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args,
                              size_t n_args, TesseraLaunch **out)
{
    TesseraContext *context = kernel ? kernel->work.context : NULL;
    DeviceCode *on;
    const char *null = NULL_ARGUMENT({kernel, "kernel"}, {device, "device"}, {out, "launch"});
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
        status = kernel_load(kernel_for(kernel, device, args), device, &on);
    }
    if (status != TESSERA_OK) {
        return status;
    }
    return launch_make(device, &on->loaded, args, out);
}

/* ---- queries on a kernel ---- */

const TesseraSignature *tessera_kernel_signature(const TesseraKernel *kernel)
{
    ANSWER_FREED(kernel, NULL);
    return kernel ? &kernel->signature : NULL;
}

/* The size at `index` of the signature; NULL if there is none. */
static const DimVar *size_at(const TesseraKernel *kernel, size_t index)
{
    const Func *func = kernel->compilation.func;
    for (size_t i = 0, nth = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && nth++ == index) {
            return var;
        }
    }
    return NULL;
}

TesseraStatus tessera_kernel_fact(const TesseraKernel *kernel, size_t index, TesseraFact *fact)
{
    REFUSE_FREED(kernel);
    if (!kernel || !fact) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "fact" : "kernel");
    }
    const DimVar *var = size_at(kernel, index);
    if (!var) {
        return context_usage(kernel->work.context, "%s has no size %zu", kernel->signature.name,
                             index);
    }
    *fact = (TesseraFact){var->name, var->multiple, var->least, var->most};
    return TESSERA_OK;
}

bool tessera_kernel_follows(const TesseraKernel *kernel, size_t index)
{
    ANSWER_FREED(kernel, false);
    const DimVar *var = kernel ? size_at(kernel, index) : NULL;
    return var && var->by > 0;
}

/* ---- emitting ---- */

typedef struct EmitTask {
    TesseraKernel *kernel;
    const char *kind;
    TesseraBytes *bytes;
} EmitTask;

static const struct {
    const char *name;
    EmitKind kind;
} EMITS[] = {
    {"llvm", EMIT_LLVM}, {"ptx", EMIT_PTX},     {"cubin", EMIT_CUBIN},
    {"asm", EMIT_ASM},   {"hsaco", EMIT_HSACO}, {"obj", EMIT_OBJ},
};

static bool target_makes(TesseraContext *context, const Target *target, const char *kind)
{
    const TesseraTarget *row;
    for (size_t i = 0; (row = tessera_target(context, i)); i++) {
        for (const char *const *k = row->kinds; text_equal(row->name, target->name) && *k; k++) {
            if (text_equal(*k, kind)) {
                return true;
            }
        }
    }
    return false;
}

static bool emit_launch(EmitTask *task)
{
    TesseraKernel *kernel = task->kernel;
    CodegenOptions options = compilation_codegen(&kernel->compilation);
    Text text = text_new(&kernel->work.arena);
    Code code = {0};
    Plan plan;
    if (!compilation_emit(&kernel->compilation, EMIT_LLVM, &options, &code, &plan)) {
        return false;
    }
    plan_json(&plan, &text);
    *task->bytes = (TesseraBytes){text.data, text.n};
    return true;
}

static bool emit_code(EmitTask *task, EmitKind kind)
{
    TesseraKernel *kernel = task->kernel;
    Code code = {0};
    Plan plan;
    if (!generate_code(&kernel->compilation, kind, &code, &plan)) {
        return false;
    }
    char *ended = arena_alloc(&kernel->work.arena, code.n + 1);
    memcpy(ended, code.bytes, code.n);
    *task->bytes = (TesseraBytes){ended, code.n};
    return true;
}

static bool emit_task(void *user)
{
    EmitTask *task = user;
    const Compilation *c = &task->kernel->compilation;
    ErrorBoundary *work = &task->kernel->work;
    if (text_equal(task->kind, "ir")) {
        Text text = text_new(&task->kernel->work.arena);
        print_func(task->kernel->compilation.func, &text);
        *task->bytes = (TesseraBytes){text.data, text.n};
        return true;
    }
    if (c->stopped) {
        diag_failure(&work->diags, DIAG_USAGE,
                     "the compilation was stopped after a pass: only its IR is there (--emit ir)");
        return false;
    }
    if (text_equal(task->kind, "launch")) {
        return emit_launch(task);
    }
    for (size_t i = 0; i < sizeof EMITS / sizeof *EMITS; i++) {
        if (text_equal(task->kind, EMITS[i].name) &&
            target_makes(work->context, c->target, task->kind)) {
            return emit_code(task, EMITS[i].kind);
        }
    }
    /* The message lists the forms of code that the target has. */
    const Target *target = task->kernel->compilation.target;
    Text kinds = text_new(&work->arena);
    for (size_t i = 0; i < sizeof EMITS / sizeof *EMITS; i++) {
        if (target_makes(work->context, target, EMITS[i].name)) {
            text_printf(&kinds, ", %s", EMITS[i].name);
        }
    }
    Diag *diag = diag_failure_at(&work->diags, DIAG_USAGE, ERR_EMIT, SPAN_NONE,
                                 "target %s has no '%.60s'", target->name, task->kind);
    diag_help(&work->diags, diag, "for %s there is --emit ir, launch%s", target->name, kinds.data);
    return false;
}

static void emit_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((EmitTask *)user)->kernel->compilation, out);
}

TesseraStatus tessera_kernel_emit(TesseraKernel *kernel, const char *kind, TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    EmitTask task = {kernel, kind, bytes};
    if (bytes) {
        *bytes = (TesseraBytes){0};
    }
    const char *null = NULL_ARGUMENT({kernel, "kernel"}, {kind, "kind"}, {bytes, "bytes"});
    if (null) {
        return context_null(kernel ? kernel->work.context : NULL, __func__, null);
    }
    kernel->work.diags.list.n = 0; /* earlier failures and warnings were reported */
    kernel->work.diags.errors = 0;
    return error_boundary_run(&kernel->work, emit_task, emit_reproducer, &task);
}

/* ---- explaining ---- */

typedef struct ExplainTask {
    TesseraKernel *kernel;
    bool reasons;
    const char **text;
    TesseraResources *resources;
} ExplainTask;

const char *schedule_block(const Compilation *c, bool reasons)
{
    Text lines = text_new(&c->work->arena);
    Text block = text_new(&c->work->arena);
    schedule_print(c->func, reasons, &lines);
    text_printf(&block, "schedule %s on %s {\n", c->func->name, c->target->name);
    for (const char *at = lines.data; at && *at;) {
        size_t n = strcspn(at, "\n");
        text_add(&block, "    ");
        text_add_n(&block, at, n);
        text_char(&block, '\n');
        at += n + (at[n] == '\n');
    }
    text_add(&block, "}\n");
    return block.data;
}

static bool schedule_task(void *user)
{
    ExplainTask *task = user;
    *task->text = schedule_block(&task->kernel->compilation, task->reasons);
    return true;
}

TesseraStatus tessera_kernel_schedule(TesseraKernel *kernel, bool reasons, const char **text)
{
    REFUSE_FREED(kernel);
    ExplainTask task = {.kernel = kernel, .reasons = reasons, .text = text};
    if (!kernel || !text) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "text" : "kernel");
    }
    return error_boundary_run(&kernel->work, schedule_task, NULL, &task);
}

/* The sizes of the plan that the options give or that are quotients of them; NULL unless all of
 * them are known. */
static int64_t *plan_sizes(TesseraKernel *kernel, const Plan *plan)
{
    const TesseraOptions *o = &kernel->compilation.options;
    int64_t *sizes = ARENA_ARRAY(&kernel->work.arena, int64_t, plan->n_sizes);
    for (int i = 0; i < plan->n_sizes; i++) {
        const PlanSize *size = &plan->sizes[i];
        int64_t of;
        sizes[i] = size->stride ? 0 : -1; /* no extent contains a stride */
        for (size_t j = 0; j < o->n_sizes; j++) {
            if (text_equal(o->sizes[j].name, size->name)) {
                sizes[i] = o->sizes[j].value;
            }
        }
        if (sizes[i] >= 0) {
            continue;
        }
        if (size->by <= 0 || !plan_eval(&size->of, sizes, &of)) {
            return NULL;
        }
        sizes[i] = of / size->by - (of % size->by < 0);
    }
    return sizes;
}

static bool resources_task(void *user)
{
    ExplainTask *task = user;
    TesseraKernel *kernel = task->kernel;
    Compilation *c = &kernel->compilation;
    CodegenOptions options = {.optimize = 0}; /* the plan is the same */
    Code code;
    Plan plan;
    if (!compilation_emit(c, EMIT_LLVM, &options, &code, &plan)) {
        return false;
    }
    int64_t *sizes = plan_sizes(kernel, &plan);
    TesseraLaunchInfo *infos = ARENA_ARRAY(&kernel->work.arena, TesseraLaunchInfo, plan.n_launches);
    for (int i = 0; i < plan.n_launches; i++) {
        const PlanLaunch *launch = &plan.launches[i];
        int64_t blocks = -1; /* not known */
        if (sizes && plan_blocks(launch, sizes, &blocks)) {
            blocks = plan_resident(launch, blocks, c->target->machine->num_sms);
        } else {
            blocks = -1;
        }
        infos[i] = (TesseraLaunchInfo){launch->symbol, launch->threads, launch->shared_bytes,
                                       blocks, launch->persistent};
    }
    *task->resources = (TesseraResources){infos, (size_t)plan.n_launches, c->flops};
    return true;
}

static void explain_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((ExplainTask *)user)->kernel->compilation, out);
}

TesseraStatus tessera_kernel_resources(TesseraKernel *kernel, TesseraResources *resources)
{
    REFUSE_FREED(kernel);
    ExplainTask task = {.kernel = kernel, .resources = resources};
    if (!kernel || !resources) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "resources" : "kernel");
    }
    *resources = (TesseraResources){.flops = kernel->compilation.flops};
    return error_boundary_run(&kernel->work, resources_task, explain_reproducer, &task);
}

/* ---- shapes ---- */

typedef struct ShapeTask {
    const TesseraKernel *kernel;
    size_t index;
    const TesseraSize *sizes;
    size_t n_sizes;
    TesseraTensor *tensor;
} ShapeTask;

static bool shape_task(void *user)
{
    ShapeTask *task = user;
    Func *func = task->kernel->compilation.func;
    const Param *param = &func->params.items[task->index];
    Type type = param_given(param);
    int64_t *sizes = sizes_by_id(func, task->sizes, task->n_sizes);
    *task->tensor = (TesseraTensor){.type = (TesseraType)type->dtype, .rank = -1};
    if (type->kind != TYPE_TENSOR) {
        return true;
    }
    if (!sizes_derived(func, sizes)) {
        return false;
    }
    task->tensor->rank = type->rank;
    for (int axis = 0; axis < type->rank; axis++) {
        for (size_t i = 0; i < func->dimvars.n; i++) {
            if (sizes[i] < 0 && poly_mentions(type->dims[axis], func->dimvars.items[i])) {
                diag_failure_at(func->diags, DIAG_USAGE, ERR_SIZE_UNKNOWN, SPAN_NONE,
                                "size %s of '%s' is not known", func->dimvars.items[i]->name,
                                param->name);
                return false;
            }
        }
        int64_t *extent = &task->tensor->dims[param_axis(param, axis)];
        if (!poly_eval(type->dims[axis], sizes, extent) || *extent < 0) {
            diag_failure(func->diags, DIAG_SOURCE, "axis %d of '%s' overflows or is negative", axis,
                         param->name);
            return false;
        }
    }
    return true;
}

TesseraStatus tessera_kernel_shape(const TesseraKernel *kernel, size_t index,
                                   const TesseraSize *sizes, size_t n_sizes, TesseraTensor *tensor)
{
    REFUSE_FREED(kernel);
    const char *null = NULL_ARGUMENT({kernel, "kernel"}, {tensor, "tensor"});
    for (size_t i = 0; i < n_sizes && !null; i++) {
        if (!sizes) {
            null = "sizes";
        } else if (!sizes[i].name) {
            null = "a name of sizes";
        } else {
            null = NULL;
        }
    }
    if (null) {
        return context_null(kernel ? kernel->work.context : NULL, __func__, null);
    }
    if (index >= kernel->signature.n_params) {
        return context_usage(kernel->work.context, "%s has no parameter %zu",
                             kernel->signature.name, index);
    }
    ShapeTask task = {kernel, index, sizes, n_sizes, tensor};
    return error_boundary_run_here((ErrorBoundary *)(uintptr_t)&kernel->work, shape_task, &task);
}
