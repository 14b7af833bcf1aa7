/* SPDX-License-Identifier: Apache-2.0 */
/* The compiling workers. They estimate the cost of candidates by the model, compile them into a
 * folder of the compile cache that the measuring workers read, and compute error bounds with the
 * interpreter. */
#include "tune/sweep/sweep_state.h"

#include "support/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BOUND_SECONDS = 6, STARTS_SECONDS = 60, TIMES = 8 };
static const double MIN_SECONDS = 3; /* for a compilation */

static bool start(Sweep *s, Compiler *compiler)
{
    const SweepOptions *o = s->options;
    char *const *arguments = o->command(o->command_user, WORKER_COMPILES, NULL);
    compiler->job = JOB_START; /* until it reports that it is ready */
    if (!worker_start(&compiler->worker, arguments, o->environment)) {
        sweep_failed(s, TESSERA_ENVIRONMENT, "%s cannot be run: %s", arguments[0], strerror(errno));
        return false;
    }
    compiler->worker.deadline = clock_seconds() + STARTS_SECONDS;
    return true;
}

bool compilers_start(Sweep *s)
{
    s->n_compilers = s->options->workers > 0 ? (size_t)s->options->workers : 1;
    s->compilers = ARENA_ARRAY(s->arena, Compiler, s->n_compilers);
    for (size_t i = 0; i < s->n_compilers; i++) {
        s->compilers[i].worker = (Worker){.link = -1, .log = -1};
    }
    for (size_t i = 0; i < s->n_compilers; i++) {
        if (!start(s, &s->compilers[i])) {
            return false;
        }
    }
    return true;
}

static void give(Sweep *s, Compiler *compiler, JobKind job, size_t candidate)
{
    const Candidate *items = s->candidates.items;
    compiler->job = job;
    compiler->candidate = candidate;
    if (job == JOB_BOUND) {
        const Bound *bound = &s->bounds.items[candidate];
        compiler->worker.deadline = clock_seconds() + BOUND_SECONDS;
        worker_send(&compiler->worker, "bound %zu %g %s", candidate, bound->cost,
                    items[bound->candidate].asked);
        return;
    }
    compiler->began = clock_seconds();
    compiler->worker.deadline = compiler->began + s->make_seconds;
    worker_send(&compiler->worker, "%s %zu %s", job == JOB_WEIGH ? "weigh" : "make", candidate,
                items[candidate].asked);
}

/* A single worker ranks candidates before it compiles. */
static Bound *next_to_bound(Sweep *s)
{
    bool may = s->n_compilers > 1 || s->to_weigh == s->candidates.n;
    return may ? bound_to_ask(s) : NULL;
}

/* The next candidate to compile, those of earlier batches first; 0: there is none. */
static size_t next_to_make(Sweep *s)
{
    for (size_t i = 0; i < s->n_making; i++) {
        Batch *batch = &s->making[i];
        if (batch->next < batch->n) {
            return batch->items[batch->next++];
        }
    }
    return 0;
}

void compilers_feed(Sweep *s)
{
    for (size_t i = 0; i < s->n_compilers; i++) {
        Compiler *compiler = &s->compilers[i];
        if (compiler->worker.process <= 0 || compiler->job != JOB_NONE) {
            continue;
        }
        Bound *bound = NULL;
        if (!s->first_made && i == 0) {
            give(s, compiler, JOB_MAKE, 0);
        } else if ((bound = next_to_bound(s))) {
            give(s, compiler, JOB_BOUND, (size_t)(bound - s->bounds.items));
        } else if (s->to_weigh < s->candidates.n) {
            give(s, compiler, JOB_WEIGH, s->to_weigh++);
        } else {
            size_t candidate = next_to_make(s);
            if (candidate > 0) {
                give(s, compiler, JOB_MAKE, candidate);
            }
        }
    }
}

/* ---- what they say ---- */

static void rest(Compiler *compiler)
{
    compiler->job = JOB_NONE;
    compiler->worker.deadline = 0;
}

