/* SPDX-License-Identifier: Apache-2.0 */
/* Groups records into tuning cases and finds the best and the derived schedule of each. It also
 * decides whether the difference between the two exceeds the uncertainty of the measurement. */
#include "tune/store/tuning_case.h"

#include <math.h>
#include <string.h>

static bool same_bucket(const TuneRecord *a, const TuneRecord *b)
{
    return text_equal(a->kernel, b->kernel) && text_equal(a->types, b->types) &&
           text_equal(a->digest, b->digest) && text_equal(a->device, b->device) &&
           text_equal(a->arch, b->arch) && text_equal(a->bucket, b->bucket) &&
           text_equal(a->version, b->version);
}

static bool same_group(const TuneRecord *a, const TuneRecord *b)
{
    return same_bucket(a, b) && text_equal(a->sizes, b->sizes);
}

double tune_ratio(const TuneRecord *record)
{
    return record->derived ? 1 : record->ratio > 0 ? record->ratio : (double)NAN;
}

static bool is_faster(const TuneRecord *record)
{
    return record->status == TUNE_OK && record->verdict == TUNE_FASTER && record->ratio > 0;
}

/* Chooses the best record. Medians may come from several sweeps, but a ratio comes from one. A
 * ratio whose confidence interval includes 1 ranks below a smaller ratio whose interval lies above
 * 1. */
static void choose_best(TuningCase *group)
{
    const TuneRecord *best = NULL;
    for (size_t i = 0; i < group->n; i++) {
        const TuneRecord *record = &group->records[i];
        bool good = record->status == TUNE_OK && !isnan(tune_ratio(record));
        bool better =
            good &&
            (!best || is_faster(record) > is_faster(best) ||
             (is_faster(record) == is_faster(best) && tune_ratio(record) > tune_ratio(best)));
        best = better ? record : best;
    }
    group->best = best ? best : group->best;
}

void tune_groups(Arena *arena, const TuneRecords *records, TuningCases *groups)
{
    *groups = (TuningCases){0};
    for (size_t i = 0; i < records->n; i++) {
        const TuneRecord *record = &records->items[i];
        if (i == 0 || !same_group(&records->items[i - 1], record)) {
            ARENA_PUSH(arena, groups, (TuningCase){.records = record});
        }
        TuningCase *group = &groups->items[groups->n - 1];
        group->n++;
        group->counts[record->status]++;
        if (record->status == TUNE_OK) {
            group->best = group->best ? group->best : record;
            group->derived = record->derived ? record : group->derived;
        }
    }
    for (size_t i = 0; i < groups->n; i++) {
        choose_best(&groups->items[i]);
    }
}

bool tune_group_wins(const TuningCase *group)
{
    return group->best && is_faster(group->best);
}

bool tune_group_open(const TuningCase *group)
{
    for (size_t i = 0; i < group->n; i++) {
        if (group->records[i].verdict != TUNE_OPEN) {
            return false;
        }
    }
    return true;
}

void tune_group_name(const TuningCase *group, Text *out)
{
    const TuneRecord *of = group->records;
    text_printf(out, "%s%s%s on %s (%s)%s%s", of->kernel, *of->types ? ", " : "", of->types,
                of->device, of->arch, *of->sizes ? ", " : "", of->sizes);
}

void tune_time(double seconds, Text *out)
{
    if (!(seconds >= 0) || isinf(seconds)) {
        text_char(out, '-');
    } else if (seconds < 1e-3) {
        text_printf(out, "%.4g us", seconds * 1e6);
    } else if (seconds < 1) {
        text_printf(out, "%.4g ms", seconds * 1e3);
    } else {
        text_printf(out, "%.4g s", seconds);
    }
}

const char *tune_lines(Arena *arena, const TuneRecord *record)
{
    Text text = text_new(arena);
    for (const char *at = record->candidate; *at; at++) {
        if (*at == '\n') {
            text_add(&text, at[1] ? "; " : "");
        } else {
            text_char(&text, *at);
        }
    }
    if (record->derived && text.n > 0) {
        text_add(&text, " (derived)");
    }
    return text.n ? text.data : "derived";
}

static const TuneRecord *find(const TuningCase *group, const char *candidate)
{
    for (size_t i = 0; i < group->n; i++) {
        if (text_equal(group->records[i].candidate, candidate)) {
            return &group->records[i];
        }
    }
    return NULL;
}

/* The speedup over the derived schedule, across all sizes; 0: not measured at all of them. `wins`:
 * at one size at least the speedup is significant. */
static double ratio_of(const TuningCase *groups, size_t n, const char *candidate, bool *wins)
{
    double sum = 0;
    *wins = false;
    for (size_t i = 0; i < n; i++) {
        const TuneRecord *record = find(&groups[i], candidate);
        if (!record || record->status != TUNE_OK || record->derived || !(record->ratio > 0) ||
            record->ratio_high < 1) {
            return 0;
        }
        *wins = *wins || is_faster(record);
        sum += log(record->ratio);
    }
    return exp(sum / (double)n);
}

TuneWinner tune_winner(const TuningCase *groups, size_t n)
{
    TuneWinner choice = {.groups = groups, .open = true};
    while (choice.n < n && same_bucket(groups[0].records, groups[choice.n].records)) {
        choice.open = choice.open && tune_group_open(&groups[choice.n]);
        choice.n++;
    }
    for (size_t i = 0; i < groups[0].n; i++) {
        bool wins;
        const char *candidate = groups[0].records[i].candidate;
        double ratio = ratio_of(groups, choice.n, candidate, &wins);
        if (wins && ratio > choice.ratio && *candidate) {
            choice.ratio = ratio;
            choice.candidate = candidate;
        }
    }
    return choice;
}
