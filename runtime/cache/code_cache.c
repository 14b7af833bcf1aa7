/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the cache: the file format, and the checks before an entry is trusted.
 *
 *     "TESSERAC" | schema, bytes of `about`: u32 | bytes of key and of value: u64 |
 *     about | key | value | XXH3-128 of all before
 *
 * Numbers are little-endian. The file's name is the XXH3-128 of the key. */
#define _GNU_SOURCE /* locks of a file that is open, not of a process */
#include "runtime/cache/cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static const char MAGIC[] = "TESSERAC";
enum { SCHEMA = 2, HEAD_BYTES = 32, DEFAULT_LIMIT_MIB = 2048, LOCK_NAP_NS = 2000000 };

/* ---- opening ---- */

static char *keep_text(Cache *cache, const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 1;
    char *text = cache->allocator.alloc(cache->allocator.user, n);
    if (text) {
        snprintf(text, n, "%s%s", a, b);
    }
    return text;
}

static const char *set_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void find_folder(Cache *cache, const char *given)
{
    const char *xdg = set_variable("XDG_CACHE_HOME"), *home = set_variable("HOME");
    given = given ? given : set_variable("TESSERA_CACHE");
    if (given && text_equal(given, "off")) {
        cache->why = "it is switched off";
        return;
    }
    if (given) {
        cache->folder = keep_text(cache, given, "");
    } else if (xdg && *xdg == '/') {
        cache->folder = keep_text(cache, xdg, "/tessera");
    } else if (home && *home == '/') {
        cache->folder = keep_text(cache, home, "/.cache/tessera");
    }
    if (!cache->folder) {
        cache->why = "there is no home folder, and neither $TESSERA_CACHE nor $XDG_CACHE_HOME";
    }
}

bool cache_bytes(const char *text, int64_t *bytes)
{
    static const char units[] = "kmgt";
    char *end;
    if (!text || *text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    long long value = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno || (*end && (!unit || end[1])) || value > INT64_MAX >> shift) {
        return false;
    }
    *bytes = value << shift;
    return true;
}

static void find_limit(Cache *cache, int64_t given)
{
    const char *text = getenv("TESSERA_CACHE_SIZE");
    cache->limit = given > 0 ? given : (int64_t)DEFAULT_LIMIT_MIB << 20;
    if (given <= 0 && text && *text && !cache_bytes(text, &cache->limit) && !cache->why) {
        cache->why = "$TESSERA_CACHE_SIZE is no size, as 500M or 2G are";
    }
}

Cache *cache_open(Allocator allocator, const CacheOptions *options)
{
    Cache *cache = allocator.alloc(allocator.user, sizeof *cache);
    if (cache) {
        *cache = (Cache){.allocator = allocator, .at = -1, .lock = -1};
        find_folder(cache, options->folder);
        find_limit(cache, options->limit);
    }
    return cache;
}

void cache_close(Cache *cache)
{
    if (!cache) {
        return;
    }
    if (cache->lock >= 0) {
        close(cache->lock);
    }
    if (cache->at >= 0) {
        close(cache->at);
    }
    Allocator allocator = cache->allocator;
    if (cache->folder) {
        allocator.release(allocator.user, cache->folder);
    }
    if (cache->buffer) {
        allocator.release(allocator.user, cache->buffer);
    }
    allocator.release(allocator.user, cache);
}

/* ---- entries ---- */

static void put_number(char *to, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (char)(number >> 8 * i);
    }
}

static uint64_t get_number(const char *from, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) {
        number |= (uint64_t)(unsigned char)from[i] << 8 * i;
    }
    return number;
}

static void digest(const char *bytes, size_t n, unsigned char out[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, n));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}

static void name_of(CacheKey key, char name[NAME_BYTES])
{
    unsigned char sum[DIGEST_BYTES];
    digest(key.bytes, key.n, sum);
    for (int i = 0; i < DIGEST_BYTES; i++) {
        snprintf(name + 2 * i, 3, "%02x", sum[i]);
    }
}

