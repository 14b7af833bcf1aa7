/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as one self-contained HTML page. */
#include "runtime/explain/explain_html.h"

#include "runtime/explain/explain_hints.h"
#include "runtime/explain/explain_words.h"

#include <string.h>

void html_words_n(Text *out, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        const char *entity;
        switch (text[i]) {
        case '&': entity = "&amp;"; break;
        case '<': entity = "&lt;"; break;
        case '>': entity = "&gt;"; break;
        case '"': entity = "&quot;"; break;
        default: continue;
        }
        text_add_n(out, text + from, i - from);
        text_add(out, entity);
        from = i + 1;
    }
    text_add_n(out, text + from, n - from);
}

void html_words(Text *out, const char *text)
{
    html_words_n(out, text, strlen(text));
}

/* ---- numbers ---- */

static void count_cell(Text *out, double n)
{
    text_add(out, "<td class=n>");
    scaled_words(out, n, "");
}

/* ---- head ---- */

static void head(const Report *report, Text *out)
{
    const Func *func = report->input->func;
    text_printf(out, "<h1>%s on %s</h1>\n<p class=soft>", func->name, report->target->name);
    if (report->card) {
        html_words(out, report->card->title);
        text_printf(out, ", %d %ss", report->target->machine->num_sms, unit_words(report->target));
    } else {
        text_add(out, "a CPU");
    }
    const char *between = "; sizes ";
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && report->input->sizes[i] >= 0) {
            text_printf(out, "%s%s=%lld", between, var->name, (long long)report->input->sizes[i]);
            between = ", ";
        }
    }
    text_add(out, report->sized ? "" : "; totals want all sizes (--size)");
    text_add(out, "</p>\n<nav aria-label=\"parts of the page\">");
    text_add(out, report->other ? "<a href=\"#compare\">two schedules</a>" : "");
    for (int i = 0; i < report->n_launches; i++) {
        text_printf(out, "<a href=\"#launch%d\">%s</a>", i, report->launches[i].plan->symbol);
    }
    text_add(out, "<a href=\"#roofline\">roofline</a><a href=\"#schedule\">schedule</a>"
                  "<a href=\"#code\">code</a><a href=\"#differences\">differences</a>"
                  "<a href=\"#glossary\">words</a></nav>\n<main>\n");
}

static void schedule(const Report *report, Text *out)
{
    text_add(out, "<h2 id=schedule>Schedule</h2>\n<p>Each decision with its reason. The block may "
                  "stand in the source, and a line of it there, or given by --schedule, beats what "
                  "is derived.</p><pre class=block tabindex=0>");
    html_words(out, report->input->schedule);
    text_add(out, "</pre>\n");
}

/* ---- a launch ---- */

static void occupancy(const Report *report, const LaunchReport *launch, Text *out)
{
    const Occupancy *o = &launch->occupancy;
    if (!o->known) {
        return;
    }
    text_printf(out, "<h3>Occupancy</h3><p>A %s holds %d block%s: %d of %d %ss, %.0f %%.",
                unit_words(report->target), o->resident, o->resident == 1 ? "" : "s", o->warps,
                target_warps(report->target), warp_words(report->target), 100 * o->share);
    if (launch->assembled) {
        text_printf(out, " %d registers a thread", launch->assembled->registers);
        text_printf(out, launch->assembled->scalars ? ", %d a wave" : "",
                    launch->assembled->scalars);
        text_printf(
            out,
            launch->assembled->spilled ? ", <span class=bad>%d bytes of them spilled</span>." : ".",
            launch->assembled->spilled);
    } else {
        text_add(out, " Registers are not known without ptxas.");
    }
    const char *rounds = rounds_words(report, launch);
    text_printf(out, *rounds ? " T%s." : "", *rounds ? rounds + 1 : ""); /* it begins "the" */
    text_add(out, "</p><table class=bars><tr><th>limit<th class=n>blocks<th>");
    int most = 1;
    for (int i = 0; i < LIMIT_GRID; i++) {
        most = o->blocks[i] > most ? o->blocks[i] : most;
    }
    for (int i = 0; i < LIMIT_GRID; i++) {
        text_printf(out,
                    "\n<tr%s><td>%s<td class=n>%d<td><div "
                    "style=\"width:calc(min(15rem, 30vw) * %.3f)\"></div>",
                    o->blocks[i] == o->resident ? " class=limit" : "", limit_name((Limit)i),
                    o->blocks[i], (double)o->blocks[i] / most);
    }
    text_add(out, "</table>\n");
}

