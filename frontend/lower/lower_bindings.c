/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are given for one compilation: element types of generics, values of const
 * parameters, and sizes that become constants. */
#include "frontend/lower/lower.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const Binding *binding_of(const Binding *bindings, size_t n, const char *name)
{
    for (size_t i = n; i > 0; i--) {
        if (text_equal(bindings[i - 1].name, name)) {
            return &bindings[i - 1];
        }
    }
    return NULL;
}

static Diag *bind_error(Lower *l, ErrorCode code, Span span, const char *message)
{
    Diag *diag = front_error(l->diags, code, span, "%s", message);
    diag->kind = DIAG_USAGE;
    return diag;
}

static Val wrong_value(Lower *l, Span span, const Binding *binding, const char *want)
{
    bind_error(l, ERR_BINDING, span,
               arena_printf(l->arena, "`%s=%s`: not %s", binding->name, binding->text, want));
    return poison_val();
}

/* ---- names that nothing has ---- */

static void unknown_binding(Lower *l, const Binding *binding)
{
    const KernelSignature *signature = &l->kernel->signature;
    Nearest nearest = nearest_to(binding->name);
    for (size_t i = 0; i < signature->generics.n; i++) {
        nearest_try(&nearest, signature->generics.items[i]);
    }
    for (size_t i = 0; i < signature->sizes.n; i++) {
        nearest_try(&nearest, signature->sizes.items[i]);
    }
    for (size_t i = 0; i < signature->params.n; i++) {
        if (signature->params.items[i].is_const) {
            nearest_try(&nearest, signature->params.items[i].name);
        }
    }
    if (nearest.best && nearest.distance == 0) {
        return;
    }
    Diag *diag = bind_error(l, ERR_BINDING, l->kernel->span,
                            arena_printf(l->arena,
                                         "`%s=%s`: `%s` has no type parameter, const parameter "
                                         "or size of that name",
                                         binding->name, binding->text, l->kernel->name));
    if (nearest_found(&nearest)) {
        diag_help(l->diags, diag, "did you mean `%s`?", nearest_found(&nearest));
    }
}

/* ---- element types ---- */

static Val bind_generic(Lower *l, const GenericDecl *generic, const Binding *binding)
{
    Val val = {.kind = VAL_DTYPE};
    if (!binding) {
        Diag *diag = bind_error(
            l, ERR_UNBOUND, generic->span,
            arena_printf(l->arena, "`%s` of `%s` is not bound", generic->name, l->kernel->name));
        diag_help(l->diags, diag, "bind it to an element type: `--set %s=%s`", generic->name,
                  dtype_name(generic->type_class == CLASS_INT ? DT_I32 : DT_F32));
        return poison_val();
    }
    if (!dtype_from_name(binding->text, strlen(binding->text), &val.dtype)) {
        return wrong_value(l, generic->span, binding, "an element type");
    }
    if (!type_class_holds(generic->type_class, val.dtype)) {
        return wrong_value(
            l, generic->span, binding,
            arena_printf(l->arena, "of the class %s", type_class_name(generic->type_class)));
    }
    return val;
}

/* ---- const parameters: their text is an expression of constants ---- */

static bool parse_integer(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return errno == 0 && end != text && *end == 0;
}

static bool parse_number(Lower *l, const char *text, double *out)
{
    Diags quiet;
    diags_init(&quiet, l->arena);
    bool minus = text[0] == '-';
    int source = diags_add_source(&quiet, "", text + minus, strlen(text + minus));
    Lexer lexer = lexer_new(&quiet, source);
    Token token = lexer_next(&lexer);
    bool is_number = token.kind == TOK_INT || token.kind == TOK_FLOAT;
    bool is_complete = lexer_next(&lexer).kind == TOK_END;
    *out = minus ? -token.number : token.number;
    if (token.kind == TOK_NAME && text_equal(text + minus, "inf")) {
        *out = minus ? -(double)__builtin_inf() : (double)__builtin_inf();
        is_number = true;
    }
    return is_number && is_complete && quiet.errors == 0;
}

