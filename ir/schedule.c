/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a function: the table of keys, and the functions by which passes ask for a
 * user-specified value or record a derived one. It also prints the schedule block. */
#include "ir/schedule.h"

#include <stdarg.h>
#include <string.h>

const char *const entry_origins[ENTRY_COMMAND + 1] = {"derived", "pinned", "source", "command"};

static const ScheduleKey KINDS[] = {
#define SCHEDULE_ENTRY(key, subs, values, pass, changes_bits, doc, where)                          \
    {key, subs, values, pass, doc, where, changes_bits},
#include "ir/schedule.def"
#undef SCHEDULE_ENTRY
};

const ScheduleKey *schedule_keys(size_t *n)
{
    *n = sizeof KINDS / sizeof *KINDS;
    return KINDS;
}

const ScheduleKey *schedule_key(const char *key)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (text_equal(KINDS[i].key, key)) {
            return &KINDS[i];
        }
    }
    return NULL;
}

bool schedule_lists(const char *names, const char *name)
{
    size_t length = strlen(name);
    const char *at = names;
    while (*at) {
        size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0) {
            return true;
        }
        at += n;
        at += strspn(at, " ");
    }
    return false;
}

bool schedule_takes_sub(const ScheduleKey *kind, const char *word)
{
    return schedule_lists(kind->subs, word) ||
           (schedule_lists(kind->subs, "*") && !schedule_lists(kind->values, word));
}

static Schedule *schedule_of(Func *func)
{
    if (!func->schedule) {
        func->schedule = ARENA_NEW(func->arena, Schedule);
        func->schedule->launch = EVERY_LAUNCH;
    }
    return func->schedule;
}

bool schedule_same_name(const ScheduleEntry *a, const ScheduleEntry *b)
{
    return text_equal(a->key, b->key) && text_equal(a->sub, b->sub) &&
           a->per_launch == b->per_launch && (!a->per_launch || a->launch == b->launch);
}

/* That has the place which this one would take. */
static ScheduleEntry *find_line(const Func *func, const ScheduleEntry *line)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        if (schedule_same_name(&func->schedule->entries.items[i], line)) {
            return &func->schedule->entries.items[i];
        }
    }
    return NULL;
}

static bool same_value(const ScheduleEntry *a, const ScheduleEntry *b)
{
    return a->symbol && b->symbol ? text_equal(a->symbol, b->symbol)
                                  : !a->symbol && !b->symbol && a->number == b->number;
}

/* What was derived for each launch, with this one in its place. Nothing old changes: who tries
 * again keeps it (passes/retry_smaller_tiles.c). */
static const ScheduleEntry *with_launch(Func *func, const ScheduleEntry *old,
                                        const ScheduleEntry *line)
{
    ScheduleEntry *copy = arena_copy(func->arena, old ? old : line, sizeof *line);
    if (old && old->launch == line->launch) {
        *copy = *line;
        copy->other = old->other;
    } else if (old) {
        copy->other = with_launch(func, old->other, line);
    }
    return copy;
}

const ScheduleEntry *schedule_for_launch(const ScheduleEntry *line, int launch)
{
    for (const ScheduleEntry *at = line; at; at = at->other) {
        if (at->launch == launch) {
            return at;
        }
    }
    return line;
}

bool schedule_differs(const ScheduleEntry *line)
{
    for (const ScheduleEntry *at = line->other; at; at = at->other) {
        if (!same_value(at, line)) {
            return true;
        }
    }
    return false;
}

const char *schedule_name(Arena *arena, const ScheduleEntry *line)
{
    Text text = text_new(arena);
    if (line->per_launch) {
        text_printf(&text, "launch %d: ", line->launch);
    }
    text_printf(&text, "%s%s%s", line->key, *line->sub ? " " : "", line->sub);
    return text.data;
}

void schedule_at_launch(Func *func, int nth)
{
    schedule_of(func)->launch = nth;
}

void schedule_at_op(Func *func, const Op *launch)
{
    int nth = 0;
    for (const Op *op = func->body->first; op && op != launch; op = op->next) {
        nth += (op->kind == OP_LAUNCH || op->kind == OP_PARALLEL) && !op_int(op, ATTR_PREPARES, 0);
    }
    schedule_at_launch(func, nth);
}

static void put_line(Func *func, ScheduleEntry line)
{
    line.key = arena_strdup(func->arena, line.key);
    line.sub = arena_strdup(func->arena, line.sub);
    line.symbol = line.symbol ? arena_strdup(func->arena, line.symbol) : NULL;
    ScheduleEntry *old = find_line(func, &line);
    if (old && old->origin == ENTRY_DERIVED && line.origin == ENTRY_DERIVED) {
        *old = *with_launch(func, old, &line);
    } else if (old) {
        *old = line;
    } else {
        ARENA_PUSH(func->arena, &schedule_of(func)->entries, line);
    }
}

