/* SPDX-License-Identifier: Apache-2.0 */
/* Parses schedule and tune blocks: entries of key, subkey and value, checked against
 * ir/schedule.def. */
#include "frontend/syntax/parser.h"

#include "ir/schedule.h"
#include "ir/target/target.h"

#include <string.h>

enum { MAX_CHOICES = 1024 /* values of a range */, MAX_LAUNCHES = 1000 };

static bool at_entry_end(const Parser *p)
{
    return p->token.first || parser_at(p, TOK_SEMI) || parser_at(p, TOK_RBRACE);
}

static void unknown_key(Parser *p, Span span, const char *key)
{
    size_t n;
    const ScheduleKey *kinds = schedule_keys(&n);
    const char *similar = nearest_schedule_key(key);
    Text all = text_new(p->arena);
    for (size_t i = 0; i < n; i++) {
        text_printf(&all, "%s%s", i ? ", " : "", kinds[i].key);
    }
    p->recovering = true;
    Diag *diag =
        front_error(p->diags, ERR_SCHEDULE_KEY, span, "no schedule key is called `%s`", key);
    if (similar) {
        diag_help(p->diags, diag, "did you mean `%s`?", similar);
        diag_fix(p->diags, diag, span, "%s", similar);
    } else {
        diag_help(p->diags, diag, "there are %s", all.data);
    }
}

/* Describes the values of a key: "on off" as "`on`, `off`"; "int" and "-" in words. */
static const char *choices(Parser *p, const char *names)
{
    Text text = text_new(p->arena);
    const char *at = names;
    while (*at) {
        size_t n = strcspn(at, " ");
        const char *name = arena_strndup(p->arena, at, n);
        at += n + strspn(at + n, " ");
        if (text_equal(name, "-")) {
            continue;
        }
        text_add(&text, text.n ? ", " : "");
        if (text_equal(name, "int")) {
            text_add(&text, "a whole number");
        } else if (text_equal(name, "*")) {
            text_add(&text, "a dimension");
        } else {
            text_printf(&text, "`%s`", name);
        }
    }
    return text.data;
}

static void wrong_value(Parser *p, const ScheduleKey *kind, Span span)
{
    p->recovering = true;
    Diag *diag =
        front_error(p->diags, ERR_SCHEDULE_VALUE, span, "`%s` does not take this", kind->key);
    const char *subs = choices(p, kind->subs), *values = choices(p, kind->values);
    if (*subs) {
        diag_help(p->diags, diag, "it takes %s%s, then %s",
                  schedule_lists(kind->subs, "-") ? "maybe " : "", subs, values);
    } else {
        diag_help(p->diags, diag, "it takes %s", values);
    }
}

/* The value at the cursor; false after an error. */
static bool parse_value(Parser *p, const ScheduleKey *kind, EntryDecl *entry)
{
    entry->span = span_join(entry->span, p->token.span);
    if (parser_at(p, TOK_INT) && schedule_lists(kind->values, "int")) {
        entry->number = p->token.integer;
    } else if (parser_at(p, TOK_NAME) && !parser_at_word(p, "int") &&
               schedule_lists(kind->values, token_name(p, p->token))) {
        entry->symbol = token_name(p, p->token);
    } else {
        wrong_value(p, kind, p->token.span);
        return false;
    }
    parser_next(p);
    return true;
}

/* True if the name at the cursor is a subkey, which a value follows. */
static bool at_sub(const Parser *p, const ScheduleKey *kind)
{
    if (!parser_at(p, TOK_NAME)) {
        return false;
    }
    return schedule_takes_sub(kind, token_name(p, p->token));
}

static EntryDecl parse_sub(Parser *p, const ScheduleKey *kind, const EntryDecl *of)
{
    EntryDecl entry = *of;
    entry.key = kind->key;
    entry.sub = "";
    entry.sub_span = p->token.span;
    if (at_sub(p, kind)) {
        entry.sub = token_name(p, p->token);
        entry.span = p->token.span;
        parser_next(p);
    } else if (!schedule_lists(kind->subs, "-")) {
        wrong_value(p, kind, p->token.span);
    }
    return entry;
}

