/* SPDX-License-Identifier: Apache-2.0 */
/* Constructs the layouts that the compiler uses: blocked layouts, wgmma accumulators,
 * shared-memory tiles. */
#include "ir/layout/layout.h"
#include "support/int_math.h"

/* ---- blocked ---- */

typedef struct Blocker {
    Layout layout;
    const int64_t *extents;
    int64_t next[MAX_RANK]; /* what the next bit along an axis is worth */
} Blocker;

/* A bit past the extent holds a copy: zero. Registers hold no copies: the bit is left out. */
static void block_bit(Blocker *b, LayoutIn in, int axis)
{
    bool inside = b->next[axis] < b->extents[axis];
    if (!inside && in == IN_REGISTER) {
        return;
    }
    if (b->layout.bits[in] < LAYOUT_BITS) {
        int bit = b->layout.bits[in]++;
        b->layout.basis[in][bit][axis] = inside ? (int32_t)b->next[axis] : 0;
    }
    b->next[axis] *= 2;
}

static void block_bits(Blocker *b, LayoutIn in, int rank, const int *order, const int *counts)
{
    for (int i = 0; i < rank; i++) {
        for (int n = 1; n < counts[order[i]]; n *= 2) {
            block_bit(b, in, order[i]);
        }
    }
}

Layout layout_blocked(int rank, const int64_t *extents, const int *order, const int *per_thread,
                      const int *lanes, const int *warps)
{
    Blocker b = {.layout = {.rank = (uint8_t)rank}, .extents = extents};
    for (int axis = 0; axis < rank; axis++) {
        b.next[axis] = 1;
    }
    block_bits(&b, IN_REGISTER, rank, order, per_thread);
    block_bits(&b, IN_LANE, rank, order, lanes);
    block_bits(&b, IN_WARP, rank, order, warps);
    for (int i = 0; i < rank; i++) {
        while (b.next[order[i]] < extents[order[i]]) {
            block_bit(&b, IN_REGISTER, order[i]);
        }
    }
    return b.layout;
}

/* ---- wgmma ---- */

void layout_add_bit(Layout *layout, LayoutIn in, int axis, int64_t value)
{
    if (layout->bits[in] < LAYOUT_BITS) {
        layout->basis[in][layout->bits[in]++][axis] = (int32_t)value;
    }
}

static void add_bits(Layout *layout, LayoutIn in, int axis, int64_t from, int64_t below)
{
    for (int64_t value = from; value < below; value *= 2) {
        layout_add_bit(layout, in, axis, value);
    }
}

Layout layout_wgmma_acc(int64_t m, int64_t n, int warps)
{
    int64_t groups = warps < 4 ? 1 : warps / 4;
    int64_t rows = 64 * power_of_two_at_least(ceil_div(m, 64 * groups)); /* of a group */
    Layout layout = {.rank = 2};
    layout_add_bit(&layout, IN_REGISTER, 1, 1);
    layout_add_bit(&layout, IN_REGISTER, 0, 8);
    add_bits(&layout, IN_REGISTER, 1, 8, n);
    add_bits(&layout, IN_REGISTER, 0, 64, rows);
    add_bits(&layout, IN_LANE, 1, 2, 8);
    add_bits(&layout, IN_LANE, 0, 1, 8);
    add_bits(&layout, IN_WARP, 0, 16, 64);
    for (int64_t group = 1; group < groups; group *= 2) {
        layout_add_bit(&layout, IN_WARP, 0, group * rows < m ? group * rows : 0);
    }
    return layout;
}

Layout layout_wgmma_row_permuted(int64_t m, int64_t n, int warps)
{
    static const int32_t pairs[] = {16, 2, 4, 1, 8, 32}, fours[] = {16, 4, 8, 1, 32, 64, 2};
    int64_t groups = warps < 4 ? 1 : warps / 4, whole = 128 * groups;
    bool four = m % whole == 0 && (m / whole & (m / whole - 1)) == 0;
    int n_bits = four ? sizeof fours / sizeof *fours : sizeof pairs / sizeof *pairs;
    Layout layout = layout_wgmma_acc(m, n, warps);
    for (int in = IN_REGISTER; in < IN_COUNT; in++) {
        for (int i = 0; i < layout.bits[in]; i++) {
            int32_t *row = &layout.basis[in][i][0];
            for (int bit = 0; bit < n_bits; bit++) {
                if (*row == 1 << bit) {
                    *row = four ? fours[bit] : pairs[bit];
                    break;
                }
            }
        }
    }
    return layout;
}

/* ---- shared tiles ---- */

/* Which 16-byte piece of its row holds a piece: the engine XORs address bits 4… with bits 7…. */
static int64_t swizzled_piece(int64_t piece, int64_t row, int swizzle)
{
    switch (swizzle) {
    case 128: return piece ^ (row & 7);
    case 64: return piece ^ (row >> 1 & 3);
    case 32: return piece ^ (row >> 2 & 1);
    default: return piece;
    }
}

int64_t shared_offset(int64_t rows, int64_t cols, int elem_bytes, int swizzle, int skew,
                      int64_t row, int64_t col)
{
    int64_t chunk_bytes = swizzle ? swizzle : cols * elem_bytes;
    int64_t byte = col * elem_bytes;
    int64_t chunk = byte / chunk_bytes;
    byte %= chunk_bytes;
    int64_t piece = swizzled_piece(byte / 16, row >> skew, swizzle);
    return (chunk * rows + row) * chunk_bytes + piece * 16 + byte % 16;
}
