/* SPDX-License-Identifier: Apache-2.0 */
/* Compilation in threads of the library. A task compiles in a private context; a thread that waits
 * for it receives the kernel, and the errors, in its own context. */
#include "runtime/api/api_objects.h"

#include "runtime/device/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct TesseraTask {
    Handle handle;
    TesseraContext *context; /* the caller's */
    TesseraContext *own;
    ErrorBoundary options_work; /* holds `options` */
    TesseraOptions options;
    TesseraProgram *program;
    TesseraDone *done;
    void *user;
    TaskGate *gate;
    pthread_t thread;
    bool joined;
    atomic_bool cancelled, finished;
    TesseraStatus status;
    TesseraKernel *kernel;
};

/* ---- the limit on threads that compile at once: one per CPU ---- */

struct TaskGate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    int free;
};

static TaskGate *gate_of(TesseraContext *context)
{
    if (!context->compiler->gate) {
        TaskGate *gate = context_take(context, sizeof *gate);
        if (gate) {
            pthread_mutex_init(&gate->lock, NULL);
            pthread_cond_init(&gate->open, NULL);
            gate->free = pool_cpus();
            context->compiler->gate = gate;
        }
    }
    return context->compiler->gate;
}

void tasks_free(TesseraContext *context)
{
    if (context->compiler->gate) {
        pthread_cond_destroy(&context->compiler->gate->open);
        pthread_mutex_destroy(&context->compiler->gate->lock);
        context_drop(context, context->compiler->gate);
    }
}

/* ---- the thread ---- */

static void *task_main(void *user)
{
    TesseraTask *task = user;
    /* At most as many tasks as there are CPUs compile at the same time. */
    TaskGate *gate = task->gate;
    pthread_mutex_lock(&gate->lock);
    while (gate->free == 0) {
        pthread_cond_wait(&gate->open, &gate->lock);
    }
    gate->free--;
    pthread_mutex_unlock(&gate->lock);
    if (!atomic_load(&task->cancelled)) {
        task->status = kernel_make(task->own, task->program, &task->options, &task->kernel);
    }
    if (task->kernel && !atomic_load(&task->cancelled)) {
        task->status = kernel_make_code(task->kernel, kernel_kind(task->kernel));
    }
    if (atomic_load(&task->cancelled)) {
        task->status = context_fail(task->own, TESSERA_CANCELLED, 0, "compiling was cancelled");
    }
    if (task->status != TESSERA_OK) {
        tessera_kernel_free(task->kernel);
        task->kernel = NULL;
    }
    pthread_mutex_lock(&gate->lock);
    gate->free++;
    pthread_cond_signal(&gate->open);
    pthread_mutex_unlock(&gate->lock);
    atomic_store(&task->finished, true);
    if (task->done) {
        task->done(task->user, task);
    }
    return NULL;
}

/* ---- what the caller has ---- */

static void drop_task(TesseraTask *task)
{
    tessera_kernel_free(task->kernel);
    work_free(&task->options_work);
    tessera_context_free(task->own);
    handle_drop(task->context, &task->handle);
}

typedef struct KeepTask {
    TesseraTask *task;
    const TesseraOptions *options;
} KeepTask;

static bool keep_options(void *user)
{
    KeepTask *keep = user;
    options_copy(&keep->task->options_work.arena, keep->options, &keep->task->options);
    return true;
}

/* Opens a context with the caller's settings, which reports nothing itself. */
static TesseraStatus open_own(TesseraTask *task)
{
    TesseraContext *from = task->context;
    TesseraAllocator allocator = {from->allocator.alloc, from->allocator.release,
                                  from->allocator.user};
    TesseraStatus status = tessera_context_new(&allocator, &task->own);
    if (status != TESSERA_OK) {
        return context_fail(from, status, 0, "out of memory");
    }
    status = context_like(task->own, from);
    return status == TESSERA_OK ? status : context_fail(from, status, 0, task->own->error.message);
}

static TesseraStatus begin(TesseraTask *task, const TesseraOptions *options)
{
    TesseraContext *context = task->context;
    TesseraStatus status = open_own(task);
    if (status != TESSERA_OK) {
        return status;
    }
    task->own->compiler->cancelled = &task->cancelled;
    status =
        error_boundary_run_here(&task->options_work, keep_options, &(KeepTask){task, options});
    if (status != TESSERA_OK) {
        return status;
    }
    if (pthread_create(&task->thread, NULL, task_main, task) != 0) {
        return context_fail(context, TESSERA_ENVIRONMENT, 0, "no more threads");
    }
    return TESSERA_OK;
}

