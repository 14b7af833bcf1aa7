/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on all entries of the cache: listing, verifying, pruning, clearing. */
#include "runtime/cache/cache_entry.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STALE_SECONDS = 3600 };

static bool is_name(const char *name)
{
    return strlen(name) == NAME_BYTES - 1 && strspn(name, "0123456789abcdef") == NAME_BYTES - 1;
}

static int by_use(const void *a, const void *b)
{
    const CacheEntry *one = a, *other = b;
    if (one->used != other->used) {
        return one->used < other->used ? 1 : -1;
    }
    return strcmp(one->name, other->name);
}

/* Up to `capacity` names, sizes and times; returns how many there are. Takes no memory of an arena,
 * which could leave the folder open behind it. */
static size_t read_folder(Cache *cache, CacheEntry *entries, size_t capacity)
{
    size_t n = 0;
    struct stat info;
    int at =
        folder_open(cache, false) ? openat(cache->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *folder = at >= 0 ? fdopendir(at) : NULL;
    if (!folder && at >= 0) {
        close(at);
    }
    for (struct dirent *item; folder && (item = readdir(folder));) {
        if (fstatat(cache->at, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        /* A temporary file is what a killed writer left behind. */
        const char *name = item->d_name;
        if (strncmp(name, "tmp-", 4) == 0 && time(NULL) - info.st_mtime > STALE_SECONDS) {
            folder_remove(cache, name);
        }
        if (is_name(item->d_name) && n++ < capacity) {
            entries[n - 1] = (CacheEntry){.bytes = (uint64_t)info.st_size, .used = info.st_mtime};
            memcpy(entries[n - 1].name, item->d_name, NAME_BYTES);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return n;
}

typedef struct Found {
    CacheEntry *items;
    size_t n;
} Found;

/* Those used last first. What comes while this looks may be missed. */
static Found find_all(Cache *cache, Arena *arena)
{
    size_t capacity = read_folder(cache, NULL, 0);
    Found found = {.items = ARENA_ARRAY(arena, CacheEntry, capacity)};
    size_t n = capacity > 0 ? read_folder(cache, found.items, capacity) : 0;
    found.n = n < capacity ? n : capacity;
    if (found.n > 1) {
        qsort(found.items, found.n, sizeof *found.items, by_use);
    }
    return found;
}

/* NULL: it is damaged. */
static const char *read_about(Cache *cache, Arena *arena, const char *name)
{
    EntryFile file;
    Entry entry;
    bool valid = folder_read(cache, name, false, &file) && entry_parse(&file, &entry);
    return valid ? arena_strndup(arena, entry.about.bytes, entry.about.n) : NULL;
}

size_t cache_list(Cache *cache, Arena *arena, CacheEntry **entries)
{
    Found found = find_all(cache, arena);
    for (size_t i = 0; i < found.n; i++) {
        found.items[i].about = read_about(cache, arena, found.items[i].name);
    }
    *entries = found.items;
    return found.n;
}

/* Of all entries, those used last first. */
typedef struct Walk {
    Cache *cache;
    int64_t limit; /* of a prune; -1: a check */
    size_t n, gone;
    uint64_t bytes;
} Walk;

static void walk_guarded(Walk *walk)
{
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, walk->cache->allocator);
    arena.guard = &guard;
    if (setjmp(guard) == 0) {
        Found found = find_all(walk->cache, &arena);
        for (size_t i = 0; i < found.n; i++) {
            const CacheEntry *entry = &found.items[i];
            walk->n++;
            walk->bytes += entry->bytes;
            bool goes = walk->limit >= 0 ? walk->bytes > (uint64_t)walk->limit
                                         : !read_about(walk->cache, &arena, entry->name);
            walk->gone += goes && folder_remove(walk->cache, entry->name);
        }
    }
    arena_free(&arena);
}

size_t cache_verify(Cache *cache, size_t *damaged)
{
    Walk walk = {.cache = cache, .limit = -1};
    walk_guarded(&walk);
    *damaged = walk.gone;
    return walk.n;
}

size_t cache_prune(Cache *cache, int64_t bytes)
{
    Walk walk = {.cache = cache, .limit = bytes};
    walk_guarded(&walk);
    return walk.gone;
}

void cache_state(Cache *cache, CacheState *state)
{
    Walk walk = {.cache = cache, .limit = INT64_MAX};
    walk_guarded(&walk);
    *state = (CacheState){cache->folder, cache->why,    cache->limit, walk.n,        walk.bytes,
                          cache->hits,   cache->misses, cache->kept,  cache->refused};
}