/* Parses `launch 1:`, which an entry follows. */
static void parse_launch(Parser *p, EntryDecl *entry)
{
    *entry = (EntryDecl){.span = p->token.span};
    if (!parser_take_word(p, "launch")) {
        return;
    }
    if (!parser_at(p, TOK_INT) || p->token.integer > MAX_LAUNCHES) {
        p->recovering = true;
        Diag *diag = front_error(p->diags, ERR_SCHEDULE_VALUE, p->token.span,
                                 "`launch` takes the number of one of the kernel's launches");
        diag_help(p->diags, diag,
                  "`tessera explain` shows them: the first one is 0, as in `launch 0: warps 8`");
        return;
    }
    entry->per_launch = true;
    entry->launch = (int)p->token.integer;
    parser_next(p);
    parser_expect(p, TOK_COLON, "and the line that is for this launch");
}

static const ScheduleKey *parse_key(Parser *p, Span *span)
{
    *span = p->token.span;
    if (p->recovering) {
        return NULL;
    }
    const char *name = parser_name(p, "a schedule entry");
    if (p->recovering) {
        return NULL;
    }
    const ScheduleKey *kind = schedule_key(name);
    if (!kind) {
        unknown_key(p, *span, name);
    }
    return kind;
}

static void parse_entry(Parser *p, ScheduleDecl *schedule)
{
    EntryDecl of;
    parse_launch(p, &of);
    const ScheduleKey *kind = parse_key(p, &of.span);
    if (kind && at_entry_end(p)) {
        wrong_value(p, kind, of.span);
    }
    while (kind && !p->recovering && !at_entry_end(p)) {
        EntryDecl entry = parse_sub(p, kind, &of);
        if (!p->recovering && parse_value(p, kind, &entry)) {
            ARENA_PUSH(p->arena, &schedule->entries, entry);
            parser_count(p);
            parser_take(p, TOK_COMMA);
        }
    }
}

/* Parses `2..6`; both ends are included. */
static bool parse_last(Parser *p, const ScheduleKey *kind, const EntryDecl *first,
                       ChoiceValue *value)
{
    EntryDecl last = {.key = kind->key, .span = p->token.span};
    if (!parse_value(p, kind, &last)) {
        return false;
    }
    value->span = span_join(first->span, last.span);
    value->last = last.number;
    bool numbers = !first->symbol && !last.symbol;
    if (numbers && last.number >= first->number && last.number - first->number < MAX_CHOICES) {
        return true;
    }
    Diag *diag = front_error(p->diags, ERR_CHOICE, value->span, "this is no range to try");
    if (!numbers) {
        diag_help(p->diags, diag, "a range consists of numbers; list words one by one");
    } else if (last.number < first->number) {
        diag_help(p->diags, diag, "no number is in it; did you mean `%lld..%lld`?",
                  (long long)last.number, (long long)first->number);
        diag_fix(p->diags, diag, value->span, "%lld..%lld", (long long)last.number,
                 (long long)first->number);
    } else {
        diag_help(p->diags, diag, "a range has %d values at most", MAX_CHOICES);
    }
    return false;
}

/* Parses the values that a search may try: `in 64, 128` or `in 2..6`. */
static void parse_choices(Parser *p, const ScheduleKey *kind, ChoiceDecl *choice)
{
    if (!parser_expect(p, TOK_IN, "and the values to try")) {
        return;
    }
    do {
        EntryDecl entry = {.key = kind->key, .span = p->token.span};
        if (parse_value(p, kind, &entry)) {
            ChoiceValue value = {entry.symbol, entry.number, entry.number, entry.span};
            if (!parser_take(p, TOK_DOTS) || parse_last(p, kind, &entry, &value)) {
                ARENA_PUSH(p->arena, &choice->values, value);
            }
        }
    } while (!p->recovering && parser_take(p, TOK_COMMA));
}

