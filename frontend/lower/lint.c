/* SPDX-License-Identifier: Apache-2.0 */
/* The warnings of lint.h: a traversal of the statements with the names in scope. The standard
 * library and imported files are not checked, because the user did not write them. */
#include "frontend/lower/lint.h"

#include <string.h>

typedef enum NameKind { NAME_PARAM, NAME_LET, NAME_VAR, NAME_INDEX } NameKind;

typedef struct Name {
    const char *name;
    Span span;
    NameKind kind;
    bool read, quiet; /* quiet: no warning if nothing reads it */
    bool bounded;     /* an index below a number */
    DType narrow;     /* VAR: declared so, or DT_F64 */
    int loops;        /* around its definition */
} Name;

typedef struct Lint {
    Lower *l;
    const KernelDecl *kernel; /* NULL: a function */
    struct {
        Name *items;
        size_t n, cap;
    } names;
    int loops;
    int wide; /* bits of the cast around the expression, or 0 */
} Lint;

static void walk_expr(Lint *lint, const Expr *expr);
static void walk_block(Lint *lint, const StmtList *list);

/* ---- names ---- */

static Name *find_name(Lint *lint, const char *name)
{
    for (size_t i = lint->names.n; i > 0; i--) {
        if (text_equal(lint->names.items[i - 1].name, name)) {
            return &lint->names.items[i - 1];
        }
    }
    return NULL;
}

static void warn_shadow(Lint *lint, const Name *name)
{
    const Name *old = find_name(lint, name->name);
    if (!old || name->name[0] == '_' || name->kind == NAME_INDEX || old->kind == NAME_INDEX) {
        return;
    }
    Diag *diag = front_warning(lint->l->diags, ERR_SHADOW, name->span,
                               "`%s` hides what had this name before", name->name);
    diag_label(lint->l->diags, diag, old->span, "hidden from here on");
    if (old->kind == NAME_VAR) {
        diag_help(lint->l->diags, diag, "to change it assign: `%s = …`", name->name);
    } else {
        diag_help(lint->l->diags, diag, "take another name");
    }
}

static Name *add_name(Lint *lint, NameKind kind, const char *name, Span span)
{
    Name added = {.name = name,
                  .span = span,
                  .kind = kind,
                  .narrow = DT_F64,
                  .loops = lint->loops,
                  .quiet = kind == NAME_INDEX || name[0] == '_'};
    warn_shadow(lint, &added);
    ARENA_PUSH(lint->l->arena, &lint->names, added);
    return &lint->names.items[lint->names.n - 1];
}

static void leave_scope(Lint *lint, size_t n)
{
    while (lint->names.n > n) {
        /* A value that nothing reads is reported where its scope ends, unless its name begins with
         * `_`. */
        const Name *name = &lint->names.items[--lint->names.n];
        bool param = name->kind == NAME_PARAM;
        if (name->read || name->quiet) {
            continue;
        }
        Diag *diag = front_warning(
            lint->l->diags, param ? ERR_UNUSED_PARAMETER : ERR_UNUSED, name->span,
            param ? "nothing reads the parameter `%s`" : "nothing reads `%s`", name->name);
        if (!lint->kernel || !param) {
            diag_help(lint->l->diags, diag, "if this is meant, call it `_%s`", name->name);
        }
        if (name->kind == NAME_LET) {
            diag_fix(lint->l->diags, diag, name->span, "_%s", name->name);
        }
    }
}

/* ---- sums in few bits ---- */

/* True if the name is a term of the sum. */
static bool adds(const Expr *expr, const char *name)
{
    if (expr->kind == EXPR_NAME) {
        return text_equal(expr->name, name);
    }
    bool sum = expr->kind == EXPR_BINARY && (expr->op == TOK_PLUS || expr->op == TOK_MINUS);
    return sum && (adds(expr->a, name) || adds(expr->b, name));
}

static void check_precision(Lint *lint, const Stmt *stmt)
{
    const Name *name = find_name(lint, stmt->target->name);
    if (!name || name->narrow == DT_F64 || lint->loops == name->loops ||
        stmt->value->kind == EXPR_NAME || !adds(stmt->value, name->name)) {
        return;
    }
    Diag *diag = front_warning(lint->l->diags, ERR_LOW_PRECISION, stmt->span, "`%s` sums up in %s",
                               name->name, dtype_name(name->narrow));
    diag_span_label(lint->l->diags, diag, "rounded at each step of the loop");
    diag_label(lint->l->diags, diag, name->span, "declared as %s", dtype_name(name->narrow));
    diag_help(lint->l->diags, diag, "declare it `var %s: f32`, and round at the end", name->name);
}

