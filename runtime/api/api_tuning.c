/* SPDX-License-Identifier: Apache-2.0 */
/* The key under which measurements of a kernel are stored, for tuners. */
#include "runtime/api/api_objects.h"

#include "ir/ir_errors.h"

typedef struct TuningTask {
    TesseraProgram *program;
    TesseraOptions options;
    const TesseraDevice *device;
    TesseraTuning *tuning;
} TuningTask;

static bool tuning_task(void *user)
{
    TuningTask *task = user;
    ErrorBoundary *work = &task->program->tuning;
    Module *module;
    const KernelSignature *kernel;
    Compilation c = {.work = work,
                     .name = task->program->name,
                     .text = task->program->text,
                     .n = task->program->n,
                     .imports = imports_copy(&work->arena, &task->program->imports),
                     .options = task->options,
                     .pinned = {.wanted = true}};
    if (!compilation_target(&c) || !compilation_type(&c, &module, &kernel)) {
        return false;
    }
    const int64_t *sizes = sizes_by_id(c.func, task->options.sizes, task->options.n_sizes);
    const char *bucket = buckets_of(&c, sizes);
    if (!bucket) {
        diag_failure_at(&work->diags, DIAG_USAGE, ERR_SIZE_UNKNOWN, SPAN_NONE,
                        "not all sizes of %s are known", c.func->name);
        return false;
    }
    *task->tuning = (TesseraTuning){c.func->name,
                                    c.pinned.identity.digest,
                                    c.pinned.identity.types,
                                    bucket,
                                    sizes_text(&c, sizes),
                                    task->device ? task->device->info.name : "",
                                    architecture_of(&c)};
    return true;
}

TesseraStatus tessera_tuning(TesseraProgram *program, const TesseraOptions *options,
                             const TesseraDevice *device, TesseraTuning *tuning)
{
    TesseraContext *context = program ? program->work.context : NULL;
    const TesseraSignature *signature;
    const char *null =
        NULL_ARGUMENT({program, "program"}, {options, "options"}, {tuning, "tuning"});
    if (tuning) {
        *tuning = (TesseraTuning){0};
    }
    REFUSE_FREED(device);
    REFUSE_FREED(program);
    if (null) {
        return context_null(context, __func__, null);
    }
    TuningTask task = {program, *options, device, tuning};
    if (device) {
        task.options.target = device->info.target;
    }
    TesseraStatus status = options_suit_compiling(program, &task.options, &signature);
    if (status != TESSERA_OK) {
        return status;
    }
    work_free(&program->tuning);
    work_init(&program->tuning, context);
    return error_boundary_run(&program->tuning, tuning_task, NULL, &task);
}

TesseraStatus tessera_pins_use(TesseraContext *context, const char *path)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    context_set(context, &context->compiler->pins, path);
    return TESSERA_OK;
}
