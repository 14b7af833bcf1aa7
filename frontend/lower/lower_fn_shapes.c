/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes in the parameters of functions: `fn f(x: T[M, N], y: T[N])` takes M, N and T from its
 * arguments, and the two occurrences of N are checked to be equal. */
#include "frontend/lower/lower_index.h"
#include "frontend/lower/lower_inline.h"

#include <string.h>

static bool is_shaped(const ParamDecl *param)
{
    return param->type && param->type->kind == EXPR_INDEX;
}

/* ---- element types ---- */

static Val not_of_class(Lower *l, const Expr *arg, const ParamDecl *param, const Val *val)
{
    Diag *diag =
        lower_error(l, ERR_ARGUMENTS, arg->span, "%s was passed as `%s`, where %s is expected",
                    val_text(l, val), param->name, param->type->a->name);
    diag_help(l->diags, diag, "cast the argument");
    return poison_val();
}

Val shaped_argument(Lower *l, const Expr *arg, const ParamDecl *param, Val val)
{
    const Expr *type = param->type;
    DType dtype;
    TypeClass type_class;
    if (type->kind != EXPR_INDEX || type->a->kind != EXPR_NAME) {
        lower_error(l, ERR_TYPE_NAME, type->span, "this is not a type");
        return poison_val();
    }
    if (val.kind != VAL_TENSOR || val.is_result) {
        val = as_operand(l, arg, val);
    }
    if (is_poison(&val)) {
        return val;
    }
    if (type_class_find(type->a->name, &type_class)) {
        bool allowed = type_class_holds(type_class, dtype_of(&val));
        return allowed ? val : not_of_class(l, arg, param, &val);
    }
    bool known = dtype_from_name(type->a->name, strlen(type->a->name), &dtype);
    if (!known || dtype == dtype_of(&val)) {
        return val; /* a name of the function's own, or what it should be */
    }
    val = as_operand(l, arg, val);
    if (!check_fits(l, ERR_ARGUMENTS, arg->span, &val, dtype, false)) {
        return poison_val();
    }
    return converted_val(l, val, dtype);
}

/* `T` in `x: T[N]`: the argument's, or what another parameter has made of it. */
static bool bind_dtype(Lower *l, const Expr *call, const ParamDecl *param, const Expr *type,
                       const Val *val)
{
    DType dtype;
    TypeClass type_class;
    if (type_class_find(type->name, &type_class) ||
        dtype_from_name(type->name, strlen(type->name), &dtype)) {
        return true;
    }
    const Symbol *symbol = find_symbol(l, type->name);
    if (!symbol) {
        Val bound = {.kind = VAL_DTYPE, .dtype = dtype_of(val)};
        define(l, type->name, type->span, bound);
        return true;
    }
    if (symbol->val.kind == VAL_DTYPE && symbol->val.dtype == dtype_of(val)) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_ARGUMENTS, call->span, "%s was passed as `%s`, where %s is %s",
                             val_text(l, val), param->name, type->name,
                             symbol->val.kind == VAL_DTYPE ? dtype_name(symbol->val.dtype)
                                                           : val_text(l, &symbol->val));
    diag_label(l->diags, diag, param->type->span, "declared here");
    return false;
}

/* A literal is what the others are. */
static bool bind_literal(Lower *l, const Expr *call, const ParamDecl *param, Val val)
{
    const Symbol *type = find_symbol(l, param->type->name);
    if (!type || type->val.kind != VAL_DTYPE) {
        return bind_dtype(l, call, param, param->type, &val);
    }
    if (!check_fits(l, ERR_ARGUMENTS, call->span, &val, type->val.dtype, false)) {
        return false;
    }
    find_symbol(l, param->name)->val = convert_const(&val, type->val.dtype);
    return true;
}

