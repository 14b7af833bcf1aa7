/* SPDX-License-Identifier: Apache-2.0 */
/* Concatenating and splitting arrays along an axis, and arrays that are computed from their
 * indices alone. */
#include "frontend/lower/lower_views.h"

/* ---- concat, stack ---- */

typedef struct Pieces {
    Val vals[64];
    const Expr *exprs[64];
    int n;
} Pieces;

/* stack: every piece gets a new axis of extent 1. */
static Val with_axis(Lower *l, const Val *val, int axis)
{
    Val out = *val;
    int lanes = lane_count(val->lanes);
    out.value = build_expand(&l->b, val->value, lanes + axis);
    return out;
}

static bool take_pieces(Lower *l, const Expr *expr, Pieces *out)
{
    size_t most = sizeof out->vals / sizeof *out->vals;
    if ((expr->kind != EXPR_LIST && expr->kind != EXPR_TUPLE) || expr->args.n == 0 ||
        expr->args.n > most) {
        Diag *diag =
            lower_error(l, ERR_VIEW, expr->span, "1 to %zu arrays in a list are joined", most);
        diag_help(l->diags, diag, "write `concat([a, b], axis=0)`");
        return false;
    }
    for (size_t i = 0; i < expr->args.n; i++) {
        Val val = lower_operand(l, expr->args.items[i]);
        if (!is_poison(&val) && val.kind != VAL_ARRAY) {
            val = array_val(as_value(l, &val));
        }
        out->exprs[out->n] = expr->args.items[i];
        out->vals[out->n++] = val;
        if (is_poison(&val)) {
            return false;
        }
    }
    return true;
}

static bool can_concat(Lower *l, const Pieces *pieces, int i, int axis)
{
    Shape first = shape_of(&pieces->vals[0]), own = shape_of(&pieces->vals[i]);
    bool fits = own.rank == first.rank;
    for (int k = 0; fits && k < own.rank; k++) {
        fits = k == axis || own.dims[k] == first.dims[k];
    }
    if (!fits) {
        Diag *diag =
            lower_error(l, ERR_SHAPES, pieces->exprs[i]->span, "%s does not fit next to %s",
                        val_text(l, &pieces->vals[i]), val_text(l, &pieces->vals[0]));
        diag_label(l->diags, diag, pieces->exprs[0]->span, "the first");
        if (axis < 0) {
            diag_note(l->diags, diag, "all axes are equal");
        } else {
            diag_note(l->diags, diag, "all axes but axis %d are equal", axis);
        }
    }
    return fits;
}

/* Selects the elements of this piece from `start` on, and those of earlier pieces before it. */
static Val joined(Lower *l, const Expr *expr, const Val *before, const Val *piece, int axis,
                  Dim start, Dim extent)
{
    Shape shape = shape_of(piece);
    Val own = iota_val(l, extent, shape.rank - 1 - axis);
    Val index = view_compute(l, OP_SUB, NULL, own, dim_val(start));
    Val part = view_along(l, piece, axis, extent, index, false);
    if (!before) {
        return part;
    }
    Val v[3] = {view_compute(l, OP_CMP, "lt", own, dim_val(start)), *before, part};
    const Expr *const parts[3] = {expr, expr, expr};
    return is_poison(&part) ? part : select_vals(l, expr, parts, v);
}

Val lower_concat(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"arrays", "axis", NULL};
    const Expr *args[2];
    Pieces pieces = {.n = 0};
    bool stacks = builtin == BUILTIN_STACK;
    int axis;
    if (!view_arguments(l, expr, names, 1,
                        stacks ? "stack([a, b], axis=0)" : "concat([a, b], axis=0)", args) ||
        !take_pieces(l, args[0], &pieces) ||
        !view_axis(l, args[1], shape_of(&pieces.vals[0]).rank + stacks, 0, &axis)) {
        return poison_val();
    }
    Dim extent = poly_const(l->func, 0), start = extent;
    for (int i = 0; i < pieces.n; i++) {
        if (!can_concat(l, &pieces, i, stacks ? -1 : axis)) {
            return poison_val();
        }
    }
    for (int i = 0; i < pieces.n; i++) {
        pieces.vals[i] = stacks ? with_axis(l, &pieces.vals[i], axis) : pieces.vals[i];
        extent =
            dim_exact(l->func, poly_add(l->func, extent, shape_of(&pieces.vals[i]).dims[axis]));
    }
    Val out = {0};
    for (int i = 0; i < pieces.n; i++) {
        out = joined(l, expr, i ? &out : NULL, &pieces.vals[i], axis, start, extent);
        if (is_poison(&out)) {
            break;
        }
        start = poly_add(l->func, start, shape_of(&pieces.vals[i]).dims[axis]);
    }
    return out;
}

/* ---- split ---- */

static Val parts_of(Lower *l, const Val *from, int axis, const Dim *extents, int n)
{
    Val tuple = {.kind = VAL_TUPLE, .n_items = n, .items = ARENA_ARRAY(l->arena, Val, n)};
    Dim start = poly_const(l->func, 0);
    for (int i = 0; i < n; i++) {
        Val own = iota_val(l, extents[i], shape_of(from).rank - 1 - axis);
        Val index = view_compute(l, OP_ADD, NULL, own, dim_val(start));
        tuple.items[i] = view_along(l, from, axis, extents[i], index, true);
        start = poly_add(l->func, start, extents[i]);
    }
    return tuple;
}

