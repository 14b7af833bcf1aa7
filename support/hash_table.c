/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing and linear probing. It doubles when it is nearly full and
 * never removes items, which keeps a search simple. */
#include "support/hash_table.h"

enum { FIRST_CAP = 32 };

void *table_find(const HashTable *table, uint64_t hash, TableSame *same, const void *key)
{
    if (table->cap == 0) {
        return NULL;
    }
    for (size_t at = hash & (table->cap - 1); table->slots[at].item;
         at = (at + 1) & (table->cap - 1)) {
        if (table->slots[at].hash == hash && same(table->slots[at].item, key)) {
            return table->slots[at].item;
        }
    }
    return NULL;
}

static void put(HashTable *table, TableSlot slot)
{
    size_t at = slot.hash & (table->cap - 1);
    while (table->slots[at].item) {
        at = (at + 1) & (table->cap - 1);
    }
    table->slots[at] = slot;
}

static void grow(Arena *arena, HashTable *table)
{
    HashTable old = *table;
    table->cap = old.cap ? old.cap * 2 : FIRST_CAP;
    table->slots = ARENA_ARRAY(arena, TableSlot, table->cap);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].item) {
            put(table, old.slots[i]);
        }
    }
}

void table_add(Arena *arena, HashTable *table, uint64_t hash, void *item)
{
    if (table->n * 2 >= table->cap) {
        grow(arena, table);
    }
    put(table, (TableSlot){hash, item});
    table->n++;
}

/* Multiplying spreads upwards, the shifts bring it down to the bits that choose the slot. */
uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = hash_word(hash, (unsigned char)*text);
    }
    return hash;
}
