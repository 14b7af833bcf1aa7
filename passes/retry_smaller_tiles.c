/* SPDX-License-Identifier: Apache-2.0 */
/* What is derived fits. Shared memory and registers are known exactly only after layouts are
 * assigned, long after `tile` has chosen. If they do not suffice, the function is restored as it
 * was before `tile`, and the passes from there on run again with smaller tiles. What the user's own
 * entries make too large is refused, and the error says which entries would fit. The loop over the
 * attempts is in runtime/compile/compile.c. How much stack the tiles of a CPU take is known later
 * still, when its code is made: runtime/compile/generate_code.c has that loop. */
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
    Block *body; /* a copy that nobody changes */
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

static bool is_about_room(const Diag *diag)
{
    return diag->code == ERR_SHARED_MEMORY || diag->code == ERR_REGISTERS;
}

/* Every error since the mark says that something is too large. */
static bool did_not_fit(const Func *func, const Mark *mark)
{
    for (size_t i = mark->n_diags; i < func->diags->list.n; i++) {
        const Diag *diag = &func->diags->list.items[i];
        if (diag->severity == SEVERITY_ERROR && !is_about_room(diag)) {
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

/* First the same tiles, now that it is known what lies beside the buffers of `stage`; then smaller
 * ones; then all again with buffers that take turns, for which threads wait more often. False: they
 * are as small as they get. */
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

typedef struct Given {
    ScheduleEntry *items[MAX_GIVEN];
    int n;
} Given;

static Given given_lines(Func *func)
{
    Given given = {.n = 0};
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        ScheduleEntry *line = &func->schedule->entries.items[i];
        bool counts = text_equal(line->key, "tile") || text_equal(line->key, "pipeline");
        if (counts && line->origin != ENTRY_DERIVED && !line->symbol && given.n < MAX_GIVEN) {
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

typedef struct Search {
    Func *func;
    const Mark *mark;
    const PassHooks *hooks;
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

static bool is_pipeline(const ScheduleEntry *line)
{
    return text_equal(line->key, "pipeline");
}

/* One line by its number, -1: all tiles; with `number`, or, where that is 0, halved so often. */
static bool try_less(Search *s, int which, int64_t number, int times)
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
        if (which == i || (which < 0 && !is_pipeline(line))) {
            int64_t half = line->number >> times;
            line->number = number ? number : half > 1 ? half : 1;
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

/* The longest pipeline that fits. */
static bool shorten(Search *s, int which, int64_t given)
{
    int64_t fits = 0, over = given;
    while (fits + 1 < over) {
        int64_t number = fits == 0 ? 1 : fits + (over - fits) / 2;
        if (try_less(s, which, number, 0)) {
            fits = number;
        } else if (fits == 0) {
            return false;
        } else {
            over = number;
        }
    }
    return fits > 0;
}

/* The least change: a shorter pipeline, else one tile, else all tiles, each as often halved. */
static const char *what_fits(Search *s)
{
    mark_restore(s->func, s->mark);
    Given given = given_lines(s->func);
    int n = given.n;
    for (int i = 0; i < n; i++) {
        if (is_pipeline(given.items[i]) && shorten(s, i, given.items[i]->number)) {
            return s->found;
        }
    }
    for (int times = 1; n > 0 && times <= MAX_TIMES; times++) {
        for (int which = 0; which <= n; which++) {
            if (try_less(s, which < n ? which : -1, 0, times)) {
                return s->found;
            }
        }
    }
    return NULL;
}

/* "`tile` and `pipeline`" */
static const char *keys_of(Func *func, const Given *given)
{
    bool tiles = false, pipeline = false;
    for (int i = 0; i < given->n; i++) {
        tiles = tiles || !is_pipeline(given->items[i]);
        pipeline = pipeline || is_pipeline(given->items[i]);
    }
    return arena_printf(func->arena, "%s%s%s", tiles ? "`tile`" : "",
                        tiles && pipeline ? " and " : "", pipeline ? "`pipeline`" : "");
}

static void give_help(Func *func, const Mark *mark, const char *fits, const char *given)
{
    for (size_t i = mark->n_diags; i < func->diags->list.n; i++) {
        Diag *diag = &func->diags->list.items[i];
        if (is_about_room(diag) && fits) {
            diag_help(func->diags, diag, "`%s` fits", fits);
        } else if (is_about_room(diag) && *given) {
            diag_help(func->diags, diag, "leave out the lines that set %s", given);
        } else if (is_about_room(diag)) {
            diag_help(func->diags, diag,
                      "an axis that tiles hold whole, or `by exactly`, is too long: walk it with "
                      "`for`, in steps that may be chosen");
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
        return refuse(&(Search){func, &retry->mark, retry->hooks, NULL});
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
