/* SPDX-License-Identifier: Apache-2.0 */
/* What takes the place of a reduction of a dot's result: the moments of the part of a row that the
 * epilogue has, and how that of the row follows from those of its parts. */
#include "passes/fuse/fuse_moments.h"

#include "ir/op_axes.h"

/* ---- views ---- */

static bool is_same_size(Type type, int axis, Type other, int of)
{
    return type->dims[axis] == other->dims[of];
}

int fuse_viewed_axis(const Op *op, int axis)
{
    if (op_moves_axes(op)) {
        int inner = op_operand_axis(op, 0, axis);
        bool same =
            inner >= 0 && is_same_size(op->operands[0]->type, inner, op->results[0]->type, axis);
        return same ? inner : -1;
    }
    if (op->kind != OP_GATHER || op->operands[0]->type->kind != TYPE_ARRAY) {
        return -1;
    }
    int found = -1;
    Type from = op->operands[0]->type, type = op->results[0]->type;
    for (int i = 0; i < from->rank; i++) {
        if (fuse_own_axis(op->operands[i + 1], type) == axis && is_same_size(from, i, type, axis)) {
            found = found < 0 ? i : -2;
        }
    }
    return found;
}

/* ---- values with one element along an axis ---- */

Type fuse_with_one(Func *func, Type type, int axis)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = i == axis ? poly_const(func, 1) : type->dims[i];
    }
    return type_with_dims(func, type, type->rank, dims);
}

/* The places of an array of the shape, axis by axis. */
static void own_indices(Builder *b, Type shape, Value **indices)
{
    for (int i = 0; i < shape->rank; i++) {
        int64_t extent;
        if (poly_is_const(shape->dims[i], &extent) && extent == 1) {
            indices[i] = build_i64(b, 0);
            continue;
        }
        Value *index = build_iota(b, shape->dims[i], DT_I64);
        for (int k = i + 1; k < shape->rank; k++) {
            index = build_expand(b, index, k - i);
        }
        indices[i] = build_broadcast(b, index, shape->rank, shape->dims);
    }
}

/* The value, which is the same along an axis, as an array of the shape, which has one element
 * there. NULL: it would cost too much to compute it. */
static Value *shrunk(EpilogueFolds *f, Builder *b, Value *value, Type shape)
{
    Value *indices[MAX_RANK];
    if (type_is_scalar(value->type)) {
        return build_broadcast(b, value, shape->rank, shape->dims);
    }
    own_indices(b, shape, indices);
    if (!fuse_is_cheap_at(f->func, value, indices, shape)) {
        return NULL;
    }
    ValueAt p = {*b, shape, false, NULL, NULL, clone_map_new(f->func)};
    Value *found = fuse_value_at(&p, value, indices);
    *b = p.at;
    return found;
}

/* The same view of `part`, which has one element along the base's axis. NULL as above. */
static Value *view_of(EpilogueFolds *f, Builder *b, const Base *base, Value *view, int axis,
                      Value *part)
{
    const Op *op = view->def;
    if (view == base->value) {
        return part;
    }
    int inner = fuse_viewed_axis(op, axis);
    Value *from = view_of(f, b, base, op->operands[0], inner, part);
    Type shape = fuse_with_one(f->func, view->type, axis);
    if (!from) {
        return NULL;
    }
    switch (op->kind) {
    case OP_EXPAND: return build_expand(b, from, (int)op_int(op, ATTR_AXIS, 0));
    case OP_SQUEEZE: return build_squeeze(b, from, (int)op_int(op, ATTR_AXIS, 0));
    case OP_PERMUTE: return build_permute(b, from, op_attr(op, ATTR_PERM)->ints);
    case OP_BROADCAST: return build_broadcast(b, from, shape->rank, shape->dims);
    default: break;
    }
    Value *indices[MAX_RANK];
    if (fuse_strays(f->func, op)) {
        return NULL;
    }
    for (int i = 1; i < op->n_operands; i++) {
        indices[i - 1] = i - 1 == inner ? build_i64(b, 0) : shrunk(f, b, op->operands[i], shape);
        if (!indices[i - 1]) {
            return NULL;
        }
    }
    Value *result = build_gather(b, from, indices);
    result->def->n_attrs = op->n_attrs;
    result->def->attrs = op->attrs;
    return type_is_scalar(result->type) ? build_broadcast(b, result, shape->rank, shape->dims)
                                        : result;
}

/* ---- what the epilogue makes ---- */

static Value *times(Builder *b, Value *a, Value *c)
{
    return a ? build_binary(b, OP_MUL, a, c) : c;
}

