/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/tensor/reindex.h"

#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"

static const Spread NONE = {NULL, 0};

/* ---- values over some of the axes ---- */

Value *reindex_spread(Reindex *r, Spread of, unsigned axes)
{
    Dim dims[MAX_RANK];
    Value *value = of.value;
    int rank = 0;
    for (int i = 0; i < r->rank; i++) {
        if (axes >> i & 1) {
            bool own = of.axes >> i & 1;
            value = own || !of.axes ? value : build_expand(&r->b, value, rank);
            dims[rank++] = r->dims[i];
        }
    }
    return build_broadcast(&r->b, value, rank, dims);
}

/* A number of the value's type, over its axes. */
static Value *number_like(Reindex *r, const Value *like, int64_t number)
{
    return build_int(&r->b, like->type, number);
}

Spread reindex_binary(Reindex *r, OpKind kind, Spread a, Spread c)
{
    if (!a.value || !c.value) {
        return NONE;
    }
    unsigned axes = a.axes | c.axes;
    Value *left = reindex_spread(r, a, axes), *right = reindex_spread(r, c, axes);
    return (Spread){build_binary(&r->b, kind, left, right), axes};
}

static Spread with_number(Reindex *r, OpKind kind, Spread a, int64_t number)
{
    Value *value = a.value;
    return (Spread){build_binary(&r->b, kind, value, number_like(r, value, number)), a.axes};
}

Spread reindex_masked(Reindex *r, Spread factor, Spread condition)
{
    unsigned axes = factor.axes | condition.axes;
    Op *cast = factor.value->def;
    Spread inner = factor;
    bool widened = cast && cast->kind == OP_CAST && cast->operands[0]->type->rank > 0 &&
                   dtype_is_float(cast->operands[0]->type->dtype);
    if (widened) { /* the mask before it, so that the factor stays narrow */
        inner.value = cast->operands[0];
    }
    Value *value = reindex_spread(r, inner, axes);
    Value *zero = build_float(&r->b, value->type, 0);
    value = build_select(&r->b, reindex_spread(r, condition, axes), value, zero);
    return (Spread){widened ? build_cast(&r->b, value, factor.value->type->dtype) : value, axes};
}

/* ---- forms ---- */

static Spread place_along(Reindex *r, int axis)
{
    if (axis >= MAX_RANK) {
        return r->derived[axis - MAX_RANK];
    }
    Spread *place = &r->places[axis];
    if (!place->value) {
        *place = (Spread){build_iota(&r->b, r->dims[axis], DT_I64), 1u << axis};
    }
    return *place;
}

/* sum + times * term; a sum without a value is nothing yet. */
static Spread add_term(Reindex *r, Spread sum, Spread term, int64_t times)
{
    bool subtracts = sum.value && times < 0;
    times = subtracts ? -times : times;
    term = times == 1 ? term : with_number(r, OP_MUL, term, times);
    return !sum.value ? term : reindex_binary(r, subtracts ? OP_SUB : OP_ADD, sum, term);
}

static Spread add_base(Reindex *r, Spread sum, Dim base)
{
    int64_t number;
    if (!poly_is_const(base, &number)) {
        Spread size = {build_size(&r->b, base), 0};
        return sum.value ? reindex_binary(r, OP_ADD, sum, size) : size;
    }
    if (!sum.value) {
        return (Spread){build_i64(&r->b, number), 0};
    }
    return number == 0  ? sum
           : number < 0 ? with_number(r, OP_SUB, sum, -number)
                        : with_number(r, OP_ADD, sum, number);
}

