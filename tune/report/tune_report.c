/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the report of a tuning case: which schedule entries changed the time, how well the cost
 * model ranked the candidates, and why candidates failed. */
#include "tune/report/tune_report.h"

#include "ir/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 64 };

/* ---- lines of a candidate ---- */

typedef struct Setting {
    const char *line, *value;
} Setting;

static const char *next_word(Arena *arena, const char **at)
{
    *at += strspn(*at, " \t,");
    size_t n = strcspn(*at, " \t,\n;");
    const char *word = n ? arena_strndup(arena, *at, n) : NULL;
    *at += n;
    return word;
}

/* Reads a key: the three words of "launch 1: tile" are one key. */
static const char *next_key(Arena *arena, const char **at, const ScheduleKey **kind)
{
    const char *key = next_word(arena, at);
    *kind = key ? schedule_key(key) : NULL;
    if (key && strcmp(key, "launch") == 0) {
        const char *number = next_word(arena, at), *rest = next_word(arena, at);
        *kind = rest ? schedule_key(rest) : NULL;
        key = rest ? arena_printf(arena, "launch %s %s", number, rest) : NULL;
    }
    return key;
}

/* Splits a candidate into settings: "tile M 128, N 256" is two. */
static size_t settings_of(Arena *arena, const char *candidate, Setting settings[MAX_LINES])
{
    size_t n = 0;
    while (*candidate) {
        const ScheduleKey *kind;
        const char *key = next_key(arena, &candidate, &kind), *word;
        while (kind && n < MAX_LINES && (word = next_word(arena, &candidate))) {
            bool number = word[strspn(word, "0123456789")] == '\0';
            bool bare =
                schedule_lists(kind->subs, "-") &&
                (number ? schedule_lists(kind->values, "int") : schedule_lists(kind->values, word));
            const char *value = bare ? word : next_word(arena, &candidate);
            settings[n].line = bare ? key : arena_printf(arena, "%s %s", key, word);
            settings[n++].value = value ? value : "-";
        }
        candidate += strcspn(candidate, "\n;");
        candidate += strspn(candidate, "\n; ");
    }
    return n;
}

/* ---- the space ---- */

static ReportLine *line_named(Arena *arena, Report *report, const char *name)
{
    for (size_t i = 0; i < report->lines.n; i++) {
        if (text_equal(report->lines.items[i].line, name)) {
            return &report->lines.items[i];
        }
    }
    ARENA_PUSH(arena, &report->lines, (ReportLine){.line = name});
    return &report->lines.items[report->lines.n - 1];
}

static const char *value_of(const Setting *settings, size_t n, const char *line)
{
    for (size_t i = 0; i < n; i++) {
        if (text_equal(settings[i].line, line)) {
            return settings[i].value;
        }
    }
    return "-";
}

static ReportValue *value_named(Arena *arena, ReportLine *line, const char *value)
{
    for (size_t i = 0; i < line->values.n; i++) {
        if (text_equal(line->values.items[i].value, value)) {
            return &line->values.items[i];
        }
    }
    ARENA_PUSH(arena, &line->values,
               ((ReportValue){.value = value, .best = (double)NAN, .middle = (double)NAN}));
    return &line->values.items[line->values.n - 1];
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int compare_values(const void *left, const void *right)
{
    const ReportValue *a = left, *b = right;
    char *end, *stop;
    double x = strtod(a->value, &end), y = strtod(b->value, &stop);
    bool numbers = end != a->value && stop != b->value;
    return numbers ? (x < y ? -1 : x > y) : strcmp(a->value, b->value);
}

/* Candidates, each with its value of one schedule entry. */
typedef struct Column {
    const char **values;
    size_t n;
} Column;

static void fill_value(Arena *arena, const TuningCase *group, const Column *column,
                       ReportValue *value)
{
    double *times = ARENA_ARRAY(arena, double, group->n + 1);
    for (size_t i = 0; i < group->n; i++) {
        if (text_equal(column->values[i], value->value)) {
            value->tried++;
            if (group->records[i].status == TUNE_OK) {
                times[value->n++] = group->records[i].median;
            }
        }
    }
    if (value->n > 0) {
        /* Sets the median and the least time of the candidates. */
        size_t n = value->n;
        qsort(times, n, sizeof *times, compare_doubles);
        value->middle = n % 2 ? times[n / 2] : 0.5 * (times[n / 2 - 1] + times[n / 2]);
        value->best = times[0];
    }
}

/* The share of the variance that lies between the means of the values. */
static double explained(const TuningCase *group, const Column *column, const ReportLine *line)
{
    double sum = 0, all = 0, between = 0;
    size_t n = 0;
    for (size_t i = 0; i < group->n; i++) {
        if (group->records[i].status == TUNE_OK) {
            sum += log(group->records[i].median);
            n++;
        }
    }
    double mean = n ? sum / (double)n : 0;
    for (size_t v = 0; v < line->values.n; v++) {
        const ReportValue *value = &line->values.items[v];
        double part = 0;
        for (size_t i = 0; i < group->n; i++) {
            const TuneRecord *record = &group->records[i];
            if (record->status == TUNE_OK && text_equal(column->values[i], value->value)) {
                double deviation = log(record->median) - mean;
                part += deviation;
                all += deviation * deviation;
            }
        }
        between += value->n ? part * part / (double)value->n : 0;
    }
    return all > 0 ? between / all : 0;
}

static int compare_lines(const void *left, const void *right)
{
    const ReportLine *a = left, *b = right;
    return a->share > b->share ? -1 : a->share < b->share ? 1 : strcmp(a->line, b->line);
}

static void fill_space(Arena *arena, const TuningCase *group, Report *report)
{
    Setting(*settings)[MAX_LINES] = arena_alloc(arena, group->n * sizeof *settings);
    size_t *n = ARENA_ARRAY(arena, size_t, group->n);
    for (size_t i = 0; i < group->n; i++) {
        n[i] = settings_of(arena, group->records[i].candidate, settings[i]);
        for (size_t k = 0; k < n[i]; k++) {
            line_named(arena, report, settings[i][k].line);
        }
    }
    Column column = {ARENA_ARRAY(arena, const char *, group->n), group->n};
    for (size_t l = 0; l < report->lines.n; l++) {
        for (size_t i = 0; i < group->n; i++) {
            column.values[i] = value_of(settings[i], n[i], report->lines.items[l].line);
        }
        ReportLine *line = &report->lines.items[l];
        double least = (double)INFINITY, most = 0;
        for (size_t i = 0; i < group->n; i++) {
            value_named(arena, line, column.values[i]);
        }
        for (size_t i = 0; i < line->values.n; i++) {
            ReportValue *value = &line->values.items[i];
            fill_value(arena, group, &column, value);
            least = value->n && value->middle < least ? value->middle : least;
            most = value->n && value->middle > most ? value->middle : most;
        }
        qsort(line->values.items, line->values.n, sizeof *line->values.items, compare_values);
        line->share = explained(group, &column, line);
        line->spread = most > 0 ? most / least : 1;
    }
    if (report->lines.n > 0) {
        qsort(report->lines.items, report->lines.n, sizeof *report->lines.items, compare_lines);
    }
}

/* ---- the model ---- */

typedef struct Pair {
    double predicted, measured, rank_predicted, rank_measured;
} Pair;

static int by_predicted(const void *a, const void *b)
{
    return compare_doubles(&((const Pair *)a)->predicted, &((const Pair *)b)->predicted);
}

static int by_measured(const void *a, const void *b)
{
    return compare_doubles(&((const Pair *)a)->measured, &((const Pair *)b)->measured);
}

static double *key_of(Pair *pair, bool predicted)
{
    return predicted ? &pair->predicted : &pair->measured;
}

/* Equal values share the mean of their ranks. */
static void give_ranks(Pair *pairs, size_t n, bool predicted)
{
    qsort(pairs, n, sizeof *pairs, predicted ? by_predicted : by_measured);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1;
             to < n && *key_of(&pairs[to], predicted) == *key_of(&pairs[from], predicted); to++) {}
        for (size_t i = from; i < to; i++) {
            double rank = 0.5 * (double)(from + to - 1);
            *(predicted ? &pairs[i].rank_predicted : &pairs[i].rank_measured) = rank;
        }
    }
}

