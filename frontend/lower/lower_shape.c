/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: their text in messages, broadcasting, and shapes of type expressions. */
#include "frontend/lower/lower.h"
#include "ir/text/ir_text.h"

#include <string.h>

/* ---- in words ---- */

const char *dim_text(Lower *l, Dim dim)
{
    Text text = text_new(l->arena);
    say_dim(NULL, dim, &text);
    return text.data;
}

const char *shape_text(Lower *l, DType dtype, const Shape *shape)
{
    Text text = text_new(l->arena);
    text_add(&text, dtype_name(dtype));
    for (int i = 0; i < shape->rank; i++) {
        text_printf(&text, "%s%s", i ? ", " : "[", dim_text(l, shape->dims[i]));
    }
    if (shape->rank) {
        text_char(&text, ']');
    }
    return text.data;
}

const char *type_text(Lower *l, Type type)
{
    Shape shape = type_shape(type);
    return shape_text(l, type->dtype, &shape);
}

const char *val_text(Lower *l, const Val *val)
{
    switch (val->kind) {
    case VAL_ARRAY:
    case VAL_TENSOR: {
        Shape shape = shape_of(val);
        return shape_text(l, val->value->type->dtype, &shape);
    }
    case VAL_CONST:
        return arena_printf(l->arena, "%s%s", val->literal ? "a literal " : "",
                            dtype_name(val->dtype));
    case VAL_DIM: return "i64";
    case VAL_RANGE: return "a range";
    case VAL_PART: return "a part of an axis";
    case VAL_DTYPE:
    case VAL_TYPE: return "a type";
    case VAL_TUPLE: return "a tuple";
    case VAL_POISON: break;
    }
    return "an error";
}

Shape type_shape(Type type)
{
    Shape shape = {.rank = type->rank};
    if (type->rank) {
        memcpy(shape.dims, type->dims, sizeof(Dim) * type->rank);
    }
    return shape;
}

Shape shape_of(const Val *val)
{
    bool has_type = val->kind == VAL_ARRAY || val->kind == VAL_TENSOR;
    if (!has_type) {
        return (Shape){0};
    }
    Shape shape = {.rank = val->value->type->rank - lane_count(val->lanes), .lanes = val->lanes};
    if (shape.rank) {
        memcpy(shape.dims, val->value->type->dims + lane_count(val->lanes),
               sizeof(Dim) * (size_t)shape.rank);
    }
    return shape;
}

DType dtype_of(const Val *val)
{
    switch (val->kind) {
    case VAL_ARRAY:
    case VAL_TENSOR: return val->value->type->dtype;
    case VAL_DIM: return DT_I64;
    default: return val->dtype;
    }
}

bool shape_equal(const Shape *a, const Shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof(Dim) * (size_t)a->rank) == 0;
}

/* ---- broadcasting ---- */

/* "`i`, a part of S" or "`N`". */
static const char *axis_words(Lower *l, Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    if (range) {
        return arena_printf(l->arena, "`%s`, a part of %s", range->name,
                            dim_text(l, range->axis_extent));
    }
    return arena_printf(l->arena, "`%s`", dim_text(l, dim));
}

static void explain_axes(Lower *l, Diag *diag, int from_right, Dim a, Dim b)
{
    int64_t by;
    Dim whole;
    diag_note(l->diags, diag, "axis -%d is %s on the left and %s on the right", from_right,
              axis_words(l, a), axis_words(l, b));
    if (poly_as_range(a) && poly_as_range(b)) {
        diag_help(l->diags, diag,
                  "ranges are dimensions of their own: make one a column, "
                  "`[:, None]`, and one a row, `[None, :]`");
    } else if (poly_as_range(a) || poly_as_range(b)) {
        diag_help(l->diags, diag, "index the whole axis with the range, `x[%s, …]`",
                  poly_as_range(a) ? poly_as_range(a)->name : poly_as_range(b)->name);
    } else if ((whole = dim_same_if_divisible(l->func, a, b, &by)) != NULL) {
        diag_help(l->diags, diag, "they are the same where `%s %% %lld == 0`: say so with `assume`",
                  poly_as_var(whole) ? dim_text(l, whole)
                                     : arena_printf(l->arena, "(%s)", dim_text(l, whole)),
                  (long long)by);
    } else {
        diag_help(l->diags, diag,
                  "only a literal 1 is stretched; for a column write `[:, None]`, "
                  "for the transpose `.T`");
    }
}

bool broadcast_shapes(Lower *l, Span span, const Expr *a, const Val *va, const Expr *b,
                      const Val *vb, const Shape *sa, const Shape *sb, Shape *out)
{
    const Shape *longer = sa->rank >= sb->rank ? sa : sb;
    const Shape *shorter = longer == sa ? sb : sa;
    Shape result = *longer;
    for (int i = 1; i <= shorter->rank; i++) {
        Dim x = longer->dims[longer->rank - i], y = shorter->dims[shorter->rank - i];
        if (x != y && !poly_is_number(x, 1) && !poly_is_number(y, 1)) {
            const char *left = shape_text(l, dtype_of(va), sa),
                       *right = shape_text(l, dtype_of(vb), sb);
            Diag *diag =
                lower_error(l, ERR_SHAPES, span, "the shapes of %s and %s do not fit", left, right);
            if (a && b) {
                diag_label(l->diags, diag, a->span, "%s", left);
                diag_label(l->diags, diag, b->span, "%s", right);
            }
            explain_axes(l, diag, i, sa->dims[sa->rank - i], sb->dims[sb->rank - i]);
            return false;
        }
        result.dims[longer->rank - i] = poly_is_number(x, 1) ? y : x;
    }
    result.lanes = sa->lanes | sb->lanes;
    *out = result;
    return full_shape(l, span, &result, &(Shape){0});
}

/* ---- type expressions ---- */

Dim lower_dim(Lower *l, const Expr *expr)
{
    Val val = lower_expr(l, expr);
    Dim dim = NULL;
    if (val.kind == VAL_RANGE || val.kind == VAL_DIM) {
        dim = val.dim;
    } else if (val.kind == VAL_CONST && dtype_is_int(val.dtype)) {
        dim = val.scalar.i >= 0 ? poly_const(l->func, val.scalar.i) : NULL;
    }
    if (!dim && !is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_SIZE, expr->span, "this is not an extent");
        diag_help(
            l->diags, diag,
            "an extent is a range, or made of sizes and integers, and not negative; a quotient "
            "that could be has a name: `where P = …`");
    }
    return dim;
}

static Type array_type(Lower *l, const Expr *type, DType dtype)
{
    Dim dims[MAX_RANK];
    if (type->args.n > MAX_RANK) {
        lower_error(l, ERR_SIZE, type->span, "an array has at most %d axes", MAX_RANK);
        return NULL;
    }
    for (size_t i = 0; i < type->args.n; i++) {
        dims[i] = lower_dim(l, type->args.items[i]);
        if (!dims[i]) {
            return NULL;
        }
    }
    return type_array(l->func, dtype, (int)type->args.n, dims);
}

/* NULL after an error. */
Type lower_type(Lower *l, const Expr *type)
{
    const Expr *base = type->kind == EXPR_INDEX ? type->a : type;
    DType dtype;
    if (base->kind != EXPR_NAME || !named_dtype(l, base->name, &dtype)) {
        if (type->kind != EXPR_POISON) {
            lower_error(l, ERR_TYPE_NAME, base->span, "this is not a type");
        }
        return NULL;
    }
    return type->kind == EXPR_INDEX ? array_type(l, type, dtype) : type_scalar(l->func, dtype);
}
