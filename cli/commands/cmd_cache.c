/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera cache`: lists, verifies, prunes and clears the entries of the compile cache, and prints
 * its folder. */
#include "cli/commands/cmd_functions.h"
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/session.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static void show_info(const TesseraCacheInfo *info, bool json)
{
    if (json) {
        printf("{\"folder\": ");
        json_string(stdout, info->folder ? info->folder : "");
        printf(", \"used\": %s, \"why_not\": ", info->why ? "false" : "true");
        json_string(stdout, info->why ? info->why : "");
        printf(", \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"limit\": %" PRId64 "}\n",
               info->entries, info->bytes, info->limit);
        return;
    }
    printf("folder   %s\n", info->folder ? info->folder : "none");
    if (info->why) {
        printf("not used %s\n", info->why);
    }
    printf("entries  %" PRIu64 "\n", info->entries);
    printf("bytes    %" PRIu64 " of %" PRId64 "\n", info->bytes, info->limit);
}

static TesseraStatus do_info(TesseraContext *context, const Options *options)
{
    TesseraCacheInfo info;
    TesseraStatus status = tessera_cache_info(context, &info);
    if (status == TESSERA_OK) {
        show_info(&info, options->json);
    }
    return status;
}

static TesseraStatus do_list(TesseraContext *context, const Options *options)
{
    const TesseraCacheEntry *entries;
    size_t n;
    TesseraStatus status = tessera_cache_list(context, &entries, &n);
    fputs(options->json ? "[" : "", stdout);
    for (size_t i = 0; status == TESSERA_OK && i < n; i++) {
        const TesseraCacheEntry *entry = &entries[i];
        const char *about = entry->about ? entry->about : "";
        if (options->json) {
            printf("%s\n  {\"name\": \"%s\", \"about\": ", i == 0 ? "" : ",", entry->name);
            json_string(stdout, about);
            printf(", \"damaged\": %s, \"bytes\": %" PRIu64 ", \"used\": %" PRId64 "}",
                   entry->about ? "false" : "true", entry->bytes, entry->used);
            continue;
        }
        printf("%.12s  ", entry->name);
        char text[32] = "?";
        time_t when = (time_t)entry->used;
        struct tm local;
        if (localtime_r(&when, &local)) {
            strftime(text, sizeof text, "%Y-%m-%d %H:00", &local);
        }
        printf("%s", text);
        printf(" %10" PRIu64 "  %s\n", entry->bytes, entry->about ? about : "(damaged)");
    }
    fputs(options->json ? "]\n" : "", stdout);
    return status;
}

static TesseraStatus do_verify(TesseraContext *context, const Options *options)
{
    size_t checked, damaged;
    TesseraStatus status = tessera_cache_verify(context, &checked, &damaged);
    if (status == TESSERA_OK) {
        printf(options->json ? "{\"checked\": %zu, \"removed\": %zu}\n"
                             : "%zu entries checked, %zu were damaged and are removed\n",
               checked, damaged);
    }
    return status;
}

static TesseraStatus remove_beyond(TesseraContext *context, const Options *options, int64_t bytes)
{
    size_t removed;
    TesseraStatus status = tessera_cache_prune(context, bytes, &removed);
    if (status == TESSERA_OK) {
        printf(options->json ? "{\"removed\": %zu}\n" : "%zu entries removed\n", removed);
    }
    return status;
}

static TesseraStatus do_prune(TesseraContext *context, const Options *options)
{
    TesseraCacheInfo info;
    TesseraStatus status = tessera_cache_info(context, &info);
    int64_t limit = options->limit >= 0 ? options->limit : info.limit;
    return status == TESSERA_OK ? remove_beyond(context, options, limit) : status;
}

static TesseraStatus do_clear(TesseraContext *context, const Options *options)
{
    return remove_beyond(context, options, 0);
}

static const struct {
    const char *name;
    TesseraStatus (*run)(TesseraContext *context, const Options *options);
} ACTS[] = {
    {"info", do_info},   {"list", do_list},   {"verify", do_verify},
    {"prune", do_prune}, {"clear", do_clear},
};

enum { N_ACTS = sizeof ACTS / sizeof *ACTS };

static const char *act_name(size_t index)
{
    return index < N_ACTS ? ACTS[index].name : NULL;
}

int cmd_cache(const Options *options)
{
    const char *name = options->path ? options->path : "info";
    TesseraContext *context;
    size_t act = 0;
    while (act < N_ACTS && strcmp(ACTS[act].name, name) != 0) {
        act++;
    }
    if (act == N_ACTS || options->kernel) {
        const char *nearest = nearest_name(name, act_name);
        return nearest
                   ? fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "cache does not '%.60s': did you mean '%s'?", name, nearest)
                   : fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "cache does not '%.60s': it has info, list, verify, prune, clear",
                               name);
    }
    if (options->values.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "cache %s takes nothing more: '%.60s'", name,
                         options->values.items[0]);
    }
    if (options->limit >= 0 && ACTS[act].run != do_prune) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--limit is of cache prune");
    }
    if (tessera_context_new(NULL, &context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    int code = ACTS[act].run(context, options) == TESSERA_OK ? 0 : fail_context(context);
    tessera_context_free(context);
    return code;
}
