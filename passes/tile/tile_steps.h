/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that all choices of tile sizes share: a step that fits its axis, the user's step.
 * Private to tile. */
#ifndef TESSERA_PASSES_TILE_TILE_STEPS_H
#define TESSERA_PASSES_TILE_TILE_STEPS_H

#include "ir/nominal_sizes.h"
#include "passes/analysis/wave_model.h"
#include "passes/tile/tile.h"
#include "support/int_math.h"

enum {
    THREAD_ACCUMULATORS = 64, /* of a product by fused multiply-adds: 8 by 8 */
    ROW_ELEMENTS = 32,        /* the same where rows are reduced: fewer threads to synchronize */
    MAX_ROW_LOADS = 2,        /* of a row: more are in flight together, in registers */
    ACCESS_BYTES = 16,        /* of one access of a thread */
    TURNED_BYTES = 32768,     /* of a tile that goes through shared memory to change its order */
    CLUSTER_ELEMENTS = 16384, /* of a block of a cluster: two or three share a multiprocessor */
    FMA_MIN = 8,              /* elements of an axis, of derived tiles of fused multiply-adds */
    THREAD_ELEMENTS = 16,     /* of one value that a GPU thread holds in a memory-bound kernel */
};

static inline bool is_gpu(const Func *func)
{
    return func->target->family != FAMILY_CPU;
}

/* A tile of at most `wanted` that is no longer than it must be for the axis. */
static inline int64_t fitted(Dim dim, int64_t wanted)
{
    return min_i64(wanted, power_of_two_at_least(max_i64(1, min_i64(poly_most(dim), wanted))));
}

/* The user's `reduction` for an axis of a row: its own, or that for all; NULL: there is none. */
const ScheduleEntry *tile_row_entry(Func *func, const char *axis);

/* The step; an error if no tile can have it. `name` as in `tile M 128`. */
int64_t tile_checked_step(Func *func, const char *name, int64_t step);
/* The user's step of the axis, else the derived one, for the reason. */
void tile_set_step(Func *func, AxisPlan *axis, AxisMapping how, int64_t derived,
                   const char *reason);
/* The user's warps of a block, else the derived ones: a power of two, or, where groups of several
 * warps multiply, as many groups as share the tile's rows evenly; rows 0: nothing is multiplied so.
 */
/* Rows of the instruction of a warp group; 0: the target has no warp groups. */
int64_t tile_group_rows(const Func *func);
int64_t tile_checked_warps(Func *func, int64_t rows, int64_t derived, const char *reason);
/* The user's blocks of a multiprocessor, else as many as come to `busy` threads. */
int64_t tile_checked_blocks(Func *func, int busy, int64_t threads);
/* How often all of what the group reduces and keeps fits the registers: of a block; of the blocks
 * of a cluster, of which several share a multiprocessor. */
typedef struct RowCapacity {
    int64_t block, cluster;
} RowCapacity;

/* Gives each stored axis that is not reduced its least step, for coalesced accesses; returns their
 * product. */
int64_t tile_choose_runs(Func *func, const Op *group, TilePlan *plan, RowCapacity capacity);
/* Rows too long for one block's registers: one of their axes is shared out over a cluster, if the
 * target has them and the group's work allows it. `given`: elements of the tile for each of a row.
 */
void tile_choose_cluster(Func *func, const Op *group, TilePlan *plan, int64_t given);
/* Can they be, of tiles of some size? */
bool tile_can_cluster(Func *func, const Op *group, TilePlan *plan);
/* The shares of each tile, if clusters that have them all run at once; else 0. */
int64_t tile_held_together(const Func *func, TilePlan *plan);
/* Are the blocks that have the shares of a product's tile a cluster, which adds them? `derived`: it
 * should be, if it can. Records the line (tile_cluster_split_k.c). */
