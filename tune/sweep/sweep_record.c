/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the results of a sweep as soon as they are known, and reports them.
 *
 * The time of a candidate is stored as its ratio to the derived schedule in the same rounds, times
 * the time of the derived schedule, because a device that heats up, or another device of the same
 * kind, changes both. */
#include "tune/sweep/sweep_state.h"

#include "support/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_EXAMPLES = 32 };
static const double TELL = 0.2; /* seconds */

/* ---- records ---- */

/* True if the candidate is significantly faster than the derived one: by the intervals of both
 * times, and by that of their ratio. */
static bool is_faster(const Candidate *candidate, const Candidate *derived)
{
    return candidate->final && derived->final && candidate->share.high < 1 &&
           median_is_below(&candidate->time, &derived->time);
}

static TuneRecord record_of(const Sweep *s, const Candidate *candidate)
{
    double nothing = (double)NAN;
    TuneRecord record = *s->base;
    record.candidate = candidate->searched;
    record.status = candidate->status;
    record.derived = candidate == s->candidates.items;
    record.median = record.low = record.high = nothing;
    record.predicted = candidate->predicted > 0 ? candidate->predicted : nothing;
    record.roof = candidate->roof > 0 ? candidate->roof : nothing;
    record.ratio = record.ratio_low = record.ratio_high = nothing;
    record.verdict = TUNE_OPEN;
    record.when = (int64_t)time(NULL);
    record.message = candidate->message ? candidate->message : "";
    record.count = 0;
    if (candidate->status != TUNE_OK) {
        return record;
    }
    Median median = candidate->time;
    if (!candidate->final && !record.derived && candidate->n_ratios > 0) {
        double ratios[ROUNDS];
        memcpy(ratios, candidate->ratios, sizeof ratios);
        median = median_of(ratios, candidate->n_ratios);
        median.middle *= s->derived;
        median.low *= s->derived;
        median.high *= s->derived;
    }
    if (median.n > 0) {
        record.count = (int64_t)median.n;
        record.median = median.middle;
        record.low = median.low;
        record.high = median.high;
    }
    if (!record.derived) {
        const Candidate *derived = s->candidates.items;
        double ratios[ROUNDS];
        memcpy(ratios, candidate->ratios, sizeof ratios);
        Median share = candidate->final ? candidate->share : median_of(ratios, candidate->n_ratios);
        if (share.n > 0 && share.low > 0) {
            record.ratio = 1 / share.middle;
            record.ratio_low = 1 / share.high;
            record.ratio_high = 1 / share.low;
        }
        if (candidate->final) {
            record.verdict = is_faster(candidate, derived) ? TUNE_FASTER : TUNE_STAYS;
        }
    } else if (candidate->final) {
        record.verdict = TUNE_STAYS;
    }
    return record;
}

/* True if this sweep has a result of the candidate, a time or a failure, that is to be stored. */
static bool is_kept(const Sweep *s, size_t nth)
{
    const Candidate *candidate = &s->candidates.items[nth];
    if (nth == 0) {
        return candidate->time.n > 0;
    }
    bool measured = candidate->n_ratios > 0 || candidate->final;
    bool fails = candidate->status != TUNE_OK;
    return candidate->stage == CANDIDATE_DONE && *candidate->searched && (measured || fails);
}

static void keep(Sweep *s, const TuneRecord *records, size_t n)
{
    const char *why = NULL;
    if (s->store && n > 0 && !tune_store_insert(s->store, records, n, &why)) {
        s->result->unkept = arena_strdup(s->arena, why); /* the result is reported at least */
        s->store = NULL;
    }
}

void sweep_keep(Sweep *s, const size_t *candidates, size_t n)
{
    TuneRecord *records = ARENA_ARRAY(s->arena, TuneRecord, n + 1);
    size_t kept = 0;
    if (is_kept(s, 0)) {
        records[kept++] = record_of(s, &s->candidates.items[0]);
    }
    for (size_t i = 0; i < n; i++) {
        if (candidates[i] > 0 && is_kept(s, candidates[i])) {
            records[kept++] = record_of(s, &s->candidates.items[candidates[i]]);
        }
    }
    keep(s, records, kept);
}

