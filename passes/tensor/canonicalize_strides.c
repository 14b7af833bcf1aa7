/* SPDX-License-Identifier: Apache-2.0 */
/* canonicalize_strides: permutes the axes of strided tensors so that the last axis is the
 * contiguous one.
 *
 *   in %x: tensor<f32[M, N] strides [1, M]>       in %x: tensor<f32[N, M]> axis_perm [1, 0]
 *   %0 = load %x[:, :] : f32[M, N]           →    %1 = load %x[:, :] : f32[N, M]
 *                                                 %0 = permute %1 perm=[1, 0] : f32[M, N]
 *
 * A tensor that is contiguous in some order of its axes has no strides afterwards; of any other
 * tensor the axis of stride 1, if it has one, becomes the last. So all later passes, TMA and the
 * vectors of both code generators see one kind of row. Requires the tensor level. Changes no bits.
 */
#include "ir/build.h"
#include "passes/pass.h"

/* From the last axis on: that whose stride is what all behind it take. */
static bool contiguous_order(Func *func, Type type, int64_t *order)
{
    unsigned placed = 0;
    Dim next = poly_const(func, 1);
    for (int to = type->rank - 1; to >= 0; to--) {
        int axis = type->rank - 1;
        while (axis >= 0 && ((placed >> axis & 1) || type->strides[axis] != next)) {
            axis--;
        }
        if (axis < 0) {
            return false;
        }
        order[to] = axis;
        placed |= 1u << axis;
        next = poly_mul(func, next, type->dims[axis]);
    }
    return true;
}

/* The others stay as they are. */
static void order_by_last(Type type, int64_t *order)
{
    int last = type->rank - 1, to = 0;
    for (int axis = type->rank - 1; axis >= 0 && !type_stride_is(type, last, 1); axis--) {
        last = type_stride_is(type, axis, 1) ? axis : last;
    }
    for (int axis = 0; axis < type->rank; axis++) {
        if (axis != last) {
            order[to++] = axis;
        }
    }
    order[to] = last;
}

static bool moves(int rank, const int64_t *order)
{
    for (int i = 0; i < rank; i++) {
        if (order[i] != i) {
            return true;
        }
    }
    return false;
}

/* Indices, and which of them are guarded. */
static void turn_indices(Func *func, Op *op, const int64_t *order)
{
    Access access = op_access(op, 0);
    const Attr *guard = op_attr(op, ATTR_GUARD);
    Value *old[MAX_RANK];
    int64_t guards[MAX_RANK];
    for (int i = 0; i < access.n; i++) {
        old[i] = access.indices[i];
        guards[i] = guard && order[i] < guard->n ? guard->ints[order[i]] : 0;
    }
    for (int i = 0; i < access.n; i++) {
        op_set_operand(op, access.at + 1 + i, old[order[i]]);
    }
    if (guard) {
        op_set_ints(func, op, ATTR_GUARD, access.n, guards);
    }
}

static bool is_kept(const Value *index)
{
    return !index || index->type->kind == TYPE_RANGE;
}

/* Which axis of the accessed array, before, is axis i of the one after; whether any moves. */
static bool kept_order(const Op *op, const int64_t *order, int64_t *kept)
{
    Access access = op_access(op, 0); /* its indices are turned */
    int64_t position[MAX_RANK];
    bool was_kept[MAX_RANK];
    int n = 0;
    for (int i = 0; i < access.n; i++) {
        was_kept[order[i]] = is_kept(access.indices[i]);
    }
    for (int axis = 0; axis < access.n; axis++) {
        position[axis] = n;
        n += was_kept[axis];
    }
    n = 0;
    for (int i = 0; i < access.n; i++) {
        if (is_kept(access.indices[i])) {
            kept[n++] = position[order[i]];
        }
    }
    return moves(n, kept);
}

static void turn_load(Func *func, Op *op, const int64_t *order)
{
    int64_t kept[MAX_RANK], back[MAX_RANK];
    turn_indices(func, op, order);
    if (!kept_order(op, order, kept)) {
        return;
    }
    Builder b = build_before(func, op);
    Access access = op_access(op, 0);
    Value *loaded = build_load(&b, access.memory, access.indices);
    loaded->def->attrs = op->attrs; /* guards and what is outside */
    loaded->def->n_attrs = op->n_attrs;
    loaded->def->span = op->span;
    for (int i = 0; i < loaded->type->rank; i++) {
        back[kept[i]] = i;
    }
    func_replace_uses(func, op->results[0], build_permute(&b, loaded, back));
    op_remove(op);
}

static void turn_store(Func *func, Op *op, const int64_t *order)
{
    int64_t kept[MAX_RANK];
    turn_indices(func, op, order);
    if (kept_order(op, order, kept)) {
        Builder b = build_before(func, op);
        int last = op->n_operands - 1;
        op_set_operand(op, last, build_permute(&b, op->operands[last], kept));
    }
}

typedef struct Turner {
    Func *func;
    const Value *tensor;
    const int64_t *order; /* axis i was axis order[i] */
} Turner;

static void turn_op(Op *op, void *user)
{
    Turner *t = user;
    if (op->n_operands == 0 || op->operands[0] != t->tensor) {
        return;
    }
    switch (op->kind) {
    case OP_LOAD: turn_load(t->func, op, t->order); break;
    case OP_STORE: turn_store(t->func, op, t->order); break;
    default: turn_indices(t->func, op, t->order); break;
    }
}

static void turn_param(Func *func, Param *param)
{
    Type type = param->value->type;
    int64_t *order = ARENA_ARRAY(func->arena, int64_t, type->rank);
    Dim dims[MAX_RANK], strides[MAX_RANK];
    bool contiguous = contiguous_order(func, type, order);
    if (!contiguous) {
        order_by_last(type, order);
    }
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[order[i]];
        strides[i] = type->strides[order[i]];
    }
    Type tensor = type_tensor(func, type->dtype, type->rank, dims);
    param->value->type = type_with_strides(func, tensor, contiguous ? NULL : strides, type->align);
    if (moves(type->rank, order)) {
        param->axis_perm = order;
        func_walk(func, turn_op, &(Turner){func, param->value, order});
    }
}

void pass_canonicalize_strides(Func *func)
{
    for (size_t i = 0; i < func->params.n; i++) {
        Param *param = &func->params.items[i];
        if (param->value->type->strides && !param->axis_perm) {
            turn_param(func, param);
        }
    }
}
