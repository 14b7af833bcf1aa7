/* SPDX-License-Identifier: Apache-2.0 */
/* Computes for an array of the tensor level along which of its axes the elements differ: one bit
 * per axis, by a memoized walk over the ops that define the array. */
#include "passes/analysis/axis_dependence.h"

#include "ir/build.h"
#include "ir/op_axes.h"

unsigned an_axes_moved(const Op *op, unsigned inner)
{
    Type from = op->operands[0]->type;
    unsigned outer = 0;
    for (int i = 0; i < from->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        outer |= axis.role == AXIS_TIED && (inner >> i & 1) ? 1u << axis.result : 0;
    }
    return outer;
}

unsigned an_all_axes(Type type)
{
    return (1u << type->rank) - 1;
}

static unsigned made_of(Memo *memo, const Op *op)
{
    unsigned axes = 0;
    int first = op->kind == OP_GATHER;
    switch (op->kind) {
    case OP_CONST: return 0;
    default:
        if (op_moves_axes(op)) {
            return an_axes_moved(op, an_varies(memo, op->operands[0]));
        }
        if (op->kind != OP_GATHER && !op_has(op, TRAIT_ELEMENTWISE)) {
            return an_all_axes(op->results[0]->type);
        }
        for (int i = first; i < op->n_operands; i++) {
            axes |= op->operands[i]->type->rank ? an_varies(memo, op->operands[i]) : 0;
        }
        return axes;
    }
}

unsigned an_varies(Memo *memo, const Value *value)
{
    int64_t found;
    const Op *op = value->def;
    if (!op || op->n_results != 1) {
        return an_all_axes(value->type);
    }
    if (!memo) {
        memo = memo_about(value);
        unsigned axes = an_varies(memo, value);
        memo_close(memo);
        return axes;
    }
    return memo_known(memo, value, 0, &found)
               ? (unsigned)found
               : (unsigned)memo_keep(memo, value, 0, made_of(memo, op));
}

static void note(Op *op, void *user)
{
    for (int i = 0; i < op->n_results; i++) {
        an_varies(user, op->results[i]);
    }
}

Memo *an_varies_all(Func *func)
{
    Memo *memo = memo_open(func);
    func_walk(func, note, memo); /* operands before what is made of them: no deep recursion */
    return memo;
}

bool an_is_of_places(Memo *memo, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || op->n_regions > 0) {
        return false;
    }
    if (op->kind == OP_IOTA || op->kind == OP_CONST || op->kind == OP_SIZE) {
        return true;
    }
    if (memo_known(memo, value, 0, &found)) {
        return found != 0;
    }
    bool good = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; good && i < op->n_operands; i++) {
        good = an_is_of_places(memo, op->operands[i]);
    }
    return memo_keep(memo, value, 0, good) != 0;
}
