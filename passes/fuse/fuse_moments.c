/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a reduction of a dot's result by the moments (sum, squares of differences) of the part
 * of a row that one epilogue computes, and builds the moments of the row from those of its
 * parts. */
#include "passes/fuse/fuse_moments.h"

#include "ir/memo.h"
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

/* ---- what is affine in a view ---- */

static bool is_constant(const Value *value, int axis, Memo *memo)
{
    const Op *op = value->def;
    int64_t known;
    if (type_is_scalar(value->type) || (op && op->kind == OP_CONST)) {
        return true;
    }
    if (!op || memo_known(memo, value, axis, &known)) {
        return op && known != 0;
    }
    bool good = false;
    if (op_moves_axes(op)) {
        int inner = op_operand_axis(op, 0, axis);
        good = inner < 0 || is_constant(op->operands[0], inner, memo);
    } else if (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_GATHER) {
        good = true;
        for (int i = op->kind == OP_GATHER ? 1 : 0; good && i < op->n_operands; i++) {
            good = is_constant(op->operands[i], axis, memo);
        }
    }
    return memo_keep(memo, value, axis, good) != 0;
}

bool fuse_is_constant_along(const Value *value, int axis)
{
    Memo *memo = memo_about(value);
    bool constant = is_constant(value, axis, memo);
    memo_close(memo);
    return constant;
}

static Value *times(Builder *b, Value *a, Value *c)
{
    if (!a) {
        return c;
    }
    return c ? build_binary(b, OP_MUL, a, c) : a;
}

static Value *plus(Builder *b, OpKind kind, Value *a, Value *c)
{
    Value *zero = NULL;
    if (!a && kind == OP_SUB) {
        zero = build_float(b, c->type, 0);
    }
    if (!a && !zero) {
        return c;
    }
    return build_binary(b, kind, a ? a : zero, c);
}

bool fuse_step_affine(Builder *b, const Op *op, int at, int axis, AffineView *of)
{
    Value *other = op->n_operands > 1 ? op->operands[1 - (at & 1)] : NULL;
    bool constant = other && fuse_is_constant_along(other, axis);
    switch (op->kind) {
    case OP_SUB:
        if (!constant || at != 0) {
            return false;
        }
        if (!of->scale && !of->shift && !of->centre) {
            of->centre = other;
            return true;
        }
        of->shift = plus(b, OP_SUB, of->shift, other);
        return true;
    case OP_ADD: of->shift = constant ? plus(b, OP_ADD, of->shift, other) : NULL; return constant;
    case OP_MUL:
    case OP_DIV:
        if (!constant || (op->kind == OP_DIV && at != 0)) {
            return false;
        }
        if (op->kind == OP_DIV) {
            Value *one = build_float(b, other->type, 1);
            other = build_binary(b, OP_DIV, one, other);
        }
        of->scale = times(b, of->scale, other);
        of->shift = of->shift ? times(b, of->shift, other) : NULL;
        return true;
    case OP_FMA:
        if (at > 1 || !constant || !fuse_is_constant_along(op->operands[2], axis)) {
            return false;
        }
        of->scale = times(b, of->scale, other);
        of->shift = of->shift ? times(b, of->shift, other) : NULL;
        of->shift = plus(b, OP_ADD, of->shift, op->operands[2]);
        return true;
    default: return false;
    }
}

/* ---- values with an element for each part of an axis ---- */

Type fuse_with_extent(Func *func, Type type, int axis, Dim extent)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = i == axis ? extent : type->dims[i];
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

/* The value, which is the same along an axis, as an array of the shape, which has an element for
 * each part there. NULL: it would cost too much to compute it. */
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
    ValueAt p = fuse_value_at_begin(*b, shape, false);
    Value *found = fuse_value_at(&p, value, indices);
    *b = p.at;
    return found;
}

/* The same view of `part`, which has an element for each part along the base's axis. NULL as above.
 */
