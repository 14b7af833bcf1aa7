/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers one kernel: its parameters become those of the IR function, its body becomes ops, and its
 * schedule entries are added to the function. */
#include "frontend/lower/lint.h"
#include "frontend/lower/lower_inline.h"

#include "ir/verify/verify.h"

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

/* ---- assume ---- */

static bool is_modulo(const Expr *expr)
{
    return expr->kind == EXPR_BINARY && expr->op == TOK_PERCENT;
}

/* A size, or a sum of sizes, of which a fact says something. */
static DimVar *assumed_size(Lower *l, Dim dim)
{
    DimVar *size = poly_as_var(dim);
    return size ? size : func_quotient(l->func, NULL, dim, 1);
}

static void refuse_given(Lower *l, const Expr *fact)
{
    Diag *diag = lower_error(l, ERR_ASSUME, fact->span, "this does not hold for the sizes given");
    diag->kind = DIAG_USAGE;
}

/* dim >= 0: a bound of a size where it is about one, else a fact of its own. */
static void assume_natural(Lower *l, const Expr *fact, Dim dim)
{
    int64_t value;
    if (poly_is_const(dim, &value)) {
        if (value < 0) {
            refuse_given(l, fact);
        }
        return;
    }
    const PolyTerm *last = &dim->terms[dim->n_terms - 1];
    value = dim->terms[0].n == 0 ? dim->terms[0].coef : 0;
    bool one = last->n == 1 && dim->n_terms == (value ? 2 : 1) && last->coef != INT64_MIN;
    if (one && last->coef > 0) {
        DimVar *size = last->vars[0];
        int64_t missing = 0;
        if (value < 0) {
            missing = value == INT64_MIN ? INT64_MAX : -value;
        }
        int64_t least = missing / last->coef + (missing % last->coef != 0);
        size->least = least > size->least ? least : size->least;
    } else if (one && value >= 0) {
        DimVar *size = last->vars[0];
        int64_t most = value / -last->coef;
        size->most = most < size->most ? most : size->most;
    } else if (!dim_is_natural(l->func, dim)) {
        dim_assume_natural(l->func, dim);
    }
}

static Dim side(Lower *l, const Expr *expr)
{
    Val val = lower_expr(l, expr);
    return val_dim(l, &val);
}

/* `rule` of sizes that are all known by now: N % 16 == 0, N >= 1, H + 2*pad >= R. */
static bool assume_fact(Lower *l, const Expr *rule)
{
    int64_t by, zero;
    if (rule->kind != EXPR_BINARY) {
        return false;
    }
    const Expr *of = is_modulo(rule->a) ? rule->a->a : rule->a;
    Dim left = side(l, of), right = side(l, rule->b);
    if (!left || !right) {
        return false;
    }
    if (is_modulo(rule->a)) {
        Dim divisor = side(l, rule->a->b);
        if (rule->op != TOK_EQ || !divisor || !poly_is_const(divisor, &by) ||
            !poly_is_const(right, &zero) || zero != 0) {
            return false;
        }
        int64_t value;
        if (by < 1) {
            lower_error(l, ERR_ASSUME, rule->span, "a size is a multiple of a positive number");
        } else if (poly_is_const(left, &value)) {
            if (value % by != 0) {
                refuse_given(l, rule);
            }
        } else {
            DimVar *size = assumed_size(l, left);
            size->multiple = by > size->multiple ? by : size->multiple;
        }
        return true;
    }
    Dim one = poly_const(l->func, 1), difference = NULL;
    switch (rule->op) {
    case TOK_GE: difference = dim_sub(l->func, left, right); break;
    case TOK_GT: difference = dim_sub(l->func, dim_sub(l->func, left, right), one); break;
    case TOK_LE: difference = dim_sub(l->func, right, left); break;
    case TOK_LT: difference = dim_sub(l->func, dim_sub(l->func, right, left), one); break;
    default: break;
    }
    if (difference) {
        assume_natural(l, rule, difference);
    }
    return difference != NULL;
}

