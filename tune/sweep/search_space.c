/* SPDX-License-Identifier: Apache-2.0 */
/* The candidates of a sweep as points of a product of axes, one axis per schedule entry. It counts
 * them, converts between numbers and points, prints the schedule text of a point, and turns
 * schedules into the feature columns of the surrogate. */
#include "tune/sweep/search_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1 if the compiler's own choice is added to those of the axis, 0 if it is among them already. For
 * declared choices it is only the baseline. */
static size_t left_out(const TesseraSpace *space, size_t axis)
{
    return space->declared || space->axes[axis].derived ? 0 : 1;
}

size_t space_choices(const TesseraSpace *space, size_t axis)
{
    return space->axes[axis].n_values + left_out(space, axis);
}

uint64_t space_count(const TesseraSpace *space)
{
    uint64_t n = 1;
    for (size_t i = 0; i < space->n_axes; i++) {
        if (__builtin_mul_overflow(n, space_choices(space, i), &n)) {
            return UINT64_MAX;
        }
    }
    return n;
}

void space_point(const TesseraSpace *space, uint64_t nth, int *point)
{
    for (size_t i = space->n_axes; i-- > 0;) {
        point[i] = (int)(nth % space_choices(space, i));
        nth /= space_choices(space, i);
    }
}

uint64_t space_nth(const TesseraSpace *space, const int *point)
{
    uint64_t nth = 0;
    for (size_t i = 0; i < space->n_axes; i++) {
        nth = nth * space_choices(space, i) + (uint64_t)point[i];
    }
    return nth;
}

/* NULL: it is left to the compiler. */
static const char *chosen(const TesseraSpace *space, size_t axis, int choice)
{
    const TesseraAxis *at = &space->axes[axis];
    if (!space->declared && choice == 0) {
        return NULL;
    }
    return at->values[(size_t)choice - left_out(space, axis)];
}

/* "tile M" of "launch 1: tile M". */
static const char *without_launch(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon ? colon + 2 : name;
}

static void add_item(Text *out, const TesseraAxis *axis, const char *value, bool first)
{
    if (first) {
        text_printf(out, "%s%s", out->n ? "\n" : "", axis->key);
    }
    bool comma = !first && strcmp(without_launch(axis->key), "tile") == 0;
    text_printf(out, "%s %s%s%s", comma ? "," : "", axis->sub, *axis->sub ? " " : "", value);
}

void space_lines(const TesseraSpace *space, const int *point, Text *out)
{
    const char *key = "";
    text_add(out, "");
    for (size_t i = 0; i < space->n_axes; i++) {
        const TesseraAxis *axis = &space->axes[i];
        const char *value = chosen(space, i, point[i]);
        if (value) {
            add_item(out, axis, value, strcmp(key, axis->key) != 0);
            key = axis->key;
        }
    }
}

/* ---- lines as text ---- */

/* One item of a schedule: its name and its value. */
typedef struct Item {
    const char *name; /* "tile M", "warps" */
    const char *value;
} Item;

typedef struct Items {
    Item *items;
    size_t n, cap;
} Items;

static void read_items(Arena *arena, const char *lines, Items *items)
{
    char *copy = arena_strdup(arena, lines), *state = NULL;
    for (char *line = strtok_r(copy, "\n;", &state); line; line = strtok_r(NULL, "\n;", &state)) {
        /* A line is `[launch n:] key [sub] value, [sub] value…`. */
        const char *words[64];
        size_t n = 0;
        char *in_line = NULL;
        for (char *word = strtok_r(line, " ,", &in_line); word && n < 64;
             word = strtok_r(NULL, " ,", &in_line)) {
            words[n++] = word;
        }
        const char *key = n ? words[0] : "";
        size_t first = 1;
        if (n > 3 && strcmp(words[0], "launch") == 0) {
            key = arena_printf(arena, "launch %s %s", words[1], words[2]);
            first = 3;
        }
        for (size_t i = first; i < n;) {
            /* Only the first value after the key may have no name; the others have one. */
            char *end;
            bool named = strtoll(words[i], &end, 10) >= 0 && *end && i + 1 < n;
            Item item = {named ? arena_printf(arena, "%s %s", key, words[i]) : key,
                         words[i + named]};
            ARENA_PUSH(arena, items, item);
            i += named ? 2 : 1;
        }
    }
}

static const char *value_of(const Items *items, const char *name)
{
    for (size_t i = 0; i < items->n; i++) {
        if (strcmp(items->items[i].name, name) == 0) {
            return items->items[i].value;
        }
    }
    return NULL;
}

static const char *axis_name(Arena *arena, const TesseraAxis *axis)
{
    return *axis->sub ? arena_printf(arena, "%s %s", axis->key, axis->sub) : axis->key;
}