void tile_choose_cluster_split_k(Func *func, const Op *group, TilePlan *plan, bool derived);
/* Is all that the group writes written by stores, along both axes of its product? */
bool tile_stores_product(const Op *group, TilePlan *plan);
/* How often the rows of the group fit the registers of the largest cluster; 0: a cluster cannot
 * share them. */
int64_t tile_cluster_capacity(Func *func, const Op *group, const TilePlan *plan, int64_t given);
/* Is all that the group writes written along the axis? */
bool tile_writes_along(const Op *group, const TilePlan *plan, const AxisPlan *axis);
/* True if the blocks of a cluster, which have the parts of a row, all have what is written: the
 * first of them writes it. */
bool tile_is_for_one_block(const TilePlan *plan, const Op *write);
/* An axis that is stored, and reduced before. */
bool tile_is_row(const AxisPlan *axis);
/* Padding before a row's first element is known to these ops only, and they may be done twice. */
bool tile_has_plain_ops(const Op *group);
/* Every tensor's rows can be accessed 16 bytes at a time. */
bool tile_rows_are_wide(const Op *group);
/* Elements that a tile may begin before its row (`align`); 1: it begins with it. */
int64_t tile_choose_aligned(Func *func, const Op *group, const TilePlan *plan);
/* Do the tiles that were chosen leave space for it, one row a block? */
bool tile_aligned_fits(const TilePlan *plan);
/* Elements that the widest access of a thread moves, of the narrowest tensor. */
int64_t tile_widest_access(const Op *group);
/* Elements of 16 bits or less: a thread may have more of them for as many bytes. */
bool tile_is_narrow(const Op *group);
/* Bytes that are loaded and stored of an element of the rows. */
int64_t tile_bytes_of_rows(const Op *group);
/* Of rows that the block folds along the plan's last axis, by steps of this many elements: rows
 * that share a step, by the cost of blocks; 1: it is no such block (tile_fold_rows.c). */
int64_t tile_rows_of_folds(const Func *func, const Op *group, const TilePlan *plan, int64_t step);
/* The step of a folded axis instead of one that holds all of it and more: less where it is short,
 * and the rows, if they are contiguous, stay in L1. */
int64_t tile_short_fold_step(const Func *func, const Op *group, TilePlan *plan,
                             const AxisPlan *axis, int64_t step);
/* A longer step, of more threads, where L2 keeps the rows of so few blocks until a second walk
 * along the axis; at most `most` (tile_fold_rows.c). */
int64_t tile_step_for_cache(Func *func, const Op *group, const TilePlan *plan,
                            const AxisPlan *axis, int64_t step, int64_t most);
/* Loads along the axis that a reduction folds. */
int tile_loads_of_rows(const Op *group);
/* Elements of a row that a thread may hold: by the ops alone; by what is kept of each, too. */
int64_t tile_most_of_ops(const Op *group);
int64_t tile_most_a_thread(const Op *group);
/* The same, where a thread may hold what columns come to in addition to a row
 * (row_column_sweep.h). */
int64_t tile_most_held(const Op *group, const TilePlan *plan);
/* Blocks of a multiprocessor, of this many threads each. */
int64_t tile_choose_blocks(Func *func, const Op *group, const TilePlan *plan, int64_t threads);
/* Elements of a row that a block may hold. */
int64_t tile_row_capacity(const Func *func, const TilePlan *plan);
/* Elements of a CPU's row whose gathers stay in the second-level cache. */
int64_t tile_most_of_cache(const Func *func, const Op *group);
/* The longest step along an axis that is only reduced, of which blocks share out what other
 * reductions leave (tile_split_axis.c): each multiprocessor has a step then. INT64_MAX: any. */
int64_t tile_shared_step(const Func *func, const Op *group, const TilePlan *plan,
                         const AxisPlan *axis);
/* Elements of a block that computes elements from elements and does no more, and of its threads
 * (tile_streams.c); 0, 0: it does more, or its target is not one of NVIDIA's. */
