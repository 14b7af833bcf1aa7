/* SPDX-License-Identifier: Apache-2.0 */
/* Schedule entries from the command line or the API, in the syntax of a source's schedule block
 * ("tile M 128, N 256", "warps 8 producer 4"), or the name of one of the source's schedules. */
#include "frontend/messages/frontend_errors.h"
#include "runtime/compile/compilation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64, MAX_NUMBER = 1 << 30 };

typedef struct Words {
    const char *items[MAX_WORDS];
    size_t n, at;
} Words;

/* A line, and who says it. */
typedef struct EntryText {
    Func *func;
    const char *line;
    bool alone; /* `launch 1: …` */
    int launch;
    EntryOrigin origin;
    Span span;
    const char *where; /* of a pinned one */
} EntryText;

static bool complain(const EntryText *entry, const char *what, const char *word)
{
    diag_failure_at(entry->func->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, entry->span,
                    "schedule entry '%s': %s%s%s%s", entry->line, what, word ? " '" : "",
                    word ? word : "", word ? "'" : "");
    return false;
}

/* The name of the first axis of the kernel. */
static const char *any_axis(const Func *func)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i]->name) {
            return func->dimvars.items[i]->name;
        }
    }
    return "AXIS";
}

/* Reports an entry whose words do not fit its key, and how entries of the key are written. */
static bool refuse_words(const EntryText *entry, const ScheduleKey *kind, const char *what,
                         const char *word)
{
    Func *func = entry->func;
    Diag *diag = diag_failure_at(func->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, entry->span,
                                 "schedule entry '%s': %s%s%s%s", entry->line, what,
                                 word ? " '" : "", word ? word : "", word ? "'" : "");
    bool counts = schedule_lists(kind->values, "int");
    const char *value =
        counts ? "NUMBER" : arena_strndup(func->arena, kind->values, strcspn(kind->values, " "));
    Text usage = text_new(func->arena);
    for (const char *at = kind->subs; *at;) {
        size_t n = strcspn(at, " ");
        const char *sub = arena_strndup(func->arena, at, n);
        at += n + strspn(at + n, " ");
        text_printf(&usage, "%s`%s ", usage.n ? " or " : "", kind->key);
        if (!text_equal(sub, "-")) {
            text_printf(&usage, "%s ", text_equal(sub, "*") ? any_axis(func) : sub);
        }
        text_printf(&usage, "%s`", value);
    }
    if (counts) {
        diag_help(func->diags, diag, "write %s, with a whole number from 0 to %lld", usage.data,
                  (long long)MAX_NUMBER);
    } else {
        diag_help(func->diags, diag, "write %s; its values are: %s", usage.data, kind->values);
    }
    return false;
}

static bool split(const EntryText *entry, Words *words)
{
    const char *gaps = " \t,;:=\n";
    for (const char *at = entry->line + strspn(entry->line, gaps); *at; at += strspn(at, gaps)) {
        size_t n = strcspn(at, gaps);
        if (words->n == MAX_WORDS) {
            return complain(entry, "too many words", NULL);
        }
        words->items[words->n++] = arena_strndup(entry->func->arena, at, n);
        at += n;
    }
    return words->n > 0 || complain(entry, "nothing in it", NULL);
}

static bool as_number(const char *word, int64_t *number)
{
    char *end;
    long long value = strtoll(word, &end, 10);
    *number = value;
    return end != word && *end == '\0' && value >= 0 && value <= MAX_NUMBER;
}

/* A subkey is named by the table, or a dimension where the table says so. */
static bool is_sub(const ScheduleKey *kind, const Words *words)
{
    const char *word = words->items[words->at];
    int64_t number;
    if (words->at + 1 >= words->n || as_number(word, &number)) {
        return false;
    }
    return schedule_takes_sub(kind, word);
}

