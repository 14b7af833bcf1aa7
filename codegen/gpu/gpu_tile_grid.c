/* SPDX-License-Identifier: Apache-2.0 */
/* The map from a block to its tile: launches, and the op tile_loop of persistent blocks. */
#include "codegen/gpu/gpu_loop.h"

typedef struct Grid {
    GpuEmitter *em;
    int n;
    LLVMValueRef extents[MAX_RANK]; /* i64 */
    LLVMValueRef counts[MAX_RANK];  /* i32: tiles along each axis */
    int64_t steps[MAX_RANK];
    int64_t from[MAX_RANK]; /* the first element */
    bool single[MAX_RANK];  /* of the axis there is one tile, or no tile at all */
    int64_t grouped;
    int64_t cluster;    /* tiles of the last axis, some of which may lie past its end; 1: none */
    int64_t together;   /* adjacent tiles along multicast_axis that go to blocks of a cluster */
    int multicast_axis; /* -1: none do */
    bool descending;
    bool paired; /* along the last axis, long tiles and short ones in turn */
} Grid;

static Grid make_grid(GpuEmitter *em, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    Grid grid = {.em = em,
                 .n = dims ? dims->n : 0,
                 .grouped = op_int(op, ATTR_RASTER_GROUP, 0),
                 .cluster = op_int(op, ATTR_CLUSTER, 1),
                 .together = 1,
                 .multicast_axis = -1,
                 .descending = op_int(op, ATTR_DESCENDING, 0) != 0};
    if (grid.n > MAX_RANK) {
        gpu_bug(em, op, "has too many axes");
    }
    for (int axis = 0; axis < grid.n; axis++) {
        int64_t step = steps->ints[axis];
        LLVMValueRef count = gpu_size_value(em, dims->dims[axis]);
        if (axis_end(op, axis) < INT64_MAX) {
            LLVMValueRef end = gpu_i64(em, axis_end(op, axis));
            LLVMValueRef less = LLVMBuildICmp(em->builder, LLVMIntSLT, count, end, "");
            count = LLVMBuildSelect(em->builder, less, count, end, "");
        }
        grid.extents[axis] = count;
        grid.steps[axis] = step;
        grid.from[axis] = axis_begin(op, axis);
        if (grid.from[axis]) { /* of an axis that ends before it there are no tiles */
            LLVMValueRef from = gpu_i64(em, grid.from[axis]);
            LLVMValueRef some = LLVMBuildICmp(em->builder, LLVMIntSGT, count, from, "");
            count = LLVMBuildSub(em->builder, count, from, "");
            count = LLVMBuildSelect(em->builder, some, count, gpu_i64(em, 0), "");
        }
        if (step > 1) {
            count = LLVMBuildNSWAdd(em->builder, count, gpu_i64(em, step - 1), "");
            count = LLVMBuildUDiv(em->builder, count, gpu_i64(em, step), "");
        }
        grid.counts[axis] = LLVMBuildTrunc(em->builder, count, em->i32, "");
        grid.single[axis] = poly_most(dims->dims[axis]) <= step;
    }
    if (grid.cluster > 1) {
        grid.counts[grid.n - 1] = gpu_i32(em, grid.cluster);
        grid.single[grid.n - 1] = false;
    }

    /* Along the multicast axis the grid counts clusters instead of tiles. */
    const Attr *multicast_axis = op_attr(op, ATTR_MULTICAST);
    for (int axis = 0; multicast_axis && axis < grid.n; axis++) {
        if (multicast_axis->ints[axis] > 1) {
            LLVMBuilderRef b = grid.em->builder;
            grid.together = multicast_axis->ints[axis];
            grid.multicast_axis = axis;
            LLVMValueRef more = gpu_i32(grid.em, grid.together - 1);
            LLVMValueRef count = LLVMBuildAdd(b, grid.counts[axis], more, "");
            grid.counts[axis] = LLVMBuildUDiv(b, count, gpu_i32(grid.em, grid.together), "");
        }
    }
    if (grid.multicast_axis >= 0 && grid.multicast_axis == grid.n - 2 && grid.grouped > 1) {
        grid.grouped = (grid.grouped + grid.together - 1) / grid.together;
    }

    return grid;
}