Spread reindex_form(Reindex *r, const IndexForm *form)
{
    Spread sum = NONE;
    if (!form) {
        return NONE;
    }
    for (int negative = 0; negative < 2; negative++) { /* what is added comes first */
        for (int i = 0; i < FORM_AXES; i++) {
            if (form->coef[i] && (form->coef[i] < 0) == negative) {
                sum = add_term(r, sum, place_along(r, i), form->coef[i]);
            }
        }
    }
    for (int i = 0; i < form->n_parts; i++) {
        const IndexPart *part = &form->parts[i];
        Spread of = reindex_form(r, part->of);
        of = with_number(r, part->is_remainder ? OP_MOD : OP_DIV, of, part->by);
        sum = add_term(r, sum, of, part->times);
    }
    return add_base(r, sum, form->base);
}

/* The form, whose parts of places that stay within one period are gone. */
static const IndexForm *within_periods(Reindex *r, const IndexForm *form)
{
    Func *func = r->b.func;
    const IndexForm *result = form;
    for (int i = 0; form && result && i < form->n_parts; i++) {
        const IndexPart *part = &form->parts[i];
        int axis = form_as_axis(part->of);
        int64_t extent;
        if (axis < 0 || axis >= r->rank || !poly_is_const(r->dims[axis], &extent) ||
            extent > part->by) {
            continue;
        }
        const IndexForm *zero = form_dim(func, poly_const(func, 0));
        IndexForm *own = ARENA_NEW(func->arena, IndexForm);
        *own = (IndexForm){.base = zero->base, .n_parts = 1, .parts = {*part}};
        result = form_sum(func, result, own, -1);
        result = form_sum(func, result, part->is_remainder ? part->of : zero, part->times);
    }
    return result;
}

/* The form of the value's index over the new axes; NULL: it has none. */
static const IndexForm *new_form(Reindex *r, const Value *value, const int *axes)
{
    const IndexForm *by[FORM_AXES] = {NULL};
    Func *func = r->b.func;
    for (int i = 0; i < value->type->rank; i++) {
        by[i] = axes[i] >= 0 ? r->at[axes[i]] : form_dim(func, poly_const(func, 0));
    }
    return within_periods(r, form_substitute(func, an_index_form(func, r->forms, value), by));
}

/* ---- values ---- */

/* The old axis is a new one under another number. */
static bool is_renamed(const Reindex *r, int old)
{
    int axis = form_as_axis(r->at[old]);
    return axis >= 0 && axis < MAX_RANK && r->dims[axis] == r->old_dims[old];
}

/* The value varies along no axis that is not renamed. */
static bool is_kept(const Reindex *r, const Value *value, const int *axes)
{
    unsigned varies = an_varies(r->varies, value);
    for (int i = 0; i < value->type->rank; i++) {
        if ((varies >> i & 1) && axes[i] >= 0 && !is_renamed(r, axes[i])) {
            return false;
        }
    }
    return true;
}

/* The value itself, its axes in the order of the new ones. */
static Spread renamed(Reindex *r, Value *value, const int *axes)
{
    int64_t perm[MAX_RANK];
    int n = 0;
    unsigned found = 0;
    bool ordered = true;
    for (int i = value->type->rank; i-- > 0;) {
        if (axes[i] < 0 || !is_renamed(r, axes[i])) {
            return NONE;
        }
        found |= 1u << form_as_axis(r->at[axes[i]]);
    }
    for (int axis = 0; axis < r->rank; axis++) {
        for (int i = 0; i < value->type->rank; i++) {
            if (form_as_axis(r->at[axes[i]]) == axis) {
                ordered = ordered && i == n;
                perm[n++] = i;
            }
        }
    }
    return (Spread){ordered ? value : build_permute(&r->b, value, perm), found};
}

/* Nobody writes it between the old read and the new one. */
static bool is_constant(const Func *func, const Value *from)
{
    return from->type->kind != TYPE_TENSOR || func->params.items[from->index].io == PARAM_IN;
}