static Val const_from_text(Lower *l, const ParamDecl *param, const Binding *binding, DType dtype)
{
    Val val = {.kind = VAL_CONST, .dtype = dtype};
    if (dtype == DT_BOOL) {
        val.scalar.i = text_equal(binding->text, "true");
        bool good = val.scalar.i || text_equal(binding->text, "false");
        return good ? val : wrong_value(l, param->span, binding, "true or false");
    }
    if (dtype_is_int(dtype)) {
        Val number = int_val(0, true);
        if (!parse_integer(binding->text, &number.scalar.i)) {
            return wrong_value(l, param->span, binding, "an integer");
        }
        bool fits = check_fits(l, ERR_BINDING, param->span, &number, dtype, false);
        return fits ? convert_const(&number, dtype) : poison_val();
    }
    Val number = float_val(0);
    number.literal = true;
    if (!parse_number(l, binding->text, &number.scalar.f)) {
        return wrong_value(l, param->span, binding, "a number");
    }
    number.f32 = (float)number.scalar.f;
    return convert_const(&number, dtype);
}

static Val const_from_default(Lower *l, const ParamDecl *param, DType dtype)
{
    if (!param->fallback) {
        Diag *diag = bind_error(
            l, ERR_UNBOUND, param->span,
            arena_printf(l->arena, "`%s` of `%s` is not bound", param->name, l->kernel->name));
        const char *number = dtype_is_int(dtype) ? "1" : "0.5";
        diag_help(l->diags, diag, "bind it to a value: `--set %s=%s`", param->name,
                  dtype == DT_BOOL ? "true" : number);
        return poison_val();
    }
    Val val = lower_expr(l, param->fallback);
    if (is_poison(&val)) {
        return val;
    }
    if (val.kind != VAL_CONST) {
        lower_error(l, ERR_NOT_CONST, param->fallback->span, "a default is a constant");
        return poison_val();
    }
    bool fits = check_fits(l, ERR_BINDING, param->fallback->span, &val, dtype, true);
    return fits ? convert_const(&val, dtype) : poison_val();
}

/* ---- sizes ---- */

static const char *set_text(Lower *l, const AssumeSet *set)
{
    Text text = text_new(l->arena);
    for (size_t i = 0; i < set->n; i++) {
        text_printf(&text, "%s%lld", i ? ", " : "", (long long)set->values[i]);
    }
    return text.data;
}

static bool in_set(const AssumeSet *set, int64_t value)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->values[i] == value) {
            return true;
        }
    }
    return false;
}

static Val bound_size(Lower *l, const Binding *binding, const AssumeSet *set)
{
    int64_t value;
    if (!parse_integer(binding->text, &value) || value < 0) {
        return wrong_value(l, l->kernel->span, binding, "a size");
    }
    if (set && !in_set(set, value)) {
        return wrong_value(l, l->kernel->span, binding,
                           arena_printf(l->arena, "one of %s", set_text(l, set)));
    }
    return int_val(value, false);
}

static Val unbound_size(Lower *l, const char *name, const AssumeSet *set)
{
    if (!set) {
        return (Val){.kind = VAL_DIM, .dim = poly_var(l->func, func_size(l->func, name))};
    }
    Diag *diag = bind_error(
        l, ERR_UNBOUND, l->kernel->span,
        arena_printf(l->arena, "the size `%s` of `%s` is not bound", name, l->kernel->name));
    diag_help(l->diags, diag, "its values are %s: bind it by `--set %s=%lld`", set_text(l, set),
              name, (long long)(set->n ? set->values[0] : 0));
    return poison_val();
}

/* A sum of products of sizes, which may be negative; NULL after an error. */
static Dim signed_dim(Lower *l, const Expr *expr)
{
    Val val = lower_expr(l, expr);
    if (val.kind == VAL_DIM) {
        return val.dim;
    }
    if (val.kind == VAL_CONST && dtype_is_int(val.dtype)) {
        return poly_const(l->func, val.scalar.i);
    }
    if (!is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_SIZE, expr->span, "this is not made of sizes");
        diag_help(l->diags, diag,
                  "a size is made of sizes, integers and const parameters by + - * and //");
    }
    return NULL;
}

/* num // den + rest, with the terms in any order? */
static bool split_quotient(Lower *l, const Expr *expr, Dim *num, int64_t *den, Dim *rest)
{
    if (expr->kind != EXPR_BINARY) {
        return false;
    }
    if (expr->op == TOK_FLOOR) {
        *rest = poly_const(l->func, 0);
        *num = signed_dim(l, expr->a);
        return *num && const_int(l, expr->b, den);
    }
    if (expr->op == TOK_PLUS && split_quotient(l, expr->b, num, den, rest)) {
        *rest = poly_add(l->func, *rest, signed_dim(l, expr->a));
        return true;
    }
    bool sum = expr->op == TOK_PLUS || expr->op == TOK_MINUS;
    if (!sum || !split_quotient(l, expr->a, num, den, rest)) {
        return false;
    }
    Dim other = signed_dim(l, expr->b);
    *rest = expr->op == TOK_PLUS ? poly_add(l->func, *rest, other) : dim_sub(l->func, *rest, other);
    return true;
}

