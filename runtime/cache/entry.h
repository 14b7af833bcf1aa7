/* SPDX-License-Identifier: Apache-2.0 */
/* What a file of the cache holds. Room-private. */
#ifndef TESSERA_RUNTIME_CACHE_ENTRY_H
#define TESSERA_RUNTIME_CACHE_ENTRY_H

#include "runtime/cache/folder.h"

/* Parts of a file, without an end of their own. */
typedef struct Entry {
    CacheKey about, key, value;
} Entry;

/* False: it is damaged, or of another schema. */
bool entry_parse(const EntryFile *file, Entry *entry);

#endif
