/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets: reading tensors and arrays by index, new axes, slices of an axis, array types. An axis
 * that is taken whole, by a range, or by a lane that iterates over it is a load. Everything else
 * is a gather, whose indices are proven to be in bounds here, or have a default value, or are
 * data. */
#include "frontend/lower/lower_index.h"

/* ---- one index ---- */

static bool is_integers(const Val *val)
{
    bool has_value = val->kind == VAL_ARRAY || val->kind == VAL_CONST || val->kind == VAL_DIM;
    return has_value && dtype_is_int(dtype_of(val));
}

static bool one_place(Lower *l, const Expr *index, Dim axis, AxisIndex *axis_index)
{
    *axis_index = (AxisIndex){.expr = index, .extent = axis};
    if (index->kind == EXPR_SLICE && !index->a && !index->b && !index->c) {
        return true;
    }
    if (index->kind == EXPR_SLICE) {
        return lower_slice(l, index, axis_index);
    }
    Val val = lower_expr(l, index);
    if (val.kind != VAL_RANGE) {
        axis_index->val = as_operand(l, axis_index->expr, val);
        if (is_poison(&axis_index->val)) {
            return false;
        }
        if (!is_integers(&axis_index->val)) {
            Diag *diag = lower_error(l, ERR_INDEX, axis_index->expr->span, "%s is no index",
                                     val_text(l, &axis_index->val));
            diag_help(l->diags, diag, "an index is `:`, a range, or integers");
            return false;
        }
        const Affine *affine = affine_of(l, &axis_index->val);
        axis_index->kind = INDEX_AT;
        /* Elements that a condition masks are read all the same, so their check remains. */
        bool always = l->mask.kind != VAL_ARRAY && !l->lane_loop;
        axis_index->data = !affine || l->unchecked;
        axis_index->inside = (affine && affine_inside(l->func, affine, axis_index->extent)) ||
                             (l->unchecked && always);
        return true;
    }
    if (val.dim == axis) { /* an array's own axis */
        return true;
    }
    axis_index->kind = INDEX_RANGE;
    axis_index->val = val;
    const DimVar *range = poly_as_range(val.dim);
    if (range->axis_extent == axis) {
        return true;
    }
    Diag *diag =
        lower_error(l, ERR_INDEX, index->span, "`%s` iterates over %s, but this axis has extent %s",
                    range->name, dim_text(l, range->axis_extent), dim_text(l, axis));
    diag_help(l->diags, diag, "a range indexes the axis over which it iterates");
    return false;
}

static bool count_indices(Lower *l, const Expr *expr, DType dtype, const Shape *memory)
{
    int n = 0;
    for (size_t i = 0; i < expr->args.n; i++) {
        n += expr->args.items[i]->kind != EXPR_NONE;
    }
    if (n == memory->rank) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_INDEX, expr->span, "%d %s for %s, which has %d %s", n,
                             n == 1 ? "index" : "indices", shape_text(l, dtype, memory),
                             memory->rank, memory->rank == 1 ? "axis" : "axes");
    if (n < memory->rank) {
        Span end = {expr->span.source, expr->span.end - 1, expr->span.end - 1};
        Text whole = text_new(l->arena);
        for (int i = n; i < memory->rank; i++) {
            text_add(&whole, i > 0 ? ", :" : ":");
        }
        diag_help(l->diags, diag, "write `:` for an axis that is taken whole");
        lower_fix(l, diag, end, "%s", whole.data);
    }
    return false;
}

bool lower_access(Lower *l, const Expr *expr, DType dtype, const Shape *memory, IndexedAccess *out)
{
    *out = (IndexedAccess){.n = 0};
    if (!count_indices(l, expr, dtype, memory)) {
        return false;
    }
    bool good = true;
    int new_axes = 0;
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *index = expr->args.items[i];
        if (index->kind == EXPR_NONE) {
            new_axes++;
            continue;
        }
        int axis = out->n++;
        out->new_axes[axis] = new_axes;
        new_axes = 0;
        good = one_place(l, index, memory->dims[axis], &out->at[axis]) && good;
    }
    out->new_axes_behind = new_axes;
    return good;
}

/* ---- inside? ---- */

/* True if the index is proven in bounds only when this size is at least `least`. */
static bool inside_from(Lower *l, const AxisIndex *axis_index, const Affine *affine, DimVar *var,
                        int64_t least)
{
    int64_t known = var->least;
    var->least = least > known ? least : known;
    bool inside = affine && affine_inside(l->func, affine, axis_index->extent);
    var->least = known;
    return inside && least > known;
}

/* The size that is the only obstacle to a proof, because it may be too small: *least is the minimum
 * that the proof needs. NULL if there is none. */
