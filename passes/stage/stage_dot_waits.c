/* SPDX-License-Identifier: Apache-2.0 */
/* Independent dots of one iteration are in flight at the same time, and one wait covers all of
 * them:
 *
 *   %a = dot_async …; %b = dot_wait %a              %a = dot_async …
 *   wait …                                   →    wait …
 *   %c = dot_async …; %d = dot_wait %c              %c = dot_async …
 *                                                 %b, %d = dot_wait %a, %c */
#include "passes/stage/stage.h"

enum { MAX_TOGETHER = 4 };

/* Waits for copies, and what computes their place, may stand between products in flight. */
static bool is_between(const Op *op, const Op *settle)
{
    for (int i = 0; i < op->n_operands; i++) {
        for (int r = 0; r < settle->n_results; r++) {
            if (op->operands[i] == settle->results[r]) {
                return false;
            }
        }
    }
    bool scalar = op_has(op, TRAIT_PURE) && op->n_results == 1 && op->n_regions == 0 &&
                  type_is_scalar(op->results[0]->type);
    return op->kind == OP_WAIT || op->kind == OP_DOT_ASYNC || scalar;
}

/* The settle that comes next, when nothing before it needs this one. */
static Op *next_settle(const Op *settle)
{
    Op *op = settle->next;
    while (op && op->kind != OP_DOT_WAIT && is_between(op, settle)) {
        op = op->next;
    }
    return op && op->kind == OP_DOT_WAIT ? op : NULL;
}

static Op *join(Func *func, Op *first, Op *second)
{
    Value *values[MAX_TOGETHER];
    Type types[MAX_TOGETHER];
    int n = 0;
    for (int i = 0; i < first->n_operands + second->n_operands; i++) {
        bool own = i < first->n_operands;
        values[n] = own ? first->operands[i] : second->operands[i - first->n_operands];
        types[n] = values[n]->type;
        n++;
    }
    Builder b = build_before(func, second);
    Op *both = build_op(&b, OP_DOT_WAIT, n, values, n, types, 0);
    op_set_int(func, both, ATTR_PENDING, 0);
    for (int i = 0; i < n; i++) {
        bool own = i < first->n_operands;
        Value *old = own ? first->results[i] : second->results[i - first->n_operands];
        both->results[i]->name = old->name;
        func_replace_uses(func, old, both->results[i]);
    }
    op_remove(first);
    op_remove(second);
    return both;
}

static void settle_block(Func *func, Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        Op *next = op->kind == OP_DOT_WAIT ? next_settle(op) : NULL;
        for (; next && op->n_operands + next->n_operands <= MAX_TOGETHER; next = next_settle(op)) {
            op = join(func, op, next);
        }
        for (int i = 0; i < op->n_regions; i++) {
            settle_block(func, op->regions[i]);
        }
    }
}

void stage_settle(Func *func)
{
    settle_block(func, func->body);
}
