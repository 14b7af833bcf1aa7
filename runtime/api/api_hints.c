/* SPDX-License-Identifier: Apache-2.0 */
/* Finds hints by trial: it compiles the changes that the findings of a report call for
 * (explain_hints.c), and for schedule keys the values that the tuner would try, and asks the cost
 * model what each gains.
 *
 * First all candidates are ranked by a brief report, as in the tuner. The best of each kind are
 * then compiled completely, including the assembler's register allocation, so that `explain`
 * reports the same figures after the user has followed the hint. The amount of work depends on the
 * program alone and not on a clock, so a program has the same hints on every machine. */
#include "runtime/api/api_hints.h"
#include "runtime/api/attempt.h"

#include "ir/ir_errors.h"
#include "runtime/compile/schedule_proposals.h"
#include "runtime/explain/explain_hints.h"

#include <math.h>

enum {
    MAX_TRIED = 48,    /* changes that are ranked */
    MAX_OF_A_KIND = 2, /* of which machine code is made */
};

/* What all of it costs, in seconds of a nominal machine: with the report itself; of that what is
 * ranked; a byte of machine code. */
static const double MAX_COST = 0.75, MAX_RANKING = 0.3, BYTE_COST = 5.5e-6;
static const double MIN_GAIN = 0.03; /* what is less is within the error of the model */

/* A change, and what is expected of it. */
typedef struct Trial {
    Hint hint;
    double ranked; /* seconds by a brief report; 0: it cannot be made, or does not fit */
    double code_bytes;
    bool verified;
} Trial;

typedef struct Search {
    const Compilation *c;
    Report *report;
    Arena *arena;
    struct {
        Trial *items;
        size_t n, cap;
    } trials;
    double cost;    /* that is left */
    double ranking; /* cost of ranking the program as it is */
    double ranked;  /* seconds of the program as it is, by a brief report */
    double seconds; /* by its report */
} Search;

/* ---- one trial ---- */

/* The text with the edits in the place of what was there, later ones first. */
static void edit_text(Arena *arena, const Hint *hint, Compilation *c)
{
    Text text = text_new(arena);
    uint32_t at = 0;
    for (int done = 0; done < hint->n_edits; done++) {
        const Edit *next = NULL;
        for (int i = 0; i < hint->n_edits; i++) {
            const Edit *edit = &hint->edits[i];
            bool later = edit->span.start >= at && (done == 0 || edit->span.start > at);
            next = later && (!next || edit->span.start < next->span.start) ? edit : next;
        }
        if (!next) {
            break; /* one within the other */
        }
        text_add_n(&text, c->text + at, next->span.start - at);
        text_add(&text, next->text);
        at = next->span.end;
    }
    text_add_n(&text, c->text + at, c->n - at);
    c->text = text.data;
    c->n = text.n;
}

/* Options with this size, or with this line of the schedule. */
static void change_options(Arena *arena, const Hint *hint, TesseraOptions *options)
{
    if (hint->kind == HINT_SIZE) {
        TesseraSize *sizes = ARENA_ARRAY(arena, TesseraSize, options->n_sizes);
        for (size_t i = 0; i < options->n_sizes; i++) {
            sizes[i] = options->sizes[i];
            if (text_equal(sizes[i].name, hint->name)) {
                sizes[i].value = hint->size;
            }
        }
        options->sizes = sizes;
    } else if (hint->kind == HINT_SCHEDULE) {
        const char **lines = ARENA_ARRAY(arena, const char *, options->n_lines + 1);
        for (size_t i = 0; i < options->n_lines; i++) {
            lines[i] = options->lines[i];
        }
        lines[options->n_lines++] = hint->line;
        options->lines = lines;
    }
}

/* What the model expects with the change; seconds 0: it cannot be made. Memory, and what is said of
 * it, are dropped. */
static Attempt try_change(const Search *s, const Hint *hint, bool brief)
{
    Attempt at = attempt_of(s->c, brief);
    Compilation *c = &at.compilation;
    if (hint && hint->kind == HINT_FACT) {
        c->sorted = hint->name;
    } else if (hint && hint->kind == HINT_SOURCE) {
        edit_text(s->arena, hint, c);
    } else if (hint) {
        change_options(s->arena, hint, &c->options);
    }
    attempt_make(s->c, &at);
    return at;
}

/* ---- what is tried ---- */

static void add_trial(Search *s, Hint hint)
{
    Trial trial = {.hint = hint};
    if (s->trials.n < MAX_TRIED) {
        ARENA_PUSH(s->arena, &s->trials, trial);
    }
}

/* "launch 1: tile M 64" */
static const char *entry_text(Arena *arena, const TuneChoice *choice, const char *value)
{
    const char *launch =
        choice->per_launch ? arena_printf(arena, "launch %d: ", choice->launch) : "";
    return arena_printf(arena, "%s%s%s%s %s", launch, choice->key, *choice->sub ? " " : "",
                        choice->sub, value);
}

/* True if the compiler derived an entry of this name: its value is the first of the choice. */
static bool is_derived(const Func *func, const TuneChoice *choice)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *entry = &func->schedule->entries.items[i];
        if (text_equal(entry->key, choice->key) && text_equal(entry->sub, choice->sub)) {
            return true;
        }
    }
    return false;
}