static double spearman(const Pair *pairs, size_t n)
{
    double middle = 0.5 * (double)(n - 1), both = 0, left = 0, right = 0;
    for (size_t i = 0; i < n; i++) {
        double x = pairs[i].rank_predicted - middle, y = pairs[i].rank_measured - middle;
        both += x * y;
        left += x * x;
        right += y * y;
    }
    return left > 0 && right > 0 ? both / sqrt(left * right) : (double)NAN;
}

static int sign(double x)
{
    return (x > 0) - (x < 0);
}

/* Tau-b: pairs that tie on one side count for neither. */
static double kendall(const Pair *pairs, size_t n)
{
    double agree = 0, left = 0, right = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            int x = sign(pairs[i].predicted - pairs[k].predicted);
            int y = sign(pairs[i].measured - pairs[k].measured);
            agree += x * y;
            left += x != 0;
            right += y != 0;
        }
    }
    return left > 0 && right > 0 ? agree / sqrt(left * right) : (double)NAN;
}

static void fill_ranks(Arena *arena, const TuningCase *group, ReportRanks *ranks)
{
    Pair *pairs = ARENA_ARRAY(arena, Pair, group->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < group->n; i++) {
        const TuneRecord *record = &group->records[i];
        if (record->status == TUNE_OK && record->predicted > 0) {
            pairs[n++] = (Pair){.predicted = record->predicted, .measured = record->median};
        }
    }
    *ranks = (ReportRanks){
        .n = n, .spearman = (double)NAN, .kendall = (double)NAN, .first = (double)NAN};
    if (n < 3) {
        return;
    }
    give_ranks(pairs, n, true);
    double first = pairs[0].measured;
    give_ranks(pairs, n, false);
    ranks->spearman = spearman(pairs, n);
    ranks->kendall = kendall(pairs, n);
    ranks->place = (size_t)pairs[0].rank_predicted + 1;
    ranks->first = first / pairs[0].measured;
}

/* ---- failures ---- */

static int compare_reasons(const void *left, const void *right)
{
    const ReportReason *a = left, *b = right;
    if (a->n != b->n) {
        return a->n > b->n ? -1 : 1;
    }
    int order = (int)a->status - (int)b->status;
    return order ? order : strcmp(a->message, b->message);
}

void tune_report_make(Arena *arena, const TuningCase *group, Report *report)
{
    *report = (Report){.group = group};
    fill_space(arena, group, report);
    fill_ranks(arena, group, &report->ranks);
    for (size_t i = 0; i < group->n; i++) {
        const TuneRecord *record = &group->records[i];
        size_t at = 0;
        if (record->status == TUNE_OK) {
            continue;
        }
        while (at < report->reasons.n &&
               (report->reasons.items[at].status != record->status ||
                !text_equal(report->reasons.items[at].message, record->message))) {
            at++;
        }
        if (at == report->reasons.n) {
            ARENA_PUSH(arena, &report->reasons,
                       ((ReportReason){record->status, record->message, 0}));
        }
        report->reasons.items[at].n++;
    }
    if (report->reasons.n > 0) {
        qsort(report->reasons.items, report->reasons.n, sizeof *report->reasons.items,
              compare_reasons);
    }
}
