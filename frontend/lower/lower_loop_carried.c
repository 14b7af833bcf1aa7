/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the variables that a loop carries from one iteration to the next. The flags that `break`
 * and `continue` set are loop-carried variables, too. */
#include "frontend/lower/lower_control.h"

/* ---- which variables ---- */

static void add_target(Lower *l, const Expr *target, LoopCarried *carried)
{
    if (target->kind == EXPR_NAME) {
        Symbol *symbol = find_symbol(l, target->name);
        bool foreign = !symbol || !symbol->is_var || symbol->val.kind != VAL_ARRAY ||
                       symbol->parallel < l->parallel || symbol->lanes < l->n_lanes;
        for (size_t i = 0; i < carried->symbols.n && !foreign; i++) {
            foreign = carried->symbols.items[i] == symbol;
        }
        if (!foreign) {
            ARENA_PUSH(l->arena, &carried->symbols, symbol);
        }
    }
    for (size_t i = 0; target->kind == EXPR_TUPLE && i < target->args.n; i++) {
        add_target(l, target->args.items[i], carried);
    }
}

static void collect(Lower *l, const StmtList *list, LoopCarried *carried)
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

/* ---- what a condition reads ---- */

/* True if the condition contains a name of `changed`. */
static bool touches(const Expr *changed, const Expr *condition)
{
    if (!changed) {
        return false;
    }
    bool found = changed->kind == EXPR_NAME && expr_mentions(condition, changed->name);
    for (size_t i = 0; !found && i < changed->args.n; i++) {
        found = touches(changed->args.items[i], condition);
    }
    return found || touches(changed->a, condition) || touches(changed->b, condition);
}

bool may_change(const StmtList *list, const Expr *condition)
{
    bool found = false;
    for (size_t i = 0; i < list->n && !found; i++) {
        const Stmt *stmt = list->items[i];
        found = (stmt->kind == STMT_ASSIGN && touches(stmt->target, condition)) ||
                (stmt->kind == STMT_EXPR && touches(stmt->value, condition)) ||
                may_change(&stmt->body, condition) || may_change(&stmt->otherwise, condition);
    }
    return found;
}

static void remember(Lower *l, LoopCarried *carried)
{
    carried->before = ARENA_ARRAY(l->arena, Val, carried->symbols.n);
    carried->lanes = ARENA_ARRAY(l->arena, Lanes, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        carried->before[i] = carried->symbols.items[i]->val;
        carried->lanes[i] = carried_lanes(l, carried->before[i].lanes);
    }
}

void carried_add(Lower *l, LoopCarried *carried, Symbol *symbol)
{
    ARENA_PUSH(l->arena, &carried->symbols, symbol);
    remember(l, carried);
}

/* ---- break, continue ---- */

static bool has_leave(const StmtList *list, StmtKind kind)
{
    for (size_t i = 0; list && i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        bool same_loop = stmt->kind == STMT_IF || stmt->kind == STMT_UNCHECKED;
        bool inside =
            same_loop && (has_leave(&stmt->body, kind) || has_leave(&stmt->otherwise, kind));
        if (stmt->kind == kind || inside) {
            return true;
        }
    }
    return false;
}

bool has_loop_exit(const Stmt *stmt)
{
    Stmt *items[] = {(Stmt *)(uintptr_t)stmt};
    StmtList list = {items, 1, 1};
    return has_leave(&list, STMT_BREAK) || has_leave(&list, STMT_CONTINUE);
}

static Symbol *define_flag(Lower *l, const char *name)
{
    Val yes = array_val(build_int(&l->b, type_scalar(l->func, DT_BOOL), 1));
    Symbol *flag = define(l, name, SPAN_NONE, yes);
    flag->is_var = true;
    l->symbols = flag->older; /* no name of the program */
    return flag;
}

LoopExitFlags begin_leaving(Lower *l, const StmtList *body)
{
    LoopExitFlags outer = l->leaving;
    l->leaving = (LoopExitFlags){NULL, NULL};
    if (has_leave(body, STMT_BREAK)) {
        l->leaving.active = define_flag(l, "active");
    }
    return outer;
}

void begin_iteration(Lower *l, const StmtList *body)
{
    bool own = has_leave(body, STMT_CONTINUE);
    l->leaving.here = own ? define_flag(l, "here") : l->leaving.active;
}

void end_leaving(Lower *l, LoopExitFlags outer)
{
    l->leaving = outer;
}

/* ---- all that is carried ---- */

void forget_known_values(Lower *l)
{
    for (Symbol *symbol = l->symbols; symbol; symbol = symbol->older) {
        symbol->val.known_value = NULL;
    }
}

LoopCarried carried_by(Lower *l, const StmtList *first, const StmtList *second)
{
    LoopCarried carried = {.before = NULL};
    forget_known_values(l);
    bool ends = has_leave(first, STMT_BREAK) || has_leave(second, STMT_BREAK);
    bool skips = has_leave(first, STMT_CONTINUE) || has_leave(second, STMT_CONTINUE);
    const LoopExitFlags *flags = &l->leaving;
    if (ends && flags->active) {
        ARENA_PUSH(l->arena, &carried.symbols, flags->active);
    }
    if ((ends || skips) && flags->here && flags->here != flags->active) {
        ARENA_PUSH(l->arena, &carried.symbols, flags->here);
    }
    collect(l, first, &carried);
    collect(l, second, &carried);
    remember(l, &carried);
    carried.written = written_copy(l);
    return carried;
}

/* ---- their values ---- */

void carried_reset(Lower *l, const LoopCarried *carried)
{
    forget_known_values(l);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        carried->symbols.items[i]->val = carried->before[i];
    }
    l->written = carried->written;
    l->written = written_copy(l);
}

/* The IR names a carried value after its variable, whatever made it. */
static void take(const LoopCarried *carried, Value *const *values)
{
    for (size_t i = 0; i < carried->symbols.n; i++) {
        Symbol *symbol = carried->symbols.items[i];
        values[i]->name = symbol->name;
        symbol->val = lanes_val(values[i], carried->lanes[i]);
    }
}

void carried_enter(const LoopCarried *carried, Value *const *args)
{
    take(carried, args);
}

void carried_leave(const LoopCarried *carried, const Op *loop)
{
    take(carried, loop->results);
}

static Value *with_lanes(Lower *l, const Val *val, Lanes lanes)
{
    Shape shape = shape_of(val);
    shape.lanes = lanes;
    return materialize(l, val, dtype_of(val), &shape);
}

Value **carried_inits(Lower *l, const LoopCarried *carried)
{
    Value **values = ARENA_ARRAY(l->arena, Value *, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        values[i] = with_lanes(l, &carried->before[i], carried->lanes[i]);
    }
    return values;
}

Value **carried_values(Lower *l, const LoopCarried *carried)
{
    Value **values = ARENA_ARRAY(l->arena, Value *, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        values[i] = with_lanes(l, &carried->symbols.items[i]->val, carried->lanes[i]);
    }
    return values;
}

Lanes carried_lanes(const Lower *l, Lanes lanes)
{
    return lanes ? lanes | l->loop_lanes : 0;
}

bool carried_widen(const Lower *l, const LoopCarried *carried)
{
    bool wider = false;
    for (size_t i = 0; i < carried->symbols.n; i++) {
        Lanes now = carried_lanes(l, carried->symbols.items[i]->val.lanes);
        wider = wider || (now & ~carried->lanes[i]);
        carried->lanes[i] |= now;
    }
    return wider;
}