/* A worker answers `ok SECONDS ROOF CODE BITS STEPS LINES`, `room TEXT` or `refused TEXT`. */
static void take_weight(Sweep *s, size_t nth, char *line)
{
    Candidate *candidate = &s->candidates.items[nth];
    const char *what = line_word(&line);
    if (strcmp(what, "ok") != 0) {
        candidate_fail(s, nth, strcmp(what, "room") == 0 ? TUNE_TOO_BIG : TUNE_REFUSED, line);
        return;
    }
    candidate->predicted = strtod(line_word(&line), NULL);
    candidate->roof = strtod(line_word(&line), NULL);
    candidate->code = strtoull(line_word(&line), NULL, 16);
    candidate->bits = strtoull(line_word(&line), NULL, 16);
    candidate->steps = arena_strdup(s->arena, line_word(&line));
    Text searched = text_new(s->arena);
    space_searched(s->space, line, &searched);
    candidate->searched = searched.data;
    candidate->stage = CANDIDATE_WEIGHED;
}

/* A candidate that takes far longer to compile than the derived one has far more code, and is not
 * faster. */
static void take_first(Sweep *s, const Compiler *compiler, bool made, char *line)
{
    double took = clock_seconds() - compiler->began;
    double most = MIN_SECONDS + TIMES * took;
    s->make_seconds = most < s->options->compile_seconds ? most : s->options->compile_seconds;
    s->first_made = true;
    if (!made) {
        line_word(&line);
        sweep_failed(s, TESSERA_SOURCE, "what the compiler derives cannot be compiled: %s", line);
    }
    for (size_t i = 0; i < s->n_devices && made; i++) {
        device_first_made(s, &s->devices[i]);
    }
}

static void take_made(Sweep *s, const Compiler *compiler, bool made, char *line)
{
    size_t nth = compiler->candidate;
    s->compiled++;
    s->compiling += clock_seconds() - compiler->began;
    if (nth == 0) {
        take_first(s, compiler, made, line);
        return;
    }
    if (made) {
        s->candidates.items[nth].stage = CANDIDATE_MADE;
    } else {
        const char *what = line_word(&line);
        candidate_fail(s, nth, strcmp(what, "room") == 0 ? TUNE_TOO_BIG : TUNE_REFUSED, line);
    }
}

void compiler_line(Sweep *s, Compiler *compiler, char *line)
{
    if (compiler->job == JOB_BOUND) {
        Bound *bound = &s->bounds.items[compiler->candidate];
        bound_line(s, bound, line);
        if (!bound->asked) {
            rest(compiler);
        }
        return;
    }
    const char *what = line_word(&line);
    if (strcmp(what, "weighed") == 0 && compiler->job == JOB_WEIGH) {
        line_word(&line);
        take_weight(s, compiler->candidate, line);
    } else if ((strcmp(what, "made") == 0 || strcmp(what, "unmade") == 0) &&
               compiler->job == JOB_MAKE) {
        line_word(&line);
        take_made(s, compiler, what[0] == 'm', line);
    } else if (strcmp(what, "hello") != 0) {
        return;
    }
    rest(compiler);
}

void compiler_exited(Sweep *s, Compiler *compiler, bool late)
{
    JobKind job = compiler->job;
    size_t candidate = compiler->candidate;
    const char *how = worker_exit_text(s->arena, &compiler->worker);
    if (job == JOB_START) { /* a new worker would not start, either */
        sweep_failed(s, TESSERA_ENVIRONMENT, "a worker that compiles does not begin: %s", how);
        return;
    }
    if (late && job != JOB_BOUND) {
        how = arena_printf(s->arena, "compiling takes longer than %g seconds", s->make_seconds);
    }
    if (job == JOB_MAKE && candidate == 0) {
        sweep_failed(s, late ? TESSERA_INTERNAL : TESSERA_ENVIRONMENT,
                     "what the compiler derives cannot be compiled: %s", how);
        return;
    }
    if (job == JOB_BOUND) {
        bound_failed(&s->bounds.items[candidate]);
    } else if (job != JOB_NONE) {
        candidate_fail(s, candidate, late ? TUNE_TIMEOUT : TUNE_CRASH, how);
    }
    start(s, compiler);
}