static void derive(Func *func, ScheduleEntry line)
{
    line.launch = schedule_of(func)->launch;
    line.span = SPAN_NONE;
    line.used = true;
    put_line(func, line);
}

void schedule_add_user(Func *func, ScheduleEntry line)
{
    const ScheduleEntry *old = find_line(func, &line);
    if (!old || old->origin <= line.origin) {
        put_line(func, line);
    }
}

typedef struct Asked {
    const char *key, *sub;
    int launch;
} Asked;

static void note_asked(Func *func, const char *key, const char *sub)
{
    Schedule *schedule = schedule_of(func);
    for (size_t i = 0; i < schedule->asked.n; i++) {
        const Asked *at = &schedule->asked.items[i];
        if (at->launch == schedule->launch && text_equal(at->key, key) &&
            text_equal(at->sub, sub)) {
            return;
        }
    }
    if (schedule->launch >= 0) {
        Asked asked = {arena_strdup(func->arena, key), arena_strdup(func->arena, sub),
                       schedule->launch};
        ARENA_PUSH(func->arena, &schedule->asked, asked);
    }
}

/* Of what is given with the same strength, a line for one launch counts more. */
static ScheduleEntry *find_user_entry(Func *func, const char *key, const char *sub)
{
    ScheduleEntry *found = NULL;
    note_asked(func, key, sub);
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        ScheduleEntry *line = &func->schedule->entries.items[i];
        if (line->origin == ENTRY_DERIVED || !text_equal(line->key, key) ||
            !text_equal(line->sub, sub) ||
            (line->per_launch && line->launch != func->schedule->launch)) {
            continue;
        }
        if (!found || line->origin > found->origin ||
            (line->origin == found->origin && line->per_launch)) {
            found = line;
        }
    }
    return found;
}

const ScheduleEntry *schedule_peek_entry(Func *func, const char *key, const char *sub)
{
    return find_user_entry(func, key, sub);
}

const ScheduleEntry *schedule_user_entry(Func *func, const char *key, const char *sub)
{
    ScheduleEntry *found = find_user_entry(func, key, sub);
    if (found) {
        found->used = true;
    }
    return found;
}

bool schedule_has_user_entry(const Func *func, const char *key)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        if (line->origin != ENTRY_DERIVED && text_equal(line->key, key)) {
            return true;
        }
    }
    return false;
}

static const char *format_reason(Func *func, const char *format, va_list args)
{
    Text text = text_new(func->arena);
    text_vprintf(&text, format, args);
    return text.data;
}

bool schedule_names_axis(const char *axis, const char *dimension)
{
    const char *name = dimension ? dimension : "axis";
    size_t n = strlen(name);
    const char *rest = axis + n;
    return strncmp(axis, name, n) == 0 && (dimension || *rest) &&
           rest[strspn(rest, "0123456789")] == '\0';
}

int64_t schedule_decide_int(Func *func, const char *key, const char *sub, int64_t derived,
                            const char *reason, ...)
{
    const ScheduleEntry *given = schedule_user_entry(func, key, sub);
    if (given && !given->symbol) {
        return given->number;
    }
    va_list args;
    va_start(args, reason);
    const char *why = format_reason(func, reason, args);
    va_end(args);
    if (!given) {
        derive(func, (ScheduleEntry){.key = key, .sub = sub, .number = derived, .reason = why});
    }
    return derived;
}

const char *schedule_decide_symbol(Func *func, const char *key, const char *sub,
                                   const char *derived, const char *reason, ...)
{
    const ScheduleEntry *given = schedule_user_entry(func, key, sub);
    if (given && given->symbol) {
        return given->symbol;
    }
    va_list args;
    va_start(args, reason);
    const char *why = format_reason(func, reason, args);
    va_end(args);
    if (!given) {
        derive(func, (ScheduleEntry){.key = key, .sub = sub, .symbol = derived, .reason = why});
    }
    return derived;
}

bool schedule_decide_on(Func *func, const char *key, bool derived, const char *reason, ...)
{
    va_list args;
    va_start(args, reason);
    const char *why = format_reason(func, reason, args);
    va_end(args);
    return text_equal(schedule_decide_symbol(func, key, "", derived ? "on" : "off", "%s", why),
                      "on");
}

/* ---- printing ---- */

