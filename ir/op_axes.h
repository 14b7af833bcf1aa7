/* SPDX-License-Identifier: Apache-2.0 */
/* How the axes of an op's array operands relate to the axes of its result. Column `axes` of
 * ir/ops.def gives the rule of each op; the verifier, the layouts, the analyses, the interpreter's
 * trace, `explain` and the code generators ask here instead of deciding it op by op. */
#ifndef TESSERA_IR_OP_AXES_H
#define TESSERA_IR_OP_AXES_H

#include "ir/ir.h"

/* What an op does with one axis of an operand. The values are bits, so that a set of roles is a
 * number. */
typedef enum AxisRole {
    AXIS_UNRELATED = 0,   /* the op does not relate it to an axis of its result */
    AXIS_TIED = 1,        /* it is an axis of the result: both iterate together */
    AXIS_STRETCHED = 2,   /* its one element is repeated along an axis of the result */
    AXIS_DROPPED = 4,     /* its one element has no axis in the result */
    AXIS_REDUCED = 8,     /* the result has one element along it */
    AXIS_SCANNED = 16,    /* the result has a running reduction along it */
    AXIS_CONTRACTED = 32, /* both factors of a dot are summed along it */
} AxisRole;

typedef struct OpAxis {
    AxisRole role;
    int result; /* the axis of the result; -1: none */
} OpAxis;

/* The role of axis `axis` of the array operand op->operands[at]. For an op that writes an array
 * (scatter, print, assert), the axes of that array take the place of the result's. */
OpAxis op_axis(const Op *op, int at, int axis);
/* The axis of op->operands[at] that is tied to axis `axis` of the result; -1: none. */
int op_operand_axis(const Op *op, int at, int axis);
/* The axis of the first operand that the op reduces, scans or contracts; -1: none. `rank`: of that
 * operand, without the axes that its indices drop. */
int op_reduced_axis(const Op *op, int rank);

/* True for broadcast, expand, squeeze and permute: each element of the result is an element of the
 * operand at other coordinates. */
bool op_moves_axes(const Op *op);
/* True if the axes of op->operands[at] are exactly those of the result. */
bool op_has_result_axes(const Op *op, int at);

#endif
