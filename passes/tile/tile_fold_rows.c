/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how many rows a block reduces: several rows with shorter steps, or one row with longer
 * steps. Starting a block, waiting for its first loads and combining the partial results of its
 * threads cost the same for any number of rows, so fewer blocks with more rows are faster if rows
 * are short. The cost model of blocks decides (passes/analysis/block_cost.h).
 *
 * A short row whose length is no power of two leaves a part of a tile of whole rows idle, and its
 * partial sums cross many lanes: shorter steps are faster as long as the rows that a multiprocessor
 * has begun stay in L1. Measured on an H200, sums of rows of 3, 5, 11 and 33 bf16 in steps of 1, 1,
 * 2 and 8 instead of whole rows: 274, 269, 266 and 276 us for 458, 584, 576 and 561 us.
 *
 * A long row that is folded once more with what the first fold left is read twice. Steps of more
 * threads leave fewer blocks, whose rows L2 keeps until then. */
#include "passes/analysis/block_cost.h"
#include "passes/tile/tile_steps.h"

#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "support/int_math.h"

#include <math.h>

enum {
    MAX_FOLDED_ROWS = 8,
    FOLDING_WARPS = 8, /* of a block: 16 elements a thread of a step of 4096 */
    FOLDED_THREAD = 16,
    LOAD_OPS = 4,  /* instructions of an access, with its address and guard */
    WIDEN_OPS = 2, /* of an element: to convert and to add it */
    LANE_OPS = 2,  /* of an element and exchange between lanes */
    SHORT_OUTER = 64, /* elements of a short axis around the contiguous one */
    PADDING = 8,   /* 1 / the share of such a tile that may be padding */
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

/* Instructions for a row of `extent` elements in steps of `step`, where an access takes `width`. */
static double row_instructions(double extent, int64_t step, int64_t width)
{
    double elements = ceil(extent / (double)step) * (double)step;
    double held = (double)min_i64(width, step), lanes = (double)step / held;
    return elements / held * LOAD_OPS + elements * WIDEN_OPS + lanes * log2(lanes) * LANE_OPS +
           (double)step;
}

/* The step of a contiguous axis of short rows: the fewest instructions, of steps with which the
 * rows that the threads of a multiprocessor read fill no more than three quarters of L1. */
static int64_t contiguous_step(const Func *func, const Op *group, Dim dim, int64_t whole)
{
    double extent = (double)poly_most(dim), best = INFINITY;
    double bytes = extent * (double)fmax(1, (double)tile_bytes_of_rows(group));
    double threads = func->target->sm_threads / 2.0;
    int64_t width = min_i64(poly_divisor(dim) & -poly_divisor(dim), tile_widest_access(group));
    int64_t chosen = whole;
    for (int64_t step = whole; step >= width; step /= 2) {
        double rows = threads * FOLDED_THREAD / (double)step;
        double ops = row_instructions(extent, step, width);
        bool stays = rows * bytes <= 0.75 * 1024 * func->target->machine->l1_kib;
        if ((step == whole || stays) && ops < best) {
            best = ops;
            chosen = step;
        }
    }
    return chosen;
}

/* What is folded along an axis of which each row has elements of its own in memory. */
typedef enum FoldedRead {
    FOLDED_OTHER,
    FOLDED_CONTIGUOUS, /* the elements of a row */
    FOLDED_OUTER,      /* rows, whose elements are folded, too */
} FoldedRead;

static FoldedRead folded_read(const Op *op, TilePlan *plan, const AxisPlan *axis)
{
    const Value *value = op->results[0];
    const AxisPlan *last = tile_axis_of(plan, value, value->type->rank - 1);
    bool along = false, across = false;
    for (int i = 0; i < value->type->rank; i++) {
        const AxisPlan *other = tile_axis_of(plan, value, i);
        along = along || other == axis;
        across = across || (other && other != axis && (other->flags & AXIS_STORED));
    }
    if (!along || !across || !last || (last->flags & AXIS_STORED)) {
        return FOLDED_OTHER;
    }
    return last == axis ? FOLDED_CONTIGUOUS : FOLDED_OUTER;
}

int64_t tile_short_fold_step(const Func *func, const Op *group, TilePlan *plan,
                             const AxisPlan *axis, int64_t step)
{
    int64_t most = poly_most(axis->dim);
    FoldedRead read = FOLDED_OTHER;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool reads = (op->kind == OP_LOAD || op->kind == OP_GATHER) && op->results[0]->type->rank;
        FoldedRead by = reads ? folded_read(op, plan, axis) : FOLDED_OTHER;
        read = by > read ? by : read;
    }
    if (!is_gpu(func) || most < 2 || step <= most || read == FOLDED_OTHER) {
        return step;
    }
    if (read == FOLDED_CONTIGUOUS) {
        return contiguous_step(func, group, axis->dim, step);
    }
    while (most <= SHORT_OUTER && round_up(most, step) * PADDING > most * (PADDING + 1)) {
        step /= 2;
    }
    return step;
}

/* ---- rows that are walked twice ---- */

/* Is the value made of what a reduction along the axis leaves? */
static bool is_of_fold(const TilePlan *plan, Memo *seen, const Value *value, int class)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    bool found = op->kind == OP_REDUCE && an_folds_along(plan->axes, op, class);
    for (int i = 0; !found && i < op->n_operands; i++) {
        found = op->operands[i] && is_of_fold(plan, seen, op->operands[i], class);
    }
    return found;
}

/* Does a block walk the axis to fold it, and then once more to fold what is made of that, as a sum
 * of exponentials of differences from the greatest element? */
static bool is_walked_twice(Func *func, const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    bool again = false;
    Memo *seen = memo_open(func);
    for (const Op *op = group->regions[0]->first; op && !again; op = op->next) {
        again = op->kind == OP_REDUCE && an_folds_along(plan->axes, op, axis->class) &&
                is_of_fold(plan, seen, op->operands[0], axis->class);
    }
    memo_close(seen);
    return again;
}

/* 4096 sums of exponentials of 65,536 bf16 elements take 179 us for 236 on an H200. */
int64_t tile_step_for_cache(Func *func, const Op *group, const TilePlan *plan,
                            const AxisPlan *axis, int64_t step, int64_t most)
{
    const Machine *machine = func->target->machine;
    int64_t row = is_gpu(func) ? poly_nominal(axis->dim) * tile_bytes_of_rows(group) : 0;
    if (row <= 0 || step >= most || !is_walked_twice(func, group, plan, axis)) {
        return step;
    }
    int64_t kept = ((int64_t)machine->l2_mib << 20) / 100 * machine->l2_percent;
    int64_t blocks = kept / (row * machine->num_sms);
    int64_t running = func->target->sm_threads / 2 * THREAD_ELEMENTS / step;
    return blocks > 0 && blocks < running ? min_i64(2 * step, most) : step;
}
