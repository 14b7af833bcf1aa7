/* SPDX-License-Identifier: Apache-2.0 */
/* Operators. The operands are converted to one element type and broadcast to one shape; constant
 * operands are folded; a*b + c of floats becomes one fma. */
#include "frontend/lower/lint.h"
#include "ir/scalar_eval.h"

enum { MAX_TERMS = 16 }; /* of a size expression; longer ones become ordinary values */

typedef struct Operator {
    TokenKind token;
    OpKind kind;
    const char *pred;
} Operator;

static const Operator OPERATORS[] = {
    {TOK_PLUS, OP_ADD, NULL},  {TOK_MINUS, OP_SUB, NULL}, {TOK_STAR, OP_MUL, NULL},
    {TOK_SLASH, OP_DIV, NULL}, {TOK_FLOOR, OP_DIV, NULL}, {TOK_PERCENT, OP_MOD, NULL},
    {TOK_AMP, OP_AND, NULL},   {TOK_BAR, OP_OR, NULL},    {TOK_CARET, OP_XOR, NULL},
    {TOK_AND, OP_AND, NULL},   {TOK_OR, OP_OR, NULL},     {TOK_SHL, OP_SHL, NULL},
    {TOK_SHR, OP_SHR, NULL},   {TOK_EQ, OP_CMP, "eq"},    {TOK_NE, OP_CMP, "ne"},
    {TOK_LT, OP_CMP, "lt"},    {TOK_LE, OP_CMP, "le"},    {TOK_GT, OP_CMP, "gt"},
    {TOK_GE, OP_CMP, "ge"},
};

static const Operator *operator_of(TokenKind token)
{
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
        if (OPERATORS[i].token == token) {
            return &OPERATORS[i];
        }
    }
    return &OPERATORS[0];
}

Span place_of(const Expr *expr)
{
    return expr->kind == EXPR_BINARY ? expr->op_span : expr->span;
}

/* ---- element types ---- */

static const char *cast_help(Lower *l, DType a, DType b)
{
    if (a == DT_BOOL || b == DT_BOOL) {
        return arena_printf(l->arena, "cast the bool: `%s(…)`, or choose with `where(c, a, b)`",
                            dtype_name(a == DT_BOOL ? b : a));
    }
    if (dtype_is_float(a) != dtype_is_float(b)) {
        return arena_printf(l->arena, "cast the integer: `%s(…)`",
                            dtype_name(dtype_is_float(a) ? a : b));
    }
    return arena_printf(l->arena, "cast one: `%s(…)` or `%s(…)`", dtype_name(a), dtype_name(b));
}

static bool dtype_error(Lower *l, const Expr *expr, const Val *a, const Val *b)
{
    DType x = compute_dtype(dtype_of(a)), y = compute_dtype(dtype_of(b));
    Diag *diag = lower_error(l, ERR_ELEMENT_TYPES, place_of(expr), "%s and %s do not fit",
                             val_text(l, a), val_text(l, b));
    if (expr->kind == EXPR_BINARY) {
        diag_label(l->diags, diag, expr->a->span, "%s", val_text(l, a));
        diag_label(l->diags, diag, expr->b->span, "%s", val_text(l, b));
    }
    diag_help(l->diags, diag, "%s", cast_help(l, x, y));
    if (expr->kind == EXPR_BINARY && dtype_is_float(x) != dtype_is_float(y) && x != DT_BOOL &&
        y != DT_BOOL) {
        const char *cast = arena_printf(l->arena, "%s(", dtype_name(dtype_is_float(x) ? x : y));
        lower_fix_around(l, diag, (dtype_is_float(x) ? expr->b : expr->a)->span, cast, ")");
    }
    return false;
}

