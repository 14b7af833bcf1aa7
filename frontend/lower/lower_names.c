/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves names, and finds the name that a misspelt one may have meant. */
#include "frontend/lower/lower.h"

#include <math.h>
#include <string.h>

Symbol *find_symbol(const Lower *l, const char *name)
{
    for (Symbol *symbol = l->symbols; symbol; symbol = symbol->older) {
        if (text_equal(symbol->name, name)) {
            return symbol;
        }
    }
    return NULL;
}

Symbol *define(Lower *l, const char *name, Span span, Val val)
{
    Symbol *symbol = ARENA_NEW(l->arena, Symbol);
    *symbol = (Symbol){
        .name = name, .val = val, .span = span, .parallel = l->parallel, .lanes = l->n_lanes};
    symbol->older = l->symbols;
    l->symbols = symbol;
    observe_definition(l, name, span, &val);
    return symbol;
}

bool named_dtype(const Lower *l, const char *name, DType *out)
{
    const Symbol *symbol = find_symbol(l, name);
    if (symbol) {
        *out = symbol->val.dtype;
        return symbol->val.kind == VAL_DTYPE;
    }
    return dtype_from_name(name, strlen(name), out);
}

static FnDecl *fn_in(const Module *module, const char *name)
{
    for (size_t i = 0; module && i < module->fns.n; i++) {
        if (text_equal(module->fns.items[i]->name, name)) {
            return module->fns.items[i];
        }
    }
    return NULL;
}

static FnDecl *imported_fn(const Module *module, const char *name, const Module **home)
{
    for (size_t i = 0; i < module->imports.n; i++) {
        FnDecl *fn = fn_in(module->imports.items[i].module, name);
        if (fn) {
            *home = module->imports.items[i].module;
            return fn;
        }
    }
    return NULL;
}

FnDecl *find_fn(const Lower *l, const char *name, const Module **home)
{
    const Module *module = l->calls ? l->calls->module : l->module;
    for (; module; module = module->standard) {
        FnDecl *fn = fn_in(module, name);
        if (fn) {
            *home = module;
            return fn;
        }
        fn = imported_fn(module, name, home);
        if (fn) {
            return fn;
        }
    }
    return NULL;
}

static bool is_kernel(const Lower *l, const char *name)
{
    for (size_t i = 0; i < l->module->kernels.n; i++) {
        if (text_equal(l->module->kernels.items[i]->name, name)) {
            return true;
        }
    }
    return false;
}

/* True if the file defines a function of this name that could not be read. */
static bool is_broken(const Lower *l, const char *name)
{
    for (size_t i = 0; i < l->module->broken_fns.n; i++) {
        if (text_equal(l->module->broken_fns.items[i]->name, name)) {
            return true;
        }
    }
    return false;
}

void unknown_function(Lower *l, const Expr *callee, const char *name)
{
    if (is_broken(l, name)) {
        return;
    }
    if (message_kind(name) != MESSAGE_NONE) {
        Diag *diag = lower_error(l, ERR_NOT_A_VALUE, callee->span, "`%s` gives no value", name);
        diag_help(l->diags, diag, "it is a statement of its own");
        return;
    }
    const char *dot = strrchr(name, '.');
    const Module *home;
    Nearest nearest = nearest_to(name);
    for (const Module *module = l->module; module; module = module->standard) {
        for (size_t i = 0; i < module->fns.n; i++) {
            nearest_try(&nearest, module->fns.items[i]->name);
        }
        for (size_t i = 0; i < module->imports.n; i++) {
            const Module *import = module->imports.items[i].module;
            for (size_t k = 0; import && k < import->fns.n; k++) {
                nearest_try(&nearest, import->fns.items[k]->name);
            }
        }
    }
    for (Builtin i = 0; i < N_BUILTINS; i++) {
        nearest_try(&nearest, builtin_name(i));
    }
    Diag *diag = lower_error(l, ERR_FUNCTION, callee->span, "no function is called `%s`", name);
    if (dot && find_fn(l, dot + 1, &home)) { /* `random.uniform`, after `import random` */
        diag_help(l->diags, diag, "functions go by their own name: `%s`", dot + 1);
        lower_fix(l, diag, callee->span, "%s", dot + 1);
    } else if (foreign_word_help(name)) {
        diag_help(l->diags, diag, "%s", foreign_word_help(name));
    } else if (is_kernel(l, name)) {
        diag_help(l->diags, diag, "`%s` is a kernel: what is called is a function, `fn %s`", name,
                  name);
    } else {
        lower_fix_similar(l, diag, callee->span, &nearest);
    }
}

bool lower_suggest_similar(Lower *l, Diag *diag, const Expr *expr)
{
    Nearest nearest = nearest_to(expr->name);
    for (const Symbol *symbol = l->symbols; symbol; symbol = symbol->older) {
        nearest_try(&nearest, symbol->name);
    }
    return lower_fix_similar(l, diag, expr->span, &nearest);
}

/* Helps if the name is part of an index of the target, where it is not bound. */
static bool help_unbound(Lower *l, Diag *diag, const char *name)
{
    for (size_t i = 0; l->target && i < l->target->args.n; i++) {
        if (expr_mentions(l->target->args.items[i], name)) {
            diag_help(
                l->diags, diag,
                "only a plain index binds a name, as in `y[%s]`: write `parallel %s in N { … }` "
                "around the statement",
                name, name);
            return true;
        }
    }
    return false;
}

static Val float_name(double value)
{
    Val val = float_val(value);
    val.literal = true;
    val.f32 = (float)value;
    return val;
}

Val lower_name(Lower *l, const Expr *expr)
{
    Symbol *symbol = find_symbol(l, expr->name);
    if (symbol) {
        return symbol->parallel < l->parallel ? val_outside(l, symbol) : symbol->val;
    }
    Val val = {.kind = VAL_DTYPE};
    if (dtype_from_name(expr->name, strlen(expr->name), &val.dtype)) {
        return val;
    }
    if (text_equal(expr->name, "inf")) {
        return float_name(INFINITY);
    }
    if (text_equal(expr->name, "nan")) {
        return float_name(NAN);
    }
    const Module *home;
    bool is_fn = find_fn(l, expr->name, &home) != NULL;
    Diag *diag = lower_error(l, ERR_NAME, expr->span, "nothing is called `%s` here", expr->name);
    if (is_fn) {
        diag_help(l->diags, diag, "it is a function: call it, `%s(…)`", expr->name);
    } else if (!help_unbound(l, diag, expr->name)) {
        lower_suggest_similar(l, diag, expr);
    }
    define(l, expr->name, expr->span, poison_val()); /* report it once */
    return poison_val();
}