static void accesses(const Report *report, const LaunchReport *launch, Text *out)
{
    if (!launch->accesses.n) {
        return;
    }
    text_printf(out,
                "<h3>Accesses</h3><p class=soft>Requests are of %ss; a sector is %d bytes, "
                "and the column next to it says how many times those needed if the bytes lay "
                "side by side. Shared memory serves each bank once a turn: conflicts are "
                "further turns.</p>",
                warp_words(report->target), report->card ? report->target->sector_bytes : 32);
    text_add(
        out,
        "<div class=wide tabindex=0><table class=lines><tr><th class=n>line<th>access<th class=n>"
        "bytes<th>why so wide");
    text_add(out, report->sized && report->card
                      ? "<th class=n>requests<th class=n>sectors<th class=n>times"
                        "<th class=n>conflicts"
                      : "");
    text_add(out, "<th>guard");
    for (size_t i = 0; i < launch->accesses.n; i++) {
        /* Each access is a row that links to its source line. */
        const AccessReport *at = &launch->accesses.items[i];
        text_printf(out, at->line ? "\n<tr class=l%d>" : "\n<tr>", at->line);
        text_printf(out, at->line ? "<td class=n><a href=\"#s%d\">%d</a>" : "<td class=n>",
                    at->line, at->line);
        text_printf(out, "<td>%s <b>", traffic_name(at->kind));
        html_words(out, at->memory);
        text_printf(out, "</b><td class=n>%d<td class=soft>", at->bytes);
        html_words(out, at->why_width);
        if (report->sized && report->card) {
            count_cell(out, at->requests);
            if (traffic_is_shared(at->kind)) {
                double conflicts = at->wavefronts - at->least_wavefronts;
                text_printf(out, "<td><td><td class=\"n%s\">", conflicts > 0 ? " bad" : " good");
                scaled_words(out, conflicts, "");
            } else {
                count_cell(out, at->sectors);
                double times = at->least_sectors > 0 ? at->sectors / at->least_sectors : 1;
                text_printf(out, "<td class=\"n%s\">%.2f<td>", times > 1.3 ? " warn" : " good",
                            times);
            }
        }
        text_add(out, "<td class=soft>");
        html_words(out, at->guard);
        text_add(out, at->assumed ? " (data decide the places: as if spread evenly)" : "");
    }
    text_add(out, "</table></div>\n");
}

static void cost(const Report *report, const LaunchReport *launch, Text *out)
{
    const Roofline *r = &launch->roofline;
    if (!report->sized) {
        return;
    }
    text_add(out, "<h3>Cost</h3><table><tr><td>memory, each array once<td>");
    scaled_words(out, r->read, "B read, ");
    scaled_words(out, r->written, "B written");
    if (report->card) {
        text_add(out, "<tr><td>memory, expected, with what caches lose and keep<td>");
        scaled_words(out, r->memory_read, "B read, ");
        scaled_words(out, r->memory_written, "B written");
    }
    text_add(out, "<tr><td>asked of the caches<td>");
    scaled_words(out, r->asked_read, "B read, ");
    scaled_words(out, r->asked_written, "B written");
    text_add(out, "<tr><td>arithmetic<td>");
    scaled_words(out, r->matrix_flops, "FLOP on matrix units, ");
    scaled_words(out, r->flops, "FLOP in addition to them");
    if (report->card) {
        text_add(out, "<tr><td>at least<td>");
        seconds_words(out, r->memory_seconds);
        text_add(out, " of memory, ");
        seconds_words(out, r->compute_seconds);
        text_printf(out, " of arithmetic: bound by <b>%s</b>",
                    r->memory_bound ? "memory" : "arithmetic");
    }
    if (launch->predicted > 0) {
        text_add(out, "<tr><td>the model expects<td>");
        expected_words(out, launch);
    }
    text_add(out, "</table>\n");
    const char *unit = product_words(report, launch), *tiles = product_tiles_words(report, launch);
    text_printf(out, *unit ? "<p>Products: %s.</p>\n" : "", unit);
    text_printf(out, *tiles ? "<p>%s.</p>\n" : "", tiles);
}

static void notes(const LaunchReport *launch, Text *out)
{
    if (!launch->notes.n) {
        return;
    }
    text_add(out, "<h3>What may take less time</h3><ul>");
    for (size_t i = 0; i < launch->notes.n; i++) {
        text_add(out, "\n<li>");
        html_words(out, launch->notes.items[i].text);
    }
    text_add(out, "</ul>\n");
}