/* The type of an op on a literal and a typed operand. */
static bool literal_dtype(Lower *l, const Expr *expr, const Val *literal, const Val *typed,
                          const Val *a, const Val *b, DType *out)
{
    *out = compute_dtype(dtype_of(typed));
    bool fits = dtype_is_float(*out) || (dtype_is_int(*out) && literal->dtype == DT_I64);
    if (!fits) {
        return dtype_error(l, expr, a, b);
    }
    bool binary = expr->kind == EXPR_BINARY;
    Span span;
    if (!binary) {
        span = expr->span;
    } else if (literal == a) {
        span = expr->a->span;
    } else {
        span = expr->b->span;
    }
    return check_fits(l, ERR_LITERAL, span, literal, *out, false);
}

bool arith_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out)
{
    if (a->literal && b->literal) {
        *out = a->dtype == DT_I64 ? b->dtype : a->dtype;
        return true;
    }
    if (a->literal || b->literal) {
        return literal_dtype(l, expr, a->literal ? a : b, a->literal ? b : a, a, b, out);
    }
    DType x = compute_dtype(dtype_of(a)), y = compute_dtype(dtype_of(b));
    *out = dtype_bits(x) >= dtype_bits(y) ? x : y;
    if (x == y) {
        return true;
    }
    bool floats = dtype_is_float(x) && dtype_is_float(y);
    bool ints = dtype_is_int(x) && dtype_is_int(y) && dtype_is_signed(x) == dtype_is_signed(y);
    return floats || ints ? true : dtype_error(l, expr, a, b);
}

/* ---- which operator takes which type ---- */

bool operator_error(Lower *l, const Expr *expr, const char *what, const char *help)
{
    Diag *diag = lower_error(l, ERR_OPERATOR, place_of(expr), "%s", what);
    if (help) {
        diag_help(l->diags, diag, "%s", help);
    }
    if (expr->kind == EXPR_BINARY && (expr->op == TOK_SLASH || expr->op == TOK_FLOOR)) {
        lower_fix(l, diag, expr->op_span, "%s", expr->op == TOK_SLASH ? "//" : "/");
    }
    return false;
}

static bool check_logical(Lower *l, const Expr *expr, const Val *a, const Val *b)
{
    bool logical = expr->kind == EXPR_BINARY && (expr->op == TOK_AND || expr->op == TOK_OR);
    const Val *wrong = dtype_of(a) != DT_BOOL ? a : dtype_of(b) != DT_BOOL ? b : NULL;
    if (!logical || !wrong) {
        return true;
    }
    const char *what = arena_printf(l->arena, "`%s` does not apply to %s", token_text(expr->op),
                                    dtype_name(dtype_of(wrong)));
    bool is_int = dtype_is_int(dtype_of(wrong));
    return operator_error(l, expr, what, is_int ? "for bits write `&` and `|`" : NULL);
}

static bool check_operator(Lower *l, const Expr *expr, DType dtype)
{
    const char *name = token_text(expr->op);
    const char *what = arena_printf(l->arena, "`%s` does not apply to %s", name, dtype_name(dtype));
    switch (expr->op) {
    case TOK_SLASH:
        return dtype_is_float(dtype) ||
               operator_error(l, expr, what, "`//` divides integers; or cast to f32");
    case TOK_FLOOR: return dtype_is_int(dtype) || operator_error(l, expr, what, "write `a / b`");
    case TOK_AMP:
    case TOK_BAR: return !dtype_is_float(dtype) || operator_error(l, expr, what, NULL);
    case TOK_CARET:
        return !dtype_is_float(dtype) ||
               operator_error(l, expr, what, "a power is `pow(x, y)`, a square `x * x`");
    case TOK_SHL:
    case TOK_SHR: return dtype_is_int(dtype) || operator_error(l, expr, what, NULL);
    case TOK_PLUS:
    case TOK_MINUS:
    case TOK_STAR:
    case TOK_PERCENT: return dtype != DT_BOOL || operator_error(l, expr, what, "cast it: `i32(…)`");
    case TOK_EQ:
    case TOK_NE:
    case TOK_AND:
    case TOK_OR: return true;
    default: return dtype != DT_BOOL || operator_error(l, expr, what, NULL);
    }
}

/* ---- constants and sizes ---- */

/* What is made of literals alone is one, with the value that arithmetic of the type which it takes
 * gives. */
