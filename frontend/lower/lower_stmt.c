/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: definitions, assignments, return and if; and the dispatch of expressions by kind. */
#include "frontend/lower/lower_control.h"
#include "frontend/lower/lower_inline.h"

enum { MAX_DEPTH = 900, MAX_STEPS = 1 << 20, MAX_VALUES = 1 << 14 };

/* ---- limits ---- */

static bool within_limits(Lower *l, Span span)
{
    bool within = l->depth < MAX_DEPTH && l->steps < MAX_STEPS && l->func->n_values < MAX_VALUES;
    if (!within && !l->stopped) {
        l->stopped = true;
        Diag *diag = lower_error(l, (ErrorCode)ERR_PROGRAM_SIZE, span, "this kernel is too large");
        diag_note(l->diags, diag,
                  "after inlining it has more than %d values, or calls and expressions "
                  "nest deeper than %d",
                  MAX_VALUES, MAX_DEPTH);
    }
    l->stopped = l->stopped || errors_are_enough(l->diags);
    return within && !l->stopped;
}

/* ---- expressions ---- */

static Val lower_choice(Lower *l, const Expr *expr)
{
    Val condition = lower_operand(l, expr->b);
    if (is_poison(&condition)) {
        return condition;
    }
    if (condition.kind == VAL_CONST && condition.dtype == DT_BOOL) {
        return lower_expr(l, condition.scalar.i ? expr->a : expr->c);
    }
    const Expr *const parts[3] = {expr->b, expr->a, expr->c};
    return lower_select(l, expr, parts);
}

static Val transpose(Lower *l, const Expr *expr, const Val *val)
{
    int rank = shape_of(val).rank, lanes = lane_count(val->lanes);
    int64_t perm[MAX_RANK];
    if (rank < 2) {
        Diag *diag = lower_error(l, ERR_INDEX, expr->span,
                                 "`.T` swaps two axes, %s has not that many", val_text(l, val));
        diag_help(l->diags, diag, "make a vector a column with `[:, None]`");
        return poison_val();
    }
    for (int i = 0; i < lanes; i++) {
        perm[i] = i;
    }
    for (int i = 0; i < rank; i++) {
        perm[lanes + i] = lanes + (i < rank - 2 ? i : 2 * rank - 3 - i);
    }
    return lanes_val(build_permute(&l->b, val->value, perm), val->lanes);
}

static Val lower_tuple(Lower *l, const Expr *expr)
{
    Val tuple = {.kind = VAL_TUPLE, .n_items = (int)expr->args.n};
    tuple.items = ARENA_ARRAY(l->arena, Val, expr->args.n);
    for (size_t i = 0; i < expr->args.n; i++) {
        tuple.items[i] = lower_operand(l, expr->args.items[i]);
        if (is_poison(&tuple.items[i])) {
            return poison_val();
        }
    }
    return tuple;
}

static Val dispatch(Lower *l, const Expr *expr)
{
    switch (expr->kind) {
    case EXPR_NAME: return lower_name(l, expr);
    case EXPR_INT:
    case EXPR_FLOAT: {
        if (expr->kind == EXPR_INT) {
            return int_val(expr->integer, true);
        }
        Val val = float_val(expr->number);
        val.literal = true;
        val.f32 = expr->number32;
        return val;
    }
    case EXPR_BOOL: return bool_val(expr->integer != 0);
    case EXPR_UNARY: return lower_unary(l, expr);
    case EXPR_BINARY: return lower_binary(l, expr);
    case EXPR_IF: return lower_choice(l, expr);
    case EXPR_FIELD: {
        Val val = lower_operand(l, expr->a);
        if (is_poison(&val)) {
            return val;
        }
        if (text_equal(expr->name, "T")) {
            return transpose(l, expr, &val);
        }
        Diag *diag = lower_error(l, ERR_NAME, expr->span, "arrays have no `.%s`", expr->name);
        diag_help(l->diags, diag, "there is `.T`, the transpose");
        return poison_val();
    }
    case EXPR_CALL: return lower_call(l, expr);
    case EXPR_INDEX: return lower_index(l, expr, NULL);
    case EXPR_ELSE: return lower_index(l, expr->a, expr->b);
    case EXPR_REDUCE: return lower_prefix(l, expr);
    case EXPR_TUPLE: return lower_tuple(l, expr);
    case EXPR_NONE:
    case EXPR_NAMED:
    case EXPR_SLICE:
    case EXPR_LIST:
    case EXPR_TEXT: {
        lower_error(l, ERR_NOT_A_VALUE, expr->span, "this is not a value here");
        return poison_val();
    }
    case EXPR_POISON: break;
    }
    return poison_val();
}

