/* SPDX-License-Identifier: Apache-2.0 */
/* Retries with smaller tiles until the derived schedule fits. The need for shared memory and
 * registers is known exactly only after layouts are assigned, long after `tile` has chosen the
 * tiles. If it exceeds the target, the function is restored to its state before `tile`, and the
 * passes from there on run again with smaller tiles. User-specified entries are never changed: if
 * they make a launch too large, it is refused, and the error says which entries would fit. The loop
 * over the attempts is in runtime/compile/compile.c. The stack that the tiles of a CPU kernel need
 * is known only after code generation, so that loop is in runtime/compile/generate_code.c. */
#include "passes/pass.h"

#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "ir/target/target.h"

enum {
    MAX_SMALLER = 15, /* 5 times each of columns, rows and depth */
    MAX_PLAIN = 8,
    DOT_TURNS = 3, /* columns, rows and depth at once: all launches have one stack */
    MAX_TIMES = 8, /* that a user's tile is halved, when looking for what would fit */
    MAX_GIVEN = 16,
};

/* ---- the function before the tiles are chosen ---- */

typedef struct Mark {
    Block *body; /* a copy that nothing changes */
    IrLevel stage;
    bool padded;
    ScheduleEntry *lines;
    size_t n_params, n_lines, n_diags; /* `tile` adds scratch parameters */
    int errors;
} Mark;

static Mark mark_take(Func *func)
{
    const Schedule *schedule = func->schedule;
    Mark mark = {.body = func_copy_block(func, func->body),
                 .stage = func->level,
                 .padded = func->padded,
                 .n_params = func->params.n,
                 .n_lines = schedule ? schedule->entries.n : 0,
                 .n_diags = func->diags->list.n,
                 .errors = func->diags->errors};
    if (mark.n_lines) {
        mark.lines =
            arena_copy(func->arena, schedule->entries.items, sizeof(ScheduleEntry) * mark.n_lines);
    }
    return mark;
}

static void mark_restore(Func *func, const Mark *mark)
{
    func->body = func_copy_block(func, mark->body);
    func->level = mark->stage;
    func->padded = mark->padded;
    func->params.n = mark->n_params;
    func_drop_layouts(func);
    if (func->schedule) {
        func->schedule->entries.n = mark->n_lines;
        for (size_t i = 0; i < mark->n_lines; i++) {
            func->schedule->entries.items[i] = mark->lines[i];
        }
    }
    func->diags->list.n = mark->n_diags;
    func->diags->errors = mark->errors;
}

/* ---- does it fit? ---- */

static bool is_out_of_resources(const Diag *diag)
{
    return diag->code == ERR_SHARED_MEMORY || diag->code == ERR_REGISTERS;
}

/* Every error since the mark says that something is too large. */
static bool did_not_fit(const Func *func, const Mark *mark)
{
    for (size_t i = mark->n_diags; i < func->diags->list.n; i++) {
        const Diag *diag = &func->diags->list.items[i];
        if (diag->severity == SEVERITY_ERROR && !is_out_of_resources(diag)) {
            return false;
        }
    }
    return func->diags->errors > mark->errors;
}

/* The next attempt is reported with the message of the first error of the first one. */
static void count_retry(Func *func, size_t n_diags)
{
    for (size_t i = n_diags; i < func->diags->list.n && !func->retries.why; i++) {
        const Diag *diag = &func->diags->list.items[i];
        if (diag->severity == SEVERITY_ERROR) {
            func->retries.why = diag->message;
        }
    }
    func->retries.n++;
}

/* First the same tiles, now that it is known what lies in addition to the buffers of `stage`; then
 * smaller ones; then all again with buffers that take turns, for which threads wait more often.
 * False: they are as small as they get. */
static bool next_try(Func *func, bool *learnt)
{
    if (func->retry.is_plain) {
        func->retry.is_plain = false;
        return ++func->retry.plain_halvings <= MAX_PLAIN;
    }
    if (func->retry.reserved_bytes && !*learnt) {
        *learnt = true;
        return true;
    }
    *learnt = false;
    func->retry.reserved_bytes = 0;
    if (++func->retry.dot_halvings <= MAX_SMALLER) {
        return true;
    }
    bool untried = !func->retry.alias_buffers;
    func->retry = (ResourceRetry){.alias_buffers = true};
    return untried;
}

/* ---- what the user's lines could be ---- */

/* How an entry is changed so that less is needed. */
typedef enum Change {
    CHANGE_HALVE,  /* a tile */
    CHANGE_SEARCH, /* slots of a ring, blocks of a multiprocessor: the most that fit */
    CHANGE_DOUBLE, /* warps: each thread holds less */
    CHANGE_NONE,
} Change;

