/* SPDX-License-Identifier: Apache-2.0 */
/* drop_unit_axes: drops axes of extent 1 where a value is computed instead of where it is used.
 *
 *   %a = expand %x axis=0 : f32[1, %m]             %a = add %x, %y : f32[%m]
 *   %b = expand %y axis=0 : f32[1, %m]       →
 *   %c = add %a, %b : f32[1, %m]
 *   %d = squeeze %c axis=0 : f32[%m]
 *
 * An index that is equal for all elements becomes a scalar, also the index of a tensor's axis of
 * extent 1 that is not the last one; a scatter stores an array without such axes. Such axes come
 * from tile, which takes one element of a batch axis at a time. Afterwards the values are plain
 * tiles, which later passes recognize. Requires: tile. Changes no bits. */
#include "ir/drop_axis.h"
#include "passes/pass.h"

/* The scalar that all elements of the array equal; NULL: there is none. */
static Value *scalar_of(Value *value)
{
    while (value->def && (value->def->kind == OP_BROADCAST || value->def->kind == OP_EXPAND)) {
        value = value->def->operands[0];
    }
    return value->type->kind == TYPE_ARRAY && value->type->rank == 0 ? value : NULL;
}

/* Replaces indices that are equal for all elements by scalars. One array must remain as an index of
 * a gather, because the result has its shape. */
static void use_scalar_indices(Op *op, void *user)
{
    (void)user;
    if (op->kind != OP_GATHER && op->kind != OP_SCATTER) {
        return;
    }
    Access access = op_access(op, 0);
    int arrays = op->kind == OP_SCATTER;
    for (int i = 0; i < access.n; i++) {
        arrays += access.indices[i]->type->rank > 0 && !scalar_of(access.indices[i]);
    }
    for (int i = 0; arrays > 0 && i < access.n; i++) {
        Value *scalar = scalar_of(access.indices[i]);
        if (scalar) {
            op_set_operand(op, access.at + 1 + i, scalar);
        }
    }
}

/* True if the access takes a whole axis of extent 1 that is not the last one. */
static bool is_unit(const Access *access, int axis)
{
    return axis + 1 < access->n && !access->indices[axis] &&
           poly_is_number(access->memory->type->dims[axis], 1);
}

/* Loads index 0 along such axes and expands the result by them. */
static void load_without_unit_axes(Op *op, void *user)
{
    Func *func = user;
    bool tensor = op->kind == OP_LOAD && op->operands[0]->type->kind == TYPE_TENSOR;
    Access access = tensor ? op_access(op, 0) : (Access){0};
    Value *indices[MAX_RANK], *zero = NULL;
    Builder b = build_before(func, op);
    for (int i = 0; i < access.n; i++) {
        bool unit = is_unit(&access, i);
        zero = unit && !zero ? build_int(&b, type_scalar(func, DT_I64), 0) : zero;
        indices[i] = unit ? zero : access.indices[i];
    }
    if (!zero) {
        return;
    }
    Value *value = build_load(&b, access.memory, indices);
    value->def->n_attrs = op->n_attrs;
    value->def->attrs = op->attrs;
    value->name = op->results[0]->name;
    for (int i = 0, kept = 0; i < access.n; i++) {
        if (is_unit(&access, i)) {
            value = build_expand(&b, value, kept);
        }
        const Value *index = access.indices[i];
        kept += !index || index->type->kind == TYPE_RANGE;
    }
    func_replace_uses(func, op->results[0], value);
    op_remove(op);
}

typedef struct Squeezes {
    Func *func;
    AxesDropped before; /* by the squeezes before */
} Squeezes;

/* Computes the operand of a squeeze without the axis. */
static void drop_squeezed_axis(Op *op, void *user)
{
    Squeezes *squeezes = user;
    if (op->kind != OP_SQUEEZE) {
        return;
    }
    Builder b = build_before(squeezes->func, op);
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Value *value = axis_dropped_once(&squeezes->before, &b, op->operands[0], axis);
    value->name = value->name ? value->name : op->results[0]->name;
    func_replace_uses(squeezes->func, op->results[0], value);
    op_remove(op);
}

/* Scatters arrays without axes of extent 1, as long as one axis is left. */
static void scatter_without_unit_axes(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_SCATTER || op->n_results || op->operands[0]->type->kind != TYPE_TENSOR) {
        return;
    }
    for (int axis = op_moved_value(op)->type->rank; axis-- > 0;) {
        Type type = op_moved_value(op)->type;
        int64_t extent;
        if (type->rank == 1 || !poly_is_const(type->dims[axis], &extent) || extent != 1) {
            continue;
        }
        Builder b = build_before(func, op);
        for (int i = 1; i < op->n_operands; i++) {
            Value *operand = op->operands[i];
            if (operand->type->rank) {
                op_set_operand(op, i, axis_dropped(&b, operand, axis));
            }
        }
    }
}

void pass_drop_unit_axes(Func *func)
{
    func_walk(func, scatter_without_unit_axes, func);
    func_walk(func, load_without_unit_axes, func);
    Squeezes squeezes = {.func = func};
    func_walk(func, drop_squeezed_axis, &squeezes);
    func_walk(func, use_scalar_indices, NULL);
    func_remove_dead(func);
}
