/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: index variables as axes. Index notation is not executed element by element. A value in it
 * is an array over the lanes that it depends on, and two values are broadcast to the union of
 * their lanes. */
#include "frontend/lower/lower.h"

int lane_count(Lanes lanes)
{
    return __builtin_popcount(lanes);
}

Lanes lanes_from(const Lower *l, int n)
{
    uint64_t open = ((uint64_t)1 << l->n_lanes) - 1;
    return (Lanes)(open & ~(((uint64_t)1 << n) - 1));
}

IndexVar *index_var(Lower *l, Dim least, Dim most)
{
    IndexVar *var = ARENA_NEW(l->arena, IndexVar);
    *var = (IndexVar){.id = l->n_index_vars++, .least = least, .most = most};
    return var;
}

/* ---- shapes ---- */

bool full_shape(Lower *l, Span span, const Shape *shape, Shape *out)
{
    *out = (Shape){.rank = 0};
    if (lane_count(shape->lanes) + shape->rank > MAX_RANK) {
        Diag *diag = lower_error(l, ERR_RANK, span, "this value has %d axes",
                                 lane_count(shape->lanes) + shape->rank);
        diag_help(l->diags, diag, "indices count as axes, and there may be %d", MAX_RANK);
        return false;
    }
    for (int i = 0; i < l->n_lanes; i++) {
        if (shape->lanes >> i & 1) {
            out->dims[out->rank++] = l->lanes[i].extent;
        }
    }
    for (int i = 0; i < shape->rank; i++) {
        out->dims[out->rank++] = shape->dims[i];
    }
    return true;
}

Value *add_lanes(Lower *l, const Val *val, Lanes lanes)
{
    Value *value = val->value;
    for (int i = 0, at = 0; i < l->n_lanes; i++) {
        if ((lanes & ~val->lanes) >> i & 1) {
            value = build_expand(&l->b, value, at);
        }
        at += (int)(lanes >> i & 1);
    }
    return value;
}

/* ---- opening and closing ---- */

Lane *open_lane(Lower *l, const char *name, Span span, Dim extent, Dim first)
{
    if (l->n_lanes >= MAX_LANES) {
        lower_error(l, ERR_RANK, span, "more than %d indices are open here", MAX_LANES);
        define(l, name, span, poison_val());
        return NULL;
    }
    Lane *lane = &l->lanes[l->n_lanes++];
    Dim end = poly_add(l->func, first, extent);
    Dim most = end ? dim_sub(l->func, end, poly_const(l->func, 1)) : NULL;
    *lane = (Lane){.name = name, .span = span, .extent = extent};
    lane->var = index_var(l, first, most);
    Lanes self = (Lanes)1 << (l->n_lanes - 1);
    int64_t at;
    Value *value = build_iota(&l->b, lane->extent, DT_I64);
    if (!poly_is_const(first, &at) || at != 0) {
        Value *from = build_broadcast(&l->b, build_size(&l->b, first), 1, &lane->extent);
        value = build_binary(&l->b, OP_ADD, value, from);
    }
    value->name = lane->name;
    Val val = lanes_val(value, self);
    val.affine = affine_var(l->func, lane->var);
    lane->index = val;
    return lane;
}

void close_lanes(Lower *l, int n)
{
    l->n_lanes = n;
}

/* ---- axes of the source ---- */

static bool size_of(Lower *l, const Expr *expr, Dim *out)
{
    Val val = lower_expr(l, expr);
    *out = NULL;
    if (val.kind == VAL_DIM) {
        *out = val.dim;
    } else if (val.kind == VAL_CONST && dtype_is_int(val.dtype)) {
        *out = poly_const(l->func, val.scalar.i);
    } else if (!is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_EXTENT, expr->span, "an index cannot iterate over %s",
                                 val_text(l, &val));
        diag_help(l->diags, diag, "%s",
                  val.kind == VAL_RANGE
                      ? "iterate over the range with `for`, or reduce its tile: "
                        "`sum(x[i, :], axis=0)`"
                      : "it iterates over a size, `N`, or `a..b` made of sizes; for less "
                        "write a condition, `sum(i in N if i < n) …`");
    }
    return *out != NULL;
}

