/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a value with its axes in another order.
 *
 *   %e = expand %x axis=0 : f32[1, N]             %f = expand %x axis=1 : f32[N, 1]
 *   %b = broadcast %e : f32[M, N]            →    %c = broadcast %f : f32[N, M]
 *   %s = add %b, %y : f32[M, N]                   %z = permute %y perm=[1, 0] : f32[N, M]
 *   the axes of %s as [1, 0]                      %t = add %c, %z : f32[N, M]
 *
 * A permute behind elementwise ops would hide that axes of an operand are adjacent in memory. */
#include "passes/tensor/reorder_axes.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "support/hash_table.h"

#include <string.h>

typedef struct Reorder {
    Builder *b;
    HashTable known;
    Memo *permutes;    /* of has_permute; NULL: values that are in order stay as they are */
    const Value *base; /* stays as it is; NULL: nothing does */
} Reorder;

typedef struct Ordered {
    const Value *value;
    int64_t order[MAX_RANK];
    Value *to;
} Ordered;

static Value *reordered(Reorder *r, Value *value, const int64_t *order);

static bool is_ordered(const void *item, const void *key)
{
    const Ordered *a = item, *wanted = key;
    return a->value == wanted->value &&
           memcmp(a->order, wanted->order, sizeof *a->order * (size_t)a->value->type->rank) == 0;
}

static Type reordered_type(Reorder *r, Type type, const int64_t *order)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[order[i]];
    }
    return type_array(r->b->func, type->dtype, type->rank, dims);
}

static int place_of(const int64_t *order, int64_t axis)
{
    int at = 0;
    while (order[at] != axis) {
        at++;
    }
    return at;
}

static Value *reordered_expand(Reorder *r, const Op *op, const int64_t *order)
{
    int64_t axis = op_int(op, ATTR_AXIS, 0), inner[MAX_RANK];
    int n = 0, rank = op->results[0]->type->rank;
    for (int i = 0; i < rank; i++) {
        if (order[i] != axis) {
            inner[n++] = order[i] - (order[i] > axis);
        }
    }
    return build_expand(r->b, reordered(r, op->operands[0], inner), place_of(order, axis));
}

/* The axis that is squeezed becomes the last one. */
static Value *reordered_squeeze(Reorder *r, const Op *op, const int64_t *order)
{
    int64_t axis = op_int(op, ATTR_AXIS, 0), inner[MAX_RANK];
    int rank = op->results[0]->type->rank;
    for (int i = 0; i < rank; i++) {
        inner[i] = order[i] + (order[i] >= axis);
    }
    inner[rank] = axis;
    return build_squeeze(r->b, reordered(r, op->operands[0], inner), rank);
}

/* Axes that the operand lacks are the first ones. */
static Value *reordered_broadcast(Reorder *r, const Op *op, const int64_t *order)
{
    Value *from = op->operands[0];
    Type to = reordered_type(r, op->results[0]->type, order);
    if (type_is_scalar(from->type)) {
        return build_broadcast(r->b, from, to->rank, to->dims);
    }
    while (from->type->rank < to->rank) {
        from = build_expand(r->b, from, 0);
    }
    return build_broadcast(r->b, reordered(r, from, order), to->rank, to->dims);
}

/* True if the gather reads an array, or an input, which no statement overwrites before `b`. */
static bool reads_constant(const Func *func, const Op *gather)
{
    const Value *from = gather->operands[0];
    return from->type->kind != TYPE_TENSOR || func->params.items[from->index].io == PARAM_IN;
}

/* What a gather reads from stays as it is. */
static Value *reordered_elements(Reorder *r, const Op *op, const int64_t *order)
{
    Value **operands = ARENA_ARRAY(r->b->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        bool whole = (i == 0 && op->kind == OP_GATHER) || type_is_scalar(operand->type);
        operands[i] = whole ? operand : reordered(r, operand, order);
    }
    Type type = reordered_type(r, op->results[0]->type, order);
    Op *copy = build_op(r->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    return copy->results[0];
}

static Value *reordered_op(Reorder *r, Value *value, const int64_t *order)
{
    const Op *op = value->def;
    switch (op->kind) {
    case OP_PERMUTE: {
        const int64_t *perm = op_attr(op, ATTR_PERM)->ints;
        int64_t inner[MAX_RANK];
        for (int i = 0; i < value->type->rank; i++) {
            inner[i] = perm[order[i]];
        }
        return reordered(r, op->operands[0], inner);
    }
    case OP_EXPAND: return reordered_expand(r, op, order);
    case OP_SQUEEZE: return reordered_squeeze(r, op, order);
    case OP_BROADCAST: return reordered_broadcast(r, op, order);
    case OP_REDUCE:
        if (op->n_operands == 1) {
            return build_reduce(r->b, op_word(op, ATTR_FN), reordered(r, op->operands[0], order),
                                place_of(order, op_int(op, ATTR_AXIS, 0)));
        }
        return build_permute(r->b, value, order);
    case OP_GATHER:
        return reads_constant(r->b->func, op) ? reordered_elements(r, op, order)
                                              : build_permute(r->b, value, order);
    default:
        return op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE)
                   ? reordered_elements(r, op, order)
                   : build_permute(r->b, value, order);
    }
}

/* Is a permute among the ops that would be made once more? */
static bool has_permute(Reorder *r, const Value *value)
{
    int64_t found;
    const Op *op = value->def;
    if (!op || value == r->base || value->type->kind != TYPE_ARRAY || op->kind == OP_PERMUTE) {
        return op && value != r->base && op->kind == OP_PERMUTE;
    }
    bool remade = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_REDUCE;
    if (!remade || memo_known(r->permutes, value, 0, &found)) {
        return remade && found;
    }
    found = false;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = has_permute(r, op->operands[i]);
    }
    return memo_keep(r->permutes, value, 0, found);
}

static Value *reordered(Reorder *r, Value *value, const int64_t *order)
{
    int rank = value->type->rank;
    bool same = true;
    Ordered key = {.value = value};
    uint64_t hash = hash_word(0, value->id);
    for (int i = 0; i < rank; i++) {
        same = same && order[i] == i;
        key.order[i] = order[i];
        hash = hash_word(hash, (uint64_t)order[i]);
    }
    if (same && !(r->permutes && has_permute(r, value))) {
        return value;
    }
    const Ordered *known = table_find(&r->known, hash, is_ordered, &key);
    if (known) {
        return known->to;
    }
    Ordered *entry = ARENA_NEW(r->b->func->arena, Ordered);
    *entry = key;
    bool made = value->def && value != r->base;
    entry->to = made ? reordered_op(r, value, order) : build_permute(r->b, value, order);
    table_add(r->b->func->arena, &r->known, hash, entry);
    return entry->to;
}

Value *reorder_axes(Builder *b, Value *value, const int64_t *order)
{
    Reorder r = {.b = b};
    return reordered(&r, value, order);
}

Value *reorder_axes_to(Builder *b, Value *value, const int64_t *order, const Value *base)
{
    Reorder r = {.b = b, .permutes = memo_open(b->func), .base = base};
    Value *made = reordered(&r, value, order);
    memo_close(r.permutes);
    return made;
}
