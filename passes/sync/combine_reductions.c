/* SPDX-License-Identifier: Apache-2.0 */
/* combine_reductions: moves independent reductions together so that they share one barrier.
 *
 *   %a = reduce %g fn=sum                      %a = reduce %g fn=sum
 *   %b = div %a, %n                            %h = mul %g, %g
 *   … %b …                              →      %c = reduce %h fn=sum
 *   %h = mul %g, %g                            %b = div %a, %n
 *   %c = reduce %h fn=sum                      … %b …
 *
 * Adjacent reductions that cross warps share one barrier (codegen/gpu/gpu_reduce.c), and so do
 * adjacent reductions across a cluster. Element-wise ops that compute the operand of a later
 * reduction move between them. A `remat` op is not moved. Does nothing on
 * CPUs. Changes no bits. */
#include "passes/sync/combine_reductions.h"

#include "ir/build.h"
#include "ir/memo.h"
#include "ir/target/target.h"
#include "passes/pass.h"

#include <string.h>

static bool may_move(const Op *op)
{
    return op_has(op, TRAIT_PURE) && !op_has(op, TRAIT_ACCESS) && op->n_regions == 0 &&
           op->kind != OP_REMAT;
}

/* True if `op` is behind `from` in its block, and at `to` or before it. */
static bool is_between(const Op *op, const Op *from, const Op *to)
{
    return op->parent == from->parent && op_is_before(from, op) && !op_is_before(to, op);
}

/* True if all operands of `op` can be computed without `first`. `seen`: values for which the
 * answer is yes, or which ended the search. */
static bool find_ready(Memo *seen, const Op *op, const Op *first)
{
    for (int i = 0; i < op->n_operands; i++) {
        const Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (!def || (def != first && !is_between(def, first, op)) ||
            !memo_visit(seen, op->operands[i])) {
            continue;
        }
        if (def == first || !may_move(def) || !find_ready(seen, def, first)) {
            return false;
        }
    }
    return true;
}

static bool is_ready(const Op *op, const Op *first)
{
    Memo *seen = memo_open(op->parent->func);
    bool ready = find_ready(seen, op, first);
    memo_close(seen);
    return ready;
}

/* Moves the op, and those of its operands that are behind `end`, before `end`. Returns the new
 * end. */
static Op *lift(Op *op, Op *end)
{
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && (def == end || is_between(def, end, op))) {
            end = lift(def, end);
        }
    }
    if (op == end) {
        return end->next;
    }
    op_move_before(op, end);
    return end;
}

/* Is the value made of `of` element by element? */
static bool is_made_of(const Value *value, const Value *of, int depth)
{
    const Op *op = value->def;
    bool found = value == of;
    for (int i = 0; op && depth > 0 && op_has(op, TRAIT_ELEMENTWISE) && !found &&
                    i < op->n_operands; i++) {
        found = is_made_of(op->operands[i], of, depth - 1);
    }
    return found;
}

/* Does the second reduction take elements that are made of the first one's, and that each of them
 * can compute from the 16-bit row? Adjacent ones would keep these in registers instead. */
static bool must_be_separate(const Op *first, const Op *op, const RowDims *rows)
{
    enum { DEPTH = 2 };
    return rows && op->kind == OP_REDUCE &&
           is_made_of(op->operands[0], first->operands[0], DEPTH) &&
           an_is_rematerializable(rows, first->operands[0]);
}

typedef struct Reductions {
    Op **items;
    size_t n, cap;
} Reductions;

static void gather_in(Func *func, const Block *block, OpKind kind, const RowDims *rows)
{
    Reductions all = {0};
    for (Op *op = block->first; op; op = op->next) {
        if (op->kind == kind) {
            ARENA_PUSH(func->arena, &all, op);
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        /* Later reductions that do not depend on this one move right behind it, in the block and in
         * the list. */
        const Op *first = all.items[i];
        Op *end = first->next;
        size_t gathered = i + 1;
        for (size_t j = i + 1; j < all.n; j++) {
            Op *op = all.items[j];
            if (!must_be_separate(first, op, rows) && is_ready(op, first)) {
                end = lift(op, end);
                memmove(&all.items[gathered + 1], &all.items[gathered],
                        sizeof(Op *) * (j - gathered));
                all.items[gathered++] = op;
            }
        }
    }
    for (const Op *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->n_regions; r++) {
            gather_in(func, op->regions[r], kind, rows);
        }
    }
}

void combine_reductions(Func *func, const Block *block, const RowDims *rows)
{
    gather_in(func, block, OP_REDUCE, rows);
    gather_in(func, block, OP_CLUSTER_REDUCE, rows);
}

void pass_combine_reductions(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH && func->target->family != FAMILY_CPU) {
            combine_reductions(func, op->regions[0], NULL);
        }
    }
}