/* Sizes and loop variables of the kernel; an error names them. */
static bool check_axis(const EntryText *entry, const char *axis)
{
    Func *func = entry->func;
    if (schedule_names_axis(axis, NULL)) {
        return true;
    }
    Text all = text_new(func->arena);
    Nearest nearest = nearest_to(axis);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const char *name = func->dimvars.items[i]->name;
        if (name && schedule_names_axis(axis, name)) {
            return true;
        }
        if (name) {
            nearest_try(&nearest, name);
            text_printf(&all, "%s%s", all.n ? ", " : "", name);
        }
    }
    Diag *diag =
        diag_failure_at(func->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, entry->span,
                        "schedule entry '%s': %s has no axis '%s'", entry->line, func->name, axis);
    if (nearest_found(&nearest)) {
        diag_help(func->diags, diag, "did you mean '%s'? its axes are %s", nearest_found(&nearest),
                  all.data);
    } else {
        diag_help(func->diags, diag, all.n ? "its axes are %s" : "it has no size to name%s",
                  all.data);
    }
    return false;
}

/* Of lines that disagree none is meant. */
static bool check_once(const EntryText *entry, const ScheduleEntry *line)
{
    Func *func = entry->func;
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *old = &func->schedule->entries.items[i];
        if (old->origin == entry->origin && schedule_same_name(old, line)) {
            const char *name = schedule_name(func->arena, line);
            Diag *diag =
                diag_failure_at(func->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, entry->span,
                                "schedule entry '%s': '%s' is given twice", entry->line, name);
            if (old->symbol) {
                diag_note(func->diags, diag, "before: '%s %s'", name, old->symbol);
            } else {
                diag_note(func->diags, diag, "before: '%s %lld'", name, (long long)old->number);
            }
            return false;
        }
    }
    return true;
}

static bool give_one(const EntryText *entry, const ScheduleKey *kind, Words *words)
{
    bool sub_given = is_sub(kind, words);
    const char *sub = sub_given ? words->items[words->at++] : "";
    const char *word = words->items[words->at++];
    int64_t number = 0;
    bool is_number = as_number(word, &number);
    if (!sub_given && !schedule_lists(kind->subs, "-")) {
        return refuse_words(entry, kind, "it needs a name before", word);
    }
    if (is_number ? !schedule_lists(kind->values, "int") : !schedule_lists(kind->values, word)) {
        return refuse_words(entry, kind, "no such value:", word);
    }
    bool axis = sub_given && schedule_lists(kind->subs, "*");
    ScheduleEntry line = {.key = kind->key,
                          .sub = sub,
                          .symbol = is_number ? NULL : word,
                          .number = number,
                          .origin = entry->origin,
                          .reason = entry->where,
                          .span = entry->span,
                          .per_launch = entry->alone,
                          .launch = entry->launch};
    if ((axis && !check_axis(entry, sub)) || !check_once(entry, &line)) {
        return false;
    }
    schedule_add_user(entry->func, line);
    return true;
}

/* One word that is no key: which of the source's named schedules is meant
 * (frontend/schedule/schedule_blocks.c). */
static bool is_name(const EntryText *entry, const Words *words)
{
    return entry->origin == ENTRY_COMMAND && words->n == 1 && !schedule_key(words->items[0]);
}

/* `launch 1:` before the line itself. */
static bool take_launch(EntryText *entry, Words *words)
{
    int64_t number;
    if (!text_equal(words->items[words->at], "launch")) {
        return true;
    }
    if (words->n < 3 || !as_number(words->items[1], &number)) {
        return complain(entry, "`launch` takes a number and an entry, as in 'launch 0: warps 8'",
                        NULL);
    }
    entry->alone = true;
    entry->launch = (int)number;
    words->at = 2;
    return true;
}