static const char *line_reason(const ScheduleEntry *line)
{
    switch (line->origin) {
    case ENTRY_PINNED: return line->reason ? line->reason : "pinned";
    case ENTRY_SOURCE: return line->reason ? line->reason : "given in the source";
    case ENTRY_COMMAND: return "given on the command line";
    default: return line->reason;
    }
}

static void print_line(const ScheduleEntry *line, const char *separator, Text *out)
{
    text_add(out, separator);
    if (*line->sub) {
        text_printf(out, "%s ", line->sub);
    }
    if (line->symbol) {
        text_add(out, line->symbol);
    } else {
        text_printf(out, "%lld", (long long)line->number);
    }
}

/* A line's reason once, however many lines share it. */
static void print_reasons(const ScheduleEntry *const *lines, size_t n, Text *out)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const char *reason = line_reason(lines[i]);
        bool has_reason = !reason || !*reason;
        for (size_t j = 0; j < i && !has_reason; j++) {
            const char *earlier = line_reason(lines[j]);
            has_reason = earlier && text_equal(earlier, reason);
        }
        if (!has_reason) {
            text_printf(out, "%s%s", any ? "; " : "  # ", reason);
            any = true;
        }
    }
}

typedef struct LineList {
    const ScheduleEntry **items;
    size_t n, cap;
} LineList;

static void add_if(const Func *func, const ScheduleEntry *line, bool bare, LineList *found)
{
    if ((*line->sub == '\0') == bare) {
        ARENA_PUSH(func->arena, found, line);
    }
}

/* Is a line for one launch weaker than one for all? */
static bool is_beaten(const Func *func, const ScheduleEntry *line)
{
    ScheduleEntry all = *line;
    all.per_launch = false;
    const ScheduleEntry *found = find_line(func, &all);
    return found && found->origin > line->origin;
}

static const ScheduleEntry *of_launch(const ScheduleEntry *line, int launch)
{
    const ScheduleEntry *found = schedule_for_launch(line, launch);
    return found->launch == launch ? found : NULL;
}

/* Would it, given for all launches, be taken by one that asked, but derived none? */
static bool is_partial(const Func *func, const ScheduleEntry *line)
{
    bool partial = false;
    for (size_t i = 0; i < func->schedule->asked.n && line->origin == ENTRY_DERIVED; i++) {
        const Asked *at = &func->schedule->asked.items[i];
        partial = partial || (text_equal(at->key, line->key) && text_equal(at->sub, line->sub) &&
                              !of_launch(line, at->launch));
    }
    return partial && line->launch >= 0;
}

/* The bare value first, then the subkeys in the order in which they were decided: for all launches
 * (-1), or what is another one's for the n-th. */
static LineList lines_of_key(const Func *func, const ScheduleKey *kind, int launch)
{
    LineList found = {0};
    for (int bare = 1; bare >= 0; bare--) {
        for (size_t i = 0; i < func->schedule->entries.n; i++) {
            const ScheduleEntry *line = &func->schedule->entries.items[i];
            if (!text_equal(line->key, kind->key)) {
                continue;
            }
            bool partial = is_partial(func, line);
            const ScheduleEntry *own = launch >= 0 ? of_launch(line, launch) : line;
            if (line->per_launch
                    ? line->launch == launch && !is_beaten(func, line)
                    : own && (launch < 0 ? !partial : partial || !same_value(own, line))) {
                add_if(func, own, bare == 1, &found);
            }
        }
    }
    return found;
}

static int last_launch(const Func *func)
{
    int last = -1;
    for (size_t i = 0; i < func->schedule->entries.n; i++) {
        for (const ScheduleEntry *at = &func->schedule->entries.items[i]; at; at = at->other) {
            last = at->launch > last ? at->launch : last;
        }
    }
    return last;
}

static void print_key(const Func *func, const ScheduleKey *kind, int launch, bool reasons,
                      Text *out)
{
    LineList lines = lines_of_key(func, kind, launch);
    if (lines.n == 0) {
        return;
    }
    if (launch >= 0) {
        text_printf(out, "launch %d: ", launch);
    }
    text_add(out, kind->key);
    for (size_t i = 0; i < lines.n; i++) {
        bool comma = i > 0 && schedule_lists(kind->subs, "*");
        print_line(lines.items[i], comma ? ", " : " ", out);
    }
    if (reasons) {
        print_reasons(lines.items, lines.n, out);
    }
    text_char(out, '\n');
}

void schedule_print(const Func *func, bool reasons, Text *out)
{
    int last = func->schedule ? last_launch(func) : -2;
    for (size_t i = 0; last >= -1 && i < sizeof KINDS / sizeof *KINDS; i++) {
        for (int launch = -1; launch <= last; launch++) {
            print_key(func, &KINDS[i], launch, reasons, out);
        }
    }
}
