/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report for a terminal: the schedule, and a few lines per launch as comments in it. */
#include "runtime/explain/explain_report.h"

#include "runtime/explain/explain_hints.h"
#include "runtime/explain/explain_words.h"

#include <string.h>

enum { MAX_ACCESSES = 12 };
static const double READ_REPEATEDLY = 1.05; /* that is worth a line */

static const char *limit_words(const Report *report, Limit limit)
{
    bool waves = limit == LIMIT_WARPS;
    return waves ? arena_printf(report->input->func->arena, "%ss", warp_words(report->target))
                 : limit_name(limit);
}

static void resident(const Report *report, const LaunchReport *launch, Text *out)
{
    const Occupancy *o = &launch->occupancy;
    if (!o->known) {
        return;
    }
    text_printf(out, "#   a %s holds %d block%s, %d of %d %ss (%.0f %%), ",
                unit_words(report->target), o->resident, o->resident == 1 ? "" : "s", o->warps,
                target_warps(report->target), warp_words(report->target), 100 * o->share);
    if (launch->assembled) {
        text_printf(out, "limited by %s; %d registers a thread", limit_words(report, o->limit),
                    launch->assembled->registers);
        if (launch->assembled->spilled > 0) {
            text_printf(out, ", %d bytes spilled", launch->assembled->spilled);
        }
    } else {
        text_printf(out, "by %s; registers are not known without ptxas",
                    limit_words(report, o->limit));
    }
    if (launch->code_bytes > 0) {
        text_printf(out, ", about %lld KB of code", (long long)(launch->code_bytes + 1023) / 1024);
    }
    const char *rounds = rounds_words(report, launch);
    text_printf(out, *rounds ? "; %s" : "", rounds);
    text_char(out, '\n');
}

static void roof(const Report *report, const LaunchReport *launch, Text *out)
{
    const Roofline *r = &launch->roofline;
    if (!report->sized) {
        return;
    }
    text_add(out, "#   ");
    scaled_words(out, r->read, "B read, ");
    scaled_words(out, r->written, "B written, ");
    scaled_words(out, r->flops + r->matrix_flops, "FLOP");
    if (report->card) {
        double least = r->memory_bound ? r->memory_seconds : r->compute_seconds;
        text_printf(out, ": %s of %s, ", r->memory_bound ? "memory" : "arithmetic",
                    report->card->title);
        if (least < 0.01e-6) {
            text_add(out, "no time to speak of");
        } else {
            text_add(out, "at least ");
            seconds_words(out, least);
        }
    }
    text_char(out, '\n');
    if (r->memory_read > READ_REPEATEDLY * r->read) {
        text_add(out, "#   L2 evicts some of it before it is read again: ");
        scaled_words(out, r->memory_read, "B come from memory\n");
    }
}

static void count(Text *out, double n)
{
    if (n < 99999.5) {
        text_printf(out, " %9.0f", n);
    } else {
        text_printf(out, " %9.3g", n);
    }
}

static void accesses(const Report *report, const LaunchReport *launch, Text *out)
{
    bool counts = report->sized && report->card;
    if (launch->accesses.n == 0) {
        return;
    }
    bool cpu = report->target->family == FAMILY_CPU; /* which has no warps that ask at once */
    text_printf(out, "#   %5s  %-20s ", "line", "access");
    if (!cpu) {
        text_printf(out, "%5s", "bytes");
    } else if (report->sized) {
        text_printf(out, "%9s", "asked");
    }
    text_printf(out, counts ? " %9s %9s %9s" : "", "requests", "sectors", "conflicts");
    text_add(out, "  guard\n");
    for (size_t i = 0; i < launch->accesses.n && i < MAX_ACCESSES; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        Text name = text_new(report->input->func->arena);
        text_printf(&name, "%s %s", traffic_name(at->kind), at->memory);
        text_printf(out, at->line ? "#   %5d" : "#        ", at->line);
        text_printf(out, "  %-20s ", name.data);
        if (report->target->family != FAMILY_CPU) {
            text_printf(out, "%5d", at->bytes);
        } else if (report->sized) {
            Text moved = text_new(report->input->func->arena);
            scaled_words(&moved, at->moved, "B");
            text_printf(out, "%9s", moved.data);
        }
        if (report->sized && report->card) {
            count(out, at->requests);
            if (traffic_is_shared(at->kind)) {
                text_printf(out, " %9s", "");
                count(out, at->wavefronts - at->least_wavefronts);
            } else {
                count(out, at->sectors);
                text_printf(out, " %9s", "");
            }
        }
        text_printf(out, *at->guard ? "  %s" : "", at->guard);
        text_add(out, at->assumed ? " (places: as if spread evenly)\n" : "\n");
    }
    if (launch->accesses.n > MAX_ACCESSES) {
        text_printf(out, "#   … and %zu more: --json or --html FILE\n",
                    launch->accesses.n - MAX_ACCESSES);
    }
}