static Val fold(OpKind kind, const char *pred, DType dtype, const Val *a, const Val *b,
                bool literal)
{
    Scalar operands[2] = {convert_const(a, dtype).scalar, convert_const(b, dtype).scalar};
    DType out = kind == OP_CMP ? DT_BOOL : dtype;
    Val val = {.kind = VAL_CONST, .dtype = out};
    val.scalar = scalar_op(kind, pred, dtype, out, operands);
    val.literal = literal && out == DT_I64;
    if (literal && out == DT_F32) {
        Scalar wide[2] = {convert_const(a, DT_F64).scalar, convert_const(b, DT_F64).scalar};
        return literal_val(val.scalar.f, scalar_op(kind, pred, DT_F64, DT_F64, wide).f);
    }
    return val;
}

Dim val_dim(Lower *l, const Val *val)
{
    if (val->kind == VAL_DIM) {
        return val->dim;
    }
    bool known = val->kind == VAL_CONST && dtype_is_int(val->dtype);
    return known ? poly_const(l->func, val->scalar.i) : NULL;
}

/* Sums and products of sizes stay sizes. */
static bool fold_dims(Lower *l, OpKind kind, const Val *a, const Val *b, Val *out)
{
    Dim x = val_dim(l, a), y = val_dim(l, b), dim = NULL;
    int64_t value;
    if (!x || !y) {
        return false;
    }
    if (kind == OP_MUL) {
        dim = poly_mul(l->func, x, y);
    } else if (kind == OP_ADD || kind == OP_SUB) {
        Dim sign = poly_const(l->func, kind == OP_SUB ? -1 : 1);
        dim = poly_add(l->func, x, poly_mul(l->func, sign, y));
    } else if (kind == OP_DIV && poly_is_const(y, &value) && value > 0) {
        dim = dim_quotient(l->func, x, value);
        if (!dim && assume_defined_sizes(l)) {
            dim = dim_quotient(l->func, x, value);
        }
    }
    dim = dim ? dim_exact(l->func, dim) : NULL;
    if (!dim || dim->n_terms > MAX_TERMS) {
        return false;
    }
    *out = poly_is_const(dim, &value) ? int_val(value, false) : (Val){.kind = VAL_DIM, .dim = dim};
    return true;
}

/* ---- building ---- */

/* Computes in `dtype`, to which both operands are converted; shapes broadcast. */
static Val build_both(Lower *l, const Expr *expr, OpKind kind, const char *pred, DType dtype,
                      const Val *a, const Val *b, const Expr *ea, const Expr *eb)
{
    Shape sa = shape_of(a), sb = shape_of(b), shape;
    if (!broadcast_shapes(l, place_of(expr), ea, a, eb, b, &sa, &sb, &shape)) {
        return poison_val();
    }
    Value *x = materialize(l, a, dtype, &shape), *y = materialize(l, b, dtype, &shape);
    return shaped_val(
        kind == OP_CMP ? build_cmp(&l->b, pred, x, y) : build_binary(&l->b, kind, x, y), &shape);
}

const Affine *affine_of(Lower *l, const Val *val)
{
    Dim dim = val_dim(l, val);
    return dim ? affine_const(l->func, dim) : val->kind == VAL_ARRAY ? val->affine : NULL;
}

/* The affine form of a sum, a product or a quotient of i64, or NULL. */
static const Affine *known_of(Lower *l, OpKind kind, const Val *a, const Val *b)
{
    const Affine *x = affine_of(l, a), *y = affine_of(l, b);
    switch (kind) {
    case OP_ADD: return affine_add(l->func, x, y);
    case OP_SUB: return affine_sub(l->func, x, y);
    case OP_MUL: return affine_mul(l->func, x, y);
    case OP_DIV: {
        /* An index divided by a positive constant lies between the quotients of its bounds. */
        int64_t by;
        if (!x || !y || y->n || !poly_is_const(y->base, &by) || by < 1) {
            return NULL;
        }
        Dim least = affine_least(l->func, x), most = affine_most(l->func, x);
        Dim low = least ? dim_quotient(l->func, least, by) : NULL;
        Dim high = most ? dim_quotient(l->func, most, by) : NULL;
        if (!low || !high) {
            return NULL;
        }
        IndexVar *quotient = index_var(l, low, high);
        const IndexVar *start = affine_as_var(x);
        quotient->within =
            start && start->min_distance >= by ? start->within : NULL; /* all different */
        return affine_var(l->func, quotient);
    }
    case OP_MOD: {
        /* The remainder of a divisor that is never 0 is from 0 to the divisor - 1. */
        if (!y || y->n || poly_least(y->base) < 1) {
            return NULL;
        }
        Dim most = dim_sub(l->func, y->base, poly_const(l->func, 1));
        return affine_var(l->func, index_var(l, poly_const(l->func, 0), most));
    }
    default: return NULL;
    }
}

