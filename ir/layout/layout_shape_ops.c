/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts across an op: that of its operand, given the result's, and the other way. Every element
 * stays in its register, lane and warp. */
#include "ir/layout/layout.h"
#include "ir/op_axes.h"

Layout layout_of_operand(const Op *op, const Layout *result)
{
    int from[MAX_RANK], rank = op->operands[0]->type->rank;
    for (int i = 0; i < rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        from[i] = axis.role == AXIS_TIED ? axis.result : -1;
    }
    return layout_pick_axes(result, rank, from);
}

Layout layout_of_result(const Op *op, const Layout *operand)
{
    int from[MAX_RANK], rank = op->results[0]->type->rank;
    for (int i = 0; i < rank; i++) {
        from[i] = op_operand_axis(op, 0, i);
    }
    return layout_pick_axes(operand, rank, from);
}