/* Elements of memory, or of an array, at these places. */
static Spread gathered(Reindex *r, Value *from, Spread *at, const int64_t *guards,
                       const Attr *value)
{
    Value *indices[MAX_RANK];
    unsigned axes = 0;
    bool checked = false;
    for (int i = 0; i < from->type->rank; i++) {
        if (!at[i].value) {
            return NONE;
        }
        axes |= at[i].axes;
        checked = checked || guards[i];
    }
    if (!axes || !is_constant(r->b.func, from)) {
        return NONE;
    }
    for (int i = 0; i < from->type->rank; i++) {
        indices[i] = at[i].axes ? reindex_spread(r, at[i], axes) : at[i].value;
    }
    Value *result = build_gather(&r->b, from, indices);
    op_set_num(r->b.func, result->def, ATTR_VALUE, value ? value->f : 0, value ? value->i : 0);
    op_set_ints(r->b.func, result->def, ATTR_GUARD, from->type->rank, guards);
    return (Spread){result, axes};
}

/* A whole array or tensor, or a slice of it, read at the places of its axes. */
static Spread read_at(Reindex *r, Value *value, const int *axes)
{
    const Op *op = value->def;
    bool load = op && op->kind == OP_LOAD;
    Value *from = load ? op->operands[0] : value;
    const Attr *guard = load ? op_attr(op, ATTR_GUARD) : NULL;
    Spread at[MAX_RANK];
    int64_t guards[MAX_RANK];
    for (int i = 0, k = 0; i < from->type->rank; i++) {
        Value *index = load ? op->operands[1 + i] : NULL;
        bool scalar = index && index->type->rank == 0 && index->type->kind == TYPE_ARRAY;
        if (index && !scalar) {
            return NONE; /* a range */
        }
        if (scalar) {
            at[i] = (Spread){index, 0};
            guards[i] = guard ? guard->ints[i] : 0;
            continue;
        }
        int axis = axes[k++];
        at[i] = axis >= 0 ? reindex_form(r, r->at[axis]) : (Spread){build_i64(&r->b, 0), 0};
        guards[i] = axis >= 0 && !is_renamed(r, axis);
    }
    return gathered(r, from, at, guards, load ? op_attr(op, ATTR_VALUE) : NULL);
}

static Spread gather_again(Reindex *r, const Op *op, const int *axes)
{
    Spread at[MAX_RANK];
    int64_t guards[MAX_RANK];
    Value *from = op->operands[0];
    const Attr *guard = op_attr(op, ATTR_GUARD);
    for (int i = 0; i < from->type->rank; i++) {
        Value *index = op->operands[1 + i];
        bool scalar = index->type->rank == 0;
        at[i] = scalar ? (Spread){index, 0} : reindex_value(r, index, axes);
        bool kept = scalar || is_kept(r, index, axes);
        guards[i] = !kept || !guard || guard->ints[i];
    }
    return gathered(r, from, at, guards, op_attr(op, ATTR_VALUE));
}

static Spread elementwise_again(Reindex *r, const Op *op, const int *axes)
{
    Spread operands[4];
    Value *values[4];
    unsigned all = 0;
    if (op->n_operands > 4 || op->n_results != 1) {
        return NONE;
    }
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = reindex_value(r, op->operands[i], axes);
        if (!operands[i].value) {
            return NONE;
        }
        all |= operands[i].axes;
    }
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < op->n_operands; i++) {
        values[i] = reindex_spread(r, operands[i], all);
    }
    for (int i = 0; i < r->rank; i++) {
        if (all >> i & 1) {
            dims[rank++] = r->dims[i];
        }
    }
    Type type = type_array(r->b.func, op->results[0]->type->dtype, rank, dims);
    Op *copy = build_op(&r->b, op->kind, op->n_operands, values, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return (Spread){copy->results[0], all};
}

static Spread move_again(Reindex *r, const Op *op, const int *axes)
{
    int inner[MAX_RANK];
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        inner[i] = axis.role == AXIS_TIED ? axes[axis.result] : -1;
    }
    return reindex_value(r, op->operands[0], inner);
}

