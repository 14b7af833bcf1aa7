/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes the maximum of a row that a loop computes tile by tile, in a tiled source or a printed
 * nest, so that `x - max` is known to be never positive:
 *
 *   %m = for 0, N, -inf dims=[N] {             for 0, N dims=[N] {
 *     (%j: range, %c)                            (%k: range)
 *     %x = load %a[%i, %j]                       %y = load %a[%i, %k]
 *     yield max(%c, reduce max %x)               … sub %y, %m …     is never positive */
#include "passes/tensor/loop_maximum.h"

#include "ir/build.h"

enum { MAX_OPS = 128 }; /* that are compared, of values that are used several times each time */

typedef struct Likeness {
    const Op *loop;     /* that finds the maximum */
    const Op *top;      /* the statement of the function that both are in */
    const Value *other; /* the range that stands for the loop's; NULL: none yet */
    int ops;            /* that may still be compared */
} Likeness;

static const Op *statement_of(const Op *op)
{
    while (op->parent->parent) {
        op = op->parent->parent;
    }
    return op;
}

static bool writes_memory(const Op *top, const Value *memory)
{
    if (op_writes(top, memory)) {
        return true;
    }
    for (int r = 0; r < top->n_regions; r++) {
        for (const Op *op = top->regions[r]->first; op; op = op->next) {
            if (writes_memory(op, memory)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_range_of(const Value *value, Dim whole)
{
    return value->type->kind == TYPE_RANGE &&
           value->type->dims[0]->terms[0].vars[0]->axis_extent == whole;
}

/* The value of the loop, and the one that may be the same of other tiles. */
static bool are_alike(Likeness *l, const Value *a, const Value *b)
{
    if (a == b) {
        return a == NULL || a != l->loop->regions[0]->args[0];
    }
    if (!a || !b || l->ops-- <= 0) {
        return false;
    }
    if (a == l->loop->regions[0]->args[0]) {
        bool same = is_range_of(b, op_attr(l->loop, ATTR_DIMS)->dims[0]);
        l->other = l->other ? l->other : b;
        return same && l->other == b;
    }
    const Op *x = a->def, *y = b->def;
    if (!x || !y || x->kind != y->kind || x->n_operands != y->n_operands || x->n_regions ||
        x->n_results != 1 || !op_has(x, TRAIT_PURE) || x->n_attrs != y->n_attrs ||
        a->type->dtype != b->type->dtype) {
        return false;
    }
    for (int i = 0; i < x->n_attrs; i++) {
        const Attr *p = &x->attrs[i], *q = op_attr(y, p->key);
        if (!q || p->ints || p->dims || p->i != q->i || !(p->f == q->f) || p->word != q->word) {
            return false;
        }
    }
    for (int i = 0; i < x->n_operands; i++) {
        const Value *of = x->operands[i];
        bool memory = of && of->type->kind == TYPE_TENSOR;
        if ((memory && (of != y->operands[i] || writes_memory(l->top, of))) ||
            !are_alike(l, of, y->operands[i])) {
            return false;
        }
    }
    return true;
}

/* Does the loop iterate over all of its axis? */
static bool is_whole(const Op *loop)
{
    const Op *lo = for_lo(loop)->def, *hi = for_hi(loop)->def;
    return op_attr(loop, ATTR_STEPS)->ints[0] != 0 && lo && lo->kind == OP_CONST &&
           op_attr(lo, ATTR_VALUE)->i == 0 && hi && hi->kind == OP_SIZE &&
           op_attr(hi, ATTR_DIM)->dims[0] == op_attr(loop, ATTR_DIMS)->dims[0];
}

bool is_loop_maximum(const Value *maximum, const Value *value)
{
    const Op *loop = maximum->def;
    if (!loop || loop->kind != OP_FOR || !is_whole(loop)) {
        return false;
    }
    const Block *body = loop->regions[0];
    const Op *next = body->last->operands[maximum->index]->def;
    if (!next || next->kind != OP_MAX) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const Op *reduce = next->operands[i]->def;
        bool greatest = reduce && reduce->kind == OP_REDUCE && reduce->parent == body &&
                        text_equal(op_word(reduce, ATTR_FN), "max") &&
                        next->operands[1 - i] == body->args[1 + maximum->index];
        Likeness l = {.loop = loop, .top = statement_of(loop), .ops = MAX_OPS};
        if (greatest && are_alike(&l, reduce->operands[0], value) && l.other) {
            const Dim reduced = reduce->operands[0]->type->dims[op_int(reduce, ATTR_AXIS, 0)];
            return reduced == body->args[0]->type->dims[0];
        }
    }
    return false;
}