typedef struct StreamTile {
    int64_t block, thread;
} StreamTile;
StreamTile tile_choose_stream(const Func *func, const Op *group, const TilePlan *plan);
/* Does an element pass through this many operations that constants and temporaries fill
 * registers? */
bool tile_has_long_functions(Func *func, const Op *group);
/* The same, or does an element have an address or index of its own? */
bool tile_is_heavy(Func *func, const Op *group);
/* Are there addresses of single elements together with much arithmetic? */
bool tile_gathers_amid_work(const Op *group);
/* Is each element of a row a reduction of what is gathered? The addresses of all of them are kept
 * over the loop inside of the row. */
bool tile_keeps_addresses(const Op *group);
/* Elements of a block where a long loop makes each element step by step: what a step waits for is
 * the same for few and for many, so that blocks for all multiprocessors count more than wide ones.
 * `all`: of the launch. 0: there is no such loop. */
int64_t tile_serial_elements(const Func *func, const Op *group, int64_t all);
/* Are runs of neighbours gathered? */
bool tile_gathers_runs(const Op *group);
/* The plan's axis that is this one of the value; NULL: none. */
AxisPlan *tile_axis_of(TilePlan *plan, const Value *value, int axis);
/* The tiles of a product that cost least, and why; NULL: its sizes, or the target's rates, are not
 * known, or it is not alone. */
const char *tile_choose_waves(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n,
                              DotTiling *tiles);
/* Products of a block whose results are folded into one, beyond sums that continue in an
 * accumulator; 1: none are. */
int64_t tile_folded_products(const TilePlan *plan);
/* Why a tile has fewer columns where a thread holds two results: `folds`, or a step's and all's. */
const char *tile_two_sums_reason(bool folds);
/* Products of one matrix after the other along the axis are summed. */
bool tile_is_summed_batch(const TilePlan *plan, const AxisPlan *axis);
/* Blocks of the grid, by the facts or for nominal sizes (tile_split_axis.c). */
int64_t tile_grid_blocks(const TilePlan *plan, bool nominal);

/* Can what the group's product contracts be shared out? It has no other axis that is walked. */
bool tile_can_split_k(const TilePlan *plan);
/* Tiles of the product, as far as the steps along m and n are chosen; others have a step of 1. */
int64_t tile_blocks(const TilePlan *plan, const AxisPlan *m, const AxisPlan *n);
/* Split-K if few tiles leave multiprocessors idle: slices for as many blocks as there are
 * multiprocessors, of at least `least` steps of `depth` each, or of a batch that is summed. 1:
 * none. */
int64_t tile_choose_split_k(const Func *func, TilePlan *plan, const AxisPlan *m, const AxisPlan *n,
                            int64_t depth, int64_t least);
/* The number of slices, at most `most`, with which the product ends first: where a step of `depth`
 * elements of k takes `step_cycles`, and a second launch adds what the slices come to. */
int64_t tile_weigh_slices(const Func *func, TilePlan *plan, int64_t most, int64_t depth,
                          double step_cycles);
/* The outermost sum over batches of the group's only dot, whose axis is shared out where tiles are
 * few (a filter's gradient: a sum over images and places); NULL: there is none, or it may not. */
Op *tile_shared_sum(const TilePlan *plan);
/* Can some of the product's tiles have shares, and the others none? */
bool tile_can_tail(const Func *func, const Op *group, TilePlan *plan);
/* Of what the shares of a product came to, few are added one by one by each thread. Are there such?
 */
bool tile_choose_parts(const Op *group, TilePlan *plan);
/* Small windows are written out (tile_stencil.c). */
void tile_choose_windows(const Func *func, const Op *group, TilePlan *plan);
/* Stencils with weights: a run of places a thread. False: the group is none. */
bool tile_choose_stencil(Func *func, const Op *group, TilePlan *plan);
/* What a comparison says of ranges that data gives rows: items of the plan, as bits. */
typedef struct TileRange {
    uint64_t places, data; /* along which the index and the data differ */
    bool by_data, ends;    /* the index is less than the data, not greater */
} TileRange;

