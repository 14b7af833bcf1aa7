/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the candidates of a sweep: the whole search space, or, if that is too large to rank, the
 * candidates that differ from the derived schedule in one or two entries, and random ones. */
#include "tune/sweep/sweep_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    MAX_WEIGHED = 6000,
    MAX_ALL = 200000,
    WEIGHED_SECOND = 250 /* by one worker */,
    WEIGHED_EACH = 30 /* that is measured */
};

static void add_point(Sweep *s, const int *point)
{
    Text lines = text_new(s->arena);
    space_lines(s->space, point, &lines);
    for (size_t i = 0; i < lines.n; i++) {
        lines.data[i] = (char)(lines.data[i] == '\n' ? ';' : lines.data[i]);
    }
    Candidate candidate = {.asked = lines.data, .searched = "", .relative = (double)NAN};
    ARENA_PUSH(s->arena, &s->candidates, candidate);
}

/* The set of points that are listed already. */
typedef struct Seen {
    uint64_t *slots; /* point + 1 */
    size_t n;        /* a power of two */
} Seen;

static bool see(Seen *seen, uint64_t point)
{
    size_t at = (size_t)(XXH3_64bits(&point, sizeof point) & (seen->n - 1));
    while (seen->slots[at] && seen->slots[at] != point + 1) {
        at = (at + 1) & (seen->n - 1);
    }
    bool is_new = !seen->slots[at];
    seen->slots[at] = point + 1;
    return is_new;
}

/* The choice that is the compiler's own, if it is among them. */
static int own_choice(const TesseraSpace *space, size_t axis)
{
    const TesseraAxis *at = &space->axes[axis];
    for (size_t i = 0; i < at->n_values && space->declared && at->derived; i++) {
        if (strcmp(at->values[i], at->derived) == 0) {
            return (int)i;
        }
    }
    return 0;
}

static void add_new(Sweep *s, Seen *seen, const int *point, size_t most)
{
    if (s->candidates.n < most && see(seen, space_nth(s->space, point))) {
        add_point(s, point);
    }
}

/* Candidates that differ in one entry, then those that differ in two. */
static void add_neighbours(Sweep *s, Seen *seen, int *point, size_t from, int depth, size_t most)
{
    for (size_t axis = from; axis < s->space->n_axes; axis++) {
        int own = point[axis];
        for (int choice = 0; choice < (int)space_choices(s->space, axis); choice++) {
            point[axis] = choice;
            if (choice != own && depth == 1) {
                add_new(s, seen, point, most);
            } else if (choice != own) {
                add_neighbours(s, seen, point, axis + 1, depth - 1, most);
            }
        }
        point[axis] = own;
    }
}

static void add_some(Sweep *s, uint64_t count, size_t most)
{
    uint64_t chance = s->options->seed ^ 0x7475;
    int *point = ARENA_ARRAY(s->arena, int, s->space->n_axes + 1);
    Seen seen = {.n = 1};
    while (seen.n < 4 * most) {
        seen.n *= 2;
    }
    seen.slots = ARENA_ARRAY(s->arena, uint64_t, seen.n);
    for (size_t i = 0; i < s->space->n_axes; i++) {
        point[i] = own_choice(s->space, i);
    }
    add_new(s, &seen, point, most);
    add_neighbours(s, &seen, point, 0, 1, most);
    add_neighbours(s, &seen, point, 0, 2, most / 2);
    for (size_t tries = 0; s->candidates.n < most && tries < 20 * most; tries++) {
        space_point(s->space, random_below(&chance, count), point);
        add_new(s, &seen, point, most);
    }
}

/* How many candidates the cost model can rank in a tenth of the time, and how many are worth it. */
static size_t most_weighed(const Sweep *s)
{
    double most = s->options->budget > 0
                      ? s->options->budget / 10 * WEIGHED_SECOND * s->options->workers
                      : MAX_WEIGHED;
    double asked = (double)s->options->candidates * WEIGHED_EACH;
    most = asked > 0 && asked < most ? asked : most;
    return most < 200 ? 200 : most > MAX_WEIGHED ? MAX_WEIGHED : (size_t)most;
}

void sweep_enumerate(Sweep *s)
{
    uint64_t count = space_count(s->space);
    bool all = s->options->strategy == STRATEGY_EXHAUSTIVE;
    size_t most = all ? MAX_ALL : most_weighed(s);
    s->result->points = (size_t)count;
    Candidate derived = {.asked = "", .searched = "", .relative = 1};
    ARENA_PUSH(s->arena, &s->candidates, derived);
    if (all && count > MAX_ALL) {
        s->result->empty = true;
        sweep_failed(s, TESSERA_USAGE,
                     "the space has %llu points, too many to try all: fewer values in a `tune` "
                     "block, or --strategy model",
                     (unsigned long long)count);
        return;
    }
    if (count > most) {
        add_some(s, count, most + 1);
        return;
    }
    int *point = ARENA_ARRAY(s->arena, int, s->space->n_axes + 1);
    for (uint64_t i = 0; i < count; i++) {
        space_point(s->space, i, point);
        add_point(s, point);
    }
}

