/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the result of a shape op (reshape, transpose, broadcast and others), derived from
 * the layout of its operand. */
#include "ir/layout/layout.h"

static Layout broadcast_operand(const Op *op, const Layout *result)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    bool stretched[MAX_RANK];
    for (int i = 0; i < from->rank; i++) {
        stretched[i] = from->dims[i] != to->dims[to->rank - from->rank + i];
    }
    return layout_project(result, from->rank, stretched);
}

Layout layout_of_operand(const Op *op, const Layout *result)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    switch (op->kind) {
    case OP_BROADCAST: return broadcast_operand(op, result);
    case OP_EXPAND: return layout_remove_axis(result, axis);
    case OP_SQUEEZE: return layout_insert_axis(result, axis);
    case OP_PERMUTE: return layout_permute(result, op_attr(op, ATTR_PERM)->ints);
    default: return *result;
    }
}