bool entry_parse(const EntryFile *file, Entry *entry)
{
    unsigned char sum[DIGEST_BYTES];
    const char *at = file->bytes;
    if (file->n < HEAD_BYTES + DIGEST_BYTES || memcmp(at, MAGIC, 8) != 0 ||
        get_number(at + 8, 4) != SCHEMA) {
        return false;
    }
    uint64_t about = get_number(at + 12, 4), key = get_number(at + 16, 8);
    uint64_t value = get_number(at + 24, 8), payload = file->n - HEAD_BYTES - DIGEST_BYTES;
    if (about > payload || key > payload - about || value != payload - about - key) {
        return false;
    }
    digest(at, file->n - DIGEST_BYTES, sum);
    if (memcmp(sum, at + file->n - DIGEST_BYTES, DIGEST_BYTES) != 0) {
        return false;
    }
    at += HEAD_BYTES;
    *entry = (Entry){{at, about}, {at + about, key}, {at + about + key, value}};
    return true;
}

static bool same_key(CacheKey a, CacheKey b)
{
    return a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0;
}

bool cache_take(Cache *cache, Arena *arena, CacheKey key, Text *value)
{
    char name[NAME_BYTES];
    EntryFile file;
    Entry entry;
    name_of(key, name);
    bool found = folder_open(cache, false) && folder_read(cache, name, true, &file);
    bool valid = found && entry_parse(&file, &entry);
    if (found && !valid) {
        folder_remove(cache, name); /* it would be found damaged again */
        cache->refused++;
    }
    if (!valid || !same_key(entry.key, key)) {
        cache->misses++;
        return false;
    }
    cache->hits++;
    *value = text_new_for(arena, entry.value.n);
    text_add_n(value, entry.value.bytes, entry.value.n);
    return true;
}

static char *entry_bytes(const Cache *cache, CacheKey key, const char *about, const Text *value,
                         size_t *n)
{
    size_t about_n = strlen(about);
    *n = HEAD_BYTES + about_n + key.n + value->n + DIGEST_BYTES;
    char *bytes = *n <= MAX_ENTRY ? cache->allocator.alloc(cache->allocator.user, *n) : NULL;
    char *at = bytes;
    if (!bytes) {
        return NULL;
    }
    memcpy(at, MAGIC, 8);
    put_number(at + 8, SCHEMA, 4);
    put_number(at + 12, about_n, 4);
    put_number(at + 16, key.n, 8);
    put_number(at + 24, value->n, 8);
    at += HEAD_BYTES;
    memcpy(at, about, about_n);
    memcpy(at + about_n, key.bytes, key.n);
    memcpy(at + about_n + key.n, value->data, value->n);
    unsigned char sum[DIGEST_BYTES];
    digest(bytes, *n - DIGEST_BYTES, sum);
    memcpy(bytes + *n - DIGEST_BYTES, sum, DIGEST_BYTES);
    return bytes;
}

void cache_put(Cache *cache, CacheKey key, const char *about, const Text *value)
{
    enum { SWEEP_EVERY = 16 };
    char name[NAME_BYTES];
    size_t n;
    if (!folder_open(cache, true)) {
        return;
    }
    char *bytes = entry_bytes(cache, key, about, value, &n);
    if (!bytes) {
        return;
    }
    name_of(key, name);
    if (folder_write(cache, name, bytes, n)) {
        cache->kept++;
        /* The name's first digit is as good as a die: one entry in 16 pays for looking at all. */
        if (name[0] == '0' || (int64_t)n > cache->limit / SWEEP_EVERY) {
            cache_prune(cache, cache->limit);
        }
    }
    cache->allocator.release(cache->allocator.user, bytes);
}

/* ---- one maker at a time ---- */

/* A byte of the file of locks for each key: a lock ends with the process, and leaves no file. */
static bool set_lock(Cache *cache, CacheKey key, short type)
{
    unsigned char sum[DIGEST_BYTES];
    digest(key.bytes, key.n, sum);
    uint64_t place;
    memcpy(&place, sum, sizeof place);
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(place >> 2), .l_len = 1};
    return fcntl(cache->lock, F_OFD_SETLK, &lock) == 0;
}

void cache_begin(Cache *cache, CacheKey key, double seconds)
{
    if (!folder_open(cache, true)) {
        return;
    }
    if (cache->lock < 0) {
        cache->lock = openat(cache->at, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    for (double waited = 0; cache->lock >= 0 && waited < seconds; waited += LOCK_NAP_NS * 1e-9) {
        if (set_lock(cache, key, F_WRLCK) || (errno != EAGAIN && errno != EACCES)) {
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOCK_NAP_NS}, NULL);
    }
}

void cache_end(Cache *cache, CacheKey key)
{
    if (cache->lock >= 0) {
        set_lock(cache, key, F_UNLCK);
    }
}
