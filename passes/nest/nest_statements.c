/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the statements of a block. A value that is used once, by an op that evaluates its operands
 * in the order of the IR, is written in place; any other value becomes a `let`. The source
 * therefore computes everything in the order of the IR. */
#include "passes/nest/nest_text.h"

#include <string.h>

enum { MAX_EXPRESSION = 60 }; /* characters that a reader takes in at once */

/* ---- values that wait for their reader ---- */

/* Writes all of them as statements. */
static void flush(NestWriter *w)
{
    for (size_t i = 0; i < w->pending.n; i++) {
        const Value *value = w->pending.items[i];
        const char *name = nest_name(w, value->name ? value->name : "t");
        bool stretched = value->def && value->def->kind == OP_BROADCAST;
        nest_line(w, "let %s = %s", name,
                  stretched ? nest_operand(w, value, BINDS_CHOICE) : nest_whole(w, value));
        w->exprs[value->id] = (NestExpr){name, BINDS_PRIMARY};
    }
    w->pending.n = 0;
}

static bool is_pending(const NestWriter *w, const Value *value)
{
    for (size_t i = 0; i < w->pending.n; i++) {
        if (w->pending.items[i] == value) {
            return true;
        }
    }
    return false;
}

/* A product that is added would become a fused multiply-add. */
static bool would_fuse(const Op *op, int at)
{
    const Op *def_op = op->operands[at] ? nest_def(op->operands[at]) : NULL;
    bool adds = op->kind == OP_ADD || op->kind == OP_SUB || (op->kind == OP_FMA && at == 2);
    while (def_op && def_op->kind == OP_NEG) {
        def_op = nest_def(def_op->operands[0]);
    }
    return adds && def_op && def_op->kind == OP_MUL;
}

/* Takes the operands that wait: they are the last ones, in this order, or all become statements. */
static void take(NestWriter *w, const Op *op, int n, Value *const *operands)
{
    size_t waiting = 0, at = 0;
    bool fits = true;
    for (int i = 0; i < n; i++) {
        waiting += operands[i] && is_pending(w, operands[i]);
    }
    at = w->pending.n - waiting;
    for (int i = 0; i < n; i++) {
        if (operands[i] && is_pending(w, operands[i])) {
            fits = fits && at < w->pending.n && w->pending.items[at] == operands[i] &&
                   (operands != op->operands || !would_fuse(op, i)) &&
                   strlen(w->exprs[operands[i]->id].text) <= MAX_EXPRESSION;
            at++;
        }
    }
    if (fits) {
        w->pending.n -= waiting;
    } else {
        flush(w);
    }
}

static bool is_read_once(const Value *value, const Block *block)
{
    const ValueUse *use = use_first(value, block);
    return use && !use_next(use, block) && use->op->parent == block;
}

/* ---- values ---- */

static void wait_for_reader(NestWriter *w, const Op *op, NestExpr expr)
{
    Value *value = op->results[0];
    w->exprs[value->id] = expr;
    if (!use_first(value, op->parent)) {
        return;
    }
    ARENA_PUSH(w->func->arena, &w->pending, value);
    if (!is_read_once(value, op->parent)) {
        flush(w);
    }
}

static void put_free(NestWriter *w, const Op *op)
{
    Value *of = op->kind == OP_BROADCAST ? op->operands[0] : NULL, *result = op->results[0];
    if (of && is_pending(w, of) && !is_read_once(result, op->parent)) {
        flush(w);
    }
    for (size_t i = 0; i < w->pending.n; i++) { /* its reader reads what is stretched */
        Value **item = &w->pending.items[i];
        *item = *item == of ? result : *item;
    }
    w->exprs[result->id] = nest_expression(w, op);
}

static void put_value(NestWriter *w, const Op *op)
{
    Value *of = NULL;
    const char *function = nest_function(w, op, &of);
    if (function) {
        take(w, op, 1, &of);
        const char *text =
            arena_printf(w->func->arena, "%s(%s)", function, nest_operand(w, of, BINDS_CHOICE));
        wait_for_reader(w, op, (NestExpr){text, BINDS_PRIMARY});
        return;
    }
    /* An accumulator stands before the product that is added to it. */
    Value *order[3];
    bool accumulates = op->kind == OP_DOT && op->n_operands == 3;
    for (int i = 0; accumulates && i < 3; i++) {
        order[i] = op->operands[(i + 2) % 3];
    }
    take(w, op, op->n_operands, accumulates ? order : op->operands);
    wait_for_reader(w, op, nest_expression(w, op));
}

