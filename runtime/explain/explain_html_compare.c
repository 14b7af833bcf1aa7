/* SPDX-License-Identifier: Apache-2.0 */
/* Two schedules of one kernel side by side: what they decide, and what their launches cost. */
#include "runtime/explain/explain_html.h"

#include "runtime/explain/explain_words.h"

#include <math.h>
#include <string.h>

/* ---- launches ---- */

typedef void CellFn(const Report *report, const LaunchReport *launch, Text *out);

static void tiles_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    (void)report;
    html_words(out, launch->tiles);
}

static void grid_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    shape_words(report, launch, out);
}

static void shared_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    (void)report;
    text_printf(out, "%d bytes", launch->shared_bytes);
}

static void occupancy_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    const Occupancy *o = &launch->occupancy;
    if (o->known) {
        text_printf(out, "%d block%s, %d of %d warps, limited by %s", o->resident,
                    o->resident == 1 ? "" : "s", o->warps, target_warps(report->target),
                    limit_name(o->limit));
    }
}

static void registers_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    (void)report;
    if (launch->assembled) {
        text_printf(out, "%d", launch->assembled->registers);
        text_printf(out, launch->assembled->spilled ? ", %d bytes spilled" : "",
                    launch->assembled->spilled);
    }
}

static void once_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    if (report->sized) {
        scaled_words(out, launch->roofline.read, "B read, ");
        scaled_words(out, launch->roofline.written, "B written");
    }
}

static void memory_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    if (report->sized && report->card) {
        scaled_words(out, launch->roofline.memory_read, "B read, ");
        scaled_words(out, launch->roofline.memory_written, "B written");
    }
}

static void asked_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    if (report->sized) {
        scaled_words(out, launch->roofline.asked_read, "B read, ");
        scaled_words(out, launch->roofline.asked_written, "B written");
    }
}

static void conflicts_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    double more = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        more += traffic_is_shared(at->kind) ? at->wavefronts - at->least_wavefronts : 0;
    }
    if (report->sized && report->card) {
        scaled_words(out, more, "");
    }
}

static void least_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    const Roofline *r = &launch->roofline;
    if (report->sized && report->card) {
        seconds_words(out, fmax(r->memory_seconds, r->compute_seconds));
        text_printf(out, ", bound by %s", r->memory_bound ? "memory" : "arithmetic");
    }
}

static void expected_cell(const Report *report, const LaunchReport *launch, Text *out)
{
    (void)report;
    if (launch->predicted > 0) {
        expected_words(out, launch);
    }
}

static const struct {
    const char *name;
    CellFn *cell;
} ROWS[] = {
    {"tile", tiles_cell},
    {"grid", grid_cell},
    {"shared memory", shared_cell},
    {"occupancy", occupancy_cell},
    {"registers a thread", registers_cell},
    {"memory, each array once", once_cell},
    {"memory, expected", memory_cell},
    {"asked of the caches", asked_cell},
    {"bank conflicts", conflicts_cell},
    {"at least", least_cell},
    {"expected", expected_cell},
};

static const TimePart *find_part(const LaunchReport *launch, const char *what)
{
    for (int i = 0; launch && i < launch->course.n_parts; i++) {
        if (text_equal(launch->course.parts[i].what, what)) {
            return &launch->course.parts[i];
        }
    }
    return NULL;
}

/* What stands in a cell, and why it does; both as HTML. */
typedef struct Cell {
    const char *value, *why;
} Cell;

static Cell cell_of(const Report *report, int i, CellFn *cell)
{
    Text out = text_new(report->input->func->arena);
    if (i < report->n_launches) {
        cell(report, &report->launches[i], &out);
    }
    return (Cell){out.data ? out.data : "", ""};
}

