/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets: reading and writing tensors, new axes, parts of an axis, array types. Scalar indices
 * are proven inside here; ranges are inside by construction. */
#include "frontend/lower.h"

typedef struct Indices {
    Value *at[MAX_RANK]; /* of the tensor's axes; NULL: whole */
    int n;
    int fresh[MAX_RANK]; /* positions of new axes in the result */
    int n_fresh;
    int rank; /* of the result so far */
} Indices;

static bool is_whole(const Expr *index)
{
    return index->kind == EXPR_SLICE && !index->a && !index->b;
}

static bool fresh_axis(Lower *l, const Expr *index, Indices *out)
{
    if (out->rank >= MAX_RANK) {
        lower_error(l, ERR_INDEX, index->span, "an array has at most %d axes", MAX_RANK);
        return false;
    }
    out->fresh[out->n_fresh++] = out->rank++;
    return true;
}

/* ---- one index of a tensor ---- */

static bool range_index(Lower *l, const Expr *index, const Val *val, Dim axis)
{
    const DimVar *range = poly_as_range(val->dim);
    if (range->whole == axis) {
        return true;
    }
    Diag *diag =
        lower_error(l, ERR_INDEX, index->span, "`%s` walks %s, but this axis has extent %s",
                    range->name, dim_text(l, range->whole), dim_text(l, axis));
    diag_help(l->diags, diag, "a range indexes the axis that it walks");
    return false;
}

/* 0 <= index < axis, whatever the sizes are? */
static bool is_inside(Lower *l, const Val *val, Dim axis)
{
    Dim last = NULL; /* index <= last - 1 */
    if (val->kind == VAL_CONST && val->scalar.i >= 0 && val->scalar.i < INT64_MAX) {
        last = poly_const(l->func, val->scalar.i + 1);
    } else if (val->kind == VAL_ARRAY) {
        last = val->dim;
    }
    if (!last) {
        return false;
    }
    Dim room = poly_add(l->func, axis, poly_mul(l->func, poly_const(l->func, -1), last));
    return room && poly_least(room) >= 0;
}

static bool scalar_index(Lower *l, const Expr *index, const Val *val, Dim axis)
{
    if (is_inside(l, val, axis)) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_OUTSIDE, index->span, "this index is not provably inside of %s",
                             dim_text(l, axis));
    if (val->kind == VAL_CONST && poly_as_var(axis)) {
        diag_help(l->diags, diag, "if it always is: `assume %s >= %lld`", dim_text(l, axis),
                  (long long)val->scalar.i + 1);
    } else {
        diag_help(l->diags, diag,
                  "an index is a constant, or a variable of `parallel i in %s` or "
                  "`for i in 0..%s`",
                  dim_text(l, axis), dim_text(l, axis));
    }
    return false;
}

static bool one_index(Lower *l, const Expr *index, Dim axis, Value **out)
{
    if (is_whole(index)) {
        *out = NULL;
        return true;
    }
    if (index->kind == EXPR_SLICE) {
        lower_unsupported(l, index->span, "slices of tensors are");
        return false;
    }
    Val val = lower_expr(l, index);
    if (val.kind == VAL_RANGE) {
        *out = val.value;
        return range_index(l, index, &val, axis);
    }
    if (is_poison(&val)) {
        return false;
    }
    if (!is_scalar_int(&val)) {
        Diag *diag = lower_error(l, ERR_INDEX, index->span, "%s is no index", val_text(l, &val));
        diag_help(l->diags, diag, "an index is `:`, a range, or an integer scalar");
        return false;
    }
    if (!scalar_index(l, index, &val, axis)) {
        return false;
    }
    *out = as_index(l, &val);
    return true;
}

static bool count_indices(Lower *l, const Expr *expr, Type type)
{
    size_t n = 0;
    for (size_t i = 0; i < expr->args.n; i++) {
        n += expr->args.items[i]->kind != EXPR_NONE;
    }
    if (n == type->rank) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_INDEX, expr->span, "%zu %s for %s, which has %d %s", n,
                             n == 1 ? "index" : "indices", type_text(l, type), type->rank,
                             type->rank == 1 ? "axis" : "axes");
    if (n < type->rank) {
        diag_help(l->diags, diag, "write `:` for an axis that is taken whole");
    }
    return false;
}

static bool lower_indices(Lower *l, const Expr *expr, Type type, Indices *out)
{
    *out = (Indices){.n = 0};
    if (!count_indices(l, expr, type)) {
        return false;
    }
    bool good = true;
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *index = expr->args.items[i];
        if (index->kind == EXPR_NONE) {
            good = fresh_axis(l, index, out) && good;
            continue;
        }
        int axis = out->n++;
        good = one_index(l, index, type->dims[axis], &out->at[axis]) && good;
        Value *at = out->at[axis];
        out->rank += !at || at->type->kind == TYPE_RANGE;
    }
    return good;
}