/* What a size must be so that dim >= least, when dim is a size, perhaps and a constant. */
static const DimVar *size_least(Dim dim, int64_t *least)
{
    bool two = dim->n_terms == 2 && dim->terms[0].n == 0;
    const PolyTerm *term = dim->n_terms > 0 ? &dim->terms[dim->n_terms - 1] : NULL;
    bool one = term && (two || dim->n_terms == 1) && term->n == 1 && term->coef == 1;
    if (!one || (two && __builtin_sub_overflow(*least, dim->terms[0].coef, least))) {
        return NULL;
    }
    const DimVar *var = term->vars[0];
    if (var->by <= 0) {
        return var;
    }
    return __builtin_mul_overflow(*least, var->by, least) ? NULL : size_least(var->of, least);
}

const DimVar *single_size(Dim dim, int64_t *least)
{
    *least = 0;
    const DimVar *var = size_least(dim, least);
    return var && *least > 0 ? var : NULL;
}

/* Of an axis: tiles round it up to a multiple of theirs, which is below 2^63. */
static const int64_t MAX_ELEMENTS = (int64_t)1 << 62;

bool axis_extent(Lower *l, const Axis *axis, Dim *first, Dim *extent)
{
    Dim lo = poly_const(l->func, 0), hi;
    if (axis->to && !size_of(l, axis->extent, &lo)) {
        return false;
    }
    if (!size_of(l, axis->to ? axis->to : axis->extent, &hi)) {
        return false;
    }
    *first = lo;
    *extent = dim_exact(l->func, dim_sub(l->func, hi, lo));
    Span span = axis->to ? span_join(axis->extent->span, axis->to->span) : axis->extent->span;
    int64_t elements;
    if (poly_is_const(*extent, &elements) && elements > MAX_ELEMENTS) {
        Diag *diag =
            lower_error(l, ERR_EXTENT, span, "this has %lld elements", (long long)elements);
        diag_help(l->diags, diag, "an axis has %lld at most: 2^62", (long long)MAX_ELEMENTS);
        return false;
    }
    if (dim_is_natural(l->func, *extent)) {
        return true;
    }
    may_be_negative(l, span, *extent);
    return false;
}

void negative_extent(Lower *l, Span span, int64_t elements)
{
    Diag *diag = lower_error(l, ERR_EXTENT, span, "this has %lld elements", (long long)elements);
    diag_help(l->diags, diag,
              "an extent is at least 0: bind the constants in it to larger values, or count in the "
              "other direction");
}

void may_be_negative(Lower *l, Span span, Dim extent)
{
    int64_t least, elements;
    if (poly_is_const(extent, &elements)) {
        negative_extent(l, span, elements);
        return;
    }
    Diag *diag = lower_error(l, ERR_EXTENT, span, "this may have fewer than 0 elements");
    const DimVar *var = single_size(extent, &least);
    if (var) {
        diag_help(l->diags, diag, "if it never has: `assume %s >= %lld`", var->name,
                  (long long)least);
    } else {
        diag_help(l->diags, diag, "if it never has: `assume %s >= 0`", dim_text(l, extent));
    }
    diag_note(l->diags, diag, "it has %s", dim_text(l, extent));
}

static bool bound_twice(Lower *l, const Axis *axis, int from)
{
    for (int i = from; i < l->n_lanes; i++) {
        if (text_equal(l->lanes[i].name, axis->name)) {
            Diag *diag =
                lower_error(l, ERR_DUPLICATE, axis->span, "`%s` is defined twice", axis->name);
            diag_label(l->diags, diag, l->lanes[i].span, "first here");
            return true;
        }
    }
    return false;
}

bool open_axes(Lower *l, const AxisList *axes)
{
    bool good = true;
    int from = l->n_lanes;
    for (size_t i = 0; i < axes->n; i++) {
        const Axis *axis = &axes->items[i];
        Dim first, extent;
        bool known = !bound_twice(l, axis, from) && axis_extent(l, axis, &first, &extent);
        Lane *lane = known ? open_lane(l, axis->name, axis->span, extent, first) : NULL;
        define(l, axis->name, axis->span, lane ? lane->index : poison_val());
        good = good && lane;
    }
    return good;
}
