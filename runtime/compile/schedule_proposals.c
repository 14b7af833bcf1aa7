/* SPDX-License-Identifier: Apache-2.0 */
/* Proposes alternatives to each derived schedule entry, for tuning. A table gives, per key, how
 * other values are generated from the derived one. Values that do not fit are rejected by
 * compiling them, which is fast. */
#include "runtime/compile/schedule_proposals.h"

#include "runtime/compile/compilation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TILE = 1 << 20, MAX_VALUES = 16, WIDE = 64, THREADS = 1024 };

/* How the numbers of a key may be otherwise. */
typedef enum Way {
    WAY_POWERS, /* halves and doubles: two of each */
    WAY_STEPS,  /* one and two more or less */
    WAY_GROUPS, /* of a raster: 0, and powers of two from `least` on */
    WAY_LIST,   /* 0 and 1 */
    WAY_LESS,   /* halves only */
    WAY_NONE,
} Way;

static const struct {
    const char *key, *sub; /* sub NULL: any */
    Way way;
    int64_t least, most;
} WAYS[] = {
    {"tile", NULL, WAY_POWERS, 1, MAX_TILE},  {"cluster", "", WAY_POWERS, 1, 16},
    {"split_k", "", WAY_POWERS, 1, 1 << 14},  {"warps", "", WAY_POWERS, 1, 32},
    {"warps", "producer", WAY_NONE, 0, 0},    {"occupancy", "", WAY_STEPS, 1, 16},
    {"align", "", WAY_LESS, 1, 1 << 14},      {"raster", "grouped", WAY_GROUPS, 2, 32},
    {"raster", "descending", WAY_LIST, 0, 1}, {"pipeline", "", WAY_STEPS, 1, 12},
    {"multicast", NULL, WAY_POWERS, 1, 8},    {"registers", NULL, WAY_NONE, 0, 0},
    {"vector", "", WAY_LESS, 1, 64},
};

/* Lines that are not there unless they say something: how they might begin. */
static const struct {
    const char *key, *sub;
    const char *required_key; /* where this one is derived */
    bool cpu;           /* of CPUs, else of GPUs */
    const char *values; /* numbers; of threads those below what the device has */
} ABSENT[] = {
    {"split_k", "", "pipeline", false, "2 4 8"},
    {"raster", "grouped", "instruction", false, "2 4 8 16"},
    {"cluster", "", "reduction", false, "2 4 8"},
    {"threads", "", "tile", true, "1 2 4 8 16 32 64"},
    {"unroll", "", "tile", true, "1 2 4 8"},
};

static void add_value(Arena *arena, TuneChoice *choice, const char *value)
{
    for (size_t i = 0; i < choice->values.n; i++) {
        if (text_equal(choice->values.items[i], value)) {
            return;
        }
    }
    if (choice->values.n < MAX_VALUES) {
        ARENA_PUSH(arena, &choice->values, value);
    }
}

static void add_number(Arena *arena, TuneChoice *choice, int64_t number, int64_t least,
                       int64_t most)
{
    if (number >= least && number <= most) {
        add_value(arena, choice, arena_printf(arena, "%lld", (long long)number));
    }
}

static void add_numbers(Arena *arena, TuneChoice *choice, size_t way, int64_t n, int64_t most)
{
    int64_t least = WAYS[way].least;
    static const int64_t steps[] = {-1, 1, -2, 2, 3};
    switch (WAYS[way].way) {
    case WAY_POWERS:
    case WAY_LESS:
        for (int64_t by = 2; by <= 4; by *= 2) {
            add_number(arena, choice, n / by, least, most);
            add_number(arena, choice, n * by, least, WAYS[way].way == WAY_LESS ? n : most);
        }
        /* Between them, too, for what comes in wide instructions. */
        if (text_equal(choice->key, "tile") && n >= WIDE && n % WIDE == 0) {
            add_number(arena, choice, n / 4 * 3, least, most);
            add_number(arena, choice, n / 2 * 3, least, most);
        }
        break;
    case WAY_STEPS:
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            add_number(arena, choice, n + steps[i], least, most);
        }
        break;
    case WAY_GROUPS:
        add_number(arena, choice, 0, 0, most);
        for (int64_t group = least; group <= most; group *= 2) {
            add_number(arena, choice, group, least, most);
        }
        break;
    case WAY_LIST:
        add_number(arena, choice, least, least, most);
        add_number(arena, choice, most, least, most);
        break;
    default: break;
    }
}

