/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes sums whose terms add several products, such as the real part of a product of complex
 * matrices. The pass distribute_sums and the error bound of the reference interpreter share these
 * questions, so that the bound covers exactly the sums that the pass may split. */
#include "ir/sum_terms.h"

#include "ir/build.h"
#include "support/text.h"

static bool add_product(Addends *found, Value *left, Value *right, bool negative)
{
    if (found->n == MAX_ADDENDS) {
        return false;
    }
    found->items[found->n++] = (Addend){{left, right}, negative};
    return true;
}

static bool collect(const Func *func, const Value *value, bool negative, Addends *found)
{
    const Op *op = value->def;
    if (!op || !value_only_user(func, value)) {
        return false;
    }
    switch (op->kind) {
    case OP_MUL: return add_product(found, op->operands[0], op->operands[1], negative);
    case OP_NEG: return collect(func, op->operands[0], !negative, found);
    case OP_ADD:
    case OP_SUB:
        return collect(func, op->operands[0], negative, found) &&
               collect(func, op->operands[1], negative != (op->kind == OP_SUB), found);
    case OP_FMA:
        return add_product(found, op->operands[0], op->operands[1], negative) &&
               collect(func, op->operands[2], negative, found);
    default: return false;
    }
}

bool value_addends(const Func *func, const Value *value, Addends *found)
{
    found->n = 0;
    return collect(func, value, false, found) && found->n > 1;
}

bool op_is_sum(const Op *op)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 && text_equal(op_word(op, ATTR_FN), "sum");
}

/* The axis that is number `n` of those that are not gone. */
static int axis_left(unsigned gone, int n)
{
    int axis = 0;
    for (; n > 0 || (gone >> axis & 1); axis++) {
        n -= !(gone >> axis & 1);
    }
    return axis;
}

SumNest sum_nest(const Func *func, Op *innermost)
{
    SumNest nest = {innermost, innermost, 1u << op_int(innermost, ATTR_AXIS, 0)};
    for (;;) {
        int64_t axis = op_int(nest.outermost, ATTR_AXIS, 0);
        const Op *squeeze = value_only_user(func, nest.outermost->results[0]);
        bool squeezed =
            squeeze && squeeze->kind == OP_SQUEEZE && op_int(squeeze, ATTR_AXIS, 0) == axis;
        Op *sum = squeezed ? value_only_user(func, squeeze->results[0]) : NULL;
        if (!sum || !op_is_sum(sum)) {
            return nest;
        }
        nest.summed |= 1u << axis_left(nest.summed, (int)op_int(sum, ATTR_AXIS, 0));
        nest.outermost = sum;
    }
}

Op *value_summed_by(const Func *func, const Value *value, const Value **term)
{
    Op *user = value_only_user(func, value);
    while (user && (user->kind == OP_ADD || user->kind == OP_SUB || user->kind == OP_NEG ||
                    (user->kind == OP_FMA && user->operands[2] == value))) {
        value = user->results[0];
        user = value_only_user(func, value);
    }
    *term = value;
    while (user && user->kind == OP_SELECT && user->operands[1] == value &&
           value_is_const(user->operands[2], 0)) {
        value = user->results[0];
        user = value_only_user(func, value);
    }
    return user && op_is_sum(user) ? user : NULL;
}
