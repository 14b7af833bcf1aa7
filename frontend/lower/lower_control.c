/* SPDX-License-Identifier: Apache-2.0 */
/* The statements if, while, break and continue with conditions that are known only at run time. A
 * scalar condition becomes the op `if` or `while`. A condition that differs by lane selects the
 * new values of variables, masks stores, and lets each element of a `while` end separately. */
#include "frontend/lower/lower_control.h"

/* ---- masks ---- */

static Val both(Lower *l, const Val *a, const Val *b)
{
    Expr none = {.kind = EXPR_POISON, .span = l->b.span};
    return apply_binary(l, &none, OP_AND, NULL, a, b, &none, &none);
}

static Val masked(Lower *l, const Val *condition)
{
    return l->mask.kind == VAL_ARRAY ? both(l, &l->mask, condition) : *condition;
}

static Val negated(Lower *l, const Val *condition)
{
    return lanes_val(build_unary(&l->b, OP_NOT, condition->value), condition->lanes);
}

/* ---- branches that differ from lane to lane ---- */

static void lower_masked(Lower *l, const Val *condition, const StmtList *list)
{
    Val outer = l->mask;
    l->mask = masked(l, condition);
    l->branches++;
    lower_block(l, list);
    l->branches--;
    l->mask = outer;
}

static Val *current(Lower *l, const LoopCarried *carried)
{
    Val *vals = ARENA_ARRAY(l->arena, Val, carried->symbols.n);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        vals[i] = carried->symbols.items[i]->val;
    }
    return vals;
}

/* ---- branches of one condition ---- */

static void lower_branch(Lower *l, const LoopCarried *carried, Block *region, const StmtList *list)
{
    Builder outside = l->b;
    l->b = build_at_end(l->func, region);
    l->b.span = outside.span;
    WrittenSet written = written_copy(l);
    carried_reset(l, carried);
    l->branches++;
    if (list) {
        lower_block(l, list);
    }
    l->branches--;
    l->b = outside;
    written_either(l, &written); /* by one branch or the other */
    forget_known_values(l);
}

/* Ends a region with what the changed variables are there. */
static void yield_branch(Lower *l, Block *region, const LoopCarried *carried, const Val *vals,
                         const bool *changed)
{
    Builder outside = l->b;
    Value **values = ARENA_ARRAY(l->arena, Value *, carried->symbols.n);
    int n = 0;
    l->b = build_at_end(l->func, region);
    l->b.span = outside.span;
    for (size_t i = 0; i < carried->symbols.n; i++) {
        if (changed[i]) {
            Shape shape = shape_of(&vals[i]);
            shape.lanes = carried->lanes[i];
            values[n++] = materialize(l, &vals[i], dtype_of(&vals[i]), &shape);
        }
    }
    build_yield(&l->b, n, values);
    l->b = outside;
}

static void branch_uniform(Lower *l, const Val *condition, const StmtList *yes, const StmtList *no)
{
    LoopCarried carried = carried_by(l, yes, no);
    bool *changed = ARENA_ARRAY(l->arena, bool, carried.symbols.n);
    Op *op = build_if(&l->b, condition->value, 0, NULL);
    int errors = l->diags->errors;
    lower_branch(l, &carried, op->regions[0], yes);
    Val *then = current(l, &carried);
    lower_branch(l, &carried, op->regions[1], no);
    Val *otherwise = current(l, &carried);
    if (l->diags->errors > errors) {
        carried_reset(l, &carried);
        return;
    }
    for (size_t i = 0; i < carried.symbols.n; i++) {
        changed[i] = then[i].value != otherwise[i].value;
        carried.lanes[i] = carried_lanes(l, then[i].lanes | otherwise[i].lanes);
    }
    yield_branch(l, op->regions[0], &carried, then, changed);
    yield_branch(l, op->regions[1], &carried, otherwise, changed);
    const Op *last = op->regions[0]->last;
    for (size_t i = 0, n = 0; i < carried.symbols.n; i++) {
        Symbol *symbol = carried.symbols.items[i];
        if (changed[i]) {
            Value *result = op_add_result(l->func, op, last->operands[n++]->type);
            result->name = symbol->name;
            symbol->val = lanes_val(result, carried.lanes[i]);
        }
    }
}

