/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/summed_products.h"

#include "ir/build.h"

bool an_is_sum(const Op *op)
{
    return op && op->kind == OP_REDUCE && op->n_operands == 1 &&
           text_equal(op_word(op, ATTR_FN), "sum");
}

/* Axes where one more stands at `at`. */
static unsigned spread_at(unsigned axes, int at)
{
    unsigned below = axes & ((1u << at) - 1);
    return below | (axes & ~((1u << at) - 1)) << 1;
}

bool an_pass_sum(SummedProduct *found, const Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (op->kind == OP_SQUEEZE) {
        found->summed = spread_at(found->summed, axis);
        found->dropped = spread_at(found->dropped, axis) | 1u << axis;
    } else if (an_is_sum(op)) {
        found->summed |= 1u << axis;
    } else {
        return false;
    }
    return true;
}

bool an_summed_product(Func *func, Op *sum, SummedProduct *found)
{
    *found = (SummedProduct){.last = sum};
    Op *op = sum;
    if (!an_is_sum(sum) || !value_has_uses(func, sum->results[0])) {
        return false;
    }
    while (an_pass_sum(found, op)) {
        Value *from = op->operands[0];
        if (!from->def || value_count_uses(func, from) != 1) {
            return false;
        }
        op = from->def;
    }
    found->mul = op;
    found->rank = op->n_results ? op->results[0]->type->rank : 0;
    return op->kind == OP_MUL && op->results[0]->type->dtype == DT_F32;
}
