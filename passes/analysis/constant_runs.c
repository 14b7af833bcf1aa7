/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the length of the runs along an axis in which a value is constant, from the indices of
 * the gathers and loads that define it. A scale of a quantization group of 128 elements is constant
 * in runs of 128. */
#include "passes/analysis/constant_runs.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "support/int_math.h"

enum { MAX_DEPTH = 32 };

static int64_t changes(Memo *memo, const Value *value, int axis, int depth);

static bool is_index(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_CAST || op_moves_axes(op))) {
        op = op->operands[0]->def;
    }
    return op && (op->kind == OP_INDEX || op->kind == OP_IOTA);
}

static const Op *constant_of(const Value *value)
{
    const Op *op = value->def;
    while (op && op->kind == OP_BROADCAST) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_CONST ? op : NULL;
}

static int64_t all_change(Memo *memo, const Op *op, int first, int axis, int depth)
{
    int64_t each = 0;
    for (int i = first; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        bool array = operand && type_is_tile(operand->type);
        each = array ? gcd(each, changes(memo, operand, axis, depth)) : each;
    }
    return each;
}

/* An index that is not negative, divided by a number, changes in runs of that length. Any other
 * quotient changes where either operand does. */
static int64_t quotient_changes(Memo *memo, const Op *op, int axis, int depth)
{
    const Op *by = constant_of(op->operands[1]);
    bool index = dtype_is_int(op->results[0]->type->dtype) && is_index(op->operands[0]);
    int64_t n = by && index ? op_attr(by, ATTR_VALUE)->i : 0;
    return n > 0 ? n * changes(memo, op->operands[0], axis, depth)
                 : all_change(memo, op, 0, axis, depth);
}

static int64_t changes_made(Memo *memo, const Value *value, int axis, int depth)
{
    const Op *op = value->def;
    if (!op || ++depth > MAX_DEPTH) {
        return 1;
    }
    switch (op->kind) {
    case OP_CONST: return 0;
    case OP_GATHER: return all_change(memo, op, 1, axis, depth);
    case OP_DIV: return quotient_changes(memo, op, axis, depth);
    default:
        if (op_moves_axes(op)) {
            int inner = op_operand_axis(op, 0, axis);
            return inner < 0 ? 0 : changes(memo, op->operands[0], inner, depth);
        }
        return op_has(op, TRAIT_ELEMENTWISE) ? all_change(memo, op, 0, axis, depth) : 1;
    }
}

static int64_t changes(Memo *memo, const Value *value, int axis, int depth)
{
    int64_t found;
    int key = depth * MAX_RANK + axis;
    return memo_known(memo, value, key, &found)
               ? found
               : memo_keep(memo, value, key, changes_made(memo, value, axis, depth));
}

int64_t an_constant_run(const Value *value, int axis)
{
    Memo *memo = memo_about(value);
    int64_t each = changes(memo, value, axis, 0);
    memo_close(memo);
    return each;
}

bool an_is_within_run(const DimVar *range, int64_t run)
{
    return run == 0 || (range->capacity > 0 && run % range->capacity == 0 &&
                         an_divisor(range->binder) % range->capacity == 0);
}