/* The value without axes of one element that no old axis is tied to. */
static Value *squeezed(Reindex *r, Value *value, const int *axes, int *kept)
{
    int n = 0;
    int64_t extent;
    unsigned units = 0;
    for (int i = 0; i < value->type->rank; i++) {
        bool unit = axes[i] < 0 && poly_is_const(value->type->dims[i], &extent) && extent == 1;
        units |= unit ? 1u << i : 0;
        kept[n] = axes[i];
        n += !unit;
    }
    for (int i = value->type->rank; i-- > 0;) {
        value = units >> i & 1 ? build_squeeze(&r->b, value, i) : value;
    }
    return value;
}

/* The reduction over the same elements, where they depend on the new axes. */
static Spread reduce_again(Reindex *r, const Op *op, const int *axes)
{
    int inner[MAX_RANK], axis = (int)op_int(op, ATTR_AXIS, 0), own = r->rank;
    Value *from = op->operands[0];
    if (is_kept(r, op->results[0], axes)) {
        Value *result = squeezed(r, op->results[0], axes, inner);
        return renamed(r, result, inner);
    }
    if (op->n_operands != 1 || own == MAX_RANK || r->old_rank == FORM_AXES) {
        return NONE;
    }
    for (int i = 0; i < from->type->rank; i++) {
        inner[i] = axes[i];
    }
    inner[axis] = r->old_rank++;
    r->old_dims[inner[axis]] = r->dims[own] = from->type->dims[axis];
    r->at[inner[axis]] = form_axis(r->b.func, own);
    r->rank++;
    Spread of = reindex_value(r, from, inner);
    if (!of.value) {
        return NONE;
    }
    unsigned all = of.axes | 1u << own;
    int at = __builtin_popcount(all & ((1u << own) - 1));
    Value *all_values = reindex_spread(r, of, all);
    Value *value = build_reduce(&r->b, op_word(op, ATTR_FN), all_values, at);
    return (Spread){build_squeeze(&r->b, value, at), all & ~(1u << own)};
}

static Spread made_of(Reindex *r, Value *value, const int *axes)
{
    const Op *op = value->def;
    const IndexForm *form = new_form(r, value, axes);
    if (form) {
        return reindex_form(r, form);
    }
    if (op && op->kind == OP_CONST) {
        Type type = type_scalar(r->b.func, value->type->dtype);
        const Attr *number = op_attr(op, ATTR_VALUE);
        bool is_float = dtype_is_float(type->dtype);
        return (Spread){
            is_float ? build_float(&r->b, type, number->f) : build_int(&r->b, type, number->i), 0};
    }
    if (op && op_moves_axes(op)) {
        return move_again(r, op, axes);
    }
    if (op && r->domain && domain_has_select(r->domain, op)) {
        return reindex_value(r, op->operands[1], axes);
    }
    if (op && op_has(op, TRAIT_ELEMENTWISE)) {
        return elementwise_again(r, op, axes);
    }
    if (op && op->kind == OP_GATHER) {
        return gather_again(r, op, axes);
    }
    if (r->reduces && op && op->kind == OP_REDUCE) {
        return reduce_again(r, op, axes);
    }
    Spread same = is_kept(r, value, axes) ? renamed(r, value, axes) : NONE;
    return same.value ? same : read_at(r, value, axes);
}

Spread reindex_value(Reindex *r, Value *value, const int *axes)
{
    int rank = value->type->rank;
    if (value->type->kind != TYPE_ARRAY) {
        return NONE;
    }
    if (rank == 0) {
        return (Spread){value, 0};
    }
    for (int i = 0; i < r->n_made; i++) {
        bool same = r->made[i].value == value;
        for (int k = 0; same && k < rank; k++) {
            same = r->made[i].axes[k] == axes[k];
        }
        if (same) {
            return r->made[i].by;
        }
    }
    Spread by = made_of(r, value, axes);
    if (r->n_made == MAX_MADE) {
        return NONE;
    }
    int n = r->n_made++;
    r->made[n].value = value;
    r->made[n].by = by;
    for (int k = 0; k < rank; k++) {
        r->made[n].axes[k] = axes[k];
    }
    return by;
}
