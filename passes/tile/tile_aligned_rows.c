/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that begin at unaligned addresses: the tile begins before its row, at an aligned address, so
 * that it can be accessed in vectors of 16 bytes. */
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/tile/tile_steps.h"

enum { ALIGNED_ROW = 256 /* shorter ones are not worth a block of their own */ };

bool tile_rows_are_wide(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind != OP_LOAD && op->kind != OP_STORE) {
            continue;
        }
        Access access = op_access(op, 0);
        Type tensor = access.memory->type;
        if (tensor->rank > 1 && an_row_divisor(&access) * dtype_bytes(tensor->dtype) % 16) {
            return false;
        }
    }
    return true;
}

bool tile_is_row(const AxisPlan *axis)
{
    return (axis->flags & AXIS_STORED) && (axis->flags & AXIS_REDUCED) && !axis->walked;
}

static bool all_contiguous(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        Type type = op->n_operands ? op->operands[0]->type : NULL;
        if (type && type->kind == TYPE_TENSOR && (type->strides || type->align)) {
            return false;
        }
    }
    return true;
}

bool tile_has_plain_ops(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool moves = op_moves_axes(op) || op->kind == OP_CONST || op->kind == OP_SIZE;
        if (!moves && !op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_LOAD &&
            op->kind != OP_STORE && op->kind != OP_REDUCE) {
            return false;
        }
    }
    return true;
}

/* Only the last axis is reduced, and all are stored. */
static bool only_last_is_row(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        if (axis->walked || tile_is_row(axis) != (i == plan->n - 1)) {
            return false;
        }
    }
    return plan->n > 1 && plan->n == plan->n_stored;
}

/* Tensors begin at multiples of 16 bytes, their rows where they may. A tile that begins before its
 * row is accessed 16 bytes at a time but for the ends; each block then has one row. */
int64_t tile_choose_aligned(Func *func, const Op *group, const TilePlan *plan)
{
    int64_t most = plan->n ? poly_most(plan->items[plan->n - 1].dim) : 0;
    int64_t widest = tile_widest_access(group);
    if (!is_gpu(func) || !tile_has_plain_ops(group) || !only_last_is_row(plan) ||
        !all_contiguous(group) || tile_rows_are_wide(group) || most < ALIGNED_ROW ||
        most > tile_row_capacity(func, plan) - widest) {
        return 1;
    }
    /* What the ends of a row cost grows with the elements of a piece: 8 were slower than single
     * accesses (docs/lab/memory_bound.md). */
    bool few = widest <= 4;
    return schedule_decide_int(
        func, "align", "", few ? widest : 1,
        few ? "rows begin anywhere: tiles begin before them, where accesses may "
              "be %d bytes wide"
            : "rows begin anywhere; pieces of %d bytes have too many elements at "
              "the ends",
        ACCESS_BYTES);
}

bool tile_aligned_fits(const TilePlan *plan)
{
    const AxisPlan *row = &plan->items[plan->n - 1];
    bool fits = row->how == AXIS_ROW && row->step >= poly_most(row->dim) + plan->row_align - 1;
    for (int i = 0; i < plan->n - 1; i++) {
        fits = fits && plan->items[i].step <= 1;
    }
    return fits;
}
