/* SPDX-License-Identifier: Apache-2.0 */
/* The `where` clause of functions: conditions on the arguments, and sizes that are computed from
 * other sizes. Nothing is checked at run time: the facts about the caller's sizes must prove a
 * condition, or the caller must assume it. */
#include "frontend/lower/lower_inline.h"

#include <string.h>

/* ---- facts about sizes ---- */

/* a >= b + more, whatever the sizes are? */
static bool at_least(Lower *l, Dim a, Dim b, int64_t more)
{
    Dim difference = dim_sub(l->func, dim_sub(l->func, a, b), poly_const(l->func, more));
    return dim_is_natural(l->func, difference);
}

/* a % n == 0 */
static bool is_multiple(Lower *l, const Expr *rule)
{
    int64_t by, zero;
    bool modulo = rule->op == TOK_EQ && rule->a->kind == EXPR_BINARY && rule->a->op == TOK_PERCENT;
    if (!modulo) {
        return false;
    }
    Val whole = lower_expr(l, rule->a->a);
    Dim dim = val_dim(l, &whole);
    return dim && const_int(l, rule->a->b, &by) && const_int(l, rule->b, &zero) && zero == 0 &&
           by > 0 && poly_divisor(dim) % by == 0;
}

static bool compares(Lower *l, TokenKind op, Dim a, Dim b)
{
    switch (op) {
    case TOK_GE: return at_least(l, a, b, 0);
    case TOK_GT: return at_least(l, a, b, 1);
    case TOK_LE: return at_least(l, b, a, 0);
    case TOK_LT: return at_least(l, b, a, 1);
    case TOK_EQ: return dim_same(l->func, a, b);
    case TOK_NE: return at_least(l, a, b, 1) || at_least(l, b, a, 1);
    default: return false;
    }
}

bool rule_holds(Lower *l, const Expr *rule, bool *never)
{
    Val val = lower_expr(l, rule);
    *never = false;
    if (val.kind == VAL_CONST && val.dtype == DT_BOOL) {
        *never = !val.scalar.i;
        return val.scalar.i != 0;
    }
    if (is_poison(&val) || rule->kind != EXPR_BINARY || is_multiple(l, rule)) {
        return !is_poison(&val) && rule->kind == EXPR_BINARY;
    }
    Val a = lower_expr(l, rule->a), b = lower_expr(l, rule->b);
    Dim left = val_dim(l, &a), right = val_dim(l, &b);
    return left && right && compares(l, rule->op, left, right);
}

/* ---- in words ---- */

/* `swapped`: with its sides exchanged. */
static const char *comparison_text(TokenKind op, bool swapped)
{
    switch (op) {
    case TOK_GE: return swapped ? "<=" : ">=";
    case TOK_GT: return swapped ? "<" : ">";
    case TOK_LE: return swapped ? ">=" : "<=";
    default: return swapped ? ">" : "<";
    }
}

/* "`N` is 2*K, `K` is 3": the sizes that the rule names, each once. */
static void put_sizes(Lower *l, const Expr *expr, Text *out)
{
    const Symbol *symbol = expr && expr->kind == EXPR_NAME ? find_symbol(l, expr->name) : NULL;
    Dim dim = symbol ? val_dim(l, &symbol->val) : NULL;
    const char *mark = symbol ? arena_printf(l->arena, "`%s`", symbol->name) : NULL;
    if (dim && !strstr(out->data, mark)) {
        text_printf(out, "%s%s is %s", out->data[0] ? ", " : "", mark, dim_text(l, dim));
    }
    if (expr) {
        put_sizes(l, expr->a, out);
        put_sizes(l, expr->b, out);
    }
}

/* The rule in the caller's words, as a kernel can assume it; NULL: it cannot. */
static const char *assumption(Lower *l, const Expr *rule)
{
    bool modulo = rule->a->kind == EXPR_BINARY && rule->a->op == TOK_PERCENT;
    Val a = lower_expr(l, modulo ? rule->a->a : rule->a), b = lower_expr(l, rule->b);
    Dim left = val_dim(l, &a), right = val_dim(l, &b);
    int64_t by;
    bool comparison =
        rule->op == TOK_GE || rule->op == TOK_GT || rule->op == TOK_LE || rule->op == TOK_LT;
    if (!left || !right || (modulo ? rule->op != TOK_EQ : !comparison)) {
        return NULL;
    }
    if (!modulo) { /* the size goes to the left, as in `B > 3` */
        bool swap = poly_is_const(left, &by);
        return arena_printf(l->arena, "%s %s %s", dim_text(l, swap ? right : left),
                            comparison_text(rule->op, swap), dim_text(l, swap ? left : right));
    }
    if (!const_int(l, rule->a->b, &by)) {
        return NULL;
    }
    const char *format = poly_as_var(left) ? "%s %% %lld == 0" : "(%s) %% %lld == 0";
    return arena_printf(l->arena, format, dim_text(l, left), (long long)by);
}

/* ---- clauses ---- */

const GenericDecl *generic_called(const FnDecl *fn, const char *name)
{
    for (size_t i = 0; i < fn->where.generics.n; i++) {
        if (text_equal(fn->where.generics.items[i].name, name)) {
            return &fn->where.generics.items[i];
        }
    }
    return NULL;
}

