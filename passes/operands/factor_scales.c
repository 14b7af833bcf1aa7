/* SPDX-License-Identifier: Apache-2.0 */
/* factor_scales: takes scales of whole rows and columns out of a dot of narrow operands.
 *
 *   %a = cast %x : f32[M, K]                     %a = cast %x : f32[M, K]
 *   %b = cast %w : f32[K, N]              →      %b = cast %w : f32[K, N]
 *   %d = dot %a, (mul %b, %s)                    %c = dot %a, %b
 *                                                %d = mul %c, %s
 *
 * %s is equal along k: a scale for each column of quantized weights, or, on the other side, for
 * each row of quantized activations. sink_dequant_scale would apply it to the sum of each k step,
 * for which each thread keeps two accumulators; behind the whole sum it is a multiplication of the
 * epilogue, and the dot is like any other of its operands' types. Only for operands that a matrix
 * instruction multiplies exactly once the factor is gone. Requires the tensor level. Reassociates
 * the sum of the dot. */
#include "ir/build.h"
#include "ir/drop_axis.h"
#include "ir/target/target.h"
#include "passes/analysis/constant_runs.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/pass.h"

/* The operand, of which the factor is gone. */
static Value *without_factor(Builder *b, Value *operand, const FactorSide *side)
{
    const Op *op = operand->def;
    if (op->kind == OP_PERMUTE) {
        Value *inner = without_factor(b, op->operands[0], side);
        return build_permute(b, inner, op_attr(op, ATTR_PERM)->ints);
    }
    return op->operands[op->operands[0] == side->factor ? 1 : 0];
}

/* The factor as an array of the result's shape. */
static Value *spread_factor(Builder *b, const FactorSide *found, int side, Type result)
{
    Value *factor = build_cast(b, axis_dropped(b, found->factor, found->along_k), DT_F32);
    if (factor->type->rank) {
        factor = build_expand(b, factor, side == 0 ? 1 : 0);
    }
    return build_broadcast(b, factor, result->rank, result->dims);
}

static void factor(Op *dot, void *user)
{
    Func *func = user;
    ScaledDot found;
    Value *operands[2], *scale = NULL;
    if (dot->kind != OP_DOT || dot->n_operands != 2 || !an_scaled_dot(func, dot, &found)) {
        return;
    }
    Builder b = build_before(func, dot);
    for (int i = 0; i < 2; i++) {
        const FactorSide *side = &found.sides[i];
        bool whole = side->factor && an_constant_run(side->factor, side->along_k) == 0;
        operands[i] = whole ? without_factor(&b, dot->operands[i], side) : dot->operands[i];
        if (whole) {
            Value *own = spread_factor(&b, side, i, dot->results[0]->type);
            scale = scale ? build_binary(&b, OP_MUL, scale, own) : own;
        }
    }
    if (!scale) {
        return;
    }
    Value *sum = build_dot(&b, operands[0], operands[1], NULL, dot->results[0]->type->dtype);
    Value *product = build_binary(&b, OP_MUL, sum, scale);
    product->name = dot->results[0]->name;
    func_replace_uses(func, dot->results[0], product);
    op_remove(dot);
}

void pass_factor_scales(Func *func)
{
    if (func->target && func->target->family != FAMILY_CPU) {
        func_walk(func, factor, func);
        func_remove_dead(func);
    }
}
