/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter in the public interface, and the comparison of results with it. */
#include "runtime/api/api_objects.h"

#include "codegen/plan/plan_builder.h"
#include "ir/build.h"
#include "ir/interp/interp.h"
#include "ir/loop_steps.h"

#include <math.h>
#include <string.h>

typedef struct OracleTask {
    Compilation c;
    TesseraProgram *program;
    const TesseraOptions *options;
    const TesseraArg *args;
    size_t n_args;
    MessageRecords said;
} OracleTask;

static InterpArg *interp_args(const OracleTask *task, bool *bounds)
{
    Func *func = task->c.func;
    InterpArg *args = ARENA_ARRAY(func->arena, InterpArg, func->params.n);
    for (size_t i = 0; i < task->n_args; i++) {
        const TesseraArg *from = &task->args[i];
        InterpTensor tensor = {from->tensor.data, from->tensor.strides, from->bound};
        args[i] = (InterpArg){tensor, from->number, from->integer};
        *bounds = *bounds || from->bound;
    }
    return args;
}

/* What the debugging settings want to see; NULL: nothing. */
static InterpTrace *watch_for(OracleTask *task, InterpTrace *watch)
{
    const TesseraDebug *debug = &task->c.work->context->compiler->debug;
    Text *out = ARENA_NEW(&task->c.work->arena, Text);
    *out = text_new(&task->c.work->arena);
    *watch = (InterpTrace){.nan = debug->trap_nan,
                           .span = SPAN_NONE,
                           .tensor = debug->trace,
                           .rank = debug->trace_rank,
                           .out = out};
    memcpy(watch->index, debug->trace_index, sizeof watch->index);
    return debug->trap_nan || debug->trace ? watch : NULL;
}

static bool tell_trace(OracleTask *task, const InterpTrace *watch)
{
    const TesseraDebug *debug = &task->c.work->context->compiler->debug;
    if (!debug->trace) {
        return true;
    }
    if (watch->found && debug->write) {
        debug->write(debug->user, watch->out->data, watch->out->n);
    }
    if (!watch->found) {
        Text index = text_new(&task->c.work->arena);
        for (int i = 0; i < watch->rank; i++) {
            text_printf(&index, "%s%lld", i ? ", " : "", (long long)watch->index[i]);
        }
        diag_failure(task->c.func->diags, DIAG_USAGE, "nothing is stored to %s[%s] of %s",
                     debug->trace, index.n ? index.data : "", task->c.func->name);
    }
    return watch->found;
}

/* Records a message that the kernel prints while it runs; other events concern only tests. */
static void record_event(void *user, const InterpEvent *note)
{
    OracleTask *task = user;
    Arena *arena = &task->c.work->arena;
    bool fails = note->kind == INTERP_ASSERT;
    if (!fails && note->kind != INTERP_PRINT) {
        return;
    }
    task->said.failures += fails;
    if (task->said.n == LOG_RECORDS) {
        task->said.lost++;
        return;
    }
    PlanMessage *message = ARENA_NEW(arena, PlanMessage);
    plan_message(task->c.func, note->op, message);
    Scalar *values = ARENA_ARRAY(arena, Scalar, note->n);
    for (int i = 0; i < note->n; i++) {
        values[i] = note->values[i];
    }
    KernelMessage record = {message, (int)op_int(note->op, ATTR_SITE, 0), task->said.n, values};
    ARENA_PUSH(arena, &task->said, record);
}

static bool run_interp(OracleTask *task)
{
    Func *func = task->c.func;
    DiagClass kind = DIAG_FAULT;
    Span where = SPAN_NONE;
    InterpOptions options = {.seed = 1, .kind = &kind, .where = &where};
    int64_t *sizes = ARENA_ARRAY(func->arena, int64_t, func->dimvars.n);
    if (params_given(func) != task->n_args) {
        diag_failure(func->diags, DIAG_USAGE, "%s takes %zu arguments, not %zu", func->name,
                     params_given(func), task->n_args);
        return false;
    }
    InterpArg *args = interp_args(task, &options.bounds);
    Text problem = text_new(func->arena);
    if (!sizes_from_args(func, &task->c.options, task->args, sizes)) {
        return false;
    }
    InterpTrace watch;
    options.watch = watch_for(task, &watch);
    options.note = record_event;
    options.user = task;
    if (!interp_func(func, args, sizes, &options, &problem)) {
        size_t n = strlen(func->name);
        bool named = strncmp(problem.data, func->name, n) == 0 && problem.data[n] == ':';
        const char *words = problem.data + (named ? n + 2 : 0);
        Diag *diag = diag_failure(func->diags, kind, "%s, interpreted: %s", func->name, words);
        diag->span = watch.span.end > watch.span.start ? watch.span : where;
        return false;
    }
    return tell_trace(task, &watch);
}

/* ---- steps of ranges ---- */

/* The kernel as it runs on the target; NULL: it does not compile there, which is not reported
 * here. */
