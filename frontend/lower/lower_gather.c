/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers: reads of memory at computed indices. Windows, views and table look-ups are all lowered
 * to gathers with arrays of indices; passes find out later which indices are affine. */
#include "frontend/lower/lower_index.h"

Val iota_val(Lower *l, Dim extent, int trailing)
{
    Val val = array_val(build_iota(&l->b, extent, DT_I64));
    Dim last = dim_sub(l->func, extent, poly_const(l->func, 1));
    val.affine = affine_var(l->func, index_var(l, poly_const(l->func, 0), last));
    for (int i = 0; i < trailing; i++) {
        val.value = build_expand(&l->b, val.value, 1 + i);
    }
    return val;
}

Value *index_operand(Lower *l, const Val *index, const Shape *shape)
{
    DType dtype = dtype_of(index) == DT_I32 ? DT_I32 : DT_I64;
    Shape own = shape_of(index);
    bool scalar = own.rank == 0 && own.lanes == 0;
    return materialize(l, index, dtype, scalar ? &own : shape);
}

/* At least one index has the shape of the result: it follows from them. */
static void shape_one(Lower *l, Value **operands, int n, const Shape *shape)
{
    Shape full;
    full_shape(l, l->b.span, shape, &full);
    for (int i = 0; i < n; i++) {
        if (operands[i]->type->rank == full.rank) {
            return;
        }
    }
    operands[0] = build_broadcast(&l->b, operands[0], full.rank, full.dims);
}

/* Is the value made inside of the loop whose elements end by themselves? */
static bool made_in_loop(const Lower *l, const Value *value)
{
    const Block *block = value->def ? value->def->parent : value->block;
    for (const Op *op = block ? block->parent : NULL; op && l->lane_loop;
         op = op->parent ? op->parent->parent : NULL) {
        if (op == l->lane_loop) {
            return true;
        }
    }
    return false;
}

Val gather_vals(Lower *l, Span span, const Val *memory, const Val *indices, const bool *inside,
                const Val *otherwise, Shape shape)
{
    Shape own = shape_of(memory), full;
    Val all[MAX_RANK];
    Value *operands[MAX_RANK];
    int64_t guards[MAX_RANK];
    int n = 0;
    if (memory->kind == VAL_ARRAY && made_in_loop(l, memory->value)) {
        Diag *diag = lower_error(l, ERR_LANE_LOOP, span,
                                 "this array is computed inside of a loop that ends element by "
                                 "element, and cannot be read by index there");
        diag_help(l->diags, diag, "make it before the loop");
        return poison_val();
    }
    for (int i = 0; i < l->n_lanes; i++) {
        if (memory->lanes >> i & 1) {
            guards[n] = 0;
            all[n++] = l->lanes[i].index;
        }
    }
    for (int i = 0; i < own.rank; i++) {
        guards[n] = inside[i] ? 0 : 1;
        all[n++] = indices[i];
    }
    for (int i = 0; i < n; i++) {
        shape.lanes |= all[i].lanes;
    }
    if (!full_shape(l, span, &shape, &full)) {
        return poison_val();
    }
    for (int i = 0; i < n; i++) {
        operands[i] = index_operand(l, &all[i], &shape);
    }
    shape_one(l, operands, n, &shape);
    Value *value = build_gather(&l->b, memory->value, operands);
    op_set_ints(l->func, value->def, ATTR_GUARD, n, guards);
    DType dtype = value->type->dtype;
    if (otherwise) {
        Val converted = convert_const(otherwise, dtype);
        op_set_num(l->func, value->def, ATTR_VALUE, converted.scalar.f, converted.scalar.i);
    }
    return shaped_val(value, &shape);
}

/* ---- the shape that indices select ---- */

/* Array indices broadcast together. */
static bool group_shape(Lower *l, const IndexedAccess *places, Shape *group)
{
    *group = (Shape){.rank = 0};
    const AxisIndex *first = NULL;
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        Shape shape = shape_of(&axis_index->val);
        if (axis_index->kind != INDEX_AT || shape.rank == 0) {
            continue;
        }
        first = first ? first : axis_index;
        if (!broadcast_shapes(l, axis_index->expr->span, first->expr, &first->val, axis_index->expr,
                              &axis_index->val, group, &shape, group)) {
            return false;
        }
    }
    group->lanes = 0;
    return true;
}