static Val expand_fresh(Lower *l, Value *value, const Indices *indices)
{
    for (int i = 0; i < indices->n_fresh; i++) {
        if (value->type->rank >= MAX_RANK) {
            return poison_val();
        }
        value = build_expand(&l->b, value, indices->fresh[i]);
    }
    return array_val(value);
}

static Val read_tensor(Lower *l, const Expr *expr, const Val *tensor)
{
    Indices indices;
    if (tensor->is_result && !tensor->is_inout) {
        lower_error(l, ERR_READ_RESULT, expr->span, "a result is written, not read");
        return poison_val();
    }
    if (!lower_indices(l, expr, tensor->value->type, &indices)) {
        return poison_val();
    }
    return expand_fresh(l, build_load(&l->b, tensor->value, indices.at), &indices);
}

/* ---- computed arrays: new axes, and 0 into an axis of extent 1 ---- */

static bool drops_axis(const Val *val, Dim axis)
{
    int64_t extent;
    return val->kind == VAL_CONST && dtype_is_int(val->dtype) && val->scalar.i == 0 &&
           poly_is_const(axis, &extent) && extent == 1;
}

/* One index of `value`, whose axis at `place` has this extent; NULL after an error. */
static Value *array_index(Lower *l, const Expr *index, Value *value, Dim extent, int *place)
{
    if (is_whole(index)) {
        (*place)++;
        return value;
    }
    Val val = index->kind == EXPR_SLICE ? int_val(-1, true) : lower_expr(l, index);
    if (is_poison(&val)) {
        return NULL;
    }
    if (!drops_axis(&val, extent)) {
        lower_unsupported(l, index->span, "indices into computed arrays are");
        return NULL;
    }
    return build_squeeze(&l->b, value, *place);
}

static Value *array_fresh(Lower *l, const Expr *index, Value *value, int *place)
{
    if (value->type->rank >= MAX_RANK) {
        lower_error(l, ERR_INDEX, index->span, "an array has at most %d axes", MAX_RANK);
        return NULL;
    }
    return build_expand(&l->b, value, (*place)++);
}

static Val read_array(Lower *l, const Expr *expr, const Val *array)
{
    Value *value = array->value;
    int axis = 0, place = 0; /* of the operand; of the result so far */
    if (!count_indices(l, expr, array->value->type)) {
        return poison_val();
    }
    for (size_t i = 0; i < expr->args.n && value; i++) {
        const Expr *index = expr->args.items[i];
        if (index->kind == EXPR_NONE) {
            value = array_fresh(l, index, value, &place);
        } else {
            value = array_index(l, index, value, array->value->type->dims[axis++], &place);
        }
    }
    return value ? array_val(value) : poison_val();
}

/* ---- N[lo: hi] ---- */

static bool part_end(Lower *l, const Expr *end, Value **out)
{
    *out = NULL;
    if (!end) {
        return true;
    }
    Val val = lower_expr(l, end);
    if (is_poison(&val)) {
        return false;
    }
    if (!is_scalar_int(&val)) {
        lower_error(l, ERR_EXTENT, end->span, "an end of a part is an integer scalar, not %s",
                    val_text(l, &val));
        return false;
    }
    *out = as_index(l, &val);
    return true;
}

static Val part_of(Lower *l, const Expr *expr, Dim whole)
{
    Val part = {.kind = VAL_PART, .dim = whole};
    const Expr *slice = expr->args.n == 1 ? expr->args.items[0] : NULL;
    if (!slice || slice->kind != EXPR_SLICE) {
        Diag *diag = lower_error(l, ERR_EXTENT, expr->span, "a size has no elements");
        diag_help(l->diags, diag, "a part of it, to be walked by a loop, is `%s[lo: hi]`",
                  dim_text(l, whole));
        return poison_val();
    }
    if (!part_end(l, slice->a, &part.lo) || !part_end(l, slice->b, &part.hi)) {
        return poison_val();
    }
    return part;
}

static Val index_other(Lower *l, const Expr *expr, const Val *base)
{
    switch (base->kind) {
    case VAL_DIM: return part_of(l, expr, base->dim);
    case VAL_CONST:
        if (dtype_is_int(base->dtype) && base->scalar.i >= 0) {
            return part_of(l, expr, poly_const(l->func, base->scalar.i));
        }
        break;
    case VAL_RANGE: lower_unsupported(l, expr->span, "parts of a range are"); return poison_val();
    case VAL_POISON: return *base;
    default: break;
    }
    lower_error(l, ERR_INDEX, expr->span, "%s has no axes to index", val_text(l, base));
    return poison_val();
}

