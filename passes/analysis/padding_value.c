/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the value that a tile's elements past the end of a ragged axis hold, by following
 * guarded loads, masks and elementwise ops. `bounds` then masks only the operands whose padding is
 * not yet the identity element. */
#include "passes/analysis/padding_value.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/scalar_eval.h"
#include "passes/analysis/range_facts.h"
#include "support/hash_table.h"

#include <math.h>

enum { MAX_DEPTH = 64 };

/* What is known of a value, once it has been asked: many ways may lead to it. */
typedef struct Answer {
    const Value *value;
    int axis;
    bool known;
    Scalar holds;
} Answer;

typedef struct Look {
    Func *func;
    int axis; /* of the value at hand */
    int depth;
    HashTable *answers;
} Look;

static bool known(Look look, const Value *value, Scalar *out);

static Look along(Look look, int axis)
{
    look.axis = axis;
    return look;
}

static bool constant(const Op *op, Scalar *out)
{
    const Attr *attr = op_attr(op, ATTR_VALUE);
    if (dtype_is_float(op->results[0]->type->dtype)) {
        out->f = attr ? attr->f : 0;
    } else {
        out->i = attr ? attr->i : 0;
    }
    return true;
}

/* w >= every element of x in its row: a maximum of x along the axis, alone or together with
 * another. */
static bool dominates(Memo *seen, const Value *w, const Value *x, int axis)
{
    const Op *op = value_unstretched(w)->def;
    if (op && !memo_visit(seen, op->results[0])) {
        return false; /* or it would have been found */
    }
    if (op && op->kind == OP_CLUSTER_REDUCE) {
        return dominates(seen, op->operands[0], x, axis);
    }
    if (op && op->kind == OP_MAX) {
        return dominates(seen, op->operands[0], x, axis) ||
               dominates(seen, op->operands[1], x, axis);
    }
    return op && op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "max") &&
           op_int(op, ATTR_AXIS, -1) == axis && op->operands[0] == x;
}

/* w is never -inf: `select (w == -inf), c, w` replaced it (softmax_reference of the library). */
static bool replaces_minus_inf(const Value *w)
{
    const Op *select = value_def_of_kind(w, OP_SELECT);
    const Op *cmp = select ? value_def_of_kind(select->operands[0], OP_CMP) : NULL;
    const Op *by =
        select ? value_def_of_kind(value_unstretched(select->operands[1]), OP_CONST) : NULL;
    const Op *inf = cmp ? value_def_of_kind(value_unstretched(cmp->operands[1]), OP_CONST) : NULL;
    Scalar c, limit;
    return by && inf && text_equal(op_word(cmp, ATTR_PRED), "eq") &&
           cmp->operands[0] == select->operands[2] && constant(by, &c) && constant(inf, &limit) &&
           limit.f == -INFINITY && isfinite(c.f);
}

/* x - w of padding x = -inf, where w is one value for each row: -inf unless w is -inf or NaN. If w
 * is NaN, so are the row's own elements; the same if w is -inf and none of them exceeds it. */
static bool is_row_shift(const Op *op, Look look, Scalar *out)
{
    const Op *spread = value_def_of_kind(op->operands[1], OP_BROADCAST);
    bool finite = spread && op_operand_axis(spread, 0, look.axis) < 0 &&
                  replaces_minus_inf(value_unstretched(op->operands[1]));
    if (op->kind != OP_SUB || !known(look, op->operands[0], out) || !isinf(out->f) || out->f > 0) {
        return false;
    }
    Memo *seen = memo_open(look.func);
    bool shift = finite || dominates(seen, op->operands[1], op->operands[0], look.axis);
    memo_close(seen);
    return shift;
}

static bool computed(Look look, const Op *op, Scalar *out)
{
    Scalar operands[3];
    if (op->kind == OP_SUB && dtype_is_float(op->results[0]->type->dtype) &&
        is_row_shift(op, look, out)) {
        return true;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (!known(look, op->operands[i], &operands[i])) {
            return false;
        }
    }
    int data = op->kind == OP_SELECT ? 1 : 0;
    *out = scalar_op(op->kind, op_word(op, ATTR_PRED), op->operands[data]->type->dtype,
                     op->results[0]->type->dtype, operands);
    return !op_has(op, TRAIT_APPROX) ||
           (op->kind == OP_FAST_EXP2 && operands[0].f == -INFINITY); /* exactly 0 there */
}

/* `i >= j`, written either way round, where j's range ends with i's: no padding of j satisfies
 * it. */
static bool fails_behind(const Op *cmp, const DimVar *range)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    bool forward = text_equal(pred, "ge") || text_equal(pred, "gt");
    bool backward = text_equal(pred, "le") || text_equal(pred, "lt");
    const DimVar *more = range_of_index(cmp->operands[forward ? 0 : 1]);
    const DimVar *less = range_of_index(cmp->operands[forward ? 1 : 0]);
    return (forward || backward) && more && more != range && less == range &&
           range_ends_with(range, more);
}

/* Of the padding a choice is its second value where the condition holds for none of it, in rows
 * that exist, or where the first one is the same. */
static bool chosen(Look look, const Op *op, Scalar *out)
{
    const Op *cmp = value_def_of_kind(op->operands[0], OP_CMP);
    const DimVar *range = poly_as_range(op->results[0]->type->dims[look.axis]);
    Scalar first;
    if (cmp && range && fails_behind(cmp, range)) {
        return known(look, op->operands[2], out);
    }
    bool same = known(look, op->operands[1], &first) && known(look, op->operands[2], out) &&
                first.i == out->i;
    return same || computed(look, op, out);
}

static bool holds(Look look, const Value *value, Scalar *out)
{
    const Op *op = value->def;
    look.depth++;
    switch (op->kind) {
    case OP_CONST: return constant(op, out);
    case OP_MASK:
        return op_int(op, ATTR_AXIS, -1) == look.axis ? constant(op, out)
                                                      : known(look, op->operands[0], out);
    case OP_LOAD: /* past the tensor's end; before it, the range ends among real data */
        return range_walks_whole(poly_as_range(value->type->dims[look.axis])) && constant(op, out);
    case OP_SELECT: return chosen(look, op, out);
    default:
        if (op_moves_axes(op)) {
            /* Along an axis that the operand does not have, only a constant's value is known. */
            int before = op_operand_axis(op, 0, look.axis);
            if (before >= 0) {
                return known(along(look, before), op->operands[0], out);
            }
            const Op *from = value_unstretched(op->results[0])->def;
            return from && from->kind == OP_CONST && constant(from, out);
        }
        return op_has(op, TRAIT_ELEMENTWISE) && computed(look, op, out);
    }
}

static bool same_question(const void *item, const void *key)
{
    const Answer *a = item, *b = key;
    return a->value == b->value && a->axis == b->axis;
}

static bool known(Look look, const Value *value, Scalar *out)
{
    Answer asked = {.value = value, .axis = look.axis};
    uint64_t hash = hash_word(hash_word(0, value->id), (uint64_t)look.axis);
    if (!value->def || look.depth > MAX_DEPTH) {
        return false;
    }
    Answer *answer = table_find(look.answers, hash, same_question, &asked);
    if (!answer) {
        asked.known = holds(look, value, &asked.holds);
        answer = arena_copy(look.func->arena, &asked, sizeof asked);
        table_add(look.func->arena, look.answers, hash, answer);
    }
    *out = answer->holds;
    return answer->known;
}

bool padding_value(Func *func, const Value *value, int axis, Scalar *out)
{
    HashTable answers = {0};
    return known((Look){.func = func, .axis = axis, .answers = &answers}, value, out);
}