static const struct {
    const char *key, *sub; /* sub NULL: any */
    Change change;
} CHANGES[] = {
    {"tile", NULL, CHANGE_HALVE},
    {"pipeline", NULL, CHANGE_SEARCH},
    {"occupancy", NULL, CHANGE_SEARCH},
    {"warps", "", CHANGE_DOUBLE},
};

static Change change_of(const ScheduleEntry *line)
{
    for (size_t i = 0; i < sizeof CHANGES / sizeof *CHANGES; i++) {
        const char *sub = CHANGES[i].sub;
        if (text_equal(line->key, CHANGES[i].key) &&
            (!sub || text_equal(line->sub ? line->sub : "", sub))) {
            return CHANGES[i].change;
        }
    }
    return CHANGE_NONE;
}

typedef struct Given {
    ScheduleEntry *items[MAX_GIVEN];
    int n;
} Given;

static Given given_lines(Func *func)
{
    Given given = {.n = 0};
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        ScheduleEntry *line = &func->schedule->entries.items[i];
        bool counts = change_of(line) != CHANGE_NONE && line->origin != ENTRY_DERIVED;
        if (counts && !line->symbol && given.n < MAX_GIVEN) {
            given.items[given.n++] = line;
        }
    }
    return given;
}

/* With everything that is derived as small as it gets: then the search above ends there too. */
static bool would_fit(Func *func, const Mark *mark, const PassHooks *hooks)
{
    const PassHooks quiet = {.user = hooks->user, .skip = hooks->skip};
    func->retry = (ResourceRetry){
        .dot_halvings = MAX_SMALLER, .plain_halvings = MAX_PLAIN, .alias_buffers = true};
    bool fits = passes_run_from_tile(func, &quiet);
    if (!fits && did_not_fit(func, mark) && func->retry.reserved_bytes) {
        mark_restore(func, mark);
        fits = passes_run_from_tile(func, &quiet);
    }
    return fits;
}

/* What to try: numbers for the given lines, in their order. */
typedef struct Trial {
    int64_t numbers[MAX_GIVEN];
} Trial;

typedef struct Search {
    Func *func;
    const Mark *mark;
    const PassHooks *hooks;
    Trial given; /* the user's numbers */
    const char *found;
} Search;

/* `tile M 128, N 64`; `tile M 128; launch 1: tile M 64` */
static void describe(Text *text, const ScheduleEntry *before, const ScheduleEntry *line)
{
    bool goes_on = before && before->per_launch == line->per_launch &&
                   before->launch == line->launch && text_equal(before->key, line->key);
    if (goes_on) {
        text_printf(text, ", %s %lld", line->sub, (long long)line->number);
    } else {
        text_printf(text, "%s%s %lld", before ? "; " : "", schedule_name(text->arena, line),
                    (long long)line->number);
    }
}

/* Does the function fit with these numbers? Then `found` says which of them changed. */
static bool try_numbers(Search *s, const Trial *trial)
{
    Mark changed = *s->mark;
    Text text = text_new(s->func->arena);
    changed.lines =
        arena_copy(s->func->arena, s->mark->lines, sizeof(ScheduleEntry) * s->mark->n_lines);
    mark_restore(s->func, s->mark);
    Given given = given_lines(s->func);
    const ScheduleEntry *before = NULL;
    for (int i = 0; i < given.n; i++) {
        ScheduleEntry *line = given.items[i];
        if (line->number != trial->numbers[i]) {
            line->number = trial->numbers[i];
            describe(&text, before, line);
            before = line;
            changed.lines[line - s->func->schedule->entries.items].number = line->number;
        }
    }
    if (text.n == 0 || !would_fit(s->func, &changed, s->hooks)) {
        return false;
    }
    s->found = text.data;
    return true;
}

/* The greatest number of one line with which the trial fits. */
static bool search_most(Search *s, Trial trial, int which)
{
    int64_t fits = 0, over = trial.numbers[which];
    while (fits + 1 < over) {
        int64_t number = fits == 0 ? 1 : fits + (over - fits) / 2;
        trial.numbers[which] = number;
        if (try_numbers(s, &trial)) {
            fits = number;
        } else if (fits == 0) {
            return false;
        } else {
            over = number;
        }
    }
    return fits > 0;
}

/* The trial as it is, or with a shorter ring or fewer blocks. */
static bool try_with_less(Search *s, const Given *given, const Trial *trial)
{
    if (try_numbers(s, trial)) {
        return true;
    }
    for (int i = 0; i < given->n; i++) {
        if (change_of(given->items[i]) == CHANGE_SEARCH && search_most(s, *trial, i)) {
            return true;
        }
    }
    return false;
}

/* The line, changed `times` times. */
static void change(const ScheduleEntry *line, int64_t *number, int times)
{
    switch (change_of(line)) {
    case CHANGE_HALVE: *number = *number >> times > 1 ? *number >> times : 1; break;
    case CHANGE_DOUBLE: *number = *number << times; break;
    case CHANGE_SEARCH:
    case CHANGE_NONE: break;
    }
}

