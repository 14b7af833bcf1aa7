/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on Vals: creating them, converting their element type, and materializing them as IR
 * values. */
#include "frontend/lower/lower.h"
#include "ir/scalar_eval.h"

#include <math.h>

Val poison_val(void)
{
    return (Val){.kind = VAL_POISON};
}

bool is_poison(const Val *val)
{
    return val->kind == VAL_POISON;
}

Val array_val(Value *value)
{
    return (Val){.kind = VAL_ARRAY, .value = value};
}

Val lanes_val(Value *value, Lanes lanes)
{
    return (Val){.kind = VAL_ARRAY, .value = value, .lanes = lanes};
}

Val shaped_val(Value *value, const Shape *shape)
{
    return lanes_val(value, shape->lanes);
}

Val int_val(int64_t value, bool literal)
{
    return (Val){.kind = VAL_CONST, .dtype = DT_I64, .literal = literal, .scalar.i = value};
}

Val dim_val(Dim dim)
{
    int64_t value;
    return poly_is_const(dim, &value) ? int_val(value, false) : (Val){.kind = VAL_DIM, .dim = dim};
}

/* A literal with a point is an f32 without another operand. */
Val float_val(double value)
{
    return (Val){.kind = VAL_CONST, .dtype = DT_F32, .scalar.f = value};
}

Val literal_val(double f32, double f64)
{
    bool literal = isfinite(f32) || !isfinite(f64); /* else f32 is what it overflows */
    return (Val){.kind = VAL_CONST,
                 .dtype = DT_F32,
                 .literal = literal,
                 .f32 = (float)f32,
                 .scalar.f = literal ? f64 : f32};
}

Val bool_val(bool value)
{
    return (Val){.kind = VAL_CONST, .dtype = DT_BOOL, .scalar.i = value};
}

DType compute_dtype(DType dtype)
{
    return dtype_is_narrow(dtype) ? DT_F32 : dtype;
}

/* ---- operands ---- */

static Val load_whole(Lower *l, const Val *tensor)
{
    Value *indices[MAX_RANK] = {NULL};
    return array_val(build_load(&l->b, tensor->value, indices));
}

Val read_result(Lower *l, const Expr *expr)
{
    Diag *diag = lower_error(l, ERR_READ_RESULT, expr->span, "a result is written, not read");
    diag_help(
        l->diags, diag,
        "give the value a name with `let` and use that, add to elements with `atomic.add(…)`, "
        "or make it an `inout` parameter");
    return poison_val();
}

Val as_operand(Lower *l, const Expr *expr, Val val)
{
    switch (val.kind) {
    case VAL_TENSOR:
        if (val.is_result && !val.is_inout) {
            return read_result(l, expr);
        }
        return val.known_value ? array_val(val.known_value) : load_whole(l, &val);
    case VAL_POISON:
    case VAL_ARRAY:
    case VAL_CONST:
    case VAL_DIM: return val;
    default: {
        Diag *diag =
            lower_error(l, ERR_NOT_A_VALUE, expr->span, "%s is not a value", val_text(l, &val));
        if (val.kind == VAL_RANGE) {
            diag_help(l->diags, diag, "`index(%s)` is the array of its indices",
                      poly_as_range(val.dim)->name);
            lower_fix(l, diag, expr->span, "index(%s)", poly_as_range(val.dim)->name);
        } else if (val.kind == VAL_DTYPE) {
            diag_help(l->diags, diag, "call it to cast: `%s(x)`", dtype_name(val.dtype));
        } else if (val.kind == VAL_TYPE) {
            diag_help(l->diags, diag, "`zeros(…)` and `fill(v, …)` make an array of this type");
        }
        return poison_val();
    }
    }
}

Val lower_operand(Lower *l, const Expr *expr)
{
    return as_operand(l, expr, lower_expr(l, expr));
}

Val lower_any(Lower *l, const Expr *expr)
{
    Val val = lower_expr(l, expr);
    return val.kind == VAL_TUPLE ? val : as_operand(l, expr, val);
}

/* ---- conversions ---- */

/* A literal keeps its text's value until it has a type: one rounding. */
Val convert_const(const Val *val, DType dtype)
{
    Val out = {.kind = VAL_CONST, .dtype = dtype};
    if (val->dtype == dtype && !val->literal) {
        return *val;
    }
    if (val->literal && val->dtype == DT_F32) {
        if (dtype == DT_F32) {
            out.scalar.f = (double)val->f32;
        } else {
            out.scalar = scalar_op(OP_CAST, NULL, DT_F64, dtype, &val->scalar);
        }
        return out;
    }
    out.scalar = scalar_op(OP_CAST, NULL, val->dtype, dtype, &val->scalar);
    return out;
}

static bool int_fits(int64_t value, DType dtype)
{
    int bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype)) {
        return value >= 0 && (bits == 64 || value < (int64_t)1 << bits);
    }
    int64_t most = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return value <= most && value >= -most - 1;
}

