/* SPDX-License-Identifier: Apache-2.0 */
/* The compile cache: stores machine code under the digest of everything it was compiled from.
 *
 * Each entry is one file. A file is written under another name and then renamed, so that a reader
 * sees all of it or nothing. It repeats its key and ends in a digest of its contents: a damaged
 * file, or one of another key, counts as absent. A failure of the cache is never an error of the
 * caller: nothing is found, nothing is stored, and cache_state gives the reason.
 *
 * The folder must be private to the user, because code from it is executed. A folder that others
 * own or may write to is not used, and entries are opened below it without following links. */
#ifndef TESSERA_RUNTIME_CACHE_CODE_CACHE_H
#define TESSERA_RUNTIME_CACHE_CODE_CACHE_H

#include "support/text.h"

#include <stdint.h>
#include <time.h>

typedef struct Cache Cache;

typedef struct CacheOptions {
    /* NULL: what $TESSERA_CACHE names, else $XDG_CACHE_HOME/tessera, else $HOME/.cache/tessera.
     * "off", here or in $TESSERA_CACHE: there is none. */
    const char *folder;
    int64_t limit; /* bytes; 0: $TESSERA_CACHE_SIZE ("500M", "2G"), else 2 GiB */
} CacheOptions;

/* "500M", "2G", "1048576". */
bool cache_bytes(const char *text, int64_t *bytes);
/* NULL: no memory. The folder is made when something is first kept. */
Cache *cache_open(Allocator allocator, const CacheOptions *options);
void cache_close(Cache *cache);

/* What was made from it, in full. Two keys that differ in a byte have entries of their own. */
typedef struct CacheKey {
    const char *bytes;
    size_t n;
} CacheKey;

/* False: there is none. The arena holds the value. */
bool cache_take(Cache *cache, Arena *arena, CacheKey key, Text *value);
/* `about` is a line for people. Replaces what was there; makes space where the limit is reached. */
void cache_put(Cache *cache, CacheKey key, const char *about, const Text *value);

/* Who makes an entry says so, so that others wait for it instead of making it, too: true at once,
 * or when the others are done, or have ended, or after `seconds`. */
void cache_begin(Cache *cache, CacheKey key, double seconds);
void cache_end(Cache *cache, CacheKey key);

typedef struct CacheState {
    const char *folder; /* NULL: it is not known where */
    const char *why;    /* it is not used; NULL: it is */
    int64_t limit;
    uint64_t entries, bytes;
    uint64_t hits, misses, kept, refused; /* of this process; refused: damaged files */
} CacheState;
void cache_state(Cache *cache, CacheState *state);

typedef struct CacheEntry {
    char name[33];     /* of the file: 32 hexadecimal digits */
    const char *about; /* NULL: it is damaged */
    uint64_t bytes;
    time_t used; /* last; to the hour */
} CacheEntry;

/* All of them, those used last first. */
size_t cache_list(Cache *cache, Arena *arena, CacheEntry **entries);
/* Reads all of them, removes those that are damaged; returns how many. */
size_t cache_verify(Cache *cache, size_t *damaged);
/* Those used last stay, up to this many bytes; returns how many went. Remains of writers that were
 * killed go, too, once they are an hour old. */
size_t cache_prune(Cache *cache, int64_t bytes);

#endif
