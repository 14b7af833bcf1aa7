/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about layouts, from the pass that assigns them on: no element moves to another thread
 * except through memory. */
#include "ir/layout/layout.h"
#include "ir/verify/verify_ops.h"

static bool spreads(const Value *value)
{
    return value && type_is_tile(value->type);
}

/* Warps that run the op; 0: not known. */
static int warps_of(const Op *op)
{
    for (const Block *block = op->parent; block && block->parent; block = op->parent) {
        op = block->parent;
        const Attr *warps = op_attr(op, ATTR_WARPS);
        int64_t sum = 0;
        for (int i = 0; warps && i < warps->n; i++) {
            bool own = op->kind == OP_LAUNCH || op->regions[i] == block;
            sum += own ? warps->ints[i] : 0;
        }
        if (warps) {
            const Attr *teams = op_attr(op, ATTR_TEAMS);
            bool last = teams && op->regions[teams->n - 1] == block;
            return (int)(last ? sum / teams->ints[teams->n - 1] : sum);
        }
    }
    return 0;
}

/* Every element has a place. */
static void verify_cover(Verifier *v, const Op *op, const Value *value)
{
    int64_t extents[MAX_RANK];
    const Layout *layout = value->type->layout;
    if (layout->rank != value->type->rank) {
        verify_fail(v, op, "a layout of rank %d for an array of rank %d", layout->rank,
                    value->type->rank);
        return;
    }
    for (int i = 0; i < layout->rank; i++) {
        extents[i] = poly_capacity(value->type->dims[i]);
    }
    if (!layout_covers(layout, extents)) {
        verify_fail(v, op, "L%u does not hold every element", (unsigned)layout->id);
    }
    int warps = warps_of(op);
    if (warps && !layout_owned_by(layout, extents, warps)) {
        verify_fail(v, op, "L%u has elements in warps that there are not", (unsigned)layout->id);
    }
}

static void verify_reduced(Verifier *v, const Op *op)
{
    const Layout *from = op->operands[0]->type->layout;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (!from) {
        return;
    }
    Layout reduced = layout_drop_axis(from, axis);
    if (!layout_is_noop_conversion(&reduced, op->results[0]->type->layout)) {
        verify_fail(v, op, "the result's layout is not the operand's without the axis");
    }
    if (layout_crosses(from, IN_WARP, axis) && op->n_operands < 2) {
        verify_fail(v, op, "crosses warps without scratch");
    }
}

static bool complete(Verifier *v, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        if (spreads(op->results[i]) && !op->results[i]->type->layout) {
            verify_fail(v, op, "result %d has no layout", i);
            return false;
        }
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (spreads(op->operands[i]) && !op->operands[i]->type->layout) {
            return false; /* reported where it is made */
        }
    }
    return true;
}

/* scan, fold: one layout for all values of an element; results without the axis lose it. */
static void verify_folded(Verifier *v, const Op *op)
{
    bool scan = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0) != 0;
    const Layout *from = op->operands[0]->type->layout;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int taken = op->kind == OP_SCAN ? 1 : 2 * op->n_results;
    if (!from) {
        return;
    }
    Layout reduced = layout_drop_axis(from, axis);
    for (int i = 0; i < op->n_results; i++) {
        const Layout *to = op->results[i]->type->layout;
        if (op->operands[i]->type->layout != from) {
            verify_fail(v, op, "operand %d has another layout than the first", i);
        } else if (scan ? to != from : !layout_is_noop_conversion(&reduced, to)) {
            verify_fail(v, op, "the layout of result %d does not follow from the operands'", i);
        }
    }
    if (layout_crosses(from, IN_WARP, axis) && op->n_operands == taken) {
        verify_fail(v, op, "crosses warps without scratch");
    }
}

/* Ranks stay where their digits are, values go from where their places are; all through scratch. */
static void verify_ranked(Verifier *v, const Op *op)
{
    bool two = op->kind == OP_TILE_SCATTER || op->kind == OP_LOOKUP;
    int plain = 1;
    if (op->kind == OP_RANK) {
        plain = op->n_results + 1;
    } else if (two) {
        plain = 2;
    }
    const Layout *layout = op->operands[0]->type->layout;
    for (int i = 0; op->kind == OP_RANK && i < op->n_results; i++) {
        if (layout != op->results[i]->type->layout) {
            verify_fail(v, op, "ranks have another layout than the digits");
        }
    }
    if (op->kind == OP_TILE_SCATTER && op->operands[1]->type->layout != layout) {
        verify_fail(v, op, "the places have another layout than the values");
    }
    if (op->kind == OP_LOOKUP && op->operands[1]->type->layout != op->results[0]->type->layout) {
        verify_fail(v, op, "the result has another layout than the indices");
    }
    if (layout && op->n_operands == plain) {
        verify_fail(v, op, "has no scratch");
    }
}

void verify_layout(Verifier *v, const Op *op)
{
    if (!complete(v, op)) {
        return;
    }
    if (op->kind == OP_SCAN || op->kind == OP_FOLD) {
        verify_folded(v, op);
    } else if (op->kind == OP_HISTOGRAM || op->kind == OP_RANK || op->kind == OP_TILE_SCATTER ||
               op->kind == OP_LOOKUP) {
        verify_ranked(v, op);
    }
    for (int i = 0; i < op->n_results; i++) {
        if (spreads(op->results[i])) {
            verify_cover(v, op, op->results[i]);
        }
    }
    if (op->n_results != 1 || !spreads(op->results[0]) || v->failures > 0) {
        return;
    }
    if (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_MASK) {
        for (int i = 0; i < op->n_operands; i++) {
            const Value *operand = op->operands[i];
            if (spreads(operand) && operand->type->layout != op->results[0]->type->layout) {
                verify_fail(v, op, "operand %d has another layout than the result", i);
            }
        }
        return;
    }
    switch (op->kind) {
    case OP_CONVERT:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
        if (spreads(op->operands[0])) {
            /* The operand's layout must equal the result's layout as the operand sees it, or
             * elements would move between threads. */
            Layout seen = layout_of_operand(op, op->results[0]->type->layout);
            const Layout *from = op->operands[0]->type->layout;
            if (from && !layout_is_noop_conversion(from, &seen)) {
                verify_fail(v, op, "elements would change threads");
            }
        }
        break;
    case OP_REDUCE: verify_reduced(v, op); break;
    case OP_FRONT: {
        const Layout *from = op->operands[0]->type->layout;
        if (from && !layout_is_noop_conversion(from, op->results[0]->type->layout)) {
            verify_fail(v, op, "elements would change threads");
        }
        break;
    }
    default: break;
    }
}