void lower_branches(Lower *l, Span span, const Val *condition, const StmtList *yes,
                    const StmtList *no)
{
    l->b.span = span;
    if (condition->lanes) {
        LoopCarried carried = carried_by(l, yes, no);
        lower_masked(l, condition, yes);
        Val *then = current(l, &carried);
        for (size_t i = 0; i < carried.symbols.n; i++) {
            carried.symbols.items[i]->val = carried.before[i];
        }
        if (no && no->n) {
            Val otherwise = negated(l, condition);
            lower_masked(l, &otherwise, no);
        }
        Expr none = {.kind = EXPR_POISON, .span = l->b.span};
        const Expr *const parts[3] = {&none, &none, &none};
        for (size_t i = 0; i < carried.symbols.n; i++) {
            Symbol *symbol = carried.symbols.items[i];
            bool same = then[i].value == symbol->val.value;
            if (same || is_poison(&then[i]) || is_poison(&symbol->val)) {
                continue;
            }
            Val v[3] = {*condition, then[i], symbol->val};
            symbol->val = select_vals(l, &none, parts, v);
        }

    } else {
        branch_uniform(l, condition, yes, no);
    }
}

void not_a_condition(Lower *l, const Expr *expr, const Val *val)
{
    Diag *diag =
        lower_error(l, ERR_CONDITION, expr->span, "a condition is bool, not %s", val_text(l, val));
    if (expr->kind == EXPR_NAME && dtype_of(val) != DT_BOOL) {
        diag_help(l->diags, diag, "compare it: `%s != 0`", expr->name);
        lower_fix_around(l, diag, expr->span, "", " != 0");
    } else if (dtype_of(val) != DT_BOOL) {
        diag_help(l->diags, diag, "compare it with something, as `!= 0`");
    }
}

static bool check_condition(Lower *l, const Expr *expr, const Val *condition)
{
    if (is_poison(condition)) {
        return false;
    }
    if (dtype_of(condition) != DT_BOOL) {
        not_a_condition(l, expr, condition);
        return false;
    }
    if (shape_of(condition).rank > 0) {
        Diag *diag = lower_error(l, ERR_CONDITION, expr->span, "a condition is one bool, not %s",
                                 val_text(l, condition));
        diag_help(l->diags, diag,
                  "choose elements with `where(condition, a, b)`, or ask `any(…)` or `all(…)`");
        return false;
    }
    return true;
}

static void lower_separately(Lower *l, const Val *condition, const Stmt *stmt);

/* One branch of an `if`: where it is `parallel` with ranges, each statement by itself. */
static void lower_one(Lower *l, Span span, const Val *condition, const StmtList *list)
{
    bool has_parallel = has_parallels(list);
    if (!has_parallel && list->n) {
        lower_branches(l, span, condition, list, NULL);
    }
    for (size_t i = 0; has_parallel && i < list->n; i++) {
        lower_separately(l, condition, list->items[i]);
    }
}

static void lower_separately(Lower *l, const Val *condition, const Stmt *stmt)
{
    if (stmt->kind == STMT_PARALLEL) {
        lower_parallel_if(l, condition, stmt);
        return;
    }
    Val inner = lower_operand(l, stmt->value);
    if (!check_condition(l, stmt->value, &inner)) {
        return;
    }
    if (inner.kind == VAL_CONST) {
        lower_one(l, stmt->span, condition, inner.scalar.i ? &stmt->body : &stmt->otherwise);
        return;
    }
    Val otherwise = negated(l, &inner);
    inner = both(l, condition, &inner);
    otherwise = both(l, condition, &otherwise);
    lower_one(l, stmt->span, &inner, &stmt->body);
    lower_one(l, stmt->span, &otherwise, &stmt->otherwise);
}

void lower_if(Lower *l, const Stmt *stmt)
{
    Val condition = lower_operand(l, stmt->value);
    if (!check_condition(l, stmt->value, &condition)) {
        return;
    }
    if (condition.kind == VAL_CONST) {
        lower_block(l, condition.scalar.i ? &stmt->body : &stmt->otherwise);
        return;
    }
    if (condition.lanes || (!has_parallels(&stmt->body) && !has_parallels(&stmt->otherwise))) {
        lower_branches(l, stmt->span, &condition, &stmt->body, &stmt->otherwise);
        return;
    }
    Val otherwise = negated(l, &condition);
    lower_one(l, stmt->span, &condition, &stmt->body);
    lower_one(l, stmt->span, &otherwise, &stmt->otherwise);
}

/* ---- break, continue ---- */

void lower_leave(Lower *l, const Stmt *stmt)
{
    bool ends = stmt->kind == STMT_BREAK;
    if (!l->leaving.here) {
        lower_error(l, ERR_BREAK, stmt->span, "%s outside of a loop", ends ? "break" : "continue");
        return;
    }
    Val no = array_val(build_int(&l->b, type_scalar(l->func, DT_BOOL), 0));
    l->leaving.here->val = no;
    if (ends) {
        l->leaving.active->val = no;
    }
}