bool is_generic(const FnDecl *fn, const Expr *type)
{
    return type && type->kind == EXPR_NAME && generic_called(fn, type->name);
}

static bool check_class(Lower *l, const Expr *call, const FnDecl *fn, const GenericDecl *generic)
{
    const Symbol *symbol = find_symbol(l, generic->name);
    if (!symbol || symbol->val.kind != VAL_DTYPE) {
        Diag *diag =
            lower_error(l, ERR_TYPE_NAME, generic->span,
                        "no parameter of `%s` has the element type `%s`", fn->name, generic->name);
        diag_help(l->diags, diag, "say it of a parameter: `x: %s[N]`", generic->name);
        return false;
    }
    if (type_class_holds(generic->type_class, symbol->val.dtype)) {
        return true;
    }
    Diag *diag = lower_error(l, ERR_WHERE, call->span, "`%s` requires %s: %s, and %s is %s here",
                             fn->name, generic->name, type_class_name(generic->type_class),
                             generic->name, dtype_name(symbol->val.dtype));
    diag_label(l->diags, diag, generic->span, "required here");
    diag_help(l->diags, diag, "cast what it is called with");
    return false;
}

/* The function that the program calls: what the library calls inside of it is not its reader's. */
static const char *called_name(const Lower *l, const FnDecl *fn)
{
    const char *name = fn->name;
    for (const CallFrame *frame = l->calls; frame && in_library(l, frame->fn->span);
         frame = frame->up) {
        name = frame->fn->name;
    }
    return name;
}

/* The variable that the size is; NULL: it is made of several, or a number. */
static const DimVar *only_var(Dim dim)
{
    const PolyTerm *term = &dim->terms[0];
    return dim->n_terms == 1 && term->n == 1 && term->coef == 1 ? term->vars[0] : NULL;
}

/* A quotient, which has no name that the program knows, as it is computed. */
static const char *quotient_text(Lower *l, Dim dim)
{
    const DimVar *var = only_var(dim);
    if (!var || var->by <= 0) {
        return dim_text(l, dim);
    }
    if (only_var(var->of)) {
        return arena_printf(l->arena, "%s // %lld", dim_text(l, var->of), (long long)var->by);
    }
    return arena_printf(l->arena, "(%s) // %lld", dim_text(l, var->of), (long long)var->by);
}

/* A size that parameters have bound is checked, any other is defined. */
static bool bind_def(Lower *l, const Expr *call, const FnDecl *fn, const SizeDef *def)
{
    const Symbol *symbol = find_symbol(l, def->name);
    Val val = defined_size(l, def, arena_printf(l->arena, "%s.%zu", def->name, l->func->dimvars.n));
    if (is_poison(&val)) {
        return false;
    }
    if (!symbol) {
        define(l, def->name, def->span, val);
        return true;
    }
    Dim have = val_dim(l, &symbol->val), want = val_dim(l, &val);
    if (dim_same(l->func, have, want)) {
        return true;
    }
    Span whole = span_join(def->span, def->value->span);
    Diag *diag = lower_error(l, ERR_WHERE, call->span, "`%s` requires %s, which is %s here, not %s",
                             called_name(l, fn), source_text(l->diags, l->arena, whole),
                             quotient_text(l, want),
                             have ? dim_text(l, have) : val_text(l, &symbol->val));
    diag_label(l->diags, diag, whole, "required here");
    if (have && only_var(have) && only_var(have)->by <= 0) {
        diag_help(l->diags, diag, "if it always is: `where %s = %s`", dim_text(l, have),
                  quotient_text(l, want));
    }
    return false;
}

bool bind_where(Lower *l, const Expr *call, const FnDecl *fn)
{
    const Where *where = &fn->where;
    bool good = true, never;
    for (size_t i = 0; i < where->generics.n && good; i++) {
        good = check_class(l, call, fn, &where->generics.items[i]);
    }
    for (size_t i = 0; i < where->defs.n && good; i++) {
        good = bind_def(l, call, fn, &where->defs.items[i]);
    }
    for (size_t i = 0; i < where->rules.n && good; i++) {
        int errors = l->diags->errors;
        good = rule_holds(l, where->rules.items[i], &never);
        if (!good && l->diags->errors == errors) {
            const Expr *rule = where->rules.items[i];
            const char *text = source_text(l->diags, l->arena, rule->span);
            Diag *diag =
                lower_error(l, ERR_WHERE, call->span, "`%s` requires %s, which %s",
                            called_name(l, fn), text,
                            never ? "does not hold here" : "is not known to hold here");
            diag_label(l->diags, diag, rule->span, "required here");
            Text sizes = text_new(l->arena);
            put_sizes(l, rule, &sizes);
            diag_note(l->diags, diag, "%s here", sizes.data);
            const char *assumed = never ? NULL : assumption(l, rule);
            if (assumed) {
                diag_help(l->diags, diag, "if it always does: `assume %s`", assumed);
                lower_fix_assume(l, diag, assumed);
            }
        }
    }
    return good;
}