TesseraStatus tessera_compile_start(TesseraProgram *program, const TesseraOptions *options,
                                    TesseraDone *done, void *user, TesseraTask **out)
{
    TesseraContext *context = program ? program->work.context : NULL;
    const TesseraSignature *signature;
    const char *null = NULL_ARGUMENT({program, "program"}, {options, "options"}, {out, "task"});
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(program);
    if (null) {
        return context_null(context, __func__, null);
    }
    TesseraStatus status = options_suit_compiling(program, options, &signature);
    TaskGate *gate = status == TESSERA_OK ? gate_of(context) : NULL;
    TesseraTask *task = gate ? handle_take(context, sizeof *task) : NULL;
    if (!task) {
        return status == TESSERA_OK ? TESSERA_ENVIRONMENT : status;
    }
    task->context = context;
    task->program = program;
    task->done = done;
    task->user = user;
    task->gate = gate;
    work_init(&task->options_work, context);
    status = begin(task, options);
    if (status != TESSERA_OK) {
        drop_task(task);
        return status;
    }
    *out = task;
    return TESSERA_OK;
}

bool tessera_task_finished(const TesseraTask *task)
{
    ANSWER_FREED(task, true);
    return !task || atomic_load(&task->finished);
}

void tessera_task_cancel(TesseraTask *task)
{
    ANSWER_FREED(task, );
    if (task) {
        atomic_store(&task->cancelled, true);
    }
}

static void join(TesseraTask *task)
{
    if (!task->joined) {
        pthread_join(task->thread, NULL);
        task->joined = true;
    }
}

/* Gives the kernel to the caller. The context gets the task's errors unless it has an earlier one
 * already (`has_error`). */
static TesseraStatus hand_out(TesseraTask *task, bool has_error, TesseraKernel **kernel)
{
    join(task);
    if (!has_error) {
        context_take_over(task->context, task->own);
    }
    if (task->kernel) {
        task->kernel->work.context = task->context;
    }
    *kernel = task->kernel;
    task->kernel = NULL;
    return task->status;
}

TesseraStatus tessera_task_wait(TesseraTask *task, TesseraKernel **kernel)
{
    if (kernel) {
        *kernel = NULL;
    }
    REFUSE_FREED(task);
    if (!task || !kernel) {
        return context_null(task ? task->context : NULL, __func__, task ? "kernel" : "task");
    }
    join(task);
    if (task->status == TESSERA_OK && !task->kernel) {
        return context_usage(task->context, "%s: the kernel was handed out before", __func__);
    }
    return hand_out(task, false, kernel);
}

void tessera_task_free(TesseraTask *task)
{
    ANSWER_FREED(task, );
    if (task) {
        tessera_task_cancel(task);
        join(task);
        drop_task(task);
    }
}

/* ---- several ahead ---- */

static TesseraStatus wait_all(TesseraTask **tasks, TesseraRequest *requests, size_t n,
                              TesseraDevice *device)
{
    TesseraStatus worst = TESSERA_OK;
    for (size_t i = 0; i < n; i++) {
        TesseraRequest *request = &requests[i];
        if (tasks[i]) {
            request->status = hand_out(tasks[i], worst != TESSERA_OK, &request->kernel);
        }
        if (request->status == TESSERA_OK && device && worst == TESSERA_OK) {
            request->status = tessera_kernel_load(request->kernel, device);
        }
        worst = worst == TESSERA_OK ? request->status : worst;
    }
    return worst;
}

static TesseraStatus start(TesseraRequest *request, TesseraTask **task)
{
    request->kernel = NULL;
    request->status = tessera_compile_start(request->program, &request->options, NULL, NULL, task);
    return request->status;
}

TesseraStatus tessera_compile_all(TesseraContext *context, TesseraRequest *requests, size_t n,
                                  TesseraDevice *device)
{
    REFUSE_FREED(device);
    if (!context || (n > 0 && !requests)) {
        return context_null(context, __func__, context ? "requests" : "context");
    }
    TesseraTask **tasks = context_take(context, (n + 1) * sizeof *tasks);
    if (!tasks) {
        return TESSERA_ENVIRONMENT;
    }
    /* If several cannot start, the first of them is tried again at the end, so that the context
     * has its error and not that of the last one. */
    size_t n_failed = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        if (start(&requests[i], &tasks[i]) != TESSERA_OK) {
            first = n_failed++ == 0 ? i : first;
        }
    }
    if (n_failed > 1) {
        start(&requests[first], &tasks[first]);
    }
    TesseraStatus status = wait_all(tasks, requests, n, device);
    for (size_t i = 0; i < n; i++) {
        tessera_task_free(tasks[i]);
    }
    context_drop(context, tasks);
    return status;
}