/* ---- products in 32 bits ---- */

static bool is_small_integer(const char *name)
{
    DType dtype;
    return dtype_from_name(name, strlen(name), &dtype) && dtype_is_int(dtype) &&
           dtype_bits(dtype) >= 8 && dtype_bits(dtype) <= 32;
}

static bool assumed_below(const Stmt *stmt, const char *size)
{
    const Expr *rule = stmt->value;
    if (stmt->kind != STMT_ASSUME || !rule) {
        return false;
    }
    if (stmt->values.n > 0) {
        return rule->kind == EXPR_NAME && text_equal(rule->name, size);
    }
    return rule->kind == EXPR_BINARY && (rule->op == TOK_LE || rule->op == TOK_LT) &&
           rule->a->kind == EXPR_NAME && text_equal(rule->a->name, size);
}

/* A size that may be as large as memory. */
static bool is_open_size(const Lint *lint, const char *name)
{
    const KernelDecl *kernel = lint->kernel;
    bool found = false;
    for (size_t i = 0; kernel && i < kernel->signature.sizes.n; i++) {
        found = found || text_equal(kernel->signature.sizes.items[i], name);
    }
    for (size_t i = 0; found && i < kernel->body.n; i++) {
        found = !assumed_below(kernel->body.items[i], name);
    }
    return found;
}

static bool is_open(Lint *lint, const Expr *expr)
{
    if (expr->kind == EXPR_NAME) {
        const Name *name = find_name(lint, expr->name);
        return name ? name->kind == NAME_INDEX && !name->bounded : is_open_size(lint, expr->name);
    }
    bool sum = expr->kind == EXPR_BINARY &&
               (expr->op == TOK_PLUS || expr->op == TOK_MINUS || expr->op == TOK_STAR);
    return sum && (is_open(lint, expr->a) || is_open(lint, expr->b));
}

static const Expr *open_product(Lint *lint, const Expr *expr)
{
    if (expr->kind != EXPR_BINARY) {
        return NULL;
    }
    if (expr->op == TOK_STAR && is_open(lint, expr->a) && is_open(lint, expr->b)) {
        return expr;
    }
    if (expr->op != TOK_PLUS && expr->op != TOK_MINUS && expr->op != TOK_STAR) {
        return NULL; /* a divided or masked value is small */
    }
    const Expr *found = open_product(lint, expr->a);
    return found ? found : open_product(lint, expr->b);
}

static void check_cast(Lint *lint, const Expr *call)
{
    bool cast = lint->kernel && call->a->kind == EXPR_NAME && call->args.n == 1 &&
                is_small_integer(call->a->name);
    const Expr *product = cast ? open_product(lint, call->args.items[0]) : NULL;
    if (product) {
        Diag *diag = front_warning(lint->l->diags, ERR_INT_OVERFLOW, product->span,
                                   "this product may not fit %s", call->a->name);
        diag_span_label(lint->l->diags, diag, "passes 2^31 where the sizes do so together");
        diag_label(lint->l->diags, diag, call->a->span, "cast here");
        diag_help(lint->l->diags, diag,
                  "keep i64, or say how large the sizes are: `assume N <= 4096`");
    }
}

/* ---- the tree ---- */

static void add_axes(Lint *lint, const AxisList *axes)
{
    for (size_t i = 0; axes && i < axes->n; i++) {
        const Axis *axis = &axes->items[i];
        walk_expr(lint, axis->extent);
        walk_expr(lint, axis->to);
        walk_expr(lint, axis->step);
        const Expr *last = axis->to ? axis->to : axis->extent;
        bool bounded = !last || last->kind == EXPR_INT ||
                       (last->kind == EXPR_NAME && lint->kernel && !is_open_size(lint, last->name));
        add_name(lint, NAME_INDEX, axis->name, axis->span)->bounded = bounded;
    }
}

static void walk_expr(Lint *lint, const Expr *expr)
{
    if (!expr) {
        return;
    }
    size_t n = lint->names.n;
    Name *name = expr->kind == EXPR_NAME ? find_name(lint, expr->name) : NULL;
    if (name) {
        name->read = true;
    }
    if (expr->kind == EXPR_CALL) {
        check_cast(lint, expr);
    }
    if (expr->kind == EXPR_REDUCE) {
        add_axes(lint, expr->axes);
    }
    walk_expr(lint, expr->a);
    walk_expr(lint, expr->b);
    walk_expr(lint, expr->c);
    for (size_t i = 0; i < expr->args.n; i++) {
        walk_expr(lint, expr->args.items[i]);
    }
    leave_scope(lint, n);
}