static void parse_choice(Parser *p, ScheduleDecl *schedule)
{
    EntryDecl of;
    parse_launch(p, &of);
    const ScheduleKey *kind = parse_key(p, &of.span);
    if (!kind) {
        return;
    }
    ChoiceDecl choice = {.entry = of};
    choice.entry.key = kind->key;
    choice.entry.sub = "";
    choice.entry.sub_span = of.span;
    if (!parser_at(p, TOK_IN)) {
        choice.entry = parse_sub(p, kind, &of);
    } else if (!schedule_lists(kind->subs, "-")) {
        wrong_value(p, kind, p->token.span);
    }
    if (!p->recovering) {
        parse_choices(p, kind, &choice);
        ARENA_PUSH(p->arena, &schedule->choices, choice);
        parser_count(p);
    }
}

/* A target's name may contain dashes: tokens that follow without a space belong to it. */
static const char *parse_target(Parser *p)
{
    Span span = p->token.span;
    parser_name(p, "a target");
    while (!p->recovering && p->token.span.start == span.end && !parser_at(p, TOK_LBRACE) &&
           !parser_at(p, TOK_COMMA) && !parser_at(p, TOK_END)) {
        span.end = p->token.span.end;
        parser_next(p);
    }
    const char *name = source_text(p->diags, p->arena, span);
    if (p->recovering || target_find(name)) {
        return name;
    }
    const char *similar = nearest_target(name);
    Diag *diag = front_error(p->diags, ERR_TARGET, span, "no target is called `%s`", name);
    if (similar) {
        diag_help(p->diags, diag, "did you mean `%s`?", similar);
        diag_fix(p->diags, diag, span, "%s", similar);
    } else {
        diag_help(p->diags, diag, "`tessera targets` lists all");
    }
    return name;
}

static ScheduleDecl *parse_head(Parser *p, bool tune)
{
    ScheduleDecl *schedule = ARENA_NEW(p->arena, ScheduleDecl);
    schedule->tune = tune;
    schedule->full_span = p->token.span;
    parser_next(p);
    schedule->span = p->token.span;
    schedule->kernel = parser_name(p, "the name of a kernel");
    if (!tune && !p->recovering && parser_take_word(p, "as")) {
        Span span = p->token.span;
        const char *name = parser_name(p, "the name of this schedule");
        if (!p->recovering && schedule_key(name)) {
            front_error(p->diags, ERR_SCHEDULE_KEY, span,
                        "a schedule cannot be called `%s`: that is a key", name);
        }
        schedule->name = name;
    }
    if (!p->recovering && parser_take_word(p, "on")) {
        do {
            ARENA_PUSH(p->arena, &schedule->targets, parse_target(p));
        } while (!p->recovering && parser_take(p, TOK_COMMA));
    }
    if (!p->recovering && parser_take_word(p, "when")) {
        schedule->when = parse_expr(p);
    }
    if (!p->recovering) {
        parser_expect(p, TOK_LBRACE, "to begin the schedule");
    }
    return schedule;
}

static void parse_entries(Parser *p, ScheduleDecl *schedule, bool tune)
{
    while (!p->recovering && !parser_at(p, TOK_RBRACE) && !parser_at(p, TOK_END)) {
        if (parser_take(p, TOK_SEMI)) {
            continue;
        }
        size_t before = p->lexer.at;
        if (tune) {
            parse_choice(p, schedule);
        } else {
            parse_entry(p, schedule);
        }
        if (p->recovering && p->lexer.at == before) {
            parser_next(p);
        }
        if (p->recovering) {
            parser_recover(p, UINT32_MAX);
        }
    }
    parser_expect(p, TOK_RBRACE, "at the end of the schedule");
    schedule->full_span = span_join(schedule->full_span, p->last);
}

void parse_schedule(Parser *p)
{
    ScheduleDecl *schedule = parse_head(p, false);
    parse_entries(p, schedule, false);
    ARENA_PUSH(p->arena, &p->module->schedules, schedule);
}

/* The entries of a tune block are checked here; `tessera tune` uses them. */
void parse_tune(Parser *p)
{
    ScheduleDecl *schedule = parse_head(p, true);
    parse_entries(p, schedule, true);
    ARENA_PUSH(p->arena, &p->module->schedules, schedule);
}
