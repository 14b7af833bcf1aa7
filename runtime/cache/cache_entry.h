/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of one file of the cache. Private to the component. */
#ifndef TESSERA_RUNTIME_CACHE_CACHE_ENTRY_H
#define TESSERA_RUNTIME_CACHE_CACHE_ENTRY_H

#include "runtime/cache/cache_folder.h"

/* Parts of a file, without an end of their own. */
typedef struct Entry {
    CacheKey about, key, value;
} Entry;

/* False: it is damaged, or of another schema. */
bool entry_parse(const EntryFile *file, Entry *entry);

#endif