/* ---- effects ---- */

enum { MAX_STEPS = 4 }; /* ops from the start of a tile to its number */

static bool is_made_of(const Value *value, const Value *range, int steps)
{
    bool made = value == range;
    const Op *op = value ? value->def : NULL;
    for (int i = 0; op && steps > 0 && i < op->n_operands && !made; i++) {
        made = is_made_of(op->operands[i], range, steps - 1);
    }
    return made;
}

/* Do the indices of what is stored have all variables of the launch? */
static bool has_grid(const Op *store, const Access *access)
{
    const Block *grid = op_enclosing(store, OP_LAUNCH)->regions[0];
    bool all = true;
    for (int i = 0; i < grid->n_args && all; i++) {
        all = false;
        for (int k = 0; k < access->n && !all; k++) {
            all = is_made_of(access->indices[k], grid->args[i], MAX_STEPS);
        }
    }
    return all;
}

static void put_store(NestWriter *w, const Op *op)
{
    Access access = op_access(op, 0);
    if (!has_grid(op, &access)) {
        nest_refuse(w, NEST_REASON_ONE_TILE, op);
    }
    const Value *value = op->operands[op->n_operands - 1];
    take(w, op, op->n_operands, op->operands);
    flush(w);
    nest_line(w, "%s = %s", nest_access(w, &access),
              type_is_scalar(value->type) ? nest_whole(w, value)
                                          : nest_operand(w, value, BINDS_CHOICE));
}

/* ---- loops and conditions ---- */

/* The variables that a loop carries, with what they begin with. */
static void put_variables(NestWriter *w, const Op *op, int first, const Block *body, int first_arg)
{
    for (int i = 0; i < op->n_results; i++) {
        const Value *arg = body->args[first_arg + i];
        const char *wish = op->results[i]->name ? op->results[i]->name : arg->name;
        const char *name = nest_name(w, wish ? wish : "s");
        nest_line(w, "var %s = %s", name, nest_whole(w, op->operands[first + i]));
        w->exprs[arg->id] = w->exprs[op->results[i]->id] = (NestExpr){name, BINDS_PRIMARY};
    }
}

/* The next values, which are all known before the first one is assigned. */
static void put_yield(NestWriter *w, const Op *yield, Value *const *variables)
{
    if (yield->n_operands != 1) {
        flush(w);
    } else {
        take(w, yield, 1, yield->operands);
        flush(w);
    }
    const char **next = ARENA_ARRAY(w->func->arena, const char *, yield->n_operands + 1);
    for (int i = 0; i < yield->n_operands; i++) {
        const char *own = w->exprs[variables[i]->id].text;
        next[i] = nest_whole(w, yield->operands[i]);
        bool other = false;
        for (int k = 0; k < i; k++) {
            other = other || text_equal(next[i], w->exprs[variables[k]->id].text);
        }
        if (other && !text_equal(next[i], own)) {
            const char *name = nest_name(w, "t");
            nest_line(w, "let %s = %s", name, next[i]);
            next[i] = name;
        }
    }
    for (int i = 0; i < yield->n_operands; i++) {
        const char *own = w->exprs[variables[i]->id].text;
        if (!text_equal(next[i], own)) {
            nest_line(w, "%s = %s", own, next[i]);
        }
    }
}

static void put_body(NestWriter *w, const Block *body, Value *const *variables)
{
    w->indent++;
    nest_block(w, body);
    if (body->last && body->last->kind == OP_YIELD) {
        put_yield(w, body->last, variables);
    }
    flush(w);
    w->indent--;
    nest_line(w, "}");
}

static bool is_zero(const Value *value)
{
    return value->def && value->def->kind == OP_CONST && op_attr(value->def, ATTR_VALUE)->i == 0;
}

static bool is_size(const Value *value, Dim dim)
{
    return value->def && value->def->kind == OP_SIZE &&
           op_attr(value->def, ATTR_DIM)->dims[0] == dim;
}