/* In `y[i, j] = …`, names that are not defined become indices. */
static void walk_target(Lint *lint, const Stmt *stmt)
{
    const Expr *target = stmt->target;
    if (target->kind == EXPR_NAME) {
        check_precision(lint, stmt);
        const Name *name = find_name(lint, target->name);
        if (name && name->kind == NAME_PARAM) {
            walk_expr(lint, target);
        }
        return;
    }
    for (size_t i = 0; target->kind == EXPR_INDEX && i < target->args.n; i++) {
        const Expr *index = target->args.items[i];
        if (index->kind == EXPR_NAME && !find_name(lint, index->name)) {
            add_name(lint, NAME_INDEX, index->name, index->span);
        }
    }
    walk_expr(lint, target);
}

static void walk_assign(Lint *lint, const Stmt *stmt)
{
    size_t n = lint->names.n;
    walk_target(lint, stmt);
    walk_expr(lint, stmt->value);
    leave_scope(lint, n);
}

static void walk_definition(Lint *lint, const Stmt *stmt)
{
    size_t n = lint->names.n;
    NameKind kind = stmt->kind == STMT_VAR ? NAME_VAR : NAME_LET;
    walk_expr(lint, stmt->type);
    add_axes(lint, &stmt->axes);
    walk_expr(lint, stmt->value);
    leave_scope(lint, n);
    for (size_t i = 0; i < stmt->names.n; i++) {
        const Expr *part = stmt->names.items[i];
        add_name(lint, kind, part->name, part->span)->quiet = true;
    }
    if (stmt->names.n == 0) {
        /* Only a float of few bits loses what it sums up. */
        const Expr *type = stmt->type;
        const Expr *name = type && type->kind == EXPR_INDEX ? type->a : type;
        DType dtype = DT_F64;
        if (stmt->kind == STMT_VAR && name && name->kind == EXPR_NAME) {
            named_dtype(lint->l, name->name, &dtype);
        }
        DType narrow = dtype_is_float(dtype) && dtype_bits(dtype) < 32 ? dtype : DT_F64;
        add_name(lint, kind, stmt->name, stmt->name_span)->narrow = narrow;
    }
}

static void walk_body(Lint *lint, const Stmt *stmt)
{
    size_t n = lint->names.n;
    bool loop = stmt->kind == STMT_FOR || stmt->kind == STMT_WHILE;
    walk_expr(lint, stmt->value);
    add_axes(lint, &stmt->axes);
    lint->loops += loop;
    walk_block(lint, &stmt->body);
    lint->loops -= loop;
    walk_block(lint, &stmt->otherwise);
    leave_scope(lint, n);
}

static void walk_stmt(Lint *lint, const Stmt *stmt)
{
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR: walk_definition(lint, stmt); return;
    case STMT_ASSIGN: walk_assign(lint, stmt); return;
    case STMT_IF:
    case STMT_FOR:
    case STMT_WHILE:
    case STMT_UNCHECKED:
    case STMT_PARALLEL: walk_body(lint, stmt); return;
    case STMT_EXPR:
    case STMT_RETURN:
    case STMT_BREAK:
    case STMT_CONTINUE:
    case STMT_ASSUME: break;
    }
    walk_expr(lint, stmt->value);
    for (size_t i = 0; i < stmt->values.n; i++) {
        walk_expr(lint, stmt->values.items[i]);
    }
}

static void walk_block(Lint *lint, const StmtList *list)
{
    size_t n = lint->names.n;
    for (size_t i = 0; i < list->n; i++) {
        walk_stmt(lint, list->items[i]);
    }
    leave_scope(lint, n);
}

/* ---- kernels and functions ---- */

/* True if only this parameter determines a size, so that it is needed although nothing reads it. */
static bool gives_a_size(const KernelDecl *kernel, size_t nth)
{
    for (size_t i = 0; i < kernel->signature.sizes.n; i++) {
        const char *size = kernel->signature.sizes.items[i];
        bool elsewhere = false;
        for (size_t k = 0; k < kernel->params.n; k++) {
            elsewhere =
                elsewhere || (k != nth && expr_mentions(kernel->params.items[k].type, size));
        }
        if (!elsewhere && expr_mentions(kernel->params.items[nth].type, size)) {
            return true;
        }
    }
    return false;
}

static void walk_types(Lint *lint, const ParamList *params)
{
    for (size_t i = 0; i < params->n; i++) {
        walk_expr(lint, params->items[i].type);
        walk_expr(lint, params->items[i].fallback);
    }
}

static void walk_where(Lint *lint, const Where *where)
{
    for (size_t i = 0; i < where->defs.n; i++) {
        walk_expr(lint, where->defs.items[i].value);
    }
    for (size_t i = 0; i < where->rules.n; i++) {
        walk_expr(lint, where->rules.items[i]);
    }
}

