/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes f32 dots whose operands are narrower than f32, possibly times a scale that is constant
 * in runs along k, and finds the matrix instruction that multiplies the narrow elements
 * directly. */
#include "passes/analysis/dequant_scale.h"

#include "ir/op_axes.h"
#include "support/int_math.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/constant_runs.h"

/* ---- operands ---- */

bool an_is_widened(const Value *value)
{
    const Op *op = value->def;
    return op && op->kind == OP_CAST && value->type->dtype == DT_F32 &&
           mma_upcasts(op->operands[0]->type->dtype, DT_F32);
}

/* The loop's tiles lie in runs of the block; before there are loops, they may be made so. */
static bool is_in_blocks(const Op *dot, int64_t block)
{
    const DimVar *range = poly_as_range(dot->operands[0]->type->dims[1]);
    return !range || an_is_within_run(range, block);
}

static bool find_side(const Op *dot, int side, FactorSide *found, int64_t *block)
{
    Value *value = dot->operands[side];
    int axis = value->type->rank - (side == 0 ? 1 : 2);
    *found = (FactorSide){.along_k = axis};
    while (value->def && value->def->kind == OP_PERMUTE) {
        axis = (int)op_attr(value->def, ATTR_PERM)->ints[axis];
        value = value->def->operands[0];
    }
    found->along_k = axis;
    const Op *op = value->def;
    for (int i = 0; op && op->kind == OP_MUL && i < 2; i++) {
        Value *factor = op->operands[1 - i];
        int64_t each = an_constant_run(factor, axis);
        if (an_is_widened(op->operands[i]) && each != 1) {
            *block = gcd(*block, each);
            found->factor = factor;
            value = op->operands[i];
            break;
        }
    }
    found->narrow = an_is_widened(value) ? value->def->operands[0] : NULL;
    return found->narrow != NULL;
}

DType an_narrow_type(const Op *dot, int side)
{
    FactorSide found;
    int64_t block = 0;
    return find_side(dot, side, &found, &block) ? found.narrow->type->dtype
                                                : dot->operands[side]->type->dtype;
}

bool an_scaled_dot(const Func *func, const Op *dot, ScaledDot *found)
{
    const ScheduleEntry *given = schedule_user_entry((Func *)func, "instruction", "");
    const char *word = given ? given->symbol : NULL;
    *found = (ScaledDot){.block = 0};
    if (dot->operands[0]->type->rank != 2 || dot->operands[0]->type->dtype != DT_F32 ||
        dot->results[0]->type->dtype != DT_F32 || op_attr(dot, ATTR_INSTRUCTION) ||
        !find_side(dot, 0, &found->sides[0], &found->block) ||
        !find_side(dot, 1, &found->sides[1], &found->block)) {
        return false;
    }
    found->left = found->sides[0].narrow->type->dtype;
    found->right = found->sides[1].narrow->type->dtype;
    const MatrixInstr *unit = mma_find(func->target, word, found->left, found->right, DT_F32);
    return unit && unit->operands != DT_F32 && found->block % unit->k == 0 &&
           is_in_blocks(dot, found->block);
}

static bool is_rounded(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_PERMUTE || op->kind == OP_MASK)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_TF32;
}

bool an_rounded(const Op *dot)
{
    return op_attr(dot, ATTR_PRECISION) ||
           (op_access_nth(dot, 0).n == 0 && is_rounded(dot->operands[0]) &&
            op_access_nth(dot, 1).n == 0 && is_rounded(dot->operands[1]));
}

Op *an_operand_load(const Func *func, const Op *dot, int side)
{
    ScaledDot factored;
    bool narrow = an_scaled_dot(func, dot, &factored);
    Op *op = (narrow ? factored.sides[side].narrow : dot->operands[side])->def;
    while (op && (op->kind == OP_TF32 || op_moves_axes(op))) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_LOAD ? op : NULL;
}
