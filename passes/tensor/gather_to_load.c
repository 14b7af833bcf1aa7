/* SPDX-License-Identifier: Apache-2.0 */
/* gather_to_load: turns gathers whose indices iterate over whole axes or ranges into plain loads.
 *
 *   %i = iota dim=[N]                        %x0 = load %x[:, :] : f32[M, N]
 *   %j = iota dim=[M]                  →     %g  = permute %x0 perm=[1, 0] : f32[N, M]
 *   %g = gather %x[%j, %i] : f32[N, M]
 *
 *   %r = index %j, %i = iota dim=[D]         %g = load %k[%h, %j, :] guard=[1, 0, 0] : f32[%j, D]
 *   %g = gather %k[%h, %r, %i]         →
 *        guard=[1, 0, 0] : f32[%j, D]
 *
 * (Each index is broadcast to the result's shape.) An index iterates over its whole axis or over a
 * range of it, or is one number for all elements. That number may be outside; then the load reads
 * zeros, as the gather did. A plain load can be copied in bulk, and ties the axes of the values
 * that read it. Two indices that count one axis together, `x[i // D, i % D]`, of a tensor of the
 * caller's that nothing else reads, are one index of the tensor with the two axes as one.
 *
 * Requires the tensor level. Changes no bits. */
#include "ir/build.h"
#include "passes/analysis/computations.h"
#include "passes/pass.h"
#include "passes/tensor/collapse_axes.h"

/* What an index of a gather is. */
typedef struct Walked {
    int axis;     /* of the result, along which it is 0, 1, 2, …; -1: one number for all */
    Value *index; /* the number, or the range that it counts in; NULL: it walks the whole axis */
} Walked;

/* The index of an axis of this many elements, over the axes of the gather's result. */
static bool find_walk(Computations *all, const Instance *result, Value *index, Dim extent,
                      Walked *walked)
{
    Value *number = (Value *)value_unstretched(index);
    *walked = (Walked){-1, number};
    if (type_is_scalar(number->type)) {
        return true;
    }
    const Axis *axis = map_as_axis(computations_map(all, index, result->at));
    for (int i = 0; axis && i < result->value->type->rank; i++) {
        const DimVar *range = poly_as_range(result->value->type->dims[i]);
        if (map_as_axis(result->at[i]) == axis &&
            (range ? range->axis_extent : axis->extent) == extent) {
            *walked = (Walked){i, range ? range->binder : NULL};
            return true;
        }
    }
    return false;
}

/* Which of the result's axes each index walks; false: this is no plain read. */
static bool is_plain(Computations *all, const Op *gather, Walked *walked)
{
    Type from = gather->operands[0]->type;
    bool part = type_is_memory(from) && gather_reads_zeros(gather);
    Instance result = computations_own(all, gather->results[0]);
    unsigned seen = 0;
    for (int i = 0; i < from->rank; i++) {
        Walked *at = &walked[i];
        if (!find_walk(all, &result, gather->operands[i + 1], from->dims[i], at) ||
            (at->index && !part) || (at->axis >= 0 && (seen >> at->axis & 1))) {
            return false;
        }
        seen |= at->axis >= 0 ? 1u << at->axis : 0;
    }
    return seen != 0;
}

/* Axis i of the value becomes axis axes[i] of the result; others are stretched. */
static Value *placed(Builder *b, Value *value, const int *axes, Type to)
{
    int64_t perm[MAX_RANK];
    int n = 0, rank = value->type->rank;
    bool ordered = true;
    for (int axis = 0; axis < to->rank; axis++) {
        for (int i = 0; i < rank; i++) {
            if (axes[i] == axis) {
                ordered = ordered && i == n;
                perm[n++] = i;
            }
        }
    }
    value = ordered ? value : build_permute(b, value, perm);
    for (int axis = 0; axis < to->rank; axis++) {
        bool walked = false;
        for (int i = 0; i < rank; i++) {
            walked = walked || axes[i] == axis;
        }
        value = walked ? value : build_expand(b, value, axis);
    }
    return build_broadcast(b, value, to->rank, to->dims);
}

/* An index that is checked stays so. */
static Value *read_memory(Builder *b, const Op *gather, const Walked *walked)
{
    Value *indices[MAX_RANK], *memory = gather->operands[0];
    const Attr *guard = op_attr(gather, ATTR_GUARD);
    int64_t guards[MAX_RANK];
    bool any = false;
    for (int i = 0; i < memory->type->rank; i++) {
        bool number = walked[i].index && walked[i].axis < 0;
        indices[i] = number ? build_cast(b, walked[i].index, DT_I64) : walked[i].index;
        guards[i] = number && (!guard || guard->ints[i]);
        any = any || guards[i];
    }
    Value *value = build_load(b, memory, indices);
    if (any) {
        op_set_ints(b->func, value->def, ATTR_GUARD, memory->type->rank, guards);
    }
    return value;
}

