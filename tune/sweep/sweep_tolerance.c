/* SPDX-License-Identifier: Apache-2.0 */
/* Determines how far the results of candidates may be from those of the derived schedule. A
 * compiling worker asks the interpreter (cli/tune/sweep_error_bound.c) on a smaller run, once for
 * all candidates whose loops have the same steps, because values that are rounded once per step
 * depend on those. A larger run needs fewer assumptions, so the size grows as long as the next run
 * is expected to end in time. */
#include "tune/sweep/sweep_state.h"

#include <stdlib.h>
#include <string.h>

/* Elements that a run computes, estimated by the product of all sizes. */
static const double FIRST_COST = 1 << 22, MIN_COST = 1 << 10, GROWS = 16, SHRINKS = 64;
static const double ENOUGH = 3; /* seconds */

void bounds_begin(Sweep *s)
{
    Bound derived = {.steps = NULL, .cost = FIRST_COST};
    ARENA_PUSH(s->arena, &s->bounds, derived);
}

bool bound_done(const Bound *bound)
{
    return bound->cost <= 0;
}

Bound *bound_for(Sweep *s, size_t nth)
{
    const Candidate *candidate = &s->candidates.items[nth], *derived = &s->candidates.items[0];
    if (nth == 0 || candidate->bits == derived->bits) {
        return NULL;
    }
    if (strcmp(candidate->steps, derived->steps) == 0) {
        return &s->bounds.items[0];
    }
    for (size_t i = 1; i < s->bounds.n; i++) {
        if (strcmp(s->bounds.items[i].steps, candidate->steps) == 0) {
            return &s->bounds.items[i];
        }
    }
    Bound bound = {.steps = candidate->steps, .candidate = nth, .cost = FIRST_COST};
    ARENA_PUSH(s->arena, &s->bounds, bound);
    return &s->bounds.items[s->bounds.n - 1];
}

Bound *bound_to_ask(Sweep *s)
{
    for (size_t i = 0; i < s->bounds.n; i++) {
        Bound *bound = &s->bounds.items[i];
        if (!bound->asked && !bound_done(bound)) {
            bound->asked = true;
            bound->coming.n = 0;
            return bound;
        }
    }
    return NULL;
}

void bound_failed(Bound *bound)
{
    bound->asked = false;
    bound->cost = bound->lines.n > 0 || bound->cost <= MIN_COST ? 0 : bound->cost / SHRINKS;
}

void bound_line(Sweep *s, Bound *bound, const char *line)
{
    static const char envelope[] = "envelope ", bounded[] = "bounded ";
    if (strncmp(line, envelope, sizeof envelope - 1) == 0) {
        const char *kept = arena_strdup(s->arena, line + sizeof envelope - 1);
        ARENA_PUSH(s->arena, &bound->coming, kept);
    } else if (strncmp(line, bounded, sizeof bounded - 1) == 0) {
        char *end;
        double seconds = strtod(line + sizeof bounded - 1, &end);
        bool whole = strcmp(end, " whole") == 0;
        Lines before = bound->lines;
        bound->lines = bound->coming;
        bound->coming = before;
        bound->asked = false;
        bound->cost = whole || seconds * GROWS > ENOUGH ? 0 : bound->cost * GROWS;
    } else {
        bound_failed(bound);
    }
}
