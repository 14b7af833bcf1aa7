/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of strip_mine: which tiles become loops over strips (strip_mine.c), and the loops
 * (strip_mine_loop.c). */
#ifndef TESSERA_PASSES_LAYOUT_STRIP_MINE_H
#define TESSERA_PASSES_LAYOUT_STRIP_MINE_H

#include "ir/build.h"

/* The ops from `first` to `last` of a block, which compute a tile along `range` and store it. */
typedef struct StripMine {
    Func *func;
    Op *first, *last;
    const DimVar *range;
    int64_t width;  /* elements of a strip */
    CloneMap map;   /* from the tile to the strip */
    Value *counter; /* i32: number of the strip */
    struct {
        Value **items; /* tiles from before `first` that the strips are parts of */
        size_t n, cap;
    } carried;
    struct {
        Op **items; /* that go into the loop */
        size_t n, cap;
    } inside;
} StripMine;

/* True if the type has an axis along the range. */
bool strip_type_is_along(Type type, const DimVar *range);
/* That axis, if it is the range itself; -1: none is. */
int strip_axis(Type type, const DimVar *range);
/* Does the op take or make a part of the tile along the range? */
bool strip_is_along(const Op *op, const DimVar *range);
/* The same of what goes into the loop: not of where the range begins and ends. */
bool strip_goes_along(const Op *op, const DimVar *range);
/* An access of shared memory that the tile goes through. */
bool strip_goes_through(const Op *op);
bool strip_is_barrier(const Op *op);
/* Replaces the ops by a loop over strips of `width` elements. */
void strip_build_loop(StripMine *mine);

#endif
