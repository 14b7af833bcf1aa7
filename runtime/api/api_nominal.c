/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a report about sizes that are not given: the nominal sizes that the cost models
 * assumed (ir/nominal_sizes.h), and the fact about one size that would change the compiler's
 * decisions to the greatest effect.
 *
 * The kernel is compiled again with a bound or a divisor of one size at a time. Both plans are then
 * compared at sizes for which the fact holds. The amount of work depends on the program alone, as
 * for hints. */
#include "runtime/api/api_hints.h"

#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "runtime/api/attempt.h"
#include "support/int_math.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAX_FREE = 6,    /* sizes about which facts are tried, in the order of the source */
    MAX_ENTRIES = 3, /* of another plan that are named */
};
static const double MAX_COST = 0.3; /* seconds of a nominal machine, for all that is tried */
static const double MIN_GAIN = 0.03;

/* What is known of a size: short axes; rows that a block may hold; whole tiles. */
static const TesseraFact NOTED_GAIN[] = {{.most = 64}, {.most = 1024}, {.multiple = 64}};

static bool is_asked(const DimVar *var)
{
    return var->kind == DIM_SIZE && var->by == 0 && var->name && !var->unnamed;
}

static bool is_given(const TesseraOptions *options, const DimVar *var)
{
    bool given = false;
    for (size_t i = 0; i < options->n_sizes; i++) {
        given = given || text_equal(options->sizes[i].name, var->name);
    }
    return given;
}

/* ---- the vector ---- */

static void facts_of(const DimVar *var, Text *out)
{
    size_t before = out->n;
    if (var->multiple > 1) {
        text_printf(out, "%s %% %" PRId64 " == 0", var->name, var->multiple);
    }
    if (var->least > 0) {
        text_printf(out, "%s%s >= %" PRId64, out->n > before ? ", " : "", var->name, var->least);
    }
    if (var->most < INT64_MAX) {
        text_printf(out, "%s%s <= %" PRId64, out->n > before ? ", " : "", var->name, var->most);
    }
    text_add(out, out->n > before ? "" : "no fact");
}

static const char *vector_words(Arena *arena, const Func *func, const TesseraOptions *options)
{
    Text out = text_new(arena);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (is_asked(var) && !is_given(options, var)) {
            text_printf(&out, "%s%s = %" PRId64 " (", out.n ? ", " : "", var->name,
                        poly_nominal(poly_var((Func *)func, var)));
            facts_of(var, &out);
            text_char(&out, ')');
        }
    }
    return out.n ? out.data : NULL;
}

/* ---- a fact that would change the plan ---- */

typedef struct Search {
    Compilation *c;
    Arena *arena;
    TesseraSize *sizes; /* the vector, with the sizes that are given */
    size_t n_sizes;
    double cost;     /* that is left */
    double gain;     /* of the best fact; 0: none */
    const char *best; /* what is said of it */
} Search;

static void list_sizes(Search *s)
{
    const TesseraOptions *options = &s->c->options;
    Func *func = s->c->func;
    s->sizes = ARENA_ARRAY(s->arena, TesseraSize, options->n_sizes + func->dimvars.n + 1);
    for (size_t i = 0; i < options->n_sizes; i++) {
        s->sizes[s->n_sizes++] = options->sizes[i];
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (is_asked(var) && !is_given(options, var)) {
            s->sizes[s->n_sizes++] = (TesseraSize){var->name, poly_nominal(poly_var(func, var))};
        }
    }
}

/* What decides most of a plan is named first. */
static bool is_of_plan(const char *key)
{
    static const char *const keys[] = {"tile",     "reduction", "cluster",           "split_k",
                                       "swap_ab",  "multicast", "column_reductions", "instruction"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (text_equal(keys[i], key)) {
            return true;
        }
    }
    return strncmp(key, "repack_", strlen("repack_")) == 0;
}

static bool is_same(const ScheduleEntry *a, const ScheduleEntry *b)
{
    return schedule_same_name(a, b) && a->number == b->number && text_equal(a->symbol, b->symbol);
}

static bool has_entry(const Func *func, const ScheduleEntry *entry)
{
    bool found = false;
    for (size_t i = 0; i < func->schedule->entries.n && !found; i++) {
        found = is_same(&func->schedule->entries.items[i], entry);
    }
    return found;
}

typedef struct Comparison {
    const Func *like; /* the plan as it is */
    Text *words;      /* "tile N 64, split_k 8": the entries of the other plan that it has not */
    int n;
} Comparison;