static void add_choice(Search *s, const TuneChoice *choice)
{
    for (size_t v = is_derived(s->c->func, choice); v < choice->values.n; v++) {
        const char *line = entry_text(s->arena, choice, choice->values.items[v]);
        add_trial(s, (Hint){.kind = HINT_SCHEDULE, .line = line});
    }
}

/* Values of the keys that may mend what was found. */
static void add_entries(Search *s)
{
    TuneChoices choices = {0};
    HintKeys keys = hint_keys(s->report);
    proposals_make(s->c, 0, &choices);
    for (size_t k = 0; k < keys.n; k++) {
        for (size_t i = 0; i < choices.n; i++) {
            if (text_equal(choices.items[i].key, keys.items[k])) {
                add_choice(s, &choices.items[i]);
            }
        }
    }
}

/* Parameters that choose matrices, if a warning says that they are not known to be sorted. */
static void add_facts(Search *s)
{
    const Diags *diags = &s->c->work->diags;
    bool scattered = false;
    for (size_t i = 0; i < diags->list.n; i++) {
        scattered = scattered || diags->list.items[i].code == ERR_SCATTERED_ROWS;
    }
    const Func *func = s->c->func;
    for (size_t i = 0; scattered && i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        Type type = param_given(param);
        if (param->io == PARAM_IN && type->kind == TYPE_TENSOR && type->rank == 1 &&
            dtype_is_int(type->dtype) && !param->sorted) {
            add_trial(s, (Hint){.kind = HINT_FACT,
                                .name = param->name,
                                .line = arena_printf(s->arena, "assume sorted(%s)", param->name)});
        }
    }
}

/* Some of what is left remains to verify the best. */
static void rank_trials(Search *s)
{
    double end = s->cost - fmin(MAX_RANKING, s->cost / 2);
    for (size_t i = 0; i < s->trials.n && s->cost > end; i++) {
        Trial *trial = &s->trials.items[i];
        Attempt at = try_change(s, &trial->hint, true);
        trial->ranked = at.seconds;
        trial->code_bytes = at.code_bytes;
        s->cost -= fmax(at.cost, s->ranking); /* what cannot be made took time, too */
    }
}

/* ---- what is kept ---- */

static Trial *best_trial(Search *s, HintKind kind)
{
    Trial *best = NULL;
    for (size_t i = 0; i < s->trials.n; i++) {
        Trial *trial = &s->trials.items[i];
        bool better = trial->ranked > 0 && trial->ranked < (1 - MIN_GAIN) * s->ranked &&
                      (!best || trial->ranked < best->ranked);
        best = trial->hint.kind == kind && !trial->verified && better ? trial : best;
    }
    return best;
}

/* Those that save most come first. */
static void keep(Search *s, Hint hint)
{
    Hints *hints = &s->report->hints;
    ARENA_PUSH(s->arena, hints, hint);
    for (size_t i = hints->n - 1; i > 0 && hints->items[i].after < hints->items[i - 1].after; i--) {
        Hint other = hints->items[i];
        hints->items[i] = hints->items[i - 1];
        hints->items[i - 1] = other;
    }
}

/* The best change of the kind becomes a hint, if the whole report confirms what the brief one said;
 * true: it does. */
static bool verify_best(Search *s, HintKind kind)
{
    Trial *trial = best_trial(s, kind);
    double code = trial ? BYTE_COST * trial->code_bytes : 0;
    if (!trial || s->cost < attempt_report_cost(s->report) + code) {
        return false;
    }
    Attempt at = try_change(s, &trial->hint, false);
    s->cost -= fmax(at.cost, attempt_report_cost(s->report)) + code;
    trial->verified = true;
    trial->hint.before = s->seconds;
    trial->hint.after = at.seconds;
    bool better = trial->hint.after > 0 && hint_gain(&trial->hint) >= MIN_GAIN;
    if (better) {
        keep(s, trial->hint);
    }
    return better;
}

/* The best of each kind of what is listed, then of kinds whose best was none the next one. */
static void try_trials(Search *s)
{
    rank_trials(s);
    bool found[N_HINT] = {false};
    for (int n = 0; n < MAX_OF_A_KIND; n++) {
        for (int kind = 0; kind < N_HINT; kind++) {
            found[kind] = found[kind] || verify_best(s, (HintKind)kind);
        }
    }
}

void hints_make(const Compilation *c, Report *report)
{
    Search s = {.c = c,
                .report = report,
                .arena = report->input->func->arena,
                .cost = MAX_COST,
                .seconds = report_seconds(report)};
    bool known = report->sized && report->card && s.seconds > 0;
    s.cost -= attempt_report_cost(report);
    if (!known || s.cost <= 0) {
        return;
    }
    TesseraDebug saved = attempts_begin(c);
    Attempt as_it_is = try_change(&s, NULL, true);
    s.ranked = as_it_is.seconds;
    s.ranking = as_it_is.cost;
    s.cost -= s.ranking;
    add_facts(&s);
    for (size_t i = 0; i < report->proposed.n; i++) {
        add_trial(&s, report->proposed.items[i]);
    }
    try_trials(&s);
    s.trials.n = 0;
    /* No schedule takes less than the least time. */
    if (report_least(report) < (1 - MIN_GAIN) * s.seconds) {
        add_entries(&s);
    }
    try_trials(&s);
    attempts_end(c, &saved);
}