/* The least change: a shorter ring or fewer blocks; else one line changed by a factor of two, four,
 * …, or all tiles, each alone and with a shorter ring or fewer blocks. */
static const char *what_fits(Search *s)
{
    mark_restore(s->func, s->mark);
    Given given = given_lines(s->func);
    for (int i = 0; i < given.n; i++) {
        s->given.numbers[i] = given.items[i]->number;
    }
    if (given.n == 0 || try_with_less(s, &given, &s->given)) {
        return s->found;
    }
    for (int times = 1; times <= MAX_TIMES; times++) {
        for (int which = 0; which < given.n; which++) {
            Trial trial = s->given;
            change(given.items[which], &trial.numbers[which], times);
            if (trial.numbers[which] != s->given.numbers[which] &&
                try_with_less(s, &given, &trial)) {
                return s->found;
            }
        }
        Trial all = s->given;
        for (int i = 0; i < given.n; i++) {
            if (change_of(given.items[i]) == CHANGE_HALVE) {
                change(given.items[i], &all.numbers[i], times);
            }
        }
        if (try_with_less(s, &given, &all)) {
            return s->found;
        }
    }
    return NULL;
}

/* "`tile` and `pipeline`" */
static const char *keys_of(Func *func, const Given *given)
{
    Text text = text_new(func->arena);
    for (size_t k = 0; k < sizeof CHANGES / sizeof *CHANGES; k++) {
        bool set = false;
        for (int i = 0; i < given->n; i++) {
            set = set || text_equal(given->items[i]->key, CHANGES[k].key);
        }
        if (set) {
            text_printf(&text, "%s`%s`", text.n ? " and " : "", CHANGES[k].key);
        }
    }
    return text.n ? text.data : "";
}

static void give_help(Func *func, const Mark *mark, const char *fits, const char *given)
{
    for (size_t i = mark->n_diags; i < func->diags->list.n; i++) {
        Diag *diag = &func->diags->list.items[i];
        if (is_out_of_resources(diag) && fits) {
            diag_help(func->diags, diag, "`%s` fits", fits);
        } else if (is_out_of_resources(diag) && *given) {
            diag_help(func->diags, diag, "leave out the lines that set %s", given);
        } else if (is_out_of_resources(diag)) {
            diag_help(func->diags, diag,
                      "an axis that tiles hold as a whole, or with `by exactly`, is too long: "
                      "iterate over it with `for`, with a step that the compiler may choose");
        }
    }
}

/* The errors of the tiles as they would be if they fitted, and the lines that do. */
static bool refuse(Search *s)
{
    Func *func = s->func;
    const char *fits = what_fits(s);
    mark_restore(func, s->mark);
    Given lines = given_lines(func);
    const char *given = keys_of(func, &lines);
    const PassHooks quiet = {.user = s->hooks->user, .skip = s->hooks->skip};
    func->retry = (ResourceRetry){.dot_halvings = 0};
    passes_run_from_tile(func, &quiet);
    give_help(func, s->mark, fits, given);
    return false;
}

/* ---- the attempts ---- */

struct TileRetry {
    Func *func;
    const PassHooks *hooks;
    Mark mark;
    bool learnt; /* the same tiles have been tried with what is known of reserved memory */
};

TileRetry *retry_begin(Func *func, const PassHooks *hooks)
{
    TileRetry *retry = ARENA_NEW(func->arena, TileRetry);
    *retry = (TileRetry){.func = func, .hooks = hooks, .mark = mark_take(func)};
    return retry;
}

bool retry_with_smaller_tiles(TileRetry *retry)
{
    Func *func = retry->func;
    if (!did_not_fit(func, &retry->mark)) {
        return false;
    }
    if (!next_try(func, &retry->learnt)) {
        return refuse(&(Search){.func = func, .mark = &retry->mark, .hooks = retry->hooks});
    }
    count_retry(func, retry->mark.n_diags);
    mark_restore(func, &retry->mark);
    return true;
}

bool retry_with_less_stack(TileRetry *retry, size_t n_diags, int errors)
{
    Func *func = retry->func;
    Mark mark = retry->mark;
    bool only_stack = func->diags->errors > errors;
    for (size_t i = n_diags; i < func->diags->list.n; i++) {
        const Diag *diag = &func->diags->list.items[i];
        only_stack = only_stack && (diag->severity != SEVERITY_ERROR || diag->code == ERR_STACK);
    }
    if (!only_stack || func->retry.plain_halvings >= MAX_PLAIN) {
        return false;
    }
    count_retry(func, n_diags);
    func->retry.plain_halvings++;
    func->retry.dot_halvings += DOT_TURNS;
    mark.n_diags = n_diags;
    mark.errors = errors;
    mark_restore(func, &mark);
    return passes_run_from_tile(func, retry->hooks);
}