/* A candidate that the cost model refused has only the entries that it was requested with. A few of
 * them are stored for each reason, as examples. */
static bool is_example(const Sweep *s, size_t nth, size_t *kept)
{
    const Candidate *candidate = &s->candidates.items[nth];
    return nth > 0 && candidate->stage == CANDIDATE_DONE && candidate->status != TUNE_OK &&
           !*candidate->searched && *candidate->asked && kept[candidate->status]++ < MAX_EXAMPLES;
}

static TuneRecord record_of_asked(const Sweep *s, const Candidate *candidate)
{
    TuneRecord record = record_of(s, candidate);
    char *lines = arena_strdup(s->arena, candidate->asked);
    for (char *at = lines; *at; at++) {
        *at = (char)(*at == ';' ? '\n' : *at);
    }
    record.candidate = lines;
    return record;
}

/* Stores all results again, with times by the last measurement of the derived one. */
void sweep_keep_all(Sweep *s)
{
    TuneRecord *records = ARENA_ARRAY(s->arena, TuneRecord, s->candidates.n);
    size_t n = 0, kept[TUNE_STATUSES] = {0};
    for (size_t i = 0; i < s->candidates.n; i++) {
        if (is_kept(s, i)) {
            records[n++] = record_of(s, &s->candidates.items[i]);
        } else if (is_example(s, i, kept)) {
            records[n++] = record_of_asked(s, &s->candidates.items[i]);
        }
    }
    keep(s, records, n);
}

/* ---- an earlier sweep's ---- */

static void take_earlier(Sweep *s, const TuneRecord *record)
{
    for (size_t i = 1; i < s->search.n; i++) {
        Candidate *candidate = &s->candidates.items[s->rows[i]];
        bool measured = record->status == TUNE_OK && record->ratio > 0;
        if (strcmp(candidate->searched, record->candidate) != 0 ||
            (record->status == TUNE_OK && !measured)) {
            continue;
        }
        candidate->stage = CANDIDATE_DONE;
        candidate->status = record->status;
        candidate->message = record->message;
        candidate->relative = measured ? 1 / record->ratio : (double)NAN;
        candidate->seconds = measured ? record->median : 0;
        candidate->earlier_count = 1;
        s->search.items[i].taken = true;
        return;
    }
}

void sweep_resume(Sweep *s)
{
    const TuneRecord *b = s->base;
    TuneFilter filter = {.kernel = b->kernel,
                         .digest = b->digest,
                         .types = b->types,
                         .bucket = b->bucket,
                         .sizes = b->sizes,
                         .device = b->device,
                         .arch = b->arch,
                         .version = b->version};
    TuneRecords records = {0};
    const char *why = NULL;
    if (!s->store || !tune_store_query(s->store, &filter, s->arena, &records, &why)) {
        s->result->unkept = arena_strdup(s->arena, why ? why : "--resume wants one");
        return;
    }
    for (size_t i = 0; i < records.n; i++) {
        take_earlier(s, &records.items[i]);
    }
}

/* ---- progress ---- */

/* The candidate with the least ratio to the derived one's time so far; NULL: none is faster than
 * the derived one. */
static const Candidate *best_so_far(const Sweep *s)
{
    const Candidate *best = NULL;
    for (size_t i = 1; i < s->candidates.n; i++) {
        const Candidate *candidate = &s->candidates.items[i];
        bool ok = candidate->stage == CANDIDATE_DONE && candidate->status == TUNE_OK;
        best = ok && candidate->relative < (best ? best->relative : 1) ? candidate : best;
    }
    return best;
}

/* Those of this sweep. */
static void count(const Sweep *s, size_t *done, size_t *measured, size_t *failed)
{
    for (size_t i = 0; i < s->search.n; i++) {
        const Candidate *candidate = &s->candidates.items[s->rows[i]];
        if (candidate->stage == CANDIDATE_DONE && candidate->earlier_count == 0) {
            ++*done;
            *measured += candidate->status == TUNE_OK;
        }
    }
    for (size_t i = 0; i < s->candidates.n; i++) {
        const Candidate *candidate = &s->candidates.items[i];
        if (candidate->stage == CANDIDATE_DONE && candidate->status != TUNE_OK &&
            candidate->earlier_count == 0) {
            failed[candidate->status]++;
        }
    }
}

