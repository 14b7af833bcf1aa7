/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune diff`: compares the times and the best schedules of two stores, or of two compiler
 * versions in one store. */
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

#include <string.h>
#include <unistd.h>

static const TuningCase *find_group(const TuningCases *in, const TuningCase *like)
{
    for (size_t i = 0; i < in->n; i++) {
        if (text_equal(in->items[i].records->kernel, like->records->kernel) &&
            text_equal(in->items[i].records->types, like->records->types) &&
            text_equal(in->items[i].records->device, like->records->device) &&
            text_equal(in->items[i].records->arch, like->records->arch) &&
            text_equal(in->items[i].records->sizes, like->records->sizes)) {
            return &in->items[i];
        }
    }
    return NULL;
}

static const TuneRecord *find_record(const TuningCase *in, const TuneRecord *like)
{
    for (size_t i = 0; i < in->n; i++) {
        if (text_equal(in->records[i].candidate, like->candidate)) {
            return &in->records[i];
        }
    }
    return NULL;
}

static const char *outcome(Arena *arena, const TuneRecord *record)
{
    Text text = text_new(arena);
    if (!record) {
        return "-";
    }
    if (record->status != TUNE_OK) {
        return tune_status_name(record->status);
    }
    tune_time(record->median, &text);
    return text.data;
}

static void show_pair(Arena *arena, const char *what, const TuneRecord *a, const TuneRecord *b)
{
    printf("  %-8s %10s -> %-10s", what, outcome(arena, a), outcome(arena, b));
    if (a && b && a->status == TUNE_OK && b->status == TUNE_OK) {
        printf(" %.3fx", a->median / b->median);
    }
}

/* Beyond what measuring scatters, or with another end. */
static bool differs(const TuneRecord *a, const TuneRecord *b)
{
    if (a->status != b->status) {
        return true;
    }
    return a->status == TUNE_OK && (a->high < b->low || b->high < a->low);
}

static void show_group(Arena *arena, const TuningCase *a, const TuningCase *b)
{
    Text name = text_new(arena);
    size_t only = b->n, both = 0, differ = 0;
    tune_group_name(a, &name);
    puts(name.data);
    if (!text_equal(a->records->digest, b->records->digest)) {
        puts("  the kernel has changed");
    }
    show_pair(arena, "derived", a->derived, b->derived);
    putchar('\n');
    show_pair(arena, "best", a->best, b->best);
    if (a->best && b->best && !text_equal(a->best->candidate, b->best->candidate)) {
        printf(" %s -> %s", tune_lines(arena, a->best), tune_lines(arena, b->best));
    }
    putchar('\n');
    for (size_t i = 0; i < a->n; i++) {
        const TuneRecord *other = find_record(b, &a->records[i]);
        both += other != NULL;
        differ += other && differs(&a->records[i], other);
    }
    only -= both;
    printf("  %zu in both, of which %zu differ beyond their intervals; %zu only before, %zu only "
           "after\n",
           both, differ, a->n - both, only);
    for (size_t i = 0; i < a->n; i++) {
        const TuneRecord *other = find_record(b, &a->records[i]);
        if (other && differs(&a->records[i], other)) {
            show_pair(arena, "", &a->records[i], other);
            printf(" %s\n", tune_lines(arena, other));
        }
    }
}

static void show_lonely(Arena *arena, const TuningCases *of, const TuningCases *other,
                        const char *where)
{
    for (size_t i = 0; i < of->n; i++) {
        if (!find_group(other, &of->items[i])) {
            Text name = text_new(arena);
            tune_group_name(&of->items[i], &name);
            printf("only %s: %s\n", where, name.data);
        }
    }
}

static int query_one(const Options *options, const char *word, bool is_file, TuneFilter filter,
                     Arena *arena, TuningCases *groups)
{
    TuneStore *store;
    TuneRecords records;
    const char *why;
    if (!is_file) {
        filter.version = word;
    }
    int code = tune_open(options, is_file ? word : NULL, TUNE_READ, arena, &store);
    if (code != 0) {
        return code;
    }
    if (!tune_store_query(store, &filter, arena, &records, &why)) {
        code = tune_failed(why);
    } else {
        tune_warn(store);
        tune_groups(arena, &records, groups);
    }
    tune_store_close(store);
    return code;
}

int tune_diff(const Options *options)
{
    Arena arena;
    TuneFilter filter = {0};
    TuningCases sides[2];
    if (options->values.n < 2) {
        return fail_code(FAIL_NO_FILE, TESSERA_USAGE,
                         "tune diff needs two stores, or two versions: tessera tune diff OLD.db "
                         "NEW.db, tessera tune diff 0.1.0 0.2.0");
    }
    tune_arena(&arena);
    int code = tune_filter(options, 2, &filter);
    for (int i = 0; i < 2 && code == 0; i++) {
        const char *word = options->values.items[i];
        bool is_file = access(word, F_OK) == 0 || strchr(word, '/') || !strchr("0123456789", *word);
        code = query_one(options, word, is_file, filter, &arena, &sides[i]);
    }
    for (size_t i = 0; code == 0 && i < sides[0].n; i++) {
        const TuningCase *other = find_group(&sides[1], &sides[0].items[i]);
        if (other) {
            show_group(&arena, &sides[0].items[i], other);
        }
    }
    if (code == 0) {
        show_lonely(&arena, &sides[0], &sides[1], "before");
        show_lonely(&arena, &sides[1], &sides[0], "after");
    }
    arena_free(&arena);
    return code;
}
