/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the number of split-K slices where the cost model of dots does not apply: as many blocks
 * as there are multiprocessors, but no more slices than pay for the launch that adds their
 * results. */
#include "ir/build.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/cost_model.h"
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

enum {
    MAX_SLICES = 128, /* of k; combining more takes longer than they save */
};

static const AxisPlan *contracted(TilePlan *plan)
{
    const Value *left = plan->dot->operands[0];
    return tile_axis_of(plan, left, left->type->rank - 1);
}

int64_t tile_blocks(const TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    int64_t blocks = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t tiles = tiles_of(axis, axis == m || axis == n ? axis->step : 1);
        blocks = mul_sat(blocks, max_i64(1, tiles));
    }
    return blocks;
}

int64_t tile_choose_split_k(const Func *func, TilePlan *plan, const AxisPlan *m, const AxisPlan *n,
                            int64_t depth, int64_t least)
{
    const AxisPlan *k = contracted(plan);
    int64_t blocks = tile_blocks(plan, m, n), units = func->target->machine->num_sms;
    if (blocks >= units) {
        return 1;
    }
    int64_t steps = k ? poly_nominal(k->dim) / depth / least : 1;
    const Op *sum = tile_shared_sum(plan);
    if (sum) {
        steps = poly_nominal(sum->operands[0]->type->dims[op_int(sum, ATTR_AXIS, 0)]);
    } else if (!tile_can_split_k(plan)) {
        return 1;
    }
    return max_i64(1, min_i64(MAX_SLICES, min_i64(steps, units / blocks)));
}

int64_t tile_weigh_slices(const Func *func, TilePlan *plan, int64_t most, int64_t depth,
                          double step_cycles)
{
    const Machine *machine = func->target->machine;
    const AxisPlan *k = contracted(plan);
    double elements = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        elements *= (double)max_i64(1, poly_nominal(plan->items[i].dim));
    }
    if (most < 2 || !k || tile_shared_sum(plan)) {
        return most;
    }
    int64_t steps = ceil_div(poly_nominal(k->dim), depth), best = 1;
    double least = (double)steps * step_cycles;
    for (int64_t slices = most; slices > 1; slices = slices > 2 ? ceil_div(slices, 2) : 1) {
        double moved = 2 * elements * (double)slices * (double)sizeof(float);
        double combine = machine->start + cost_memory(machine, moved);
        double cycles = (double)ceil_div(steps, slices) * step_cycles + combine;
        best = cycles < least ? slices : best;
        least = cycles < least ? cycles : least;
    }
    return best;
}
