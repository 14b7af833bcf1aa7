/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as one self-contained HTML page, with pictures as SVG and a small script. */
#include "tune/report/tune_report.h"

#include <math.h>
#include <string.h>

enum { PLOT_WIDTH = 460, PLOT_HEIGHT = 320, MARGIN = 76, MAX_ROWS = 400 };

static void put_escaped(Text *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': text_add(out, "&lt;"); break;
        case '>': text_add(out, "&gt;"); break;
        case '&': text_add(out, "&amp;"); break;
        case '"': text_add(out, "&quot;"); break;
        default: text_char(out, *text);
        }
    }
}

static void put_name(Arena *arena, const TuningCase *group, Text *out)
{
    Text name = text_new(arena);
    tune_group_name(group, &name);
    put_escaped(out, name.data);
}

/* ---- best against derived ---- */

static void put_bar(Arena *arena, const char *what, const TuneRecord *record, double most,
                    Text *out)
{
    text_printf(out, "<tr><td>%s<td class=n>", what);
    if (!record) {
        text_add(out, "-<td><td>not measured");
        return;
    }
    tune_time(record->median, out);
    double low = record->low > 0 ? record->low : record->median;
    double high = record->high > 0 ? record->high : record->median;
    text_printf(out,
                "<td><svg width=300 height=16><rect class=bar width=%.1f height=16></rect>"
                "<line class=interval x1=%.1f x2=%.1f y1=8 y2=8></line></svg><td><code>",
                290 * record->median / most, 290 * low / most, 290 * high / most);
    put_escaped(out, tune_lines(arena, record));
    text_add(out, "</code>");
}

static void put_verdict(Arena *arena, const Report *report, Text *out)
{
    const TuningCase *group = report->group;
    const TuneRecord *slower = group->derived ? group->derived : group->best;
    double most = slower ? fmax(slower->median, slower->high > 0 ? slower->high : 0) : 0;
    if (!slower || !group->best) {
        text_add(out, "<p class=bad>Nothing was measured.\n");
        return;
    }
    if (!group->derived) {
        text_add(out, "<p class=warn>What is derived was not measured.\n");
    } else if (tune_group_wins(group)) {
        text_printf(out, "<p class=good>The best is %.3f times as fast as what is derived.\n",
                    group->best->ratio);
    } else if (tune_group_open(group)) {
        text_add(out, "<p class=warn>Nothing is decided: no sweep got to its last measurement.\n");
    } else {
        text_add(out, "<p>Nothing is faster than what is derived beyond doubt: it stays.\n");
    }
    text_add(out, "<table class=bars>\n");
    put_bar(arena, "derived", group->derived, most, out);
    put_bar(arena, "best", group->best, most, out);
    double roof = group->best->roof;
    if (roof > 0) {
        text_add(out, "<tr><td>roofline<td class=n>");
        tune_time(roof, out);
        text_printf(out,
                    "<td><svg width=300 height=16><rect class=roof width=%.1f height=16></rect>"
                    "</svg><td><small>the least that bandwidth and arithmetic allow</small>",
                    290 * roof / most);
    }
    text_add(out, "</table>\n");
}

/* ---- the space ---- */

static void put_value(const ReportValue *value, double best, double most, Text *out)
{
    text_add(out, "<tr><td><td class=n>");
    put_escaped(out, value->value);
    text_printf(out, "<td class=n>%zu<td class=n>%zu<td class=n>", value->n, value->tried);
    if (value->n == 0) {
        text_add(out, "-<td class=n>-<td>");
        return;
    }
    tune_time(value->best, out);
    text_add(out, "<td class=n>");
    tune_time(value->middle, out);
    text_printf(out,
                "<td><svg width=220 height=12><rect class=soft width=%.1f height=12></rect>"
                "<rect class=bar width=%.1f height=12></rect></svg>",
                210 * value->middle / most, 210 * value->best / most);
    text_add(out, value->best <= best ? " <span class=good>the fastest</span>" : "");
}

static void put_line(const ReportLine *line, double best, Text *out)
{
    double most = 0;
    for (size_t i = 0; i < line->values.n; i++) {
        most = line->values.items[i].n ? fmax(most, line->values.items[i].middle) : most;
    }
    text_add(out, "<tr class=head><th>");
    put_escaped(out, line->line);
    text_printf(out, "<td colspan=5>%.0f %% of the variance; %.2fx between its values<td>",
                100 * line->share, line->spread);
    text_printf(out, "<svg width=220 height=8><rect class=share width=%.1f height=8></rect></svg>",
                210 * line->share);
    for (size_t i = 0; i < line->values.n; i++) {
        put_value(&line->values.items[i], best, most, out);
    }
}