static Moments *moments_of(EpilogueFolds *f, const Base *base)
{
    for (int i = 0; i < f->n_moments; i++) {
        Moments *known = &f->moments[i];
        if (known->base.value == base->value && known->base.axis == base->axis) {
            return known;
        }
    }
    f->moments[f->n_moments] = (Moments){.base = *base};
    return &f->moments[f->n_moments++];
}

/* The extent of the axis as an array of the type. */
static Value *count_of(Builder *b, const Base *base, Type type)
{
    Value *size = build_size(b, base->value->type->dims[base->axis]);
    return build_broadcast(b, build_cast(b, size, type->dtype), type->rank, type->dims);
}

static void make_sum(EpilogueFolds *f, Moments *m)
{
    if (!m->sum) {
        Builder b = build_after(f->func, m->base.value->def);
        b.span = m->base.value->def->span;
        m->sum = build_reduce(&b, "sum", m->base.value, m->base.axis);
        m->mean = build_binary(&b, OP_DIV, m->sum, count_of(&b, &m->base, m->sum->type));
    }
}

static void make_moments(EpilogueFolds *f, Moments *m)
{
    make_sum(f, m);
    if (!m->square) {
        Type type = m->base.value->type;
        Builder b = build_after(f->func, m->mean->def);
        b.span = m->base.value->def->span;
        Value *mean = build_broadcast(&b, m->mean, type->rank, type->dims);
        Value *from = build_binary(&b, OP_SUB, m->base.value, mean);
        m->rest = build_reduce(&b, "sum", from, m->base.axis);
        m->square = build_reduce(&b, "sum", build_binary(&b, OP_MUL, from, from), m->base.axis);
    }
}

/* The sum of scale * (x - centre) + shift, or of the square of scale * (x - centre), from the
 * moments of x; NULL: some of what is the same along the axis costs too much. */
static Value *from_moments(EpilogueFolds *f, Builder *b, const PartialFold *partial)
{
    const AffineView *of = &partial->of;
    int axis = (int)op_int(partial->fold, ATTR_AXIS, 0);
    Type shape = partial->fold->results[0]->type;
    Moments *m = moments_of(f, &partial->base);
    Value *scale = of->scale ? shrunk(f, b, of->scale, shape) : NULL;
    Value *centre = of->centre ? shrunk(f, b, of->centre, shape) : NULL;
    Value *shift = of->shift ? shrunk(f, b, of->shift, shape) : NULL;
    if ((of->scale && !scale) || (of->centre && !centre) || (of->shift && !shift)) {
        return NULL;
    }
    if (!centre && !partial->squares) {
        make_sum(f, m);
    } else {
        make_moments(f, m);
    }
    Value *sum = view_of(f, b, &partial->base, of->view, axis, m->sum);
    Value *n = count_of(b, &partial->base, shape);
    if (centre || partial->squares) {
        Value *mean = view_of(f, b, &partial->base, of->view, axis, m->mean);
        Value *rest = view_of(f, b, &partial->base, of->view, axis, m->rest);
        Value *moved = centre && mean ? build_binary(b, OP_SUB, mean, centre) : mean;
        Value *square = NULL;
        if (!moved || !rest) {
            return NULL;
        }
        sum = build_fma(b, n, moved, rest);
        if (partial->squares) {
            square = view_of(f, b, &partial->base, of->view, axis, m->square);
            sum = build_fma(b, moved, build_binary(b, OP_ADD, sum, rest), square);
            sum = times(b, scale ? build_binary(b, OP_MUL, scale, scale) : NULL, sum);
            return sum;
        }
    }
    sum = sum ? times(b, scale, sum) : NULL;
    return sum && shift ? build_fma(b, n, shift, sum) : sum;
}

/* Another reduction of the base, or of what the epilogue makes of it. */
static Value *folded(EpilogueFolds *f, Builder *b, const PartialFold *partial)
{
    const Base *base = &partial->base;
    Builder after = build_after(f->func, base->value->def);
    after.span = partial->fold->span;
    Value *own = build_reduce(&after, op_word(partial->fold, ATTR_FN), base->value, base->axis);
    f->others[f->n_others++] = own;
    return view_of(f, b, base, partial->of.view, (int)op_int(partial->fold, ATTR_AXIS, 0), own);
}

bool fuse_reduce_in_epilogue(EpilogueFolds *f, const PartialFold *partial)
{
    Op *fold = partial->fold;
    Builder b = build_before(f->func, fold);
    b.span = fold->span;
    bool sum = text_equal(op_word(fold, ATTR_FN), "sum");
    Value *made = sum ? from_moments(f, &b, partial) : folded(f, &b, partial);
    if (!made) {
        return false;
    }
    made->name = fold->results[0]->name;
    func_replace_uses(f->func, fold->results[0], made);
    return true;
}
