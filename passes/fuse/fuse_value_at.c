/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a value at other indices: at i - 1 for `x[i - 1]` of a computed x; or, if the readers of
 * an array are computed over the array's own axes, at the elements that the readers need. */
#include "passes/fuse/fuse_value_at.h"

#include "ir/op_axes.h"
#include "passes/analysis/index_bounds.h"

#include <string.h>

bool fuse_is_unchanging(const Func *func, const Value *memory)
{
    ParamIo io = func->params.items[memory->index].io;
    return io == PARAM_IN || io == PARAM_SCRATCH;
}

int fuse_own_axis(const Value *index, Type shape)
{
    const Op *op = index ? index->def : NULL;
    if (!index || type_is_scalar(index->type)) {
        return -1;
    }
    int axis = -1, rank = index->type->rank;
    const Op *chain[MAX_RANK];
    int n = 0;
    for (; op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND) && n < MAX_RANK;
         op = op->operands[0]->def) {
        chain[n++] = op;
    }
    if (!op || op->kind != OP_IOTA) {
        return -1;
    }
    for (axis = 0; n-- > 0;) {
        int grown = chain[n]->results[0]->type->rank - chain[n]->operands[0]->type->rank;
        bool before = chain[n]->kind == OP_BROADCAST || op_int(chain[n], ATTR_AXIS, 0) <= axis;
        axis += before ? grown : 0;
    }
    axis += shape->rank - rank;
    return axis >= 0 && shape->dims[axis] == op_attr(op, ATTR_DIM)->dims[0] ? axis : -1;
}

bool fuse_is_at_own_indices(const Value *value, Value *const *indices, Type shape)
{
    int last = -1;
    for (int i = 0; i < value->type->rank; i++) {
        int axis = fuse_own_axis(indices[i], shape);
        if (poly_is_number(value->type->dims[i], 1)) {
            continue;
        }
        if (axis <= last || shape->dims[axis] != value->type->dims[i]) {
            return false;
        }
        last = axis;
    }
    return true;
}

void fuse_indices_below(const Op *op, Value *const *indices, Value **inner)
{
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        inner[i] = axis.role == AXIS_TIED ? indices[axis.result] : NULL;
    }
}

/* ---- computing it at the place ---- */

static Type shaped(const ValueAt *p, DType dtype)
{
    return type_with_dtype(p->at.func, p->shape, dtype);
}

static Value *spread(ValueAt *p, Value *scalar)
{
    return build_broadcast(&p->at, scalar, p->shape->rank, p->shape->dims);
}

/* An index as an array of the result's shape and of this type. */
static Value *index_as(ValueAt *p, Value *index, DType dtype)
{
    return build_cast(&p->at, spread(p, index), dtype);
}

static Value *load_at(ValueAt *p, const Op *load, Value *const *indices)
{
    Value *all[MAX_RANK];
    Access access = op_access(load, 0);
    for (int i = 0, axis = 0; i < access.n; i++) {
        Value *index = access.indices[i];
        if (!index) {
            all[i] = indices[axis++];
        } else if (index->type->kind == TYPE_RANGE) { /* a tile's elements count from its start */
            Value *start = build_range_fact(&p->at, OP_START, index);
            all[i] = build_binary(&p->at, OP_ADD, indices[axis++], index_as(p, start, DT_I64));
        } else {
            all[i] = index;
        }
    }
    Value *result = build_gather(&p->at, access.memory, all);
    return type_is_scalar(result->type) ? spread(p, result) : result;
}

static Value *gather_at(ValueAt *p, const Op *gather, Value *const *indices)
{
    Value *all[MAX_RANK];
    for (int i = 1; i < gather->n_operands; i++) {
        Value *index = gather->operands[i];
        all[i - 1] = type_is_scalar(index->type) ? index : fuse_value_at(p, index, indices);
    }
    Value *result = build_gather(&p->at, gather->operands[0], all);
    const Attr *value = op_attr(gather, ATTR_VALUE);
    if (!p->strays) {
        result->def->n_attrs = gather->n_attrs;
        result->def->attrs = gather->attrs;
    } else if (value) { /* no guard: what was proven of the array's own indices is not of these */
        op_set_num(p->at.func, result->def, ATTR_VALUE, value->f, value->i);
    }
    return type_is_scalar(result->type) ? spread(p, result) : result;
}