/* The row of the machine that all costs refer to. */
static void machine_line(const Report *report, Text *out)
{
    const Machine *card = report->card;
    if (card) {
        text_printf(out,
                    "# card %s (%s): %d %ss, %d MHz; memory %d GB/s, L2 %d MiB; %.0f TFLOP/s of "
                    "16-bit products, %.0f of f32\n",
                    card->name, card->title, card->num_sms, unit_words(report->target), card->clock,
                    card->memory_gbs, card->l2_mib, machine_flops16(card) / 1e12,
                    machine_flops32(card) / 1e12);
    }
}

/* Tiles were chosen again: the choice before had too much of something. */
static void retries_line(const Report *report, Text *out)
{
    const RetryCount *retries = &report->input->func->retries;
    if (retries->n > 0) {
        text_printf(out, "# tiles were chosen again %d time%s: %s\n", retries->n,
                    retries->n == 1 ? "" : "s", retries->why);
    }
}

void report_text(const Report *report, Text *out)
{
    text_add(out, report->input->schedule);
    machine_line(report, out);
    retries_line(report, out);
    for (int i = 0; i < report->n_launches; i++) {
        const LaunchReport *launch = &report->launches[i];
        text_printf(out, "# %s: ", launch->plan->symbol);
        shape_words(report, launch, out);
        if (launch->shared_bytes > 0) {
            text_printf(out, ", %d bytes of shared memory a block", launch->shared_bytes);
        }
        text_add(out, launch->plan->persistent ? ", persistent\n" : "\n");
        if (*launch->tiles) {
            text_printf(out, "#   a block takes %s%s\n", launch->tiles,
                        launch->plan->persistent ? ", one tile after the other" : "");
        }
        if (*launch->why) {
            text_printf(out, "#   a launch of its own: %s\n", launch->why);
        }
        resident(report, launch, out);
        roof(report, launch, out);
        const char *unit = product_words(report, launch),
                   *tiles = product_tiles_words(report, launch);
        text_printf(out, *unit ? "#   products: %s\n" : "", unit);
        text_printf(out, *tiles ? "#   %s\n" : "", tiles);
        if (launch->predicted > 0) {
            text_add(out, "#   the model expects ");
            expected_words(out, launch);
            text_char(out, '\n');
        }
        accesses(report, launch, out);
        const char *trace = course_words(report, launch);
        text_printf(out, *trace ? "#   %s\n" : "", trace);
        const char *sampled = sample_words(launch);
        text_printf(out, *sampled ? "#   %s\n" : "", sampled);
        for (size_t k = 0; k < launch->notes.n; k++) {
            text_printf(out, "#   note: %s\n", launch->notes.items[k].text);
        }
    }
    for (size_t i = 0; i < report->hints.n; i++) {
        text_add(out, "# try: ");
        hint_words(report, &report->hints.items[i], out);
        text_char(out, '\n');
    }
    if (report->nominal) {
        text_printf(out, "# prices use %s\n", report->nominal);
    }
    if (report->fact) {
        text_printf(out, "# %s\n", report->fact);
    }
    text_printf(out, "# a variant for %s\n", report->input->variant);
    if (report->input->product_flops > 0) {
        text_printf(out, "# products: %.4g FLOP\n", report->input->product_flops);
    }
}
