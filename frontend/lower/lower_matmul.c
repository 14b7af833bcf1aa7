/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: a @ b and dot(a, b, precision=…), with batch axes in front. */
#include "frontend/lower/lower.h"

#include <math.h>

static bool check_matrix(Lower *l, const Expr *expr, const Val *val)
{
    if (shape_of(val).rank >= 2) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_PRODUCT, expr->span, "%s is not a matrix", val_text(l, val));
    diag_help(l->diags, diag, "make a vector a column with `[:, None]`, or a row with `[None, :]`");
    return false;
}

static DType product_dtype(DType operand)
{
    if (dtype_is_int(operand) && dtype_bits(operand) < 32) {
        return dtype_is_signed(operand) ? DT_I32 : DT_U32;
    }
    return compute_dtype(operand);
}

static bool check_inner(Lower *l, const Expr *expr, const Val *a, const Val *b)
{
    Shape sa = shape_of(a), sb = shape_of(b);
    Dim left = sa.dims[sa.rank - 1], right = sb.dims[sb.rank - 2];
    if (left == right) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_PRODUCT, place_of(expr), "the inner extents differ: %s @ %s",
                             val_text(l, a), val_text(l, b));
    diag_label(l->diags, diag, expr->a->span, "%s columns", dim_text(l, left));
    diag_label(l->diags, diag, expr->b->span, "%s rows", dim_text(l, right));
    if (left == sb.dims[sb.rank - 1]) {
        diag_help(l->diags, diag, "transpose the second matrix: `.T`");
        lower_fix_around(l, diag, expr->b->span, expr->b->kind == EXPR_NAME ? "" : "(",
                         expr->b->kind == EXPR_NAME ? ".T" : ").T");
    } else if (sa.dims[sa.rank - 2] == right) {
        diag_help(l->diags, diag, "transpose the first matrix: `.T`");
        lower_fix_around(l, diag, expr->a->span, expr->a->kind == EXPR_NAME ? "" : "(",
                         expr->a->kind == EXPR_NAME ? ".T" : ").T");
    }
    return false;
}

/* The axes before the last two, broadcast; a's matrix and b's after them. */
static bool batch_shapes(Lower *l, const Expr *expr, const Val *a, const Val *b, Shape *left,
                         Shape *right)
{
    Shape sa = shape_of(a), sb = shape_of(b), fa = sa, fb = sb, batch;
    fa.rank -= 2;
    fb.rank -= 2;
    if (!broadcast_shapes(l, place_of(expr), expr->a, a, expr->b, b, &fa, &fb, &batch)) {
        return false;
    }
    batch.lanes = sa.lanes | sb.lanes;
    *left = *right = batch;
    for (int i = 0; i < 2; i++) {
        left->dims[left->rank++] = sa.dims[sa.rank - 2 + i];
        right->dims[right->rank++] = sb.dims[sb.rank - 2 + i];
    }
    return true;
}

/* `expr` has the locations of the operands in a and b. */
static Val product(Lower *l, const Expr *expr, Val a, Val b)
{
    DType dtype = dtype_of(&a);
    if (is_poison(&a) || is_poison(&b) || !check_matrix(l, expr->a, &a) ||
        !check_matrix(l, expr->b, &b) || !check_inner(l, expr, &a, &b)) {
        return poison_val();
    }
    if (dtype != dtype_of(&b) && !arith_dtype(l, expr, &a, &b, &dtype)) {
        return poison_val();
    }
    if (dtype == DT_BOOL) {
        operator_error(l, expr, "`@` does not apply to bool", "cast it: `i32(…)`");
        return poison_val();
    }
    if (l->lane_loop) {
        mixes_lanes(l, place_of(expr), "@");
        return poison_val();
    }
    bool single = shape_of(&a).rank == 2 && shape_of(&b).rank == 2;
    if (!single || a.lanes || b.lanes) {
        Shape left, right, full;
        if (!batch_shapes(l, expr, &a, &b, &left, &right) ||
            !full_shape(l, place_of(expr), &left, &full)) {
            return poison_val();
        }
        Value *x = materialize(l, &a, dtype, &left), *y = materialize(l, &b, dtype, &right);
        left.dims[left.rank - 1] = right.dims[right.rank - 1];
        return shaped_val(build_dot(&l->b, x, y, NULL, product_dtype(dtype)), &left);
    }
    Value *x = build_cast(&l->b, a.value, dtype), *y = build_cast(&l->b, b.value, dtype);
    return array_val(build_dot(&l->b, x, y, NULL, product_dtype(dtype)));
}