bool in_library(const Lower *l, Span span)
{
    const Module *standard = l->module->standard;
    return standard && span.source >= standard->first_source && span.source <= standard->source;
}

Val lower_expr(Lower *l, const Expr *expr)
{
    if (!within_limits(l, expr->span)) {
        return poison_val();
    }
    Span outer = l->b.span;
    Span span = expr->span;
    const CallFrame *frame = l->calls;
    for (; frame && in_library(l, span); frame = frame->up) {
        span = frame->span;
    }
    l->b.span = span;
    l->depth++;
    l->steps++;
    Val val = dispatch(l, expr);
    l->depth--;
    l->b.span = outer;
    observe_expression(l, expr, &val);
    return val;
}

/* ---- errors ---- */

Diag *lower_error(Lower *l, ErrorCode code, Span span, const char *format, ...)
{
    Text text = text_new(l->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    const CallFrame *frame = l->calls;
    const char *library_fn = NULL;
    for (; frame && in_library(l, span); frame = frame->up) {
        span = frame->span;
        library_fn = frame->fn->name;
    }
    Diag *diag = front_error(l->diags, code, span, "%s", text.data);
    if (library_fn) {
        diag_span_label(l->diags, diag, "in `%s` of the standard library", library_fn);
    }
    for (; frame; frame = frame->up) {
        diag_label(l->diags, diag, frame->span, "in this call of `%s`", frame->fn->name);
    }
    return diag;
}

Diag *lower_unsupported(Lower *l, Span span, const char *what)
{
    return lower_error(l, ERR_UNSUPPORTED, span, "%s not supported yet", what);
}

/* ---- definitions ---- */

/* The standard library's own names would only be noise. */
static void name_value(Lower *l, const Val *val, const char *name)
{
    if (l->calls && l->calls->module->library) {
        return;
    }
    if (val->kind == VAL_ARRAY && val->value->def && !val->value->name) {
        val->value->name = arena_strdup(l->arena, name);
    }
}

Val fit_to_type(Lower *l, Span span, Val val, Type type, bool narrow)
{
    Shape want = type_shape(type), have = shape_of(&val), both;
    Val place = {.kind = VAL_CONST, .dtype = type->dtype};
    if (is_poison(&val) || !check_fits(l, ERR_ASSIGN, span, &val, type->dtype, narrow) ||
        !broadcast_shapes(l, span, NULL, &val, NULL, &place, &have, &want, &both)) {
        return poison_val();
    }
    if (!shape_equal(&both, &want)) {
        lower_error(l, ERR_ASSIGN, span, "%s does not fit into %s", val_text(l, &val),
                    type_text(l, type));
        return poison_val();
    }
    want.lanes = val.lanes;
    Val out = shaped_val(materialize(l, &val, type->dtype, &want), &want);
    out.affine = type->dtype == dtype_of(&val) ? val.affine : NULL;
    return out;
}

/* f32: the element type of any shape; f32[i, 1]: that shape. */
static Val fit_to_declared(Lower *l, const Stmt *stmt, Val val)
{
    Type type = lower_type(l, stmt->type);
    if (!type) {
        return poison_val();
    }
    val = as_operand(l, stmt->value, val);
    if (stmt->type->kind == EXPR_NAME && !is_poison(&val)) {
        Shape shape = shape_of(&val);
        type = type_array(l->func, type->dtype, shape.rank, shape.dims);
    }
    return fit_to_type(l, stmt->value->span, val, type, true);
}

/* let t[i in N] = …: the lanes become axes of the array. */
static Val lower_by_index(Lower *l, const Stmt *stmt)
{
    Symbol *symbols = l->symbols;
    int lanes = l->n_lanes;
    Shape full;
    bool good = open_axes(l, &stmt->axes);
    Val val = lower_operand(l, stmt->value);
    Shape shape = shape_of(&val);
    shape.lanes |= lanes_from(l, lanes);
    if (good && !is_poison(&val) && val.kind != VAL_TUPLE &&
        full_shape(l, stmt->span, &shape, &full)) {
        Lanes outer = shape.lanes & ~lanes_from(l, lanes);
        val = lanes_val(materialize(l, &val, dtype_of(&val), &shape), outer);
    } else {
        val = poison_val();
    }
    close_lanes(l, lanes);
    l->symbols = symbols;
    return val;
}

static void lower_definition(Lower *l, const Stmt *stmt)
{
    if (stmt->names.n) {
        Val val = lower_expr(l, stmt->value);
        bool fits = val.kind == VAL_TUPLE && val.n_items == (int)stmt->names.n;
        if (!fits && !is_poison(&val)) {
            Diag *diag =
                lower_error(l, ERR_TUPLE, stmt->value->span, "%s is unpacked into %zu names",
                            val_text(l, &val), stmt->names.n);
            diag_help(l->diags, diag, "a tuple of %zu values is expected: `(a, b)`", stmt->names.n);
        }
        for (size_t i = 0; i < stmt->names.n; i++) {
            const Expr *name = stmt->names.items[i];
            Val part = fits ? val.items[i] : poison_val();
            if (stmt->kind == STMT_VAR && !is_poison(&part)) {
                part = lanes_val(as_value(l, &part), part.lanes);
            }
            name_value(l, &part, name->name);
            define(l, name->name, name->span, part)->is_var = stmt->kind == STMT_VAR;
        }

        return;
    }
    Val val = stmt->axes.n ? lower_by_index(l, stmt) : lower_expr(l, stmt->value);
    bool is_var = stmt->kind == STMT_VAR;
    const Symbol *old = find_symbol(l, stmt->name);
    bool taken = old && !is_poison(&old->val) &&
                 (old->val.kind == VAL_DIM || old->val.kind == VAL_DTYPE || old->val.is_result);
    if (taken) {
        Diag *diag =
            lower_error(l, ERR_DUPLICATE, stmt->name_span, "`%s` is already defined", stmt->name);
        if (old->span.end > old->span.start) {
            diag_label(l->diags, diag, old->span, "here");
        }
    }
    if (stmt->type && !is_poison(&val)) {
        val = fit_to_declared(l, stmt, val);
    } else if (is_var || (val.kind == VAL_TENSOR && val.is_inout)) {
        /* A name of what an inout parameter holds now, not of its memory. */
        val = as_operand(l, stmt->value, val);
        if (!is_poison(&val)) {
            val = lanes_val(as_value(l, &val), val.lanes);
        }
    }
    name_value(l, &val, stmt->name);
    Symbol *symbol = define(l, stmt->name, stmt->name_span, val);
    symbol->is_var = is_var;
    symbol->declared = stmt->type != NULL;
}

/* ---- assignment ---- */

static void store_result(Lower *l, const Stmt *stmt, Value *tensor, Val value)
{
    bool inout = l->func->params.items[tensor->index].io == PARAM_INOUT;
    bool rewritten = *written_flag(l, tensor) && !inout;
    *written_flag(l, tensor) = true;
    if (rewritten) {
        lower_error(l, ERR_RESULT, stmt->span, "`%s` is written twice", tensor->name);
        return;
    }
    store_whole(l, stmt->span, tensor, as_operand(l, stmt->value, value));
    Symbol *symbol = inout ? find_symbol(l, tensor->name) : NULL;
    if (symbol) {
        /* A later read of the tensor gives what was stored as a whole. */
        Op *store = l->b.block->last;
        bool stored = store && store->kind == OP_STORE && store->operands[0] == tensor;
        symbol->val.known_value = stored ? store->operands[store->n_operands - 1] : NULL;
    }
}

static void not_assignable(Lower *l, const Stmt *stmt, const Symbol *symbol)
{
    const char *name = stmt->target->name;
    if (symbol && is_poison(&symbol->val)) {
        return;
    }
    if (!symbol) {
        Diag *diag =
            lower_error(l, ERR_NAME, stmt->target->span, "nothing is called `%s` here", name);
        diag_help(l->diags, diag, "to define it write `let %s = …`", name);
        return;
    }
    Diag *diag =
        lower_error(l, ERR_NOT_VARIABLE, stmt->target->span, "`%s` cannot be assigned to", name);
    if (symbol->span.end > symbol->span.start) {
        diag_label(l->diags, diag, symbol->span, "defined here");
    }
    if (symbol->val.kind == VAL_TENSOR && text_equal(symbol->val.value->name, name)) {
        diag_help(l->diags, diag,
                  "a parameter that is written is `%s: inout …`; for a copy, `var copy = %s`", name,
                  name);
        return;
    }
    diag_help(l->diags, diag, "define it with `var %s = …`", name);
    Span word = {symbol->span.source, symbol->span.start - 4, symbol->span.start - 1};
    if (symbol->span.start >= 4 && text_equal(source_text(l->diags, l->arena, word), "let")) {
        lower_fix(l, diag, word, "var");
    }
}

/* True if the variable is one from outside of a `parallel` around the statement. */
static bool is_shared(const Lower *l, const Symbol *symbol)
{
    const Symbol *outer = l->inner_symbols;
    while (outer && outer != symbol) {
        outer = outer->older;
    }
    return outer || symbol->parallel < l->parallel || symbol->lanes < l->n_lanes;
}

static void assign_variable(Lower *l, const Stmt *stmt, Symbol *symbol, Val value)
{
    if (is_shared(l, symbol)) {
        Diag *diag = lower_error(l, ERR_PARALLEL_WRITE, stmt->span,
                                 "`%s` is assigned inside of `parallel`", stmt->target->name);
        diag_label(l->diags, diag, symbol->span, "defined outside");
        diag_help(l->diags, diag, "iterations of `parallel` have no order: define it inside");
        return;
    }
    Shape shape = shape_of(&symbol->val);
    Type type = type_array(l->func, dtype_of(&symbol->val), shape.rank, shape.dims);
    value = fit_to_type(l, stmt->value->span, as_operand(l, stmt->value, value), type,
                        symbol->declared);
    if (!is_poison(&value)) {
        name_value(l, &value, symbol->name);
        value.affine = NULL;
        symbol->val = value;
    }
}

static void assign_name(Lower *l, const Stmt *stmt, Val value)
{
    const Expr *target = stmt->target;
    Symbol *symbol = find_symbol(l, target->name);
    if (symbol && symbol->val.is_local) {
        local_whole(l, stmt, symbol, value);
    } else if (symbol && symbol->val.kind == VAL_TENSOR && symbol->val.is_result) {
        store_result(l, stmt, symbol->val.value, value);
    } else if (symbol && symbol->is_var && symbol->val.kind == VAL_ARRAY) {
        assign_variable(l, stmt, symbol, value);
    } else if (!symbol || !symbol->is_var) {
        not_assignable(l, stmt, symbol);
    }
}

/* (a, b) = …: both are what they become at once. */
static void assign_parts(Lower *l, const Stmt *stmt)
{
    const Expr *target = stmt->target;
    Val value = lower_any(l, stmt->value);
    bool fits = value.kind == VAL_TUPLE && value.n_items == (int)target->args.n;
    if (!fits && !is_poison(&value)) {
        lower_error(l, ERR_TUPLE, stmt->value->span, "%s is assigned to %zu variables",
                    val_text(l, &value), target->args.n);
    }
    for (size_t i = 0; fits && i < target->args.n; i++) {
        Stmt part = *stmt;
        part.target = target->args.items[i];
        if (part.target->kind == EXPR_NAME) {
            assign_name(l, &part, value.items[i]);
        } else {
            lower_error(l, ERR_NOT_VARIABLE, part.target->span, "this cannot be assigned to");
        }
    }
}

static void lower_assignment(Lower *l, const Stmt *stmt)
{
    const Expr *target = stmt->target;
    if (target->kind == EXPR_TUPLE) {
        assign_parts(l, stmt);
        return;
    }
    if (target->kind == EXPR_INDEX) {
        lower_store(l, stmt);
        return;
    }
    if (target->kind != EXPR_NAME) {
        lower_error(l, ERR_NOT_VARIABLE, target->span, "this cannot be assigned to");
        return;
    }
    assign_name(l, stmt, lower_expr(l, stmt->value));
}

/* ---- return ---- */

static void return_result(Lower *l, const Expr *value, size_t n, Val val)
{
    size_t first = l->n_params - l->kernel->results.n;
    Stmt store = {.kind = STMT_ASSIGN, .span = value->span, .value = (Expr *)value};
    store_result(l, &store, l->func->params.items[first + n].value, val);
}

/* `return f(x)` of a function that gives a tuple. */
static bool return_tuple(Lower *l, const Stmt *stmt)
{
    Val val = lower_any(l, stmt->values.items[0]);
    if (is_poison(&val)) {
        return true;
    }
    bool fits = val.kind == VAL_TUPLE && val.n_items == (int)l->kernel->results.n;
    for (int i = 0; fits && i < val.n_items; i++) {
        return_result(l, stmt->values.items[0], (size_t)i, val.items[i]);
    }
    return fits;
}

static void return_from_kernel(Lower *l, const Stmt *stmt)
{
    const KernelDecl *kernel = l->kernel;
    if (stmt->values.n == 1 && kernel->results.n > 1 && return_tuple(l, stmt)) {
        return;
    }
    if (stmt->values.n != kernel->results.n) {
        lower_error(l, ERR_RESULT, stmt->span, "the kernel has %zu result%s, not %zu",
                    kernel->results.n, kernel->results.n == 1 ? "" : "s", stmt->values.n);
        return;
    }
    for (size_t i = 0; i < stmt->values.n; i++) {
        const Expr *value = stmt->values.items[i];
        return_result(l, value, i, lower_expr(l, value));
    }
}

static void lower_return(Lower *l, const Stmt *stmt)
{
    if (l->branches) {
        Diag *diag = lower_error(l, ERR_RETURN, stmt->span, "return inside of a branch");
        diag_help(l->diags, diag, "choose the value: `return a if condition else b`");
        l->result = poison_val();
        l->returned = true;
        return;
    }
    int lanes = l->calls ? l->calls->lanes : 0, parallel = l->calls ? l->calls->parallel : 0;
    if (l->loops || l->n_lanes > lanes || l->parallel > parallel) {
        lower_error(l, ERR_RETURN, stmt->span, "return inside of a loop");
        return;
    }
    if (!l->calls) {
        return_from_kernel(l, stmt);
    } else if (stmt->values.n != 1) {
        Expr tuple = {.kind = EXPR_TUPLE, .span = stmt->span, .args = stmt->values};
        l->result = lower_any(l, &tuple);
    } else {
        l->result = lower_any(l, stmt->values.items[0]);
    }
    l->returned = true;
}

/* ---- blocks ---- */

static void lower_statement(Lower *l, const Stmt *stmt)
{
    Span outer = l->b.span; /* of what follows, whatever the statement sets inside */
    bool names = stmt->kind == STMT_LET || stmt->kind == STMT_VAR || stmt->kind == STMT_ASSIGN;
    if (names && stmt->value && !in_library(l, stmt->value->span)) {
        l->b.span = stmt->value->span; /* a tensor by its name is loaded here */
    }
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR: lower_definition(l, stmt); break;
    case STMT_ASSIGN: lower_assignment(l, stmt); break;
    case STMT_RETURN: lower_return(l, stmt); break;
    case STMT_IF: lower_if(l, stmt); break;
    case STMT_FOR: lower_loop(l, stmt); break;
    case STMT_EXPR: lower_effect(l, stmt->value); break;
    case STMT_WHILE: lower_while(l, stmt); break;
    case STMT_BREAK:
    case STMT_CONTINUE: lower_leave(l, stmt); break;
    case STMT_PARALLEL: lower_parallel(l, stmt); break;
    case STMT_UNCHECKED: {
        bool before = l->unchecked;
        l->unchecked = true;
        lower_block(l, &stmt->body);
        l->unchecked = before;
    } break;
    case STMT_ASSUME: lower_assume(l, stmt); break;
    }
    l->b.span = outer;
}