static Value *view_of(EpilogueFolds *f, Builder *b, const Base *base, Value *view, int axis,
                      Value *part)
{
    const Op *op = view->def;
    if (view == base->value) {
        return part;
    }
    int inner = fuse_viewed_axis(op, axis);
    Value *from = view_of(f, b, base, op->operands[0], inner, part);
    Type shape = fuse_with_extent(f->func, view->type, axis, base->parts);
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
    Value *own[MAX_RANK];
    own_indices(b, shape, own);
    for (int i = 1; i < op->n_operands; i++) {
        indices[i - 1] = i - 1 == inner ? own[axis] : shrunk(f, b, op->operands[i], shape);
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

/* Elements of each part, as an array of the type, whose axis `axis` has the parts. */
static Value *count_of(Builder *b, const Base *base, Type type, int axis)
{
    Value *size = build_size(b, base->value->type->dims[base->axis]);
    if (!base->by) {
        return build_broadcast(b, build_cast(b, size, type->dtype), type->rank, type->dims);
    }
    Value *by = build_i64(b, base->by), *part = build_iota(b, base->parts, DT_I64);
    Value *start = build_binary(b, OP_MUL, part, build_broadcast(b, by, 1, &base->parts));
    Value *left = build_binary(b, OP_SUB, build_broadcast(b, size, 1, &base->parts), start);
    Value *count = build_binary(b, OP_MIN, left, build_broadcast(b, by, 1, &base->parts));
    count = build_cast(b, count, type->dtype);
    for (int i = axis + 1; i < type->rank; i++) {
        count = build_expand(b, count, i - axis);
    }
    return build_broadcast(b, count, type->rank, type->dims);
}

Value *fuse_reduce_parts(Builder *b, const Base *base, const char *fn, Value *value)
{
    return base->by ? build_reduce_parts(b, fn, value, base->axis, base->by, base->parts)
                    : build_reduce(b, fn, value, base->axis);
}

/* What the parts come to. */
static Value *joined(Builder *b, const Base *base, const char *fn, Value *parts, int axis)
{
    return parts && base->by ? build_reduce(b, fn, parts, axis) : parts;
}

static void make_sum(EpilogueFolds *f, Moments *m)
{
    if (!m->sum) {
        Builder b = build_after(f->func, m->base.value->def);
        b.span = m->base.value->def->span;
        m->sum = fuse_reduce_parts(&b, &m->base, "sum", m->base.value);
        Value *count = count_of(&b, &m->base, m->sum->type, m->base.axis);
        m->mean = build_binary(&b, OP_DIV, m->sum, count);
    }
}

static void make_moments(EpilogueFolds *f, Moments *m)
{
    make_sum(f, m);
    if (!m->square) {
        Type type = m->base.value->type;
        Builder b = build_after(f->func, m->mean->def);
        b.span = m->base.value->def->span;
        Value *mean = m->base.by ? build_repeat_parts(&b, m->mean, m->base.axis, m->base.by,
                                                      type->dims[m->base.axis])
                                 : build_broadcast(&b, m->mean, type->rank, type->dims);
        Value *from = build_binary(&b, OP_SUB, m->base.value, mean);
        m->rest = fuse_reduce_parts(&b, &m->base, "sum", from);
        m->square = fuse_reduce_parts(&b, &m->base, "sum", build_binary(&b, OP_MUL, from, from));
    }
}

/* The sum of scale * (x - centre) + shift, or of the square of scale * (x - centre), from the
 * moments of x; NULL: some of what is the same along the axis costs too much. */
static Value *from_moments(EpilogueFolds *f, Builder *b, const PartialFold *partial)
{
    const AffineView *of = &partial->of;
    int axis = (int)op_int(partial->fold, ATTR_AXIS, 0);
    Type shape =
        fuse_with_extent(f->func, partial->fold->results[0]->type, axis, partial->base.parts);
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
    Value *n = count_of(b, &partial->base, shape, axis);
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

Value *fuse_part_of_base(EpilogueFolds *f, const Base *base, const char *fn)
{
    for (int i = 0; i < f->n_others; i++) {
        const Op *op = f->others[i]->def;
        if (op->operands[0] == base->value && text_equal(op_word(op, ATTR_FN), fn) &&
            op_int(op, ATTR_AXIS, 0) == base->axis) {
            return f->others[i];
        }
    }
    Builder after = build_after(f->func, base->value->def);
    after.span = base->value->def->span;
    Value *own = fuse_reduce_parts(&after, base, fn, base->value);
    f->others[f->n_others++] = own;
    return own;
}

/* Another reduction of the base, or of what the epilogue makes of it. */
static Value *folded(EpilogueFolds *f, Builder *b, const PartialFold *partial)
{
    const Base *base = &partial->base;
    Value *own = fuse_part_of_base(f, base, op_word(partial->fold, ATTR_FN));
    return view_of(f, b, base, partial->of.view, (int)op_int(partial->fold, ATTR_AXIS, 0), own);
}

bool fuse_reduce_in_epilogue(EpilogueFolds *f, const PartialFold *partial)
{
    Op *fold = partial->fold;
    Builder b = build_before(f->func, fold);
    b.span = fold->span;
    bool sum = text_equal(op_word(fold, ATTR_FN), "sum");
    Value *made;
    if (partial->difference) {
        made = fuse_sum_exponentials(f, &b, partial);
    } else if (sum) {
        made = from_moments(f, &b, partial);
    } else {
        made = folded(f, &b, partial);
    }
    int axis = (int)op_int(fold, ATTR_AXIS, 0);
    made = joined(&b, &partial->base, op_word(fold, ATTR_FN), made, axis);
    if (!made) {
        return false;
    }
    made->name = fold->results[0]->name;
    func_replace_uses(f->func, fold->results[0], made);
    return true;
}