Val lower_product(Lower *l, const Expr *expr)
{
    Val a = lower_operand(l, expr->a);
    return product(l, expr, a, lower_operand(l, expr->b));
}

/* ---- dot ---- */

typedef enum Precision { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISION_F16 } Precision;

static bool named_precision(Lower *l, const Expr *named, Precision *out)
{
    static const char *const names[] = {"f32", "tf32", "bf16", "f16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (named->a->kind == EXPR_NAME && text_equal(named->a->name, names[i])) {
            *out = (Precision)i;
            return true;
        }
    }
    Diag *diag = lower_error(l, ERR_ARGUMENTS, named->a->span,
                             "`%s` was passed, where a precision is expected",
                             source_text(l->diags, l->arena, named->a->span));
    diag_help(l->diags, diag,
              "there are f32, tf32, bf16 and f16; for 8 bits cast the operands: `f8e4m3(a)`");
    return false;
}

/* The operand with as many bits as the product is to see. */
static Val rounded(Lower *l, const Expr *expr, Val val, Precision precision)
{
    DType dtype = dtype_of(&val);
    if (is_poison(&val) || precision == PRECISION_F32) {
        return val;
    }
    if (!dtype_is_float(dtype) || dtype == DT_F64) {
        Diag *diag = lower_error(l, ERR_ARGUMENTS, expr->span,
                                 "%s was passed, where a float of at most 32 bits is expected",
                                 val_text(l, &val));
        diag_help(l->diags, diag, "`precision` is for products of f32 and narrower floats");
        return poison_val();
    }
    Lanes lanes = val.lanes;
    Value *value = as_value(l, &val);
    if (precision != PRECISION_TF32) {
        DType narrow = precision == PRECISION_BF16 ? DT_BF16 : DT_F16;
        return lanes_val(build_cast(&l->b, value, narrow), lanes);
    }
    return dtype == DT_F32 ? lanes_val(build_unary(&l->b, OP_TF32, value), lanes) : val;
}

Val lower_dot(Lower *l, const Expr *expr, Builtin builtin)
{
    Precision precision = PRECISION_F32;
    (void)builtin;
    size_t n = expr->args.n;
    const Expr *last = n ? expr->args.items[n - 1] : NULL;
    bool has_precision = n == 3 && last->kind == EXPR_NAMED && text_equal(last->name, "precision");
    if ((n != 2 && !has_precision) || expr->args.items[0]->kind == EXPR_NAMED ||
        expr->args.items[1]->kind == EXPR_NAMED) {
        Diag *diag = lower_wrong_call(l, expr);
        diag_help(l->diags, diag, "write `dot(a, b)`, or `dot(a, b, precision=tf32)`");
        return poison_val();
    }
    if (has_precision && !named_precision(l, last, &precision)) {
        return poison_val();
    }
    Expr places = {.kind = EXPR_BINARY, .op = TOK_AT, .span = expr->span, .op_span = expr->a->span};
    places.a = expr->args.items[0];
    places.b = expr->args.items[1];
    Val a = rounded(l, places.a, lower_operand(l, places.a), precision);
    Val b = rounded(l, places.b, lower_operand(l, places.b), precision);
    return product(l, &places, a, b);
}
