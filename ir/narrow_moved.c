/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds elements before they are moved: what a gather or a select puts together of computed arrays
 * is rounded where it is computed, so that memory between launches has the narrower type.
 *
 *   %g = gather %z[%i] : f32[M]               %n = cast %z : bf16[N]
 *   %s = select %c, %g, %h : f32[M]      →    %g = gather %n[%i] : bf16[M]
 *   %b = cast %s : bf16[M]                    %m = cast %h : bf16[M]
 *                                             %b = select %c, %g, %m : bf16[M]
 *
 * Only values that nothing else reads are narrowed. Changes no bits. */
#include "ir/narrow_moved.h"

#include "ir/build.h"
#include "ir/op_axes.h"

enum { MAX_DEPTH = 64 }; /* ops one behind the other */

static bool is_read_once(const Func *func, const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value_count_uses(func, value) == 1;
}

/* A gather from an array that is made for it; what is outside of the array is 0. */
static bool moves_array(const Func *func, const Op *op)
{
    const Attr *outside = op_attr(op, ATTR_VALUE);
    return op->kind == OP_GATHER && is_read_once(func, op->operands[0]) &&
           (!outside || (outside->i == 0 && outside->f == 0));
}

/* True if the value's elements come from a gather of a computed array. */
static bool is_moved(const Func *func, const Value *value, int depth)
{
    const Op *op = value->def;
    if (!op || depth == MAX_DEPTH || !is_read_once(func, value)) {
        return false;
    }
    if (op->kind == OP_SELECT) {
        return is_moved(func, op->operands[1], depth + 1) ||
               is_moved(func, op->operands[2], depth + 1);
    }
    return moves_array(func, op) ||
           (op_moves_axes(op) && is_moved(func, op->operands[0], depth + 1));
}

static Value *narrowed(Builder *b, Value *value, DType dtype, int depth)
{
    const Op *op = value->def;
    bool inner = op && depth < MAX_DEPTH && is_read_once(b->func, value) &&
                 (op->kind == OP_SELECT || op_moves_axes(op) || moves_array(b->func, op));
    if (!inner) {
        return build_cast(b, value, dtype);
    }
    Value **operands = ARENA_ARRAY(b->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        bool elements = op->kind == OP_SELECT ? i > 0 : i == 0;
        operands[i] =
            elements ? narrowed(b, op->operands[i], dtype, depth + 1) : op->operands[i];
    }
    Type type = type_with_dtype(b->func, value->type, dtype);
    Op *copy = build_op(b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    copy->span = op->span;
    copy->results[0]->name = value->name;
    return copy->results[0];
}

bool narrow_moved(Func *func, Op *cast)
{
    const Value *from = cast->kind == OP_CAST ? cast->operands[0] : NULL;
    DType dtype = cast->n_results ? cast->results[0]->type->dtype : DT_BOOL;
    bool narrows = from && dtype_bytes(dtype) < dtype_bytes(from->type->dtype);
    if (!narrows || !is_moved(func, from, 0)) {
        return false;
    }
    Builder b = build_before(func, cast);
    b.span = cast->span;
    Value *value = narrowed(&b, cast->operands[0], dtype, 0);
    value->name = cast->results[0]->name ? cast->results[0]->name : value->name;
    func_replace_uses(func, cast->results[0], value);
    op_remove(cast);
    return true;
}