/* With the sizes bound the fact may be decided already. */
static bool known_fact(Lower *l, const Expr *rule)
{
    Val val = lower_expr(l, rule);
    if (val.kind == VAL_CONST && val.dtype == DT_BOOL && !val.scalar.i) {
        refuse_given(l, rule);
    }
    return is_poison(&val) || (val.kind == VAL_CONST && val.dtype == DT_BOOL);
}

/* Are all names in it those of sizes and constants that are known by now? */
static bool names_sizes(Lower *l, const Expr *expr)
{
    if (!expr || expr->kind == EXPR_INT) {
        return true;
    }
    if (expr->kind == EXPR_NAME) {
        const Symbol *symbol = find_symbol(l, expr->name);
        return symbol && (symbol->val.kind == VAL_DIM || symbol->val.kind == VAL_CONST);
    }
    return expr->kind == EXPR_BINARY && expr->op != TOK_SLASH && names_sizes(l, expr->a) &&
           names_sizes(l, expr->b);
}

/* What a kernel says of its sizes holds from its signature on, whichever line says it: what sizes
 * and parameters are made of may need it. What is wrong is reported in its place. */
static void assume_early(Lower *l, const Expr *rule)
{
    Dim left = NULL, right = NULL;
    if (rule->kind == EXPR_BINARY && names_sizes(l, rule)) {
        const Expr *of = is_modulo(rule->a) ? rule->a->a : rule->a;
        left = side(l, of);
        right = side(l, rule->b);
    }
    int64_t a, b, by = 1;
    bool constant = left && right && poly_is_const(left, &a) && poly_is_const(right, &b);
    Dim divisor = left && is_modulo(rule->a) ? side(l, rule->a->b) : NULL;
    bool divides = !divisor || (poly_is_const(divisor, &by) && by > 0);
    if (left && right && !constant && divides) {
        assume_fact(l, rule);
    }
}