/* The types of parameters `x: T`, of any shape: literals last. */
static bool bind_unshaped(Lower *l, const Expr *call, const FnDecl *fn, const Val *vals)
{
    bool good = true;
    for (int literals = 0; literals < 2; literals++) {
        for (size_t i = 0; i < fn->params.n && good; i++) {
            const ParamDecl *param = &fn->params.items[i];
            if (is_generic(fn, param->type) && vals[i].literal == literals) {
                good = literals ? bind_literal(l, call, param, vals[i])
                                : bind_dtype(l, call, param, param->type, &vals[i]);
            }
        }
    }
    return good;
}

/* ---- extents ---- */

static bool wrong_rank(Lower *l, const Expr *call, const ParamDecl *param, const Val *val)
{
    size_t n = param->type->args.n;
    Diag *diag =
        lower_error(l, ERR_ARGUMENTS, call->span, "%s was passed as `%s`, where %zu %s expected",
                    val_text(l, val), param->name, n, n == 1 ? "axis is" : "axes are");
    diag_label(l->diags, diag, param->type->span, "declared here");
    return false;
}

static bool is_open(const Lower *l, const Expr *dim)
{
    if (dim->kind == EXPR_NAME) {
        return !find_symbol(l, dim->name);
    }
    return dim->kind == EXPR_BINARY && (is_open(l, dim->a) || is_open(l, dim->b));
}

/* The operand that makes `a op b` this extent, when the other one is known; NULL: none. */
static Dim other_operand(Lower *l, const Expr *dim, const Expr *known, Dim extent)
{
    int64_t factor;
    Dim have = lower_dim(l, known);
    if (!have) {
        return NULL;
    }
    switch (dim->op) {
    case TOK_PLUS: return dim_sub(l->func, extent, have);
    case TOK_MINUS:
        return known == dim->b ? poly_add(l->func, extent, have) : dim_sub(l->func, have, extent);
    case TOK_STAR:
        return poly_is_const(have, &factor) ? dim_divided(l->func, extent, factor) : NULL;
    default: return NULL;
    }
}

/* An unbound name that is alone in a sum or product is solved from the extent. */
static void bind_extent(Lower *l, const Expr *dim, Dim extent)
{
    if (!extent || !is_open(l, dim)) {
        return;
    }
    if (dim->kind == EXPR_NAME) {
        define(l, dim->name, dim->span, dim_val(extent));
    } else if (!is_open(l, dim->b)) {
        bind_extent(l, dim->a, other_operand(l, dim, dim->b, extent));
    } else if (!is_open(l, dim->a)) {
        bind_extent(l, dim->b, other_operand(l, dim, dim->a, extent));
    }
}

static bool check_extent(Lower *l, const Expr *call, const ParamDecl *param, int axis, Dim extent)
{
    Dim wanted = lower_dim(l, param->type->args.items[axis]);
    if (!wanted || wanted == extent) {
        return wanted != NULL;
    }
    Diag *diag = lower_error(l, ERR_SHAPES, call->span, "axis %d of `%s` has extent %s, not %s",
                             axis, param->name, dim_text(l, extent), dim_text(l, wanted));
    diag_label(l->diags, diag, param->type->span, "declared here");
    return false;
}

bool bind_shapes(Lower *l, const Expr *call, const FnDecl *fn, const Val *vals)
{
    bool good = true;
    for (size_t i = 0; i < fn->params.n; i++) {
        const ParamDecl *param = &fn->params.items[i];
        if (!is_shaped(param)) {
            continue;
        }
        Shape shape = shape_of(&vals[i]);
        good = good &&
               (shape.rank == (int)param->type->args.n || wrong_rank(l, call, param, &vals[i]));
        good = good && bind_dtype(l, call, param, param->type->a, &vals[i]);
        for (int axis = 0; good && axis < shape.rank; axis++) {
            bind_extent(l, param->type->args.items[axis], shape.dims[axis]);
        }
    }
    good = good && bind_unshaped(l, call, fn, vals);
    for (size_t i = 0; i < fn->params.n && good; i++) {
        const ParamDecl *param = &fn->params.items[i];
        Shape shape = shape_of(&vals[i]);
        for (int axis = 0; is_shaped(param) && good && axis < shape.rank; axis++) {
            good = check_extent(l, call, param, axis, shape.dims[axis]);
        }
    }
    return good;
}
