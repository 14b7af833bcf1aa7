/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes pin files, which hold measured schedules next to a source. The writer sorts the
 * entries and keeps comments, so that changes look small in version control. */
#include "runtime/pins/pin_file.h"

#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "ir/target/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pins/size_bucket.h"

static const char HEAD[] = "tessera pins ";

const char *pins_path_for(Arena *arena, const char *source)
{
    const char *slash = strrchr(source, '/'), *dot = strrchr(source, '.');
    bool ends = dot && dot > (slash ? slash + 1 : source);
    size_t n = ends ? (size_t)(dot - source) : strlen(source);
    return arena_printf(arena, "%.*s.tune", (int)n, source);
}

/* ---- reading ---- */

/* A line without the space around it, and where it is. */
typedef struct Row {
    const char *text;
    size_t n;
    Span span;
} Row;

typedef struct Reader {
    Diags *diags;
    Arena *arena;
    int source;
    const char *text, *at, *end;
    Row row;
    Text comment;
    bool good;
} Reader;

static Diag *fail(Reader *r, Span span, const char *what)
{
    Diag *diag = diag_error(r->diags, ERR_PINS, span, "%s", what);
    r->good = false;
    return diag;
}

/* The next line that says something; comments are collected. False at the end. */
static bool next_row(Reader *r)
{
    while (r->at < r->end) {
        const char *from = r->at;
        const char *to = memchr(from, '\n', (size_t)(r->end - from));
        to = to ? to : r->end;
        r->at = to + (to < r->end);
        while (from < to && isspace((unsigned char)*from)) {
            from++;
        }
        while (to > from && isspace((unsigned char)to[-1])) {
            to--;
        }
        r->row = (Row){arena_strndup(r->arena, from, (size_t)(to - from)),
                       (size_t)(to - from),
                       {r->source, (uint32_t)(from - r->text), (uint32_t)(to - r->text)}};
        if (r->row.n > 0 && *from != '#') {
            return true;
        }
        if (r->row.n > 0) {
            text_add(&r->comment, r->row.text);
            text_char(&r->comment, '\n');
        }
    }
    r->row.span = (Span){r->source, (uint32_t)(r->end - r->text), (uint32_t)(r->end - r->text)};
    return false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool read_head(Reader *r)
{
    if (!next_row(r) || !begins(r->row.text, HEAD)) {
        Diag *diag = fail(r, r->row.span, "this is no file of pins");
        diag_help(r->diags, diag, "it begins with `%s%d`; `tessera tune pin` writes it", HEAD,
                  PINS_FORMAT);
        return false;
    }
    char *end;
    long version = strtol(r->row.text + strlen(HEAD), &end, 10);
    if (version != PINS_FORMAT || *end) {
        Diag *diag = fail(r, r->row.span, "pins of another form");
        diag_help(r->diags, diag, "this program knows `%s%d`; a later one wrote this", HEAD,
                  PINS_FORMAT);
        return false;
    }
    return true;
}

/* ---- schedule lines, as frontend/syntax/parse_schedule.c takes them ---- */

static const char *next_word(Arena *arena, const char **at)
{
    *at += strspn(*at, " \t,");
    size_t n = strcspn(*at, " \t,");
    const char *word = n ? arena_strndup(arena, *at, n) : NULL;
    *at += n;
    return word;
}

static bool is_number(const char *word)
{
    return *word && word[strspn(word, "0123456789")] == '\0' && strlen(word) <= 10;
}

static bool is_value(const ScheduleKey *kind, const char *word)
{
    return is_number(word) ? schedule_lists(kind->values, "int")
                           : !text_equal(word, "int") && schedule_lists(kind->values, word);
}

/* NULL, or what is wrong. */
static const char *wrong_line(Arena *arena, const char *text)
{
    const char *key = next_word(arena, &text), *word;
    const ScheduleKey *kind = key ? schedule_key(key) : NULL;
    bool any = false;
    if (!kind) {
        return "no schedule key has this name";
    }
    while ((word = next_word(arena, &text))) {
        bool bare = schedule_lists(kind->subs, "-") && is_value(kind, word);
        bool sub = schedule_takes_sub(kind, word);
        const char *value = !bare && sub ? next_word(arena, &text) : word;
        if ((!bare && !sub) || !value || !is_value(kind, value)) {
            return "the schedule key does not take this";
        }
        any = true;
    }
    return any ? NULL : "the schedule entry has no value";
}

static void read_lines(Reader *r, Pin *pin)
{
    while (next_row(r)) {
        if (text_equal(r->row.text, "}")) {
            return;
        }
        const char *wrong = wrong_line(r->arena, r->row.text);
        if (wrong) {
            fail(r, r->row.span, wrong);
        }
        ARENA_PUSH(r->arena, &pin->lines, ((PinLine){r->row.text, r->row.span}));
    }
    fail(r, r->row.span, "the schedule does not end: `}` is missing");
}

/* ---- entries ---- */

static const struct {
    const char *name;
    size_t at;
} FIELDS[] = {
    {"device", offsetof(Pin, device)},   {"kernel", offsetof(Pin, digest)},
    {"types", offsetof(Pin, types)},     {"sizes", offsetof(Pin, bucket)},
    {"version", offsetof(Pin, version)}, {"measured", offsetof(Pin, measured)},
};
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

static const char **field_of(Pin *pin, size_t i)
{
    return (const char **)(void *)((char *)pin + FIELDS[i].at);
}

static bool is_digest(const char *text)
{
    return strlen(text) == 32 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static bool are_buckets(Arena *arena, const char *text)
{
    const char *name;
    Bucket bucket;
    while (*text) {
        if (!bucket_read(arena, &text, &name, &bucket)) {
            return false;
        }
    }
    return true;
}

static const char *wrong_field(Reader *r, size_t i, const char *value)
{
    if (FIELDS[i].at == offsetof(Pin, digest) && !is_digest(value)) {
        return "a digest is 32 hexadecimal digits";
    }
    if (FIELDS[i].at == offsetof(Pin, bucket) && !are_buckets(r->arena, value)) {
        return "there are no such sizes: an octave is `M=2049..4096`, and maybe `%8` or `%64`";
    }
    return NULL;
}

static void read_field(Reader *r, Pin *pin)
{
    const char *text = r->row.text;
    size_t n = strcspn(text, " \t");
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (strlen(FIELDS[i].name) == n && begins(text, FIELDS[i].name)) {
            const char *value = text + n + strspn(text + n, " \t");
            const char *wrong = *field_of(pin, i) ? "this is said twice" : wrong_field(r, i, value);
            if (wrong) {
                fail(r, r->row.span, wrong);
            }
            *field_of(pin, i) = value;
            return;
        }
    }
    Diag *diag = fail(r, r->row.span, "an entry has no field of this name");
    diag_help(r->diags, diag,
              "it has device, kernel, types, sizes, version, measured, and `schedule {`");
}

/* `pin NAME on ARCH {` */
static bool read_name(Reader *r, Pin *pin)
{
    const char *at = r->row.text;
    const char *pin_word = next_word(r->arena, &at);
    pin->kernel = next_word(r->arena, &at);
    const char *on = next_word(r->arena, &at);
    pin->arch = next_word(r->arena, &at);
    const char *brace = next_word(r->arena, &at);
    pin->span = r->row.span;
    bool good = text_equal(pin_word, "pin") && brace && text_equal(on, "on") &&
                text_equal(brace, "{") && !next_word(r->arena, &at);
    if (!good) {
        Diag *diag = fail(r, r->row.span, "an entry does not begin so");
        diag_help(r->diags, diag, "`pin KERNEL on TARGET {` is wanted%s",
                  begins(at, "<<<") || begins(r->row.text, "<<<") || begins(r->row.text, "===") ||
                          begins(r->row.text, ">>>")
                      ? "; two versions of the file were not merged to the end"
                      : "");
    }
    return good;
}

static void read_entry(Reader *r, Pins *pins)
{
    Pin pin = {0};
    if (!read_name(r, &pin)) {
        return;
    }
    bool ends = false;
    while (!ends && next_row(r)) {
        ends = text_equal(r->row.text, "}");
        if (text_equal(r->row.text, "schedule {")) {
            read_lines(r, &pin);
        } else if (!ends) {
            read_field(r, &pin);
        }
    }
    if (!ends) {
        fail(r, r->row.span, "the entry does not end: `}` is missing");
    }
    for (size_t i = 0; i < N_FIELDS; i++) {
        bool needed = FIELDS[i].at == offsetof(Pin, digest) ||
                      FIELDS[i].at == offsetof(Pin, device) ||
                      FIELDS[i].at == offsetof(Pin, version);
        if (ends && needed && !*field_of(&pin, i)) {
            fail(r, pin.span,
                 arena_printf(r->arena, "the entry does not say its %s", FIELDS[i].name));
        }
        *field_of(&pin, i) = *field_of(&pin, i) ? *field_of(&pin, i) : "";
    }
    pin.comment = r->comment.n ? arena_strdup(r->arena, r->comment.data) : "";
    r->comment = text_new(r->arena);
    for (size_t i = 0; i < pins->n; i++) {
        if (pin_same_place(&pins->items[i], &pin)) {
            Diag *diag = fail(r, pin.span, "two entries are for the same");
            diag_label(r->diags, diag, pins->items[i].span, "and here");
        }
    }
    ARENA_PUSH(r->arena, pins, pin);
}

bool pins_read(Diags *diags, Arena *arena, int source, Pins *pins)
{
    const Source *file = &diags->sources.items[source];
    size_t mark = text_mark(file->text, file->n);
    Reader r = {.diags = diags,
                .arena = arena,
                .source = source,
                .text = file->text,
                .at = file->text + mark,
                .end = file->text + file->n,
                .comment = text_new(arena),
                .good = true};
    *pins = (Pins){.tail = ""};
    if (memchr(file->text, 0, file->n)) {
        fail(&r, (Span){source, 0, 0}, "this is no text");
        return false;
    }
    while (r.good && r.at < r.end) {
        if (!read_head(&r)) {
            return false;
        }
        break;
    }
    while (r.good && next_row(&r)) {
        read_entry(&r, pins);
    }
    pins->tail = r.comment.n ? r.comment.data : "";
    return r.good;
}

/* ---- writing ---- */

static int compare_places(const Pin *a, const Pin *b)
{
    const char *left[] = {a->kernel, a->types, a->arch, a->device, a->bucket};
    const char *right[] = {b->kernel, b->types, b->arch, b->device, b->bucket};
    int by = 0;
    for (int i = 0; i < 5 && by == 0; i++) {
        by = strcmp(left[i], right[i]);
    }
    return by;
}

bool pin_same_place(const Pin *a, const Pin *b)
{
    return compare_places(a, b) == 0;
}

void pins_put(Arena *arena, Pins *pins, const Pin *pin)
{
    for (size_t i = 0; i < pins->n; i++) {
        Pin *old = &pins->items[i];
        if (pin_same_place(old, pin)) {
            const char *comment = old->comment;
            *old = *pin;
            old->comment = comment;
            return;
        }
    }
    ARENA_PUSH(arena, pins, *pin);
    Pin *last = &pins->items[pins->n - 1];
    last->comment = last->comment ? last->comment : "";
}

static int compare_pins(const void *a, const void *b)
{
    return compare_places(a, b);
}

static void print_pin(Pin *pin, Text *out)
{
    text_printf(out, "\n%spin %s on %s {\n", pin->comment, pin->kernel, pin->arch);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *value = *field_of(pin, i);
        if (*value) {
            text_printf(out, "    %s %s\n", FIELDS[i].name, value);
        }
    }
    text_add(out, "    schedule {\n");
    for (size_t i = 0; i < pin->lines.n; i++) {
        text_printf(out, "        %s\n", pin->lines.items[i].text);
    }
    text_add(out, "    }\n}\n");
}

void pins_print(Arena *arena, const Pins *pins, Text *out)
{
    Pin *sorted = ARENA_ARRAY(arena, Pin, pins->n + 1);
    if (pins->n > 0) {
        memcpy(sorted, pins->items, pins->n * sizeof *sorted);
        qsort(sorted, pins->n, sizeof *sorted, compare_pins);
    }
    text_printf(out, "%s%d\n", HEAD, PINS_FORMAT);
    for (size_t i = 0; i < pins->n; i++) {
        print_pin(&sorted[i], out);
    }
    if (pins->tail && *pins->tail) {
        text_printf(out, "\n%s", pins->tail);
    }
}
