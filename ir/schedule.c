/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/schedule.h"

#include <stdarg.h>
#include <string.h>

const char *const line_origins[LINE_COMMAND + 1] = {"derived", "pinned", "source", "command"};

static const LineKind KINDS[] = {
#define LINE(key, subs, values, pass, changes_bits, doc, where)                                    \
    {key, subs, values, pass, doc, where, changes_bits},
#include "ir/schedule.def"
#undef LINE
};

const LineKind *schedule_kinds(size_t *n)
{
    *n = sizeof KINDS / sizeof *KINDS;
    return KINDS;
}

const LineKind *schedule_kind(const char *key)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (text_same(KINDS[i].key, key)) {
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

static Schedule *schedule_of(Func *func)
{
    if (!func->schedule) {
        func->schedule = ARENA_NEW(func->arena, Schedule);
    }
    return func->schedule;
}

static Line *find_line(const Func *func, const char *key, const char *sub)
{
    for (size_t i = 0; func->schedule && i < func->schedule->lines.n; i++) {
        Line *line = &func->schedule->lines.items[i];
        if (text_same(line->key, key) && text_same(line->sub, sub)) {
            return line;
        }
    }
    return NULL;
}

static bool same_value(const Line *a, const Line *b)
{
    return a->word && b->word ? text_same(a->word, b->word)
                              : !a->word && !b->word && a->number == b->number;
}

/* What was decided for other launches, as far as it is something else. */
static const Line *other_launches(Func *func, const Line *old, const Line *line)
{
    const Line *chain = NULL;
    for (; old; old = old->other) {
        if (old->launch != line->launch && !same_value(old, line)) {
            Line *copy = arena_copy(func->arena, old, sizeof *old);
            copy->other = chain;
            chain = copy;
        }
    }
    return chain;
}

void schedule_at_launch(Func *func, int nth)
{
    schedule_of(func)->launch = nth;
}

static void put_line(Func *func, Line line)
{
    line.launch = schedule_of(func)->launch;
    line.key = arena_strdup(func->arena, line.key);
    line.sub = arena_strdup(func->arena, line.sub);
    line.word = line.word ? arena_strdup(func->arena, line.word) : NULL;
    Line *old = find_line(func, line.key, line.sub);
    if (old && old->origin == LINE_DERIVED && line.origin == LINE_DERIVED) {
        line.other = other_launches(func, old, &line);
    }
    if (old) {
        *old = line;
    } else {
        ARENA_PUSH(func->arena, &schedule_of(func)->lines, line);
    }
}

static void give(Func *func, Line line)
{
    const Line *old = find_line(func, line.key, line.sub);
    if (!old || old->origin <= line.origin) {
        put_line(func, line);
    }
}

void schedule_give(Func *func, const char *key, const char *sub, const char *word, int64_t number,
                   LineOrigin origin, Span span)
{
    give(func, (Line){.key = key,
                      .sub = sub,
                      .word = word,
                      .number = number,
                      .origin = origin,
                      .span = span});
}

void schedule_choose(Func *func, const char *key, const char *sub, const char *word, int64_t number,
                     Span span, const char *name)
{
    const char *reason =
        name ? arena_printf(func->arena, "given in the source, by `%s`", name) : NULL;
    give(func, (Line){.key = key,
                      .sub = sub,
                      .word = word,
                      .number = number,
                      .origin = LINE_SOURCE,
                      .reason = reason,
                      .span = span});
}

void schedule_pin(Func *func, const char *key, const char *sub, const char *word, int64_t number,
                  Span span, const char *where)
{
    give(func, (Line){.key = key,
                      .sub = sub,
                      .word = word,
                      .number = number,
                      .origin = LINE_PINNED,
                      .reason = where,
                      .span = span});
}

const Line *schedule_given(Func *func, const char *key, const char *sub)
{
    Line *line = find_line(func, key, sub);
    if (!line || line->origin == LINE_DERIVED) {
        return NULL;
    }
    line->used = true;
    return line;
}

bool schedule_gives(const Func *func, const char *key)
{
    for (size_t i = 0; func->schedule && i < func->schedule->lines.n; i++) {
        const Line *line = &func->schedule->lines.items[i];
        if (line->origin != LINE_DERIVED && text_same(line->key, key)) {
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

int64_t schedule_number(Func *func, const char *key, const char *sub, int64_t derived,
                        const char *reason, ...)
{
    const Line *given = schedule_given(func, key, sub);
    if (given && !given->word) {
        return given->number;
    }
    va_list args;
    va_start(args, reason);
    const char *why = format_reason(func, reason, args);
    va_end(args);
    if (!given) {
        put_line(func, (Line){.key = key,
                              .sub = sub,
                              .number = derived,
                              .reason = why,
                              .span = SPAN_NONE,
                              .used = true});
    }
    return derived;
}

const char *schedule_word(Func *func, const char *key, const char *sub, const char *derived,
                          const char *reason, ...)
{
    const Line *given = schedule_given(func, key, sub);
    if (given && given->word) {
        return given->word;
    }
    va_list args;
    va_start(args, reason);
    const char *why = format_reason(func, reason, args);
    va_end(args);
    if (!given) {
        put_line(func, (Line){.key = key,
                              .sub = sub,
                              .word = derived,
                              .reason = why,
                              .span = SPAN_NONE,
                              .used = true});
    }
    return derived;
}

/* ---- printing ---- */

static const char *line_reason(const Line *line)
{
    switch (line->origin) {
    case LINE_PINNED: return line->reason ? line->reason : "pinned";
    case LINE_SOURCE: return line->reason ? line->reason : "given in the source";
    case LINE_COMMAND: return "given on the command line";
    default: return line->reason;
    }
}

static void print_line(const Line *line, const char *separator, Text *out)
{
    text_add(out, separator);
    if (*line->sub) {
        text_printf(out, "%s ", line->sub);
    }
    if (line->word) {
        text_add(out, line->word);
    } else {
        text_printf(out, "%lld", (long long)line->number);
    }
}

/* A line's reason once, however many lines share it. */
static void print_reasons(const Line *const *lines, size_t n, Text *out)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const char *reason = line_reason(lines[i]);
        bool said = !reason || !*reason;
        for (size_t j = 0; j < i && !said; j++) {
            const char *earlier = line_reason(lines[j]);
            said = earlier && text_same(earlier, reason);
        }
        if (!said) {
            text_printf(out, "%s%s", any ? "; " : "  # ", reason);
            any = true;
        }
    }
}

/* The bare value first, then the subkeys in the order in which they were decided. */
static size_t lines_of_key(const Func *func, const LineKind *kind, const Line **found, size_t room)
{
    size_t n = 0;
    for (int bare = 1; bare >= 0; bare--) {
        for (size_t i = 0; i < func->schedule->lines.n; i++) {
            const Line *line = &func->schedule->lines.items[i];
            if (text_same(line->key, kind->key) && (*line->sub == '\0') == (bare == 1) &&
                n < room) {
                found[n++] = line;
            }
        }
    }
    return n;
}

/* A line that is given is for all launches of a kernel; what is derived may differ. */
static void print_others(const Func *func, const LineKind *kind, const Line *line, Text *out)
{
    for (const Line *other = line->other; other; other = other->other) {
        text_printf(out, "# %s_%d: %s", func->name, other->launch, kind->key);
        print_line(other, " ", out);
        if (other->reason && *other->reason) {
            text_printf(out, "  # %s", other->reason);
        }
        text_char(out, '\n');
    }
}

static void print_key(const Func *func, const LineKind *kind, bool reasons, Text *out)
{
    size_t room = func->schedule->lines.n;
    const Line **lines = ARENA_ARRAY(func->arena, const Line *, room);
    size_t n = lines_of_key(func, kind, lines, room);
    if (n == 0) {
        return;
    }
    text_add(out, kind->key);
    for (size_t i = 0; i < n; i++) {
        bool comma = i > 0 && text_same(kind->subs, "*");
        print_line(lines[i], comma ? ", " : " ", out);
    }
    if (reasons) {
        print_reasons(lines, n, out);
    }
    text_char(out, '\n');
    for (size_t i = 0; i < n && reasons; i++) {
        print_others(func, kind, lines[i], out);
    }
}

void schedule_print(const Func *func, bool reasons, Text *out)
{
    for (size_t i = 0; func->schedule && i < sizeof KINDS / sizeof *KINDS; i++) {
        print_key(func, &KINDS[i], reasons, out);
    }
}