/* What has been computed at these indices, of which NULL is the only element along an axis. */
typedef struct IndexedValues {
    Type shape;
    int rank;
    Value *indices[MAX_RANK];
    CloneMap known;
    struct IndexedValues *next;
} IndexedValues;

/* The value as an array of the shape at indices into itself: once for the same ones, since what a
 * reduction and the values next to it are made of would otherwise be computed anew below each of a
 * chain of reductions. */
static Value *value_at_inner(ValueAt *p, Value *value, Type shape, Value *const *inner)
{
    Func *func = p->at.func;
    int rank = value->type->rank;
    IndexedValues *at = p->others;
    while (at && (at->shape != shape || at->rank != rank ||
                  memcmp(at->indices, inner, (size_t)rank * sizeof *inner) != 0)) {
        at = at->next;
    }
    if (!at) {
        at = arena_alloc(func->arena, sizeof *at);
        *at = (IndexedValues){shape, rank, {NULL}, clone_map_new(func), p->others};
        memcpy(at->indices, inner, (size_t)rank * sizeof *inner);
        p->others = at;
    }
    Value *indices[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        indices[i] = inner[i] ? inner[i] : build_i64(&p->at, 0);
    }
    ValueAt there = *p;
    there.shape = shape;
    there.known = at->known;
    Value *found = fuse_value_at(&there, value, indices);
    at->known = there.known;
    p->others = there.others;
    return found;
}

static Value *moved_at(ValueAt *p, const Op *op, Value *const *indices)
{
    Value *inner[MAX_RANK];
    fuse_indices_below(op, indices, inner);
    return value_at_inner(p, op->operands[0], p->shape, inner);
}

/* The axis of the gather that the op reduces its operand along; -1: of none. */
static int reduced_axis(const ReducedAxes *axes, const Op *op)
{
    int64_t at = op_int(op, ATTR_AXIS, 0), contiguous;
    bool reduces = op->kind == OP_REDUCE && op->n_operands == 1;
    for (int i = 0; reduces && axes && i < axes->rank; i++) {
        if (memo_known(axes->axes, op->operands[0], i, &contiguous) && contiguous == at) {
            return i;
        }
    }
    return -1;
}

int fuse_below_reduction(const ReducedAxes *axes, const Op *op, Value *const *indices, Type *shape,
                         Value **inner)
{
    int along = reduced_axis(axes, op);
    if (along < 0) {
        return -1;
    }
    unsigned from = 0, last = (1u << axes->n_ended) - 1;
    while (from < last && *shape != axes->levels[from].shape) {
        from++;
    }
    unsigned to = from | axes->bit[along];
    const ReducedLevel *above = &axes->levels[from], *below = &axes->levels[to];
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        inner[i] = indices[i];
        for (int k = 0; k < axes->rank; k++) {
            bool same = indices[i] && indices[i] == above->coords[k];
            inner[i] = same ? below->coords[k] : inner[i];
        }
        bool known =
            !inner[i] || type_is_scalar(inner[i]->type) || from == to || inner[i] != indices[i];
        if (i == op_int(op, ATTR_AXIS, 0)) {
            inner[i] = below->coords[along];
        } else if (!known) {
            return -1;
        }
    }
    *shape = below->shape;
    return fuse_own_axis(below->coords[along], *shape);
}

/* The reduction of the operand along the axis of the shape on which its own axis lies. */
static Value *reduced_at(ValueAt *p, const Op *op, Value *const *indices)
{
    Value *inner[MAX_RANK];
    Type shape = p->shape;
    int axis = fuse_below_reduction(p->reduced, op, indices, &shape, inner);
    Value *all = value_at_inner(p, op->operands[0], shape, inner);
    Value *one = build_reduce(&p->at, op_word(op, ATTR_FN), all, axis);
    return build_broadcast(&p->at, one, p->shape->rank, p->shape->dims);
}