/* ---- while ---- */

void mixes_lanes(Lower *l, Span span, const char *name)
{
    Diag *diag = lower_error(l, ERR_LANE_LOOP, span,
                             "`%s` over an axis is not possible inside of a loop that ends "
                             "element by element",
                             name);
    diag_help(l->diags, diag, "reduce by index, `sum(k in K) …`, or before the loop");
}

typedef struct WhileLoop {
    const Expr *condition; /* NULL: counter < end */
    Symbol *counter;
    Val end;
    const StmtList *body;
    Span span;
    bool parallel; /* its rounds are iterations of a `parallel` */
} WhileLoop;

/* The condition, with what ended the loop by break, and only where the program is at all. */
static Val loop_condition(Lower *l, const WhileLoop *loop)
{
    Expr none = {.kind = EXPR_POISON, .span = loop->span};
    Val holds;
    if (loop->condition) {
        holds = lower_operand(l, loop->condition);
        if (!check_condition(l, loop->condition, &holds)) {
            return poison_val();
        }
    } else {
        holds = apply_binary(l, &none, OP_CMP, "lt", &loop->counter->val, &loop->end, &none, &none);
    }
    if (l->leaving.active) {
        holds = both(l, &l->leaving.active->val, &holds);
    }
    holds = masked(l, &holds);
    return holds.kind == VAL_CONST ? array_val(as_value(l, &holds)) : holds;
}

static bool has_effects(const StmtList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        bool stores = stmt->kind == STMT_ASSIGN && stmt->target->kind == EXPR_INDEX;
        if (stores || stmt->kind == STMT_EXPR || has_effects(&stmt->body) ||
            has_effects(&stmt->otherwise)) {
            return true;
        }
    }
    return false;
}

/* Loops inside must not continue for elements that have ended. */
static bool has_loop(const StmtList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        bool loops = stmt->kind == STMT_WHILE || stmt->kind == STMT_FOR ||
                     stmt->kind == STMT_PARALLEL; /* which may walk data */
        if (loops || has_loop(&stmt->body) || has_loop(&stmt->otherwise)) {
            return true;
        }
    }
    return false;
}

/* Elements end by themselves: everything that is carried has all the lanes. */
static bool same_lanes(Lower *l, const WhileLoop *loop, const LoopCarried *carried, Lanes lanes)
{
    lanes |= l->loop_lanes | (has_effects(loop->body) ? lanes_from(l, 0) : 0);
    for (size_t i = 0; i < carried->symbols.n; i++) {
        lanes |= carried->symbols.items[i]->val.lanes | carried->lanes[i];
    }
    bool same = true;
    for (size_t i = 0; i < carried->symbols.n; i++) {
        same = same && carried->lanes[i] == lanes;
        carried->lanes[i] = lanes;
    }
    return same;
}

static bool carries_scalars(Lower *l, const WhileLoop *loop, const LoopCarried *carried)
{
    for (size_t i = 0; i < carried->symbols.n; i++) {
        const Symbol *symbol = carried->symbols.items[i];
        if (shape_of(&symbol->val).rank > 0) {
            Diag *diag = lower_error(l, ERR_LANE_LOOP, loop->span,
                                     "this loop ends element by element, but changes an array, "
                                     "`%s`",
                                     symbol->name);
            diag_label(l->diags, diag, symbol->span, "%s", val_text(l, &symbol->val));
            diag_help(l->diags, diag, "make its axes indices of the `parallel` around it");
            return false;
        }
    }
    return true;
}

typedef enum Tried { TRIED_DONE, TRIED_WIDER, TRIED_WRONG } Tried;

