/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/retry_smaller_tiles.h"

#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "ir/target/target.h"

enum {
    MOST_SMALLER = 15, /* 5 times each of columns, rows and depth */
    MOST_PLAIN = 8,
    MOST_TIMES = 8, /* that a user's tile is halved, when looking for what would fit */
    MOST_GIVEN = 16,
};

/* ---- the function before the tiles are chosen ---- */

typedef struct Mark {
    Block *body; /* a copy that nobody changes */
    Stage stage;
    bool padded;
    Line *lines;
    size_t n_params, n_lines, n_diags; /* `tile` adds scratch parameters */
    int errors;
} Mark;

static Block *copy_of(Func *func, const Block *body)
{
    Block *copy = build_block(func, NULL);
    CloneMap map = clone_map_new(func);
    Builder b = build_at_end(func, copy);
    clone_block_into(&b, &map, body);
    return copy;
}

static Mark mark_take(Func *func)
{
    const Schedule *schedule = func->schedule;
    Mark mark = {.body = copy_of(func, func->body),
                 .stage = func->stage,
                 .padded = func->padded,
                 .n_params = func->params.n,
                 .n_lines = schedule ? schedule->lines.n : 0,
                 .n_diags = func->diags->list.n,
                 .errors = func->diags->errors};
    if (mark.n_lines) {
        mark.lines = arena_copy(func->arena, schedule->lines.items, sizeof(Line) * mark.n_lines);
    }
    return mark;
}

static void mark_restore(Func *func, const Mark *mark)
{
    func->body = copy_of(func, mark->body);
    func->stage = mark->stage;
    func->padded = mark->padded;
    func->params.n = mark->n_params;
    func_forget_layouts(func);
    if (func->schedule) {
        func->schedule->lines.n = mark->n_lines;
        for (size_t i = 0; i < mark->n_lines; i++) {
            func->schedule->lines.items[i] = mark->lines[i];
        }
    }
    func->diags->list.n = mark->n_diags;
    func->diags->errors = mark->errors;
}

/* ---- does it fit? ---- */

static bool is_about_room(const Diag *diag)
{
    return diag->code == ERR_SHARED || diag->code == ERR_HELD;
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

static void note_product(Op *op, void *user)
{
    bool *found = user;
    *found = *found || op->kind == OP_DOT || op->kind == OP_DOT_ASYNC;
}

bool fit_note(Func *func, const Op *launch)
{
    bool products = false;
    block_walk(launch->regions[0], note_product, &products);
    func->fit.is_plain = func->fit.is_plain || !products;
    return products;
}

/* First the same tiles, now that it is known what lies beside the buffers of `stage`; then smaller
 * ones; then all again with buffers that take turns, for which threads wait more often. False: they
 * are as small as they get. */
static bool next_try(Func *func, bool *learnt)
{
    if (func->fit.is_plain) {
        func->fit.is_plain = false;
        return ++func->fit.plain <= MOST_PLAIN;
    }
    if (func->fit.beside && !*learnt) {
        *learnt = true;
        return true;
    }
    *learnt = false;
    func->fit.beside = 0;
    if (++func->fit.smaller <= MOST_SMALLER) {
        return true;
    }
    bool untried = !func->fit.takes_turns;
    func->fit = (FuncFit){.takes_turns = true};
    return untried;
}

/* ---- what the user's lines could be ---- */

typedef struct Given {
    Line *items[MOST_GIVEN];
    int n;
} Given;

static Given given_lines(Func *func)
{
    Given given = {.n = 0};
    for (size_t i = 0; func->schedule && i < func->schedule->lines.n; i++) {
        Line *line = &func->schedule->lines.items[i];
        bool counts = text_same(line->key, "tile") || text_same(line->key, "pipeline");
        if (counts && line->origin != LINE_DERIVED && !line->word && given.n < MOST_GIVEN) {
            given.items[given.n++] = line;
        }
    }
    return given;
}

/* With everything that is derived as small as it gets: then the search above ends there too. */
static bool would_fit(Func *func, const Mark *mark, const PassHooks *hooks, int first, FitRun *run)
{
    const PassHooks quiet = {.user = hooks->user, .skip = hooks->skip};
    func->fit = (FuncFit){.smaller = MOST_SMALLER, .plain = MOST_PLAIN, .takes_turns = true};
    bool fits = run(func, &quiet, first);
    if (!fits && did_not_fit(func, mark) && func->fit.beside) {
        mark_restore(func, mark);
        fits = run(func, &quiet, first);
    }
    return fits;
}

typedef struct Search {
    Func *func;
    const Mark *mark;
    const PassHooks *hooks;
    FitRun *run;
    int first;
    const char *found;
} Search;

/* `tile M 128, N 64`; `tile M 128; launch 1: tile M 64` */
static void describe(Text *text, const Line *before, const Line *line)
{
    bool goes_on = before && before->alone == line->alone && before->launch == line->launch &&
                   text_same(before->key, line->key);
    if (goes_on) {
        text_printf(text, ", %s %lld", line->sub, (long long)line->number);
    } else {
        text_printf(text, "%s%s %lld", before ? "; " : "", schedule_name(text->arena, line),
                    (long long)line->number);
    }
}

static bool is_pipeline(const Line *line)
{
    return text_same(line->key, "pipeline");
}

/* One line by its number, -1: all tiles; with `number`, or, where that is 0, halved so often. */
static bool try_less(Search *s, int which, int64_t number, int times)
{
    Mark changed = *s->mark;
    Text text = text_new(s->func->arena);
    changed.lines = arena_copy(s->func->arena, s->mark->lines, sizeof(Line) * s->mark->n_lines);
    mark_restore(s->func, s->mark);
    Given given = given_lines(s->func);
    const Line *before = NULL;
    for (int i = 0; i < given.n; i++) {
        Line *line = given.items[i];
        if (which == i || (which < 0 && !is_pipeline(line))) {
            int64_t half = line->number >> times;
            line->number = number ? number : half > 1 ? half : 1;
            describe(&text, before, line);
            before = line;
            changed.lines[line - s->func->schedule->lines.items].number = line->number;
        }
    }
    if (text.n == 0 || !would_fit(s->func, &changed, s->hooks, s->first, s->run)) {
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
    for (int times = 1; n > 0 && times <= MOST_TIMES; times++) {
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
    func->fit = (FuncFit){.smaller = 0};
    s->run(func, &quiet, s->first);
    give_help(func, s->mark, fits, given);
    return false;
}

/* ---- the search ---- */

bool fit_run(Func *func, const PassHooks *hooks, int first, FitRun *run)
{
    bool learnt = false;
    if (!func->target || func->target->warp == 1) {
        return run(func, hooks, first);
    }
    Mark mark = mark_take(func);
    while (!run(func, hooks, first)) {
        if (!did_not_fit(func, &mark)) {
            return false;
        }
        if (!next_try(func, &learnt)) {
            return refuse(&(Search){func, &mark, hooks, run, first, NULL});
        }
        mark_restore(func, &mark);
    }
    return true;
}