static void put_space(const Report *report, Text *out)
{
    double best = report->group->best ? report->group->best->median : 0;
    if (report->lines.n == 0) {
        text_add(out, "<p>No lines were tried.\n");
        return;
    }
    text_add(out,
             "<p>What mattered most comes first: the share of the variance of log(time) that a "
             "line's value explains by itself. Dark: the fastest candidate with the value; "
             "light: the median of them.\n<div class=wide><table class=space>"
             "<tr><th>line<th class=n>value<th class=n>measured<th class=n>tried"
             "<th class=n>best<th class=n>median<th>\n");
    for (size_t i = 0; i < report->lines.n; i++) {
        put_line(&report->lines.items[i], best, out);
    }
    text_add(out, "</table></div>\n");
}

/* ---- model against measurement ---- */

typedef struct Range {
    double least, most; /* logarithms */
} Range;

static void widen(Range *range, double value)
{
    range->least = fmin(range->least, log(value));
    range->most = fmax(range->most, log(value));
}

static double place(const Range *range, double value, double pixels)
{
    double width = range->most - range->least;
    return width > 0 ? (log(value) - range->least) / width * pixels : pixels / 2;
}

static bool has_both(const TuneRecord *record)
{
    return record->status == TUNE_OK && record->predicted > 0 && record->median > 0;
}

static void put_point(Arena *arena, const TuneRecord *record, const char *class, const Range *x,
                      const Range *y, Text *out)
{
    text_printf(out, "<circle class=%s r=%s cx=%.1f cy=%.1f><title>", class,
                text_equal(class, "point") ? "3" : "5",
                MARGIN + place(x, record->predicted, PLOT_WIDTH - MARGIN - 10),
                PLOT_HEIGHT - MARGIN - place(y, record->median, PLOT_HEIGHT - MARGIN - 10));
    put_escaped(out, tune_lines(arena, record));
    text_add(out, ": predicted ");
    tune_time(record->predicted, out);
    text_add(out, ", measured ");
    tune_time(record->median, out);
    text_add(out, "</title></circle>\n");
}

static void put_axis(const Range *range, bool across, Text *out)
{
    for (int i = 0; i <= 2; i++) {
        double value = exp(range->least + (range->most - range->least) * i / 2);
        if (across) {
            text_printf(out, "<text x=%d y=%d text-anchor=%s>",
                        MARGIN + (PLOT_WIDTH - MARGIN - 10) * i / 2, PLOT_HEIGHT - MARGIN + 16,
                        i == 0   ? "start"
                        : i == 1 ? "middle"
                                 : "end");
        } else {
            text_printf(out, "<text x=%d y=%d text-anchor=end>", MARGIN - 4,
                        PLOT_HEIGHT - MARGIN - (PLOT_HEIGHT - MARGIN - 10) * i / 2 + 4);
        }
        tune_time(value, out);
        text_add(out, "</text>\n");
    }
}

static void put_plot(Arena *arena, const TuningCase *group, Text *out)
{
    Range x = {(double)INFINITY, -(double)INFINITY}, y = x;
    for (size_t i = 0; i < group->n; i++) {
        if (has_both(&group->records[i])) {
            widen(&x, group->records[i].predicted);
            widen(&y, group->records[i].median);
        }
    }
    text_printf(out,
                "<svg class=plot width=%d height=%d viewBox=\"0 0 %d %d\" role=img "
                "aria-label=\"predicted and measured times\">\n"
                "<path class=axis d=\"M%d 4V%dH%d\"></path>\n",
                PLOT_WIDTH, PLOT_HEIGHT, PLOT_WIDTH, PLOT_HEIGHT, MARGIN, PLOT_HEIGHT - MARGIN,
                PLOT_WIDTH - 4);
    put_axis(&x, true, out);
    put_axis(&y, false, out);
    text_printf(out, "<text x=%d y=%d text-anchor=middle>predicted</text>\n", PLOT_WIDTH / 2,
                PLOT_HEIGHT - 10);
    text_printf(out,
                "<text x=12 y=%d text-anchor=middle transform=\"rotate(-90 12 %d)\">measured"
                "</text>\n",
                PLOT_HEIGHT / 2, PLOT_HEIGHT / 2);
    for (size_t i = 0; i < group->n; i++) {
        const TuneRecord *record = &group->records[i];
        if (has_both(record) && record != group->best && record != group->derived) {
            put_point(arena, record, "point", &x, &y, out);
        }
    }
    if (group->derived && has_both(group->derived)) {
        put_point(arena, group->derived, "derived", &x, &y, out);
    }
    if (group->best && has_both(group->best)) {
        put_point(arena, group->best, "best", &x, &y, out);
    }
    text_add(out, "</svg>\n");
}