static LLVMValueRef divide(Grid *grid, LLVMValueRef a, LLVMValueRef by, LLVMValueRef *rest)
{
    LLVMBuilderRef b = grid->em->builder;
    LLVMValueRef quotient = LLVMBuildUDiv(b, a, by, "");
    *rest = LLVMBuildSub(b, a, LLVMBuildMul(b, quotient, by, ""), "");
    return quotient;
}

/* The first `left` axes; the last of them the fastest. */
static void split_axes(Grid *grid, LLVMValueRef id, int left, LLVMValueRef *tile)
{
    int first = 0; /* with more than one tile: all that is left of the number */
    while (first + 1 < left && grid->single[first]) {
        tile[first++] = gpu_i32(grid->em, 0);
    }
    for (int axis = left - 1; axis > first; axis--) {
        if (grid->single[axis]) {
            tile[axis] = gpu_i32(grid->em, 0);
        } else {
            id = divide(grid, id, grid->counts[axis], &tile[axis]);
        }
    }
    if (left > 0) {
        tile[first] = id;
    }
}

/* Which tile (i32 on each axis) has this number; of a cluster's, the first one. The division by how
 * many tiles an axis has stands in front of a block's first load: none where a tile holds it. */
static void split(Grid *grid, LLVMValueRef id, LLVMValueRef *tile)
{
    bool grouped = grid->grouped > 1 && grid->n >= 2;
    int left = grid->n;
    if (grouped) {
        LLVMValueRef plane = LLVMBuildMul(grid->em->builder, grid->counts[grid->n - 2],
                                          grid->counts[grid->n - 1], "");
        LLVMValueRef within = id;
        if (grid->n > 2) {
            id = divide(grid, id, plane, &within);
        }
        /* With raster groups, `grouped` tiles of axis -2 are visited for each tile of axis -1. */
        GpuEmitter *em = grid->em;
        LLVMBuilderRef b = em->builder;
        LLVMValueRef group = gpu_i32(em, grid->grouped), in_group;
        LLVMValueRef rows = grid->counts[grid->n - 2], cols = grid->counts[grid->n - 1];
        LLVMValueRef index = divide(grid, within, LLVMBuildMul(b, group, cols, ""), &in_group);
        LLVMValueRef first = LLVMBuildMul(b, index, group, "");
        LLVMValueRef height = gpu_min(em, LLVMBuildSub(b, rows, first, ""), group);
        LLVMValueRef row;
        tile[grid->n - 1] = divide(grid, in_group, height, &row);
        tile[grid->n - 2] = LLVMBuildAdd(b, first, row, "");
        left -= 2;
    }
    split_axes(grid, id, left, tile);
}

static LLVMValueRef count_tiles(Grid *grid)
{
    LLVMValueRef total = gpu_i32(grid->em, 1);
    for (int axis = 0; axis < grid->n; axis++) {
        total = LLVMBuildMul(grid->em->builder, total, grid->counts[axis], "");
    }
    return LLVMBuildMul(grid->em->builder, total, gpu_i32(grid->em, grid->together), "");
}

/* The last range begins at a multiple of `aligned` elements in memory, before its row. */
static void align_row(Grid *grid, int64_t aligned, Value *const *args)
{
    GpuEmitter *em = grid->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef row = gpu_i64(em, 0);
    for (int axis = 0; axis < grid->n - 1; axis++) {
        row = LLVMBuildMul(b, row, grid->extents[axis], "");
        row = LLVMBuildAdd(b, row, gpu_value(em, args[axis])->regs[0], "");
    }
    row = LLVMBuildMul(b, row, grid->extents[grid->n - 1], "");
    LLVMValueRef shift = LLVMBuildAnd(b, row, gpu_i64(em, aligned - 1), "");
    GpuValue *range = gpu_value(em, args[grid->n - 1]);
    range->regs[0] = LLVMBuildSub(b, range->regs[0], shift, "");
}

