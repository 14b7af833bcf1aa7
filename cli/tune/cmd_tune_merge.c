/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune merge`: combines the stores of several shards into one. */
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

static int merge_one(const char *path, const Options *options, TuneStore *into)
{
    Arena arena;
    TuneStore *from;
    TuneMerged merged;
    const char *why;
    tune_arena(&arena);
    int code = tune_open(options, path, TUNE_READ, &arena, &from);
    if (code == 0) {
        if (!tune_store_merge(into, from, &merged, &why)) {
            code = tune_failed(why);
        } else {
            tune_warn(from);
            tune_warn(into);
            printf("%s: %zu added, %zu replaced, %zu kept\n", path, merged.added, merged.replaced,
                   merged.kept);
        }
        tune_store_close(from);
    }
    arena_free(&arena);
    return code;
}

int tune_merge(const Options *options)
{
    Arena arena;
    TuneStore *into;
    if (options->values.n == 0) {
        return fail_code(FAIL_NO_FILE, TESSERA_USAGE,
                         "tune merge needs stores: tessera tune merge SHARD.db... [--store FILE]");
    }
    tune_arena(&arena);
    int code = tune_open(options, NULL, TUNE_WRITE, &arena, &into);
    if (code == 0) {
        for (size_t i = 0; i < options->values.n && code == 0; i++) {
            code = merge_one(options->values.items[i], options, into);
        }
        tune_store_close(into);
    }
    arena_free(&arena);
    return code;
}
