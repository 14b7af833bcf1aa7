/* SPDX-License-Identifier: Apache-2.0 */
/* lower_argmax: lowers argmax/argmin folds to two plain reductions.
 *
 *   %v, %i = fold %x, %at arg=max          %m = reduce %x fn=max axis=1
 *            axis=1 { … }               →     %s = or (cmp %x, %m pred=eq), (isnan %x)
 *                                             %i = reduce (select %s, %at, N) fn=min axis=1
 *
 * Threads combine the partial results of a fold by its own function, on pairs of a value and a
 * 64-bit index; the maximum, and then the least index among the elements that equal it (or are NaN,
 * which wins), take one or two instructions per element. A row that fits into a block is still read
 * once; a longer one stays a fold. Only on GPUs, since a CPU computes a row in one thread. Requires
 * the tensor level. Changes no bits. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/index_bounds.h"
#include "passes/pass.h"
#include "passes/tile/tile.h"

enum {
    COLUMN = 128
}; /* elements across memory that a block has at once: of longer ones it walks */

/* Where the indices are those of one axis, its extent: more than any. Else more than an i64 may be
 * of what is in memory. */
static Value *past_all(Builder *b, const Value *index)
{
    const Op *op = value_unstretched(index)->def;
    return op && op->kind == OP_IOTA ? build_size(b, op_attr(op, ATTR_DIM)->dims[0])
                                     : build_i64(b, INT64_MAX);
}

static Value *spread(Builder *b, Value *scalar, Type type)
{
    return build_broadcast(b, scalar, type->rank, type->dims);
}

/* The elements that no other beats. */
static Value *best_of(Builder *b, const char *extreme, Value *values, int axis)
{
    Value *best = build_reduce(b, extreme, values, axis);
    Value *is = build_cmp(b, "eq", values, spread(b, best, values->type));
    return dtype_is_float(values->type->dtype)
               ? build_binary(b, OP_OR, is, build_unary(b, OP_ISNAN, values))
               : is;
}

static bool may_shorten(Func *func, const Op *fold)
{
    Type type = fold->operands[0]->type;
    int axis = (int)op_int(fold, ATTR_AXIS, 0);
    Dim lo, hi, extent = type->dims[axis];
    int64_t held = axis == type->rank - 1 ? tile_longest_row(func) : COLUMN;
    return op_word(fold, ATTR_ARG) && poly_most(extent) <= held &&
           value_count_uses(func, fold->results[0]) == 0 &&
           an_index_range(func, fold->operands[1], &lo, &hi) && poly_least(lo) >= 0;
}

static void shorten(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_FOLD || !may_shorten(func, op)) {
        return;
    }
    Builder b = build_before(func, op);
    Value *values = op->operands[0], *indices = op->operands[1];
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Value *none = past_all(&b, indices);
    Value *best = best_of(&b, op_word(op, ATTR_ARG), values, axis);
    Value *found = build_select(&b, best, indices, spread(&b, none, indices->type));
    found = build_reduce(&b, "min", found, axis);
    if (poly_least(values->type->dims[axis]) < 1) { /* of nothing: nowhere */
        Value *is = build_cmp(&b, "lt", found, spread(&b, none, found->type));
        found = build_select(&b, is, found, spread(&b, build_i64(&b, -1), found->type));
    }
    func_replace_uses(func, op->results[1], found);
    op_remove(op);
}

void pass_lower_argmax(Func *func)
{
    if (func->target && func->target->warp > 1) {
        func_walk(func, shorten, func);
        func_remove_dead(func);
    }
}