/* What to try next: each with the time that the model expects without and with it. */
static void hints(const Report *report, Text *out)
{
    if (!report->hints.n) {
        return;
    }
    text_add(out, "<h2 id=hints>What to try next</h2>\n<div class=wide "
                  "tabindex=0><table class=lines><tr><th>write<th class=n>expected now<th class=n>"
                  "with it<th class=n>less by");
    for (size_t i = 0; i < report->hints.n; i++) {
        const Hint *hint = &report->hints.items[i];
        text_add(out, "\n<tr><td><code>");
        html_words(out, hint->line);
        text_add(out, "</code><td class=n>");
        seconds_words(out, hint->before);
        text_add(out, "<td class=n>");
        seconds_words(out, hint->after);
        text_printf(out, "<td class=n>%.0f %%", 100 * hint_gain(hint));
    }
    text_add(out, "</table></div>\n");
}

static void body(const Report *report, Text *out)
{
    head(report, out);
    if (report->other) {
        html_compare(report, report->other, out);
    }
    for (int i = 0; i < report->n_launches; i++) {
        /* Each launch has a section of its own. */
        const LaunchReport *launch = &report->launches[i];
        text_printf(out, "<h2 id=launch%d>%s</h2>\n", i, launch->plan->symbol);
        /* The first paragraph gives the grid, the tile and the resources of the launch. */
        text_add(out, "<p>");
        shape_words(report, launch, out);
        if (*launch->tiles) {
            text_printf(out, "; each block takes%s <b>",
                        launch->plan->persistent ? ", one after the other, tiles of" : "");
            html_words(out, launch->tiles);
            text_add(out, "</b>");
        }
        text_printf(out, launch->shared_bytes ? "; %d bytes of shared memory a block." : ".",
                    launch->shared_bytes);
        if (*launch->why) {
            text_add(out, " It is a launch of its own: ");
            html_words(out, launch->why);
            text_char(out, '.');
        }
        const char *trace = course_words(report, launch);
        if (*trace) {
            text_add(out, " <span class=warn>");
            html_words(out, trace);
            text_add(out, ".</span>");
        }
        const char *sampled = sample_words(launch);
        text_printf(out, *sampled ? " <span class=warn>%s.</span>" : "", sampled);
        text_add(out, "</p>\n");
        cost(report, launch, out);
        html_course(report, launch, out);
        notes(launch, out);
        accesses(report, launch, out);
        occupancy(report, launch, out);
        html_order(report, launch, "", out);
        html_timeline(report, launch, "", out);
        /* The pictures show the shared memory, the bank conflicts and the layouts. */
        enum { MAX_TILES = 6, MAX_BANKS = 16 };
        int n = 0;
        if (launch->buffers.n) {
            text_add(out, "<h3>Shared memory</h3>\n");
            html_buffers(launch, out);
        }
        for (size_t k = 0; k < launch->accesses.n && n < MAX_BANKS; k++) {
            if (traffic_is_shared(launch->accesses.items[k].kind)) {
                html_banks(&launch->accesses.items[k], out);
                n++;
            }
        }
        for (size_t k = 0; k < launch->layouts_used.n && k < MAX_TILES; k++) {
            html_tile(report, &launch->layouts_used.items[k], out);
        }
    }
    hints(report, out);
    text_add(out, "<h2 id=roofline>Roofline</h2>\n<p>What the part can do at most, by how many "
                  "operations a byte of memory feeds: on the slope memory is the bound, on a roof "
                  "the units are. A ring is where a launch would be if nothing else held it up, "
                  "and the dot below where the model expects it.");
    text_add(out, report->other ? " Squares are of the other schedule.</p>\n" : "</p>\n");
    html_roofline(report, out);
    schedule(report, out);
    html_code(report, out);
    html_terms(out);
    text_add(out, "</main>\n");
}

/* The page up to a mark; returns what follows it. */
static const char *copy_until(const char *page, const char *mark, Text *out)
{
    const char *at = strstr(page, mark);
    text_add_n(out, page, (size_t)(at - page));
    return at + strlen(mark);
}

void report_html(const Report *report, Text *out)
{
    const char *rest = copy_until(explain_page, "<!--title-->", out);
    text_printf(out, "%s on %s", report->input->func->name, report->target->name);
    rest = copy_until(rest, "<!--body-->", out);
    body(report, out);
    text_add(out, rest);
}