/* After a statement that may have left the loop, the rest is executed only by iterations that
 * continue. */
static void lower_rest(Lower *l, const StmtList *list, size_t from)
{
    StmtList rest = {list->items + from, list->n - from, list->n - from};
    StmtKind last = list->items[from - 1]->kind;
    if (last == STMT_BREAK || last == STMT_CONTINUE) {
        lower_error(l, ERR_BREAK, rest.items[0]->span, "this is never reached");
        return;
    }
    Val goes_on = l->leaving.here->val;
    lower_branches(l, rest.items[0]->span, &goes_on, &rest, NULL);
}

void lower_block(Lower *l, const StmtList *list)
{
    Symbol *outer = l->symbols;
    l->depth++;
    for (size_t i = 0; i < list->n && within_limits(l, list->items[i]->span); i++) {
        if (i && l->leaving.here && has_loop_exit(list->items[i - 1])) {
            lower_rest(l, list, i);
            break;
        }
        if (l->returned) { /* maybe in an `if` that was chosen: then the rest is the other way */
            if (i && list->items[i - 1]->kind == STMT_RETURN) {
                lower_error(l, ERR_RETURN, list->items[i]->span, "this is never reached");
            }
            break;
        }
        lower_statement(l, list->items[i]);
    }
    l->depth--;
    l->symbols = outer;
}
