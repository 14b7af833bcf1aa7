/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing in an arena. It holds pointers to items that are stored
 * elsewhere and are never removed; the caller provides the hash of an item and the comparison with
 * the key. */
#ifndef TESSERA_SUPPORT_HASH_TABLE_H
#define TESSERA_SUPPORT_HASH_TABLE_H

#include "support/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct TableSlot {
    uint64_t hash;
    void *item; /* NULL: free */
} TableSlot;

typedef struct HashTable {
    TableSlot *slots;
    size_t n, cap; /* cap: a power of two, or 0 */
} HashTable;

typedef bool TableSame(const void *item, const void *key);

/* The item that is the same as `key`, whose hash is given, or NULL. */
void *table_find(const HashTable *table, uint64_t hash, TableSame *same, const void *key);
/* Adds an item that is not in it. */
void table_add(Arena *arena, HashTable *table, uint64_t hash, void *item);

/* Folds a word into a hash; begin with any number. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    uint64_t mixed = (hash ^ word) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9u;
    return mixed ^ (mixed >> 32);
}
uint64_t hash_text(uint64_t hash, const char *text);

#endif
