/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/varies.h"

unsigned an_axes_moved(const Op *op, unsigned inner)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    unsigned outer = 0;
    int at = (int)op_int(op, ATTR_AXIS, 0);
    for (int i = 0; i < to->rank; i++) {
        int k = op->kind == OP_PERMUTE   ? (int)op_attr(op, ATTR_PERM)->ints[i]
                : op->kind == OP_EXPAND  ? (i == at ? -1 : i - (i > at))
                : op->kind == OP_SQUEEZE ? i + (i >= at)
                                         : i - (to->rank - from->rank);
        bool kept = k >= 0 && from->dims[k] == to->dims[i];
        outer |= kept && (inner >> k & 1) ? 1u << i : 0;
    }
    return outer;
}

unsigned an_all_axes(Type type)
{
    return (1u << type->rank) - 1;
}

static unsigned varies(const Value *value, int depth)
{
    const Op *op = value->def;
    unsigned axes = 0;
    if (!op || depth > VARIES_DEPTH) {
        return an_all_axes(value->type);
    }
    switch (op->kind) {
    case OP_CONST: return 0;
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE: return an_axes_moved(op, varies(op->operands[0], depth + 1));
    case OP_GATHER:
        for (int i = 1; i < op->n_operands; i++) {
            axes |= op->operands[i]->type->rank ? varies(op->operands[i], depth + 1) : 0;
        }
        return axes;
    default:
        if (!op_has(op, TRAIT_ELEMENTWISE)) {
            return an_all_axes(value->type);
        }
        for (int i = 0; i < op->n_operands; i++) {
            axes |= varies(op->operands[i], depth + 1);
        }
        return axes;
    }
}

unsigned an_varies(const Value *value)
{
    return varies(value, 0);
}
