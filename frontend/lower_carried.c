/* SPDX-License-Identifier: Apache-2.0 */
/* What loops carry. */
#include "frontend/lower_control.h"

#include <string.h>

/* ---- which variables ---- */

static void add_symbol(Lower *l, Symbol *symbol, Carried *carried)
{
    bool foreign = !symbol || !symbol->is_var || symbol->val.kind != VAL_ARRAY ||
                   symbol->parallel < l->parallel || symbol->lanes < l->n_lanes;
    for (size_t i = 0; i < carried->symbols.n && !foreign; i++) {
        foreign = carried->symbols.items[i] == symbol;
    }
    if (!foreign) {
        ARENA_PUSH(l->arena, &carried->symbols, symbol);
    }
}

static void add_target(Lower *l, const Expr *target, Carried *carried)
{
    if (target->kind == EXPR_NAME) {
        add_symbol(l, find_symbol(l, target->name), carried);
    }
    for (size_t i = 0; target->kind == EXPR_TUPLE && i < target->args.n; i++) {
        add_target(l, target->args.items[i], carried);
    }
}

static void collect(Lower *l, const StmtList *list, Carried *carried)
{
    for (size_t i = 0; list && i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        if (stmt->kind == STMT_ASSIGN) {
            add_target(l, stmt->target, carried);
        }
        collect(l, &stmt->body, carried);
        collect(l, &stmt->otherwise, carried);
    }
}

static void remember(Lower *l, Carried *carried)
{
    carried->before = ARENA_ARRAY(l->arena, Val, carried->symbols.n);
    carried->lanes = ARENA_ARRAY(l->arena, Lanes, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        carried->before[i] = carried->symbols.items[i]->val;
        carried->lanes[i] = carried->before[i].lanes;
    }
}

void carried_add(Lower *l, Carried *carried, Symbol *symbol)
{
    ARENA_PUSH(l->arena, &carried->symbols, symbol);
    remember(l, carried);
}

bool *carried_written(Lower *l)
{
    size_t params = l->func->params.n;
    bool *written = ARENA_ARRAY(l->arena, bool, params);
    if (params) {
        memcpy(written, l->written, sizeof(bool) * params);
    }
    return written;
}

void forget_held_all(Lower *l)
{
    for (Symbol *symbol = l->symbols; symbol; symbol = symbol->older) {
        symbol->val.held = NULL;
    }
}

Carried carried_by(Lower *l, const StmtList *first, const StmtList *second)
{
    Carried carried = {.before = NULL};
    forget_held_all(l);
    if (l->active && ((first && has_break(first)) || (second && has_break(second)))) {
        ARENA_PUSH(l->arena, &carried.symbols, l->active);
    }
    collect(l, first, &carried);
    collect(l, second, &carried);
    remember(l, &carried);
    carried.written = carried_written(l);
    return carried;
}

/* ---- their values ---- */

void carried_reset(Lower *l, const Carried *carried)
{
    forget_held_all(l);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        carried->symbols.items[i]->val = carried->before[i];
    }
    if (l->func->params.n) {
        memcpy(l->written, carried->written, sizeof(bool) * l->func->params.n);
    }
}

/* The IR names a carried value after its variable, whatever made it. */
static void take(const Carried *carried, Value *const *values)
{
    for (size_t i = 0; i < carried->symbols.n; i++) {
        Symbol *symbol = carried->symbols.items[i];
        values[i]->name = symbol->name;
        symbol->val = lanes_val(values[i], carried->lanes[i]);
    }
}

void carried_enter(const Carried *carried, Value *const *args)
{
    take(carried, args);
}

void carried_leave(const Carried *carried, const Op *loop)
{
    take(carried, loop->results);
}

static Value *with_lanes(Lower *l, const Val *val, Lanes lanes)
{
    Shape shape = shape_of(val);
    shape.lanes = lanes;
    return materialize(l, val, dtype_of(val), &shape);
}

Value **carried_inits(Lower *l, const Carried *carried)
{
    Value **values = ARENA_ARRAY(l->arena, Value *, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        values[i] = with_lanes(l, &carried->before[i], carried->lanes[i]);
    }
    return values;
}

Value **carried_values(Lower *l, const Carried *carried)
{
    Value **values = ARENA_ARRAY(l->arena, Value *, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        values[i] = with_lanes(l, &carried->symbols.items[i]->val, carried->lanes[i]);
    }
    return values;
}

bool carried_widen(const Carried *carried)
{
    bool wider = false;
    for (size_t i = 0; i < carried->symbols.n; i++) {
        Lanes now = carried->symbols.items[i]->val.lanes;
        wider = wider || (now & ~carried->lanes[i]);
        carried->lanes[i] |= now;
    }
    return wider;
}

/* ---- break ---- */

static bool breaks(const Stmt *stmt)
{
    return stmt->kind == STMT_BREAK ||
           (stmt->kind == STMT_IF && (has_break(&stmt->body) || has_break(&stmt->otherwise)));
}

bool has_break(const StmtList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (breaks(list->items[i])) {
            return true;
        }
    }
    return false;
}

Symbol *begin_active(Lower *l, const StmtList *body)
{
    Symbol *outer = l->active;
    l->active = NULL;
    if (has_break(body)) {
        Val yes = array_val(build_int(&l->b, type_scalar(l->func, DT_BOOL), 1));
        l->active = define(l, "active", SPAN_NONE, yes);
        l->active->is_var = true;
        l->symbols = l->active->older; /* no name of the program */
    }
    return outer;
}

void end_active(Lower *l, Symbol *outer)
{
    l->active = outer;
}