/* A quotient is one size, so that it is never negative: that is checked before a launch. */
Val defined_size(Lower *l, const SizeDef *def, const char *name)
{
    Dim num, rest;
    int64_t den;
    int errors = l->diags->errors;
    if (!split_quotient(l, def->value, &num, &den, &rest)) {
        Dim dim = l->diags->errors > errors ? NULL : signed_dim(l, def->value);
        return dim ? dim_val(dim) : poison_val();
    }
    Dim of =
        den > 0 ? poly_add(l->func, num, poly_mul(l->func, poly_const(l->func, den), rest)) : NULL;
    if (!of) {
        Diag *diag = lower_error(l, ERR_SIZE, def->value->span, "this is not a size");
        diag_help(l->diags, diag, "sizes are divided by positive constants");
        return poison_val();
    }
    int64_t value;
    if (poly_is_const(of, &value)) {
        return int_val(value / den - (value % den < 0), false);
    }
    return dim_val(den == 1 ? of : dim_defined_quotient(l->func, name, of, den));
}

/* A launch checks such a size in an axis, or else by itself. So the facts are recorded after the
 * parameters, or earlier where an extent of the signature divides such a size. */
bool assume_defined_sizes(Lower *l)
{
    bool recorded = false;
    for (size_t i = 0; i < l->kernel->where.defs.n; i++) {
        const SizeDef *def = &l->kernel->where.defs.items[i];
        const Symbol *symbol = find_symbol(l, def->name);
        bool own = symbol && symbol->span.start == def->span.start;
        bool sum = own && symbol->val.kind == VAL_DIM && symbol->val.dim;
        if (sum && !dim_is_natural(l->func, symbol->val.dim)) {
            dim_assume_natural(l->func, symbol->val.dim);
            recorded = true;
        }
    }
    return recorded;
}

bool bind_all(Lower *l, const Binding *bindings, size_t n)
{
    int errors = l->diags->errors;
    for (size_t i = 0; i < n; i++) {
        unknown_binding(l, &bindings[i]);
    }
    for (size_t i = 0; i < l->kernel->where.generics.n; i++) {
        const GenericDecl *generic = &l->kernel->where.generics.items[i];
        define(l, generic->name, generic->span,
               bind_generic(l, generic, binding_of(bindings, n, generic->name)));
    }
    for (size_t i = 0; i < l->kernel->params.n; i++) {
        const ParamDecl *param = &l->kernel->params.items[i];
        if (!param->is_const) {
            continue;
        }
        const Binding *binding = binding_of(bindings, n, param->name);
        Type type = lower_type(l, param->type);
        Val val = poison_val();
        if (type) {
            val = binding ? const_from_text(l, param, binding, type->dtype)
                          : const_from_default(l, param, type->dtype);
        }
        define(l, param->name, param->span, val);
    }

    for (size_t i = 0; i < l->kernel->signature.sizes.n; i++) {
        const char *name = l->kernel->signature.sizes.items[i];
        const Binding *binding = binding_of(bindings, n, name);
        const KernelDecl *kernel = l->kernel;
        const AssumeSet *set = NULL;
        for (size_t k = 0; k < kernel->sets.n; k++) {
            if (text_equal(kernel->sets.items[k].size, name)) {
                set = &kernel->sets.items[k];
                break;
            }
        }

        Val val = binding ? bound_size(l, binding, set) : unbound_size(l, name, set);
        define(l, name, SPAN_NONE, val);
    }

    assume_all_early(l);
    for (size_t i = 0; i < l->kernel->where.defs.n; i++) {
        const SizeDef *def = &l->kernel->where.defs.items[i];
        Val val = defined_size(l, def, def->name);
        if (val.kind == VAL_DIM) {
            func_name_dim(l->func, val.dim, def->name);
        }
        define(l, def->name, def->span, val);
    }
    assume_all_early(l); /* what speaks of the sizes that follow from others */
    return l->diags->errors == errors;
}