Val apply_binary(Lower *l, const Expr *expr, OpKind kind, const char *pred, const Val *a,
                 const Val *b, const Expr *ea, const Expr *eb)
{
    DType dtype;
    Val out;
    if (is_poison(a) || is_poison(b) || !check_logical(l, expr, a, b) ||
        !arith_dtype(l, expr, a, b, &dtype)) {
        return poison_val();
    }
    if (expr->kind == EXPR_BINARY && !check_operator(l, expr, dtype)) {
        return poison_val();
    }
    if (a->kind == VAL_CONST && b->kind == VAL_CONST) {
        return fold(kind, pred, dtype, a, b, a->literal && b->literal);
    }
    if (fold_dims(l, kind, a, b, &out)) {
        return out;
    }
    out = build_both(l, expr, kind, pred, dtype, a, b, ea, eb);
    out.affine = dtype == DT_I64 && !is_poison(&out) ? known_of(l, kind, a, b) : NULL;
    return out;
}

/* ---- a*b + c ---- */

static Val negated(Lower *l, const Val *val, DType dtype, const Shape *shape)
{
    if (val->kind == VAL_CONST) {
        Val out = convert_const(val, dtype);
        out.scalar.f = -out.scalar.f;
        return out;
    }
    Shape own = shape_of(val);
    Value *value = build_unary(&l->b, OP_NEG, materialize(l, val, dtype, &own));
    Val out = shaped_val(value, &own);
    return shaped_val(materialize(l, &out, dtype, shape), shape);
}

typedef struct Fused { /* sign_product * x * y + sign_addend * z */
    Val x, y, z;
    const Expr *product, *addend;
    bool minus_product, minus_addend;
} Fused;

static Scalar fma_in(const Fused *f, DType dtype)
{
    Scalar s[3] = {convert_const(&f->x, dtype).scalar, convert_const(&f->y, dtype).scalar,
                   convert_const(&f->z, dtype).scalar};
    s[0].f = f->minus_product ? -s[0].f : s[0].f;
    s[2].f = f->minus_addend ? -s[2].f : s[2].f;
    return scalar_op(OP_FMA, NULL, dtype, dtype, s);
}

static Val fold_fma(const Fused *f, DType dtype)
{
    bool literal = f->x.literal && f->y.literal && f->z.literal && dtype == DT_F32;
    Scalar folded = fma_in(f, dtype);
    return literal ? literal_val(folded.f, fma_in(f, DT_F64).f)
                   : (Val){.kind = VAL_CONST, .dtype = dtype, .scalar = folded};
}

static Val build_fused(Lower *l, const Expr *expr, const Fused *f, DType dtype)
{
    Shape sx = shape_of(&f->x), sy = shape_of(&f->y), sz = shape_of(&f->z), product, shape;
    if (!broadcast_shapes(l, f->product->op_span, f->product->a, &f->x, f->product->b, &f->y, &sx,
                          &sy, &product) ||
        !broadcast_shapes(l, expr->op_span, f->product, &f->x, f->addend, &f->z, &product, &sz,
                          &shape)) {
        return poison_val();
    }
    Val x = f->minus_product ? negated(l, &f->x, dtype, &shape) : f->x;
    Val z = f->minus_addend ? negated(l, &f->z, dtype, &shape) : f->z;
    Value *a = materialize(l, &x, dtype, &shape), *b = materialize(l, &f->y, dtype, &shape);
    return shaped_val(build_fma(&l->b, a, b, materialize(l, &z, dtype, &shape)), &shape);
}

