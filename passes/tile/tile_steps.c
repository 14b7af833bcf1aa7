/* SPDX-License-Identifier: Apache-2.0 */
/* Records tile sizes, warps and occupancy: the user-specified value after checking it, or the
 * derived one. */
#include "passes/tile/tile_steps.h"

#include "ir/ir_errors.h"
#include "passes/analysis/row_column_sweep.h"

enum { SHARED_STEP = 32 }; /* neighbours that a warp reads at once */

int64_t tile_checked_step(Func *func, const char *name, int64_t step)
{
    const ScheduleEntry *line = schedule_user_entry(func, "tile", name);
    if (step >= 1 && step <= (1 << 20)) {
        return step;
    }
    diag_error(func->diags, ERR_TILE_STEP, line ? line->span : SPAN_NONE,
               "`tile %s %lld`: a tile has 1 to 1048576 elements an axis", name, (long long)step);
    return 1;
}

void tile_set_step(Func *func, AxisPlan *axis, AxisMapping how, int64_t derived, const char *reason)
{
    /* What is not stored has no place in the grid: a loop inside the block walks it. */
    derived = axis->whole ? axis->whole : derived;
    axis->how = how == AXIS_GRID && !(axis->flags & AXIS_STORED) ? AXIS_LOOP : how;
    axis->step = tile_checked_step(
        func, axis->name, schedule_decide_int(func, "tile", axis->name, derived, "%s", reason));
}

/* Does an op of the group fold along another axis and leave elements along this one? */
static bool has_folded_elements(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool leaves = (op->kind == OP_REDUCE || op->kind == OP_FOLD) &&
                      an_goes_along(plan->axes, op->results[0], axis->class) &&
                      !an_folds_along(plan->axes, op, axis->class);
        if (leaves) {
            return true;
        }
    }
    return false;
}

int64_t tile_shared_step(const Func *func, const Op *group, const TilePlan *plan,
                         const AxisPlan *axis)
{
    int64_t blocks = 1, wanted = is_gpu(func) ? func->target->machine->num_sms : 1;
    for (int i = 0; i < plan->n_stored && blocks < wanted; i++) {
        blocks *= max_i64(1, min_i64(wanted, poly_nominal(plan->items[i].dim)));
    }
    if (blocks >= wanted || (axis->flags & AXIS_STORED) ||
        !has_folded_elements(group, plan, axis)) {
        return INT64_MAX;
    }
    int64_t each = poly_nominal(axis->dim) / (wanted / blocks);
    return max_i64(SHARED_STEP, power_of_two_at_most(max_i64(1, each)));
}

const ScheduleEntry *tile_row_entry(Func *func, const char *axis)
{
    const ScheduleEntry *all = schedule_user_entry(func, "reduction", "");
    const ScheduleEntry *own = axis ? schedule_user_entry(func, "reduction", axis) : NULL;
    return own ? own : all;
}

int64_t tile_group_rows(const Func *func)
{
    const MatrixInstr *instruction = mma_warpgroup(func->target);
    return instruction ? instruction->m : 0;
}

int64_t tile_checked_warps(Func *func, int64_t rows, int64_t derived, const char *reason)
{
    int64_t most = func->target->max_threads / func->target->warp;
    int64_t warps = schedule_decide_int(func, "warps", "", derived, "%s", reason);
    int64_t group = func->target->group_warps, groups = warps / group;
    bool shared = groups > 0 && warps % group == 0 && rows > 0 &&
                  rows % (groups * tile_group_rows(func)) == 0;
    bool even = (warps & (warps - 1)) == 0 || shared || warps == derived;
    if (warps < 1 || warps > most || !even) {
        const ScheduleEntry *line = schedule_user_entry(func, "warps", "");
        Diag *d =
            diag_error(func->diags, ERR_WARPS, line ? line->span : SPAN_NONE,
                       "`warps %lld` is not possible on %s", (long long)warps, func->target->name);
        diag_help(func->diags, d, "a power of two from 1 to %lld%s", (long long)most,
                  rows > 0 ? ", or groups of four that share the tile's rows by 64" : "");
        return derived;
    }
    return warps;
}

int64_t tile_checked_blocks(Func *func, int busy, int64_t threads)
{
    int64_t blocks = schedule_decide_int(
        func, "occupancy", "", max_i64(1, min_i64(busy / threads, func->target->sm_blocks)),
        "%d threads of a multiprocessor, whose registers hold these tiles", busy);
    int64_t fit = min_i64(func->target->sm_blocks, func->target->sm_threads / threads);
    if (blocks < 1 || blocks > max_i64(1, fit)) {
        const ScheduleEntry *line = schedule_user_entry(func, "occupancy", "");
        Diag *d = diag_error(func->diags, ERR_BLOCKS, line ? line->span : SPAN_NONE,
                             "`occupancy %lld` of %lld threads do not fit a multiprocessor",
                             (long long)blocks, (long long)threads);
        diag_help(func->diags, d, "at most %lld", (long long)max_i64(1, fit));
        return 1;
    }
    return blocks;
}
