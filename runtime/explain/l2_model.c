/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated L2 cache with LRU replacement that follows only a sample of the cache lines. It
 * tells how much of the traffic of a launch reaches global memory. */
#include "runtime/explain/l2_model.h"

#include <stdlib.h>

enum { LINE = 128, SECTOR = 32, WAYS = 16, GRANULE = 256 };

typedef struct Line {
    uint64_t line;    /* 0: none */
    uint64_t touched; /* when */
    uint8_t valid, dirty;
} Line;

struct Level2 {
    Arena *arena;
    int64_t rate;
    uint64_t sets, now;
    Line *lines;
    double read, written; /* sectors that are followed */
    struct {
        Touch *items;
        size_t n, cap;
    } noted;
};

Level2 *level2_new(Arena *arena, int64_t bytes, int64_t rate)
{
    Level2 *l = ARENA_NEW(arena, Level2);
    int64_t sets = bytes / LINE / WAYS / rate;
    *l = (Level2){.arena = arena, .rate = rate, .sets = (uint64_t)(sets > 0 ? sets : 1)};
    l->lines = ARENA_ARRAY(arena, Line, l->sets * WAYS);
    return l;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void note_line(Level2 *l, float at, int64_t line, int64_t from, int64_t end, bool writes)
{
    int64_t first = line * LINE, lo = from > first ? from - first : 0;
    int64_t hi = end < first + LINE ? end - first : LINE;
    unsigned sectors = (2u << ((hi - 1) / SECTOR)) - (1u << (lo / SECTOR));
    Touch touch = {at, (uint8_t)sectors, writes, (uint64_t)line};
    ARENA_PUSH(l->arena, &l->noted, touch);
}

void level2_note(Level2 *l, float at, int64_t from, int64_t end, bool writes)
{
    for (int64_t granule = from / GRANULE; granule * GRANULE < end; granule++) {
        if (mix((uint64_t)granule) & (uint64_t)(l->rate - 1)) {
            continue;
        }
        int64_t lo = granule * GRANULE, hi = lo + GRANULE;
        lo = lo > from ? lo : from;
        hi = hi < end ? hi : end;
        for (int64_t line = lo / LINE; line * LINE < hi; line++) {
            note_line(l, at, line, lo, hi, writes);
        }
    }
}

size_t level2_noted(const Level2 *l)
{
    return l->noted.n;
}

void level2_rescale(Level2 *l, size_t since, double scale)
{
    for (size_t i = since; i < l->noted.n; i++) {
        l->noted.items[i].at *= (float)scale;
    }
}

/* ---- what happens ---- */

static Line *find_line(Level2 *l, uint64_t line)
{
    Line *set = &l->lines[mix(line * 2 + 1) % l->sets * WAYS], *oldest = set;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].line == line) {
            return &set[way];
        }
        oldest = set[way].touched < oldest->touched ? &set[way] : oldest;
    }
    l->written += __builtin_popcount(oldest->dirty);
    *oldest = (Line){.line = line};
    return oldest;
}

static void touch(Level2 *l, const Touch *touch)
{
    Line *line = find_line(l, touch->line);
    if (touch->writes) {
        line->dirty |= touch->sectors;
    } else {
        l->read += __builtin_popcount(touch->sectors & ~line->valid);
    }
    line->valid |= touch->sectors;
    line->touched = ++l->now;
}

static int by_place(const void *a, const void *b)
{
    float x = ((const Touch *)a)->at, y = ((const Touch *)b)->at;
    return (x > y) - (x < y);
}

void level2_turn(Level2 *l)
{
    if (l->noted.n > 0) {
        qsort(l->noted.items, l->noted.n, sizeof *l->noted.items, by_place);
    }
    for (size_t i = 0; i < l->noted.n; i++) {
        touch(l, &l->noted.items[i]);
    }
    l->noted.n = 0;
}

Moved level2_moved(const Level2 *l)
{
    double bytes = (double)SECTOR * (double)l->rate;
    return (Moved){l->read * bytes, l->written * bytes};
}
