/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the wavefronts that shared memory needs for the accesses of one warp. It enumerates the
 * addresses of all lanes under a layout and a swizzle, and counts the different rows of each
 * bank. */
#include "passes/analysis/bank_conflicts.h"

#include "ir/schedule.h"
#include "ir/target/target.h"
#include "support/text.h"

enum { MAX_ROW = 256, PIECE_BYTES = 16 };

bool an_swizzled(Func *func)
{
    return schedule_decide_on(func, "swizzle", true,
                              "lanes find their pieces of shared memory in different banks");
}

static int64_t tile_rows(const SharedTile *tile)
{
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < tile->rank; axis++) {
        rows *= tile->extents[axis];
    }
    return rows;
}

int64_t an_shared_offset(const SharedTile *tile, const int32_t *coords)
{
    int64_t row = 0;
    for (int axis = 0; axis + 1 < tile->rank; axis++) {
        row = row * tile->extents[axis] + coords[axis];
    }
    int64_t cols = tile->extents[tile->rank - 1];
    return shared_offset(tile_rows(tile), cols, tile->elem_bytes, tile->swizzle, tile->skew, row,
                         coords[tile->rank - 1]);
}

bool an_swizzle_fits(const SharedTile *tile, int swizzle)
{
    int64_t row_bytes = tile->extents[tile->rank - 1] * tile->elem_bytes;
    return swizzle == 0 || (row_bytes % swizzle == 0 && tile_rows(tile) % SWIZZLE_ROWS == 0);
}

int an_shared_vector(const SharedTile *tile, const Layout *layout)
{
    int64_t vector = layout_contiguous(layout, tile->rank - 1);
    int64_t cols = tile->extents[tile->rank - 1];
    while (vector > 1 && (vector * tile->elem_bytes > PIECE_BYTES || cols % vector != 0)) {
        vector /= 2;
    }
    return (int)vector;
}

static bool inside(const SharedTile *tile, const int32_t *coords)
{
    for (int axis = 0; axis < tile->rank; axis++) {
        if (coords[axis] >= tile->extents[axis]) {
            return false;
        }
    }
    return true;
}

/* Words that one group of lanes touches in each bank; lanes that touch the same word share it. */
typedef struct Turn {
    int64_t words[MAX_ROW];
    int n;
} Turn;

static void touch(Turn *turn, int64_t word)
{
    for (int i = 0; i < turn->n; i++) {
        if (turn->words[i] == word) {
            return;
        }
    }
    turn->words[turn->n++] = word;
}

/* One access by n lanes, each of `bytes`: lane l has the element at lanes[l] ^ base. */
static int turns_of_group(const SharedTile *tile, const int32_t (*lanes)[MAX_RANK],
                          const int32_t *base, int n, int bytes, int banks)
{
    Turn turn = {.n = 0};
    for (int lane = 0; lane < n; lane++) {
        int32_t coords[MAX_RANK];
        for (int axis = 0; axis < tile->rank; axis++) {
            coords[axis] = lanes[lane][axis] ^ base[axis];
        }
        if (inside(tile, coords)) {
            int64_t at = an_shared_offset(tile, coords);
            for (int byte = 0; byte < bytes; byte += SHARED_WORD_BYTES) {
                touch(&turn, (at + byte) / SHARED_WORD_BYTES);
            }
        }
    }
    /* The access takes as many wavefronts as its busiest bank has words. */
    int counts[MAX_ROW] = {0};
    int most = 0;
    for (int i = 0; i < turn.n; i++) {
        int count = ++counts[turn.words[i] % banks];
        most = count > most ? count : most;
    }
    return most;
}

int64_t an_shared_wavefronts(const Target *target, const SharedTile *tile, const Layout *layout,
                             int64_t *least)
{
    int banks = target->shared_row / SHARED_WORD_BYTES;
    int vector = an_shared_vector(tile, layout);
    int bytes = vector * tile->elem_bytes;
    int lanes = 1 << layout->bits[IN_LANE];
    int group = bytes <= SHARED_WORD_BYTES ? banks : target->shared_row / bytes;
    group = group < lanes ? group : lanes;
    int32_t places[MAX_LANES][MAX_RANK], base[MAX_RANK];
    for (int lane = 0; lane < lanes; lane++) {
        layout_apply(layout, 0, (uint32_t)lane, 0, places[lane]);
    }
    int64_t turns = 0;
    for (int reg = 0; reg < layout_registers(layout); reg += vector) {
        layout_apply(layout, (uint32_t)reg, 0, 0, base);
        for (int first = 0; first < lanes; first += group) {
            int taken = turns_of_group(tile, places + first, base, group, bytes, banks);
            turns += taken;
            *least += taken > 0;
        }
    }
    return turns;
}