/* A product that has another type than the sum, or is not of floats, is rounded by itself. */
static Val separate(Lower *l, const Expr *expr, const Fused *f)
{
    Val product =
        apply_binary(l, f->product, OP_MUL, NULL, &f->x, &f->y, f->product->a, f->product->b);
    bool left = f->product == expr->a;
    const Val *a = left ? &product : &f->z, *b = left ? &f->z : &product;
    return apply_binary(l, expr, operator_of(expr->op)->kind, NULL, a, b, expr->a, expr->b);
}

static Val apply_fused(Lower *l, const Expr *expr, const Fused *f)
{
    DType product, sum;
    if (is_poison(&f->x) || is_poison(&f->y) || is_poison(&f->z) ||
        !arith_dtype(l, f->product, &f->x, &f->y, &product)) {
        return poison_val();
    }
    if (!dtype_is_float(product)) {
        return separate(l, expr, f);
    }
    Val typed = {.kind = VAL_CONST, .dtype = product};
    if (!arith_dtype(l, expr, expr->a == f->product ? &typed : &f->z,
                     expr->a == f->product ? &f->z : &typed, &sum)) {
        return poison_val();
    }
    if (sum != product) {
        return separate(l, expr, f);
    }
    return f->x.kind == VAL_CONST && f->y.kind == VAL_CONST && f->z.kind == VAL_CONST
               ? fold_fma(f, sum)
               : build_fused(l, expr, f, sum);
}

static bool is_multiply(const Expr *expr)
{
    return expr->kind == EXPR_BINARY && expr->op == TOK_STAR;
}

/* Lowers `a*b + c` as one fma; of two products the left one is fused. */
static Val lower_sum(Lower *l, const Expr *expr)
{
    bool left = is_multiply(expr->a);
    Fused f = {.product = left ? expr->a : expr->b, .addend = left ? expr->b : expr->a};
    f.minus_product = !left && expr->op == TOK_MINUS;
    f.minus_addend = left && expr->op == TOK_MINUS;
    if (!left) {
        f.z = lower_operand(l, expr->a);
    }
    f.x = lower_operand(l, f.product->a);
    f.y = lower_operand(l, f.product->b);
    if (left) {
        f.z = lower_operand(l, expr->b);
    }
    return apply_fused(l, expr, &f);
}

Val lower_binary(Lower *l, const Expr *expr)
{
    if (expr->op == TOK_AT) {
        return lower_product(l, expr);
    }
    bool sum = expr->op == TOK_PLUS || expr->op == TOK_MINUS;
    if (sum && (is_multiply(expr->a) || is_multiply(expr->b))) {
        return lower_sum(l, expr);
    }
    const Operator *op = operator_of(expr->op);
    Val a = lower_operand(l, expr->a), b = lower_operand(l, expr->b);
    if ((expr->op == TOK_EQ || expr->op == TOK_NE) && !is_poison(&a) && !is_poison(&b)) {
        lint_equality(l, expr, dtype_of(&a));
    }
    return apply_binary(l, expr, op->kind, op->pred, &a, &b, expr->a, expr->b);
}

/* ---- unary ---- */

static Val negate(Lower *l, const Expr *expr, Val val)
{
    DType dtype = compute_dtype(dtype_of(&val));
    if (dtype == DT_BOOL) {
        operator_error(l, expr, "`-` does not apply to bool", "`not` negates a bool");
        return poison_val();
    }
    if (val.kind == VAL_CONST) {
        Val out = val.literal ? val : convert_const(&val, dtype);
        out.f32 = -out.f32;
        if (dtype_is_float(dtype)) {
            out.scalar.f = -out.scalar.f;
        } else {
            out.scalar = scalar_op(OP_NEG, NULL, dtype, dtype, &out.scalar);
        }
        return out;
    }
    Shape shape = shape_of(&val);
    Val out = shaped_val(build_unary(&l->b, OP_NEG, materialize(l, &val, dtype, &shape)), &shape);
    Val zero = int_val(0, false);
    out.affine = dtype == DT_I64 ? known_of(l, OP_SUB, &zero, &val) : NULL;
    return out;
}

