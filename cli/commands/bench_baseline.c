/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera bench --compare`: reads the rows of an earlier measurement and compares the new times
 * with them. */
#include "cli/commands/cmd_bench.h"
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Collector {
    Baseline *base;
    BaseEntry entry; /* the entry that is being read */
} Collector;

static void free_entry(BaseEntry *entry)
{
    for (size_t i = 0; i < entry->n_sizes; i++) {
        free((char *)(uintptr_t)entry->sizes[i].name);
    }
    free(entry->sizes);
    free(entry->kernel);
    free(entry->target);
    *entry = (BaseEntry){0};
}

static void add_entry(Collector *c)
{
    Baseline *base = c->base;
    if (!c->entry.kernel || !c->entry.target || !(c->entry.seconds > 0)) {
        free_entry(&c->entry);
        return;
    }
    if (base->n == base->cap) {
        base->cap = base->cap ? base->cap * 2 : 16;
        BaseEntry *more = alloc_or_exit(base->cap * sizeof *more);
        if (base->n) {
            memcpy(more, base->items, base->n * sizeof *more);
        }
        free(base->items);
        base->items = more;
    }
    base->items[base->n++] = c->entry;
    c->entry = (BaseEntry){0};
}

/* Takes one item of the JSON: a text, a number (text is ""), or the end of an object (text is
 * NULL). */
static void collect(void *user, const char *path, const char *text, double number)
{
    Collector *c = user;
    char **word = NULL;
    if (strcmp(path, "kernel") == 0) {
        word = &c->entry.kernel;
    } else if (strcmp(path, "target") == 0) {
        word = &c->entry.target;
    }
    if (!text) {
        if (!*path) {
            add_entry(c);
        }
    } else if (word) {
        free(*word);
        *word = copy_or_exit(text, strlen(text));
    } else if (strcmp(path, "seconds") == 0) {
        c->entry.seconds = number;
    } else if (strcmp(path, "spread") == 0) {
        c->entry.spread = number;
    } else if (strncmp(path, "sizes.", 6) == 0) {
        /* A size outside of the range of int64_t is stored as -1, which matches no measurement. */
        const char *name = path + 6;
        TesseraSize *more = alloc_or_exit((c->entry.n_sizes + 1) * sizeof *more);
        if (c->entry.n_sizes) {
            memcpy(more, c->entry.sizes, c->entry.n_sizes * sizeof *more);
        }
        free(c->entry.sizes);
        bool is_integer = number >= 0 && number < 0x1p63;
        more[c->entry.n_sizes++] =
            (TesseraSize){copy_or_exit(name, strlen(name)), is_integer ? (int64_t)number : -1};
        c->entry.sizes = more;
    }
}

int baseline_read(const char *path, Baseline *base)
{
    Collector c = {.base = base};
    char *text;
    size_t n;
    int code = file_read(path, &text, &n);
    if (code != 0) {
        return code;
    }
    bool good = json_read(text, collect, &c) && strlen(text) == n;
    free_entry(&c.entry);
    free(text);
    return good ? 0
                : fail_code(FAIL_VALUE, TESSERA_USAGE,
                            "--compare %.200s: no JSON of `tessera bench`", path);
}

void baseline_free(Baseline *base)
{
    for (size_t i = 0; i < base->n; i++) {
        free_entry(&base->items[i]);
    }
    free(base->items);
    *base = (Baseline){0};
}

static bool same_sizes(const BaseEntry *entry, const TesseraSize *sizes, size_t n)
{
    bool same = entry->n_sizes == n;
    for (size_t i = 0; i < n && same; i++) {
        bool found = false;
        for (size_t k = 0; k < n; k++) {
            found = found || (strcmp(entry->sizes[k].name, sizes[i].name) == 0 &&
                              entry->sizes[k].value == sizes[i].value);
        }
        same = found;
    }
    return same;
}

const BaseEntry *baseline_find(const Baseline *base, const char *kernel, const char *target,
                               const TesseraSize *sizes, size_t n)
{
    for (size_t i = base->n; i-- > 0;) { /* of equal entries the last one counts */
        const BaseEntry *entry = &base->items[i];
        if (strcmp(entry->kernel, kernel) == 0 && strcmp(entry->target, target) == 0 &&
            same_sizes(entry, sizes, n)) {
            return entry;
        }
    }
    return NULL;
}
