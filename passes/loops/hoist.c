/* SPDX-License-Identifier: Apache-2.0 */
/* hoist: moves loop-invariant ops out of loops.
 *
 *   for %j … {                           %a = load %q[%i, :]
 *     %a = load %q[%i, :]           →    for %j … {
 *     … dot %a, %b … }                     … dot %a, %b … }
 *
 * A tile that is loaded before a loop is staged once and needs one buffer of shared memory. A load
 * of memory that the loop writes stays inside. Constants, broadcasts and indices stay too: they
 * cost nothing where they are used, but would occupy registers across the loop. Requires: tile (the
 * loops exist). Changes no bits. */
#include "ir/build.h"
#include "passes/pass.h"

static bool is_free(const Op *op)
{
    bool array = op->n_results == 1 && op->results[0]->type->rank > 0;
    return array && (op->kind == OP_CONST || op->kind == OP_BROADCAST || op->kind == OP_INDEX ||
                     op->kind == OP_EXPAND);
}

static bool reads_what_changes(const Op *op, const Op *loop)
{
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    return reads && op_writes(loop, op->operands[0]);
}

/* The ranges that its result's shape names are operands' ranges, or bound around the loop. */
static bool is_invariant(const Op *op, const Op *loop)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && value_is_inside(op->operands[i], loop)) {
            return false;
        }
    }
    for (int r = 0; r < op->n_results; r++) {
        Type type = op->results[r]->type;
        for (int i = 0; i < type->rank; i++) {
            const DimVar *range = poly_as_range(type->dims[i]);
            if (range && value_is_inside(range->binder, loop)) {
                return false;
            }
        }
    }
    return op_has(op, TRAIT_PURE) && op->n_regions == 0 && !reads_what_changes(op, loop);
}

static void hoist_region(Op *loop, Block *region)
{
    for (Op *op = region->first, *next; op; op = next) {
        next = op->next;
        if (is_invariant(op, loop) && !is_free(op)) {
            op_move_before(op, loop);
        }
    }
}

static void hoist_from(Op *loop, void *user)
{
    (void)user;
    for (int r = 0; (loop->kind == OP_FOR || loop->kind == OP_WHILE) && r < loop->n_regions; r++) {
        hoist_region(loop, loop->regions[r]);
    }
}

/* Inner loops first, so that an op that leaves one may leave the next. Repeated walks reach the
 * outermost loop after at most as many rounds as loops are nested. */
void pass_hoist(Func *func)
{
    enum { DEEPEST = 4 };
    for (int i = 0; i < DEEPEST; i++) {
        func_walk(func, hoist_from, NULL);
    }
}