static Val complement(Lower *l, const Expr *expr, Val val)
{
    DType dtype = dtype_of(&val);
    bool fits = expr->op == TOK_NOT ? dtype == DT_BOOL : !dtype_is_float(dtype);
    if (!fits) {
        operator_error(l, expr,
                       arena_printf(l->arena, "`%s` does not apply to %s", token_text(expr->op),
                                    dtype_name(dtype)),
                       NULL);
        return poison_val();
    }
    if (val.kind == VAL_CONST) {
        Val out = {.kind = VAL_CONST, .dtype = dtype};
        out.scalar = scalar_op(OP_NOT, NULL, dtype, dtype, &val.scalar);
        return out;
    }
    return lanes_val(build_unary(&l->b, OP_NOT, as_value(l, &val)), val.lanes);
}

Val lower_unary(Lower *l, const Expr *expr)
{
    Val val = lower_operand(l, expr->a);
    if (is_poison(&val)) {
        return val;
    }
    switch (expr->op) {
    case TOK_MINUS: return negate(l, expr, val);
    case TOK_PLUS: return val;
    default: return complement(l, expr, val);
    }
}

/* ---- where(condition, a, b) and a if condition else b ---- */

/* Two arrays of one type keep it; else as in arithmetic, but a literal that f16 or bf16 holds
 * exactly stays there: choosing never rounds. */
bool select_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out)
{
    if (!a->literal && !b->literal && dtype_of(a) == dtype_of(b)) {
        *out = dtype_of(a);
        return true;
    }
    if (a->literal != b->literal) {
        const Val *literal = a->literal ? a : b;
        DType typed = dtype_of(a->literal ? b : a);
        double held = convert_const(literal, typed).scalar.f;
        if (typed != compute_dtype(typed) && held == convert_const(literal, DT_F32).scalar.f) {
            *out = typed;
            return true;
        }
    }
    return arith_dtype(l, expr, a, b, out);
}

Val select_vals(Lower *l, const Expr *expr, const Expr *const parts[3], const Val v[3])
{
    DType dtype;
    Shape shape, s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = shape_of(&v[i]);
    }
    if (is_poison(&v[0]) || is_poison(&v[1]) || is_poison(&v[2])) {
        return poison_val();
    }
    if (dtype_of(&v[0]) != DT_BOOL) {
        not_a_condition(l, parts[0], &v[0]);
        return poison_val();
    }
    if (!select_dtype(l, expr, &v[1], &v[2], &dtype) ||
        !broadcast_shapes(l, expr->span, parts[1], &v[1], parts[2], &v[2], &s[1], &s[2], &shape) ||
        !broadcast_shapes(l, expr->span, parts[0], &v[0], parts[1], &v[1], &s[0], &shape, &shape)) {
        return poison_val();
    }
    if (v[0].kind == VAL_CONST && v[1].kind == VAL_CONST && v[2].kind == VAL_CONST) {
        const Val *chosen = &v[v[0].scalar.i ? 1 : 2];
        return v[1].literal && v[2].literal && dtype == DT_F32
                   ? literal_val(convert_const(chosen, DT_F32).scalar.f,
                                 convert_const(chosen, DT_F64).scalar.f)
                   : convert_const(chosen, dtype);
    }
    Value *condition = materialize(l, &v[0], DT_BOOL, &shape);
    Value *yes = materialize(l, &v[1], dtype, &shape);
    Value *no = materialize(l, &v[2], dtype, &shape);
    return shaped_val(build_select(&l->b, condition, yes, no), &shape);
}

Val lower_select(Lower *l, const Expr *expr, const Expr *const parts[3])
{
    Val v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = lower_operand(l, parts[i]);
    }
    return select_vals(l, expr, parts, v);
}
