/* SPDX-License-Identifier: Apache-2.0 */
/* Walks expressions and statements, and notes their definitions and uses of names. */
#include "lsp/names_walk.h"

#include <string.h>

/* ---- expressions ---- */

static void walk_name(Resolver *r, const Expr *expr)
{
    Definition *definition = expr->op == TOK_ELLIPSIS ? NULL : visible(r, expr->name);
    if (!definition && r->binds && expr->op != TOK_ELLIPSIS) {
        definition = define_name(r, NAME_SIZE, expr->name, expr->span);
        return;
    }
    use(r, expr->span, definition ? definition : find_outer(r, expr->name, 0));
}

static void walk_axes(Resolver *r, const AxisList *axes, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < axes->n; i++) {
        const Axis *axis = &axes->items[i];
        walk(r, axis->extent);
        walk(r, axis->to);
        walk(r, axis->step);
        Definition *definition = define_name(r, NAME_INDEX, axis->name, axis->span);
        definition->from = from;
        definition->to = to;
    }
}

static Definition *param_of(Resolver *r, const ParamList *params, const char *name,
                            const FnDecl *fn, const KernelDecl *kernel)
{
    for (size_t i = 0; i < params->n; i++) {
        const ParamDecl *param = &params->items[i];
        if (text_equal(param->name, name)) {
            Span span = param->span;
            span.end = span.start + (uint32_t)strlen(name);
            Definition *definition = outer_name(r, NAME_PARAM, param->name, span, fn, kernel);
            definition->param = param;
            return definition;
        }
    }
    return NULL;
}

/* The parameters that `vjp(f, x)` names. */
static void walk_derivative(Resolver *r, const Expr *call)
{
    const Expr *of = call->args.n ? call->args.items[0] : NULL;
    const KernelDecl *kernel = of && of->kind == EXPR_NAME ? find_kernel(r, of->name) : NULL;
    for (size_t i = 0; i < call->args.n; i++) {
        const Expr *arg = call->args.items[i];
        if (i == 0 || arg->kind != EXPR_NAME || !kernel) {
            walk(r, arg);
        } else {
            use(r, arg->span, param_of(r, &kernel->params, arg->name, NULL, kernel));
        }
    }
}

static const char *called_name(Resolver *r, const Expr *callee)
{
    if (callee->kind == EXPR_NAME) {
        return visible(r, callee->name) ? NULL : callee->name;
    }
    bool dotted =
        callee->kind == EXPR_FIELD && callee->a->kind == EXPR_NAME && !visible(r, callee->a->name);
    return dotted ? arena_printf(r->arena, "%s.%s", callee->a->name, callee->name) : NULL;
}

static void walk_call(Resolver *r, const Expr *expr)
{
    const char *name = called_name(r, expr->a);
    const Definition *definition = name ? find_outer(r, name, expr->args.n) : NULL;
    if (definition) {
        use(r, expr->a->span, definition);
    } else {
        walk(r, expr->a);
    }
    if (name && (text_equal(name, "vjp") || text_equal(name, "grad") || text_equal(name, "jvp"))) {
        walk_derivative(r, expr);
        return;
    }
    const FnDecl *fn = definition && definition->kind == NAME_FN ? definition->fn : NULL;
    for (size_t i = 0; i < expr->args.n; i++) {
        const Expr *arg = expr->args.items[i];
        if (arg->kind == EXPR_NAMED && fn) {
            Span span = arg->span;
            span.end = span.start + (uint32_t)strlen(arg->name);
            use(r, span, param_of(r, &fn->params, arg->name, fn, NULL));
        }
        walk(r, arg->kind == EXPR_NAMED ? arg->a : arg);
    }
}

static void walk_reduction(Resolver *r, const Expr *expr)
{
    size_t n = r->stack.n;
    use(r, expr->op_span, find_outer(r, expr->name, 0));
    walk_axes(r, expr->axes, expr->span.start, expr->span.end);
    walk(r, expr->b);
    walk(r, expr->a);
    r->stack.n = n;
}

void walk(Resolver *r, const Expr *expr)
{
    if (!expr) {
        return;
    }
    r->a->work++;
    switch (expr->kind) {
    case EXPR_NAME: walk_name(r, expr); return;
    case EXPR_CALL: walk_call(r, expr); return;
    case EXPR_REDUCE: walk_reduction(r, expr); return;
    default: break;
    }
    walk(r, expr->a);
    walk(r, expr->b);
    walk(r, expr->c);
    for (size_t i = 0; i < expr->args.n; i++) {
        walk(r, expr->args.items[i]);
    }
}

/* ---- statements ---- */

static void walk_definition(Resolver *r, const Stmt *stmt)
{
    size_t n = r->stack.n;
    uint32_t after = stmt->value ? stmt->value->span.end : stmt->span.end;
    walk_axes(r, &stmt->axes, stmt->span.start, after);
    walk(r, stmt->type);
    walk(r, stmt->value);
    r->stack.n = n;
    NameKind kind = stmt->kind == STMT_VAR ? NAME_VAR : NAME_LET;
    for (size_t i = 0; i < stmt->names.n + (stmt->name != NULL); i++) {
        const Expr *part = stmt->name ? NULL : stmt->names.items[i];
        Definition *definition = define_name(r, kind, part ? part->name : stmt->name,
                                             part ? part->span : stmt->name_span);
        definition->typed = stmt->type != NULL;
        definition->from = after;
        definition->to = block_end(r->a, stmt->span.start);
    }
}

/* `y[i, j] = …` binds the plain indices that are no names yet. */
static void walk_assignment(Resolver *r, const Stmt *stmt)
{
    size_t n = r->stack.n;
    const Expr *target = stmt->target;
    for (size_t i = 0; target->kind == EXPR_INDEX && i < target->args.n; i++) {
        const Expr *index = target->args.items[i];
        if (index && index->kind == EXPR_NAME && !visible(r, index->name)) {
            Definition *definition = define_name(r, NAME_INDEX, index->name, index->span);
            definition->from = target->span.start;
            definition->to = stmt->value ? stmt->value->span.end : target->span.end;
        }
    }
    walk(r, target);
    walk(r, stmt->value);
    r->stack.n = n;
}

static void walk_statement(Resolver *r, const Stmt *stmt)
{
    size_t n = r->stack.n;
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR: walk_definition(r, stmt); return;
    case STMT_ASSIGN: walk_assignment(r, stmt); return;
    case STMT_FOR:
    case STMT_PARALLEL:
        walk_axes(r, &stmt->axes, stmt->span.end, end_of_body(r->a, stmt->span.start));
        break;
    default: walk(r, stmt->value); break;
    }
    for (size_t i = 0; i < stmt->values.n; i++) {
        walk(r, stmt->values.items[i]);
    }
    walk_block(r, &stmt->body);
    walk_block(r, &stmt->otherwise);
    r->stack.n = n;
}

void walk_block(Resolver *r, const StmtList *list)
{
    size_t n = r->stack.n;
    for (size_t i = 0; i < list->n; i++) {
        walk_statement(r, list->items[i]);
    }
    r->stack.n = n;
}
