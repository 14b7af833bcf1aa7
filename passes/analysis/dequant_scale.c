/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/dequant_scale.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "support/int_math.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"

enum { MAX_DEPTH = 32 };

/* ---- how often a value changes along an axis: every so many elements; 0: never ---- */

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

/* ---- operands ---- */

bool an_is_widened(const Value *value)
{
    const Op *op = value->def;
    return op && op->kind == OP_CAST && value->type->dtype == DT_F32 &&
           mma_upcasts(op->operands[0]->type->dtype, DT_F32);
}

/* The loop's tiles lie in runs of the block; before there are loops, they may be made so. */
static bool lies_in_blocks(const Op *dot, int64_t block)
{
    const DimVar *range = poly_as_range(dot->operands[0]->type->dims[1]);
    return !range || block == 0 ||
           (block % range->capacity == 0 && an_divisor(range->binder) % range->capacity == 0);
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
        Memo *memo = memo_about(factor);
        int64_t each = changes(memo, factor, axis, 0);
        memo_close(memo);
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
           lies_in_blocks(dot, found->block);
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
