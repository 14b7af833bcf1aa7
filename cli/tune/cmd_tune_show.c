/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune show`: prints one table of measured schedules per kernel, device and sizes. */
#include "cli/options.h"
#include "cli/tune/cmd_tune.h"

#include <math.h>
#include <string.h>

enum { MAX_SHOWN = 8 };

static const char *time_text(Arena *arena, double seconds)
{
    Text text = text_new(arena);
    tune_time(seconds, &text);
    return text.data;
}

static void show_group(Arena *arena, const TuningCase *group, bool all)
{
    Text name = text_new(arena);
    tune_group_name(group, &name);
    puts(name.data);
    printf("  %zu candidates:", group->n);
    for (int i = 0, any = 0; i < TUNE_STATUSES; i++) {
        if (group->counts[i] > 0) {
            printf("%s %zu %s", any ? "," : "", group->counts[i], tune_status_name((TuneStatus)i));
            any = 1;
        }
    }
    printf("; tessera %s\n", group->records->version);
    if (tune_group_wins(group)) {
        printf("  best: %s, %.3f times as fast as what is derived\n",
               tune_lines(arena, group->best), group->best->ratio);
    } else if (tune_group_open(group)) {
        puts("  best: not decided; no sweep got to its last measurement");
    } else if (group->derived) {
        puts("  best: what is derived; nothing is faster beyond doubt");
    }
    for (size_t i = 0; i < group->n; i++) {
        const TuneRecord *record = &group->records[i];
        if (all || record == group->derived || (record->status == TUNE_OK && i < MAX_SHOWN)) {
            double ratio = tune_ratio(record);
            if (record->status != TUNE_OK) {
                printf("  %-12s %s", tune_status_name(record->status), tune_lines(arena, record));
                printf("%s%s\n", *record->message ? ": " : "", record->message);
                continue;
            }
            printf("  %10s  [%s, %s] x%lld", time_text(arena, record->median),
                   time_text(arena, record->low), time_text(arena, record->high),
                   (long long)record->count);
            if (!isnan(ratio)) {
                printf("  %.3fx", ratio);
            }
            printf("  %s\n", tune_lines(arena, record));
        }
    }
}

int tune_show(const Options *options)
{
    Arena arena;
    TuneRecords records;
    TuningCases groups;
    tune_arena(&arena);
    int code = tune_query(options, 0, &arena, &records);
    if (code == 0) {
        tune_groups(&arena, &records, &groups);
        for (size_t i = 0; i < groups.n; i++) {
            fputs(i ? "\n" : "", stdout);
            show_group(&arena, &groups.items[i], options->all);
        }
        if (groups.n == 0) {
            puts("nothing of this was measured");
        }
    }
    arena_free(&arena);
    return code;
}