static bool give_line(EntryText *entry)
{
    Words words = {.n = 0};
    if (!split(entry, &words)) {
        return false;
    }
    if (is_name(entry, &words)) {
        return true;
    }
    if (!take_launch(entry, &words)) {
        return false;
    }
    const char *key = words.items[words.at++];
    const ScheduleKey *kind = schedule_key(key);
    if (!kind) {
        const char *similar = nearest_schedule_key(key);
        Diag *diag =
            diag_failure_at(entry->func->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, entry->span,
                            "schedule entry '%s': no such key: '%s'", entry->line, key);
        if (similar) {
            diag_help(entry->func->diags, diag, "did you mean '%s'?", similar);
        } else {
            size_t n;
            const ScheduleKey *kinds = schedule_keys(&n);
            Text all = text_new(entry->func->arena);
            for (size_t i = 0; i < n; i++) {
                text_printf(&all, "%s%s", i ? ", " : "", kinds[i].key);
            }
            diag_help(entry->func->diags, diag, "the keys are %s", all.data);
        }
        return false;
    }
    if (words.n == words.at) {
        return refuse_words(entry, kind, "it has no value", NULL);
    }
    while (words.at < words.n) {
        if (!give_one(entry, kind, &words)) {
            return false;
        }
    }
    return true;
}

void lines_warn_unused(Func *func)
{
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        bool off = line->symbol && text_equal(line->symbol, "off"); /* as it is, then */
        if (line->origin > ENTRY_PINNED && !line->used && !off) {
            Diag *diag =
                diag_warning(func->diags, 0, line->span, "schedule entry `%s` decides nothing here",
                             schedule_name(func->arena, line));
            int launches = 0;
            for (const Op *op = func->body->first; op; op = op->next) {
                launches += op->kind == OP_LAUNCH;
            }
            if (line->per_launch && line->launch >= launches) {
                diag_note(func->diags, diag, "%s on %s has %d launch%s, counted from 0", func->name,
                          func->target->name, launches, launches == 1 ? "" : "es");
            } else {
                diag_note(func->diags, diag, "it applies to %s; %s on %s has none",
                          schedule_key(line->key)->where, func->name, func->target->name);
            }
        }
    }
}

/* What stands between `;` are lines of their own. A text of nothing but these is one line, which is
 * complained of. */
static const char **parts_of(const Func *func, const char *text, size_t *n)
{
    const char **parts = ARENA_ARRAY(func->arena, const char *, strlen(text) + 1);
    *n = 0;
    for (const char *at = text; *at; at += *at == ';') {
        at += strspn(at, " \t\n");
        size_t length = strcspn(at, ";");
        if (length > 0) {
            parts[(*n)++] = arena_strndup(func->arena, at, length);
        }
        at += length;
    }
    if (*n == 0) {
        parts[(*n)++] = text;
    }
    return parts;
}

static bool give_text(Func *func, const char *text)
{
    bool ok = true;
    size_t n;
    const char **parts = parts_of(func, text, &n);
    for (size_t i = 0; i < n; i++) {
        EntryText entry = {
            .func = func, .line = parts[i], .origin = ENTRY_COMMAND, .span = SPAN_NONE};
        ok = give_line(&entry) && ok;
    }
    return ok;
}

bool schedule_entries_apply(Func *func, const char *const *lines, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        ok = give_text(func, lines[i]) && ok;
    }
    return ok;
}

static bool name_in(Func *func, const char *line, const char **name)
{
    EntryText entry = {.func = func, .line = line, .origin = ENTRY_COMMAND, .span = SPAN_NONE};
    Words words = {.n = 0};
    if (!split(&entry, &words)) {
        return false;
    }
    if (is_name(&entry, &words)) {
        if (*name && !text_equal(*name, words.items[0])) {
            return complain(&entry, "another schedule was chosen already:", *name);
        }
        *name = words.items[0];
    }
    return true;
}

bool lines_name(Func *func, const char *const *lines, size_t n, const char **name)
{
    *name = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t n_parts;
        const char **parts = parts_of(func, lines[i], &n_parts);
        for (size_t k = 0; k < n_parts; k++) {
            if (!name_in(func, parts[k], name)) {
                return false;
            }
        }
    }
    return true;
}

bool line_pin(Func *func, const char *line, Span span, const char *where)
{
    EntryText entry = {
        .func = func, .line = line, .origin = ENTRY_PINNED, .span = span, .where = where};
    return give_line(&entry);
}
