/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring workers, one per device. A group of candidates and the derived schedule are
 * loaded, their results are compared with the derived one's, and then they are timed alternately.
 * A worker that faults or hangs is ended with its process group; its current candidate is marked,
 * and a new worker continues with the others. */
#include "tune/sweep/sweep_state.h"

#include "support/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STARTS_SECONDS = 120, /* until the arrays are there */
    COMPARE_SECONDS = 120,
    MAX_LAUNCHES = 200,
    SLOWER = 8, /* times as slow as the derived one: such a candidate is not timed in rounds */
    MAX_RESTARTS = 3,
    USUAL_ROUNDS = 15,
    MIN_ROUNDS = 6, /* measurements that give an interval of 95 % */
};
/* Seconds of one timing; the last measurement of a device begins after a pause and is longer. */
static const double TURN = 0.003, CPU_TURN = 0.012, LAST_TURN = 0.02, REST = 0.12;
static const double MIN_SLOWER = 0.1, MAX_SLOWER = 2;

static double kernel_seconds(const Sweep *s)
{
    return s->options->kernel_seconds > 0 ? s->options->kernel_seconds : 2 + 60 * s->derived_first;
}

static void expect(Device *device, double seconds)
{
    device->worker.deadline = clock_seconds() + seconds;
}

void device_does(Device *device, SweepPhase part)
{
    double now = clock_seconds();
    bool last = device->n > 0 && device->last;
    if (device->since > 0) {
        device->parts[device->part] += now - device->since;
    }
    device->part = last ? SWEEP_LAST : part;
    device->since = now;
}

bool device_start(Sweep *s, Device *device)
{
    const SweepOptions *o = s->options;
    char *const *arguments = o->command(o->command_user, WORKER_MEASURES, device->name);
    device->step = DEVICE_STARTS;
    device_does(device, SWEEP_STARTS);
    if (!worker_start(&device->worker, arguments, o->environment)) {
        sweep_failed(s, TESSERA_ENVIRONMENT, "%s cannot be run: %s", arguments[0], strerror(errno));
        return false;
    }
    expect(device, STARTS_SECONDS);
    return true;
}

/* ---- loading ---- */

/* -1: the derived one. */
static size_t candidate_at(const Device *device, int at)
{
    return at < 0 ? 0 : device->group[at];
}

static void finish(Sweep *s, Device *device);
static void turn(Sweep *s, Device *device);

/* Skips candidates that have failed. False: that was the last one. */
static bool next_good(const Device *device, int *at)
{
    do {
        ++*at;
    } while (*at < (int)device->n && device->bad[*at]);
    return *at < (int)device->n;
}

static void load(Sweep *s, Device *device)
{
    size_t nth = candidate_at(device, device->at);
    device->step = DEVICE_LOADS;
    device->launched = false;
    const Bound *bound = bound_for(s, nth);
    device->waits = !s->first_made || (bound && !bound_done(bound));
    if (device->waits) {
        device->worker.deadline = 0; /* until it is there */
        device_does(device, s->derived_first > 0 ? SWEEP_WAITS : SWEEP_STARTS);
        return;
    }
    device_does(device, s->derived_first > 0 ? SWEEP_LOADS : SWEEP_STARTS);
    expect(device, s->options->compile_seconds);
    const char *how = nth == 0 ? "reference"
                      : !bound ? "bits"
                               : arena_printf(s->arena, "%zu", (size_t)(bound - s->bounds.items));
    worker_send(&device->worker, "check %zu %s %s", nth, how, s->candidates.items[nth].asked);
}

void device_bounded(Sweep *s, Device *device, size_t nth)
{
    if (device->worker.process <= 0 || device->step == DEVICE_STARTS) {
        return; /* it gets its first request when it is ready */
    }
    const Bound *bound = &s->bounds.items[nth];
    for (size_t i = 0; i < bound->lines.n; i++) {
        worker_send(&device->worker, "envelope %zu %s", nth, bound->lines.items[i]);
    }
    if (device->step == DEVICE_LOADS && device->waits) {
        load(s, device);
    }
}

void device_first_made(Sweep *s, Device *device)
{
    if (device->worker.process > 0 && device->step == DEVICE_LOADS && device->waits) {
        load(s, device);
    }
}

static void load_next(Sweep *s, Device *device)
{
    if (next_good(device, &device->at)) {
        load(s, device);
        return;
    }
    device->step = device->n > 0 ? DEVICE_TURNS : DEVICE_IDLE;
    device->at = -1;
    device->round = 0;
    device->worker.deadline = 0;
    device_does(device, device->n > 0 ? SWEEP_TURNS : SWEEP_WAITS);
    if (device->n > 0) {
        bool any = false;
        for (size_t i = 0; i < device->n; i++) {
            any = any || !device->bad[i];
        }
        if (any) {
            turn(s, device);
        } else {
            finish(s, device);
        }
    }
}