double sweep_each_seconds(const Sweep *s)
{
    size_t done = 0, measured = 0, failed[TUNE_STATUSES] = {0};
    double busy = 0, devices = (double)s->n_devices;
    count(s, &done, &measured, failed);
    if (s->options->quiet_device) {
        /* If compiling and measuring alternate, wall-clock time counts; a compiled candidate is
         * half done. */
        double half = 0;
        for (size_t i = 0; i < s->search.n; i++) {
            half += s->candidates.items[s->rows[i]].stage == CANDIDATE_MADE;
        }
        double all = (double)done + half / 2;
        return all > 0 ? (clock_seconds() - s->searching_began) / all : 0;
    }
    for (size_t i = 0; i < s->n_devices; i++) {
        const double *parts = s->devices[i].parts;
        busy += parts[SWEEP_LOADS] + parts[SWEEP_COMPARES] + parts[SWEEP_TURNS];
    }
    double measures = done > 0 ? busy / (double)done / devices : 0;
    double makes =
        s->compiled > 0 ? s->compiling / (double)s->compiled / (double)s->n_compilers : 0;
    return measures > makes ? measures : makes;
}

/* Remaining seconds of the last measurement, extrapolated once some of it is done. */
static double last_left(const Sweep *s)
{
    static const double enough = 0.06; /* a round of fifteen */
    const Device *device = s->devices;
    double share = device->rounds > 0 ? (double)device->round / (double)device->rounds : 0;
    double gone = clock_seconds() - s->last_began;
    return share >= enough ? gone / share * (1 - share) : sweep_last_seconds(s);
}

/* Remaining seconds, by the finished candidates and by the budget. */
static double time_left(const Sweep *s, size_t done, size_t all)
{
    double left = -1, each = sweep_each_seconds(s);
    if (s->last_began > 0) {
        double last = last_left(s);
        return last > 0 ? last : 0;
    }
    if (done > 0 && s->measuring_began > 0) {
        left = (double)(all - done) * each + sweep_last_seconds(s);
    }
    double budget = s->options->budget - (clock_seconds() - s->began);
    if (s->options->budget > 0 && (left < 0 || left > budget)) {
        left = budget > 0 ? budget : 0;
    }
    return left;
}

void sweep_tell(Sweep *s, bool now)
{
    double time = clock_seconds();
    if (!s->options->progress || (!now && time - s->last_report < TELL)) {
        return;
    }
    size_t measured = 0;
    SweepProgress progress = {.doing = s->doing, .seconds = time - s->began, .left = -1};
    count(s, &progress.done, &measured, progress.failed);
    if (s->search.n > 0) {
        size_t free_ones = 0;
        for (size_t i = 1; i < s->search.n; i++) {
            free_ones += s->candidates.items[s->rows[i]].earlier_count == 0;
        }
        size_t most = s->options->candidates;
        progress.all = most && most < free_ones ? most : free_ones;
        progress.left = now ? 0 : time_left(s, progress.done, progress.all);
    } else {
        progress.done = s->to_weigh;
        progress.all = s->candidates.n;
    }
    /* Times of one set of rounds stay together: between different sets the device's speed changes,
     * too, which would enter the ratio. */
    const Candidate *best = best_so_far(s);
    progress.derived = s->derived_turns;
    progress.best = best ? best->seconds : s->derived_turns;
    progress.ratio = best ? 1 / best->relative : 1;
    progress.roof = s->candidates.n > 0 ? s->candidates.items[0].roof : 0;
    s->options->progress(s->options->user, &progress);
    s->last_report = time;
}

/* ---- what came of it ---- */

typedef struct Ranked {
    double predicted, measured;
    double rank[2];
} Ranked;

