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
 * that read it.
 *
 * Requires the tensor level. Changes no bits. */
#include "ir/build.h"
#include "passes/analysis/computations.h"
#include "passes/pass.h"

/* What an index of a gather is. */
typedef struct Walked {
    int axis;     /* of the result, along which it is 0, 1, 2, …; -1: one number for all */
    Value *index; /* the number, or the range that it counts in; NULL: it walks the whole axis */
} Walked;

/* The index of an axis of so many elements, over the axes of the gather's result. */
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
        if (map_as_axis(result->at[i]) == axis && (range ? range->whole : axis->extent) == extent) {
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

static void read_plainly(Op *op, void *user)
{
    const Reader *reader = user;
    Func *func = reader->func;
    Walked walked[MAX_RANK];
    int axes[MAX_RANK], n = 0;
    if (op->kind != OP_GATHER || !is_plain(reader->all, op, walked)) {
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