void device_give(Sweep *s, Device *device, const size_t *candidates, size_t n, bool last)
{
    memcpy(device->group, candidates, n * sizeof *candidates);
    memset(device->bad, 0, sizeof device->bad);
    device->n = n;
    device->last = last;
    device->rounds = last ? sweep_last_rounds(s) : ROUNDS;
    device->at = -1;
    load_next(s, device); /* the derived one is loaded */
}

/* ---- turns ---- */

/* Adds the overhead that rounds had so far: messages between processes, and other users of the
 * device. */
static double last_turn(const Sweep *s)
{
    double first = s->derived > 0 ? s->derived : s->derived_first;
    double length = LAST_TURN < MAX_LAUNCHES * first ? LAST_TURN : MAX_LAUNCHES * first;
    double work = (length > first ? length : first) + (first < 0.01 ? 5 : 1) * first;
    double slower = s->turns_given > 0 ? s->turns_taken / s->turns_given : 1;
    slower = slower < MIN_SLOWER ? MIN_SLOWER : slower > MAX_SLOWER ? MAX_SLOWER : slower;
    return s->options->quiet_device ? slower * work : REST + slower * work;
}

/* How many rounds fit a quarter of the budget, or what is left of it. */
size_t sweep_last_rounds(const Sweep *s)
{
    double left = s->options->budget - (clock_seconds() - s->began);
    double time = s->options->budget / 4 < left ? s->options->budget / 4 : left;
    double most = s->options->budget > 0 ? time / (last_turn(s) * (FINALISTS + 1)) : USUAL_ROUNDS;
    return most > USUAL_ROUNDS ? USUAL_ROUNDS : most < MIN_ROUNDS ? MIN_ROUNDS : (size_t)most;
}

double sweep_last_seconds(const Sweep *s)
{
    return last_turn(s) * (FINALISTS + 1) * (double)sweep_last_rounds(s);
}

/* Seconds of a launch, as far as they are known; the first launches are slower. */
static double usual_seconds(const Sweep *s, size_t nth)
{
    const Candidate *candidate = &s->candidates.items[nth];
    double usual = candidate->relative > 0 && s->derived > 0 ? candidate->relative * s->derived : 0;
    return usual > 0 && (usual < candidate->first || candidate->first <= 0) ? usual
                                                                            : candidate->first;
}

static void turn(Sweep *s, Device *device)
{
    size_t nth = candidate_at(device, device->at);
    double first = usual_seconds(s, nth);
    double length = device->last ? LAST_TURN : s->options->quiet_device ? CPU_TURN : TURN;
    double wanted = first > 0 ? length / first : MAX_LAUNCHES;
    int launches = wanted < 1 ? 1 : wanted > MAX_LAUNCHES ? MAX_LAUNCHES : (int)wanted;
    int warm_ups = device->last && first < 0.01 ? 5 : 1;
    double rest = device->last && !s->options->quiet_device ? REST : 0;
    device->given = first * (launches + warm_ups);
    device->turn_began = clock_seconds() + rest;
    expect(device, rest + kernel_seconds(s) + 20 * first * (launches + warm_ups));
    worker_send(&device->worker, "turn %zu %d %d %g", nth, warm_ups, launches, rest);
}

static void conclude(Sweep *s, Device *device, int at)
{
    Candidate *candidate = &s->candidates.items[device->group[at]];
    size_t n = device->round < device->rounds ? device->round : device->rounds;
    double ratios[MAX_ROUNDS];
    for (size_t i = 0; i < n; i++) { /* before the median sorts them */
        ratios[i] = device->samples[at + 1][i] / device->samples[0][i];
    }
    Median time = median_of(device->samples[at + 1], n);
    if (device->last) {
        candidate->time = time;
        candidate->share = median_of(ratios, n);
        candidate->final = true;
        return;
    }
    memcpy(candidate->ratios, ratios, sizeof candidate->ratios);
    candidate->n_ratios = n;
    candidate->relative = median_of(ratios, n).middle;
    candidate->seconds = time.middle;
    candidate->stage = CANDIDATE_DONE;
}

/* The group is measured. */
static void finish(Sweep *s, Device *device)
{
    size_t n = device->n;
    for (size_t i = 0; i < n; i++) {
        if (!device->bad[i]) {
            conclude(s, device, (int)i);
            worker_send(&device->worker, "drop %zu", device->group[i]);
        }
    }
    if (device->round > 0) {
        Median derived = median_of(device->samples[0], device->round);
        s->derived = derived.middle;
        s->derived_turns = s->derived_turns > 0 ? s->derived_turns : derived.middle;
        s->candidates.items[0].time = derived;
        s->candidates.items[0].final = device->last;
    }
    sweep_keep(s, device->group, n);
    device->n = 0;
    device->step = DEVICE_IDLE;
    device_does(device, SWEEP_WAITS);
    device->worker.deadline = 0;
    device->restarts = 0;
    if (!device->last) {
        s->open -= n;
    }
}