static Value *computed_at(ValueAt *p, const Op *op, Value *const *indices)
{
    Value *operands[4];
    Type type = shaped(p, op->results[0]->type->dtype);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = fuse_value_at(p, op->operands[i], indices);
    }
    Op *copy = build_op(&p->at, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

/* The value as an array of the result's shape. */
static Value *taken_as_it_is(ValueAt *p, Value *value, Value *const *indices)
{
    bool has[MAX_RANK] = {false};
    for (int i = value->type->rank; i-- > 0;) {
        if (poly_is_number(value->type->dims[i], 1)) {
            value = build_squeeze(&p->at, value, i);
        } else {
            has[fuse_own_axis(indices[i], p->shape)] = true;
        }
    }
    if (type_is_scalar(value->type)) {
        return spread(p, value);
    }
    for (int k = 0; k < p->shape->rank; k++) {
        value = has[k] ? value : build_expand(&p->at, value, k);
    }
    return build_broadcast(&p->at, value, p->shape->rank, p->shape->dims);
}

/* True if the value may be taken as it is where that is what is asked for. */
static bool may_be_taken(const ValueAt *p, const Op *op)
{
    return (op->kind != OP_LOAD || p->home) && op->kind != OP_IOTA && op->kind != OP_CONST &&
           !op_moves_axes(op);
}

static Value *made_at(ValueAt *p, Value *value, Value *const *indices)
{
    const Op *op = value->def;
    if (op == p->home) {
        return p->found;
    }
    if (may_be_taken(p, op) && fuse_is_at_own_indices(value, indices, p->shape)) {
        return taken_as_it_is(p, value, indices);
    }
    switch (op->kind) {
    case OP_LOAD: return load_at(p, op, indices);
    case OP_GATHER: return gather_at(p, op, indices);
    case OP_IOTA: return index_as(p, indices[0], value->type->dtype);
    case OP_CONST: {
        Type type = shaped(p, value->type->dtype);
        Value *copy = build_op(&p->at, OP_CONST, 0, NULL, 1, &type, 0)->results[0];
        copy->def->n_attrs = op->n_attrs;
        copy->def->attrs = op->attrs;
        return copy;
    }
    case OP_REDUCE: return reduced_at(p, op, indices);
    default: return op_moves_axes(op) ? moved_at(p, op, indices) : computed_at(p, op, indices);
    }
}

ValueAt fuse_value_at_begin(Builder at, Type shape, bool strays)
{
    return (ValueAt){.at = at, .shape = shape, .strays = strays, .known = clone_map_new(at.func)};
}

Value *fuse_value_at(ValueAt *p, Value *value, Value *const *indices)
{
    if (type_is_scalar(value->type)) {
        return spread(p, value);
    }
    Value *known = clone_get(&p->known, value);
    if (known == value) {
        known = made_at(p, value, indices);
        clone_map_value(&p->known, value, known);
    }
    return known;
}

/* ---- elements outside ---- */

static Value *both(ValueAt *p, Value *a, Value *b)
{
    return a ? build_binary(&p->at, OP_AND, a, b) : b;
}

bool fuse_strays(Func *func, const Op *gather)
{
    bool found = false;
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        found = found || !an_gather_inside(func, gather, i);
    }
    return found;
}

Value *fuse_inside(ValueAt *p, const Op *gather)
{
    Type from = gather->operands[0]->type;
    Value *holds = NULL;
    for (int i = 0; i < from->rank; i++) {
        Value *index = gather->operands[i + 1];
        if (an_gather_inside(p->at.func, gather, i)) {
            continue;
        }
        Value *wide = index_as(p, index, DT_I64);
        Value *zero = spread(p, build_i64(&p->at, 0));
        Value *extent = spread(p, build_size(&p->at, from->dims[i]));
        holds = both(p, holds, build_cmp(&p->at, "ge", wide, zero));
        holds = both(p, holds, build_cmp(&p->at, "lt", wide, extent));
    }
    return holds;
}

Value *fuse_outside_value(ValueAt *p, const Op *gather)
{
    Type type = shaped(p, gather->results[0]->type->dtype);
    const Attr *value = op_attr(gather, ATTR_VALUE);
    if (dtype_is_float(type->dtype)) {
        return build_float(&p->at, type, value ? value->f : 0);
    }
    return build_int(&p->at, type, value ? value->i : 0);
}
