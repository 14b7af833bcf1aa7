/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the elements of an array in another shape or order. Each view is a gather whose indices
 * are arithmetic on the result's own indices; nothing is copied unless a pass finds that a copy is
 * faster. */
#include "frontend/lower/lower_reduce.h"
#include "frontend/lower/lower_views.h"

/* ---- arguments ---- */

bool view_arguments(Lower *l, const Expr *expr, const char *const *names, size_t needed,
                    const char *usage, const Expr **out)
{
    size_t n = 0;
    bool good = true;
    while (names[n]) {
        out[n++] = NULL;
    }
    for (size_t i = 0; i < expr->args.n && good; i++) {
        const Expr *arg = expr->args.items[i];
        size_t at = i;
        for (size_t k = 0; arg->kind == EXPR_NAMED && k <= n; k++) {
            at = k < n && text_equal(names[k], arg->name) ? k : at;
            good = good && (k < n || (at < n && text_equal(names[at], arg->name)));
        }
        good = good && at < n && !out[at];
        if (good) {
            out[at] = arg->kind == EXPR_NAMED ? arg->a : arg;
        }
    }
    for (size_t i = 0; i < needed; i++) {
        good = good && out[i];
    }
    if (!good) {
        Diag *diag = lower_wrong_call(l, expr);
        diag_help(l->diags, diag, "write `%s`", usage);
    }
    return good;
}

Val view_operand(Lower *l, const Expr *expr)
{
    Val val = lower_expr(l, expr);
    if (val.kind != VAL_TENSOR || val.is_result) {
        val = as_operand(l, expr, val);
    }
    if (is_poison(&val) || shape_of(&val).rank > 0) {
        return val;
    }
    lower_error(l, ERR_VIEW, expr->span, "%s has no axes", val_text(l, &val));
    return poison_val();
}

bool view_axis(Lower *l, const Expr *expr, int rank, int otherwise, int *axis)
{
    int64_t at = otherwise;
    if (expr && !const_int(l, expr, &at)) {
        return false;
    }
    if (at < -rank || at >= rank) {
        lower_no_axis(l, expr ? expr->span : l->b.span, at, rank);
        return false;
    }
    *axis = (int)(at < 0 ? at + rank : at);
    return true;
}

/* ---- arithmetic on indices ---- */

Val view_compute(Lower *l, OpKind kind, const char *pred, Val a, Val b)
{
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    return apply_binary(l, &none, kind, pred, &a, &b, &none, &none);
}

/* The elements of `from` at these indices, one an axis, each of shape [extent, 1, …] or less. */
static Val viewed(Lower *l, const Val *from, Shape shape, const Val *indices, const bool *inside,
                  const Val *otherwise)
{
    for (int i = 0; i < shape_of(from).rank; i++) {
        if (is_poison(&indices[i])) {
            return poison_val();
        }
    }
    shape.lanes = 0;
    return gather_vals(l, l->b.span, from, indices, inside, otherwise, shape);
}

/* A view that changes one axis alone: its indices are the result's own on the others. */
Val view_along(Lower *l, const Val *from, int axis, Dim extent, Val index, bool proven)
{
    Shape shape = shape_of(from);
    Val indices[MAX_RANK];
    bool inside[MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        inside[i] = i != axis || proven;
        indices[i] = i == axis ? index : iota_val(l, shape.dims[i], shape.rank - 1 - i);
    }
    shape.dims[axis] = extent;
    return viewed(l, from, shape, indices, inside, NULL);
}

/* ---- one axis ---- */

Val lower_flip(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "axis", NULL};
    const Expr *args[2];
    int axis;
    (void)builtin;
    if (!view_arguments(l, expr, names, 1, "flip(x, axis=0)", args)) {
        return poison_val();
    }
    Val from = view_operand(l, args[0]);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || !view_axis(l, args[1], shape.rank, 0, &axis)) {
        return poison_val();
    }
    Val last = dim_val(dim_sub(l->func, shape.dims[axis], poly_const(l->func, 1)));
    Val own = iota_val(l, shape.dims[axis], shape.rank - 1 - axis);
    return view_along(l, &from, axis, shape.dims[axis], view_compute(l, OP_SUB, NULL, last, own),
                      true);
}

Val lower_roll(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "shift", "axis", NULL};
    const Expr *args[3];
    int axis;
    (void)builtin;
    if (!view_arguments(l, expr, names, 2, "roll(x, 1, axis=0)", args)) {
        return poison_val();
    }
    Val from = view_operand(l, args[0]), shift = lower_operand(l, args[1]);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || is_poison(&shift) || !view_axis(l, args[2], shape.rank, 0, &axis)) {
        return poison_val();
    }
    if (!is_scalar_int(&shift)) {
        lower_error(l, ERR_VIEW, args[1]->span, "a shift is an integer, not %s",
                    val_text(l, &shift));
        return poison_val();
    }
    Val own = iota_val(l, shape.dims[axis], shape.rank - 1 - axis);
    Val moved = view_compute(l, OP_SUB, NULL, own, shift);
    moved = view_compute(l, OP_MOD, NULL, moved, dim_val(shape.dims[axis]));
    return view_along(l, &from, axis, shape.dims[axis], moved, true);
}