/* A row of three cells; what differs is marked for eyes and for those who hear the page. */
static void compare_row(const char *name, Cell left, Cell right, Text *out)
{
    bool same = text_equal(left.value, right.value);
    const char *mark = same ? "" : "b";
    if (!*left.value && !*right.value) {
        return;
    }
    text_printf(out, "\n<tr%s><th scope=row>", same ? "" : " class=differs");
    html_words(out, name);
    text_add(out, same ? "" : " <small>differs</small>");
    for (int i = 0; i < 2; i++) {
        const Cell *cell = i ? &right : &left;
        text_printf(out, *mark ? "<td><b>%s</b>" : "<td>%s", cell->value);
        text_printf(out, *cell->why ? " <span class=soft>%s</span>" : "%s", cell->why);
    }
}

static Cell part_cell(Arena *arena, const TimePart *part)
{
    Text out = text_new(arena);
    if (part) {
        seconds_words(&out, part->seconds);
    }
    return (Cell){out.data ? out.data : "", ""};
}

/* What the expected times consist of: the parts of the left one, then those of the right alone. */
static void compare_parts(const Report *left, const Report *right, int i, Text *out)
{
    Arena *arena = left->input->func->arena;
    const LaunchReport *mine = i < left->n_launches ? &left->launches[i] : NULL,
                       *other = i < right->n_launches ? &right->launches[i] : NULL;
    for (int k = 0; mine && k < mine->course.n_parts; k++) {
        const TimePart *part = &mine->course.parts[k];
        compare_row(part->what, part_cell(arena, part),
                    part_cell(arena, find_part(other, part->what)), out);
    }
    for (int k = 0; other && k < other->course.n_parts; k++) {
        const TimePart *part = &other->course.parts[k];
        if (!find_part(mine, part->what)) {
            compare_row(part->what, (Cell){"", ""}, part_cell(arena, part), out);
        }
    }
}

static void compare_launch(const Report *left, const Report *right, int i, Text *out)
{
    const char *name =
        i < left->n_launches ? left->launches[i].plan->symbol : right->launches[i].plan->symbol;
    text_printf(out,
                "<h3>%s</h3><div class=wide tabindex=0><table class=\"lines compare\"><tr><th>"
                "<th>this schedule<th>the other one",
                name);
    if (i >= left->n_launches || i >= right->n_launches) {
        compare_row("launch", (Cell){i < left->n_launches ? name : "none", ""},
                    (Cell){i < right->n_launches ? name : "none", ""}, out);
    }
    for (size_t k = 0; k < sizeof ROWS / sizeof *ROWS; k++) {
        compare_row(ROWS[k].name, cell_of(left, i, ROWS[k].cell), cell_of(right, i, ROWS[k].cell),
                    out);
    }
    compare_parts(left, right, i, out);
    text_add(out, "</table></div>\n");
    if (i < right->n_launches) {
        static const char of[] = " of the other schedule";
        Text pictures = text_new(left->input->func->arena);
        html_order(right, &right->launches[i], of, &pictures);
        html_timeline(right, &right->launches[i], of, &pictures);
        if (pictures.n > 0) {
            text_add(out, "<details><summary>Pictures of the other schedule</summary>\n");
            text_add_n(out, pictures.data, pictures.n);
            text_add(out, "</details>\n");
        }
    }
}

/* ---- schedules ---- */

/* The next entry of a schedule block: "tile M 128, N 256  # why"; NULL: no more. */
static const char *next_entry(const char **at, size_t *n)
{
    while (**at) {
        const char *line = *at, *end = strchr(line, '\n');
        *at = end ? end + 1 : line + strlen(line);
        size_t length = end ? (size_t)(end - line) : strlen(line);
        if (length > 4 && memcmp(line, "    ", 4) == 0) {
            *n = length - 4;
            return line + 4;
        }
    }
    return NULL;
}

static size_t key_length(const char *entry, size_t n)
{
    size_t key = 0;
    while (key < n && entry[key] != ' ') {
        key++;
    }
    return key;
}