static const DimVar *too_small(Lower *l, const AxisIndex *axis_index, const Affine *affine,
                               int64_t *least)
{
    bool constant = axis_index->val.kind == VAL_CONST && axis_index->val.scalar.i >= 0;
    int64_t tries[] = {1, constant ? axis_index->val.scalar.i + 1 : 1};
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        for (size_t i = 0; i < l->func->dimvars.n; i++) {
            DimVar *var = l->func->dimvars.items[i];
            bool candidate = var->kind == DIM_SIZE && !var->unnamed && var->by == 0;
            *least = tries[k];
            if (candidate && poly_mentions(axis_index->extent, var) &&
                inside_from(l, axis_index, affine, var, *least)) {
                return var;
            }
        }
    }
    return NULL;
}

/* The comparison of sizes that would prove first >= 0 and last <= end; NULL if there is none, or if
 * it takes two. */
static const char *comparison_inside(Lower *l, Dim first, Dim last, Dim end)
{
    bool low = first && dim_is_natural(l->func, first);
    Dim remainder = last ? dim_sub(l->func, end, last) : NULL;
    bool high = remainder && dim_is_natural(l->func, remainder);
    if (low && !high && remainder && poly_most(remainder) >= 0) {
        return arena_printf(l->arena, "%s <= %s", dim_text(l, last), dim_text(l, end));
    }
    bool may = !low && high && first && poly_most(first) >= 0;
    return may ? arena_printf(l->arena, "%s >= 0", dim_text(l, first)) : NULL;
}

/* Reports an index that is not proven in bounds; `whole` is the span of the access. */
static void report_outside(Lower *l, const AxisIndex *axis_index, Span whole)
{
    const char *axis = dim_text(l, axis_index->extent);
    Diag *diag = lower_error(l, ERR_OUTSIDE, axis_index->expr->span,
                             "this index is not provably inside of %s", axis);
    const Affine *affine = affine_of(l, &axis_index->val);
    Dim first = affine_least(l->func, affine), last = affine_most(l->func, affine);
    Dim end = dim_sub(l->func, axis_index->extent, poly_const(l->func, 1));
    int64_t least;
    const DimVar *small = too_small(l, axis_index, affine, &least);
    const char *why = "";
    if (small) {
        const char *rule = arena_printf(l->arena, "%s >= %lld", small->name, (long long)least);
        why = arena_printf(l->arena, "; %s may be %lld: it is not known that %s", small->name,
                           (long long)(small->least > 0 ? small->least : 0), rule);
        diag_help(l->diags, diag, "if it always is: `assume %s`; else `(x[…] else 0)`", rule);
        lower_fix_assume(l, diag, rule);
    } else if (axis_index->val.kind == VAL_CONST && axis_index->val.scalar.i < 0) {
        diag_help(l->diags, diag, "indices count from 0: the last element is at %s",
                  dim_text(l, end));
    } else {
        const char *rule = comparison_inside(l, first, last, end);
        diag_help(l->diags, diag, "%ssay what is read outside: `(x[…] else 0)`",
                  rule ? arena_printf(l->arena, "if it always is: `assume %s`; else ", rule) : "");
        lower_fix_around(l, diag, whole, "(", " else 0)");
    }
    if (first && last) {
        const char *values = dim_text(l, first);
        if (first != last) {
            values = arena_printf(l->arena, "from %s to %s", values, dim_text(l, last));
        }
        diag_note(l->diags, diag, "it is %s, and the axis from 0 to %s%s", values, dim_text(l, end),
                  why);
    } else if (small) {
        diag_note(l->diags, diag, "%s", why + 2);
    }
}

/* Reports indices that may lie outside. */
static bool check_inside(Lower *l, const IndexedAccess *places, const Expr *access)
{
    bool good = true;
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        if (axis_index->kind == INDEX_AT && !axis_index->inside && !axis_index->data) {
            report_outside(l, axis_index, access->span);
            good = false;
        }
    }
    return good;
}

/* ---- loads ---- */

int whole_lane(const Lower *l, const Val *val, Dim extent)
{
    const IndexVar *var = val->kind == VAL_ARRAY ? affine_as_var(val->affine) : NULL;
    int64_t first;
    for (int i = 0; var && i < l->n_lanes; i++) {
        const Lane *lane = &l->lanes[i];
        bool whole = lane->extent == extent && poly_is_const(var->least, &first) && first == 0;
        if (lane->var == var && whole && shape_of(val).rank == 0) {
            return i;
        }
    }
    return -1;
}