static bool is_axis(Arena *arena, const TesseraSpace *space, const char *name)
{
    for (size_t i = 0; i < space->n_axes; i++) {
        if (strcmp(axis_name(arena, &space->axes[i]), name) == 0) {
            return true;
        }
    }
    return false;
}

void space_searched(const TesseraSpace *space, const char *lines, Text *out)
{
    Items items = {0};
    const char *key = "";
    read_items(out->arena, lines, &items);
    text_add(out, "");
    for (size_t i = 0; i < space->n_axes; i++) {
        const TesseraAxis *axis = &space->axes[i];
        const char *name = axis_name(out->arena, axis), *value = value_of(&items, name);
        value = value ? value : value_of(&items, without_launch(name));
        if (value) {
            add_item(out, axis, value, strcmp(key, axis->key) != 0);
            key = axis->key;
        }
    }
    /* The value that an entry for all launches has for one of them. */
    for (size_t i = 0; i < items.n; i++) {
        const char *name = items.items[i].name, *rest = without_launch(name);
        if (rest != name && is_axis(out->arena, space, rest) && !is_axis(out->arena, space, name)) {
            text_printf(out, "%s%s %s", out->n ? "\n" : "", name, items.items[i].value);
        }
    }
}

/* ---- features ---- */

enum { MAX_COLUMNS = 256 };

typedef struct Column {
    const char *name, *word; /* word NULL: a number; "": the entry is absent */
    int group;
    double low, high;
} Column;

typedef struct Columns {
    Column *items;
    size_t n, cap;
    int groups;
} Columns;

static bool as_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0';
}

static int group_of(Columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->n; i++) {
        if (strcmp(columns->items[i].name, name) == 0) {
            return columns->items[i].group;
        }
    }
    return columns->groups++;
}

static void add_column(Arena *arena, Columns *columns, const char *name, const char *word,
                       double number)
{
    for (size_t i = 0; i < columns->n; i++) {
        Column *at = &columns->items[i];
        bool same = !word && !at->word ? true : word && at->word && strcmp(word, at->word) == 0;
        if (same && strcmp(at->name, name) == 0) {
            at->low = number < at->low ? number : at->low;
            at->high = number > at->high ? number : at->high;
            return;
        }
    }
    if (columns->n < MAX_COLUMNS) {
        Column column = {name, word, group_of(columns, name), number, number};
        ARENA_PUSH(arena, columns, column);
    }
}

static double scale(double number)
{
    return log2(number + 1);
}

static void find_columns(Arena *arena, const Items *rows, size_t n, Columns *columns)
{
    for (size_t row = 0; row < n; row++) {
        for (size_t i = 0; i < rows[row].n; i++) {
            const Item *item = &rows[row].items[i];
            double number;
            bool is_number = as_number(item->value, &number);
            add_column(arena, columns, item->name, is_number ? NULL : item->value,
                       is_number ? scale(number) : 1);
        }
    }
    /* An entry that only some of the schedules have gets a column of its own. */
    size_t known = columns->n;
    for (size_t i = 0; i < known; i++) {
        const char *name = columns->items[i].name;
        for (size_t row = 0; row < n; row++) {
            if (!value_of(&rows[row], name)) {
                add_column(arena, columns, name, "", 1);
                break;
            }
        }
    }
}

static double feature_of(const Column *column, const char *value)
{
    double number;
    if (column->word) {
        bool has = value ? strcmp(column->word, value) == 0 : !*column->word;
        return has ? sqrt(0.5) : 0; /* so that two words are 1 apart */
    }
    if (!value || !as_number(value, &number)) {
        return 0.5;
    }
    double range = column->high - column->low;
    return range > 0 ? (scale(number) - column->low) / range : 0.5;
}

void features_make(Arena *arena, const char *const *lines, size_t n, Features *features)
{
    Items *rows = ARENA_ARRAY(arena, Items, n);
    Columns columns = {0};
    for (size_t i = 0; i < n; i++) {
        read_items(arena, lines[i], &rows[i]);
    }
    find_columns(arena, rows, n, &columns);
    *features = (Features){.n = n, .width = columns.n, .groups = columns.groups};
    features->values = ARENA_ARRAY(arena, double, n *columns.n + 1);
    features->group = ARENA_ARRAY(arena, int, columns.n + 1);
    for (size_t c = 0; c < columns.n; c++) {
        features->group[c] = columns.items[c].group;
        for (size_t row = 0; row < n; row++) {
            const char *value = value_of(&rows[row], columns.items[c].name);
            features->values[row * columns.n + c] = feature_of(&columns.items[c], value);
        }
    }
}

/* ---- chance ---- */

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t n)
{
    return n ? random_next(state) % n : 0;
}
