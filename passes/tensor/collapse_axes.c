/* SPDX-License-Identifier: Apache-2.0 */
/* collapse_axes: collapses several row axes of a contraction into one axis.
 *
 *   in %x: tensor<f32[B, S, K]>            in %x: tensor<f32[B*S, K]> collapsed [2, 1] of [B, S, K]
 *   %p = dot %x, %w : f32[B, S, N]    →    %p = dot %x, %w : f32[B*S, N]
 *   store %y[:, :, :], %p                  store %y[:, :], %p
 *
 * Two axes are collapsed if they are adjacent in each tensor that has them, if every store iterates
 * over both, and if one factor of the dot (or of a sum of products) has both and the other neither.
 * Tiles of the collapsed axis are full even if the inner axis is short. In schedules the axis has
 * the inner one's name; a schedule entry that names the outer axis keeps the two separate. Requires
 * the tensor level, a single store, and tensors that are contiguous and read as a whole. Changes no
 * bits. */
#include "passes/tensor/collapse_axes.h"

#include "ir/schedule.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/pass.h"
#include "passes/tensor/collapse_values.h"

static Value *const WHOLE[MAX_RANK];

/* ---- what stays as it is ---- */

/* Does it read a tensor that is merged? `seen`: values whose operands were looked at. */
static bool reads_merged(const Collapse *f, const Value *value, Memo *seen)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        bool memory = operand && operand->type->kind == TYPE_TENSOR;
        if (memory ? operand->index >= 64 || f->axis[operand->index] >= 0
                   : operand && reads_merged(f, operand, seen)) {
            return true;
        }
    }
    return false;
}

static bool keeps_merged(const Collapse *f)
{
    Memo *seen = memo_open(f->func);
    bool found = false;
    for (size_t i = 0; i < f->kept.n && !found; i++) {
        found = reads_merged(f, f->kept.items[i], seen);
    }
    memo_close(seen);
    return found;
}

static int accesses_of(const Func *func, const Value *tensor)
{
    int n = 0;
    for (const Op *op = func->body->first; op; op = op->next) {
        n += op->n_operands > 0 && op->operands[0] == tensor;
    }
    return n;
}

/* True if nothing needs the op: func_remove_dead has not run since its use went. */
static bool is_dead(const Collapse *f, const Op *op, Memo *known)
{
    int64_t found;
    if (op->n_results != 1 || !op_has(op, TRAIT_PURE)) {
        return false;
    }
    if (memo_known(known, op->results[0], 0, &found)) {
        return found;
    }
    bool dead = true;
    const Block *all = f->func->body;
    for (const ValueUse *use = use_first(op->results[0], all); use && dead;
         use = use_next(use, all)) {
        dead = is_dead(f, use->op, known);
    }
    return memo_keep(known, op->results[0], 0, dead);
}

/* Is all that is made of the op's results made anew for the store? `seen`: values that were asked
 * for. */
static bool is_all_replaced(const Collapse *f, const Op *op, const Op *store, Memo *seen,
                            Memo *dead)
{
    const Block *all = f->func->body;
    for (int i = 0; i < op->n_results; i++) {
        for (const ValueUse *use = use_first(op->results[i], all); use; use = use_next(use, all)) {
            int64_t tried;
            const Op *user = use->op;
            if (user == store || is_dead(f, user, dead)) {
                continue;
            }
            if (user->n_results != 1 || !memo_known(f->tried, user->results[0], 0, &tried)) {
                return false;
            }
            if (memo_visit(seen, user->results[0]) &&
                !is_all_replaced(f, user, store, seen, dead)) {
                return false;
            }
        }
    }
    return true;
}

/* True if no load of a tensor that is merged is left: another store may need it, too. */
static bool replaces_loads(const Collapse *f, const Op *store)
{
    bool all = true;
    Memo *seen = memo_open(f->func), *dead = memo_open(f->func);
    for (size_t i = 0; i < f->func->params.n && i < 64 && all; i++) {
        const Value *tensor = f->func->params.items[i].value;
        const Block *body = f->func->body;
        for (const ValueUse *use = f->axis[i] >= 0 ? use_first(tensor, body) : NULL; use && all;
             use = use_next(use, body)) {
            all = use->op == store || is_all_replaced(f, use->op, store, seen, dead);
        }
    }
    memo_close(dead);
    memo_close(seen);
    return all;
}

/* ---- the function ---- */

/* A copy that a view is of: its own axes are nobody else's. */
static bool is_copy(const Func *func, const Op *op)
{
    return op->kind == OP_STORE && func->params.items[op->operands[0]->index].io == PARAM_SCRATCH;
}

/* The only op that does something, where it is a store; all others are pure, or make copies. */
static Op *only_store(const Func *func)
{
    Op *store = NULL;
    for (Op *op = func->body->first; op; op = op->next) {
        bool writes = op->kind == OP_STORE;
        if (is_copy(func, op)) {
            continue;
        }
        if (op->n_regions || (writes && store) || (!writes && !op_has(op, TRAIT_PURE))) {
            return NULL;
        }
        store = writes ? op : store;
    }
    return store && collapse_is_whole(store) ? store : NULL;
}

