/* SPDX-License-Identifier: Apache-2.0 */
/* sink_dot_waits: issues asynchronous dots as early, and waits for them as late, as the ops
 * between them allow.
 *
 *   %s = dot_async %k, %q; dot_wait            %s = dot_async %k, %q
 *   %p = f(%s)                          →    %d = dot_async %v, %g
 *   %o = dot_async %p, %g, %c; dot_wait        dot_wait %s, %d pending=1
 *   %d = dot_async %v, %g; dot_wait            %p = f(%s)
 *   %e = %p * %d                             %o = dot_async %p, %g, %c
 *   yield %o                                 dot_wait %d, %o pending=1
 *                                            %e = %p * %d
 *                                            dot_wait %o; yield %o
 *
 * The matrix unit then works during the element-wise work of the same iteration. A dot whose
 * operands are all in shared memory moves up to the first dot of its block, together with the
 * mbarrier waits for its tiles; a pipeline stage is released after the waits for the dots that
 * read it. Loops that `pipeline_dots` has transformed are left alone. Requires: stage. Changes no
 * bits. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/schedule.h"
#include "passes/pass.h"

enum { MAX_FLIGHTS = 16 };

typedef struct Flight {
    Value *flying;  /* unsettled */
    Value *settled; /* what the old settle gave; readers of it are readers of this */
} Flight;

typedef struct Late {
    Func *func;
    Block *block;
    Flight flights[MAX_FLIGHTS]; /* the oldest first */
    bool only_sends;
    int first, n; /* those before `first` are settled */
    struct {
        Op *op;
        int after; /* flights that must be settled before it */
    } arrives[MAX_FLIGHTS];
    int n_arrives;
} Late;

/* ---- which blocks ---- */

/* What a settle of all in flight makes of the product; NULL: another settle does, or later. */
static Value *settled_by(const Op *settle, const Op *dot)
{
    bool all = settle && settle->kind == OP_DOT_WAIT && op_int(settle, ATTR_PENDING, 0) == 0;
    for (int i = 0; all && i < settle->n_operands; i++) {
        if (settle->operands[i] == dot->results[0]) {
            return settle->results[i];
        }
    }
    return NULL;
}

static const Op *next_settle(const Op *op)
{
    while (op && op->kind != OP_DOT_WAIT) {
        op = op->next;
    }
    return op;
}

static bool may_be_late(const Block *block)
{
    int dots = 0, arrives = 0;
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT_ASYNC &&
            (++dots > MAX_FLIGHTS || !settled_by(next_settle(op), op))) {
            return false;
        }
        arrives += op->kind == OP_ARRIVE;
        if (op->kind == OP_ORDERED_WAIT) {
            return false;
        }
    }
    return dots > 1 && arrives <= MAX_FLIGHTS;
}

/* ---- early ---- */

static bool stands_before(const Op *op, const Op *where)
{
    return op->parent == where->parent && !op_is_before(where, op);
}

static bool makes_scalar(const Op *op)
{
    return op_has(op, TRAIT_PURE) && op->n_regions == 0 && op->n_results == 1 &&
           type_is_scalar(op->results[0]->type);
}

/* Numbers that stand at `where` stay: what is brought there may be made of them. */
static Op *behind_scalars(Op *where, const Op *dot)
{
    while (where != dot && makes_scalar(where)) {
        where = where->next;
    }
    return where;
}

/* Is it there before `where`, or a number that can be made there? */
static bool is_there(const Late *late, Memo *seen, const Value *value, const Op *where)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != late->block || stands_before(op, where) || !memo_visit(seen, value)) {
        return true; /* where it was seen: or the search would have ended */
    }
    bool there = makes_scalar(op);
    for (int i = 0; i < op->n_operands && there; i++) {
        there = is_there(late, seen, op->operands[i], where);
    }
    return there;
}

static bool all_there(const Late *late, const Op *op, const Op *where)
{
    Memo *seen = memo_open(late->func);
    bool all = true;
    for (int i = 0; i < op->n_operands && all; i++) {
        all = is_there(late, seen, op->operands[i], where);
    }
    memo_close(seen);
    return all;
}

static void bring(const Late *late, Op *op, Op *where)
{
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && def->parent == late->block && !stands_before(def, where)) {
            bring(late, def, where);
        }
    }
    op_move_before(op, where);
}

/* May the product, and the waits before it, stand before `where`? */
static bool can_rise(const Late *late, const Op *dot, const Op *where)
{
    for (const Op *op = where; op != dot; op = op->next) {
        bool writes = op->n_regions || op->kind == OP_SHARED_STORE || op->kind == OP_BARRIER;
        if (writes || (op->kind == OP_WAIT && !all_there(late, op, where))) {
            return false;
        }
    }
    return all_there(late, dot, where);
}

