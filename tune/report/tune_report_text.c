/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as text for a terminal and as JSON for programs. */
#include "tune/report/tune_report.h"

#include <math.h>
#include <string.h>

enum { MAX_REASONS = 12 };

static void put_record(Arena *arena, const char *what, const TuneRecord *record, Text *out)
{
    text_printf(out, "  %-8s ", what);
    if (!record) {
        text_add(out, "was not measured\n");
        return;
    }
    tune_time(record->median, out);
    text_add(out, " [");
    tune_time(record->low, out);
    text_add(out, ", ");
    tune_time(record->high, out);
    text_printf(out, "] x%lld", (long long)record->count);
    if (record->roof > 0 && record->median > 0) {
        text_printf(out, ", %.0f %% of the roofline", 100 * record->roof / record->median);
    }
    text_printf(out, ": %s\n", tune_lines(arena, record));
}

static void put_verdict(const TuningCase *group, Text *out)
{
    if (!group->best || !group->derived) {
        return;
    }
    if (tune_group_wins(group)) {
        const TuneRecord *best = group->best;
        text_printf(out, "  the best is %.3f times as fast as what is derived [%.3f, %.3f]\n",
                    best->ratio, best->ratio_low, best->ratio_high);
    } else if (tune_group_open(group)) {
        text_add(out, "  nothing is decided: no sweep got to its last measurement\n");
    } else {
        text_add(out, "  nothing is faster than what is derived beyond doubt\n");
    }
}

static void put_line(const ReportLine *line, Text *out)
{
    text_printf(out, "    %-18s %3.0f %% of the variance, %.2fx between its values:", line->line,
                100 * line->share, line->spread);
    for (size_t i = 0; i < line->values.n; i++) {
        const ReportValue *value = &line->values.items[i];
        text_printf(out, "%s %s ", i ? "," : "", value->value);
        if (value->n > 0) {
            tune_time(value->best, out);
        } else {
            text_add(out, "never");
        }
        text_printf(out, " (%zu of %zu)", value->n, value->tried);
    }
    text_char(out, '\n');
}

static void put_ranks(const ReportRanks *ranks, Text *out)
{
    if (ranks->n < 3) {
        text_add(out, "  the model: too few candidates to rank\n");
        return;
    }
    text_printf(
        out,
        "  the model ranked %zu candidates: Spearman %.3f, Kendall %.3f; the fastest is its "
        "number %zu; its first is %.3f times as slow as the fastest\n",
        ranks->n, ranks->spearman, ranks->kendall, ranks->place, ranks->first);
}

void tune_report_text(Arena *arena, const Report *report, Text *out)
{
    const TuningCase *group = report->group;
    tune_group_name(group, out);
    text_printf(out, "\n  %zu candidates, %zu measured; tessera %s\n", group->n,
                group->counts[TUNE_OK], group->records->version);
    put_record(arena, "derived", group->derived, out);
    put_record(arena, "best", group->best, out);
    put_verdict(group, out);
    if (report->lines.n > 0) {
        text_add(out, "  lines, what mattered most first (best time; measured of tried):\n");
    }
    for (size_t i = 0; i < report->lines.n; i++) {
        put_line(&report->lines.items[i], out);
    }
    put_ranks(&report->ranks, out);
    for (size_t i = 0; i < report->reasons.n && i < MAX_REASONS; i++) {
        const ReportReason *reason = &report->reasons.items[i];
        text_printf(out, "  %zu %s%s%s\n", reason->n, tune_status_name(reason->status),
                    *reason->message ? ": " : "", reason->message);
    }
    if (report->reasons.n > MAX_REASONS) {
        text_printf(out, "  and %zu other reasons\n", report->reasons.n - MAX_REASONS);
    }
}

/* ---- JSON ---- */

static void put_string(Text *out, const char *name, const char *text)
{
    text_printf(out, "\"%s\": ", name);
    text_json(out, text, strlen(text));
}

