/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated L2 cache with LRU replacement that follows only a sample of the cache lines. It
 * tells how much of the traffic of a launch reaches global memory. */
#include "runtime/explain/l2_model.h"

#include <string.h>

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
    Touch *sorted; /* space for sorting them */
    size_t capacity;
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

enum { DIGIT = 11, DIGITS = 1 << DIGIT, MAX_BITS = 32 };

/* Times are not negative, so the bits of floats have their order. */
static uint32_t digit_of(const Touch *touch, int shift)
{
    uint32_t bits;
    memcpy(&bits, &touch->at, sizeof bits);
    return bits >> shift & (DIGITS - 1);
}

/* By time; what happens at the same time stays in its order. A radix sort, since there are up to
 * millions of them. */
static void sort_noted(Level2 *l)
{
    size_t n = l->noted.n;
    if (n > l->capacity) {
        l->capacity = l->noted.cap;
        l->sorted = ARENA_ARRAY(l->arena, Touch, l->capacity);
    }
    Touch *from = l->noted.items, *to = l->sorted;
    for (int shift = 0; shift < MAX_BITS; shift += DIGIT) {
        size_t first[DIGITS + 1] = {0};
        for (size_t i = 0; i < n; i++) {
            first[digit_of(&from[i], shift) + 1]++;
        }
        for (int digit = 0; digit < DIGITS; digit++) {
            first[digit + 1] += first[digit];
        }
        for (size_t i = 0; i < n; i++) {
            to[first[digit_of(&from[i], shift)]++] = from[i];
        }
        Touch *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != l->noted.items) { /* after an odd number of digits */
        memcpy(l->noted.items, from, n * sizeof *from);
    }
}

void level2_turn(Level2 *l)
{
    if (l->noted.n > 1) {
        sort_noted(l);
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