/* Tiles in twos that cost as much as any other two: the last one of a row and the first one of the
 * row next to it, the last but one and the second one, … So each row may have an odd number of
 * them; of a row that is left alone, its own last and first one. */
static void split_paired(Grid *grid, LLVMValueRef id, LLVMValueRef *tile)
{
    LLVMBuilderRef b = grid->em->builder;
    int last = grid->n - 1;
    LLVMValueRef one = gpu_i32(grid->em, 1), rows = one, within;
    for (int axis = 0; axis < last; axis++) {
        rows = LLVMBuildMul(b, rows, grid->counts[axis], "");
    }
    LLVMValueRef both = LLVMBuildShl(b, grid->counts[last], one, "");
    LLVMValueRef row = LLVMBuildShl(b, divide(grid, id, both, &within), one, "");
    LLVMValueRef multicast_axis = LLVMBuildAdd(b, row, one, "");
    LLVMValueRef odd = LLVMBuildTrunc(b, within, grid->em->i1, "");
    LLVMValueRef there = LLVMBuildICmp(b, LLVMIntULT, multicast_axis, rows, "");
    row = LLVMBuildSelect(b, LLVMBuildAnd(b, odd, there, ""), multicast_axis, row, "");
    LLVMValueRef half = LLVMBuildLShr(b, within, one, "");
    LLVMValueRef back = LLVMBuildSub(b, LLVMBuildSub(b, grid->counts[last], one, ""), half, "");
    tile[last] = LLVMBuildSelect(b, odd, half, back, "");
    split_axes(grid, row, last, tile);
}

static void define_tile(Grid *grid, LLVMValueRef id, Value *const *args)
{
    GpuEmitter *em = grid->em;
    LLVMValueRef tile[MAX_RANK];
    if (grid->descending && !grid->paired) {
        LLVMValueRef last = LLVMBuildSub(em->builder, count_tiles(grid), gpu_i32(em, 1), "");
        id = LLVMBuildSub(em->builder, last, id, "");
    }
    if (grid->multicast_axis >= 0) {
        LLVMValueRef rank;
        id = divide(grid, id, gpu_i32(em, grid->together), &rank);
        split(grid, id, tile);
        LLVMValueRef *at = &tile[grid->multicast_axis];
        *at = LLVMBuildMul(em->builder, *at, gpu_i32(em, grid->together), "");
        *at = LLVMBuildAdd(em->builder, *at, rank, "");
    } else {
        (grid->paired ? split_paired : split)(grid, id, tile);
    }
    for (int axis = 0; axis < grid->n; axis++) {
        int64_t step = grid->steps[axis];
        LLVMValueRef first = LLVMBuildZExt(em->builder, tile[axis], em->i64, "");
        first = LLVMBuildNSWMul(em->builder, first, gpu_i64(em, step ? step : 1), "");
        if (grid->from[axis]) {
            first = LLVMBuildNSWAdd(em->builder, first, gpu_i64(em, grid->from[axis]), "");
        }
        LLVMValueRef extent = grid->extents[axis];
        bool outside = axis == grid->multicast_axis || (grid->cluster > 1 && axis == grid->n - 1);
        if (outside) { /* past the end a tile has no elements */
            LLVMValueRef past = LLVMBuildICmp(em->builder, LLVMIntSGT, first, extent, "");
            extent = LLVMBuildSelect(em->builder, past, first, extent, "");
        }
        gpu_define_step(em, args[axis], first, step, extent);
    }
}

/* Tiles of which each costs more than the one before: a block takes two after the other of those
 * that `split_paired` orders, and continues behind all blocks' pairs, so that all have about the
 * same to do. Where there is but one tile a block, that one. */