static void put_model(Arena *arena, const Report *report, Text *out)
{
    const ReportRanks *ranks = &report->ranks;
    if (ranks->n < 3) {
        text_add(out, "<p>Too few candidates to rank.\n");
        return;
    }
    text_printf(out,
                "<p>Of %zu candidates: Spearman %.3f, Kendall %.3f. The fastest is the model's "
                "number %zu; the model's first is %.3f times as slow as the fastest.\n",
                ranks->n, ranks->spearman, ranks->kendall, ranks->place, ranks->first);
    put_plot(arena, report->group, out);
    text_add(out, "<p><small>Both axes are logarithmic; green: the best, orange: what is derived."
                  "</small>\n");
}

/* ---- failures, candidates ---- */

static void put_failures(const Report *report, Text *out)
{
    if (report->reasons.n == 0) {
        text_add(out, "<p>None.\n");
        return;
    }
    text_add(out, "<div class=wide><table><tr><th class=n>candidates<th>what<th>reason\n");
    for (size_t i = 0; i < report->reasons.n; i++) {
        const ReportReason *reason = &report->reasons.items[i];
        text_printf(out, "<tr><td class=n>%zu<td>%s<td>", reason->n,
                    tune_status_name(reason->status));
        put_escaped(out, reason->message);
        text_char(out, '\n');
    }
    text_add(out, "</table></div>\n");
}

static void put_candidates(Arena *arena, const TuningCase *group, Text *out)
{
    size_t shown = group->n < MAX_ROWS ? group->n : MAX_ROWS;
    text_printf(out,
                "<details class=all><summary>%zu candidates%s</summary><div class=wide><table>"
                "<tr><th class=n>median<th class=n>interval<th class=n>times<th class=n>predicted"
                "<th>lines\n",
                group->n, shown < group->n ? ", the fastest of them" : "");
    for (size_t i = 0; i < shown; i++) {
        const TuneRecord *record = &group->records[i];
        text_add(out, "<tr><td class=n>");
        if (record->status == TUNE_OK) {
            tune_time(record->median, out);
        } else {
            text_add(out, tune_status_name(record->status));
        }
        text_add(out, "<td class=n>");
        tune_time(record->low, out);
        text_add(out, " - ");
        tune_time(record->high, out);
        text_printf(out, "<td class=n>%lld<td class=n>", (long long)record->count);
        tune_time(record->predicted, out);
        text_add(out, "<td><code>");
        put_escaped(out, tune_lines(arena, record));
        text_add(out, "</code>\n");
    }
    text_add(out, "</table></div></details>\n");
}

static void put_report(Arena *arena, const Report *report, size_t nth, Text *out)
{
    text_printf(out, "<section id=s%zu>\n<h2>", nth);
    put_name(arena, report->group, out);
    text_printf(out, "</h2>\n<p class=soft>%zu candidates, %zu measured; tessera ",
                report->group->n, report->group->counts[TUNE_OK]);
    put_escaped(out, report->group->records->version);
    text_add(out, "\n");
    put_verdict(arena, report, out);
    text_add(out, "<h3>The space: which line mattered</h3>\n");
    put_space(report, out);
    text_add(out, "<h3>The model against the measurement</h3>\n");
    put_model(arena, report, out);
    text_add(out, "<h3>Failures</h3>\n");
    put_failures(report, out);
    put_candidates(arena, report->group, out);
    text_add(out, "</section>\n");
}

void tune_report_html(Arena *arena, const Report *reports, size_t n, Text *out)
{
    static const char place_of_body[] = "<!--body-->";
    const char *body = strstr(tune_report_page, place_of_body);
    text_add_n(out, tune_report_page, (size_t)(body - tune_report_page));
    text_add(out, "<h1>What tuning came to</h1>\n<nav>\n");
    for (size_t i = 0; i < n; i++) {
        text_printf(out, "<a href=\"#s%zu\">", i);
        put_name(arena, reports[i].group, out);
        text_add(out, "</a>\n");
    }
    text_add(out, "</nav>\n");
    for (size_t i = 0; i < n; i++) {
        put_report(arena, &reports[i], i, out);
    }
    text_add(out, body + strlen(place_of_body));
}