static void take_turn(Sweep *s, Device *device, double seconds)
{
    double now = clock_seconds(), budget = s->options->budget;
    s->turns_given += device->given;
    s->turns_taken += now > device->turn_began ? now - device->turn_began : 0;
    device->samples[device->at + 1][device->round] = seconds;
    if (!next_good(device, &device->at)) {
        device->at = -1;
        device->round++;
    }
    bool over = device->last && budget > 0 && now - s->began > budget;
    if (over && device->at < 0 && device->round >= MIN_ROUNDS) {
        device->rounds = device->round;
    }
    if (device->round == device->rounds) {
        finish(s, device);
    } else {
        turn(s, device);
    }
}

/* ---- what goes wrong ---- */

/* A candidate failed to load or to run, and the worker continues. */
static void mark(Sweep *s, Device *device, TuneStatus status, const char *message)
{
    if (device->at < 0) {
        sweep_failed(s, TESSERA_FAULT, "the derived schedule itself fails: %s", message);
        return;
    }
    candidate_fail(s, device->group[device->at], status, message);
    device->bad[device->at] = true;
}

void device_gone(Sweep *s, Device *device, bool late)
{
    const char *how = worker_exit_text(s->arena, &device->worker);
    if (device->step == DEVICE_STARTS || ++device->restarts > MAX_RESTARTS + (int)device->n) {
        device->step = DEVICE_GONE;
        sweep_failed(s, TESSERA_ENVIRONMENT, "%s cannot be measured on: %s", device->name,
                     late ? "it does not get ready" : how);
        return;
    }
    if (late) {
        how = device->launched || device->step == DEVICE_TURNS
                  ? arena_printf(s->arena, "the kernel has not ended after %.3g seconds",
                                 kernel_seconds(s))
                  : arena_printf(s->arena, "loading takes longer than %g seconds",
                                 s->options->compile_seconds);
    }
    bool retry = device->at < 0 && device->step == DEVICE_TURNS && device->restarts == 1;
    if (!retry && (device->n > 0 || device->step != DEVICE_IDLE)) {
        mark(s, device, late ? TUNE_TIMEOUT : TUNE_CRASH, how);
    }
    if (!s->failed) {
        device_start(s, device);
    }
}

/* ---- what it says ---- */

static void take_checked(Sweep *s, Device *device, size_t nth, char *line)
{
    Candidate *candidate = &s->candidates.items[nth];
    const char *what = line_word(&line);
    if (strcmp(what, "ok") == 0) {
        if (nth == 0) {
            s->derived_first = candidate->first;
            s->derived = s->derived > 0 ? s->derived : candidate->first;
        } else if (!device->last && candidate->first > SLOWER * s->derived_first) {
            /* A candidate that is slower by this factor is not measured again. */
            candidate->ratios[0] = candidate->first / s->derived_first;
            candidate->n_ratios = 1;
            candidate->relative = candidate->ratios[0];
            candidate->seconds = candidate->first;
            candidate->stage = CANDIDATE_DONE;
            device->bad[device->at] = true;
            worker_send(&device->worker, "drop %zu", nth);
        }
    } else {
        static const struct {
            const char *word;
            TuneStatus status;
        } FAILURES[] = {{"wrong", TUNE_WRONG}, {"room", TUNE_TOO_BIG}, {"refused", TUNE_REFUSED}};
        TuneStatus status = TUNE_CRASH;
        for (size_t i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
            status = strcmp(what, FAILURES[i].word) == 0 ? FAILURES[i].status : status;
        }
        s->result->launched_too_big += status == TUNE_TOO_BIG;
        mark(s, device, status, line);
    }
    if (!s->failed) {
        load_next(s, device);
    }
}

void device_line(Sweep *s, Device *device, char *line)
{
    const char *what = line_word(&line);
    if (strcmp(what, "ready") == 0 && device->step == DEVICE_STARTS) {
        device->step = DEVICE_IDLE;
        for (size_t i = 0; i < s->bounds.n; i++) {
            if (bound_done(&s->bounds.items[i])) {
                device_bounded(s, device, i);
            }
        }
        device->at = -1;
        load(s, device); /* the derived one, then what is left of the group */
        return;
    }
    size_t nth = (size_t)strtoull(line_word(&line), NULL, 10);
    if (device->step != DEVICE_LOADS && device->step != DEVICE_TURNS) {
        return;
    }
    if (nth != candidate_at(device, device->at)) {
        return;
    }
    if (strcmp(what, "loaded") == 0) {
        device->launched = true;
        device_does(device, s->derived_first > 0 ? SWEEP_COMPARES : SWEEP_STARTS);
        expect(device, kernel_seconds(s));
    } else if (strcmp(what, "ran") == 0) {
        s->candidates.items[nth].first = strtod(line_word(&line), NULL);
        expect(device, COMPARE_SECONDS);
    } else if (strcmp(what, "checked") == 0) {
        take_checked(s, device, nth, line);
    } else if (strcmp(what, "time") == 0) {
        take_turn(s, device, strtod(line_word(&line), NULL));
    } else if (strcmp(what, "fault") ==
               0) { /* the sweep of this device ends: its results are not reliable */
        const char *words = arena_strdup(s->arena, line);
        worker_end(&device->worker);
        mark(s, device, TUNE_CRASH, words);
        if (!s->failed) {
            device_start(s, device);
        }
    }
}
