/* SPDX-License-Identifier: Apache-2.0 */
/* bounds: proves or guards each access, and makes the padding of ragged axes neutral.
 *
 *   %a = load %x[%m, %n] : f32[%m, %n]       %a = load %x[%m, %n] guard=[1, 1] : f32[%m, %n]
 *   %s = reduce %a fn=sum axis=1        →    %b = mask %a axis=1 value=0
 *                                            %s = reduce %b fn=sum axis=1
 *
 * A range is proven full when its step divides its extent by what is known of the sizes. Otherwise
 * accesses along it are guarded; reductions and products over it see a mask with the neutral
 * element, unless the guarded load already put it there. Establishes `padded`. Changes no bits. */
#include "ir/build.h"
#include "passes/an_padding.h"
#include "passes/an_ranges.h"
#include "passes/an_reduce.h"
#include "passes/pass.h"

static bool index_needs_guard(const Value *memory, int axis, const Value *index)
{
    int64_t extent;
    if (!index) {
        return false;
    }
    if (index->type->kind == TYPE_RANGE) {
        const DimVar *range = poly_as_range(index->type->dims[0]);
        return !range_is_full(range) || range->whole != memory->type->dims[axis];
    }
    /* The variable of a loop or of a grid over just this axis stays inside of it. */
    const Op *binder = index->block ? index->block->parent : NULL;
    const Attr *dims = binder ? op_attr(binder, ATTR_DIMS) : NULL;
    if (dims && index->index < (uint32_t)dims->n) {
        return dims->dims[index->index] != memory->type->dims[axis];
    }
    return !(index->def && index->def->kind == OP_CONST &&
             poly_is_const(memory->type->dims[axis], &extent) &&
             op_attr(index->def, ATTR_VALUE)->i >= 0 &&
             op_attr(index->def, ATTR_VALUE)->i < extent);
}

static void guard_access(Func *func, Op *op)
{
    int64_t guard[MAX_RANK];
    bool any = false;
    Access access = op_access(op, 0);
    for (int i = 0; i < access.n; i++) {
        guard[i] = index_needs_guard(access.memory, i, access.indices[i]);
        any = any || guard[i];
    }
    if (any) {
        op_set_ints(func, op, ATTR_GUARD, access.n, guard);
    }
}

static bool axis_is_ragged(const Value *value, int axis)
{
    const DimVar *range = poly_as_range(value->type->dims[axis]);
    return range && !range_is_full(range);
}

static bool padding_is(const Value *value, int axis, double f, int64_t i)
{
    Scalar held;
    if (!padding_value(value, axis, &held)) {
        return false;
    }
    return dtype_is_float(value->type->dtype) ? held.f == f : held.i == i;
}

/* From here on, the rest of the block reads the masked value too: what it computes from the padding
 * is then known, and needs no mask of its own. */
static void mask_operand(Func *func, Op *op, int n, int axis, double f, int64_t i)
{
    Value *value = op->operands[n];
    Builder before = build_before(func, op);
    Value *masked = build_mask(&before, value, axis, f);
    op_set_num(func, masked->def, ATTR_VALUE, f, i);
    for (Op *later = op; later; later = later->next) {
        for (int k = 0; k < later->n_operands; k++) {
            later->operands[k] = later->operands[k] == value ? masked : later->operands[k];
        }
    }
}

static void mask_reduce(Func *func, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t i = 0;
    double f = reduce_neutral(op_word(op, ATTR_FN), op->results[0]->type->dtype, &i);
    if (axis_is_ragged(op->operands[0], axis) && !padding_is(op->operands[0], axis, f, i)) {
        mask_operand(func, op, 0, axis, f, i);
    }
}

static void mask_dot(Func *func, Op *op)
{
    for (int n = 0; n < 2; n++) {
        int axis = 1 - n; /* the inner axis of a[m, k] and of b[k, n] */
        if (axis_is_ragged(op->operands[n], axis) && !padding_is(op->operands[n], axis, 0, 0)) {
            mask_operand(func, op, n, axis, 0, 0);
        }
    }
}

static void bound_op(Op *op, void *user)
{
    Func *func = user;
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE: guard_access(func, op); break;
    case OP_REDUCE: mask_reduce(func, op); break;
    case OP_DOT: mask_dot(func, op); break;
    default: break;
    }
}

void pass_bounds(Func *func)
{
    func_walk(func, bound_op, func);
    func->padded = true;
}