/* repeat: a a b b; tile: a b a b. */
Val lower_repeat(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "n", "axis", NULL};
    const Expr *args[3];
    int axis;
    bool whole = builtin == BUILTIN_TILE;
    if (!view_arguments(l, expr, names, 2, whole ? "tile(x, 2, axis=0)" : "repeat(x, 2, axis=0)",
                        args)) {
        return poison_val();
    }
    Val from = view_operand(l, args[0]);
    Dim times = lower_dim(l, args[1]);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || !times || !view_axis(l, args[2], shape.rank, 0, &axis)) {
        return poison_val();
    }
    Dim extent = dim_exact(l->func, poly_mul(l->func, shape.dims[axis], times));
    if (!extent || !dim_is_natural(l->func, times)) {
        lower_error(l, ERR_VIEW, args[1]->span, "%s is no number of repetitions",
                    dim_text(l, times));
        return poison_val();
    }
    Val own = iota_val(l, extent, shape.rank - 1 - axis);
    Val by = dim_val(whole ? shape.dims[axis] : times);
    return view_along(l, &from, axis, extent,
                      view_compute(l, whole ? OP_MOD : OP_DIV, NULL, own, by), true);
}

/* ---- pad ---- */

static bool pad_amounts(Lower *l, const Expr *expr, int rank, Dim (*out)[2])
{
    bool good = expr->kind == EXPR_LIST && (int)expr->args.n == rank;
    for (int i = 0; good && i < rank; i++) {
        const Expr *pair = expr->args.items[i];
        good = pair->kind == EXPR_LIST && pair->args.n == 2;
        for (size_t k = 0; good && k < 2; k++) {
            out[i][k] = lower_dim(l, pair->args.items[k]);
            if (!out[i][k]) {
                return false;
            }
            good = dim_is_natural(l->func, out[i][k]);
        }
    }
    if (!good) {
        Diag *diag = lower_error(l, ERR_VIEW, expr->span, "padding is two sizes for each of %d %s",
                                 rank, rank == 1 ? "axis" : "axes");
        diag_help(l->diags, diag, "write `[[before, after], …]`, one pair an axis");
    }
    return good;
}

static bool pad_value(Lower *l, const Expr *expr, DType dtype, Val *out)
{
    *out = int_val(0, true);
    if (expr) {
        *out = lower_operand(l, expr);
    }
    if (is_poison(out) || (expr && !check_fits(l, ERR_VIEW, expr->span, out, dtype, true))) {
        return false;
    }
    if (out->kind != VAL_CONST) {
        lower_error(l, ERR_NOT_CONST, expr->span, "what is padded with is a constant");
        return false;
    }
    return true;
}

Val lower_pad(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "amounts", "value", NULL};
    const Expr *args[3];
    Dim amounts[MAX_RANK][2];
    Val indices[MAX_RANK], value;
    bool inside[MAX_RANK] = {false};
    (void)builtin;
    if (!view_arguments(l, expr, names, 2, "pad(x, [[1, 1], [0, 2]], value=0)", args)) {
        return poison_val();
    }
    Val from = view_operand(l, args[0]);
    Shape shape = shape_of(&from);
    if (is_poison(&from) || !pad_amounts(l, args[1], shape.rank, amounts) ||
        !pad_value(l, args[2], dtype_of(&from), &value)) {
        return poison_val();
    }
    for (int i = 0; i < shape.rank; i++) {
        Dim more = poly_add(l->func, amounts[i][0], amounts[i][1]);
        inside[i] = more == poly_const(l->func, 0);
        shape.dims[i] = dim_exact(l->func, poly_add(l->func, shape.dims[i], more));
        Val own = iota_val(l, shape.dims[i], shape.rank - 1 - i);
        indices[i] = view_compute(l, OP_SUB, NULL, own, dim_val(amounts[i][0]));
    }
    return viewed(l, &from, shape, indices, inside, &value);
}

/* ---- reshape ---- */

static bool target_shape(Lower *l, const Expr *expr, const Shape *from, Shape *to)
{
    *to = (Shape){.rank = 0};
    if (expr->kind != EXPR_LIST || expr->args.n > MAX_RANK) {
        Diag *diag = lower_error(l, ERR_VIEW, expr->span, "a shape is a list of extents");
        diag_help(l->diags, diag, "write `reshape(x, [M, N])`");
        return false;
    }
    Dim left = poly_const(l->func, 1), right = left;
    for (size_t i = 0; i < expr->args.n; i++) {
        to->dims[to->rank] = lower_dim(l, expr->args.items[i]);
        if (!to->dims[to->rank]) {
            return false;
        }
        right = poly_mul(l->func, right, to->dims[to->rank++]);
    }
    for (int i = 0; i < from->rank; i++) {
        left = poly_mul(l->func, left, from->dims[i]);
    }
    if (dim_same(l->func, left, right)) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_VIEW, expr->span, "a reshape keeps the number of elements");
    if (left && right) {
        diag_note(l->diags, diag, "there are %s, and the new shape has %s", dim_text(l, left),
                  dim_text(l, right));
    }
    return false;
}