static void compare_entry(Comparison *of, const ScheduleEntry *entry)
{
    Text *out = of->words;
    if (has_entry(of->like, entry) || of->n++ >= MAX_ENTRIES) {
        return;
    }
    text_printf(out, "%s%s%s%s ", out->n ? ", " : "", entry->key, *entry->sub ? " " : "",
                entry->sub);
    if (entry->symbol) {
        text_add(out, entry->symbol);
    } else {
        text_printf(out, "%" PRId64, entry->number);
    }
}

static void compare_plans(const Func *other, void *user)
{
    Comparison *of = user;
    for (int first = 1; first >= 0; first--) {
        for (size_t i = 0; i < other->schedule->entries.n; i++) {
            const ScheduleEntry *entry = &other->schedule->entries.items[i];
            if (is_of_plan(entry->key) == (first != 0)) {
                compare_entry(of, entry);
            }
        }
    }
}

/* The size for which both plans are compared: the nominal one, made to fulfil the fact. */
static int64_t size_under(const DimVar *var, int64_t nominal, const TesseraFact *fact)
{
    int64_t multiple = max_i64(1, var->multiple);
    int64_t size = fact->most ? min_i64(nominal, fact->most) : nominal;
    size -= size % multiple;
    return fact->multiple ? round_up(size, fact->multiple) : size;
}

static const char *fact_words(Arena *arena, const char *name, const TesseraFact *fact)
{
    return fact->most ? arena_printf(arena, "%s <= %" PRId64, name, fact->most)
                      : arena_printf(arena, "%s %% %" PRId64 " == 0", name, fact->multiple);
}

/* Is it more than what is known of the size already, and may it hold? */
static bool is_news(const DimVar *var, const TesseraFact *fact)
{
    return fact->most ? fact->most < var->most && fact->most >= max_i64(var->least, var->multiple)
                      : var->multiple % fact->multiple != 0 && fact->multiple % var->multiple == 0;
}

static void try_fact(Search *s, const DimVar *var, TesseraSize *size, const TesseraFact *fact)
{
    int64_t nominal = size->value;
    double cost;
    Text words = text_new(s->arena);
    Comparison of = {s->c->func, &words, 0};
    Attempt at = attempt_of(s->c, true);
    TesseraOptions *options = &at.compilation.options;
    TesseraFact *facts = ARENA_ARRAY(s->arena, TesseraFact, options->n_facts + 1);
    for (size_t i = 0; i < options->n_facts; i++) {
        facts[i] = options->facts[i];
    }
    facts[options->n_facts] = *fact;
    facts[options->n_facts].name = var->name;
    options->facts = facts;
    options->n_facts++;
    size->value = size_under(var, nominal, fact);
    at.sizes = s->sizes;
    at.n_sizes = s->n_sizes;
    at.look = compare_plans;
    at.user = &of;
    double seconds = attempt_seconds(s->c, s->sizes, s->n_sizes, &cost);
    attempt_make(s->c, &at);
    s->cost -= cost + at.cost;
    double gain = seconds > 0 && at.seconds > 0 ? 1 - at.seconds / seconds : 0;
    if (of.n > 0 && gain >= MIN_GAIN && gain > s->gain) {
        s->gain = gain;
        const char *words_of_fact = fact_words(s->arena, var->name, fact);
        s->best =
            arena_printf(s->arena, "`where %s` would choose %s: %.0f %% less time at %s = %" PRId64,
                         words_of_fact, words.data, 100 * gain, var->name, size->value);
    }
    size->value = nominal;
}

static void try_facts(Search *s)
{
    int n = 0;
    for (size_t i = s->c->options.n_sizes; i < s->n_sizes; i++) {
        const DimVar *var = func_size(s->c->func, s->sizes[i].name);
        bool is_free = var->most == INT64_MAX && n++ < MAX_FREE;
        for (size_t k = 0; k < sizeof NOTED_GAIN / sizeof *NOTED_GAIN && is_free && s->cost > 0;
             k++) {
            if (is_news(var, &NOTED_GAIN[k])) {
                try_fact(s, var, &s->sizes[i], &NOTED_GAIN[k]);
            }
        }
    }
}

void nominal_explain(Compilation *c, Report *report)
{
    Search s = {.c = c, .arena = &c->work->arena, .cost = MAX_COST};
    report->nominal = vector_words(s.arena, c->func, &c->options);
    if (!report->nominal || !report->card) {
        return;
    }
    list_sizes(&s);
    TesseraDebug fact = attempts_begin(c);
    try_facts(&s);
    attempts_end(c, &fact);
    report->fact = s.best;
}