Val lower_index(Lower *l, const Expr *expr)
{
    Val base = lower_expr(l, expr->a);
    if (base.kind == VAL_DTYPE) {
        Val type = {.kind = VAL_TYPE, .type = lower_type(l, expr)};
        return type.type ? type : poison_val();
    }
    if (base.held) {
        base = array_val(base.held);
    }
    if (base.kind == VAL_TENSOR) {
        return read_tensor(l, expr, &base);
    }
    return base.kind == VAL_ARRAY ? read_array(l, expr, &base) : index_other(l, expr, &base);
}

/* ---- writing ---- */

static Value *fit_to_slot(Lower *l, Span span, const Val *value, DType dtype, const Shape *slot)
{
    Shape from = shape_of(value), both;
    Val place = {.kind = VAL_CONST, .dtype = dtype};
    if (is_poison(value) || !check_fits(l, ERR_RESULT, span, value, dtype, true)) {
        return NULL;
    }
    if (!broadcast_shapes(l, span, NULL, value, NULL, &place, &from, slot, &both)) {
        return NULL;
    }
    if (!shape_equal(&both, slot)) {
        lower_error(l, ERR_RESULT, span, "%s does not fit into %s", val_text(l, value),
                    shape_text(l, dtype, slot));
        return NULL;
    }
    return materialize(l, value, dtype, slot);
}

/* Every variable of the parallel must be among the indices: iterations have no order. */
static bool covers_parallel(Lower *l, Span span, const Indices *indices)
{
    for (int i = 0; l->parallel_block && i < l->parallel_block->n_args; i++) {
        const Value *variable = l->parallel_block->args[i];
        bool found = false;
        for (int k = 0; k < indices->n; k++) {
            found = found || indices->at[k] == variable;
        }
        if (!found) {
            Diag *diag = lower_error(l, ERR_PARALLEL_WRITE, span,
                                     "iterations over `%s` write the same place", variable->name);
            diag_help(l->diags, diag, "index the result with every variable of `parallel`");
            return false;
        }
    }
    return true;
}

void store_whole(Lower *l, Span span, Value *tensor, Val value)
{
    Indices indices = {.n = 0};
    Shape slot = type_shape(tensor->type);
    if (!covers_parallel(l, span, &indices)) {
        return;
    }
    Value *stored = fit_to_slot(l, span, &value, tensor->type->dtype, &slot);
    if (stored) {
        build_store(&l->b, tensor, indices.at, stored);
    }
}

static Shape slot_shape(Type type, const Indices *indices)
{
    Shape slot = {.rank = 0};
    for (int i = 0; i < type->rank; i++) {
        if (!indices->at[i]) {
            slot.dims[slot.rank++] = type->dims[i];
        } else if (indices->at[i]->type->kind == TYPE_RANGE) {
            slot.dims[slot.rank++] = indices->at[i]->type->dims[0];
        }
    }
    return slot;
}

/* y[n, p] = … with names that nothing has: the notation for windows and contractions. */
static bool is_index_notation(Lower *l, const Expr *target)
{
    for (size_t i = 0; i < target->args.n; i++) {
        const Expr *index = target->args.items[i];
        if (index->kind == EXPR_NAME && !find_symbol(l, index->name)) {
            lower_unsupported(l, target->span, "index notation, `y[i] = …` with new names, is");
            return true;
        }
    }
    return false;
}

/* A part of an inout tensor is written: from now on it is read from memory. */
static void forget_held(Lower *l, const Value *tensor)
{
    Symbol *symbol = find_symbol(l, tensor->name);
    if (symbol && symbol->val.value == tensor) {
        symbol->val.held = NULL;
    }
}

void lower_store(Lower *l, const Stmt *stmt, const Expr *target, Val value)
{
    Val base = lower_expr(l, target->a);
    Indices indices;
    if (is_poison(&base)) {
        return;
    }
    if (base.kind != VAL_TENSOR || !base.is_result) {
        Diag *diag =
            lower_error(l, ERR_NOT_VARIABLE, target->span, "only results are written by index");
        diag_help(l->diags, diag, "name a result: `-> o: f32[N]`");
        return;
    }
    l->written[base.value->index] = true;
    forget_held(l, base.value);
    if (is_index_notation(l, target) || !lower_indices(l, target, base.value->type, &indices)) {
        return;
    }
    if (indices.n_fresh) {
        lower_error(l, ERR_INDEX, target->span, "a place that is written has no new axes");
        return;
    }
    Shape slot = slot_shape(base.value->type, &indices);
    if (!covers_parallel(l, stmt->span, &indices)) {
        return;
    }
    Value *stored = fit_to_slot(l, stmt->value->span, &value, base.value->type->dtype, &slot);
    if (stored) {
        build_store(&l->b, base.value, indices.at, stored);
    }
}
