/* SPDX-License-Identifier: Apache-2.0 */
/* fold_accumulator: turns acc + dot(a, b) into a dot that continues from the loop-carried
 * accumulator.
 *
 *   %p = dot %a, %b                          %s = mul %acc, %r
 *   %n = fma %acc, %r, %p              →     %n = dot %a, %b, %s
 *
 * Matrix instructions add to an accumulator at no cost, and the dot then needs no registers besides
 * the accumulator. Only sums with a loop-carried value change: a bias that is added once stays
 * after the loop. Requires: tile (the loops exist). Reassociates the sum of the dot, within its
 * error bound. */
#include "ir/build.h"
#include "passes/pass.h"

static bool is_loop_carried(const Value *value)
{
    const Op *loop = value->block ? value->block->parent : NULL;
    return loop && loop->kind == OP_FOR && value->index > 0;
}

/* True for the result of a dot that has no accumulator and no other use. */
static bool is_free_dot(const Func *func, const Value *value)
{
    return value->def && value->def->kind == OP_DOT && value->def->n_operands == 2 &&
           value_count_uses(func, value) == 1;
}

/* Replaces the sum `op` by the dot of `product` with the accumulator `onto`. */
static void accumulate(Func *func, Op *op, const Value *product, Value *onto)
{
    Builder b = build_before(func, op);
    const Op *dot = product->def;
    Value *sum = build_dot(&b, dot->operands[0], dot->operands[1], onto, onto->type->dtype);
    op_inherit_over(func, sum->def, dot);
    sum->name = op->results[0]->name;
    func_replace_uses(func, op->results[0], sum);
    op_remove(op);
}

static void accumulate_op(Op *op, void *user)
{
    Func *func = user;
    if (op->kind == OP_FMA && is_free_dot(func, op->operands[2])) {
        for (int i = 0; i < 2; i++) {
            if (is_loop_carried(op->operands[i])) {
                Builder b = build_before(func, op);
                Value *scaled = build_binary(&b, OP_MUL, op->operands[0], op->operands[1]);
                accumulate(func, op, op->operands[2], scaled);
                return;
            }
        }
    }
    if (op->kind == OP_ADD) {
        for (int i = 0; i < 2; i++) {
            if (is_free_dot(func, op->operands[i]) && is_loop_carried(op->operands[1 - i])) {
                accumulate(func, op, op->operands[i], op->operands[1 - i]);
                return;
            }
        }
    }
}

void pass_fold_accumulator(Func *func)
{
    func_walk(func, accumulate_op, func);
    func_remove_dead(func);
}