static bool has_key(const char *entry, size_t n, const char *key, size_t key_n)
{
    return key_length(entry, n) == key_n && memcmp(entry, key, key_n) == 0;
}

/* Entries before `upto` with its key. */
static int count_before(const char *block, const char *upto, size_t upto_n)
{
    size_t n, key = key_length(upto, upto_n);
    int before = 0;
    for (const char *entry; (entry = next_entry(&block, &n)) && entry != upto;) {
        before += has_key(entry, n, upto, key);
    }
    return before;
}

/* The entry of `block` with this key that has this many others with it before. */
static const char *find_entry(const char *block, const char *key, size_t key_n, int nth, size_t *n)
{
    for (const char *entry; (entry = next_entry(&block, n));) {
        if (has_key(entry, *n, key, key_n) && nth-- == 0) {
            return entry;
        }
    }
    return NULL;
}

static const char *escaped(Arena *arena, const char *text, size_t n)
{
    Text out = text_new(arena);
    html_words_n(&out, text, n);
    return out.data ? out.data : "";
}

/* "M 128, N 256", and the reason behind `#`. */
static Cell entry_cell(Arena *arena, const char *entry, size_t n)
{
    static const char mark[] = "  # ";
    if (!entry) {
        return (Cell){"", ""};
    }
    size_t from = key_length(entry, n), value = from;
    while (value < n && (n - value < strlen(mark) || memcmp(entry + value, mark, strlen(mark)))) {
        value++;
    }
    size_t why = value < n ? value + strlen(mark) : n;
    return (Cell){escaped(arena, entry + from, value - from), escaped(arena, entry + why, n - why)};
}

static void compare_entries(const Report *left, const Report *right, Text *out)
{
    Arena *arena = left->input->func->arena;
    const char *mine = left->input->schedule, *other = right->input->schedule, *entry;
    size_t n, other_n;
    text_add(out, "<h3>Decisions</h3><div class=wide tabindex=0><table class=\"lines compare\">"
                  "<tr><th>key<th>this schedule<th>the other one");
    for (const char *at = mine; (entry = next_entry(&at, &n));) {
        size_t key = key_length(entry, n);
        const char *found = find_entry(other, entry, key, count_before(mine, entry, n), &other_n);
        compare_row(arena_strndup(arena, entry, key), entry_cell(arena, entry, n),
                    entry_cell(arena, found, other_n), out);
    }
    for (const char *at = other; (entry = next_entry(&at, &n));) {
        size_t key = key_length(entry, n), unused;
        if (!find_entry(mine, entry, key, count_before(other, entry, n), &unused)) {
            compare_row(arena_strndup(arena, entry, key), (Cell){"", ""},
                        entry_cell(arena, entry, n), out);
        }
    }
    text_add(out, "</table></div>\n");
}

/* ---- the whole ---- */

static double expected_seconds(const Report *report)
{
    double seconds = 0;
    for (int i = 0; i < report->n_launches; i++) {
        if (report->launches[i].predicted <= 0) {
            return 0;
        }
        seconds += report->launches[i].predicted;
    }
    return seconds;
}

void html_compare(const Report *left, const Report *right, Text *out)
{
    text_add(out, "<h2 id=compare>Two schedules</h2>\n<p>The rest of this page is of the first "
                  "one; the IR of both after each pass can be compared "
                  "<a href=\"#differences\">below</a>.");
    double mine = expected_seconds(left), other = expected_seconds(right);
    if (mine > 0 && other > 0) {
        text_add(out, " The model expects ");
        seconds_words(out, mine);
        text_add(out, " of this schedule and ");
        seconds_words(out, other);
        text_printf(out, " of the other one, %.2f times as long.", other / mine);
    }
    text_add(out, "</p>\n");
    int n = left->n_launches > right->n_launches ? left->n_launches : right->n_launches;
    for (int i = 0; i < n; i++) {
        compare_launch(left, right, i, out);
    }
    compare_entries(left, right, out);
}
