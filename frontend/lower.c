/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel: its parameters become the function's, its body becomes ops, its schedule lines are
 * given to the function. */
#include "frontend/lint.h"
#include "frontend/lower_fn.h"

#include "ir/verify.h"

/* ---- parameters ---- */

static Type param_type(Lower *l, const ParamDecl *param)
{
    Type type = lower_type(l, param->type);
    if (!type || param->type->kind == EXPR_NAME) {
        return type;
    }
    return type_tensor(l->func, type->dtype, type->rank, type->dims);
}

static void add_param(Lower *l, const ParamDecl *decl, ParamIo io)
{
    Type type = param_type(l, decl);
    if (!type) {
        define(l, decl->name, decl->span, poison_val());
        return;
    }
    if (decl->fallback) {
        Val fallback = lower_expr(l, decl->fallback);
        check_fits(l, ERR_BINDING, decl->fallback->span, &fallback, type->dtype, true);
    }
    Value *value = func_param(l->func, decl->name, type, io);
    Val val = array_val(value);
    if (type->kind == TYPE_TENSOR) {
        val = (Val){.kind = VAL_TENSOR,
                    .value = value,
                    .is_result = io != PARAM_IN,
                    .is_inout = io == PARAM_INOUT};
    }
    define(l, decl->name, decl->span, val);
}

static void add_params(Lower *l)
{
    for (size_t i = 0; i < l->kernel->params.n; i++) {
        if (!l->kernel->params.items[i].is_const) {
            const ParamDecl *param = &l->kernel->params.items[i];
            add_param(l, param, param->is_inout ? PARAM_INOUT : PARAM_IN);
        }
    }
    for (size_t i = 0; i < l->kernel->results.n; i++) {
        add_param(l, &l->kernel->results.items[i], PARAM_OUT);
    }
}

/* ---- assume ---- */

static DimVar *assumed_size(const Lower *l, const Expr *expr)
{
    const Symbol *symbol = expr->kind == EXPR_NAME ? find_symbol(l, expr->name) : NULL;
    return symbol && symbol->val.kind == VAL_DIM ? poly_as_var(symbol->val.dim) : NULL;
}

static void assume_multiple(Lower *l, const Stmt *stmt, DimVar *size, int64_t multiple)
{
    if (multiple < 1) {
        lower_error(l, ERR_ASSUME, stmt->span, "a size is a multiple of a positive number");
    } else if (multiple > size->multiple) {
        size->multiple = multiple;
    }
}

static void assume_least(DimVar *size, int64_t least)
{
    size->least = least > size->least ? least : size->least;
}

static void assume_most(DimVar *size, int64_t most)
{
    size->most = most < size->most ? most : size->most;
}

static bool is_modulo(const Expr *expr)
{
    return expr->kind == EXPR_BINARY && expr->op == TOK_PERCENT;
}

/* N % 16 == 0, N >= 1, N <= 4096, N > 0, N < 4096. */
static bool assume_fact(Lower *l, const Stmt *stmt)
{
    const Expr *fact = stmt->value;
    int64_t value, multiple;
    if (fact->kind != EXPR_BINARY) {
        return false;
    }
    const Expr *left = is_modulo(fact->a) ? fact->a->a : fact->a;
    DimVar *size = assumed_size(l, left);
    if (!size) {
        return false;
    }
    if (!const_int(l, fact->b, &value)) {
        return true; /* said */
    }
    if (is_modulo(fact->a)) {
        if (fact->op != TOK_EQ || value != 0 || !const_int(l, fact->a->b, &multiple)) {
            return false;
        }
        assume_multiple(l, stmt, size, multiple);
        return true;
    }
    switch (fact->op) {
    case TOK_GE: assume_least(size, value); return true;
    case TOK_GT: assume_least(size, value < INT64_MAX ? value + 1 : value); return true;
    case TOK_LE: assume_most(size, value); return true;
    case TOK_LT: assume_most(size, value > INT64_MIN ? value - 1 : value); return true;
    default: return false;
    }
}

/* With the sizes bound the fact may be decided already. */
static bool known_fact(Lower *l, const Stmt *stmt)
{
    const Expr *fact = stmt->value;
    const Expr *left = fact->kind == EXPR_BINARY && is_modulo(fact->a) ? fact->a->a : fact->a;
    if (fact->kind != EXPR_BINARY || assumed_size(l, left)) {
        return false;
    }
    Val val = lower_expr(l, fact);
    if (val.kind != VAL_CONST || val.dtype != DT_BOOL) {
        return is_poison(&val);
    }
    if (!val.scalar.i) {
        Diag *diag =
            lower_error(l, ERR_ASSUME, stmt->span, "this does not hold for the sizes given");
        diag->kind = DIAG_USAGE;
    }
    return true;
}