/* Does the op compare an index with data (tile_segments.c)? */
bool tile_find_range(const TilePlan *plan, const Op *op, TileRange *range);
/* Folds over ranges that data gives each row (tile_segments.c). False: the group is none. */
bool tile_choose_segments(Func *func, const Op *group, TilePlan *plan);
/* Folds of what is made of arrays that lack axes of it: a tile has elements along each of these
 * (tile_reuse.c). False: the group is none. */
bool tile_choose_reuse(Func *func, const Op *group, TilePlan *plan);
/* Element types of a product's operands, as they come to a unit: as pass `sink_dequant_scale`
 * leaves them. */
typedef struct MmaTypes {
    DType left, right;
} MmaTypes;
MmaTypes tile_operands(const Func *func, const Op *dot);
/* Tiles of a product, as far as they are known; 0: not yet. */
typedef struct MmaTileShape {
    int64_t rows, columns, depth, warps;
    bool along_k[2]; /* left, right */
    bool stay_out;   /* both, of registers: the copy engine can bring them */
} MmaTileShape;
/* Is the operand a load whose rows run along k? */
bool tile_along_k(const Func *func, const Op *dot, int side);
/* The row of matrix_instrs.def, or NULL: fused multiply-adds. Records the schedule line. */
const MatrixInstr *tile_instruction(Func *func, const MmaTypes *of, DType result,
                                    const MmaTileShape *tiles);
/* Warps that the user gives; else those of the launch around the product (NULL: none yet). */
int64_t tile_known_warps(Func *func, const Op *dot);

/* Threads of a product's tile, by fused multiply-adds. */
static inline int64_t product_threads(const AxisPlan *m, const AxisPlan *n)
{
    int64_t elements = (m ? m->step : 1) * (n ? n->step : 1);
    return max_i64(1, elements / THREAD_ACCUMULATORS);
}

/* Where tiles did not fit they are halved: columns first, then rows, then the depth. */
typedef enum HalvingDim { TURN_COLUMNS, TURN_ROWS, TURN_DEPTH, TURNS } HalvingDim;

/* Returns how often it was to be halved and could not. */
static inline int set_halved(Func *func, AxisPlan *axis, int64_t step, int64_t least,
                             HalvingDim turn, const char *reason)
{
    int times = (func->retry.dot_halvings + TURNS - 1 - (int)turn) / TURNS;
    int64_t less = axis->whole ? axis->whole : step;
    reason = axis->whole ? "the epilogue reduces along all of the tile" : reason;
    for (; times > 0 && !axis->whole && less / 2 >= least; times--) {
        less = less / 2 / least * least;
    }
    tile_set_step(func, axis, turn == TURN_DEPTH ? AXIS_LOOP : AXIS_GRID, less,
                  less < step ? "halved until a block has space for it" : reason);
    return times;
}

/* Of the axis at its nominal extent. */
static inline int64_t tiles_of(const AxisPlan *axis, int64_t step)
{
    int64_t extent = axis ? poly_nominal(axis->dim) : 1;
    return extent == INT64_MAX ? extent : ceil_div(extent, step);
}

/* The step of an axis if the other axis of the tile is longer than `usual`: it shrinks in
 * proportion, so that the tile keeps its size. */
static inline int64_t step_for_short_axis(const AxisPlan *other, int64_t step, int64_t usual,
                                          int64_t least)
{
    int64_t proportional = other && other->whole > usual ? step * usual / other->whole : step;
    return max_i64(least, power_of_two_at_most(max_i64(1, proportional)));
}

/* Chooses tiles and warps for an instruction of single warps, of which a step may be `scaled`;
 * returns the depth. */
int64_t tile_choose_warp_mma(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n, bool scaled);
/* Tiles of a product without a matrix unit. Returns the step along what is contracted. */
int64_t tile_choose_fma(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n);
/* For a group with a product. */
void tile_choose_product(Func *func, const Op *group, TilePlan *plan);

#endif
