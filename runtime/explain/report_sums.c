/* SPDX-License-Identifier: Apache-2.0 */
/* Brief reports for comparing schedules: the predicted time of all launches, and whether they fit
 * the device. */
#include "runtime/explain/explain_report.h"

#include "ir/build.h"

/* True if a launch of a GPU has products that no model of tiles covers: what limits them is shared
 * memory, too, so that its accesses are counted, which takes ten times as long. */
static bool multiplies_itself(const Report *report)
{
    for (int i = 0; i < report->n_launches && report->card; i++) {
        const ProductReport *product = &report->launches[i].product;
        if (product->op && !product->modelled &&
            (product->op->kind == OP_DOT || product->alike)) {
            return true;
        }
    }
    return false;
}

void report_make_brief(ReportInput *input, Report *report)
{
    input->brief = true;
    report_make(input, report);
    if (multiplies_itself(report)) {
        input->brief = false;
        input->sampled = true;
        report_make(input, report);
    }
}

double report_seconds(const Report *report)
{
    double seconds = 0;
    for (int i = 0; i < report->n_launches; i++) {
        const LaunchReport *launch = &report->launches[i];
        if (launch->blocks != 0 && launch->predicted <= 0) {
            return 0;
        }
        seconds += launch->predicted;
    }
    return seconds;
}

double report_least(const Report *report)
{
    double least = 0;
    for (int i = 0; i < report->n_launches; i++) {
        const Roofline *r = &report->launches[i].roofline;
        least += r->memory_bound ? r->memory_seconds : r->compute_seconds;
    }
    return least;
}

const char *report_misfit(const Report *report)
{
    Arena *arena = report->input->func->arena;
    const Target *target = report->target;
    for (int i = 0; i < report->n_launches && report->card; i++) {
        const LaunchReport *launch = &report->launches[i];
        const char *symbol = launch->plan->symbol;
        if (launch->plan->threads > target->max_threads) {
            return arena_printf(arena, "%s: %d threads of a block, of %d", symbol,
                                launch->plan->threads, target->max_threads);
        }
        if (launch->shared_bytes > target->shared_bytes) {
            return arena_printf(arena, "%s: %d bytes of shared memory a block, of %d", symbol,
                                launch->shared_bytes, target->shared_bytes);
        }
        if (launch->occupancy.known && launch->occupancy.resident < 1) {
            return arena_printf(arena, "%s: no block fits a multiprocessor: %s", symbol,
                                limit_name(launch->occupancy.limit));
        }
    }
    return NULL;
}