/* ---- after weighing ---- */

void candidate_fail(Sweep *s, size_t nth, TuneStatus status, const char *message)
{
    Candidate *candidate = &s->candidates.items[nth];
    candidate->status = status;
    candidate->message = message ? arena_strdup(s->arena, message) : NULL;
    candidate->stage = CANDIDATE_DONE;
    candidate->relative = (double)NAN;
}

static bool is_of_shard(const Sweep *s, const Candidate *candidate)
{
    int shards = s->options->shards > 1 ? s->options->shards : 1;
    uint64_t digest = XXH3_64bits(candidate->searched, strlen(candidate->searched));
    return (int)(digest % (uint64_t)shards) == s->options->shard - 1 || shards == 1;
}

static void make_search(Sweep *s)
{
    size_t n = 0;
    s->rows = ARENA_ARRAY(s->arena, size_t, s->candidates.n);
    s->items = ARENA_ARRAY(s->arena, size_t, s->candidates.n);
    const char **lines = ARENA_ARRAY(s->arena, const char *, s->candidates.n);
    for (size_t i = 0; i < s->candidates.n; i++) {
        Candidate *candidate = &s->candidates.items[i];
        if (candidate->stage == CANDIDATE_WEIGHED && i > 0 && !is_of_shard(s, candidate)) {
            candidate->stage = CANDIDATE_OUT;
        }
        if (candidate->stage == CANDIDATE_WEIGHED) {
            s->items[i] = n;
            s->rows[n] = i;
            lines[n++] = candidate->searched;
        }
    }
    Features *features = ARENA_NEW(s->arena, Features);
    features_make(s->arena, lines, n, features);
    s->search = (Search){.strategy = s->options->strategy,
                         .chance = s->options->seed,
                         .features = features,
                         .items = ARENA_ARRAY(s->arena, SearchItem, n + 1),
                         .n = n};
    for (size_t i = 0; i < n; i++) {
        const Candidate *candidate = &s->candidates.items[s->rows[i]];
        s->search.items[i] = (SearchItem){.predicted = candidate->predicted, .time = (double)NAN};
    }
    if (n > 0) { /* the derived one is measured beside all others */
        s->search.items[0].taken = true;
        s->search.items[0].time = 1;
    }
    s->result->distinct = n;
}

/* Reports why no candidate is left to measure: the most frequent failure. */
static void tell_empty(Sweep *s)
{
    size_t counts[TUNE_STATUSES] = {0};
    const char *message_text = "";
    for (size_t i = 1; i < s->candidates.n; i++) {
        const Candidate *candidate = &s->candidates.items[i];
        if (candidate->stage == CANDIDATE_DONE) {
            counts[candidate->status]++;
            message_text = candidate->message ? candidate->message : message_text;
        }
    }
    size_t bad = counts[TUNE_TOO_BIG] + counts[TUNE_REFUSED];
    if (s->options->shards > 1) {
        return; /* another shard has them */
    }
    s->result->empty = true;
    sweep_failed(s, TESSERA_SOURCE,
                 "nothing to search: of %zu candidates %zu do not fit and %zu are refused%s; the "
                 "others come to what is derived%s%s%s",
                 s->candidates.n - 1, counts[TUNE_TOO_BIG], counts[TUNE_REFUSED],
                 counts[TUNE_CRASH] + counts[TUNE_TIMEOUT] ? ", some cannot be compiled" : "",
                 bad ? " (the last: " : "", bad ? message_text : "", bad ? ")" : "");
}

void sweep_sort_out(Sweep *s)
{
    if (s->candidates.items[0].stage != CANDIDATE_WEIGHED) {
        const char *message_text = s->candidates.items[0].message;
        sweep_failed(s, TESSERA_SOURCE, "what the compiler derives cannot be compiled: %s",
                     message_text ? message_text : "nothing was said");
        return;
    }
    for (size_t i = 0; i < s->candidates.n; i++) {
        s->result->weighed += s->candidates.items[i].stage != CANDIDATE_NEW;
    }
    /* Of candidates with the same code, or the same entries, the first one remains. */
    Seen seen = {.n = 1};
    while (seen.n < 8 * s->candidates.n) {
        seen.n *= 2;
    }
    seen.slots = ARENA_ARRAY(s->arena, uint64_t, seen.n);
    for (size_t i = 0; i < s->candidates.n; i++) {
        Candidate *candidate = &s->candidates.items[i];
        if (candidate->stage == CANDIDATE_WEIGHED) {
            uint64_t words = XXH3_64bits(candidate->searched, strlen(candidate->searched));
            bool new_code = see(&seen, candidate->code), new_words = see(&seen, words);
            candidate->stage = new_code && new_words ? CANDIDATE_WEIGHED : CANDIDATE_OUT;
        }
    }
    make_search(s);
    if (s->search.n < 2) {
        tell_empty(s);
    }
}
