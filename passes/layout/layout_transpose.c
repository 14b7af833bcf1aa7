/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the layouts of a tile of narrow elements that is loaded along one axis and stored along
 * another: each thread owns a block of both axes and transposes it in its registers.
 *
 *     %t = load %x[%C, %W] : bf16[%C, %W]        registers W 1, 2, 4, C 1, 2, 4: wide loads
 *     %u = permute %t : bf16[%W, %C]             registers C 1, 2, 4, W 1, 2, 4: wide stores
 *     store %y[%W, %C], %u
 *
 * Through shared memory such a tile would be written one element at a time. If the stored rows are
 * short, consecutive elements of a loaded row would then fall into few banks: with 8 channels of 16
 * bits, into a single one. */
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/layout/assign_layouts.h"
#include "support/int_math.h"

enum {
    NARROW_BYTES = 2, /* of an element: a word of shared memory has two or more */
    LINE_BYTES = 128, /* that lanes store side by side */
    PIECE_BYTES = 64, /* that they load side by side: two sectors */
    STORE_BYTES = 8,  /* that a lane stores at least */
    WORD_BYTES = 4,   /* that a lane loads at least */
};

typedef struct Turn {
    LayoutPass *pass;
    int64_t extents[MAX_RANK]; /* of the loaded tile, padded to powers of two */
    int rank, loaded, stored;  /* the axes that are contiguous in memory */
    int64_t load_wide, store_wide; /* elements that one access moves at most */
    int64_t load_run, store_run, store_lanes;
} Turn;

static bool is_plain_access(const Op *op)
{
    Access access = op_access(op, 0);
    return access.memory->type->kind == TYPE_TENSOR &&
           type_stride_is(access.memory->type, access.n - 1, 1);
}

/* The permute that alone reads the load, and whose result a store alone reads; NULL: none. */
static Op *permute_of(const Func *func, const Op *load)
{
    Op *permute = load->kind == OP_LOAD ? value_only_user(func, load->results[0]) : NULL;
    bool turns = permute && permute->kind == OP_PERMUTE && is_plain_access(load);
    const Op *store = turns ? value_only_user(func, permute->results[0]) : NULL;
    return store && store->kind == OP_STORE && is_plain_access(store) ? permute : NULL;
}

/* How many elements of each axis a thread and the lanes take. False: the tile is too small, or its
 * stored rows are so long that it goes through shared memory well. */
static bool choose_block(Turn *turn, int bytes, int warps)
{
    int64_t share = 1, lanes = turn->pass->lanes;
    for (int i = 0; i < turn->rank; i++) {
        share *= turn->extents[i];
    }
    share /= lanes * warps;
    int64_t row = turn->extents[turn->stored];
    turn->store_run = min_i64(row, turn->store_wide);
    if (row * bytes >= LINE_BYTES || turn->store_run * bytes < STORE_BYTES) {
        return false; /* a swizzle spreads the pieces of long rows over the banks */
    }
    turn->store_lanes = min_i64(row / turn->store_run, LINE_BYTES / bytes / turn->store_run);
    int64_t others = lanes / turn->store_lanes;
    turn->load_run = min_i64(WORD_BYTES / bytes, turn->load_wide);
    while (turn->load_run * others * bytes < PIECE_BYTES && turn->load_run < turn->load_wide) {
        turn->load_run *= 2;
    }
    while (turn->load_run > 1 && turn->load_run * turn->store_run > share) {
        turn->load_run /= 2;
    }
    return turn->load_run * turn->store_run <= share &&
           turn->load_run * others <= turn->extents[turn->loaded];
}

/* Adds bits of the axis from *at on, up to `end`. */
static void add_bits(Layout *layout, LayoutIn in, int axis, int64_t at, int64_t end)
{
    for (; at < end; at *= 2) {
        layout_add_bit(layout, in, axis, at);
    }
}

/* What is left of the axes: to warps, then to registers. */
static void add_rest(const Turn *turn, Layout *layout, int warps, const int64_t *taken)
{
    for (int i = 0; i < turn->rank; i++) {
        int axis = i;
        if (i == 0) {
            axis = turn->loaded;
        } else if (i <= turn->loaded) {
            axis = i - 1;
        }
        for (int64_t at = taken[axis]; at < turn->extents[axis]; at *= 2) {
            bool warp = 1 << layout->bits[IN_WARP] < warps;
            layout_add_bit(layout, warp ? IN_WARP : IN_REGISTER, axis, at);
        }
    }
    while (1 << layout->bits[IN_WARP] < warps) {
        layout_add_bit(layout, IN_WARP, turn->rank - 1, 0);
    }
}

/* Of the loaded tile; `by_rows`: registers that follow one another lie along the axis that is
 * stored, and otherwise along the one that is loaded. */
static Layout block_layout(const Turn *turn, int warps, bool by_rows)
{
    Layout layout = {.rank = (uint8_t)turn->rank};
    int64_t taken[MAX_RANK], others = turn->pass->lanes / turn->store_lanes;
    for (int i = 0; i < turn->rank; i++) {
        taken[i] = 1;
    }
    taken[turn->stored] = turn->store_run * turn->store_lanes;
    taken[turn->loaded] = turn->load_run * others;
    if (!by_rows) {
        add_bits(&layout, IN_REGISTER, turn->loaded, 1, turn->load_run);
    }
    add_bits(&layout, IN_REGISTER, turn->stored, 1, turn->store_run);
    if (by_rows) {
        add_bits(&layout, IN_REGISTER, turn->loaded, 1, turn->load_run);
    }
    add_bits(&layout, IN_LANE, turn->stored, turn->store_run, taken[turn->stored]);
    add_bits(&layout, IN_LANE, turn->loaded, turn->load_run, taken[turn->loaded]);
    add_rest(turn, &layout, warps, taken);
    return layout;
}

Op *layout_of_transposed(LayoutPass *pass, const Op *load, Layout *loaded, Layout *stored)
{
    Op *permute = permute_of(pass->func, load);
    if (!permute) {
        return NULL;
    }
    Type type = load->results[0]->type;
    int bytes = dtype_bytes(type->dtype), warps = layout_warps(pass, load->parent);
    Turn turn = {.pass = pass, .rank = type->rank, .loaded = type->rank - 1};
    turn.stored = op_operand_axis(permute, 0, type->rank - 1);
    turn.load_wide = an_vector(pass->func, load);
    turn.store_wide = an_vector(pass->func, value_only_user(pass->func, permute->results[0]));
    layout_extents(pass, type, turn.extents);
    bool padded = false;
    for (int i = 0; i < type->rank; i++) {
        int64_t power = power_of_two_at_least(turn.extents[i]);
        padded = padded || power != turn.extents[i];
        turn.extents[i] = power;
    }
    bool good = bytes <= NARROW_BYTES && !dtype_is_packed(type->dtype) && !padded &&
                turn.stored != turn.loaded && (warps & (warps - 1)) == 0 &&
                choose_block(&turn, bytes, warps);
    if (!good) {
        return NULL;
    }
    *loaded = block_layout(&turn, warps, false);
    Layout rows = block_layout(&turn, warps, true);
    *stored = layout_of_result(permute, &rows);
    return permute;
}
