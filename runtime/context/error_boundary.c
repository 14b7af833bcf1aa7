/* SPDX-License-Identifier: Apache-2.0 */
/* The error boundary: an allocation failure or an internal error inside of the compiler jumps here
 * and becomes a status of the public call. */
#include "runtime/context/error_boundary.h"

#include "runtime/context/compiler_context.h"
#include "support/deep_stack.h"

/* More than any sensible kernel needs; a runaway pass ends here and not with the machine. */
static const size_t MAX_BYTES = (size_t)2 << 30;

void work_init(ErrorBoundary *work, TesseraContext *context)
{
    work->context = context;
    arena_init(&work->arena, context->allocator);
    work->arena.cap = MAX_BYTES;
    diags_init(&work->diags, &work->arena);
}

void work_free(ErrorBoundary *work)
{
    arena_free(&work->arena);
}

static TesseraStatus worst_status(const Diags *diags)
{
    TesseraStatus status = TESSERA_INTERNAL; /* false without a diagnostic is a bug as well */
    for (size_t i = 0; i < diags->list.n; i++) {
        const Diag *diag = &diags->list.items[i];
        if (diag->severity == SEVERITY_ERROR) {
            status = status_of(diag->kind);
            if (status == TESSERA_INTERNAL) {
                break;
            }
        }
    }
    return status;
}

typedef struct Report {
    ErrorBoundary *work;
    WorkReproducer *reproducer;
    void *user;
} Report;

static TesseraStatus report_errors(const Report *report)
{
    ErrorBoundary *work = report->work;
    TesseraContext *context = work->context;
    TesseraStatus status = worst_status(&work->diags);
    Text text = text_new(&work->arena);
    if (context->compiler->bundle_variant) {
        diag_remark(&work->diags, SPAN_NONE, "in compiling %s", context->compiler->bundle_variant);
    }
    diags_render(&work->diags, &text);
    if (work->diags.errors == 0) {
        text_add(&text, "error: the compiler failed without saying why");
    }
    context_fail_diags(context, status, &work->diags, text.data);
    if (status == TESSERA_INTERNAL && report->reproducer) {
        Text reproducer = text_new(&work->arena);
        report->reproducer(report->user, &reproducer);
        context_set(context, &context->reproducer, reproducer.data);
        context->error.reproducer = context->reproducer;
    }
    return status;
}

/* Reporting allocates memory; if that fails, the error is "out of memory". */
static TesseraStatus report_safely(const Report *report)
{
    jmp_buf guard;
    ErrorBoundary *work = report->work;
    work->arena.guard = work->diags.bug_guard = &guard;
    TesseraStatus status;
    if (setjmp(guard) == 0) {
        status = report_errors(report);
    } else {
        status = context_fail(report->work->context, TESSERA_ENVIRONMENT, 0, "out of memory");
    }
    report->work->arena.guard = report->work->diags.bug_guard = NULL;
    return status;
}

enum { JUMP_NONE, JUMP_MEMORY, JUMP_BUG, TASK_FAILED };

typedef struct Guarded {
    ErrorBoundary *work;
    BoundaryFn *task;
    void *user;
    int jump;
} Guarded;

static void run_guarded(void *user)
{
    Guarded *run = user;
    jmp_buf guard;
    run->work->arena.guard = run->work->diags.bug_guard = &guard;
    run->jump = setjmp(guard);
    if (run->jump == JUMP_NONE && !run->task(run->user)) {
        run->jump = TASK_FAILED;
    }
    run->work->arena.guard = run->work->diags.bug_guard = NULL;
}

static TesseraStatus report_jump(const Guarded *run, WorkReproducer *reproducer)
{
    if (run->jump == JUMP_NONE) {
        return TESSERA_OK;
    }
    if (run->jump == JUMP_MEMORY) {
        return context_fail(run->work->context, TESSERA_ENVIRONMENT, 0, "out of memory");
    }
    Report report = {run->work, reproducer, run->user};
    return report_safely(&report);
}

TesseraStatus error_boundary_run(ErrorBoundary *work, BoundaryFn *task, WorkReproducer *reproducer,
                                 void *user)
{
    Guarded run = {.work = work, .task = task, .user = user};
    work->diags.policy = work->context->compiler->policy;
    deep_stack_call(run_guarded, &run);
    return report_jump(&run, reproducer);
}

TesseraStatus error_boundary_run_here(ErrorBoundary *work, BoundaryFn *task, void *user)
{
    Guarded run = {.work = work, .task = task, .user = user};
    work->diags.policy = work->context->compiler->policy;
    run_guarded(&run);
    return report_jump(&run, NULL);
}

bool error_boundary_try(ErrorBoundary *work, BoundaryFn *task, void *user)
{
    Guarded run = {.work = work, .task = task, .user = user};
    work->diags.policy = work->context->compiler->policy;
    run_guarded(&run);
    return run.jump == JUMP_NONE;
}