/* Where a loop begins: what a source says of it is never below 0, without saying so. */
static const Value *loop_begin(const Op *loop)
{
    const Value *lo = for_lo(loop);
    bool clipped = lo->def && lo->def->kind == OP_MAX && is_zero(lo->def->operands[1]);
    return clipped ? lo->def->operands[0] : lo;
}

static void put_for(NestWriter *w, const Op *op)
{
    Dim extent = op_attr(op, ATTR_DIMS)->dims[0];
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    const Block *body = op->regions[0];
    const char *lo = nest_operand(w, step ? loop_begin(op) : for_lo(op), BINDS_SUM);
    const char *hi = nest_operand(w, for_hi(op), BINDS_SUM);
    bool whole = is_zero(for_lo(op)) && is_size(for_hi(op), extent);
    if (op_int(op, ATTR_PART, 0)) {
        nest_refuse(w, NEST_REASON_SLICED, op);
    }
    if (op_int(op, ATTR_DESCENDING, 0) || op_int(op, ATTR_SINGLE_TRIP, 0)) {
        nest_refuse(w, NEST_REASON_OPERATION, op);
    }
    put_variables(w, op, 2, body, 1);
    const char *part = whole ? NULL
                             : arena_printf(w->func->arena, step ? "%s: %s" : "%s..%s",
                                            is_zero(for_lo(op)) && step ? "" : lo, hi);
    nest_line(w, "for %s {", nest_axis(w, body->args[0], extent, step, part, false));
    put_body(w, body, op->results);
}

static void put_if(NestWriter *w, const Op *op)
{
    const char *condition = nest_operand(w, op->operands[0], BINDS_OR);
    for (int i = 0; i < op->n_results; i++) {
        Type type = op->results[i]->type;
        const char *name = nest_name(w, op->results[i]->name ? op->results[i]->name : "c");
        const char *zero = type->dtype == DT_BOOL ? "false" : "0";
        if (type_is_scalar(type)) {
            nest_line(w, "var %s = %s(%s)", name, dtype_name(type->dtype), zero);
        } else {
            nest_line(w, "var %s = fill(%s, %s)", name, zero, nest_type_text(w, type));
        }
        w->exprs[op->results[i]->id] = (NestExpr){name, BINDS_PRIMARY};
    }
    nest_line(w, "if %s {", condition);
    put_body(w, op->regions[0], op->results);
    const Op *only = op->regions[1]->first;
    if (only && (only->kind != OP_YIELD || only->n_operands > 0)) {
        w->out->n--; /* behind the closing brace of the other branch */
        text_add(w->out, " else {\n");
        put_body(w, op->regions[1], op->results);
    }
}

/* ---- a block ---- */

/* Ops that no expression has: what becomes of them. */
static bool put_statement(NestWriter *w, const Op *op)
{
    switch (op->kind) {
    case OP_STORE: put_store(w, op); return true;
    case OP_FOR:
        flush(w);
        put_for(w, op);
        return true;
    case OP_IF:
        flush(w);
        put_if(w, op);
        return true;
    case OP_YIELD: return true;
    case OP_SCATTER: nest_refuse(w, NEST_REASON_SCATTER, op); return true;
    case OP_PRINT:
    case OP_ASSERT: nest_refuse(w, NEST_REASON_MESSAGE, op); return true;
    case OP_WHILE: nest_refuse(w, NEST_REASON_ELEMENT_LOOP, op); return true;
    case OP_FOLD: nest_refuse(w, NEST_REASON_FOLD, op); return true;
    case OP_CLUSTER_REDUCE:
    case OP_CLUSTER_REDUCE_SCATTER: nest_refuse(w, NEST_REASON_CLUSTER, op); return true;
    default: return false;
    }
}

/* Part of a function's expansion that only other parts of it read. */
static bool is_inside_function(NestWriter *w, const Op *op)
{
    Value *of;
    return op_word(op, ATTR_EXPANDED) && !nest_function(w, op, &of) && !w->reason;
}

void nest_block(NestWriter *w, const Block *block)
{
    for (const Op *op = block->first; op && !w->reason; op = op->next) {
        if (put_statement(w, op) || is_inside_function(w, op)) {
            continue;
        }
        if (nest_is_free(op)) {
            put_free(w, op);
        } else {
            put_value(w, op);
        }
    }
    if (!w->reason && !(block->last && block->last->kind == OP_YIELD)) {
        flush(w);
    }
}
