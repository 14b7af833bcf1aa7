/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the L2 cache: lines of 128 bytes in sectors of 32, replaced by least recent use. To
 * save time it follows only a sample of the lines, in a cache that is smaller by the same factor.
 */
#ifndef TESSERA_RUNTIME_EXPLAIN_L2_MODEL_H
#define TESSERA_RUNTIME_EXPLAIN_L2_MODEL_H

#include "support/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* A part of memory that a block touches when it is `at` its way through, of 0 to 1. */
typedef struct Touch {
    float at;
    uint8_t sectors; /* a bit each */
    bool writes;
    uint64_t line;
} Touch;

typedef struct Level2 Level2;

/* `rate`: one line of this many is followed, a power of two. */
Level2 *level2_new(Arena *arena, int64_t bytes, int64_t rate);
/* A block touches [from, end); notes what of it is followed. */
void level2_note(Level2 *level2, float at, int64_t from, int64_t end, bool writes);
/* How much has been noted since `level2_turn`, and the places `at` of what was noted behind the
 * first `since`, times `scale`. */
size_t level2_noted(const Level2 *level2);
void level2_rescale(Level2 *level2, size_t since, double scale);
/* All that was noted happens, by `at`. */
void level2_turn(Level2 *level2);
/* Bytes that memory brought, and that it took, since the beginning; what is left is not written. */
typedef struct Moved {
    double read, written;
} Moved;
Moved level2_moved(const Level2 *level2);

#endif