/* Does a line of the user's choose tiles of the axis that would be part of the next one? */
static bool is_chosen(const Func *func, Dim dim)
{
    for (size_t i = 0; i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        bool tile = line->origin != ENTRY_DERIVED && text_equal(line->key, "tile");
        for (size_t k = 0; tile && k < func->dimvars.n; k++) {
            const DimVar *var = func->dimvars.items[k];
            if (poly_mentions(dim, var) && text_equal(var->name, line->sub)) {
                return true;
            }
        }
    }
    return false;
}

static void merge_param(Func *func, Param *param, int at)
{
    Type type = param->value->type;
    Dim dims[MAX_RANK];
    int64_t *counts = ARENA_ARRAY(func->arena, int64_t, type->rank);
    for (int i = 0, to = 0; i < type->rank; i++) {
        counts[to] += param->collapsed ? param->collapsed[i] : 1;
        to += i != at;
    }
    collapse_dims(func, type, at, dims);
    param->caller_type = param_given(param);
    param->collapsed = counts;
    param->value->type = type_with_strides(
        func, type_tensor(func, type->dtype, type->rank - 1, dims), NULL, type->align);
}

static bool pays(Func *func, Op *store, int at, Collapse *f)
{
    *f = collapse_begin(func, store, true);
    if (is_chosen(func, store->operands[0]->type->dims[at]) ||
        !collapse_takes_tensor(f, store, at)) {
        return false;
    }
    f->varies = an_varies_all(func);
    f->tried = memo_open(func);
    bool can = collapse_value(f, store->operands[store->n_operands - 1], at) && f->pays &&
               replaces_loads(f, store);
    memo_close(f->tried);
    memo_close(f->varies);
    for (size_t i = 0; can && i < func->params.n && i < 64; i++) {
        const Value *tensor = func->params.items[i].value;
        can = f->axis[i] < 0 || f->accesses[i] == accesses_of(func, tensor);
    }
    return can && !keeps_merged(f);
}

static Op *flatten(Func *func, Op *store, int at, const Collapse *tried)
{
    for (size_t i = 0; i < func->params.n && i < 64; i++) {
        if (tried->axis[i] >= 0) {
            merge_param(func, &func->params.items[i], tried->axis[i]);
        }
    }
    Collapse f = collapse_begin(func, store, false);
    f.varies = an_varies_all(func);
    Value *value = collapse_value(&f, store->operands[store->n_operands - 1], at);
    memo_close(f.varies);
    Op *fewer = build_store(&f.b, store->operands[0], WHOLE, value);
    fewer->span = store->span;
    op_remove(store);
    func_remove_dead(func);
    return fewer;
}

Op *collapse_axes_of(Func *func, Op *store)
{
    Op *first = store;
    for (int at = store->operands[0]->type->rank - 2; at >= 0; at--) {
        Collapse tried;
        if (at + 1 < store->operands[0]->type->rank && pays(func, store, at, &tried)) {
            store = flatten(func, store, at, &tried);
        }
    }
    return store == first ? NULL : store;
}

/* The scatter with axes `at` and `at` + 1 of its indices, value and mask as one; NULL: that is not
 * possible, or does not pay. */
static Op *merged_scatter(Func *func, Op *scatter, int at, bool tries)
{
    Collapse f = collapse_begin(func, scatter, tries);
    Value **operands = ARENA_ARRAY(func->arena, Value *, scatter->n_operands);
    bool can = true;
    f.varies = an_varies_all(func);
    f.tried = memo_open(func);
    operands[0] = scatter->operands[0];
    for (int i = 1; i < scatter->n_operands && can; i++) {
        Value *operand = scatter->operands[i];
        bool array = operand && operand->type->kind == TYPE_ARRAY;
        operands[i] = array ? collapse_value(&f, operand, at) : operand;
        can = operands[i] == operand || operands[i];
    }
    can = can && (!tries || replaces_loads(&f, scatter));
    memo_close(f.tried);
    memo_close(f.varies);
    for (size_t i = 0; tries && can && i < func->params.n && i < 64; i++) {
        can = f.axis[i] < 0 || f.accesses[i] == accesses_of(func, func->params.items[i].value);
    }
    if (!can || !f.pays || (tries && keeps_merged(&f))) {
        return NULL;
    }
    if (tries) {
        for (size_t i = 0; i < func->params.n && i < 64; i++) {
            if (f.axis[i] >= 0) {
                merge_param(func, &func->params.items[i], f.axis[i]);
            }
        }
        return merged_scatter(func, scatter, at, false);
    }
    Op *fewer = build_op(&f.b, OP_SCATTER, scatter->n_operands, operands, 0, NULL, 0);
    fewer->attrs = scatter->attrs;
    fewer->n_attrs = scatter->n_attrs;
    fewer->span = scatter->span;
    op_remove(scatter);
    func_remove_dead(func);
    return fewer;
}

Op *collapse_scatter_axes_of(Func *func, Op *scatter, int rank)
{
    for (int at = rank - 2; at >= 0; at--) {
        Op *fewer = at + 1 < rank ? merged_scatter(func, scatter, at, true) : NULL;
        scatter = fewer ? fewer : scatter;
        rank -= fewer != NULL;
    }
    return scatter;
}

void pass_collapse_axes(Func *func)
{
    func_remove_dead(func);
    Op *store = only_store(func);
    if (store) {
        collapse_axes_of(func, store);
    }
}
