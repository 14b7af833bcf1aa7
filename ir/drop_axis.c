/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputes a value without one of its axes, by cloning the ops that define it. Passes use it
 * where a value is equal along an axis, or where only one index along the axis is needed. */
#include "ir/drop_axis.h"

/* What has been made: many ways may lead to one value. */
typedef struct Made {
    const Value *value;
    const Block *block; /* in which it was made */
    int axis;
    Value *by;
} Made;

typedef struct Drop {
    Builder *b;
    Value *at; /* i64: the element that is taken; NULL: all are alike */
    HashTable *made;
} Drop;

static Value *without(Drop *d, Value *value, int axis);

static Dim *other_dims(const Drop *d, Type type, int axis)
{
    Dim *dims = ARENA_ARRAY(d->b->func->arena, Dim, type->rank);
    for (int i = 0, k = 0; i < type->rank; i++) {
        if (i != axis) {
            dims[k++] = type->dims[i];
        }
    }
    return dims;
}

static Value *copy_without(Drop *d, const Op *op, int first, int axis)
{
    Value *operands[MAX_RANK + 1];
    Type to = op->results[0]->type;
    for (int i = 0; i < op->n_operands; i++) {
        bool whole = i < first || op->operands[i]->type->rank == 0;
        operands[i] = whole ? op->operands[i] : without(d, op->operands[i], axis);
    }
    Type type = type_with_dims(d->b->func, to, to->rank - 1, other_dims(d, to, axis));
    Op *copy = build_op(d->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

static Value *broadcast_without(Drop *d, const Op *op, int axis)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    int inner = axis - (to->rank - from->rank);
    Value *operand = op->operands[0];
    if (inner >= 0 && from->dims[inner] != to->dims[axis]) {
        Drop one = {.b = d->b, .made = d->at ? &(HashTable){0} : d->made};
        operand = without(&one, operand, inner); /* its one element */
    } else if (inner >= 0) {
        operand = without(d, operand, inner);
    }
    return build_broadcast(d->b, operand, to->rank - 1, other_dims(d, to, axis));
}

static Value *permute_without(Drop *d, const Op *op, int axis)
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
    Value *inner = without(d, op->operands[0], (int)perm[axis]);
    return ordered ? inner : build_permute(d->b, inner, left);
}

/* True if nothing writes the memory between the value and the cursor: an input, or below the tensor
 * level an intermediate of an earlier launch. */
static bool is_constant(const Builder *b, const Value *memory)
{
    ParamIo io = b->func->params.items[memory->index].io;
    const Op *top = b->block->parent;
    while (top && top->parent != b->func->body) {
        top = top->parent->parent;
    }
    return io == PARAM_IN || (io_is_made_here(io) && top && !op_writes(top, memory));
}

static Value *load_without(const Drop *d, const Op *load, int axis)
{
    Value *indices[MAX_RANK];
    Access access = op_access(load, 0);
    for (int i = 0, kept = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        bool keeps = !index || index->type->kind == TYPE_RANGE;
        indices[i] = keeps && kept++ == axis ? d->at : access.indices[i];
    }
    return build_load(d->b, access.memory, indices);
}

/* Nothing else is known of it: the sum over the axis, where the others count as 0. */
static Value *picked(const Drop *d, Value *value, int axis)
{
    Builder *b = d->b;
    Type type = value->type;
    DType dtype = type->dtype;
    DType wide = DT_I32;
    if (dtype_is_narrow(dtype)) {
        wide = DT_F32;
    } else if (dtype_is_float(dtype) || dtype_bits(dtype) > 31) {
        wide = dtype;
    }
    const DimVar *range = poly_as_range(type->dims[axis]);
    Value *which =
        range ? build_index(b, range->binder, DT_I64) : build_iota(b, type->dims[axis], DT_I64);
    Value *is = build_cmp(b, "eq", which, build_broadcast(b, d->at, 1, which->type->dims));
    for (int i = 0; i < type->rank; i++) {
        is = i == axis ? is : build_expand(b, is, i);
    }
    Value *all = build_cast(b, value, wide);
    Value *none = dtype_is_float(wide) ? build_float(b, all->type, 0) : build_int(b, all->type, 0);
    all = build_select(b, build_broadcast(b, is, type->rank, type->dims), all, none);
    all = build_reduce(b, "sum", all, axis);
    if (b->func->level != LEVEL_TENSOR) {
        op_set_over(b->func, all->def, type->dims[axis]); /* of the tile one element is left */
    }
    all = build_squeeze(b, all, axis);
    return build_cast(b, all, dtype);
}