bool is_plain(const Lower *l, const IndexedAccess *places, Lanes *lanes)
{
    *lanes = 0;
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        if (axis_index->kind == INDEX_SLICE) {
            return false;
        }
        if (axis_index->kind != INDEX_AT) {
            continue;
        }
        int lane = whole_lane(l, &axis_index->val, axis_index->extent);
        bool scalar = axis_index->inside && axis_index->val.lanes == 0 &&
                      shape_of(&axis_index->val).rank == 0;
        if (!scalar && (lane < 0 || *lanes >> lane & 1)) {
            return false;
        }
        *lanes |= lane < 0 ? 0 : (Lanes)1 << lane;
    }
    return true;
}

/* Moves the axes of lanes, in the order of the lanes, before the others. lane[i] is the lane of
 * axis i, or -1. */
static Value *lanes_first(Lower *l, Value *value, const int *lane)
{
    int64_t perm[MAX_RANK];
    int n = 0;
    for (int want = 0; want < l->n_lanes; want++) {
        for (int i = 0; i < value->type->rank; i++) {
            if (lane[i] == want) {
                perm[n++] = i;
            }
        }
    }
    for (int i = 0; i < value->type->rank; i++) {
        if (lane[i] < 0) {
            perm[n++] = i;
        }
    }
    bool same = true;
    for (int i = 0; i < n; i++) {
        same = same && perm[i] == i;
    }
    return same ? value : build_permute(&l->b, value, perm);
}

static Val add_new_axes(Lower *l, Span span, Val val, const IndexedAccess *places)
{
    int at = lane_count(val.lanes);
    for (int i = 0; i <= places->n; i++) {
        int new_axes = i < places->n ? places->new_axes[i] : places->new_axes_behind;
        for (int k = 0; k < new_axes; k++) {
            if (val.value->type->rank >= MAX_RANK) {
                lower_error(l, ERR_RANK, span, "an array has at most %d axes", MAX_RANK);
                return poison_val();
            }
            val.value = build_expand(&l->b, val.value, at++);
        }
        bool kept = i < places->n && (places->at[i].kind != INDEX_AT);
        at += kept;
    }
    return val;
}

/* ---- arrays ---- */

static bool drops_axis(const AxisIndex *axis_index)
{
    return axis_index->val.kind == VAL_CONST && axis_index->val.scalar.i == 0 &&
           poly_is_number(axis_index->extent, 1);
}

/* True if every axis of the array is taken whole, by a new lane, or by index 0 of extent 1. */
static bool takes_array(const Lower *l, const Val *array, const IndexedAccess *places, Lanes *lanes)
{
    *lanes = array->lanes;
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        if (axis_index->kind == INDEX_WHOLE ||
            (axis_index->kind == INDEX_AT && drops_axis(axis_index))) {
            continue;
        }
        int lane =
            axis_index->kind == INDEX_AT ? whole_lane(l, &axis_index->val, axis_index->extent) : -1;
        if (lane < 0 || *lanes >> lane & 1) {
            return false;
        }
        *lanes |= (Lanes)1 << lane;
    }
    return true;
}

/* ---- gathers ---- */

static Val read_memory(Lower *l, const Expr *expr, const Val *memory, const IndexedAccess *places,
                       const Val *otherwise)
{
    Lanes lanes;
    if (memory->kind == VAL_TENSOR && is_plain(l, places, &lanes)) {
        Value *tensor = memory->value;
        Value *indices[MAX_RANK];
        int lane[MAX_RANK], rank = 0;
        for (int i = 0; i < places->n; i++) {
            const AxisIndex *axis_index = &places->at[i];
            int walks = axis_index->kind == INDEX_AT
                            ? whole_lane(l, &axis_index->val, axis_index->extent)
                            : -1;
            bool scalar = axis_index->kind == INDEX_AT && walks < 0;
            if (scalar) {
                indices[i] = as_index(l, &axis_index->val);
            } else if (axis_index->kind == INDEX_RANGE) {
                indices[i] = axis_index->val.value;
            } else {
                indices[i] = NULL;
            }
            if (!scalar) {
                lane[rank++] = walks;
            }
        }
        Value *value = build_load(&l->b, tensor, indices);
        return add_new_axes(l, expr->span, lanes_val(lanes_first(l, value, lane), lanes), places);
    }
    if (memory->kind == VAL_ARRAY && takes_array(l, memory, places, &lanes)) {
        Value *value = memory->value;
        int lane[MAX_RANK], rank = 0;
        for (int i = 0; i < l->n_lanes; i++) {
            if (memory->lanes >> i & 1) {
                lane[rank++] = i;
            }
        }
        for (int i = 0; i < places->n; i++) {
            const AxisIndex *axis_index = &places->at[i];
            if (axis_index->kind == INDEX_AT && drops_axis(axis_index)) {
                value = build_squeeze(&l->b, value, rank);
            } else {
                lane[rank++] = axis_index->kind == INDEX_AT
                                   ? whole_lane(l, &axis_index->val, axis_index->extent)
                                   : -1;
            }
        }
        return add_new_axes(l, expr->span, lanes_val(lanes_first(l, value, lane), lanes), places);
    }
    Val indices[MAX_RANK];
    bool inside[MAX_RANK];
    Shape shape;
    if (!selected_shape(l, expr->span, places, indices, &shape)) {
        return poison_val();
    }
    for (int i = 0; i < places->n; i++) {
        inside[i] = places->at[i].kind != INDEX_AT || places->at[i].inside;
    }
    return gather_vals(l, expr->span, memory, indices, inside, otherwise, shape);
}

