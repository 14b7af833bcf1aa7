/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the layout of a tile that is only scattered: lanes are distributed along the axis whose
 * elements are nearest to each other in memory, which is not always the last one.
 *
 *     scatter %y[%n // 4, 2 * %m + %n % 2]      phases of a transposed convolution: two columns are
 *                                               a run, and what follows it is the next row
 *
 * Along the last axis, a thread owns as many elements as one access of shared memory moves, because
 * it usually reads the tile from there; adjacent lanes then write adjacent runs. */
#include "passes/analysis/access_width.h"
#include "passes/analysis/memory_steps.h"
#include "passes/layout/assign_layouts.h"
#include "support/int_math.h"

enum { MAX_BITS = 3 * LAYOUT_BITS };

/* Of a coordinate of the tile. */
typedef struct TileBit {
    int axis;
    int32_t at;
    int64_t step; /* in memory */
} TileBit;

typedef struct TileBits {
    TileBit items[MAX_BITS];
    int n;
} TileBits;

/* Sorted by their steps; of equal steps the last axis first, as they lie in the tile. */
static void add_bit(TileBits *bits, TileBit bit)
{
    int at = bits->n++;
    for (; at > 0 && bits->items[at - 1].step > bit.step; at--) {
        bits->items[at] = bits->items[at - 1];
    }
    bits->items[at] = bit;
}

/* False: a place is computed from data, or the tile has too many elements. */
static bool find_bits(const Op *scatter, const int64_t *extents, TileBits *bits)
{
    bits->n = 0;
    for (int axis = op_moved_value(scatter)->type->rank; axis-- > 0;) {
        for (int32_t at = 1; at < extents[axis]; at *= 2) {
            TileBit bit = {axis, at, an_memory_step(scatter, axis, at)};
            if (bit.step < 0 || bits->n == MAX_BITS) {
                return false;
            }
            add_bit(bits, bit);
        }
    }
    return true;
}

/* Do this many bits follow each other as they lie in the tile? */
static bool is_plain_order(const TileBits *bits, const int64_t *extents, int rank, int n)
{
    int axis = rank - 1;
    int32_t at = 1;
    for (int i = 0; i < n && i < bits->n; i++, at *= 2) {
        while (axis >= 0 && at >= extents[axis]) {
            axis--;
            at = 1;
        }
        if (axis < 0 || bits->items[i].axis != axis || bits->items[i].at != at) {
            return false;
        }
    }
    return true;
}

/* Elements of the last axis that a thread holds side by side. */
static int64_t run_of(const LayoutPass *pass, const Op *scatter, int64_t extent, int64_t share)
{
    int width = an_width(pass->func, scatter);
    int bytes = dtype_bytes(op_moved_value(scatter)->type->dtype);
    int64_t run = width > 1 && bytes ? pass->func->target->vector_bytes / bytes : 1;
    while (run > width && (extent % run || run > share)) {
        run /= 2;
    }
    return run;
}

bool layout_of_scatter(LayoutPass *pass, const Op *scatter, int warps, Layout *layout)
{
    Type type = op_moved_value(scatter)->type;
    int last = type->rank - 1, lane_bits = log2_ceil(pass->lanes);
    int64_t extents[MAX_RANK], elements = 1;
    TileBits bits;
    layout_extents(pass, type, extents);
    for (int i = 0; i < type->rank; i++) {
        elements *= power_of_two_at_least(extents[i]);
    }
    int64_t width = an_width(pass->func, scatter), share = elements / (pass->lanes * warps);
    if (!find_bits(scatter, extents, &bits) ||
        is_plain_order(&bits, extents, type->rank, lane_bits + log2_ceil(width))) {
        return false;
    }
    int64_t run = run_of(pass, scatter, extents[last], share);
    *layout = (Layout){.rank = (uint8_t)type->rank};
    for (int32_t at = 1; at < run; at *= 2) {
        layout_add_bit(layout, IN_REGISTER, last, at);
    }
    for (int i = 0; i < bits.n; i++) {
        const TileBit *bit = &bits.items[i];
        bool partly = 2 * (int64_t)bit->at > extents[bit->axis]; /* not all of them are inside */
        LayoutIn in = IN_REGISTER;
        if (layout->bits[IN_LANE] < lane_bits) {
            in = IN_LANE;
        } else if (!partly && 1 << layout->bits[IN_WARP] < warps && warps > 1) {
            in = IN_WARP;
        }
        if (bit->axis != last || bit->at >= run) {
            layout_add_bit(layout, in, bit->axis, bit->at);
        }
    }
    while (layout->bits[IN_LANE] < lane_bits) {
        layout_add_bit(layout, IN_LANE, last, 0);
    }
    while (1 << layout->bits[IN_WARP] < warps) {
        layout_add_bit(layout, IN_WARP, last, 0);
    }
    return true;
}
