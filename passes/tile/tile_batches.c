/* SPDX-License-Identifier: Apache-2.0 */
/* Batched dots in a `parallel` of the source: a loop computes one matrix after the other and stores
 * each, or assembles them if something other than a store reads the dot.
 *
 *   %d = dot %a, %b : f32[4, %m, 8]     →     for %h: 4 {
 *   store %y[:, %m, :], %d                      %e = dot %a[%h], %b[%h] : f32[%m, 8]
 *                                               store %y[%h, %m, :], %e } */
#include "ir/drop_axis.h"
#include "passes/tile/tile.h"

/* From `lo` to before `hi`: the elements of the first axis. */
static void axis_ends(Builder *b, Dim dim, Value **lo, Value **hi)
{
    const DimVar *range = poly_as_range(dim);
    *lo = range ? build_range_fact(b, OP_START, range->binder) : build_i64(b, 0);
    *hi = range ? build_range_fact(b, OP_END, range->binder) : build_size(b, dim);
}

static Value *index_of(Builder *b, Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    return range ? build_index(b, range->binder, DT_I64) : build_iota(b, dim, DT_I64);
}

/* i1 of the whole array: is it of matrix `at`? */
static Value *is_of(Builder *b, Type type, Value *at)
{
    Value *which = index_of(b, type->dims[0]);
    Value *is = build_cmp(b, "eq", which, build_broadcast(b, at, 1, type->dims));
    while (is->type->rank < type->rank) {
        is = build_expand(b, is, is->type->rank);
    }
    return build_broadcast(b, is, type->rank, type->dims);
}

static Value *zeros(Builder *b, Type type)
{
    return dtype_is_float(type->dtype) ? build_float(b, type, 0) : build_int(b, type, 0);
}

static Op *begin_loop(Builder *b, Dim dim, int n, Value *const *inits)
{
    const DimVar *range = poly_as_range(dim);
    Value *lo, *hi;
    axis_ends(b, dim, &lo, &hi);
    return build_for(b, range ? range->axis_extent : dim, 0, "batch", lo, hi, n, inits);
}

/* ---- what only a store reads ---- */

static Op *user_of(const Op *op)
{
    const Value *value = op->results[0];
    for (Op *user = op->next; user; user = user->next) {
        for (int i = 0; i < user->n_operands; i++) {
            if (user->operands[i] == value) {
                return user;
            }
        }
    }
    return NULL;
}

/* The store of the product or of element-wise work on it, if nothing else reads it; or NULL. */
static Op *store_of(const Func *func, const Op *op)
{
    Op *user = value_count_uses(func, op->results[0]) == 1 ? user_of(op) : NULL;
    if (!user || user->kind == OP_STORE) {
        return user;
    }
    return op_has(user, TRAIT_ELEMENTWISE) ? store_of(func, user) : NULL;
}

/* Each matrix is stored by itself. */
static void store_each(Func *func, Op *store)
{
    Value *value = store->operands[store->n_operands - 1], *indices[MAX_RANK];
    Access access = op_access(store, 0);
    Builder b = build_before(func, store);
    Op *loop = begin_loop(&b, value->type->dims[0], 0, NULL);
    Value *at = loop->regions[0]->args[0];
    Builder inside = build_at_end(func, loop->regions[0]);
    Value *matrix = axis_taken(&inside, value, 0, at);
    for (int i = 0, kept = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        bool keeps = !index || index->type->kind == TYPE_RANGE;
        indices[i] = keeps && kept++ == 0 ? at : access.indices[i];
    }
    build_store(&inside, access.memory, indices, matrix);
    build_yield(&inside, 0, NULL);
    op_remove(store);
}

/* ---- what others read ---- */

/* All matrices are put together. */
static void collect_each(Func *func, Op *dot)
{
    Type type = dot->results[0]->type;
    Builder b = build_before(func, dot);
    Value *all = zeros(&b, type);
    Op *loop = begin_loop(&b, type->dims[0], 1, &all);
    Value *at = loop->regions[0]->args[0], *before = loop->regions[0]->args[1];
    Builder inside = build_at_end(func, loop->regions[0]);
    Value *matrix = axis_taken(&inside, dot->results[0], 0, at);
    Value *spread = build_expand(&inside, matrix, 0);
    spread = build_broadcast(&inside, spread, type->rank, type->dims);
    Value *next = build_select(&inside, is_of(&inside, type, at), spread, before);
    build_yield(&inside, 1, &next);
    func_replace_uses(func, dot->results[0], loop->results[0]);
}

/* ---- all of them ---- */

static Op *batched_in(Block *block);

static Op *batched(Op *op)
{
    Op *found = op->kind == OP_DOT && op->results[0]->type->rank > 2 ? op : NULL;
    for (int i = 0; !found && i < op->n_regions; i++) {
        found = batched_in(op->regions[i]);
    }
    return found;
}

static Op *batched_in(Block *block)
{
    Op *found = NULL;
    for (Op *op = block->first; op && !found; op = op->next) {
        found = batched(op);
    }
    return found;
}

/* One axis of the batches at a time. */
void tile_batches(Func *func, Op *parallel)
{
    for (Op *dot = batched(parallel); dot; dot = batched(parallel)) {
        Op *store = store_of(func, dot);
        if (store) {
            store_each(func, store);
        } else {
            collect_each(func, dot);
        }
        func_remove_dead(func);
    }
}
