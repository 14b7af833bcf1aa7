/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's folder and the files in it. Private to the component. */
#ifndef TESSERA_RUNTIME_CACHE_CACHE_FOLDER_H
#define TESSERA_RUNTIME_CACHE_CACHE_FOLDER_H

#include "runtime/cache/code_cache.h"

enum { NAME_BYTES = 33, DIGEST_BYTES = 16, MAX_ENTRY = 1 << 30 };

struct Cache {
    Allocator allocator;
    char *folder; /* NULL: none is known */
    const char *why;
    int at;   /* the folder; -1: not opened yet */
    int lock; /* the file of locks; -1: not opened yet */
    int64_t limit;
    unsigned temporaries; /* names given */
    char *buffer;         /* of the file that was read last */
    size_t capacity;
    uint64_t hits, misses, kept, refused;
};

/* Opens the folder unless it is open, after making it if `make`. False: it cannot be used, and
 * `why` says so, or it is not there yet. */
bool folder_open(Cache *cache, bool make);
/* Reads a whole file; false where there is none, or not one of ours. The bytes are good until the
 * next call. `is_use`: it shall be kept longer. */
typedef struct EntryFile {
    const char *bytes;
    size_t n;
} EntryFile;
bool folder_read(Cache *cache, const char *name, bool is_use, EntryFile *file);
/* Writes under another name and renames. */
bool folder_write(Cache *cache, const char *name, const char *bytes, size_t n);
bool folder_remove(Cache *cache, const char *name);

#endif
