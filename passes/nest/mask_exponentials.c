/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites exponentials that are masked afterwards as exponentials of masked terms, which is the
 * form that cascade_match.c recognizes.
 *
 *   %g = select %c, %s, -inf                         %g = select %c, %s, -inf
 *   %m = reduce %g fn=max axis=1                     %m = reduce %g fn=max axis=1
 *   %p = exp (%s - %m)                       →       %h = %m, or 0 where that is -inf
 *   %e = select %c, %p, 0                            %e = exp (%g - %h)
 *
 * If the condition holds, a maximum of -inf means that all terms of the row are masked, since the
 * result of a dot is not -inf. If it does not hold, exp(-inf - %h) is 0. The maximum of the
 * reduction and a further number is computed behind the reduction, before the reduced axis is
 * dropped. */
#include "ir/op_axes.h"
#include "passes/nest/nest.h"
#include "passes/pass.h"

static bool is_number(const Value *value, double number)
{
    return value_is_const(value_unstretched(value), number);
}

static bool is_maximum(const Op *op)
{
    return op && op->kind == OP_REDUCE && op->n_operands == 1 &&
           text_equal(op_word(op, ATTR_FN), "max");
}

/* What stands for a value that leaves out an axis of one element keeps the axis where it is added
 * again. */
static bool keep_unit_axis(Func *func, Value *without, int axis, Value *with)
{
    bool found = false;
    for (const ValueUse *use = use_first(without, func->body), *next; use; use = next) {
        next = use_next(use, func->body);
        if (use->op->kind == OP_EXPAND && (int)op_int(use->op, ATTR_AXIS, 0) == axis) {
            func_replace_uses(func, use->op->results[0], with);
            found = true;
        }
    }
    return found;
}

/* A maximum keeps its axis, and so does max (squeeze %m), %z, as squeeze (max %m, (expand %z)). */
static bool keep_axis(Func *func, Op *op)
{
    if (op->kind == OP_SQUEEZE && is_maximum(op->operands[0]->def)) {
        return keep_unit_axis(func, op->results[0], (int)op_int(op, ATTR_AXIS, 0),
                              op->operands[0]);
    }
    for (int i = 0; op->kind == OP_MAX && i < 2; i++) {
        const Op *squeeze = value_def_of_kind(op->operands[i], OP_SQUEEZE);
        if (squeeze && is_maximum(squeeze->operands[0]->def)) {
            Builder b = build_before(func, op);
            int axis = (int)op_int(squeeze, ATTR_AXIS, 0);
            Value *other = build_expand(&b, op->operands[1 - i], axis);
            Value *both = build_binary(&b, OP_MAX, squeeze->operands[0], other);
            keep_unit_axis(func, op->results[0], axis, both);
            func_replace_uses(func, op->results[0], build_squeeze(&b, both, axis));
            return true;
        }
    }
    return false;
}

/* Is the value the maximum of these terms along an axis, or the greater one of that and of a
 * further number? */
static bool is_maximum_of(const Value *value, const Value *terms)
{
    const Op *op = value->def;
    for (int i = 0; op && op->kind == OP_MAX && i < 2; i++) {
        if (is_maximum_of(op->operands[i], terms)) {
            return true;
        }
    }
    return is_maximum(op) && op->operands[0] == terms;
}

/* `select c, s, -inf` of which the value is the maximum; NULL: there is none. */
static Value *masked_terms(const Func *func, Value *condition, const Value *terms,
                           const Value *maximum)
{
    for (const ValueUse *use = use_first(terms, func->body); use; use = use_next(use, func->body)) {
        const Op *mask = use->op;
        if (mask->kind == OP_SELECT && mask->operands[0] == condition &&
            mask->operands[1] == terms && is_number(mask->operands[2], -__builtin_inf()) &&
            is_maximum_of(maximum, mask->results[0])) {
            return mask->results[0];
        }
    }
    return NULL;
}

static bool mask_exponential(Func *func, Op *select)
{
    bool chooses = select->kind == OP_SELECT;
    const Op *exp = chooses ? value_def_of_kind(select->operands[1], OP_NAMED) : NULL;
    const Op *sub = exp && text_equal(op_word(exp, ATTR_FN), "exp")
                        ? value_def_of_kind(exp->operands[0], OP_SUB)
                        : NULL;
    const Op *spread = sub ? value_def_of_kind(sub->operands[1], OP_BROADCAST) : NULL;
    if (!spread || !is_number(select->operands[2], 0) || !nest_is_unmasked(sub->operands[0])) {
        return false;
    }
    Value *maximum = spread->operands[0], *condition = select->operands[0];
    Value *terms = masked_terms(func, condition, sub->operands[0], maximum);
    if (!terms) {
        return false;
    }
    Builder b = build_before(func, select);
    Type type = terms->type;
    Value *none = build_cmp(&b, "eq", maximum, build_float(&b, maximum->type, -__builtin_inf()));
    Value *least = build_select(&b, none, build_float(&b, maximum->type, 0), maximum);
    Value *shift = build_broadcast(&b, least, type->rank, type->dims);
    CloneMap map = clone_map_new(func);
    clone_map_value(&map, sub->results[0], build_binary(&b, OP_SUB, terms, shift));
    func_replace_uses(func, select->results[0], clone_op(&b, &map, exp)->results[0]);
    return true;
}

bool nest_mask_exponentials(Func *func)
{
    bool changed = false;
    for (Op *op = func->body->first; op; op = op->next) {
        changed = keep_axis(func, op) || changed;
    }
    if (changed) {
        func_remove_dead(func);
        pass_simplify(func);
    }
    bool masked = false;
    for (Op *op = func->body->first; op; op = op->next) {
        masked = mask_exponential(func, op) || masked;
    }
    return masked || changed;
}