typedef struct Reader {
    Func *func;
    Computations *all;
} Reader;

/* ---- adjacent axes that are read as one ---- */

/* True if the gather alone reads the tensor, which is the caller's and contiguous. */
static bool is_only_reader(const Func *func, const Op *gather)
{
    const Value *memory = gather->operands[0];
    if (memory->type->kind != TYPE_TENSOR) {
        return false;
    }
    const Param *param = &func->params.items[memory->index];
    bool only = param->io == PARAM_IN && param_has_memory(param) && !param->axis_perm &&
                !memory->type->strides && !dtype_is_packed(memory->type->dtype) &&
                value_count_uses(func, memory) == 1;
    for (size_t i = 0; only && i < func->params.n; i++) {
        const Param *other = &func->params.items[i];
        only = other->alias != memory && !(other->im2col && other->im2col->of == memory);
    }
    return only;
}

/* The axis of the result that indices `at` and `at` + 1 count together, `x[i // D, i % D]`; -1:
 * none. */
static int read_together(const Reader *reader, const Op *gather, const Instance *result, int at)
{
    AxisSpace *space = &reader->all->space;
    const Dim *dims = gather->operands[0]->type->dims;
    const Affine *outer = computations_map(reader->all, gather->operands[1 + at], result->at);
    const Affine *inner = computations_map(reader->all, gather->operands[2 + at], result->at);
    if (!outer || !inner || !map_is_inside(space, inner, dims[at + 1])) {
        return -1;
    }
    const Axis *axis = map_as_axis(map_add(space, map_scale(space, outer, dims[at + 1]), inner));
    Dim extent = poly_mul(reader->func, dims[at], dims[at + 1]);
    for (int i = 0; axis && i < result->value->type->rank; i++) {
        if (map_as_axis(result->at[i]) == axis && result->value->type->dims[i] == extent) {
            return i;
        }
    }
    return -1;
}

/* The gather from the tensor with axes `at` and `at` + 1 as one, which is read along `axis` of the
 * result. */
static Op *read_as_one(Func *func, Op *gather, int at, int axis)
{
    Builder b = build_before(func, gather);
    Value *memory = gather->operands[0], *indices[MAX_RANK];
    const Attr *guard = op_attr(gather, ATTR_GUARD), *number = op_attr(gather, ATTR_VALUE);
    Type shape = gather->results[0]->type;
    int64_t guards[MAX_RANK];
    int rank = memory->type->rank;
    for (int i = 0; i < rank; i++) {
        int to = i > at ? i - 1 : i;
        guards[to] = !guard || guard->ints[i];
        indices[to] = gather->operands[1 + i];
    }
    indices[at] = build_places(&b, axis, shape);
    guards[at] = 0;
    collapse_param(func, &func->params.items[memory->index], at);
    Value *value = build_gather(&b, memory, indices);
    op_set_ints(func, value->def, ATTR_GUARD, rank - 1, guards);
    if (number) {
        op_set_num(func, value->def, ATTR_VALUE, number->f, number->i);
    }
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
    return value->def;
}

/* A reshape of the tensor before it is read is its address: the tensor has the axes of the reshape.
 * Returns the gather that is left. */
static Op *join_axes(const Reader *reader, Op *gather)
{
    bool only = is_only_reader(reader->func, gather);
    Instance result = only ? computations_own(reader->all, gather->results[0]) : (Instance){0};
    for (int at = gather->operands[0]->type->rank - 2; only && at >= 0; at--) {
        int axis = read_together(reader, gather, &result, at);
        if (axis >= 0) {
            gather = read_as_one(reader->func, gather, at, axis);
            return join_axes(reader, gather);
        }
    }
    return gather;
}

static void read_plainly(Op *op, void *user)
{
    const Reader *reader = user;
    Func *func = reader->func;
    Walked walked[MAX_RANK];
    int axes[MAX_RANK], n = 0;
    if (op->kind != OP_GATHER) {
        return;
    }
    op = join_axes(reader, op);
    if (!is_plain(reader->all, op, walked)) {
        return;
    }
    Builder b = build_before(func, op);
    Value *from = op->operands[0];
    for (int i = 0; i < from->type->rank; i++) {
        if (walked[i].axis >= 0) {
            axes[n++] = walked[i].axis;
        }
    }
    from = type_is_memory(from->type) ? read_memory(&b, op, walked) : from;
    Value *result = placed(&b, from, axes, op->results[0]->type);
    func_replace_uses(func, op->results[0], result);
    op_remove(op);
}

void pass_gather_to_load(Func *func)
{
    if (block_contains(func->body, OP_GATHER)) {
        Reader reader = {func, computations_open(func)};
        func_walk(func, read_plainly, &reader);
        computations_close(reader.all);
    }
    func_remove_dead(func);
}
