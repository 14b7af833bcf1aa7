/* SPDX-License-Identifier: Apache-2.0 */
/* Merges two independent dots with the same left operand: their right operands are adjacent in one
 * ring buffer, and one instruction computes both.
 *
 *   dot_async %a[%p], %b[%p], %c               dot_async %a[%p], %b[2 %p], %c
 *   dot_async %a[%p], %d[%p], %e          →    dot_async %a[%p], %b[2 %p + 1], %e merged=1
 *
 * Each instruction reads its rows of A from shared memory, so an instruction with twice as many
 * columns halves the reads of A; the bandwidth of shared memory limits wide dots. */
#include "passes/stage/stage.h"

#include "passes/tile/tile.h"

static bool is_operand_of(const StagedOperand *item, int side)
{
    return item && item->side == side && item->bulk && !item->mask && !item->rounded &&
           item->load->parent == item->dot->parent;
}

/* Along k in one chunk of a row, or columns along a row: what follows a tile in memory then are its
 * further columns. */
static bool is_along(const Target *target, const StagedOperand *right)
{
    int64_t bytes = right->cols * dtype_bytes(right->load->results[0]->type->dtype);
    return !right->transposed || bytes <= target->shared_row;
}

static bool same_tile(const StagedOperand *a, const StagedOperand *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->transposed == b->transposed &&
           a->load->results[0]->type->dtype == b->load->results[0]->type->dtype;
}

/* All that stands between them, and the second one, could as well stand before the first. */
static bool are_independent(const Op *first, const Op *second)
{
    const Value *result = first->results[0];
    const Op *op = first->next;
    while (op && op != second && op_has(op, TRAIT_PURE) && op->n_regions == 0 &&
           !op_has_operand(op, result)) {
        op = op->next;
    }
    return op == second && !op_has_operand(op, result);
}

/* Only this product reads the tile: another one would look for it in a ring of its own. */
static bool is_read_once(const StageContext *s, const StagedOperand *item)
{
    int readers = 0;
    for (int i = 0; i < s->n; i++) {
        readers += s->items[i].load == item->load;
    }
    return readers == 1;
}

static bool can_join(const StageContext *s, const Op *first, const Op *second)
{
    const StagedOperand *left = stage_item(s, first, 0), *same = stage_item(s, second, 0),
                        *one = stage_item(s, first, 1), *other = stage_item(s, second, 1);
    const MatrixInstr *unit = dot_instruction(s->func, first);
    if (!is_operand_of(left, 0) || !is_operand_of(same, 0) || left->load != same->load ||
        left->transposed != same->transposed || !is_operand_of(one, 1) ||
        !is_operand_of(other, 1) || one->load == other->load || one->parts || other->parts ||
        !is_read_once(s, one) || !is_read_once(s, other)) {
        return false;
    }
    int64_t columns = one->transposed ? one->rows : one->cols;
    return stage_is_wgmma(s, first) && unit == dot_instruction(s->func, second) &&
           !unit->max_accumulate_k && same_tile(one, other) && 2 * columns <= unit->max_n &&
           is_along(s->func->target, one) && are_independent(first, second);
}

static StagedOperand *right_item(StageContext *s, const Op *dot)
{
    return (StagedOperand *)(uintptr_t)stage_item(s, dot, 1);
}

static bool is_wanted(StageContext *s)
{
    return schedule_decide_on(s->func, "merge_dots", true,
                              "one instruction for the columns of both products reads their "
                              "rows once");
}

void stage_join(StageContext *s)
{
    for (int i = 0; i < s->n; i++) {
        for (int k = i + 1; k < s->n; k++) {
            const Op *first = s->items[i].dot, *second = s->items[k].dot;
            if (first == second || s->items[i].side != 1 || s->items[k].side != 1 ||
                !can_join(s, first, second) || !is_wanted(s)) {
                continue;
            }
            StagedOperand *one = right_item(s, first), *other = right_item(s, second);
            one->parts = other->parts = 2;
            other->part = 1;
            one->with = other->with = first;
        }
    }
}

Value *stage_place(const StageContext *s, Builder *b, const StagedOperand *item, Value *position)
{
    if (!item->parts) {
        return position;
    }
    Type type = type_scalar(s->func, DT_I32);
    Value *first = build_binary(b, OP_MUL, position, build_int(b, type, item->parts));
    return item->part ? build_binary(b, OP_ADD, first, build_int(b, type, item->part)) : first;
}