static const Func *scheduled(const Compilation *c, const char *target)
{
    Diags *diags = &c->work->diags;
    size_t n_diags = diags->list.n;
    int errors = diags->errors;
    Compilation copy = compilation_copy(c);
    copy.options.target = target;
    bool good = compile(&copy, (CompileGoal){COMPILE_IR});
    diags->list.n = n_diags;
    diags->errors = errors;
    return good ? copy.func : NULL;
}

/* The meaning is that of the source, with the steps of the target's schedule; a debugging stop
 * gives that of the IR up to a pass. */
static bool oracle_task(void *user)
{
    OracleTask *task = user;
    Compilation *c = &task->c;
    options_copy(&c->work->arena, task->options, &c->options);
    if (c->options.wide) {
        compilation_to_f64(c);
    }
    const char *stop = c->work->context->compiler->debug.stop_after, *target = c->options.target;
    if (!stop || text_equal(stop, "frontend")) {
        c->options.target = NULL;
    }
    if (!compile(c, (CompileGoal){COMPILE_IR})) {
        return false;
    }
    if (!stop && target && !c->options.wide) {
        /* The result of rounding once in each step of a range depends on the steps, and `by n` is
         * only a default: the interpreter takes the steps of the target's schedule. */
        Func *func = task->c.func;
        const Func *from = steps_any(func) ? scheduled(&task->c, target) : NULL;
        if (from) {
            steps_take(func, from);
        }
    }
    return run_interp(task);
}

static void oracle_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((OracleTask *)user)->c, out);
}

TesseraStatus tessera_interpret(TesseraProgram *program, const TesseraOptions *options,
                                const TesseraArg *args, size_t n_args)
{
    REFUSE_FREED(program);
    ErrorBoundary work;
    const TesseraSignature *signature;
    const char *null = NULL_ARGUMENT({program, "program"}, {options, "options"},
                                     {n_args > 0 ? (const void *)args : "", "args"});
    if (null) {
        return context_null(program ? program->work.context : NULL, __func__, null);
    }
    TesseraStatus status = options_check(program, options, &signature);
    if (status != TESSERA_OK) {
        return status;
    }
    work_init(&work, program->work.context);
    OracleTask task = {.program = program, .options = options, .args = args, .n_args = n_args};
    task.c = (Compilation){.work = &work,
                           .name = program->name,
                           .text = program->text,
                           .n = program->n,
                           .imports = &program->imports};
    status = error_boundary_run(&work, oracle_task, oracle_reproducer, &task);
    TesseraStatus stored = context_store_messages(work.context, &task.said);
    status = status == TESSERA_OK ? stored : status;
    work_free(&work);
    return status;
}

TesseraStatus tessera_interpret_messages(TesseraContext *context, TesseraMessages *messages)
{
    if (!context || !messages) {
        return context_null(context, __func__, context ? "messages" : "context");
    }
    *messages = context_messages(context);
    return TESSERA_OK;
}

/* ---- comparing ---- */

/* The distance as a share of what is allowed; 0 for the same, infinity where nothing is allowed. */
static double share(TesseraType type, size_t i, const void *got, const void *want, double bound)
{
    size_t bytes = tessera_type_bytes(type);
    bool packed = dtype_is_packed((DType)type);
    const char *a = (const char *)got + i * bytes, *b = (const char *)want + i * bytes;
    if (!packed && memcmp(a, b, bytes) == 0) {
        return 0;
    }
    double x = tessera_get(type, got, i), y = tessera_get(type, want, i);
    if (packed && x == y) {
        return 0;
    }
    if (isnan(x) && isnan(y)) {
        return 0;
    }
    double distance = fabs(x - y);
    if (isnan(bound) || (isinf(bound) && bound > 0)) {
        return 0; /* nothing is promised there */
    }
    if (!(bound > 0) || isnan(distance)) {
        return (double)INFINITY;
    }
    return distance / bound;
}

TesseraStatus tessera_compare(TesseraType type, size_t n, const void *got, const void *want,
                              const double *bound, TesseraDifference *difference)
{
    if (!type_is_known(type)) {
        return context_usage(NULL, "%s: there is no element type %d", __func__, (int)type);
    }
    if (!difference || (n > 0 && (!got || !want))) {
        return context_null(NULL, __func__, !difference ? "difference" : got ? "want" : "got");
    }
    *difference = (TesseraDifference){0};
    for (size_t i = 0; i < n; i++) {
        double allowed = bound ? bound[i] : 0;
        double at = share(type, i, got, want, allowed);
        difference->worst = at > difference->worst ? at : difference->worst;
        if (at <= 1) {
            continue;
        }
        if (difference->different++ == 0) {
            difference->first = i;
            difference->got = tessera_get(type, got, i);
            difference->want = tessera_get(type, want, i);
            difference->bound = allowed;
        }
    }
    return difference->different ? TESSERA_DIFFERENT : TESSERA_OK;
}
