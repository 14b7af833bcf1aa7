/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tiles of dots without a matrix instruction: fused multiply-adds of the threads of a
 * GPU, or of the vectors of a CPU. */
#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/cost_model.h"
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include <math.h>

enum {
    FMA_DEPTH_BYTES = 64,
    FULL_THREADS = 256,    /* of a multiprocessor, with which no scheduler is idle */
    SLICE_STEPS = 8,       /* of a slice of k: what a second launch takes is a small part of them */
    FEW_ACCUMULATORS = 16, /* of a thread, whose products wait for its loads with fewer */
    CPU_EDGE = 256,        /* of a tile whose operands and result stay in the second-level cache: */
    CPU_DEPTH_BYTES = 768, /* the longer an edge, the less often the other operand is packed */
};

typedef struct Kept {
    TilePlan *plan;
    const AxisPlan *m, *n;
    int64_t bytes; /* an element of the product's tile */
} Kept;

static void count_kept(Op *op, void *user)
{
    Kept *kept = user;
    bool fold = op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD;
    const AxisPlan *axis =
        fold ? tile_axis_of(kept->plan, op->operands[0], (int)op_int(op, ATTR_AXIS, 0)) : NULL;
    if ((!fold && op->kind != OP_DOT && op->n_regions == 0) ||
        (axis && tile_is_summed_batch(kept->plan, axis))) {
        return;
    }
    for (int r = 0; r < op->n_results; r++) {
        const Value *value = op->results[r];
        bool rows = !kept->m, columns = !kept->n;
        for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
            const AxisPlan *own = tile_axis_of(kept->plan, value, i);
            rows = rows || own == kept->m;
            columns = columns || own == kept->n;
        }
        kept->bytes += rows && columns ? dtype_bytes(value->type->dtype) : 0;
    }
}

/* Columns of a CPU's tile: all that is accumulated over it stays in the second-level cache. */
static int64_t cached_columns(const Op *group, TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    Kept kept = {plan, m, n, 0};
    block_walk(group->regions[0], count_kept, &kept);
    return power_of_two_at_most(CPU_EDGE * 4 / max_i64(4, kept.bytes));
}

/* Without a matrix unit. CPUs pack operands in the type that they compute in. */
static int64_t product_depth(const Func *func, const Op *dot)
{
    int operand = dtype_bytes(dot->operands[0]->type->dtype);
    int result = dtype_bytes(dot->results[0]->type->dtype);
    return is_gpu(func) ? FMA_DEPTH_BYTES / operand : CPU_DEPTH_BYTES / result;
}

/* A tile of fused multiply-adds: a thread reads an element for as many products as it has
 * accumulators along the other axis. `issued`: issue slots of a multiply-add, of which it takes 1:
 * the rest are loads from shared memory, and waits that few warps leave. Measured on the H200. */
typedef struct FmaTile {
    int64_t rows, cols;
    double issued;
} FmaTile;

/* Cycles of the busiest multiprocessor for each element of k; 0: not known. */
static double fma_cycles(const Func *func, const TilePlan *plan, const AxisPlan *m,
                         const AxisPlan *n, const FmaTile *tile)
{
    int64_t tiles = mul_sat(tiles_of(m, tile->rows), tiles_of(n, tile->cols));
    for (int i = 0; i < plan->n_stored; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t times = axis == m || axis == n ? 1 : max_i64(1, poly_nominal(axis->dim));
        tiles = mul_sat(tiles, times);
    }
    if (tiles >= INT32_MAX) {
        return 0;
    }
    const Machine *machine = func->target->machine;
    double issued = (double)(tile->rows * tile->cols) * tile->issued / machine->lanes;
    return (double)cost_waves(tiles, machine->num_sms) *
           cost_step(&(StepCost){.busy = {[COST_ISSUE] = issued}});
}

/* Operands that TMA loads leave a thread registers for 128 accumulators. */
static FmaTile choose_fma_tile(const Func *func, const TilePlan *plan, const AxisPlan *m,
                               const AxisPlan *n)
{
    static const FmaTile tiles[] = {
        {128, 256, 1}, {128, 128, 1.05}, {64, 256, 1.05}, {64, 128, 1.3}};
    if (plan->n_dots > 1 || !m || !n || dtype_bytes(plan->dot->operands[0]->type->dtype) < 4) {
        return tiles[1];
    }
    /* What products are folded into takes as many registers as the accumulators. */
    bool stay_out = tile_operands_stay_out(func, plan->dot) && tile_folded_products(plan) == 1;
    const FmaTile *best = &tiles[stay_out ? 0 : 1];
    for (size_t i = 1; i < sizeof tiles / sizeof *tiles; i++) {
        if ((stay_out || tiles[i].cols <= tiles[1].cols) &&
            fma_cycles(func, plan, m, n, &tiles[i]) < fma_cycles(func, plan, m, n, best)) {
            best = &tiles[i];
        }
    }
    return *best;
}