static void put_number(Text *out, const char *name, double number)
{
    text_printf(out, ", \"%s\": ", name);
    if (isfinite(number)) {
        text_double(out, number);
    } else {
        text_add(out, "null");
    }
}

static void json_record(const char *name, const TuneRecord *record, Text *out)
{
    text_printf(out, ", \"%s\": ", name);
    if (!record) {
        text_add(out, "null");
        return;
    }
    text_char(out, '{');
    put_string(out, "candidate", record->candidate);
    put_number(out, "median_s", record->median);
    put_number(out, "low_s", record->low);
    put_number(out, "high_s", record->high);
    put_number(out, "count", (double)record->count);
    put_number(out, "predicted_s", record->predicted);
    put_number(out, "roof_s", record->roof);
    put_number(out, "ratio", tune_ratio(record));
    put_number(out, "ratio_low", record->ratio_low);
    put_number(out, "ratio_high", record->ratio_high);
    text_char(out, '}');
}

static void json_line(const ReportLine *line, Text *out)
{
    text_char(out, '{');
    put_string(out, "line", line->line);
    put_number(out, "share", line->share);
    put_number(out, "spread", line->spread);
    text_add(out, ", \"values\": [");
    for (size_t i = 0; i < line->values.n; i++) {
        const ReportValue *value = &line->values.items[i];
        text_add(out, i ? ", {" : "{");
        put_string(out, "value", value->value);
        put_number(out, "tried", (double)value->tried);
        put_number(out, "measured", (double)value->n);
        put_number(out, "best_s", value->best);
        put_number(out, "median_s", value->middle);
        text_char(out, '}');
    }
    text_add(out, "]}");
}

void tune_report_json(const Report *report, Text *out)
{
    const TuneRecord *of = report->group->records;
    text_char(out, '{');
    put_string(out, "kernel", of->kernel);
    const char *names[] = {"types", "sizes", "bucket", "device", "arch", "version", "digest"};
    const char *texts[] = {of->types, of->sizes,   of->bucket, of->device,
                           of->arch,  of->version, of->digest};
    for (int i = 0; i < 7; i++) {
        text_add(out, ", ");
        put_string(out, names[i], texts[i]);
    }
    put_number(out, "candidates", (double)report->group->n);
    text_add(out, ", \"statuses\": {");
    for (int i = 0; i < TUNE_STATUSES; i++) {
        text_printf(out, "%s\"%s\": %zu", i ? ", " : "", tune_status_name((TuneStatus)i),
                    report->group->counts[i]);
    }
    text_char(out, '}');
    json_record("derived", report->group->derived, out);
    json_record("best", report->group->best, out);
    text_printf(out, ", \"separated\": %s, \"decided\": %s",
                tune_group_wins(report->group) ? "true" : "false",
                tune_group_open(report->group) ? "false" : "true");
    text_add(out, ", \"lines\": [");
    for (size_t i = 0; i < report->lines.n; i++) {
        text_add(out, i ? ", " : "");
        json_line(&report->lines.items[i], out);
    }
    text_printf(out, "], \"model\": {\"ranked\": %zu", report->ranks.n);
    put_number(out, "spearman", report->ranks.spearman);
    put_number(out, "kendall", report->ranks.kendall);
    put_number(out, "place_of_fastest",
               report->ranks.n < 3 ? (double)NAN : (double)report->ranks.place);
    put_number(out, "first_over_fastest", report->ranks.first);
    text_add(out, "}, \"failures\": [");
    for (size_t i = 0; i < report->reasons.n; i++) {
        text_add(out, i ? ", {" : "{");
        put_string(out, "status", tune_status_name(report->reasons.items[i].status));
        text_add(out, ", ");
        put_string(out, "message", report->reasons.items[i].message);
        put_number(out, "n", (double)report->reasons.items[i].n);
        text_char(out, '}');
    }
    text_add(out, "]}");
}