/* A tile is not worth it that has twice the elements of its axis, or more, which is of this
 * many. */
static int64_t most_tile(const Compilation *c, const ScheduleEntry *line, int64_t most)
{
    for (size_t i = 0; i < c->options.n_sizes && text_equal(line->key, "tile"); i++) {
        int64_t whole = 1;
        while (whole < c->options.sizes[i].value && whole < most) {
            whole *= 2;
        }
        if (text_equal(c->options.sizes[i].name, line->sub)) {
            return whole > line->number ? whole : line->number;
        }
    }
    return most;
}

/* `alone`: for its launch only. */
static void propose_line(const Compilation *c, const ScheduleEntry *line, bool alone,
                         TuneChoices *choices)
{
    Arena *arena = &c->work->arena;
    TuneChoice choice = {.key = line->key,
                         .sub = line->sub,
                         .per_launch = alone,
                         .launch = line->launch,
                         .span = SPAN_NONE};
    if (line->symbol) {
        add_value(arena, &choice, line->symbol);
        /* A symbol is replaced by all others, except an instruction that computes the same more
         * slowly, and copies through registers where TMA loads tiles (4 times slower,
         * docs/lab/tuning_sweeps.md). */
        const ScheduleKey *kind = schedule_key(line->key);
        const char *derived = line->symbol;
        bool unit = text_equal(kind->key, "instruction") ||
                    (text_equal(kind->key, "copy") && text_equal(derived, "bulk"));
        for (const char *at = kind->values; *at && !unit;) {
            size_t n = strcspn(at, " ");
            const char *word = arena_strndup(arena, at, n);
            if (!text_equal(word, "int") && !text_equal(word, derived)) {
                add_value(arena, &choice, word);
            }
            at += n + strspn(at + n, " ");
        }
    } else {
        add_number(arena, &choice, line->number, 0, INT64_MAX);
        for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
            if (text_equal(WAYS[i].key, line->key) &&
                (!WAYS[i].sub || text_equal(WAYS[i].sub, line->sub))) {
                add_numbers(arena, &choice, i, line->number, most_tile(c, line, WAYS[i].most));
            }
        }
    }
    if (choice.values.n > 1) {
        ARENA_PUSH(arena, choices, choice);
    }
}

static const ScheduleEntry *line_of(const Func *func, const char *key, const char *sub)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        if (text_equal(line->key, key) && (!sub || text_equal(line->sub, sub))) {
            return line;
        }
    }
    return NULL;
}

static void propose_absent(Arena *arena, const Func *func, size_t nth, int threads,
                           TuneChoices *choices)
{
    const ScheduleEntry *required_key = line_of(func, ABSENT[nth].required_key, NULL);
    if (line_of(func, ABSENT[nth].key, ABSENT[nth].sub) || !required_key) {
        return;
    }
    TuneChoice choice = {.key = ABSENT[nth].key, .sub = ABSENT[nth].sub, .span = SPAN_NONE};
    for (const char *at = ABSENT[nth].values; *at;) {
        size_t n = strcspn(at, " ");
        const char *value = arena_strndup(arena, at, n);
        if (!text_equal(choice.key, "threads") || atoi(value) < threads) {
            add_value(arena, &choice, value);
        }
        at += n + strspn(at + n, " ");
    }
    if (choice.values.n > 0) {
        ARENA_PUSH(arena, choices, choice);
    }
}

void proposals_make(const Compilation *c, int threads, TuneChoices *choices)
{
    Arena *arena = &c->work->arena;
    const Func *func = c->func;
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        bool alone = schedule_differs(line);
        for (; line && line->origin == ENTRY_DERIVED; line = alone ? line->other : NULL) {
            propose_line(c, line, alone, choices);
        }
    }
    for (size_t i = 0; i < sizeof ABSENT / sizeof *ABSENT; i++) {
        if (ABSENT[i].cpu == (c->target->family == FAMILY_CPU)) {
            propose_absent(arena, func, i, threads, choices);
        }
    }
}
