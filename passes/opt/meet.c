/* SPDX-License-Identifier: Apache-2.0 */
/* meet: reductions that need nothing of one another stand together.
 *
 *   %a = reduce %g fn=sum                      %a = reduce %g fn=sum
 *   %b = div %a, %n                            %h = mul %g, %g
 *   … %b …                              →      %c = reduce %h fn=sum
 *   %h = mul %g, %g                            %b = div %a, %n
 *   %c = reduce %h fn=sum                      … %b …
 *
 * Where they cross warps the threads of a block then meet once for all of them
 * (codegen/gpu/reduce.c). What a later one reduces is made between them, element by element. What
 * is made `again` stays where it is. Does nothing on CPUs. Changes no bits. */
#include "ir/build.h"
#include "ir/target.h"
#include "passes/pass.h"

static bool may_move(const Op *op)
{
    return op_has(op, TRAIT_PURE) && !op_has(op, TRAIT_ACCESS) && op->n_regions == 0 &&
           op->kind != OP_AGAIN;
}

/* Does `op` stand behind `from` in its block, at `to` or before it? */
static bool stands_between(const Op *op, const Op *from, const Op *to)
{
    for (const Op *at = from->next; at; at = at->next) {
        if (at == op) {
            return true;
        }
        if (at == to) {
            return false;
        }
    }
    return false;
}

/* Can all that `op` reads be made without `first`? */
static bool is_ready(const Op *op, const Op *first)
{
    for (int i = 0; i < op->n_operands; i++) {
        const Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (!def || (def != first && !stands_between(def, first, op))) {
            continue;
        }
        if (def == first || !may_move(def) || !is_ready(def, first)) {
            return false;
        }
    }
    return true;
}

/* Puts the op, and what it reads of what stands behind `end`, before it. Returns the new end. */
static Op *lift(Op *op, Op *end)
{
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && (def == end || stands_between(def, end, op))) {
            end = lift(def, end);
        }
    }
    if (op == end) {
        return end->next;
    }
    op_move_before(op, end);
    return end;
}

static void gather(Op *first, void *user)
{
    (void)user;
    if (first->kind != OP_REDUCE) {
        return;
    }
    Op *end = first->next;
    for (Op *op = end, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_REDUCE && is_ready(op, first)) {
            end = lift(op, end);
        }
    }
}

void pass_opt_meet(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH && func->target->family != FAMILY_CPU) {
            block_walk(op->regions[0], gather, NULL);
        }
    }
}