/* Axes [from, from_end) of the operand hold the elements of axes [to, to_end) of the result. */
typedef struct Group {
    int from, from_end, to, to_end;
} Group;

/* The shortest runs of axes with equal products, from the left. */
static Group next_group(Lower *l, const Shape *from, const Shape *to, const Group *last)
{
    Group group = {last->from_end, last->from_end, last->to_end, last->to_end};
    for (int a = group.from; a <= from->rank; a++) {
        Dim left = poly_const(l->func, 1);
        for (int i = group.from; i < a; i++) {
            left = poly_mul(l->func, left, from->dims[i]);
        }
        Dim right = poly_const(l->func, 1);
        for (int b = group.to; b <= to->rank; b++) {
            if (dim_same(l->func, left, right) && (a > group.from || b > group.to)) {
                group.from_end = a;
                group.to_end = b;
                return group;
            }
            right = b < to->rank ? poly_mul(l->func, right, to->dims[b]) : right;
        }
    }
    group.from_end = from->rank;
    group.to_end = to->rank;
    return group;
}

Val reshaped(Lower *l, const Val *val, const Shape *shape)
{
    Shape from = shape_of(val), to = *shape;
    Val indices[MAX_RANK];
    bool inside[MAX_RANK];
    Group group = {0};
    while (group.from_end < from.rank || group.to_end < to.rank) {
        group = next_group(l, &from, &to, &group);
        Val number = int_val(0, true);
        for (int i = group.to; i < group.to_end; i++) {
            Val own = iota_val(l, to.dims[i], to.rank - 1 - i);
            if (i > group.to) {
                number = view_compute(l, OP_MUL, NULL, number, dim_val(to.dims[i]));
                own = view_compute(l, OP_ADD, NULL, number, own);
            }
            number = own;
        }
        for (int i = group.from_end - 1; i >= group.from; i--) {
            Val extent = dim_val(from.dims[i]);
            indices[i] = i > group.from ? view_compute(l, OP_MOD, NULL, number, extent) : number;
            number = i > group.from ? view_compute(l, OP_DIV, NULL, number, extent) : number;
        }
    }
    for (int i = 0; i < from.rank; i++) {
        inside[i] = true;
    }
    uint32_t first = l->func->n_values;
    Val result = viewed(l, val, to, indices, inside, NULL);
    note_reshape(l, val, &result, first);
    return result;
}

Val lower_reshape(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "shape", NULL};
    const Expr *args[2];
    Shape to;
    (void)builtin;
    if (!view_arguments(l, expr, names, 2, "reshape(x, [M, N])", args)) {
        return poison_val();
    }
    Val val = view_operand(l, args[0]);
    Shape from = shape_of(&val);
    if (is_poison(&val) || !target_shape(l, args[1], &from, &to)) {
        return poison_val();
    }
    return reshaped(l, &val, &to);
}

/* ---- permute ---- */

static bool permutation(Lower *l, const Expr *expr, int rank, int64_t *perm)
{
    bool seen[MAX_RANK] = {false};
    bool good = expr->kind == EXPR_LIST && (int)expr->args.n == rank;
    for (int i = 0; good && i < rank; i++) {
        good = const_int(l, expr->args.items[i], &perm[i]) && perm[i] >= 0 && perm[i] < rank &&
               !seen[perm[i]];
        if (good) {
            seen[perm[i]] = true;
        }
    }
    if (!good) {
        Diag *diag =
            lower_error(l, ERR_VIEW, expr->span, "an order of %d %s names each of them once", rank,
                        rank == 1 ? "axis" : "axes");
        Text axes = text_new(l->arena);
        for (int i = 0; i < rank; i++) {
            text_printf(&axes, "%s%d", i ? ", " : "", (i + rank - 1) % rank);
        }
        diag_help(l->diags, diag, "`permute(x, [%s])`: the last axis becomes the first", axes.data);
    }
    return good;
}

Val lower_permute(Lower *l, const Expr *expr, Builtin builtin)
{
    static const char *const names[] = {"x", "order", NULL};
    const Expr *args[2];
    int64_t own[MAX_RANK], all[MAX_RANK];
    (void)builtin;
    if (!view_arguments(l, expr, names, 2, "permute(x, [2, 0, 1])", args)) {
        return poison_val();
    }
    Val val = lower_operand(l, args[0]);
    int rank = shape_of(&val).rank, lanes = lane_count(val.lanes);
    if (is_poison(&val) || !permutation(l, args[1], rank, own)) {
        return poison_val();
    }
    for (int i = 0; i < lanes + rank; i++) {
        all[i] = i < lanes ? i : lanes + own[i - lanes];
    }
    return rank ? lanes_val(build_permute(&l->b, as_value(l, &val), all), val.lanes) : val;
}
