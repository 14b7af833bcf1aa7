/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a kernel once more with a changed option and asks the cost model how long it would take.
 * The hints of `explain` and the facts that would change a plan are found this way. Diagnostics and
 * memory of an attempt are dropped. */
#include "runtime/api/attempt.h"

#include "codegen/plan/plan_builder.h"
#include "runtime/api/api_hints.h"

/* In seconds of a nominal machine: a visit of an op by a pass (Func.visited), or by the trace of
 * memory; a look at one by the sampled trace. */
static const double VISIT_COST = 1e-7, TRACE_COST = 2e-8, LOOK_COST = 1e-5;

double attempt_report_cost(const Report *report)
{
    double cost = 0;
    for (int i = 0; i < report->n_launches; i++) {
        const LaunchReport *launch = &report->launches[i];
        cost += LOOK_COST * (double)launch->looks + TRACE_COST * (double)launch->visits;
    }
    return cost;
}

static double code_bytes(const Report *report)
{
    double bytes = 0;
    for (int i = 0; i < report->n_launches; i++) {
        bytes += (double)report->launches[i].code_bytes;
    }
    return bytes;
}

static void report_briefly(Compilation *c, const TesseraSize *sizes, size_t n, Report *report)
{
    Plan *plan = ARENA_NEW(&c->work->arena, Plan);
    ReportInput *input = ARENA_NEW(&c->work->arena, ReportInput);
    plan_fill_without_code(c->func, plan);
    *input = (ReportInput){.product_flops = c->flops,
                           .func = c->func,
                           .plan = plan,
                           .source = c->source,
                           .sizes = sizes_by_id(c->func, sizes, n)};
    report_make_brief(input, report);
}

static double seconds_of(const Report *report)
{
    return report_misfit(report) ? 0 : report_seconds(report);
}

double attempt_seconds(Compilation *c, const TesseraSize *sizes, size_t n, double *cost)
{
    Report report;
    report_briefly(c, sizes, n, &report);
    *cost = attempt_report_cost(&report);
    return seconds_of(&report);
}

static bool attempt(void *user)
{
    Attempt *at = user;
    Compilation *c = &at->compilation;
    ReportInput input = {.product_flops = c->flops};
    Plan plan;
    Report report;
    if (!compile(c, (CompileGoal){COMPILE_IR}) || c->stopped || c->work->diags.errors > 0) {
        return false;
    }
    at->cost = VISIT_COST * (double)c->func->visited;
    if (at->look) {
        at->look(c->func, at->user);
    }
    if (at->brief) {
        report_briefly(c, at->n_sizes ? at->sizes : c->options.sizes,
                       at->n_sizes ? at->n_sizes : c->options.n_sizes, &report);
    } else if (explain_input(c, false, &input, &plan)) {
        report_make(&input, &report);
    } else {
        return false;
    }
    at->cost += attempt_report_cost(&report);
    at->code_bytes = code_bytes(&report);
    at->seconds = seconds_of(&report);
    return true;
}

Attempt attempt_of(const Compilation *c, bool brief)
{
    Attempt at = {.compilation = compilation_copy(c), .brief = brief};
    at.compilation.pinned = pins_copy(&c->pinned);
    return at;
}

void attempt_make(const Compilation *c, Attempt *at)
{
    ErrorBoundary work;
    work_init(&work, c->work->context);
    at->compilation.work = &work;
    if (!error_boundary_try(&work, attempt, at)) {
        at->seconds = 0;
    }
    work_free(&work);
}

TesseraDebug attempts_begin(const Compilation *c)
{
    TesseraDebug *debug = &c->work->context->compiler->debug, saved = *debug;
    debug->print_after = NULL;
    debug->print_changed = debug->print_computations = debug->time_passes = debug->count_work =
        false;
    return saved;
}

void attempts_end(const Compilation *c, const TesseraDebug *saved)
{
    c->work->context->compiler->debug = *saved;
}
