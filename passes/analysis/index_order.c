/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that integers never fall along an axis: coordinates, arrays that the program declares
 * sorted, and counts of offsets that are at most a coordinate. */
#include "passes/analysis/index_order.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"

enum { MAX_DEPTH = 32 };

typedef struct Order {
    const Func *func;
    Memo *varies; /* of an_varies */
} Order;

static bool never_falls(const Order *order, const Value *value, int axis, int depth);

static bool is_fixed(const Order *order, const Value *value, int axis)
{
    return !(an_varies(order->varies, value) >> axis & 1);
}

static bool is_sorted_param(const Func *func, const Op *load)
{
    const Value *memory = load->operands[0];
    Access access = op_access(load, 0);
    bool param = !memory->def && !memory->block && memory->index < func->params.n;
    return param && access.n == 1 && !access.indices[0] && func->params.items[memory->index].sorted;
}

/* A wider integer holds each value; a narrower one each position of an axis that is known to be
 * short. */
static bool keeps_order(const Op *cast, int axis)
{
    const Value *from = cast->operands[0], *base = value_unstretched(from);
    DType to = cast->results[0]->type->dtype;
    bool wider =
        from->type->dtype == DT_BOOL ||
        (dtype_is_int(from->type->dtype) && dtype_is_signed(to) &&
         dtype_bits(to) >= dtype_bits(from->type->dtype) &&
         (dtype_is_signed(from->type->dtype) || dtype_bits(to) > dtype_bits(from->type->dtype)));
    bool position = base->def && base->def->kind == OP_IOTA && dtype_bits(to) >= 32 &&
                    poly_most(from->type->dims[axis]) <= INT32_MAX;
    return dtype_is_int(to) && (wider || position);
}

/* What grows stands on the greater side. */
static bool comes_true(const Order *order, const Op *cmp, int axis, int depth)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    bool less = pred[0] == 'l', greater = pred[0] == 'g';
    const Value *grows = cmp->operands[less], *other = cmp->operands[!less];
    return (less || greater) && dtype_is_int(grows->type->dtype) && is_fixed(order, other, axis) &&
           never_falls(order, grows, axis, depth + 1);
}

/* Bools that are counted along another axis: no such sum overflows. */
static bool counts(const Op *reduce)
{
    const Op *cast = reduce->n_operands == 1 ? reduce->operands[0]->def : NULL;
    return text_equal(op_word(reduce, ATTR_FN), "sum") && cast && cast->kind == OP_CAST &&
           cast->operands[0]->type->dtype == DT_BOOL &&
           dtype_bits(cast->results[0]->type->dtype) >= 32;
}

static bool never_falls(const Order *order, const Value *value, int axis, int depth)
{
    const Op *op = value->def;
    if (!op || depth > MAX_DEPTH) {
        return false;
    }
    if (is_fixed(order, value, axis)) {
        return true;
    }
    if (op_moves_axes(op)) {
        int before = op_operand_axis(op, 0, axis);
        return before >= 0 && never_falls(order, op->operands[0], before, depth + 1);
    }
    switch (op->kind) {
    case OP_IOTA: return true;
    case OP_LOAD: return is_sorted_param(order->func, op);
    case OP_CAST:
        return keeps_order(op, axis) && never_falls(order, op->operands[0], axis, depth + 1);
    case OP_CMP: return comes_true(order, op, axis, depth);
    case OP_MIN:
    case OP_MAX:
        return never_falls(order, op->operands[0], axis, depth + 1) &&
               never_falls(order, op->operands[1], axis, depth + 1);
    case OP_REDUCE:
        return op_int(op, ATTR_AXIS, 0) != axis && counts(op) &&
               never_falls(order, op->operands[0], axis, depth + 1);
    default: return false;
    }
}

bool an_never_falls(const Func *func, const Value *value, int axis)
{
    Order order = {func, memo_about(value)};
    bool found = never_falls(&order, value, axis, 0);
    memo_close(order.varies);
    return found;
}
