/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes factors of a sum's terms that may leave the sum through a rounding to 16 bits: T(e /
 * l) @ v may be computed as (T(e) @ v) / l. The pass cascade_reductions and the error bound of the
 * reference interpreter share these questions. */
#include "ir/summed_factor.h"

#include "ir/build.h"
#include "ir/op_axes.h"

enum { MAX_DEPTH = 12 };

static bool is_equal_along(const Value *value, int axis, int depth)
{
    const Op *op = value->def;
    if (!op || depth == MAX_DEPTH) {
        return false;
    }
    if (op->kind == OP_CONST) {
        return true;
    }
    if (op_moves_axes(op)) {
        int from = op_operand_axis(op, 0, axis);
        return from < 0 || is_equal_along(op->operands[0], from, depth + 1);
    }
    bool equal = op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; equal && i < op->n_operands; i++) {
        equal = is_equal_along(op->operands[i], axis, depth + 1);
    }
    return equal;
}

bool value_is_equal_along(const Value *value, int axis)
{
    return is_equal_along(value, axis, 0);
}

/* The axis of the gather's result along which axis `at` of the array is read place by place, as
 * those are that a reshape leaves alone; -1: there is none. */
static int gathered_axis(const Op *gather, int at)
{
    for (int axis = 0; axis < gather->results[0]->type->rank; axis++) {
        const Op *op = gather->operands[1 + at]->def;
        int here = axis;
        while (op && op_moves_axes(op) && here >= 0) {
            here = op_operand_axis(op, 0, here);
            op = op->operands[0]->def;
        }
        if (op && op->kind == OP_IOTA && here == 0) {
            return axis;
        }
    }
    return -1;
}

static bool reads_array(const Op *op, int at)
{
    return op->kind == OP_GATHER && at == 0 && op->operands[0]->type->kind == TYPE_ARRAY;
}

static unsigned summed_axes(const Value *value, int depth);

/* The value's axes that are summed in this op, or in what it is an operand of, as bits. */
static unsigned summed_by(const Op *op, int at, const Value *value, int depth)
{
    bool sums = op->kind == OP_DOT ||
                (op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum"));
    bool gathers = reads_array(op, at);
    bool passes = gathers || op_moves_axes(op) || op->kind == OP_MUL || op->kind == OP_CAST ||
                  op->kind == OP_NEG || (op->kind == OP_SELECT && at > 0);
    unsigned axes = 0, of_result = passes && op->n_results == 1 && depth < MAX_DEPTH
                                       ? summed_axes(op->results[0], depth + 1)
                                       : 0;
    for (int i = 0; (sums || of_result) && i < value->type->rank; i++) {
        int from = gathers ? gathered_axis(op, i) : -1;
        if (gathers) {
            axes |= from >= 0 && (of_result >> from & 1) ? 1u << i : 0;
            continue;
        }
        OpAxis axis = op_axis(op, at, i);
        bool here = sums && (axis.role == AXIS_CONTRACTED || axis.role == AXIS_REDUCED);
        bool later = axis.role == AXIS_TIED && (of_result >> axis.result & 1);
        axes |= here || later ? 1u << i : 0;
    }
    return axes;
}

static unsigned summed_axes(const Value *value, int depth)
{
    unsigned axes = 0;
    for (const ValueUse *use = value->uses; use; use = use->next) {
        axes |= summed_by(use->op, (int)(use - use->op->uses), value, depth);
    }
    return axes;
}

/* A power of a difference is a quotient of powers: exp(x - m) is exp(x - n) times exp(n - m). */
static bool is_power_of_difference(const Op *power, unsigned axes)
{
    const char *fn = power->kind == OP_NAMED ? op_word(power, ATTR_FN) : "";
    bool is_power = power->kind == OP_FAST_EXP2 || text_equal(fn, "exp") || text_equal(fn, "exp2");
    const Op *op = is_power ? power->operands[0]->def : NULL;
    while (op && op->kind == OP_MUL) {
        op = op->operands[value_const(op->operands[0]) != NULL]->def;
    }
    bool equal = false;
    for (int axis = 0; op && op->kind == OP_SUB && axis < power->results[0]->type->rank; axis++) {
        equal = equal || (axes >> axis & 1 && is_equal_along(op->operands[1], axis, 0));
    }
    return equal;
}

static bool has_equal_factor(const Value *value, unsigned axes, int depth)
{
    const Op *op = value->def;
    if (!op || depth == MAX_DEPTH) {
        return false;
    }
    if (reads_array(op, 0)) {
        unsigned below = 0;
        for (int i = 0; i < op->operands[0]->type->rank; i++) {
            int axis = gathered_axis(op, i);
            below |= axis >= 0 && (axes >> axis & 1) ? 1u << i : 0;
        }
        return below && has_equal_factor(op->operands[0], below, depth + 1);
    }
    if (is_power_of_difference(op, axes)) {
        return true;
    }
    bool product = op->kind == OP_MUL || op->kind == OP_DIV;
    for (int axis = 0; product && axis < value->type->rank; axis++) {
        if (axes >> axis & 1 && ((op->kind == OP_MUL && is_equal_along(op->operands[0], axis, 0)) ||
                                 is_equal_along(op->operands[1], axis, 0))) {
            return true;
        }
    }
    bool follows = product || op->kind == OP_NEG || op->kind == OP_SELECT;
    int n = op->kind == OP_MUL || op->kind == OP_SELECT ? 2 : 1;
    for (int i = op->kind == OP_SELECT; follows && i < n; i++) {
        if (has_equal_factor(op->operands[i], axes, depth + 1)) {
            return true;
        }
    }
    return false;
}

bool cast_rounds_factor(const Op *cast)
{
    DType dtype = cast->results[0]->type->dtype;
    unsigned axes = dtype == DT_F16 || dtype == DT_BF16 ? summed_axes(cast->results[0], 0) : 0;
    return axes && has_equal_factor(cast->operands[0], axes, 0);
}