/* Returns what is behind the product then, or `where`, whichever is later. */
static Op *raise(const Late *late, Op *dot, Op *where)
{
    for (Op *op = where, *next; op != dot; op = next) {
        next = op->next;
        if (op == where && op->kind == OP_WAIT) {
            where = behind_scalars(next, dot); /* it is there already */
        } else if (op->kind == OP_WAIT) {
            bring(late, op, where);
        }
    }
    if (dot == where) {
        return dot->next;
    }
    bring(late, dot, where);
    return where;
}

static Op *next_dot(Op *op)
{
    while (op && op->kind != OP_DOT_ASYNC) {
        op = op->next;
    }
    return op;
}

/* Behind the first product, in their order. */
static void raise_all(const Late *late)
{
    Op *first = next_dot(late->block->first), *where = first->next;
    for (Op *dot = next_dot(where), *next; dot; dot = next) {
        next = next_dot(dot->next);
        where = stands_before(where, dot) ? behind_scalars(where, dot) : where;
        if (stands_before(where, dot) && can_rise(late, dot, where)) {
            where = raise(late, dot, where);
        }
    }
}

/* ---- late ---- */

static void hand_back(Late *late, Op *where)
{
    int kept = 0;
    for (int i = 0; i < late->n_arrives; i++) {
        if (late->arrives[i].after <= late->first) {
            op_move_before(late->arrives[i].op, where);
        } else {
            late->arrives[kept++] = late->arrives[i];
        }
    }
    late->n_arrives = kept;
}

/* All flights before the n-th. */
static void settle_before(Late *late, int n, Op *where)
{
    Value *values[MAX_FLIGHTS];
    Type types[MAX_FLIGHTS];
    int flying = late->n - late->first;
    if (n <= late->first) {
        return;
    }
    for (int i = 0; i < flying; i++) {
        values[i] = late->flights[late->first + i].flying;
        types[i] = values[i]->type;
    }
    Builder b = build_before(late->func, where);
    Op *settle = build_op(&b, OP_DOT_WAIT, flying, values, flying, types, 0);
    op_set_int(late->func, settle, ATTR_PENDING, late->n - n);
    for (int i = 0; i < flying; i++) {
        Flight *flight = &late->flights[late->first + i];
        flight->flying = settle->results[i];
        if (late->first + i < n) {
            settle->results[i]->name = flight->settled->name;
            func_replace_uses(late->func, flight->settled, settle->results[i]);
        }
    }
    late->first = n;
    hand_back(late, where);
}

static bool reads_shared(const Block *block, const Value *shared)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT_ASYNC && op_reads(op, shared)) {
            return true;
        }
    }
    return false;
}

/* Is all that the block's threads write to shared memory a result on its way out, which no product
 * reads? Then they meet for nothing that is in flight. */
static bool only_sends(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool written = op->kind == OP_SHARED_STORE || op->n_regions > 0;
        if (written && (op->n_regions > 0 || reads_shared(block, op->operands[0]))) {
            return false;
        }
    }
    return true;
}

static bool ends_flights(const Late *late, const Op *op)
{
    switch (op->kind) {
    case OP_YIELD: return true;
    case OP_BARRIER:
    case OP_FENCE_ASYNC:
    case OP_SHARED_STORE:
    case OP_BULK_STORE:
    case OP_BULK_WAIT: return !late->only_sends;
    default: return op->n_regions > 0;
    }
}

/* How many flights must be settled before op. */
static int needs(const Late *late, const Op *op)
{
    int n = late->first;
    for (int i = late->first; i < late->n; i++) {
        n = op_reads(op, late->flights[i].settled) || ends_flights(late, op) ? i + 1 : n;
    }
    return n;
}

static void settle_all(Late *late)
{
    Op *gone[MAX_FLIGHTS];
    int n = 0;
    for (Op *op = late->block->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_DOT_WAIT) {
            gone[n++] = op; /* its result is read until the new one is there */
            continue;
        }
        settle_before(late, needs(late, op), op);
        if (op->kind == OP_DOT_ASYNC) {
            const Op *settle = next_settle(op);
            while (!settled_by(settle, op)) {
                settle = next_settle(settle->next);
            }
            late->flights[late->n++] = (Flight){op->results[0], settled_by(settle, op)};
        } else if (op->kind == OP_ARRIVE && late->first < late->n) {
            late->arrives[late->n_arrives].op = op;
            late->arrives[late->n_arrives++].after = late->n;
        }
    }
    for (int i = 0; i < n; i++) {
        op_remove(gone[i]);
    }
}

/* ---- all ---- */

static void try_block(Func *func, Block *block)
{
    Late late = {.func = func, .block = block, .only_sends = only_sends(block)};
    if (!may_be_late(block) || !block->last || block->last->kind != OP_YIELD) {
        return;
    }
    raise_all(&late);
    settle_all(&late);
}

static void try_loop(Op *op, void *user)
{
    if (op->kind == OP_FOR) {
        try_block(user, op->regions[0]);
    }
}

void pass_sink_dot_waits(Func *func)
{
    const ScheduleEntry *given = schedule_user_entry(func, "overlap", "");
    if (!given || !text_equal(given->symbol, "off")) {
        func_walk(func, try_loop, func);
        func_remove_dead(func);
    }
}