static Value *element_without(const Drop *d, Value *value, int axis)
{
    const Op *op = value->def;
    if (!d->at || poly_is_number(value->type->dims[axis], 1)) {
        return build_squeeze(d->b, value, axis); /* one element along it */
    }
    if (op && op->kind == OP_LOAD && is_constant(d->b, op->operands[0])) {
        return load_without(d, op, axis);
    }
    if (op && (op->kind == OP_IOTA || op->kind == OP_INDEX)) {
        return build_cast(d->b, d->at, value->type->dtype);
    }
    return picked(d, value, axis);
}

static Value *dot_without(Drop *d, const Op *dot, int batch)
{
    Value *parts[3] = {NULL};
    for (int i = 0; i < dot->n_operands; i++) {
        parts[i] = without(d, dot->operands[i], batch);
    }
    Value *matrix = build_dot(d->b, parts[0], parts[1], parts[2], dot->results[0]->type->dtype);
    op_inherit_over(d->b->func, matrix->def, dot);
    return matrix;
}

static Value *made_without(Drop *d, Value *value, int axis)
{
    const Op *op = value->def;
    int at = op ? (int)op_int(op, ATTR_AXIS, 0) : 0;
    if (op && op->kind == OP_EXPAND) {
        if (axis == at) {
            return op->operands[0];
        }
        Value *inner = without(d, op->operands[0], axis - (axis > at));
        return build_expand(d->b, inner, at - (axis < at));
    }
    if (op && op->kind == OP_SQUEEZE) {
        Value *inner = without(d, op->operands[0], axis + (axis >= at));
        return build_squeeze(d->b, inner, at - (axis < at));
    }
    if (op && op->kind == OP_BROADCAST) {
        return broadcast_without(d, op, axis);
    }
    if (op && op->kind == OP_PERMUTE) {
        return permute_without(d, op, axis);
    }
    if (op && op->kind == OP_GATHER && (!d->at || is_constant(d->b, op->operands[0]))) {
        return copy_without(d, op, 1, axis);
    }
    if (op && op->kind == OP_REDUCE && axis != at) {
        Value *copy = copy_without(d, op, 0, axis);
        copy->def->attrs = arena_copy(d->b->func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
        op_set_int(d->b->func, copy->def, ATTR_AXIS, at - (axis < at));
        return copy;
    }
    if (op && op->kind == OP_DOT && axis < value->type->rank - 2) {
        return dot_without(d, op, axis);
    }
    if (op && (op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE))) {
        return copy_without(d, op, 0, axis);
    }
    return element_without(d, value, axis);
}

static bool same_made(const void *item, const void *key)
{
    const Made *a = item, *b = key;
    return a->value == b->value && a->axis == b->axis && a->block == b->block;
}

static Value *without(Drop *d, Value *value, int axis)
{
    Made asked = {.value = value, .block = d->b->block, .axis = axis};
    uint64_t hash = hash_word(hash_word(0, value->id), (uint64_t)axis);
    const Made *made = table_find(d->made, hash, same_made, &asked);
    if (!made) {
        asked.by = made_without(d, value, axis);
        made = arena_copy(d->b->func->arena, &asked, sizeof asked);
        table_add(d->b->func->arena, d->made, hash, (void *)made);
    }
    return made->by;
}

Value *axis_dropped(Builder *b, Value *value, int axis)
{
    AxesDropped none = {0};
    return axis_dropped_once(&none, b, value, axis);
}

Value *axis_dropped_once(AxesDropped *before, Builder *b, Value *value, int axis)
{
    Drop drop = {.b = b, .made = &before->made};
    return without(&drop, value, axis);
}

Value *axis_taken(Builder *b, Value *value, int axis, Value *at)
{
    AxesDropped none = {0};
    return axis_taken_once(&none, b, value, axis, at);
}

Value *axis_taken_once(AxesDropped *before, Builder *b, Value *value, int axis, Value *at)
{
    Drop drop = {.b = b, .at = at, .made = &before->made};
    return without(&drop, value, axis);
}
