/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the rules of column `axes` of ir/ops.def (see op_axes.h). */
#include "ir/op_axes.h"

static OpAxis tied(int result)
{
    return (OpAxis){AXIS_TIED, result};
}

/* `axis` is the attribute of a reduction, scan or fold; the result keeps all axes in place. */
static OpAxis along_attribute(const Op *op, int axis, AxisRole role)
{
    return axis == (int)op_int(op, ATTR_AXIS, -1) ? (OpAxis){role, axis} : tied(axis);
}

/* Axes before the last two are batch axes of both factors. */
static OpAxis dot_axis(const Op *op, int at, int axis)
{
    int rank = op->results[0]->type->rank, right = access_next(op, 0);
    if (at > right || axis < rank - 2) {
        return tied(axis);
    }
    bool transposed = op_int(op, at == right ? ATTR_TB : ATTR_TA, 0) != 0;
    bool is_last = (axis == rank - 1) != transposed; /* as if it were not transposed */
    bool contracted = at == right ? !is_last : is_last;
    if (contracted) {
        return (OpAxis){AXIS_CONTRACTED, -1};
    }
    return tied(at == right ? rank - 1 : rank - 2);
}

static OpAxis broadcast_axis(const Op *op, int axis)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    int result = axis + to->rank - from->rank;
    bool same = from->dims[axis] == to->dims[result];
    return (OpAxis){same ? AXIS_TIED : AXIS_STRETCHED, result};
}

static OpAxis permuted_axis(const Op *op, int axis)
{
    const Attr *perm = op_attr(op, ATTR_PERM);
    for (int i = 0; i < perm->n; i++) {
        if (perm->ints[i] == axis) {
            return tied(i);
        }
    }
    return (OpAxis){AXIS_UNRELATED, -1};
}

OpAxis op_axis(const Op *op, int at, int axis)
{
    static const OpAxis unrelated = {AXIS_UNRELATED, -1};
    AxisRule rule = op_info(op->kind)->axes;
    bool array = op->operands[at] && op->operands[at]->type->kind == TYPE_ARRAY;
    int unit = (int)op_int(op, ATTR_AXIS, 0);
    if (!array && rule != AXES_DOT) {
        return unrelated;
    }
    switch (rule) {
    case AXES_NONE: return unrelated;
    case AXES_EQUAL: return tied(axis);
    case AXES_FIRST: return at == 0 ? tied(axis) : unrelated;
    case AXES_INDEXED: return at > 0 ? tied(axis) : unrelated;
    case AXES_BROADCAST: return broadcast_axis(op, axis);
    case AXES_EXPAND: return tied(axis + (axis >= unit));
    case AXES_SQUEEZE:
        return axis == unit ? (OpAxis){AXIS_DROPPED, -1} : tied(axis - (axis > unit));
    case AXES_PERMUTE: return permuted_axis(op, axis);
    case AXES_REDUCE: return along_attribute(op, axis, AXIS_REDUCED);
    case AXES_SCAN: return along_attribute(op, axis, AXIS_SCANNED);
    case AXES_FOLD:
        return along_attribute(op, axis, op_int(op, ATTR_SCAN, 0) ? AXIS_SCANNED : AXIS_REDUCED);
    case AXES_DOT: return dot_axis(op, at, axis);
    }
    return unrelated;
}

static int operand_rank(const Op *op, int at)
{
    bool dot = op_info(op->kind)->axes == AXES_DOT; /* whose operands may be memory with indices */
    return dot ? op->results[0]->type->rank : op->operands[at]->type->rank;
}

int op_operand_axis(const Op *op, int at, int axis)
{
    int rank = operand_rank(op, at);
    for (int i = 0; i < rank; i++) {
        OpAxis own = op_axis(op, at, i);
        if (own.role == AXIS_TIED && own.result == axis) {
            return i;
        }
    }
    return -1;
}

int op_reduced_axis(const Op *op, int rank)
{
    for (int i = 0; i < rank; i++) {
        if (op_axis(op, 0, i).role & (AXIS_REDUCED | AXIS_SCANNED | AXIS_CONTRACTED)) {
            return i;
        }
    }
    return -1;
}

bool op_moves_axes(const Op *op)
{
    switch (op_info(op->kind)->axes) {
    case AXES_BROADCAST:
    case AXES_EXPAND:
    case AXES_SQUEEZE:
    case AXES_PERMUTE: return true;
    default: return false;
    }
}

bool op_has_result_axes(const Op *op, int at)
{
    switch (op_info(op->kind)->axes) {
    case AXES_EQUAL: return true;
    case AXES_FIRST: return at == 0;
    case AXES_INDEXED: return at > 0;
    case AXES_DOT: return at > access_next(op, 0);
    default: return false;
    }
}
