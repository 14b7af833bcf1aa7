/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for the single store that all elements of a gather reach, elementwise or reduced along axes
 * of the gather, and checks that everything that is stored can be computed over the axes of the
 * gathered array. */
#include "passes/fuse/invert_gathers.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/fuse/fuse_stores.h"

#include <string.h>

/* ---- the store ---- */

static bool follow(InvertCandidate *c, const Value *value, const int *axes);

/* Follows the result of the op, whose operand `at` has the gather's axes at `axes`. What is reduced
 * along one of them keeps its one element there, which may be repeated along it again. False: not
 * all that is made of the result can be stored at the inverse index. */
static bool follow_op(InvertCandidate *c, const Op *op, int at, const int *axes)
{
    Type result = c->gather->results[0]->type;
    int moved[MAX_RANK];
    bool reduces = false;
    for (int i = 0; i < result->rank; i++) {
        OpAxis axis = {AXIS_TIED, axes[i]};
        if (axes[i] >= 0 && !op_has(op, TRAIT_ELEMENTWISE)) {
            axis = op_axis(op, at, axes[i]);
        }
        bool reduced = axis.role == AXIS_REDUCED;
        bool stretched = axis.role == AXIS_STRETCHED && !poly_is_number(result->dims[i], 1);
        moved[i] = reduced ? axes[i] : -1;
        moved[i] = axis.role == AXIS_TIED || stretched ? axis.result : moved[i];
        c->reduces[i] = c->reduces[i] || reduced;
        reduces = reduces || reduced;
    }
    return (op->kind != OP_REDUCE || reduces) && follow(c, op->results[0], moved);
}

/* Reductions are followed after all else: what they are combined with is known with its axes. */
static bool follow_uses(InvertCandidate *c, const Value *value, const int *axes, bool reductions)
{
    const Block *block = c->func->body;
    for (const ValueUse *use = use_first(value, block); use; use = use_next(use, block)) {
        Op *op = use->op;
        int at = (int)(use - op->uses);
        bool own = op == c->cut || fuse_stores_own_elements(c->func, op);
        bool stores = own && at == access_next(op, 0) && (!c->store || c->store == op);
        bool reduces = op->kind == OP_REDUCE && op->n_operands == 1;
        bool goes_on = op_moves_axes(op) || (op_has(op, TRAIT_ELEMENTWISE) && op->n_results == 1);
        if (op->parent != c->block || !(stores || reduces || goes_on)) {
            return false;
        }
        if (stores) {
            c->store = op;
            memcpy(c->axes, axes, sizeof c->axes);
        } else if (reduces == reductions && !follow_op(c, op, at, axes)) {
            return false;
        }
    }
    return true;
}

/* All that uses the value must be element-wise, move or reduce the gather's axes, or be the only
 * store. A value may be reached with an axis (`x` of `x - max x`) and without it. */
static bool follow(InvertCandidate *c, const Value *value, const int *axes)
{
    int rank = c->gather->results[0]->type->rank, all[MAX_RANK];
    int64_t known;
    bool seen = memo_known(c->axis_of, value, 0, &known), new = !seen;
    for (int i = 0; i < rank; i++) {
        all[i] = seen && memo_known(c->axis_of, value, i, &known) ? (int)known : axes[i];
        if (axes[i] >= 0 && all[i] >= 0 && all[i] != axes[i]) {
            return false;
        }
        new = new || all[i] < axes[i];
        all[i] = all[i] < axes[i] ? axes[i] : all[i];
        memo_keep(c->axis_of, value, i, all[i]);
        for (int k = 0; k < i; k++) {
            if (all[k] >= 0 && all[k] == all[i]) {
                return false;
            }
        }
    }
    return !new || (follow_uses(c, value, all, false) && follow_uses(c, value, all, true));
}

bool invert_find_store(InvertCandidate *c)
{
    int axes[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) {
        axes[i] = i;
    }
    return follow(c, c->gather->results[0], axes) && c->store;
}

/* ---- what else is needed at the inverse indices ---- */

/* Values are looked at once for the same indices, of which NULL is the only element of an axis. */
typedef struct Indexed {
    int id, rank;
    Type shape;
    Value *indices[MAX_RANK];
    struct Indexed *next;
} Indexed;

typedef struct Check {
    const InvertCandidate *candidate;
    Memo *seen; /* by value and indices */
    Indexed *all;
} Check;

static int indices_id(Check *check, Type shape, int rank, Value *const *indices)
{
    const Indexed *at = check->all;
    size_t size = (size_t)rank * sizeof *indices;
    while (at && (at->shape != shape || at->rank != rank ||
                  memcmp(at->indices, indices, size) != 0)) {
        at = at->next;
    }
    if (!at) {
        Indexed *added = arena_alloc(check->candidate->func->arena, sizeof *added);
        int id = check->all ? check->all->id + 1 : 1;
        *added = (Indexed){id, rank, shape, {NULL}, check->all};
        memcpy(added->indices, indices, size);
        check->all = added;
        at = added;
    }
    return at->id;
}

/* Can the value be computed at these indices, each an array of the shape? */
static bool may_compute(Check *check, Type shape, const Value *value, Value *const *indices)
{
    const InvertCandidate *c = check->candidate;
    const Op *op = value->def;
    int64_t known;
    if (op == c->gather || type_is_scalar(value->type)) {
        return op != c->gather || shape == reduced_full(&c->reduced)->shape;
    }
    int id = indices_id(check, shape, value->type->rank, indices);
    if (memo_known(check->seen, value, id, &known)) {
        return true;
    }
    memo_keep(check->seen, value, id, true); /* if it may not, that is the answer to all */
    if (!op || op->parent != c->block) {
        return false;
    }
    Value *inner[MAX_RANK];
    if (op_moves_axes(op)) {
        fuse_indices_below(op, indices, inner);
        return may_compute(check, shape, op->operands[0], inner);
    }
    if (op->kind == OP_LOAD) {
        return fuse_is_unchanging(c->func, op->operands[0]);
    }
    if (op->kind == OP_CONST || op->kind == OP_IOTA ||
        fuse_is_at_own_indices(value, indices, shape)) {
        return true;
    }
    if (fuse_below_reduction(&c->reduced, op, indices, &shape, inner) >= 0) {
        return may_compute(check, shape, op->operands[0], inner);
    }
    bool may = op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && may; i++) {
        may = may_compute(check, shape, op->operands[i], indices);
    }
    return may;
}

bool invert_may_compute(const InvertCandidate *c, Value *const *indices)
{
    Check check = {c, memo_open(c->func), NULL};
    Type left = reduced_left(&c->reduced)->shape;
    bool may = may_compute(&check, left, op_moved_value(c->store), indices) &&
               (!c->mask || may_compute(&check, left, c->mask, indices));
    memo_close(check.seen);
    return may;
}
