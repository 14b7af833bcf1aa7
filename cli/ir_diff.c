/* SPDX-License-Identifier: Apache-2.0 */
/* Differences of IR between passes. Values are numbered anew after each pass, so that `%7` may be
 * the `%5` of before. Lines are aligned as if all numbers were alike, by a longest common
 * subsequence; then a pair of lines is unchanged if the values of the one are those of the other,
 * as far as earlier lines have shown which is which. */
#include "cli/ir_diff.h"
#include "cli/session_memory.h"
#include "cli/terminal.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CONTEXT lines around a change are shown. Beyond MAX_CELLS the alignment would take seconds; then
 * the new IR is printed as a whole. */
enum { CONTEXT = 2, MAX_CELLS = 1 << 24 };

typedef struct Listing {
    char **lines; /* ended by zeros */
    uint64_t *keys;
    size_t n;
} Listing;

typedef struct Diff {
    FILE *to;
    Listing old, new;
    uint32_t *length; /* of the common part of old[i…] and new[j…] */
    long *renamed;    /* by number of an old value: that of the new one; -1: not seen */
    size_t n_renamed;
} Diff;

/* ---- lines ---- */

/* A hash of a line in which all values have one number. */
static uint64_t key_of(const char *line)
{
    uint64_t key = 14695981039346656037u;
    while (*line) {
        char c = *line++;
        key = (key ^ (unsigned char)c) * 1099511628211u;
        while (c == '%' && isdigit((unsigned char)*line)) {
            line++;
        }
    }
    return key;
}

static Listing split(const char *text)
{
    Listing listing = {0};
    size_t most = 1;
    for (const char *at = text; *at; at++) {
        most += *at == '\n';
    }
    listing.lines = session_alloc(most * sizeof *listing.lines);
    listing.keys = session_alloc(most * sizeof *listing.keys);
    while (*text) {
        size_t n = strcspn(text, "\n");
        listing.lines[listing.n] = session_text(text, n);
        listing.keys[listing.n] = key_of(listing.lines[listing.n]);
        listing.n++;
        text += n + (text[n] == '\n');
    }
    return listing;
}

/* ---- values ---- */

/* The number behind the next `%` of a line, moving *at behind it; -1: there is none. */
static long next_value(const char **at)
{
    while ((*at = strchr(*at, '%'))) {
        ++*at;
        if (isdigit((unsigned char)**at)) {
            char *end;
            long number = strtol(*at, &end, 10);
            *at = end;
            return number;
        }
    }
    return -1;
}

static long *renamed(Diff *d, long number)
{
    size_t index = (size_t)number;
    if (index >= d->n_renamed) {
        size_t more = 2 * index + 16;
        long *grown = session_alloc(more * sizeof *grown);
        for (size_t i = 0; i < more; i++) {
            grown[i] = i < d->n_renamed ? d->renamed[i] : -1;
        }
        d->renamed = grown;
        d->n_renamed = more;
    }
    return &d->renamed[index];
}

/* True if the values of two aligned lines correspond; notes those that are new. */
static bool same_values(Diff *d, const char *old, const char *new)
{
    bool same = true;
    for (;;) {
        long a = old ? next_value(&old) : -1, b = new ? next_value(&new) : -1;
        if (a < 0 || b < 0) {
            return same && a == b;
        }
        long *known = renamed(d, a);
        same = same && (*known < 0 || *known == b);
        *known = *known < 0 ? b : *known;
    }
}

/* ---- the difference ---- */

typedef enum Mark { SAME, REMOVED, ADDED } Mark;

typedef struct Line {
    Mark mark;
    const char *text;
} Line;

static void align(Diff *d)
{
    size_t rows = d->old.n + 1, columns = d->new.n + 1;
    d->length = session_alloc(rows * columns * sizeof *d->length);
    for (size_t i = d->old.n; i-- > 0;) {
        for (size_t j = d->new.n; j-- > 0;) {
            uint32_t *at = &d->length[i * columns + j];
            uint32_t below = at[columns], right = at[1];
            bool same = d->old.keys[i] == d->new.keys[j];
            if (same) {
                *at = at[columns + 1] + 1;
            } else if (below > right) {
                *at = below;
            } else {
                *at = right;
            }
        }
    }
}

static size_t mark_lines(Diff *d, Line *lines)
{
    size_t i = 0, j = 0, n = 0, columns = d->new.n + 1;
    while (i < d->old.n || j < d->new.n) {
        bool both = i < d->old.n && j < d->new.n;
        if (both && d->old.keys[i] == d->new.keys[j]) {
            bool same = same_values(d, d->old.lines[i], d->new.lines[j]);
            if (!same) {
                lines[n++] = (Line){REMOVED, d->old.lines[i]};
            }
            lines[n++] = (Line){same ? SAME : ADDED, d->new.lines[j]};
            i++;
            j++;
        } else if (j == d->new.n ||
                   (both && d->length[(i + 1) * columns + j] >= d->length[i * columns + j + 1])) {
            lines[n++] = (Line){REMOVED, d->old.lines[i++]};
        } else {
            lines[n++] = (Line){ADDED, d->new.lines[j++]};
        }
    }
    return n;
}

/* True if a changed line is at most CONTEXT lines away. */
static bool is_adjacent_change(const Line *lines, size_t n, size_t at)
{
    size_t from = at > CONTEXT ? at - CONTEXT : 0;
    for (size_t i = from; i < n && i <= at + CONTEXT; i++) {
        if (lines[i].mark != SAME) {
            return true;
        }
    }
    return false;
}

static void print_lines(FILE *to, const Line *lines, size_t n)
{
    static const struct {
        char sign;
        Style style;
    } MARKS[] = {
        [SAME] = {' ', STYLE_DIM}, [REMOVED] = {'-', STYLE_BAD}, [ADDED] = {'+', STYLE_GOOD}};
    bool gap = false;
    for (size_t i = 0; i < n; i++) {
        if (!is_adjacent_change(lines, n, i)) {
            gap = true;
            continue;
        }
        if (gap) {
            fprintf(to, "%s  ...%s\n", style_of(to, STYLE_DIM), style_of(to, STYLE_NONE));
            gap = false;
        }
        fprintf(to, "%s%c %s%s\n", style_of(to, MARKS[lines[i].mark].style),
                MARKS[lines[i].mark].sign, lines[i].text, style_of(to, STYLE_NONE));
    }
}

static void print_diff(FILE *to, const char *before, const char *after)
{
    Diff d = {.to = to, .old = split(before), .new = split(after)};
    if ((d.old.n + 1) * (d.new.n + 1) > MAX_CELLS) {
        fputs(after, to);
        return;
    }
    align(&d);
    Line *lines = session_alloc((d.old.n + d.new.n + 1) * sizeof *lines);
    print_lines(to, lines, mark_lines(&d, lines));
}

void ir_diff_write(void *user, const char *text, size_t n)
{
    static const char HEAD[] = "; ---- after ";
    static char *before; /* IR of this process's last call */
    FILE *to = user;
    size_t head = strcspn(text, "\n");
    if (n < sizeof HEAD || strncmp(text, HEAD, sizeof HEAD - 1) != 0 || head + 1 > n) {
        fwrite(text, 1, n, to);
        return;
    }
    char *after = session_text(text + head + 1, n - head - 1);
    fprintf(to, "%s%.*s%s\n", style_of(to, STYLE_BOLD), (int)head, text, style_of(to, STYLE_NONE));
    if (before) {
        print_diff(to, before, after);
    } else {
        fputs(after, to);
    }
    before = after;
}
