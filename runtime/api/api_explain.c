/* SPDX-License-Identifier: Apache-2.0 */
/* `explain`: makes a report, for the HTML page with the IR after each pass, from a second
 * compilation, and writes it. */
#include "runtime/api/api_hints.h"
#include "runtime/api/api_objects.h"

#include "ir/text/ir_text.h"
#include "passes/nest/nest_source.h"
#include "runtime/explain/explain_report.h"

typedef struct Task {
    TesseraKernel *kernel;
    TesseraExplain form;
    TesseraBytes *bytes;
    bool hints;          /* the report has them, which takes longer */
    const Report *other; /* to compare with; NULL: none */
    Report *report;      /* the result, in the kernel's arena */
} Task;

/* ---- the report ---- */

/* The same again, telling of each pass; what it warns of was reported the first time. */
static bool compile_copy(Compilation *c, Compilation *copy, Listings *listings)
{
    size_t n_diags = c->work->diags.list.n;
    *copy = compilation_copy(c);
    copy->pinned = pins_copy(&c->pinned);
    copy->record = listings;
    bool good = compile(copy, (CompileGoal){COMPILE_IR});
    if (good) {
        c->work->diags.list.n = n_diags;
    }
    return good;
}

/* The launches as source, as they are once `tile` has run. */
static bool explain_nest(const Task *task)
{
    Compilation copy = compilation_copy(&task->kernel->compilation);
    size_t n_diags = task->kernel->work.diags.list.n;
    NestSource nest = {0};
    Text out = text_new(&task->kernel->work.arena);
    copy.pinned = pins_copy(&task->kernel->compilation.pinned);
    copy.nest = &nest;
    if (!compile(&copy, (CompileGoal){COMPILE_IR})) {
        return false;
    }
    task->kernel->work.diags.list.n = n_diags;
    nest_finish(copy.func, &nest, &out);
    *task->bytes = (TesseraBytes){out.data, out.n};
    return true;
}

static bool make_report(Task *task)
{
    TesseraKernel *kernel = task->kernel;
    Arena *arena = &kernel->work.arena;
    Compilation *c = &kernel->compilation;
    bool listed = task->form == TESSERA_EXPLAIN_HTML;
    ReportInput *input = ARENA_NEW(arena, ReportInput);
    Plan *plan = ARENA_NEW(arena, Plan);
    if (listed) {
        Compilation *copy = ARENA_NEW(arena, Compilation);
        if (!compile_copy(c, copy, &input->listings)) {
            return false;
        }
        c = copy;
    }
    if (!explain_input(c, listed, input, plan)) {
        return false;
    }
    input->schedule = schedule_block(c, true);
    input->variant = plan_facts(c->func->arena, plan, usual_align(c->target));
    task->report = ARENA_NEW(arena, Report);
    report_make(input, task->report);
    if (task->hints) {
        hints_make(&kernel->compilation, task->report);
        nominal_explain(&kernel->compilation, task->report);
    }
    task->report->other = task->other;
    return true;
}

static bool explain_task(void *user)
{
    Task *task = user;
    Compilation *c = &task->kernel->compilation;
    if (c->stopped || !c->target) {
        diag_failure(&task->kernel->work.diags, DIAG_USAGE,
                     "the compilation was stopped after a pass: only its IR is there (--emit ir)");
        return false;
    }
    if (task->form == TESSERA_EXPLAIN_NEST) {
        return explain_nest(task);
    }
    if (!make_report(task)) {
        return false;
    }
    if (!task->bytes) {
        return true;
    }
    Text out = text_new(&task->kernel->work.arena);
    switch (task->form) {
    case TESSERA_EXPLAIN_JSON: report_json(task->report, &out); break;
    case TESSERA_EXPLAIN_HTML: report_html(task->report, &out); break;
    default: report_text(task->report, &out); break;
    }
    *task->bytes = (TesseraBytes){out.data, out.n};
    return true;
}

static void reproducer(void *user, Text *out)
{
    compilation_reproducer(&((Task *)user)->kernel->compilation, out);
}

TesseraStatus tessera_kernel_explain(TesseraKernel *kernel, TesseraExplain form,
                                     TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    Task task = {.kernel = kernel, .form = form, .bytes = bytes, .hints = true};
    if (!kernel || !bytes) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "bytes" : "kernel");
    }
    if (form > TESSERA_EXPLAIN_NEST) {
        return context_usage(kernel->work.context, "explain: no form %d", (int)form);
    }
    *bytes = (TesseraBytes){"", 0};
    return error_boundary_run(&kernel->work, explain_task, reproducer, &task);
}

TesseraStatus tessera_kernel_figures(TesseraKernel *kernel, TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    Task task = {.kernel = kernel, .form = TESSERA_EXPLAIN_JSON, .bytes = bytes};
    if (!kernel || !bytes) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "bytes" : "kernel");
    }
    *bytes = (TesseraBytes){"", 0};
    return error_boundary_run(&kernel->work, explain_task, reproducer, &task);
}

TesseraStatus tessera_kernel_compare(TesseraKernel *kernel, TesseraKernel *other,
                                     TesseraBytes *bytes)
{
    REFUSE_FREED(kernel);
    REFUSE_FREED(other);
    Task task = {.kernel = kernel, .form = TESSERA_EXPLAIN_HTML, .bytes = bytes};
    if (!kernel || !other || !bytes) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            !kernel  ? "kernel"
                            : !other ? "other"
                                     : "bytes");
    }
    *bytes = (TesseraBytes){"", 0};
    const Target *mine = kernel->compilation.target, *its = other->compilation.target;
    if (mine != its) {
        return context_usage(kernel->work.context, "the kernels to compare are of %s and of %s",
                             mine ? mine->name : "the interpreter",
                             its ? its->name : "the interpreter");
    }
    Task second = {.kernel = other, .form = TESSERA_EXPLAIN_HTML};
    TesseraStatus status = error_boundary_run(&other->work, explain_task, reproducer, &second);
    if (status != TESSERA_OK) {
        return status;
    }
    task.other = second.report;
    return error_boundary_run(&kernel->work, explain_task, reproducer, &task);
}