/* Rounding changes a literal by at most an eighth; f8e4m3 has no infinity and saturates. */
static bool float_fits(double value, double converted)
{
    return isfinite(converted) && (fabs(value) < 1 || fabs(value - converted) <= fabs(value) / 8);
}

static bool literal_fits(Lower *l, Span span, const Val *val, DType dtype)
{
    if (val->dtype == DT_I64 && dtype_is_int(dtype) && !int_fits(val->scalar.i, dtype)) {
        lower_error(l, ERR_LITERAL, span, "%lld does not fit %s", (long long)val->scalar.i,
                    dtype_name(dtype));
        return false;
    }
    double number = val->dtype == DT_F32 ? val->scalar.f : (double)val->scalar.i;
    bool is_number = val->dtype == DT_F32 || val->dtype == DT_I64;
    if (is_number && dtype_is_float(dtype) && isfinite(number) &&
        !float_fits(number, convert_const(val, dtype).scalar.f)) {
        lower_error(l, ERR_LITERAL, span, "%g does not fit %s", number, dtype_name(dtype));
        return false;
    }
    return true;
}

bool dtype_converts(DType from, DType to, bool literal, bool narrow)
{
    if (from == to) {
        return true;
    }
    if (dtype_is_float(to)) {
        bool wider = dtype_bits(to) > dtype_bits(from);
        return dtype_is_float(from) ? wider || narrow || literal : literal && dtype_is_int(from);
    }
    if (!dtype_is_int(from) || !dtype_is_int(to)) {
        return false;
    }
    bool same_sign = dtype_is_signed(from) == dtype_is_signed(to);
    return literal || (same_sign && dtype_bits(to) > dtype_bits(from));
}

bool check_fits(Lower *l, ErrorCode code, Span span, const Val *val, DType dtype, bool narrow)
{
    DType from = dtype_of(val);
    if (!dtype_converts(from, dtype, val->literal, narrow)) {
        Diag *diag = lower_error(l, code, span, "%s is not converted to %s implicitly",
                                 val_text(l, val), dtype_name(dtype));
        diag_help(l->diags, diag, "%s",
                  dtype == DT_BOOL ? "write a condition: `… != 0`"
                                   : arena_printf(l->arena, "cast it: `%s(…)`", dtype_name(dtype)));
        if (dtype == DT_BOOL) {
            return false;
        }
        if (code == ERR_ASSIGN || code == ERR_ARGUMENTS) { /* the span is of the value */
            lower_fix_around(l, diag, span, arena_printf(l->arena, "%s(", dtype_name(dtype)), ")");
        }
        return false;
    }
    return !val->literal || literal_fits(l, span, val, dtype);
}

/* ---- IR ---- */

Value *materialize(Lower *l, const Val *val, DType dtype, const Shape *shape)
{
    if (val->kind == VAL_CONST) {
        Val converted = convert_const(val, dtype);
        Shape full;
        full_shape(l, l->b.span, shape, &full);
        Type type = type_array(l->func, dtype, full.rank, full.dims);
        return dtype_is_float(dtype) ? build_float(&l->b, type, converted.scalar.f)
                                     : build_int(&l->b, type, converted.scalar.i);
    }
    Val typed = *val;
    Shape full;
    full_shape(l, l->b.span, shape, &full);
    typed.value = val->kind == VAL_DIM ? build_size(&l->b, val->dim) : val->value;
    typed.value = build_cast(&l->b, typed.value, dtype);
    for (int rank = typed.lanes ? shape_of(val).rank : shape->rank; rank < shape->rank; rank++) {
        typed.value = build_expand(&l->b, typed.value, lane_count(typed.lanes));
    }
    Value *value = typed.lanes ? add_lanes(l, &typed, shape->lanes) : typed.value;
    return build_broadcast(&l->b, value, full.rank, full.dims);
}

Value *as_value(Lower *l, const Val *val)
{
    Shape shape = shape_of(val);
    return materialize(l, val, dtype_of(val), &shape);
}

bool is_scalar_int(const Val *val)
{
    bool has_value = val->kind == VAL_ARRAY || val->kind == VAL_CONST || val->kind == VAL_DIM;
    return has_value && shape_of(val).rank == 0 && dtype_is_int(dtype_of(val));
}

Value *as_index(Lower *l, const Val *val)
{
    Shape scalar = {.rank = 0};
    return materialize(l, val, DT_I64, &scalar);
}

bool const_int(Lower *l, const Expr *expr, int64_t *out)
{
    Val val = lower_expr(l, expr);
    if (val.kind == VAL_CONST && dtype_is_int(val.dtype)) {
        *out = val.scalar.i;
        return true;
    }
    if (!is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_NOT_CONST, expr->span, "this is not a constant integer");
        diag_help(l->diags, diag, "%s",
                  val.kind == VAL_TUPLE
                      ? "write several axes in brackets: `axis=[0, 1]`"
                      : "write a number, a const parameter, or a size of an `assume … in`");
    }
    return false;
}
