/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a cluster of blocks holds together (PTX ISA, "Cooperative thread arrays in a cluster"):
 * each has a part of the row in its registers, and they meet in each other's shared memory for what
 * the row is reduced to. The row is read once. */
#include "passes/tile_steps.h"

#include "ir/errors.h"

bool tile_writes_along(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *written = axes_written(op);
        bool along = !written;
        for (int i = 0; written && i < written->type->rank; i++) {
            along = along || axes_class(plan->axes, written, i) == axis->class;
        }
        if (!along) {
            return false;
        }
    }
    return true;
}

/* What does not go along the axis each block of a cluster would write; and no other axis is
 * folded. */
static bool only_this_row(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *other = &plan->items[i];
        bool folds = (other->flags & AXIS_REDUCED) || !(other->flags & AXIS_STORED);
        if (other != axis && folds) {
            return false;
        }
    }
    return tile_writes_along(group, plan, axis);
}

/* The part of a row of at most `most` elements that each of `blocks` takes; of a shorter row the
 * last ones may have none. */
static int64_t part_of(int64_t most, int64_t blocks, int64_t multiple)
{
    return ((most + blocks - 1) / blocks + multiple - 1) / multiple * multiple;
}

static int64_t derived_blocks(const Func *func, int64_t elements)
{
    int64_t blocks = 1, most = target_cluster(func->target);
    while (blocks < most && elements / blocks > CLUSTER_ELEMENTS) {
        blocks *= 2;
    }
    return elements / blocks <= 2 * CLUSTER_ELEMENTS ? blocks : 1;
}

static int64_t checked_blocks(Func *func, int64_t derived)
{
    int64_t most = target_cluster(func->target);
    int64_t blocks = schedule_number(func, "cluster", "", derived,
                                     "a row is longer than what one block can hold well: so many "
                                     "hold it together");
    if (blocks >= 1 && blocks <= most && (blocks & (blocks - 1)) == 0) {
        return blocks;
    }
    const Line *line = schedule_given(func, "cluster", "");
    Diag *d =
        diag_error(func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                   "`cluster %lld` is not possible on %s", (long long)blocks, func->target->name);
    diag_help(func->diags, d, "a power of two from 1 to %lld", (long long)most);
    return 1;
}

bool tile_choose_cluster(Func *func, const Op *group, TilePlan *plan, AxisPlan *axis, int64_t inner)
{
    enum { PART_MULTIPLE = 32 }; /* elements: 16 bytes of the narrowest, and more */
    int64_t most = poly_most(axis->dim), elements;
    if (!is_gpu(func) || target_cluster(func->target) < 2 || axis->held || most == INT64_MAX ||
        schedule_given(func, "tile", axis->name) || schedule_given(func, "rows", "") ||
        plan->aligned > 1 || !tile_has_plain_ops(group) || !only_this_row(group, plan, axis) ||
        __builtin_mul_overflow(most, inner, &elements)) {
        return false;
    }
    int64_t derived = derived_blocks(func, elements);
    if (derived < 2 && !schedule_given(func, "cluster", "")) {
        return false;
    }
    int64_t blocks = checked_blocks(func, derived);
    if (blocks < 2) {
        return false;
    }
    tile_set_step(func, axis, AXIS_CLUSTER, part_of(most, blocks, PART_MULTIPLE),
                  "a part of the row, in registers");
    plan->cluster = blocks;
    return true;
}