static LLVMValueRef pair_step(GpuEmitter *em, LLVMValueRef i, LLVMValueRef blocks,
                              LLVMValueRef pairs)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef past =
        LLVMBuildSub(b, LLVMBuildShl(b, blocks, gpu_i32(em, 1), ""), gpu_i32(em, 1), "");
    LLVMValueRef odd = LLVMBuildTrunc(b, i, em->i1, "");
    LLVMValueRef next = LLVMBuildSelect(b, odd, past, gpu_i32(em, 1), "");
    return LLVMBuildSelect(b, pairs, next, blocks, "");
}

/* From one round of all blocks to the next, which goes the other way round: where cost falls or
 * grows with the number of the tile, what a block has more of in one round it has less of in the
 * next. */
static LLVMValueRef zigzag_step(GpuEmitter *em, LLVMValueRef i, LLVMValueRef block,
                                LLVMValueRef blocks)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef one = gpu_i32(em, 1), iteration = LLVMBuildUDiv(b, i, blocks, "");
    LLVMValueRef odd = LLVMBuildTrunc(b, iteration, em->i1, "");
    LLVMValueRef back = LLVMBuildAdd(b, LLVMBuildShl(b, block, one, ""), one, "");
    LLVMValueRef forth = LLVMBuildSub(b, LLVMBuildShl(b, blocks, one, ""), back, "");
    return LLVMBuildSelect(b, odd, back, forth, "");
}

/* Each team of the role takes its share of the block's tiles, as if it were a block of its own. */
void gpu_emit_tiles(GpuEmitter *em, Op *op)
{
    LLVMBuilderRef b = em->builder;
    Grid grid = make_grid(em, op);
    bool numbered = op_int(op, ATTR_TILE_INDEX, 0) != 0;
    const char *deal = op_word(op, ATTR_DEAL);
    LLVMValueRef first = em->target->block_id(em), blocks = em->target->block_count(em);
    LLVMValueRef step = blocks, block = first;
    if (em->role->team) {
        if (!numbered) {
            gpu_bug(em, op, "teams take numbered tiles");
        }
        first = LLVMBuildAdd(b, first, LLVMBuildMul(b, em->role->team, blocks, ""), "");
        step = LLVMBuildMul(b, blocks, gpu_i32(em, em->role->teams), "");
    }
    LLVMValueRef total = count_tiles(&grid), pairs = NULL;
    grid.paired = deal && text_equal(deal, "pairs");
    if (grid.paired) {
        pairs = LLVMBuildICmp(b, LLVMIntSGT, total, blocks, "pairs");
        first = LLVMBuildShl(b, first, LLVMBuildZExt(b, pairs, em->i32, ""), "");
    }
    gpu_cluster_walk(em, op);
    CountedLoop loop = gpu_open_loop(em, op, first, total, 0, grid.n);
    define_tile(&grid, loop.i, op->regions[0]->args);
    if (numbered) {
        LLVMValueRef number = LLVMBuildUDiv(b, loop.i, blocks, "number");
        gpu_define_scalar(em, op->regions[0]->args[grid.n], number);
    }
    gpu_emit_block(em, op->regions[0]);
    if (deal && text_equal(deal, "counter")) {
        const Op *yield = op->regions[0]->last;
        LLVMValueRef taken = gpu_scalar(em, yield->operands[yield->n_operands - 1]);
        step = LLVMBuildSub(b, LLVMBuildAdd(b, taken, blocks, ""), loop.i, "");
    } else if (deal) {
        step = grid.paired ? pair_step(em, loop.i, blocks, pairs)
                           : zigzag_step(em, loop.i, block, blocks);
    }
    gpu_close_loop(em, &loop, step);
}

void gpu_emit_launch(GpuEmitter *em, Op *op)
{
    if (!op_int(op, ATTR_PERSISTENT, 0)) {
        Grid grid = make_grid(em, op);
        define_tile(&grid, em->target->block_id(em), op->regions[0]->args);
        if (op_int(op, ATTR_ALIGNED, 1) > 1) {
            align_row(&grid, op_int(op, ATTR_ALIGNED, 1), op->regions[0]->args);
        }
    }
    gpu_emit_block(em, op->regions[0]);
}
