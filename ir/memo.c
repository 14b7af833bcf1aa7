/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing. Each entry stores the generation in which it was written, so
 * that clearing the table is incrementing the generation. */
#include "ir/memo.h"

typedef struct Entry {
    uint64_t key;
    uint64_t generation;
    int64_t found;
} Entry;

struct Memo {
    Func *func;
    Memo *next; /* that was closed before */
    Entry *entries;
    size_t n, cap; /* cap: a power of two */
    uint64_t generation;
};

enum { FIRST_CAP = 64 };

Memo *memo_open(Func *func)
{
    Memo *memo = func->spare_memos;
    if (memo) {
        func->spare_memos = memo->next;
        memo_clear(memo);
        return memo;
    }
    memo = ARENA_NEW(func->arena, Memo);
    memo->func = func;
    memo->cap = FIRST_CAP;
    memo->entries = ARENA_ARRAY(func->arena, Entry, memo->cap);
    memo->generation = 1;
    return memo;
}

Memo *memo_about(const Value *value)
{
    const Block *block = value->def ? value->def->parent : value->block;
    return block ? memo_open(block->func) : NULL;
}

void memo_close(Memo *memo)
{
    if (memo) {
        memo->next = memo->func->spare_memos;
        memo->func->spare_memos = memo;
    }
}

void memo_clear(Memo *memo)
{
    memo->generation++;
    memo->n = 0;
}

/* Where the key is, or would be. */
static Entry *entry_of(const Memo *memo, uint64_t key)
{
    size_t at = (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (memo->cap - 1);
    while (memo->entries[at].generation == memo->generation && memo->entries[at].key != key) {
        at = (at + 1) & (memo->cap - 1);
    }
    return &memo->entries[at];
}

static uint64_t key_of(const Value *value, int key)
{
    return (uint64_t)value->id << 32 | (uint32_t)key;
}

bool memo_known(const Memo *memo, const Value *value, int key, int64_t *found)
{
    const Entry *entry = memo ? entry_of(memo, key_of(value, key)) : NULL;
    if (memo) {
        memo->func->visited++;
    }
    bool known = entry && entry->generation == memo->generation;
    *found = known ? entry->found : 0;
    return known;
}

static void grow(Memo *memo)
{
    Entry *old = memo->entries;
    size_t cap = memo->cap;
    memo->cap *= 2;
    memo->entries = ARENA_ARRAY(memo->func->arena, Entry, memo->cap);
    for (size_t i = 0; i < cap; i++) {
        if (old[i].generation == memo->generation) {
            *entry_of(memo, old[i].key) = old[i];
        }
    }
}

int64_t memo_keep(Memo *memo, const Value *value, int key, int64_t found)
{
    uint64_t all = key_of(value, key);
    Entry *entry = memo ? entry_of(memo, all) : NULL;
    if (!entry) {
        return found;
    }
    if (entry->generation != memo->generation) {
        if (2 * ++memo->n > memo->cap) {
            grow(memo);
            entry = entry_of(memo, all);
        }
    }
    *entry = (Entry){all, memo->generation, found};
    return found;
}

bool memo_visit(Memo *memo, const Value *value)
{
    int64_t found;
    if (memo_known(memo, value, 0, &found)) {
        return false;
    }
    memo_keep(memo, value, 0, 1);
    return true;
}
