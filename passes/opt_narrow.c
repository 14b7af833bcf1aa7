/* SPDX-License-Identifier: Apache-2.0 */
/* narrow: compares indices in 32 bits where the sizes allow.
 *
 *   %i = index %r : i64[%r]                 %i = index %r : i32[%r]
 *   %c = cmp %i, %k pred=ge            →    %c = cmp %i, %k pred=ge
 *
 * Indices are i64 in the language; a GPU compares those in two steps, once an element of a mask.
 * When both sides of a comparison are indices, sizes or ends of ranges below 2^31 by what is known
 * of the sizes, i32 gives the same answer. Requires: tile. Changes no bits. */
#include "ir/build.h"
#include "passes/pass.h"

#include <string.h>

static bool fits(Dim dim)
{
    return poly_most(dim) < INT32_MAX && poly_least(dim) > INT32_MIN;
}

static bool is_shape_op(OpKind kind)
{
    return kind == OP_BROADCAST || kind == OP_EXPAND || kind == OP_SQUEEZE || kind == OP_PERMUTE;
}

static bool is_narrow(const Value *value)
{
    const Op *op = value->def;
    if (!op || value->type->dtype != DT_I64) {
        return false;
    }
    switch (op->kind) {
    case OP_INDEX:
    case OP_START:
    case OP_END: return fits(poly_as_range(op->operands[0]->type->dims[0])->whole);
    case OP_SIZE: return fits(op_attr(op, ATTR_DIM)->dims[0]);
    case OP_CONST:
        return op_attr(op, ATTR_VALUE)->i < INT32_MAX && op_attr(op, ATTR_VALUE)->i > INT32_MIN;
    default: return is_shape_op(op->kind) && is_narrow(op->operands[0]);
    }
}

/* The same value as i32, made beside the old one. */
static Value *narrowed(Func *func, Value *value)
{
    Op *op = value->def;
    Builder b = build_after(func, op);
    if (op->kind != OP_INDEX && op->kind != OP_CONST && !is_shape_op(op->kind)) {
        return build_cast(&b, value, DT_I32);
    }
    Value *operand = op->n_operands ? op->operands[0] : NULL;
    if (is_shape_op(op->kind)) {
        operand = narrowed(func, operand);
    }
    Type type = type_with_dtype(func, value->type, DT_I32);
    Op *copy = build_op(&b, op->kind, op->n_operands, &operand, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = arena_copy(func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
    return copy->results[0];
}

static void narrow_op(Op *op, void *user)
{
    Func *func = user;
    if (op->kind == OP_CMP && is_narrow(op->operands[0]) && is_narrow(op->operands[1])) {
        op->operands[0] = narrowed(func, op->operands[0]);
        op->operands[1] = narrowed(func, op->operands[1]);
    }
}

void pass_opt_narrow(Func *func)
{
    func_walk(func, narrow_op, func);
    func_remove_dead(func);
}
