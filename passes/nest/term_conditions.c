/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether the condition of the terms of a reduction (a causal mask, for example) holds
 * somewhere in each row. */
#include "ir/op_axes.h"
#include "passes/nest/nest.h"

enum { MAX_STEPS = 256 }; /* values of a condition, each as often as it is an operand */

/* of_row * (the row's index) + of_column * (the column's) + base */
typedef struct Affine {
    int64_t of_row, of_column, base;
    int *steps; /* so far */
} Affine;

/* The operand's axis that an op which moves axes makes this one of its result of; -1: none. */
static int moved_from(const Op *op, int axis)
{
    int found = -1;
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis moved = op_axis(op, 0, i);
        found = moved.role == AXIS_TIED && moved.result == axis ? i : found;
    }
    return found;
}

/* `row` and `column`: the value's axes that are those; -1: it does not have it. */
static bool find_affine(const Value *value, int row, int column, int64_t times, Affine *sum)
{
    const Op *op = value->def;
    const Attr *number = op ? value_const(value) : NULL;
    if (++*sum->steps > MAX_STEPS) {
        return false;
    }
    if (number) {
        sum->base += times * number->i;
        return number->i < (1 << 30) && number->i > -(1 << 30);
    }
    if (op && op->kind == OP_IOTA) {
        sum->of_row += row == 0 ? times : 0;
        sum->of_column += column == 0 ? times : 0;
        return row == 0 || column == 0;
    }
    if (op && (op->kind == OP_ADD || op->kind == OP_SUB)) {
        return find_affine(op->operands[0], row, column, times, sum) &&
               find_affine(op->operands[1], row, column, op->kind == OP_SUB ? -times : times, sum);
    }
    if (!op || !op_moves_axes(op)) {
        return false;
    }
    return find_affine(op->operands[0], moved_from(op, row), moved_from(op, column), times, sum);
}

/* Does the condition hold in each row, in its first column or, where `diagonal`, in the column of
 * the row's own number? */
static bool holds(const Value *condition, int row, int column, bool diagonal, int *steps)
{
    const Op *op = condition->def;
    if (++*steps > MAX_STEPS) {
        return false;
    }
    if (op && op->kind == OP_AND) {
        return holds(op->operands[0], row, column, diagonal, steps) &&
               holds(op->operands[1], row, column, diagonal, steps);
    }
    if (op && op_moves_axes(op)) {
        return holds(op->operands[0], moved_from(op, row), moved_from(op, column), diagonal, steps);
    }
    if (!op || op->kind != OP_CMP || op->operands[0]->type->dtype != DT_I64) {
        return false;
    }
    const char *pred = op_word(op, ATTR_PRED);
    bool less = pred[0] == 'l';
    Affine sum = {.base = pred[1] == 't' ? -1 : 0, .steps = steps};
    return (less || pred[0] == 'g') && find_affine(op->operands[less], row, column, 1, &sum) &&
           find_affine(op->operands[!less], row, column, -1, &sum) && sum.base >= 0 &&
           sum.of_row + (diagonal ? sum.of_column : 0) >= 0;
}

const Op *nest_chosen_power(const Op *power)
{
    bool function = power->kind == OP_NAMED && (text_equal(op_word(power, ATTR_FN), "exp") ||
                                                text_equal(op_word(power, ATTR_FN), "exp2"));
    const Op *sub = function ? value_def_of_kind(power->operands[0], OP_SUB) : NULL;
    const Op *select = sub ? value_def_of_kind(sub->operands[0], OP_SELECT) : NULL;
    const Op *spread = sub ? value_def_of_kind(sub->operands[1], OP_BROADCAST) : NULL;
    const Op *max = spread ? value_def_of_kind(spread->operands[0], OP_REDUCE) : NULL;
    if (!select || !max || max->operands[0] != select->results[0] ||
        !text_equal(op_word(max, ATTR_FN), "max") ||
        !value_is_const(value_unstretched(select->operands[2]), -__builtin_inf())) {
        return NULL;
    }
    Type type = select->results[0]->type;
    int rank = type->rank, column = (int)op_int(max, ATTR_AXIS, 0);
    int row = column == rank - 1 ? rank - 2 : rank - 1;
    bool square = rank >= 2 && type->dims[row] == type->dims[column];
    int steps[2] = {0, 0};
    return rank >= 2 && (holds(select->operands[0], row, column, false, &steps[0]) ||
                         (square && holds(select->operands[0], row, column, true, &steps[1])))
               ? select
               : NULL;
}