/* `assume D in 64, 80` of a kernel was bound before its body; a function's is checked. */
static void assume_set(Lower *l, const Stmt *stmt)
{
    Val size = l->calls ? lower_expr(l, stmt->value) : poison_val();
    bool known = size.kind == VAL_CONST && dtype_is_int(size.dtype), found = false;
    const char *name = source_text(l->diags, l->arena, stmt->value->span);
    for (size_t i = 0; i < stmt->values.n && known; i++) {
        const Expr *value = stmt->values.items[i];
        found = found || (value->kind == EXPR_INT && value->integer == size.scalar.i);
    }
    if (found || is_poison(&size)) {
        return;
    }
    Diag *diag =
        known ? lower_error(l, ERR_ASSUME, stmt->span, "`%s` is %lld here", name,
                            (long long)size.scalar.i)
              : lower_error(l, ERR_ASSUME, stmt->span, "`%s` is not known when compiling", name);
    diag_help(l->diags, diag, "let the kernel assume the values that its size may have");
}

void lower_assume(Lower *l, const Stmt *stmt)
{
    bool never;
    if (stmt->values.n > 0) {
        assume_set(l, stmt);
        return;
    }
    if (known_fact(l, stmt) || assume_fact(l, stmt) ||
        (l->calls && rule_holds(l, stmt->value, &never))) {
        return;
    }
    Diag *diag = lower_error(l, ERR_ASSUME, stmt->span, "this cannot be assumed");
    diag_help(l->diags, diag,
              "write `assume N in 64, 128`, `assume N %% 16 == 0`, `assume N >= 1` or "
              "`assume N <= 4096`");
}

/* ---- the body ---- */

/* What `where` says of sizes is assumed. */
static void assume_rules(Lower *l)
{
    for (size_t i = 0; i < l->kernel->where.rules.n; i++) {
        Expr *rule = l->kernel->where.rules.items[i];
        Stmt stmt = {.kind = STMT_ASSUME, .span = rule->span, .value = rule};
        lower_assume(l, &stmt);
    }
}

static void lower_kernel_body(Lower *l)
{
    assume_rules(l);
    if (!l->kernel->value) {
        lower_block(l, &l->kernel->body);
        return;
    }
    Stmt result = {.kind = STMT_RETURN, .span = l->kernel->value_span};
    Expr *items[] = {l->kernel->value};
    result.values.items = items;
    result.values.n = result.values.cap = 1;
    Stmt *statements[] = {&result};
    StmtList body = {statements, 1, 1};
    lower_block(l, &body);
}

static void check_written(Lower *l)
{
    for (size_t i = 0; i < l->n_params; i++) {
        const Param *param = &l->func->params.items[i];
        if (param->io != PARAM_IN && !*written_flag(l, param->value) && !l->stopped) {
            Diag *diag =
                lower_error(l, ERR_RESULT, l->kernel->span, "`%s` never gets a value", param->name);
            diag_help(l->diags, diag,
                      param->io == PARAM_OUT ? "return it, or write `%s = …`"
                                             : "write `%s = …`, or drop `inout`",
                      param->name);
        }
    }
}

static void check_result(Func *func)
{
    Text problems = text_new(func->arena);
    if (verify_func(func, &problems) > 0) {
        diag_bug(func->diags, "the front end made wrong IR:\n%s", problems.data);
    }
}

Func *frontend_lower(Module *module, const KernelSignature *kernel, const Binding *bindings,
                     size_t n)
{
    Diags *diags = module->diags;
    int errors = diags->errors;
    diags->pass = "frontend";
    Lower l = {.module = module, .arena = module->arena, .diags = diags};
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (&module->kernels.items[i]->signature == kernel) {
            l.kernel = module->kernels.items[i];
        }
    }
    l.func = func_new(module->arena, diags, kernel->name);
    l.b = build_at_end(l.func, l.func->body);
    if (!bind_all(&l, bindings, n)) {
        return NULL;
    }
    add_params(&l);
    if (diags->errors > errors) {
        return NULL; /* parameters are missing: what the body says of them would be noise */
    }
    l.n_params = l.func->params.n;
    lower_kernel_body(&l);
    if (diags->errors == errors) {
        check_written(&l);
    }
    if (diags->errors > errors) {
        return NULL;
    }
    lint_kernel(&l);
    func_remove_dead(l.func);
    check_result(l.func);
    return l.func;
}