/* Slices of k; of a small tile, whose few warps leave schedulers idle, as many more as fill a
 * multiprocessor. Where each has a tile already, there are slices if the tile has fewer warps than
 * there are schedulers. */
static int64_t slices_of_k(const Func *func, TilePlan *plan, const AxisPlan *m, const AxisPlan *n,
                           int64_t depth)
{
    static const double SLOTS = 1.3; /* of issue, a multiply-add with what it waits for */
    int64_t slices = tile_choose_split_k(func, plan, m, n, depth, SLICE_STEPS);
    int64_t resident = max_i64(1, FULL_THREADS / max_i64(1, product_threads(m, n)));
    const Value *left = plan->dot->operands[0];
    int64_t most = poly_nominal(left->type->dims[left->type->rank - 1]) / depth / SLICE_STEPS;
    int64_t units = func->target->machine->num_sms;
    bool idle = product_threads(m, n) < func->target->schedulers * func->target->warp;
    bool one_each = slices == 1 && idle && tile_can_split_k(plan) &&
                    tile_blocks(plan, m, n) <= units;
    slices = slices > 1 || one_each ? max_i64(slices, min_i64(slices * resident, most)) : slices;
    /* Each thread has THREAD_ACCUMULATORS multiply-adds an element of k; a multiprocessor issues
     * at most one for each of its lanes. */
    double lanes = fmin(func->target->machine->lanes, (double)product_threads(m, n));
    double element = (double)(THREAD_ACCUMULATORS * product_threads(m, n)) * SLOTS / lanes;
    return tile_weigh_slices(func, plan, slices, depth, (double)depth * element);
}

/* The copy engine loads operands for whole warp groups only (stage.c): a tile that has fewer
 * threads than one is shared out among all of them, if each has accumulators enough. */
static int64_t fma_warps(const Func *func, const TilePlan *plan, const AxisPlan *m,
                         const AxisPlan *n)
{
    int64_t threads = product_threads(m, n), warp = func->target->warp;
    int64_t warps = min_i64(256 / warp, power_of_two_at_most(threads / warp));
    int64_t group = func->target->group_warps;
    bool enough = threads * THREAD_ACCUMULATORS >= group * warp * FEW_ACCUMULATORS;
    return warps < group && enough && tile_operands_stay_out(func, plan->dot) ? group : warps;
}

int64_t tile_choose_fma(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    /* Narrow operands take registers twice on a GPU: as they are, and widened. */
    bool twice = is_gpu(func) && dtype_bytes(plan->dot->operands[0]->type->dtype) < 4;
    FmaTile tile = choose_fma_tile(func, plan, m, n);
    int64_t rows = CPU_EDGE, cols;
    if (is_gpu(func)) {
        rows = tile.rows;
        cols = (twice ? 64 : tile.cols) / power_of_two_at_least(plan->n_dots);
    } else {
        cols = cached_columns(group, plan, m, n);
    }
    if (m) {
        rows = step_for_short_axis(n, rows, cols, FMA_MIN);
        set_halved(func, m, fitted(m->dim, rows), FMA_MIN, TURN_ROWS,
                   "rows that share each element of the right operand");
    }
    if (n) {
        set_halved(func, n, fitted(n->dim, cols), FMA_MIN, TURN_COLUMNS,
                   "columns that share each element of the left operand");
    }
    plan->warps = fma_warps(func, plan, m, n);
    /* Rings of large tiles: threads synchronize, and wait for what they read first, half as
     * often. */
    int64_t depth = product_depth(func, plan->dot) * (is_gpu(func) && cols > 128 ? 2 : 1);
    if (is_gpu(func) && m && n && plan->n_dots == 1) {
        plan->split_k = slices_of_k(func, plan, m, n, depth);
        plan->cluster_split_k = tile_held_together(func, plan);
    }
    return depth;
}
