/* SPDX-License-Identifier: Apache-2.0 */
/* The main loop of a sweep. The cost of all candidates is estimated; batches are chosen, compiled
 * while the previous batch is measured, and measured; the best eight are measured again together,
 * with pauses. Which candidates are chosen depends only on the measurements and the seed, not on
 * the speed of workers: a batch is chosen when measuring of the previous one begins, from the
 * results of all batches before that. */
#include "tune/sweep/sweep_state.h"

#include "support/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 16,
    FIRST_BATCH = 8 /* nothing is known yet */,
    MAX_WORKERS = 512,
    MIN_WEIGHED = 32
};
static const double BEAT = 0.1; /* seconds between looks at the clock */

void sweep_failed(Sweep *s, TesseraStatus status, const char *format, ...)
{
    if (s->failed) {
        return; /* the first one counts */
    }
    Text text = text_new(s->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    s->failed = true;
    s->status = status;
    s->why = text.data;
}

char *line_word(char **line)
{
    char *word = *line + strspn(*line, " ");
    char *end = word + strcspn(word, " ");
    *line = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

/* ---- workers' news ---- */

/* Waits for one event. False: the sweep is to stop. */
static bool step(Sweep *s)
{
    Worker *workers[MAX_WORKERS];
    size_t n = 0;
    for (size_t i = 0; i < s->n_compilers && n < MAX_WORKERS; i++) {
        workers[n++] = &s->compilers[i].worker;
    }
    for (size_t i = 0; i < s->n_devices && n < MAX_WORKERS; i++) {
        workers[n++] = &s->devices[i].worker;
    }
    compilers_feed(s);
    Event event = workers_wait(workers, n, clock_seconds() + BEAT);
    if (event.kind != EVENT_NONE) {
        bool is_compiler = event.worker < s->n_compilers;
        Compiler *compiler = is_compiler ? &s->compilers[event.worker] : NULL;
        Device *device = is_compiler ? NULL : &s->devices[event.worker - s->n_compilers];
        bool bounds = is_compiler && compiler->job == JOB_BOUND;
        size_t nth = is_compiler ? compiler->candidate : 0;
        if (event.kind == EVENT_LINE && is_compiler) {
            compiler_line(s, compiler, event.line);
        } else if (event.kind == EVENT_LINE) {
            device_line(s, device, event.line);
        } else if (is_compiler) {
            compiler_exited(s, compiler, event.kind == EVENT_LATE);
        } else {
            device_gone(s, device, event.kind == EVENT_LATE);
        }
        bounds = bounds && bound_done(&s->bounds.items[nth]);
        for (size_t i = 0; i < s->n_devices && bounds; i++) {
            device_bounded(s, &s->devices[i], nth);
        }
    }
    sweep_tell(s, false);
    return !(s->failed || s->result->unkept || (s->options->stop && *s->options->stop));
}

/* ---- weighing ---- */

static bool is_weighed(const Sweep *s)
{
    if (s->to_weigh < s->candidates.n) {
        return false;
    }
    for (size_t i = 0; i < s->n_compilers; i++) {
        if (s->compilers[i].job == JOB_WEIGH) {
            return false;
        }
    }
    return true;
}

static bool weigh(Sweep *s)
{
    s->doing = "weighing";
    while (!is_weighed(s)) {
        double gone = clock_seconds() - s->began, most = s->options->budget / 4;
        if (most > 0 && gone > most && s->to_weigh > MIN_WEIGHED) {
            s->candidates.n = s->to_weigh; /* the machine is too slow for more */
        }
        if (!step(s)) {
            return false;
        }
    }
    sweep_sort_out(s);
    return !s->failed;
}

/* ---- batches ---- */

static size_t most_candidates(const Sweep *s)
{
    size_t most = s->options->candidates ? s->options->candidates : SIZE_MAX;
    return most < s->search.n - 1 ? most : s->search.n - 1;
}

/* Candidates that were chosen and have no result yet. */
static size_t on_the_way(const Sweep *s)
{
    size_t n = s->open;
    for (size_t i = 0; i < s->n_making; i++) {
        n += s->making[i].n;
    }
    return n;
}

/* How many more candidates fit the time, estimated by those before; the first ones always do. */
static size_t has_time_for(const Sweep *s, size_t wanted)
{
    double each = sweep_each_seconds(s), gone = clock_seconds() - s->began;
    double left = s->options->budget - gone - sweep_last_seconds(s);
    double most = each > 0 ? left / each - (double)on_the_way(s) : (double)wanted;
    if (s->options->budget <= 0 || (s->measuring_began == 0 && s->n_making == 0)) {
        return wanted;
    }
    return most < 1 ? 0 : most < (double)wanted ? (size_t)most : wanted;
}

/* Only the last measurement fits the remaining time. Chosen candidates are dropped, except compiled
 * ones if nothing has been measured yet. */
static void leave_out(Sweep *s)
{
    double gone = clock_seconds() - s->began;
    size_t n = 0;
    if (s->options->budget <= 0 || gone + sweep_last_seconds(s) < s->options->budget) {
        return;
    }
    Batch *first = &s->making[0];
    for (size_t i = 0; s->measuring_began == 0 && s->n_making > 0 && i < first->n; i++) {
        if (s->candidates.items[first->items[i]].stage == CANDIDATE_MADE) {
            first->items[n++] = first->items[i];
        }
    }
    if (n > 0) {
        first->n = first->next = n;
        s->n_making = 1;
    } else if (s->measuring_began > 0) {
        s->n_making = 0;
    }
}

/* False: no candidate is left, or none fits the remaining time. */
static bool choose(Sweep *s)
{
    size_t chosen[BATCH * 8], most = most_candidates(s);
    size_t each = s->measuring_began > 0 ? BATCH : FIRST_BATCH;
    size_t want = each * (s->n_devices < 8 ? s->n_devices : 8);
    want = s->taken + want > most ? most - s->taken : want;
    for (size_t i = 0; i < s->search.n; i++) {
        const Candidate *candidate = &s->candidates.items[s->rows[i]];
        SearchItem *item = &s->search.items[i];
        item->failed = candidate->stage == CANDIDATE_DONE && candidate->status != TUNE_OK;
        item->time = candidate->relative;
    }
    want = has_time_for(s, want);
    if (want == 0) {
        return false;
    }
    size_t n = search_next(&s->search, want, chosen);
    Batch batch = {.items = ARENA_ARRAY(s->arena, size_t, n + 1), .n = n};
    for (size_t i = 0; i < n; i++) {
        batch.items[i] = s->rows[chosen[i]];
        bound_for(s, batch.items[i]);
    }
    s->making[s->n_making] = batch;
    s->n_making += n > 0;
    s->taken += n;
    return n > 0;
}

static bool is_made(const Sweep *s, const Batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        CandidateStage stage = s->candidates.items[batch->items[i]].stage;
        if (stage != CANDIDATE_MADE && stage != CANDIDATE_DONE) {
            return false;
        }
    }
    return true;
}

/* Compiled candidates go on to be measured; the result of a failed one is final. */
static void begin_measuring(Sweep *s)
{
    Batch *batch = &s->making[0];
    size_t n = 0;
    sweep_keep(s, batch->items, batch->n);
    for (size_t i = 0; i < batch->n; i++) {
        if (s->candidates.items[batch->items[i]].stage == CANDIDATE_MADE) {
            batch->items[n++] = batch->items[i];
        }
    }
    s->measuring = (Batch){.items = batch->items, .n = n};
    s->open = n;
    s->n_making--;
    memmove(s->making, s->making + 1, s->n_making * sizeof *s->making);
    s->measuring_began = s->measuring_began > 0 ? s->measuring_began : clock_seconds();
}

static bool are_devices_ready(const Sweep *s)
{
    for (size_t i = 0; i < s->n_devices; i++) {
        if (s->devices[i].step == DEVICE_IDLE && s->derived_first > 0) {
            return true;
        }
    }
    return false;
}

static bool is_bounding(const Sweep *s)
{
    for (size_t i = 0; i < s->bounds.n; i++) {
        if (!bound_done(&s->bounds.items[i])) {
            return true;
        }
    }
    return false;
}

/* A device that compiling disturbs has a batch compiled, then measured, then the next chosen; for
 * others AHEAD batches are compiled while one is measured. */
static bool search(Sweep *s)
{
    bool exclusive = s->options->quiet_device;
    size_t ahead = exclusive ? 1 : AHEAD;
    s->doing = "measuring";
    s->searching_began = clock_seconds();
    while (s->n_making < ahead && choose(s)) {}
    for (;;) {
        leave_out(s);
        bool begins = s->n_making > 0 && s->open == 0 && is_made(s, &s->making[0]) &&
                      are_devices_ready(s) && (!exclusive || !is_bounding(s));
        if (begins) {
            begin_measuring(s);
        }
        bool idle = s->n_making == 0 && s->open == 0;
        if ((begins && !exclusive) || idle) {
            choose(s);
        }
        if (s->n_making == 0 && s->open == 0) {
            return true;
        }
        for (size_t i = 0; i < s->n_devices; i++) {
            Device *device = &s->devices[i];
            size_t left = s->measuring.n - s->measuring.next;
            size_t n = left < GROUP ? left : GROUP;
            if (device->step == DEVICE_IDLE && device->n == 0 && n > 0) {
                const size_t *group = s->measuring.items + s->measuring.next;
                s->measuring.next += n;
                device_give(s, device, group, n, false);
            }
        }
        if (!step(s)) {
            return false;
        }
    }
}

/* ---- the last measurement ---- */

/* The fastest of the candidates that were measured and have correct results. */
static size_t find_finalists(const Sweep *s, size_t *best)
{
    size_t n = 0;
    for (size_t i = 1; i < s->search.n; i++) {
        size_t nth = s->rows[i];
        const Candidate *candidate = &s->candidates.items[nth];
        if (candidate->stage != CANDIDATE_DONE || candidate->status != TUNE_OK ||
            !(candidate->relative > 0)) {
            continue;
        }
        size_t at = n;
        for (; at > 0 && s->candidates.items[best[at - 1]].relative > candidate->relative; at--) {
            if (at < FINALISTS) {
                best[at] = best[at - 1];
            }
        }
        if (at < FINALISTS) {
            best[at] = nth;
            n += n < FINALISTS;
        }
    }
    return n;
}

static bool measure_best(Sweep *s)
{
    size_t best[FINALISTS];
    size_t n = find_finalists(s, best);
    Device *device = NULL;
    for (size_t i = 0; i < s->n_devices && !device; i++) {
        device = s->devices[i].step == DEVICE_GONE ? NULL : &s->devices[i];
    }
    s->doing = "measuring the best";
    if (n == 0 || !device) {
        return true;
    }
    while (device->step != DEVICE_IDLE) {
        if (!step(s)) {
            return false;
        }
    }
    s->last_began = clock_seconds();
    device_give(s, device, best, n, true);
    while (device->n > 0) {
        if (!step(s)) {
            return false;
        }
    }
    return true;
}

/* ---- without a device ---- */

static SweepRanked ranked(const Candidate *c)
{
    return (SweepRanked){c->asked, c->searched, c->predicted, c->code};
}

static void rank(Sweep *s, SweepRanking *ranking)
{
    size_t most = most_candidates(s);
    size_t *chosen = ARENA_ARRAY(s->arena, size_t, most + 1);
    size_t n = search_next(&s->search, most, chosen);
    ranking->items = ARENA_ARRAY(s->arena, SweepRanked, n + 1);
    ranking->items[ranking->n++] = ranked(&s->candidates.items[0]);
    for (size_t i = 0; i < n; i++) {
        ranking->items[ranking->n++] = ranked(&s->candidates.items[s->rows[chosen[i]]]);
    }
}

bool sweep_rank(Arena *arena, const TesseraSpace *space, const TuneRecord *base,
                const SweepOptions *options, SweepRanking *ranking, TesseraStatus *status,
                const char **why)
{
    SweepResult result = {0};
    Sweep s = {.arena = arena,
               .space = space,
               .base = base,
               .options = options,
               .result = &result,
               .first_made = true, /* nothing is loaded */
               .make_seconds = options->compile_seconds,
               .doing = "weighing",
               .began = clock_seconds()};
    *ranking = (SweepRanking){0};
    sweep_enumerate(&s);
    bool ok = !s.failed && compilers_start(&s) && weigh(&s);
    for (size_t i = 0; i < s.n_compilers; i++) {
        worker_end(&s.compilers[i].worker);
    }
    if (ok) {
        rank(&s, ranking);
    } else if (!s.failed) {
        sweep_failed(&s, TESSERA_CANCELLED, "stopped while candidates were weighed");
    }
    ranking->points = result.points;
    ranking->weighed = result.weighed;
    ranking->distinct = result.distinct;
    for (size_t i = 1; i < s.candidates.n; i++) {
        const Candidate *candidate = &s.candidates.items[i];
        ranking->failed[candidate->status] += candidate->stage == CANDIDATE_DONE;
    }
    *status = s.status;
    *why = s.why;
    return !s.failed;
}

/* ---- all of it ---- */

static bool devices_start(Sweep *s)
{
    s->n_devices = s->options->n_devices;
    s->devices = ARENA_ARRAY(s->arena, Device, s->n_devices);
    for (size_t i = 0; i < s->n_devices; i++) {
        s->devices[i] = (Device){.worker = {.link = -1, .log = -1}, .name = s->options->devices[i]};
    }
    for (size_t i = 0; i < s->n_devices; i++) {
        if (!device_start(s, &s->devices[i])) {
            return false;
        }
    }
    return true;
}

bool sweep_run(Arena *arena, const TesseraSpace *space, const TuneRecord *base,
               const SweepOptions *options, TuneStore *store, SweepResult *result,
               TesseraStatus *status, const char **why)
{
    Sweep s = {.arena = arena,
               .space = space,
               .base = base,
               .options = options,
               .store = store,
               .result = result,
               .make_seconds = options->compile_seconds,
               .doing = "starting",
               .began = clock_seconds()};
    *result = (SweepResult){.agreement = (double)NAN};
    bounds_begin(&s);
    sweep_enumerate(&s);
    bool ok = !s.failed && compilers_start(&s) && devices_start(&s) && weigh(&s);
    if (ok && options->resume) {
        sweep_resume(&s);
    }
    ok = ok && search(&s) && measure_best(&s);
    for (size_t i = 0; i < s.n_compilers; i++) {
        worker_end(&s.compilers[i].worker);
    }
    for (size_t i = 0; i < s.n_devices; i++) {
        worker_end(&s.devices[i].worker);
    }
    sweep_result(&s);
    result->interrupted = !ok && !s.failed;
    sweep_keep_all(&s);
    sweep_tell(&s, true);
    result->seconds = clock_seconds() - s.began;
    *status = s.status;
    *why = s.why;
    return !s.failed;
}