/* A number of equal parts, or a list of their extents. */
static int split_extents(Lower *l, const Expr *expr, Dim whole, Dim *out, int most)
{
    int64_t n = 0;
    Dim sum = poly_const(l->func, 0);
    if (expr->kind != EXPR_LIST) {
        if (!const_int(l, expr, &n)) {
            return 0;
        }
        bool divides = n >= 1 && n <= most && poly_divisor(whole) % n == 0;
        Dim each = divides ? dim_quotient(l->func, whole, n) : NULL;
        if (!each) {
            Diag *diag = lower_error(l, ERR_VIEW, expr->span, "%s does not split into %lld parts",
                                     dim_text(l, whole), (long long)n);
            diag_help(l->diags, diag, "give their extents: `split(x, [A, B], axis=0)`");
            return 0;
        }
        for (int i = 0; i < n; i++) {
            out[i] = each;
        }
        return (int)n;
    }
    for (size_t i = 0; i < expr->args.n && (int)i < most; i++) {
        out[n] = lower_dim(l, expr->args.items[i]);
        if (!out[n]) {
            return 0;
        }
        sum = poly_add(l->func, sum, out[n++]);
    }
    if (!dim_same(l->func, sum, whole) || (int)expr->args.n > most) {
        lower_error(l, ERR_VIEW, expr->span, "the parts have %s elements, the axis %s",
                    dim_text(l, sum), dim_text(l, whole));
        return 0;
    }
    return (int)n;
}

Val lower_split(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "parts", "axis", NULL};
    const Expr *args[3];
    Dim extents[64];
    int axis;
    (void)builtin;
    if (!view_arguments(l, expr, names, 2, "split(x, 2, axis=0)", args)) {
        return poison_val();
    }
    Val from = view_operand(l, args[0]);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || !view_axis(l, args[2], shape.rank, 0, &axis)) {
        return poison_val();
    }
    int n = split_extents(l, args[1], shape.dims[axis], extents, 64);
    return n ? parts_of(l, &from, axis, extents, n) : poison_val();
}

/* ---- arrays of indices ---- */

Val lower_iota(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"extent", NULL};
    const Expr *args[1];
    (void)builtin;
    if (!view_arguments(l, expr, names, 1, "iota(N)", args)) {
        return poison_val();
    }
    Dim extent = lower_dim(l, args[0]);
    return extent ? iota_val(l, extent, 0) : poison_val();
}

/* column - row >= k */
static Val triangle(Lower *l, const Shape *shape, const char *pred, Val k)
{
    Val row = iota_val(l, shape->dims[shape->rank - 2], 1);
    Val column = iota_val(l, shape->dims[shape->rank - 1], 0);
    return view_compute(l, OP_CMP, pred, view_compute(l, OP_SUB, NULL, column, row), k);
}

Val lower_triangle(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "k", NULL};
    const Expr *args[2];
    bool upper = builtin == BUILTIN_TRIU;
    if (!view_arguments(l, expr, names, 1, upper ? "triu(x, k=0)" : "tril(x, k=0)", args)) {
        return poison_val();
    }
    Val from = lower_operand(l, args[0]), k = args[1] ? lower_operand(l, args[1]) : int_val(0, 0);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || is_poison(&k)) {
        return poison_val();
    }
    if (shape.rank < 2 || !is_scalar_int(&k)) {
        lower_error(l, ERR_VIEW, expr->span, "a triangle is of a matrix, at an integer diagonal");
        return poison_val();
    }
    const Expr *const parts[3] = {expr, args[0], expr};
    Val v[3] = {triangle(l, &shape, upper ? "ge" : "le", k), from, int_val(0, true)};
    if (dtype_is_float(dtype_of(&from))) {
        v[2] = float_val(0);
        v[2].literal = true;
    }
    return is_poison(&v[0]) ? v[0] : select_vals(l, expr, parts, v);
}

Val lower_eye(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"type", NULL};
    const Expr *args[1];
    (void)builtin;
    if (!view_arguments(l, expr, names, 1, "eye(f32[N, N])", args)) {
        return poison_val();
    }
    Val type = lower_expr(l, args[0]);
    if (type.kind != VAL_TYPE || type.type->rank < 2) {
        if (!is_poison(&type)) {
            lower_error(l, ERR_TYPE_NAME, args[0]->span, "this is not the type of a matrix");
        }
        return poison_val();
    }
    Shape shape = type_shape(type.type);
    Val equal = triangle(l, &shape, "eq", int_val(0, true));
    Value *value = materialize(l, &equal, DT_BOOL, &shape);
    return array_val(build_cast(&l->b, value, type.type->dtype));
}

/* n numbers from a to b, both included: a + i (b - a) / (n - 1). */
Val lower_linspace(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"a", "b", "n", NULL};
    const Expr *args[3];
    (void)builtin;
    if (!view_arguments(l, expr, names, 3, "linspace(0.0, 1.0, N)", args)) {
        return poison_val();
    }
    Val a = lower_operand(l, args[0]), b = lower_operand(l, args[1]);
    Dim n = lower_dim(l, args[2]);
    if (is_poison(&a) || is_poison(&b) || !n) {
        return poison_val();
    }
    Val steps =
        view_compute(l, OP_MAX, NULL, view_compute(l, OP_SUB, NULL, dim_val(n), int_val(1, 0)),
                     int_val(1, false));
    Val index = iota_val(l, n, 0);
    Shape shape = shape_of(&index), none = {.rank = 0};
    Val at = array_val(build_cast(&l->b, materialize(l, &index, DT_I64, &shape), DT_F32));
    Val last = array_val(build_cast(&l->b, materialize(l, &steps, DT_I64, &none), DT_F32));
    Val step = view_compute(l, OP_DIV, NULL, view_compute(l, OP_SUB, NULL, b, a), last);
    return view_compute(l, OP_ADD, NULL, view_compute(l, OP_MUL, NULL, at, step), a);
}