static int by_predicted(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static int by_measured(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    return (x->measured > y->measured) - (x->measured < y->measured);
}

/* Equal values share the mean of their ranks. */
static void set_ranks(Ranked *items, size_t n, int which, int (*by)(const void *, const void *))
{
    qsort(items, n, sizeof *items, by);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && by(&items[i], &items[end]) == 0) {
            end++;
        }
        for (size_t k = i; k < end; k++) {
            items[k].rank[which] = (double)(i + end - 1) / 2;
        }
        i = end;
    }
}

static double agreement(const Sweep *s)
{
    Ranked *items = ARENA_ARRAY(s->arena, Ranked, s->candidates.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s->candidates.n; i++) {
        const Candidate *c = &s->candidates.items[i];
        if (c->stage == CANDIDATE_DONE && c->status == TUNE_OK && c->relative > 0 &&
            c->predicted > 0) {
            items[n++] = (Ranked){.predicted = c->predicted, .measured = c->relative};
        }
    }
    set_ranks(items, n, 0, by_predicted);
    set_ranks(items, n, 1, by_measured);
    double mean = (double)(n > 0 ? n - 1 : 0) / 2, xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        double x = items[i].rank[0] - mean, y = items[i].rank[1] - mean;
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    return n > 2 && xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

/* For a sweep that was stopped: uses the rounds that were done. */
static void take_best_so_far(const Sweep *s, SweepResult *result)
{
    const Candidate *best = NULL;
    for (size_t i = 1; i < s->candidates.n; i++) {
        const Candidate *at = &s->candidates.items[i];
        bool ok = at->stage == CANDIDATE_DONE && at->status == TUNE_OK && at->n_ratios > 0;
        best = ok && (!best || at->relative < best->relative) ? at : best;
    }
    if (best) {
        TuneRecord record = record_of(s, best);
        double ratios[ROUNDS];
        memcpy(ratios, best->ratios, sizeof ratios);
        Median time = {record.median, record.low, record.high, best->n_ratios};
        result->best[result->n_best++] = (SweepWinner){.lines = best->searched,
                                                       .time = time,
                                                       .share = median_of(ratios, best->n_ratios),
                                                       .predicted = best->predicted,
                                                       .status = best->status};
    }
}

static int by_share(const void *a, const void *b)
{
    const SweepWinner *x = a, *y = b;
    return (x->share.middle > y->share.middle) - (x->share.middle < y->share.middle);
}

void sweep_result(Sweep *s)
{
    SweepResult *result = s->result;
    size_t done = 0;
    for (size_t i = 0; i < s->n_devices; i++) {
        device_does(&s->devices[i], SWEEP_WAITS);
        for (int part = 0; part < SWEEP_PARTS; part++) {
            s->result->parts[part] += s->devices[i].parts[part] / (double)s->n_devices;
        }
    }
    s->result->compiled = s->compiled;
    s->result->compiling = s->compiling;
    count(s, &done, &result->measured, result->failed);
    if (s->candidates.n == 0) {
        return;
    }
    const Candidate *derived = &s->candidates.items[0];
    result->derived = derived->time;
    result->derived_lines = derived->searched;
    result->roof = derived->roof;
    result->agreement = agreement(s);
    result->best = ARENA_ARRAY(s->arena, SweepWinner, FINALISTS + 1);
    for (size_t i = 1; i < s->candidates.n; i++) {
        const Candidate *candidate = &s->candidates.items[i];
        if (candidate->final && candidate->status == TUNE_OK && result->n_best < FINALISTS) {
            result->best[result->n_best++] = (SweepWinner){.lines = candidate->searched,
                                                           .time = candidate->time,
                                                           .share = candidate->share,
                                                           .predicted = candidate->predicted,
                                                           .status = candidate->status,
                                                           .faster = is_faster(candidate, derived)};
        }
    }
    if (result->n_best == 0) {
        take_best_so_far(s, result);
    }
    qsort(result->best, result->n_best, sizeof *result->best, by_share);
    /* The fastest candidate that is surely faster than the derived schedule precedes all
     * others. */
    for (size_t i = 0; i < result->n_best && !result->separated; i++) {
        if (result->best[i].faster) {
            SweepWinner winner = result->best[i];
            memmove(result->best + 1, result->best, i * sizeof winner);
            result->best[0] = winner;
            result->separated = true;
        }
    }
}