void assume_all_early(Lower *l)
{
    for (size_t i = 0; i < l->kernel->where.rules.n; i++) {
        assume_early(l, l->kernel->where.rules.items[i]);
    }
    for (size_t i = 0; i < l->kernel->body.n; i++) {
        const Stmt *stmt = l->kernel->body.items[i];
        if (stmt->kind == STMT_ASSUME && stmt->values.n == 0) {
            assume_early(l, stmt->value);
        }
    }
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

/* `assume sorted(e)`: equal elements of a parameter lie together. False: it is another rule. */
static bool assume_sorted(Lower *l, const Expr *rule)
{
    if (rule->kind != EXPR_CALL || rule->a->kind != EXPR_NAME ||
        !text_equal(rule->a->name, "sorted") || rule->args.n != 1 ||
        rule->args.items[0]->kind != EXPR_NAME) {
        return false;
    }
    Val val = lower_expr(l, rule->args.items[0]);
    bool integers = val.kind == VAL_TENSOR && val.value->type->rank == 1 &&
                    dtype_is_int(val.value->type->dtype);
    if (integers) {
        l->func->params.items[val.value->index].sorted = true;
    } else if (!is_poison(&val)) {
        Diag *diag = lower_error(l, ERR_ASSUME, rule->args.items[0]->span,
                                 "only integers of a parameter with one axis are sorted");
        diag_help(l->diags, diag, "name the parameter, as in `assume sorted(expert)`");
    }
    return true;
}

static void refuse_assumption(Lower *l, const Stmt *stmt)
{
    const Expr *rule = stmt->value;
    Diag *diag = lower_error(l, ERR_ASSUME, stmt->span, "this cannot be assumed");
    if (rule->kind == EXPR_BINARY && is_modulo(rule->a) && rule->a->a->kind == EXPR_NAME &&
        rule->a->b->kind == EXPR_NAME) {
        diag_help(l->diags, diag,
                  "only a number can divide a size in a fact; that `%s` is a multiple of `%s` is "
                  "a definition behind the kernel's head: `where %s = Q*%s`",
                  rule->a->a->name, rule->a->b->name, rule->a->a->name, rule->a->b->name);
        return;
    }
    diag_help(l->diags, diag,
              "write `assume N in 64, 128`, `assume N %% 16 == 0`, a comparison of sizes by "
              "< <= > >=: `assume N >= 1`, `assume H + 2 >= R`, or `assume sorted(x)` of integers");
}

void lower_assume(Lower *l, const Stmt *stmt)
{
    bool never;
    int errors = l->diags->errors;
    if (stmt->values.n > 0) {
        assume_set(l, stmt);
        return;
    }
    if (assume_sorted(l, stmt->value)) {
        return;
    }
    if (assume_fact(l, stmt->value) || l->diags->errors > errors || known_fact(l, stmt->value) ||
        (l->calls && rule_holds(l, stmt->value, &never))) {
        return;
    }
    refuse_assumption(l, stmt);
}

/* ---- the body ---- */

static void lower_kernel_body(Lower *l)
{
    /* The rules of `where` are assumptions. */
    for (size_t i = 0; i < l->kernel->where.rules.n; i++) {
        Expr *rule = l->kernel->where.rules.items[i];
        Stmt stmt = {.kind = STMT_ASSUME, .span = rule->span, .value = rule};
        lower_assume(l, &stmt);
    }
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

Func *frontend_lower(Module *module, const KernelSignature *kernel, const Binding *bindings,
                     size_t n)
{
    Diags *diags = module->diags;
    int errors = diags->errors;
    diags->pass = "frontend";
    Lower l = {.module = module, .arena = module->arena, .diags = diags};
    l.kernel = kernel_of_signature(module, kernel);
    const char *name = l.kernel->symbol ? l.kernel->symbol : kernel->name;
    const KernelDecl *derived = l.kernel->of ? l.kernel : NULL;
    l.func = func_new(module->arena, diags, name);
    l.b = build_at_end(l.func, l.func->body);
    if (!bind_all(&l, bindings, n)) {
        return NULL;
    }
    while (l.kernel->of) { /* a derivative is made of what it is the derivative of */
        l.kernel = l.kernel->of;
    }
    for (size_t i = 0; i < l.kernel->params.n; i++) {
        if (!l.kernel->params.items[i].is_const) {
            const ParamDecl *param = &l.kernel->params.items[i];
            add_param(&l, param, param->is_inout ? PARAM_INOUT : PARAM_IN);
        }
    }
    for (size_t i = 0; i < l.kernel->results.n; i++) {
        add_param(&l, &l.kernel->results.items[i], PARAM_OUT);
    }

    assume_defined_sizes(&l);
    if (diags->errors > errors) {
        return NULL; /* parameters are missing: what the body says of them would be noise */
    }
    l.n_params = l.func->params.n;
    lower_kernel_body(&l);
    if (diags->errors == errors) {
        for (size_t i = 0; i < l.n_params; i++) {
            const Param *param = &l.func->params.items[i];
            if (param->io != PARAM_IN && !*written_flag(&l, param->value) && !l.stopped) {
                Diag *diag = lower_error(&l, ERR_RESULT, l.kernel->span, "`%s` never gets a value",
                                         param->name);
                diag_help(l.diags, diag,
                          param->io == PARAM_OUT ? "return it, or write `%s = …`"
                                                 : "write `%s = …`, or drop `inout`",
                          param->name);
            }
        }
    }
    if (diags->errors > errors) {
        return NULL;
    }
    if (!derived) {
        lint_kernel(&l);
        lint_results(&l);
    } else if (!lower_derived(&l, derived)) {
        return NULL;
    }
    func_remove_dead(l.func);
    Func *func = l.func;
    Text problems = text_new(func->arena);
    if (verify_func(func, &problems) > 0) {
        diag_bug(func->diags, "the front end made wrong IR:\n%s", problems.data);
    }
    return l.func;
}
