/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of the compile cache: its folder, and its entries. */
#include "runtime/api/api_objects.h"

#include "runtime/cache/code_cache.h"

#include <string.h>

struct CacheListing {
    ErrorBoundary work;
    TesseraCacheEntry *items;
    size_t n;
};

static void drop_listing(TesseraContext *context)
{
    if (context->compiler->listing) {
        work_free(&context->compiler->listing->work);
        context_drop(context, context->compiler->listing);
        context->compiler->listing = NULL;
    }
}

static void drop_cache(TesseraContext *context)
{
    cache_close(context->compiler->cache);
    context->compiler->cache = NULL;
    context_drop(context, context->compiler->cache_folder);
    context->compiler->cache_folder = NULL;
}

void cache_free(TesseraContext *context)
{
    drop_listing(context);
    drop_cache(context);
}

TesseraStatus tessera_cache_use(TesseraContext *context, const char *folder, int64_t limit)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    if (limit < 0) {
        return context_usage(context, "a cache of %lld bytes", (long long)limit);
    }
    char *copy = folder ? context_take(context, strlen(folder) + 1) : NULL;
    if (folder && !copy) {
        return TESSERA_ENVIRONMENT;
    }
    if (copy) {
        memcpy(copy, folder, strlen(folder) + 1);
    }
    drop_cache(context);
    context->compiler->cache_folder = copy;
    context->compiler->cache_limit = limit;
    return TESSERA_OK;
}

TesseraStatus tessera_cache_only(TesseraContext *context, bool only)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    context->compiler->cache_only = only;
    return TESSERA_OK;
}

static TesseraStatus get_cache(TesseraContext *context, const char *call, const void *out,
                               const char *name, Cache **cache)
{
    if (!context || !out) {
        return context_null(context, call, context ? name : "context");
    }
    *cache = context_cache(context);
    return *cache ? TESSERA_OK : context_fail(context, TESSERA_ENVIRONMENT, 0, "out of memory");
}

TesseraStatus tessera_cache_info(TesseraContext *context, TesseraCacheInfo *info)
{
    Cache *cache;
    CacheState state;
    TesseraStatus status = get_cache(context, __func__, info, "info", &cache);
    if (status == TESSERA_OK) {
        cache_state(cache, &state);
        *info =
            (TesseraCacheInfo){state.folder, state.why,    state.limit, state.entries, state.bytes,
                               state.hits,   state.misses, state.kept,  state.refused};
    }
    return status;
}

static bool list_task(void *user)
{
    struct CacheListing *listing = user;
    CacheEntry *entries;
    Arena *arena = &listing->work.arena;
    listing->n = cache_list(listing->work.context->compiler->cache, arena, &entries);
    listing->items = ARENA_ARRAY(arena, TesseraCacheEntry, listing->n);
    for (size_t i = 0; i < listing->n; i++) {
        const CacheEntry *from = &entries[i];
        listing->items[i] = (TesseraCacheEntry){from->name, from->about, from->bytes, from->used};
    }
    return true;
}

TesseraStatus tessera_cache_list(TesseraContext *context, const TesseraCacheEntry **entries,
                                 size_t *n)
{
    Cache *cache;
    TesseraStatus status =
        get_cache(context, __func__, n ? entries : NULL, n ? "entries" : "n", &cache);
    if (status != TESSERA_OK) {
        return status;
    }
    drop_listing(context);
    struct CacheListing *listing = context->compiler->listing =
        context_take(context, sizeof *listing);
    if (!listing) {
        return TESSERA_ENVIRONMENT;
    }
    work_init(&listing->work, context);
    status = error_boundary_run_here(&listing->work, list_task, listing);
    *entries = status == TESSERA_OK ? listing->items : NULL;
    *n = status == TESSERA_OK ? listing->n : 0;
    return status;
}

TesseraStatus tessera_cache_verify(TesseraContext *context, size_t *checked, size_t *damaged)
{
    Cache *cache;
    TesseraStatus status = get_cache(context, __func__, damaged ? checked : NULL,
                                     damaged ? "checked" : "damaged", &cache);
    if (status == TESSERA_OK) {
        *checked = cache_verify(cache, damaged);
    }
    return status;
}

TesseraStatus tessera_cache_prune(TesseraContext *context, int64_t bytes, size_t *removed)
{
    Cache *cache;
    TesseraStatus status = get_cache(context, __func__, removed, "removed", &cache);
    if (status == TESSERA_OK && bytes < 0) {
        return context_usage(context, "a cache of %lld bytes", (long long)bytes);
    }
    if (status == TESSERA_OK) {
        *removed = cache_prune(cache, bytes);
    }
    return status;
}