static bool push_dim(Lower *l, Span span, Shape *shape, Dim dim)
{
    if (shape->rank >= MAX_RANK) {
        lower_error(l, ERR_RANK, span, "an array has at most %d axes", MAX_RANK);
        return false;
    }
    shape->dims[shape->rank++] = dim;
    return true;
}

/* Appends the axes of one index; *at: where they begin. */
static bool push_place(Lower *l, const AxisIndex *axis_index, const Shape *group, int *group_at,
                       Shape *shape)
{
    if (axis_index->kind == INDEX_WHOLE) {
        return push_dim(l, axis_index->expr->span, shape, axis_index->extent);
    }
    if (axis_index->kind == INDEX_RANGE) {
        return push_dim(l, axis_index->expr->span, shape, axis_index->val.dim);
    }
    if (axis_index->kind == INDEX_SLICE) {
        return push_dim(l, axis_index->expr->span, shape, axis_index->count);
    }
    bool good = true;
    if (shape_of(&axis_index->val).rank > 0 && *group_at < 0) {
        *group_at = shape->rank;
        for (int i = 0; i < group->rank && good; i++) {
            good = push_dim(l, axis_index->expr->span, shape, group->dims[i]);
        }
    }
    shape->lanes |= axis_index->val.lanes;
    return good;
}

static Val place_index(Lower *l, const AxisIndex *axis_index, int trailing)
{
    if (axis_index->kind == INDEX_WHOLE) {
        return iota_val(l, axis_index->extent, trailing);
    }
    Val val = axis_index->val;
    if (axis_index->kind == INDEX_RANGE) {
        val = array_val(build_index(&l->b, val.value, DT_I64));
    }
    for (int i = 0; i < trailing && val.kind == VAL_ARRAY; i++) {
        val.value = build_expand(&l->b, val.value, val.value->type->rank);
    }
    return val;
}

bool selected_shape(Lower *l, Span span, const IndexedAccess *places, Val *indices, Shape *shape)
{
    Shape group;
    int starts[MAX_RANK], group_at = -1;
    *shape = (Shape){.rank = 0};
    if (!group_shape(l, places, &group)) {
        return false;
    }
    for (int i = 0; i <= places->n; i++) {
        int new_axes = i < places->n ? places->new_axes[i] : places->new_axes_behind;
        for (int k = 0; k < new_axes; k++) {
            if (!push_dim(l, span, shape, poly_const(l->func, 1))) {
                return false;
            }
        }
        if (i < places->n) {
            starts[i] = shape->rank;
            if (!push_place(l, &places->at[i], &group, &group_at, shape)) {
                return false;
            }
        }
    }
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        int rank = shape_of(&axis_index->val).rank;
        int trailing = shape->rank - starts[i] - 1;
        if (axis_index->kind == INDEX_AT) {
            trailing = rank ? shape->rank - group_at - group.rank : 0;
        }
        indices[i] = place_index(l, axis_index, trailing);
    }
    return true;
}

/* ---- is it inside? ---- */

static Val compare(Lower *l, const char *pred, const Val *a, const Val *b)
{
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    return apply_binary(l, &none, OP_CMP, pred, a, b, &none, &none);
}

Val inside_val(Lower *l, const IndexedAccess *places, const Val *indices)
{
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    Val all = bool_val(true), zero = int_val(0, true);
    for (int i = 0; i < places->n; i++) {
        const AxisIndex *axis_index = &places->at[i];
        if (axis_index->kind != INDEX_AT || axis_index->inside) {
            continue;
        }
        Val extent = dim_val(axis_index->extent);
        Val index = indices[i];
        if (index.kind == VAL_ARRAY) {
            index.value = build_cast(&l->b, index.value, DT_I64);
        }
        Val low = compare(l, "ge", &index, &zero), high = compare(l, "lt", &index, &extent);
        Val both = apply_binary(l, &none, OP_AND, NULL, &low, &high, &none, &none);
        all = apply_binary(l, &none, OP_AND, NULL, &all, &both, &none, &none);
    }
    return all;
}
