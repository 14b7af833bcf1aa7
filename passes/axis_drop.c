/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/axis_drop.h"

static Value *without(Builder *b, CloneMap *known, Value *value, int axis);

static Value *copy_without(Builder *b, CloneMap *known, const Op *op, int first, int axis)
{
    Value *operands[MAX_RANK + 1];
    Type to = op->results[0]->type;
    Dim dims[MAX_RANK];
    for (int i = 0, k = 0; i < to->rank; i++) {
        if (i != axis) {
            dims[k++] = to->dims[i];
        }
    }
    for (int i = 0; i < op->n_operands; i++) {
        bool whole = i < first || op->operands[i]->type->rank == 0;
        operands[i] = whole ? op->operands[i] : without(b, known, op->operands[i], axis);
    }
    Type type = type_with_dims(b->func, to, to->rank - 1, dims);
    Op *copy = build_op(b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

static Value *broadcast_without(Builder *b, CloneMap *known, const Op *op, int axis)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    Dim dims[MAX_RANK];
    for (int i = 0, k = 0; i < to->rank; i++) {
        if (i != axis) {
            dims[k++] = to->dims[i];
        }
    }
    int inner = axis - (to->rank - from->rank);
    Value *operand = inner < 0 ? op->operands[0] : without(b, known, op->operands[0], inner);
    return build_broadcast(b, operand, to->rank - 1, dims);
}

static Value *permute_without(Builder *b, CloneMap *known, const Op *op, int axis)
{
    const int64_t *perm = op_attr(op, ATTR_PERM)->ints;
    int64_t left[MAX_RANK];
    int rank = op->results[0]->type->rank;
    bool ordered = true;
    for (int i = 0, k = 0; i < rank; i++) {
        if (i != axis) {
            left[k] = perm[i] - (perm[i] > perm[axis]);
            ordered = ordered && left[k] == k;
            k++;
        }
    }
    Value *inner = without(b, known, op->operands[0], (int)perm[axis]);
    return ordered ? inner : build_permute(b, inner, left);
}

static Value *made_without(Builder *b, CloneMap *known, Value *value, int axis)
{
    const Op *op = value->def;
    int at = op ? (int)op_int(op, ATTR_AXIS, 0) : 0;
    if (op && op->kind == OP_EXPAND) {
        if (axis == at) {
            return op->operands[0];
        }
        Value *inner = without(b, known, op->operands[0], axis - (axis > at));
        return build_expand(b, inner, at - (axis < at));
    }
    if (op && op->kind == OP_SQUEEZE) {
        Value *inner = without(b, known, op->operands[0], axis + (axis >= at));
        return build_squeeze(b, inner, at - (axis < at));
    }
    if (op && op->kind == OP_BROADCAST) {
        return broadcast_without(b, known, op, axis);
    }
    if (op && op->kind == OP_PERMUTE) {
        return permute_without(b, known, op, axis);
    }
    if (op && op->kind == OP_GATHER) {
        return copy_without(b, known, op, 1, axis);
    }
    if (op && op->kind == OP_REDUCE && axis != at) {
        Value *copy = copy_without(b, known, op, 0, axis);
        copy->def->attrs = arena_copy(b->func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
        op_set_int(b->func, copy->def, ATTR_AXIS, at - (axis < at));
        return copy;
    }
    if (op && (op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE))) {
        return copy_without(b, known, op, 0, axis);
    }
    return build_squeeze(b, value, axis); /* one element along it */
}

static Value *without(Builder *b, CloneMap *known, Value *value, int axis)
{
    Value *made = clone_get(known, value);
    if (made == value) { /* values are asked for without one and the same axis of theirs */
        made = made_without(b, known, value, axis);
    }
    return made;
}

Value *axis_dropped(Builder *b, Value *value, int axis)
{
    CloneMap known = clone_map_new(b->func);
    return without(b, &known, value, axis);
}