static void walk_kernel(Lower *l)
{
    Lint lint = {.l = l, .kernel = l->kernel};
    for (size_t i = 0; i < l->kernel->params.n; i++) {
        const ParamDecl *param = &l->kernel->params.items[i];
        Name *name = add_name(&lint, NAME_PARAM, param->name, param->span);
        name->quiet = name->quiet || gives_a_size(l->kernel, i);
    }
    walk_types(&lint, &l->kernel->params);
    walk_types(&lint, &l->kernel->results);
    walk_where(&lint, &l->kernel->where);
    walk_expr(&lint, l->kernel->value);
    walk_block(&lint, &l->kernel->body);
    leave_scope(&lint, 0);
}

static void walk_fn(Lower *l, const FnDecl *fn)
{
    Lint lint = {.l = l};
    for (size_t i = 0; i < fn->params.n; i++) {
        add_name(&lint, NAME_PARAM, fn->params.items[i].name, fn->params.items[i].span);
    }
    walk_types(&lint, &fn->params);
    walk_where(&lint, &fn->where);
    walk_types(&lint, &fn->results);
    walk_expr(&lint, fn->result_type);
    walk_expr(&lint, fn->value);
    walk_block(&lint, &fn->body);
    leave_scope(&lint, 0);
}

void lint_kernel(Lower *l)
{
    walk_kernel(l);
    for (size_t i = 0; i < l->module->fns.n; i++) {
        walk_fn(l, l->module->fns.items[i]);
    }
}

/* ---- equality ---- */

/* True if the value was rounded: selections, roundings to integers and loads keep all bits. */
static bool is_rounded(const Expr *expr)
{
    static const char *const names[] = {"exp", "log",  "sqrt", "rsqrt", "sin",  "cos",
                                        "tan", "tanh", "erf",  "pow",   "mean", "sum"};
    if (expr->kind == EXPR_BINARY) {
        return expr->op == TOK_PLUS || expr->op == TOK_MINUS || expr->op == TOK_STAR ||
               expr->op == TOK_SLASH;
    }
    for (size_t i = 0;
         expr->kind == EXPR_CALL && expr->a->kind == EXPR_NAME && i < sizeof names / sizeof *names;
         i++) {
        if (text_equal(names[i], expr->a->name)) {
            return true;
        }
    }
    return false;
}

void lint_equality(Lower *l, const Expr *expr, DType dtype)
{
    bool whole = expr->a->kind == EXPR_INT || expr->b->kind == EXPR_INT ||
                 expr->a->kind == EXPR_FLOAT || expr->b->kind == EXPR_FLOAT;
    if (!dtype_is_float(dtype) || whole || l->calls || !is_rounded(expr->a) ||
        !is_rounded(expr->b)) {
        return;
    }
    Diag *diag = front_warning(l->diags, ERR_FLOAT_EQUAL, expr->op_span,
                               "%s is compared for equality", dtype_name(dtype));
    diag_label(l->diags, diag, expr->a->span, "rounded");
    diag_label(l->diags, diag, expr->b->span, "rounded");
    diag_help(l->diags, diag, "compare the distance: `abs(a - b) <= e`");
}

/* A number, or what the source casts: `i8(x > 0) * y` means to be an i8. */
static bool is_meant(const Expr *expr)
{
    bool cast =
        expr->kind == EXPR_CALL && expr->a->kind == EXPR_NAME && is_small_integer(expr->a->name);
    return cast || expr->kind == EXPR_INT || (expr->kind == EXPR_UNARY && is_meant(expr->a));
}

void lint_terms(Lower *l, const Expr *terms, DType dtype)
{
    bool product = terms->kind == EXPR_BINARY && terms->op == TOK_STAR && !is_meant(terms->a) &&
                   !is_meant(terms->b);
    if (!product || !dtype_is_int(dtype) || dtype_bits(dtype) >= 32 || l->calls) {
        return;
    }
    DType sum = dtype_is_signed(dtype) ? DT_I32 : DT_U32;
    Diag *diag = front_warning(l->diags, ERR_WRAPPED_PRODUCTS, terms->op_span,
                               "each product wraps in %s before it is summed in %s",
                               dtype_name(dtype), dtype_name(sum));
    diag_label(l->diags, diag, terms->a->span, "%s", dtype_name(dtype));
    diag_label(l->diags, diag, terms->b->span, "%s", dtype_name(dtype));
    diag_help(l->diags, diag, "cast the factors: `%s(…) * %s(…)`", dtype_name(sum),
              dtype_name(sum));
}
