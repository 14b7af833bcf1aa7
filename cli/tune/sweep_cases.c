/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the types and sizes that one `tessera tune` command sweeps over, and builds the command
 * lines of its workers. */
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- cases: each of the types with each of the sizes ---- */

/* An option that names something that the one before it named already begins a new group. */
typedef struct Group {
    Options options; /* of which only the sets, or the sizes and ranges, count */
} Group;
typedef struct Groups {
    Group *items;
    size_t n;
} Groups;

static bool repeats_name(const Options *so_far, const char *text, bool sizes)
{
    for (const char *at = text; *at;) {
        char *name = name_before(at, '=');
        for (size_t i = 0; name && i < (sizes ? so_far->sizes.n : so_far->sets.n); i++) {
            if (strcmp(name, sizes ? so_far->sizes.items[i].name : so_far->sets.items[i].name) ==
                0) {
                return true;
            }
        }
        for (size_t i = 0; name && sizes && i < so_far->ranges.n; i++) {
            if (strcmp(name, so_far->ranges.items[i].name) == 0) {
                return true;
            }
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return false;
}

static int add_pieces(const char *text, bool sizes, Options *options)
{
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        char *piece = session_text(at, n);
        int code = 0;
        if (n > 0) {
            code = sizes ? size_read("--size", piece, options) : set_read("--set", piece, options);
        }
        if (code != 0) {
            return code;
        }
        at += n + (at[n] == ',');
    }
    return 0;
}

static int read_groups(const Strings *texts, bool sizes, Groups *groups)
{
    groups->items = session_alloc((texts->n + 1) * sizeof *groups->items);
    groups->n = 1;
    for (size_t i = 0; i < texts->n; i++) {
        Options *last = &groups->items[groups->n - 1].options;
        if (repeats_name(last, texts->items[i], sizes)) {
            last = &groups->items[groups->n++].options;
        }
        int code = add_pieces(texts->items[i], sizes, last);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

static void add_walk(const Options *options, const Options *sets, const Options *sizes,
                     SweepCases *cases)
{
    size_t n = sizes->ranges.n, i;
    int64_t *values = session_alloc((n + 1) * sizeof *values);
    for (i = 0; i < n; i++) {
        values[i] = sizes->ranges.items[i].first;
    }
    do {
        Options one = *options;
        size_t fixed = sizes->sizes.n, ranges = sizes->ranges.n;
        one.sets.items = sets->sets.items;
        one.sets.n = sets->sets.n;
        one.sizes.items = session_alloc((fixed + ranges + 1) * sizeof *one.sizes.items);
        one.sizes.n = fixed + ranges;
        for (size_t k = 0; k < fixed; k++) {
            one.sizes.items[k] = sizes->sizes.items[k];
        }
        for (size_t k = 0; k < ranges; k++) {
            one.sizes.items[fixed + k] = (TesseraSize){sizes->ranges.items[k].name, values[k]};
        }
        cases->items = session_grow(cases->items, cases->n, sizeof *cases->items);
        cases->items[cases->n++] = one;
        for (i = n; i > 0 && !size_range_next(&sizes->ranges.items[i - 1], &values[i - 1]); i--) {}
    } while (i > 0);
}

int sweep_cases_make(const Options *options, SweepCases *cases)
{
    Groups sets, sizes;
    int code = read_groups(&options->set_texts, false, &sets);
    code = code ? code : read_groups(&options->size_texts, true, &sizes);
    for (size_t i = 0; code == 0 && i < sets.n; i++) {
        for (size_t k = 0; k < sizes.n; k++) {
            add_walk(options, &sets.items[i].options, &sizes.items[k].options, cases);
        }
    }
    return code;
}

/* ---- commands of the workers ---- */

static void add_word(SweepCommand *command, const char *word)
{
    command->words = session_grow(command->words, command->n, sizeof *command->words);
    command->words[command->n++] = word ? session_text(word, strlen(word)) : NULL;
}

static void add_option(SweepCommand *command, const char *name, const char *value)
{
    if (value) {
        add_word(command, name);
        add_word(command, value);
    }
}

static const char *number_text(int64_t number)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRId64, number);
    return session_text(text, (size_t)n);
}

const char *sweep_pair(const char *name, const char *value)
{
    char *text = session_alloc(strlen(name) + strlen(value) + 2);
    sprintf(text, "%s=%s", name, value);
    return text;
}

char *const *sweep_command(void *user, WorkerRole role, const char *device)
{
    SweepCommand *c = user;
    const Options *o = c->options;
    const char *parent = number_text((int64_t)getpid());
    char work[128];
    c->words = NULL;
    c->n = 0;
    snprintf(work, sizeof work, "%s:%s:%s", role == WORKER_MEASURES ? "measure" : "compile", parent,
             c->target);
    add_word(c, c->program);
    add_word(c, "tune");
    add_option(c, "--work", work);
    if (o->kernel) {
        char *path = session_alloc(strlen(o->path) + strlen(o->kernel) + 2);
        sprintf(path, "%s:%s", o->path, o->kernel);
        add_word(c, path);
    } else {
        add_word(c, o->path);
    }
    for (size_t i = 0; i < o->sets.n; i++) {
        add_option(c, "--set", sweep_pair(o->sets.items[i].name, o->sets.items[i].value));
    }
    for (size_t i = 0; i < o->sizes.n; i++) {
        add_option(c, "--size",
                   sweep_pair(o->sizes.items[i].name, number_text(o->sizes.items[i].value)));
    }
    for (size_t i = 0; i < o->strides.n; i++) {
        add_option(c, "--strides", sweep_pair(o->strides.items[i].name, o->strides.items[i].value));
    }
    for (size_t i = 0; i < o->schedule.n; i++) {
        add_option(c, "--schedule", o->schedule.items[i]);
    }
    add_option(c, "--optimize", o->optimize == NOT_GIVEN ? NULL : number_text(o->optimize));
    add_option(c, "--threads", o->threads ? number_text(o->threads) : NULL);
    add_option(c, "--device", role == WORKER_MEASURES ? device : NULL);
    add_word(c, "--");
    for (size_t i = 0; i < o->values.n; i++) {
        add_word(c, o->values.items[i]);
    }
    add_word(c, NULL);
    return c->words;
}
