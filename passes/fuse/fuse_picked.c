/* SPDX-License-Identifier: Apache-2.0 */
/* Computes one element of each row of a dot's result, at an index that is looked up, as a sum over
 * the row.
 *
 *   %p = sub %z, %m : f32[M, N]               %t = select (iota == %i), %z, 0
 *   %g = gather %p[iota, %i] : f32[M]    →    %s = reduce %t fn=sum axis=1
 *                                             %g = select (0 <= %i < N), (sub %s, %m), 0
 *
 * All terms of the sum but one are 0. If everything else that is needed of the dot is reduced, as
 * in a cross entropy, the epilogue computes this reduction as well, and the result of the dot is
 * never stored. */
#include "passes/fuse/fuse_moments.h"

#include "ir/op_axes.h"

enum { MAX_DEPTH = 16 };

/* What the base is a wider form of, or the base itself: elements of either may be asked for. */
static Value *narrow_of(const Base *base)
{
    const Op *op = base->value->def;
    bool widens = op->kind == OP_CAST && dtype_is_float(op->operands[0]->type->dtype) &&
                  dtype_bits(op->operands[0]->type->dtype) < dtype_bits(base->value->type->dtype);
    return widens ? op->operands[0] : base->value;
}

/* Is the value `of`, element by element, and what is the same along the axis? */
static bool is_made_of(const Value *value, const Value *of, int axis, int depth)
{
    const Op *op = value->def;
    if (value == of || type_is_scalar(value->type) || fuse_is_constant_along(value, axis)) {
        return true;
    }
    bool good = op && depth > 0 && op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; good && i < op->n_operands; i++) {
        good = is_made_of(op->operands[i], of, axis, depth - 1);
    }
    return good;
}

/* Can an epilogue have the value without the block that computes it? */
static bool is_loaded(const Func *func, const Value *value, int depth)
{
    const Op *op = value->def;
    if (type_is_scalar(value->type) || (op && (op->kind == OP_CONST || op->kind == OP_IOTA))) {
        return true;
    }
    if (!op || depth == 0 || op->kind == OP_LOAD) {
        return op && op->kind == OP_LOAD && fuse_is_unchanging(func, op->operands[0]);
    }
    bool good = op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
    for (int i = 0; good && i < op->n_operands; i++) {
        good = is_loaded(func, op->operands[i], depth - 1);
    }
    return good;
}

static bool is_picked(const Func *func, const Op *gather, const Base *base)
{
    const Value *of = gather->kind == OP_GATHER ? gather->operands[0] : NULL;
    Type type = base->value->type;
    if (!of || of->type->kind != TYPE_ARRAY || type->dtype != DT_F32 ||
        of->type->rank != type->rank || gather->results[0]->type->rank != type->rank - 1) {
        return false;
    }
    for (int i = 0; i < type->rank; i++) {
        const Value *index = gather->operands[1 + i];
        int own = fuse_own_axis(index, gather->results[0]->type);
        bool looked_up = !type_is_scalar(index->type) && own < 0 &&
                         index->type->rank == type->rank - 1 && is_loaded(func, index, MAX_DEPTH);
        if (of->type->dims[i] != type->dims[i] ||
            (i == base->axis ? !looked_up : own != i - (i > base->axis))) {
            return false;
        }
    }
    return is_made_of(of, narrow_of(base), base->axis, MAX_DEPTH);
}

const Base *fuse_find_picks(EpilogueFolds *f)
{
    const Base *base = NULL;
    for (int i = 0; i < f->n && !base; i++) {
        base = f->partials[i].base.by ? &f->partials[i].base : NULL;
    }
    for (Op *op = f->block->first; base && op && f->n_picks < MAX_FOLDS; op = op->next) {
        if (is_picked(f->func, op, base)) {
            f->picks[f->n_picks++] = op;
        }
    }
    return f->n_picks > 0 ? base : NULL;
}

/* The sum of the row's elements at the place. An index that 32 bits do not hold is outside of the
 * axis, and what is found for it is not used. */
static Value *build_sum(Builder *b, const Base *base, Value *index)
{
    Type type = base->value->type;
    int axis = base->axis;
    DType dtype = poly_most(type->dims[axis]) < INT32_MAX ? DT_I32 : index->type->dtype;
    Value *wanted = build_expand(b, build_cast(b, index, dtype), axis);
    Value *own = build_iota(b, type->dims[axis], dtype);
    for (int i = axis + 1; i < type->rank; i++) {
        own = build_expand(b, own, i - axis);
    }
    wanted = build_broadcast(b, wanted, type->rank, type->dims);
    Value *there = build_cmp(b, "eq", build_broadcast(b, own, type->rank, type->dims), wanted);
    Value *term = build_select(b, there, base->value, build_float(b, type, 0));
    return build_squeeze(b, build_reduce(b, "sum", term, axis), axis);
}

void fuse_pick(Func *func, Op *gather, const Base *base)
{
    Value *indices[MAX_RANK];
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    Builder b = build_before(func, gather);
    b.span = gather->span;
    Value *narrow = narrow_of(base);
    Value *sum = build_cast(&b, build_sum(&b, base, indices[base->axis]), narrow->type->dtype);
    ValueAt p = fuse_value_at_begin(b, gather->results[0]->type, fuse_strays(func, gather));
    p.home = narrow->def;
    p.found = sum;
    Value *value = fuse_value_at(&p, gather->operands[0], indices);
    Value *holds = fuse_inside(&p, gather);
    value = holds ? build_select(&p.at, holds, value, fuse_outside_value(&p, gather)) : value;
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
}
