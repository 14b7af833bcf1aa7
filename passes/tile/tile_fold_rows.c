/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how many rows a block reduces: several rows with shorter steps, or one row with longer
 * steps. Starting a block, waiting for its first loads and combining the partial results of its
 * threads cost the same for any number of rows, so fewer blocks with more rows are faster if rows
 * are short. The cost model of blocks decides (passes/analysis/block_cost.h). */
#include "passes/analysis/block_cost.h"
#include "passes/tile/tile_steps.h"

#include "ir/nominal_sizes.h"
#include "support/int_math.h"

#include <math.h>

enum {
    MAX_FOLDED_ROWS = 8,
    FOLDING_WARPS = 8, /* of a block: 16 elements a thread of a step of 4096 */
};

/* Others are not taken for less: the model errs by as much (docs/lab/tuning_sweeps.md). */
static const double MIN_GAIN = 1.03;

/* The only axis that the group folds, if it lies contiguous behind axes of the grid: rows. */
static const AxisPlan *folded_axis(const TilePlan *plan)
{
    const AxisPlan *folded = plan->n == plan->n_stored + 1 ? &plan->items[plan->n - 1] : NULL;
    bool only = folded && !(folded->flags & AXIS_STORED) && folded->how != AXIS_UNROLL &&
                !tile_is_row(folded) && !folded->step;
    for (int i = 0; i < plan->n_stored && only; i++) {
        const AxisPlan *axis = &plan->items[i];
        only = !axis->step && axis->min_step <= 1 && !axis->walked && !tile_is_row(axis);
    }
    return only ? folded : NULL;
}

static double count_rows(const TilePlan *plan)
{
    double rows = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        rows *= (double)max_i64(1, poly_nominal(plan->items[i].dim));
    }
    return rows;
}

static double seconds(const Func *func, double all, double extent, double bytes, int64_t rows,
                      int64_t step)
{
    const Target *target = func->target;
    const Machine *machine = target->machine;
    int threads = FOLDING_WARPS * target->warp;
    BlockProblem problem = {
        .blocks = ceil(all / (double)rows),
        .warps = FOLDING_WARPS,
        .resident = fmax(1, target->sm_threads / 2 / threads),
        .barriers = 1,
        .steps = ceil(extent / (double)step),
        .memory = all * extent * bytes / (machine->memory_gbs * 1e7 * machine->memory_percent),
        .clock = machine->clock * 1e6,
    };
    double parts[N_BLOCK_PARTS];
    return block_seconds(machine, target->schedulers, &problem, parts);
}

int64_t tile_rows_of_folds(const Func *func, const Op *group, const TilePlan *plan, int64_t step)
{
    const AxisPlan *folded = is_gpu(func) ? folded_axis(plan) : NULL;
    double bytes = folded ? (double)tile_bytes_of_rows(group) : 0;
    int64_t extent = folded ? poly_nominal(folded->dim) : 0, best = 1;
    if (extent < step || bytes <= 0) {
        return 1;
    }
    double rows = count_rows(plan), least = 0;
    int64_t shortest = func->target->warp * tile_widest_access(group);
    for (int64_t n = 1; n <= MAX_FOLDED_ROWS && step / n >= shortest; n *= 2) {
        double taken = seconds(func, rows, (double)extent, bytes, n, step / n);
        if (n == 1 || taken * MIN_GAIN < least) {
            least = taken;
            best = n;
        }
    }
    return best;
}
