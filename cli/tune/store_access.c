/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and queries the tuning store for the subcommands of `tessera tune`. */
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

#include <stdlib.h>
#include <string.h>

static void *take_memory(void *user, size_t bytes)
{
    (void)user;
    return alloc_or_exit(bytes);
}

static void release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void tune_arena(Arena *arena)
{
    arena_init(arena, (Allocator){take_memory, release, NULL});
}

/* ---- which records ---- */

static const char **field_of(TuneFilter *filter, const char *name)
{
    const struct {
        const char *name;
        const char **field;
    } fields[] = {{"kernel", &filter->kernel},   {"types", &filter->types},
                  {"sizes", &filter->sizes},     {"bucket", &filter->bucket},
                  {"device", &filter->device},   {"arch", &filter->arch},
                  {"version", &filter->version}, {"digest", &filter->digest}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return fields[i].field;
        }
    }
    return NULL;
}

int tune_filter(const Options *options, size_t first, TuneFilter *filter)
{
    for (size_t i = first; i < options->values.n; i++) {
        const char *word = options->values.items[i];
        char *name = name_before(word, '=');
        const char **field = name ? field_of(filter, name) : &filter->kernel;
        if (!field) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE,
                             "records have no '%.60s': they have kernel, types, sizes, bucket, "
                             "device, arch, version and digest",
                             name);
        }
        *field = name ? word + strlen(name) + 1 : word;
    }
    return 0;
}

/* ---- stores ---- */

int tune_failed(const char *why)
{
    return fail_code(FAIL_STORE, TESSERA_ENVIRONMENT, "%s", why);
}

void tune_warn(TuneStore *store)
{
    const char *warning = tune_store_warning(store);
    if (warning) {
        show_note("%s", warning);
    }
}

int tune_open(const Options *options, const char *path, TuneAccess access, Arena *arena,
              TuneStore **store)
{
    const char *why;
    path = path ? path : options->store;
    if (!tune_store_open(arena, path, access, store, &why)) {
        return tune_failed(why);
    }
    tune_warn(*store);
    return 0;
}

int tune_query(const Options *options, size_t first_word, Arena *arena, TuneRecords *records)
{
    TuneStore *store;
    TuneFilter filter = {0};
    const char *why;
    int code = tune_filter(options, first_word, &filter);
    code = code ? code : tune_open(options, NULL, TUNE_READ, arena, &store);
    if (code != 0) {
        return code;
    }
    if (!tune_store_query(store, &filter, arena, records, &why)) {
        code = tune_failed(why);
    }
    tune_warn(store);
    tune_store_close(store);
    return code;
}
