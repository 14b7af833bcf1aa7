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
#include "ir/drop_axis.h"
#include "passes/pass.h"

static Value *const WHOLE[MAX_RANK];

typedef struct Flat {
    Func *func;
    Builder b;
    bool tries, pays; /* nothing is built yet; a product gets more rows or columns */
    int axis[64];     /* of each parameter that is merged with the next one; -1: none */
    int accesses[64];
    struct {
        const Value **items; /* that are taken as they are */
        size_t n, cap;
    } kept;
    HashTable made; /* values, by those that they were made of */
    Memo *varies;   /* of an_varies */
    Memo *tried;    /* values that were looked at */
} Flat;

static Value *merged(Flat *f, Value *value, int at);

/* ---- types ---- */

static bool merges(Func *func, Type type, int at, Dim *dims)
{
    for (int i = 0; i + 1 < type->rank; i++) {
        dims[i] = i == at  ? poly_mul(func, type->dims[i], type->dims[i + 1])
                  : i > at ? type->dims[i + 1]
                           : type->dims[i];
    }
    return dims[at] != NULL;
}

static Type merged_type(Func *func, Type type, int at)
{
    Dim dims[MAX_RANK];
    merges(func, type, at, dims);
    return type_array(func, type->dtype, type->rank - 1, dims);
}

/* ---- memory ---- */

static bool is_whole(const Op *op)
{
    Access access = op_access(op, 0);
    bool whole = access.memory->type->kind == TYPE_TENSOR;
    for (int i = 0; whole && i < access.n; i++) {
        whole = !access.indices[i];
    }
    return whole;
}

/* One pair of axes of each tensor, and contiguous. */
static bool takes_tensor(Flat *f, const Op *op, int at)
{
    const Value *tensor = op->operands[0];
    if (!is_whole(op) || tensor->index >= 64) {
        return false;
    }
    const Param *param = &f->func->params.items[tensor->index];
    bool plain =
        !tensor->type->strides && !param->axis_perm && !dtype_is_packed(tensor->type->dtype);
    if (!plain || (f->accesses[tensor->index] && f->axis[tensor->index] != at)) {
        return false;
    }
    f->axis[tensor->index] = at;
    f->accesses[tensor->index]++;
    return true;
}

static Value *merged_load(Flat *f, Op *op, int at)
{
    if (!f->tries) {
        return build_load(&f->b, op->operands[0], WHOLE);
    }
    return takes_tensor(f, op, at) ? op->results[0] : NULL;
}

static Value *keep(Flat *f, Value *value)
{
    ARENA_PUSH(f->func->arena, &f->kept, value);
    return value;
}

/* Does it read a tensor that is merged? `seen`: values whose operands were looked at. */
static bool reads_merged(const Flat *f, const Value *value, Memo *seen)
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

static bool keeps_merged(const Flat *f)
{
    Memo *seen = memo_open(f->func);
    bool found = false;
    for (size_t i = 0; i < f->kept.n && !found; i++) {
        found = reads_merged(f, f->kept.items[i], seen);
    }
    memo_close(seen);
    return found;
}

/* ---- axes that move ---- */

static Value *merged_expand(Flat *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (axis == at || axis == at + 1) { /* one element and its neighbour */
        return keep(f, op->operands[0]);
    }
    Value *from = merged(f, op->operands[0], axis < at ? at - 1 : at);
    return !from || f->tries ? from : build_expand(&f->b, from, axis > at ? axis - 1 : axis);
}

static Value *merged_squeeze(Flat *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (axis == at + 1) {
        return NULL;
    }
    Value *from = merged(f, op->operands[0], axis <= at ? at + 1 : at);
    return !from || f->tries ? from : build_squeeze(&f->b, from, axis > at ? axis - 1 : axis);
}

