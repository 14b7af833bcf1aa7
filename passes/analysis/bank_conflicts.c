/* SPDX-License-Identifier: Apache-2.0 */
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

/* One access by lanes [first, first + n), each of `bytes`. */
static int turns_of_group(const SharedTile *tile, const Layout *layout, uint32_t reg, int first,
                          int n, int bytes, int banks)
{
    Turn turn = {.n = 0};
    for (int lane = first; lane < first + n; lane++) {
        int32_t coords[MAX_RANK];
        layout_apply(layout, reg, (uint32_t)lane, 0, coords);
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

int64_t an_shared_wavefronts(const Target *target, const SharedTile *tile, const Layout *layout)
{
    int banks = target->shared_row / SHARED_WORD_BYTES;
    int vector = an_shared_vector(tile, layout);
    int bytes = vector * tile->elem_bytes;
    int lanes = 1 << layout->bits[IN_LANE];
    int group = bytes <= SHARED_WORD_BYTES ? banks : target->shared_row / bytes;
    group = group < lanes ? group : lanes;
    int64_t turns = 0;
    for (int reg = 0; reg < layout_registers(layout); reg += vector) {
        for (int first = 0; first < lanes; first += group) {
            turns += turns_of_group(tile, layout, (uint32_t)reg, first, group, bytes, banks);
        }
    }
    return turns;
}