static Tried try_while(Lower *l, const WhileLoop *loop, const LoopCarried *carried)
{
    int errors = l->diags->errors, n = (int)carried->symbols.n;
    Op *op = build_while(&l->b, n, carried_inits(l, carried));
    Builder outside = l->b;
    const Op *lane_loop = l->lane_loop;
    Lanes loop_lanes = l->loop_lanes;
    Val mask = l->mask;
    l->b = build_at_end(l->func, op->regions[0]);
    l->b.span = loop->span;
    carried_enter(carried, op->regions[0]->args);
    Val holds = loop_condition(l, loop);
    Builder condition = l->b;
    l->b = build_at_end(l->func, op->regions[1]);
    l->b.span = loop->span;
    carried_enter(carried, op->regions[1]->args);
    if (holds.lanes) {
        l->lane_loop = lane_loop ? lane_loop : op;
        l->loop_lanes |= carried->lanes[0];
        l->mask = has_loop(loop->body) ? loop_condition(l, loop) : mask;
    }
    int n_parallel = l->n_parallel;
    if (loop->parallel) {
        enter_parallel(l, NULL, loop->counter->val.value);
    }
    l->loops++;
    begin_iteration(l, loop->body);
    lower_block(l, loop->body);
    l->loops--;
    l->n_parallel = n_parallel;
    if (loop->counter) {
        Expr none = {.kind = EXPR_POISON, .span = loop->span};
        Val one = int_val(1, true);
        loop->counter->val =
            apply_binary(l, &none, OP_ADD, NULL, &loop->counter->val, &one, &none, &none);
        loop->counter->val.affine = NULL;
    }
    l->lane_loop = lane_loop;
    l->loop_lanes = loop_lanes;
    l->mask = mask;
    bool wrong = is_poison(&holds) || l->diags->errors > errors;
    if (wrong || (holds.lanes && !carries_scalars(l, loop, carried))) {
        l->b = outside;
        return TRIED_WRONG;
    }
    if (holds.lanes ? !same_lanes(l, loop, carried, holds.lanes) : carried_widen(l, carried)) {
        l->b = outside;
        op_remove(op);
        return TRIED_WIDER;
    }
    build_yield(&l->b, n, carried_values(l, carried));
    l->b = condition;
    Shape shape = {.lanes = holds.lanes ? carried->lanes[0] : 0};
    Value *value = materialize(l, &holds, DT_BOOL, &shape);
    build_yield(&l->b, 1, &value);
    l->b = outside;
    carried_leave(carried, op);
    return TRIED_DONE;
}

/* False: there is no loop to lower, because it never begins, or, an error, never ends. */
static bool can_end(Lower *l, const WhileLoop *loop)
{
    if (!loop->condition || l->leaving.active || may_change(loop->body, loop->condition)) {
        return true;
    }
    Val holds = lower_operand(l, loop->condition);
    bool known = holds.kind == VAL_CONST;
    if (check_condition(l, loop->condition, &holds) && (!known || holds.scalar.i)) {
        Diag *diag = lower_error(l, ERR_CONDITION, loop->condition->span,
                                 known ? "this loop never ends: its condition is always true"
                                       : "nothing in this loop changes its condition");
        diag_help(l->diags, diag,
                  known ? "leave it with `break`"
                        : "assign to a variable that it reads, or leave it with "
                          "`break`");
    }
    return false;
}

static void lower_while_loop(Lower *l, const WhileLoop *loop)
{
    LoopExitFlags outer = begin_leaving(l, loop->body);
    if (!can_end(l, loop)) {
        end_leaving(l, outer);
        return;
    }
    LoopCarried carried = carried_by(l, loop->body, NULL);
    if (loop->counter) {
        carried_add(l, &carried, loop->counter);
    }
    Tried tried = TRIED_WIDER;
    if (carried.symbols.n == 0) {
        Diag *diag = lower_error(l, ERR_CONDITION, loop->condition->span,
                                 "nothing in this loop changes its condition");
        diag_help(l->diags, diag, "assign to a variable that it reads, or leave it with `break`");
        tried = TRIED_WRONG;
    }
    while (tried == TRIED_WIDER) {
        carried_reset(l, &carried);
        tried = try_while(l, loop, &carried);
    }
    if (tried == TRIED_WRONG) {
        carried_reset(l, &carried);
    }
    forget_known_values(l);
    end_leaving(l, outer);
}

void lower_while(Lower *l, const Stmt *stmt)
{
    WhileLoop loop = {.condition = stmt->value, .body = &stmt->body, .span = stmt->span};
    Span span = l->b.span;
    l->b.span = stmt->span;
    lower_while_loop(l, &loop);
    l->b.span = span;
}

void lower_for_lanes(Lower *l, const Stmt *stmt, const Val *lo, const Val *hi)
{
    const Axis *axis = &stmt->axes.items[0];
    Symbol *outer = l->symbols;
    Shape shape = shape_of(lo);
    Val first = shaped_val(materialize(l, lo, DT_I64, &shape), &shape);
    WhileLoop loop = {.end = *hi, .body = &stmt->body, .span = stmt->span};
    loop.parallel = stmt->kind == STMT_PARALLEL;
    loop.counter = define(l, axis->name, axis->span, first);
    lower_while_loop(l, &loop);
    l->symbols = outer;
}
