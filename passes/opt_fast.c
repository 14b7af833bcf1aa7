/* SPDX-License-Identifier: Apache-2.0 */
/* fast: one fused multiply-add for the argument of a fast exponential of scores.
 *
 *   %d = sub %s, %w                         %t = neg (mul %w, c)          ; once a row
 *   %y = mul %d, c                    →     %y = fma %s, c, %t
 *   %p = fast_exp2 %y                       %p = fast_exp2 %y
 *
 * %w is a row's value, broadcast. This adds the rounding of %w * c, 2^-24 of it; so it is done only
 * where %w comes from a product, whose own bound (2^-24 times the terms of its sum) is larger and
 * already part of the result's. Requires: tile. Changes the low bits of an approximate op's
 * argument within the bound that the interpreter computes. */
#include "ir/build.h"
#include "passes/pass.h"

static bool from_product(const Value *value, int depth)
{
    const Op *op = value->def;
    if (!op || depth > 12) {
        return false;
    }
    if (op->kind == OP_DOT) {
        return true;
    }
    for (int i = 0; i < op->n_operands && op->kind != OP_LOAD && op->n_regions == 0; i++) {
        if (from_product(op->operands[i], depth + 1)) {
            return true;
        }
    }
    return false;
}

static const Op *defined_by(const Value *value, OpKind kind)
{
    return value->def && value->def->kind == kind ? value->def : NULL;
}

/* The factor is a constant: 1 / ln 2, mostly. */
static Value *row_shift(Builder *b, Value *row, const Op *factor)
{
    Value *c = build_float(b, row->type, op_attr(factor, ATTR_VALUE)->f);
    return build_unary(b, OP_NEG, build_binary(b, OP_MUL, row, c));
}

static void contract(Op *op, void *user)
{
    Func *func = user;
    const Op *scaled = op->kind == OP_FAST_EXP2 ? defined_by(op->operands[0], OP_MUL) : NULL;
    const Op *factor = scaled ? defined_by(scaled->operands[1], OP_CONST) : NULL;
    const Op *shifted = factor ? defined_by(scaled->operands[0], OP_SUB) : NULL;
    const Op *spread = shifted ? defined_by(shifted->operands[1], OP_BROADCAST) : NULL;
    if (!spread || spread->operands[0]->type->rank != op->results[0]->type->rank ||
        !from_product(spread->operands[0], 0)) {
        return;
    }
    Builder b = build_before(func, op);
    Type type = op->results[0]->type;
    Value *shift = row_shift(&b, spread->operands[0], factor);
    shift = build_broadcast(&b, shift, type->rank, type->dims);
    op->operands[0] = build_fma(&b, shifted->operands[0], scaled->operands[1], shift);
}

void pass_opt_fast(Func *func)
{
    func_walk(func, contract, func);
    func_remove_dead(func);
}