static Value *merged_permute(Flat *f, const Op *op, int at)
{
    const int64_t *perm = op_attr(op, ATTR_PERM)->ints;
    int64_t fewer[MAX_RANK];
    int n = 0, first = (int)perm[at];
    Value *from = perm[at + 1] == first + 1 ? merged(f, op->operands[0], first) : NULL;
    if (!from || f->tries) {
        return from;
    }
    for (int i = 0; i < op->results[0]->type->rank; i++) {
        if (i != at + 1) {
            fewer[n++] = perm[i] - (perm[i] > first);
        }
    }
    return build_permute(&f->b, from, fewer);
}

static bool is_unit(Dim dim)
{
    int64_t extent;
    return poly_is_const(dim, &extent) && extent == 1;
}

/* ---- values along one of the two axes ---- */

/* The vector's elements at the indices, which are all inside; `tries`: itself, if that is possible.
 * NULL: it is not made of coordinates, numbers and inputs. */
static Value *vector_at(Flat *f, Value *vector, Value *indices)
{
    const Op *op = vector->def;
    Type type = f->tries ? NULL : type_with_dtype(f->func, indices->type, vector->type->dtype);
    if (!op) {
        return NULL;
    }
    if (op->kind == OP_IOTA) {
        return f->tries ? vector : build_cast(&f->b, indices, vector->type->dtype);
    }
    if (op->kind == OP_BROADCAST && type_is_scalar(op->operands[0]->type)) {
        return f->tries ? vector : build_broadcast(&f->b, op->operands[0], 1, type->dims);
    }
    if (op->kind == OP_LOAD) {
        const Value *memory = op->operands[0];
        bool input = memory->type->kind == TYPE_TENSOR && memory->type->rank == 1 && is_whole(op) &&
                     f->func->params.items[memory->index].io == PARAM_IN;
        if (!input || f->tries) {
            return input ? vector : NULL;
        }
        Value *read = build_gather(&f->b, op->operands[0], &indices);
        op_set_ints(f->func, read->def, ATTR_GUARD, 1, (int64_t[]){0});
        return read;
    }
    if (op->kind != OP_CONST && !op_has(op, TRAIT_ELEMENTWISE)) {
        return NULL;
    }
    Value **operands = ARENA_ARRAY(f->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = vector_at(f, op->operands[i], indices);
        if (!operands[i]) {
            return NULL;
        }
    }
    if (f->tries) {
        return vector;
    }
    Op *copy = build_op(&f->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    return copy->results[0];
}

/* An array that has several elements along one of the two axes alone, stretched along all others:
 * the element at each quotient, or at each remainder, of the axis that the two become. */
static Value *merged_vector(Flat *f, const Op *op, int at)
{
    Value *from = op->operands[0];
    Type wide = op->results[0]->type, to = merged_type(f->func, wide, at);
    int missing = wide->rank - from->type->rank, own = -1;
    for (int i = 0; i < from->type->rank; i++) {
        if (!is_unit(from->type->dims[i])) {
            if (own >= 0 || (i + missing != at && i + missing != at + 1)) {
                return NULL;
            }
            own = i;
        }
    }
    Value *vector = from;
    while (own >= 0 && vector->def &&
           (vector->def->kind == OP_EXPAND || vector->def->kind == OP_SQUEEZE)) {
        vector = vector->def->operands[0];
    }
    if (own < 0 || vector->type->rank != 1 || vector->type->dims[0] != wide->dims[own + missing]) {
        return NULL;
    }
    if (f->tries) {
        return vector_at(f, vector, NULL);
    }
    Value *all = build_iota(&f->b, to->dims[at], DT_I64);
    Value *by = build_broadcast(&f->b, build_size(&f->b, wide->dims[at + 1]), 1, &to->dims[at]);
    OpKind kind = own + missing == at ? OP_DIV : OP_MOD;
    Value *merged = vector_at(f, vector, build_binary(&f->b, kind, all, by));
    for (int i = 0; i < to->rank; i++) {
        merged = i == at ? merged : build_expand(&f->b, merged, i);
    }
    return build_broadcast(&f->b, merged, to->rank, to->dims);
}

/* Both axes are the operand's, or both are stretched. */
static Value *merged_broadcast(Flat *f, const Op *op, int at)
{
    Value *from = op->operands[0];
    Type to = merged_type(f->func, op->results[0]->type, at);
    int first = at - (op->results[0]->type->rank - from->type->rank);
    const Dim *dims = from->type->dims, *wide = op->results[0]->type->dims;
    bool both = first >= 0 && dims[first] == wide[at] && dims[first + 1] == wide[at + 1];
    bool new_one = first == -1 && is_unit(dims[0]);
    bool units = first >= 0 && is_unit(dims[first]) && is_unit(dims[first + 1]);
    if (both) {
        from = merged(f, from, first);
    } else if (!units && !new_one && first >= -1) {
        return merged_vector(f, op, at);
    } else {
        keep(f, from);
        from = (units || new_one) && !f->tries ? build_squeeze(&f->b, from, first + 1) : from;
    }
    return !from || f->tries ? from : build_broadcast(&f->b, from, to->rank, to->dims);
}

/* ---- sums and products ---- */

static bool has_both(const Flat *f, const Value *value, int at)
{
    return (an_varies(f->varies, value) >> at & 3) == 3;
}

static bool has_none(const Flat *f, const Value *value, int at)
{
    return (an_varies(f->varies, value) >> at & 3) == 0;
}

static Value *merged_reduce(Flat *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    const Op *mul = op->operands[0]->def;
    if (op->n_operands != 1 || axis == at || axis == at + 1) {
        return NULL;
    }
    if (mul && mul->kind == OP_MUL && text_equal(op_word(op, ATTR_FN), "sum")) {
        const Value *a = mul->operands[0], *b = mul->operands[1];
        f->pays = f->pays || (has_both(f, a, at) && has_none(f, b, at)) ||
                  (has_both(f, b, at) && has_none(f, a, at));
    }
    Value *from = merged(f, op->operands[0], at);
    return !from || f->tries
               ? from
               : build_reduce(&f->b, op_word(op, ATTR_FN), from, axis > at ? axis - 1 : axis);
}

/* The last batch joins the rows where the columns' factor is the same for all of it. */
static Value *merged_dot(Flat *f, const Op *op, int at)
{
    int last = op->results[0]->type->rank - 1;
    Value *left = op->operands[0], *right = op->operands[1];
    bool batches = at + 1 < last - 1, rows = at == last - 2;
    if (op->n_operands != 2 || op->n_attrs || (!batches && !rows) ||
        (rows && (an_varies(f->varies, right) >> at & 1))) {
        return NULL;
    }
    f->pays = f->pays || rows;
    if (rows) {
        keep(f, right);
    }
    left = merged(f, left, at);
    if (!left || f->tries) {
        return batches && left ? merged(f, right, at) : left;
    }
    right = batches ? merged(f, right, at) : axis_dropped(&f->b, right, at);
    return build_dot(&f->b, left, right, NULL, op->results[0]->type->dtype);
}

static Value *merged_elements(Flat *f, const Op *op, int at)
{
    Value **operands = ARENA_ARRAY(f->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = merged(f, op->operands[i], at);
        if (!operands[i]) {
            return NULL;
        }
    }
    if (f->tries) {
        return op->results[0];
    }
    Type type = merged_type(f->func, op->results[0]->type, at);
    Op *copy = build_op(&f->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    return copy->results[0];
}

/* ---- values ---- */

static Value *merged_op(Flat *f, Op *op, int at)
{
    switch (op->kind) {
    case OP_LOAD: return merged_load(f, op, at);
    case OP_EXPAND: return merged_expand(f, op, at);
    case OP_SQUEEZE: return merged_squeeze(f, op, at);
    case OP_PERMUTE: return merged_permute(f, op, at);
    case OP_BROADCAST: return merged_broadcast(f, op, at);
    case OP_REDUCE: return merged_reduce(f, op, at);
    case OP_DOT: return merged_dot(f, op, at);
    default:
        return op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE) ? merged_elements(f, op, at)
                                                                     : NULL;
    }
}

typedef struct Key {
    const Value *value;
    int at;
} Key;

typedef struct Known {
    Key key;
    Value *to;
} Known;

static bool is_known(const void *item, const void *key)
{
    const Known *known = item;
    const Key *wanted = key;
    return known->key.value == wanted->value && known->key.at == wanted->at;
}

/* The value with its axes `at` and `at` + 1 as one; NULL: that is not possible. */
static Value *merged(Flat *f, Value *value, int at)
{
    Key key = {value, at};
    uint64_t hash = hash_word((uint64_t)at, value->id);
    const Known *known = table_find(&f->made, hash, is_known, &key);
    if (known) {
        return known->to;
    }
    Dim dims[MAX_RANK];
    if (!value->def || !merges(f->func, value->type, at, dims)) {
        return NULL;
    }
    if (!f->tries) {
        f->b.span = value->def->span;
    }
    Known *entry = ARENA_NEW(f->func->arena, Known);
    if (f->tries) {
        memo_visit(f->tried, value);
    }
    *entry = (Known){key, merged_op(f, value->def, at)};
    if (!f->tries && entry->to != value && !entry->to->name) {
        entry->to->name = value->name;
    }
    table_add(f->func->arena, &f->made, hash, entry);
    return entry->to;
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
    return store && is_whole(store) ? store : NULL;
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

static int accesses_of(const Func *func, const Value *tensor)
{
    int n = 0;
    for (const Op *op = func->body->first; op; op = op->next) {
        n += op->n_operands > 0 && op->operands[0] == tensor;
    }
    return n;
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
    merges(func, type, at, dims);
    param->caller_type = param_given(param);
    param->collapsed = counts;
    param->value->type = type_with_strides(
        func, type_tensor(func, type->dtype, type->rank - 1, dims), NULL, type->align);
}

/* True if nothing needs the op: func_remove_dead has not run since its use went. */
static bool is_dead(const Flat *f, const Op *op, Memo *known)
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
static bool is_all_replaced(const Flat *f, const Op *op, const Op *store, Memo *seen, Memo *dead)
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
static bool replaces_loads(const Flat *f, const Op *store)
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

static Flat flat_new(Func *func, Op *store, bool tries)
{
    Flat f = {.func = func, .b = build_before(func, store), .tries = tries};
    for (int i = 0; i < 64; i++) {
        f.axis[i] = -1;
    }
    return f;
}

static bool pays(Func *func, Op *store, int at, Flat *f)
{
    *f = flat_new(func, store, true);
    if (is_chosen(func, store->operands[0]->type->dims[at]) || !takes_tensor(f, store, at)) {
        return false;
    }
    f->varies = an_varies_all(func);
    f->tried = memo_open(func);
    bool can = merged(f, store->operands[store->n_operands - 1], at) && f->pays &&
               replaces_loads(f, store);
    memo_close(f->tried);
    memo_close(f->varies);
    for (size_t i = 0; can && i < func->params.n && i < 64; i++) {
        const Value *tensor = func->params.items[i].value;
        can = f->axis[i] < 0 || f->accesses[i] == accesses_of(func, tensor);
    }
    return can && !keeps_merged(f);
}

static Op *flatten(Func *func, Op *store, int at, const Flat *tried)
{
    for (size_t i = 0; i < func->params.n && i < 64; i++) {
        if (tried->axis[i] >= 0) {
            merge_param(func, &func->params.items[i], tried->axis[i]);
        }
    }
    Flat f = flat_new(func, store, false);
    f.varies = an_varies_all(func);
    Value *value = merged(&f, store->operands[store->n_operands - 1], at);
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
        Flat tried;
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
    Flat f = flat_new(func, scatter, tries);
    Value **operands = ARENA_ARRAY(func->arena, Value *, scatter->n_operands);
    bool can = true;
    f.varies = an_varies_all(func);
    f.tried = memo_open(func);
    operands[0] = scatter->operands[0];
    for (int i = 1; i < scatter->n_operands && can; i++) {
        Value *operand = scatter->operands[i];
        bool array = operand && operand->type->kind == TYPE_ARRAY;
        operands[i] = array ? merged(&f, operand, at) : operand;
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