/* Reads with a default: the gather yields a constant one by itself; any other is selected where an
 * index is outside. */
static Val read_or(Lower *l, const Expr *expr, const Val *memory, const IndexedAccess *places,
                   const Expr *otherwise)
{
    Val fallback = lower_operand(l, otherwise), indices[MAX_RANK];
    DType dtype;
    Shape shape;
    if (is_poison(&fallback) || !select_dtype(l, otherwise, memory, &fallback, &dtype)) {
        return poison_val();
    }
    if (fallback.kind == VAL_CONST && dtype == dtype_of(memory)) {
        return read_memory(l, expr, memory, places, &fallback);
    }
    Val v[3];
    v[1] = read_memory(l, expr, memory, places, NULL);
    if (is_poison(&v[1]) || !selected_shape(l, expr->span, places, indices, &shape)) {
        return poison_val();
    }
    v[0] = inside_val(l, places, indices);
    v[2] = fallback;
    const Expr *const parts[3] = {expr, expr, otherwise};
    return select_vals(l, expr, parts, v);
}

/* ---- N[lo: hi] ---- */

static bool part_end(Lower *l, const Expr *end, Value **out, Dim *size)
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
    if (val.kind == VAL_DIM) {
        *size = val.dim;
    } else if (val.kind == VAL_CONST) {
        *size = poly_const(l->func, val.scalar.i);
    } else {
        *size = NULL;
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
        diag_help(l->diags, diag, "a loop iterates over a part of it by `%s[lo: hi]`",
                  dim_text(l, whole));
        return poison_val();
    }
    if (!part_end(l, slice->a, &part.lo, &part.from) ||
        !part_end(l, slice->b, &part.hi, &part.to)) {
        return poison_val();
    }
    return part;
}

Val lower_index(Lower *l, const Expr *expr, const Expr *otherwise)
{
    Val base = lower_expr(l, expr->a);
    if (base.kind == VAL_DTYPE) {
        Val type = {.kind = VAL_TYPE, .type = lower_type(l, expr)};
        return type.type ? type : poison_val();
    }
    if (base.known_value && base.is_inout) {
        base = array_val(base.known_value);
    }
    if (base.kind == VAL_TENSOR || base.kind == VAL_ARRAY) {
        IndexedAccess places;
        Shape shape = shape_of(&base);
        if (base.is_result && !base.is_inout) {
            return read_result(l, expr);
        }
        if (!lower_access(l, expr, dtype_of(&base), &shape, &places)) {
            return poison_val();
        }
        if (otherwise) {
            return read_or(l, expr, &base, &places, otherwise);
        }
        return check_inside(l, &places, expr) ? read_memory(l, expr, &base, &places, NULL)
                                              : poison_val();
    }
    switch (base.kind) {
    case VAL_DIM: return part_of(l, expr, base.dim);
    case VAL_CONST:
        if (dtype_is_int(base.dtype) && base.scalar.i >= 0) {
            return part_of(l, expr, poly_const(l->func, base.scalar.i));
        }
        break;
    case VAL_RANGE: {
        Val part = part_of(l, expr, poly_as_range(base.dim)->axis_extent);
        if (is_poison(&part)) {
            return part;
        }
        Value *start = build_range_fact(&l->b, OP_START, base.value), *zero = build_i64(&l->b, 0);
        Value *end = build_range_fact(&l->b, OP_END, base.value);
        Value *ends[] = {part.lo, part.hi};
        for (int i = 0; i < 2; i++) {
            ends[i] = ends[i] ? build_binary(&l->b, OP_MAX, ends[i], zero) : NULL;
            ends[i] = ends[i] ? build_binary(&l->b, OP_ADD, start, ends[i]) : NULL;
        }
        part.affine = base.affine;
        part.from = part.to = NULL;
        part.lo = ends[0] ? ends[0] : start;
        part.hi = ends[1] ? build_binary(&l->b, OP_MIN, ends[1], end) : end;
        return part;
    }
    case VAL_POISON: return base;
    default: break;
    }
    lower_error(l, ERR_INDEX, expr->span, "%s has no axes to index", val_text(l, &base));
    return poison_val();
}
