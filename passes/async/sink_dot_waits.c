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

enum { MAX_IN_FLIGHT = 16 }; /* dots, or arrives, of one block */

typedef struct DotInFlight {
    Value *result; /* of the dot, or of the last wait that left it in flight */
    Value *waited; /* of its old wait: ops that read this need the dot to have ended */
} DotInFlight;

typedef struct WaitSink {
    Func *func;
    Block *block;
    DotInFlight dots[MAX_IN_FLIGHT]; /* the oldest first; those before `first` have ended */
    int first, n;
    bool only_results; /* shared memory that threads write is read by no dot */
    struct {
        Op *op;
        int after; /* number of dots that must have ended before it */
    } arrives[MAX_IN_FLIGHT];
    int n_arrives;
} WaitSink;

/* ---- which blocks ---- */

/* The dot's result after a wait for all dots; NULL: the wait is not for it, or not for all. */
static Value *waited_result(const Op *wait, const Op *dot)
{
    bool all = wait && wait->kind == OP_DOT_WAIT && op_int(wait, ATTR_PENDING, 0) == 0;
    for (int i = 0; all && i < wait->n_operands; i++) {
        if (wait->operands[i] == dot->results[0]) {
            return wait->results[i];
        }
    }
    return NULL;
}

static Op *next_of_kind(Op *op, OpKind kind)
{
    while (op && op->kind != kind) {
        op = op->next;
    }
    return op;
}

/* True if the block has at least two dots, each of which the next wait is for. */
static bool is_suitable(const Block *block)
{
    int dots = 0, arrives = 0;
    for (Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT_ASYNC &&
            (++dots > MAX_IN_FLIGHT || !waited_result(next_of_kind(op, OP_DOT_WAIT), op))) {
            return false;
        }
        arrives += op->kind == OP_ARRIVE;
        if (op->kind == OP_ORDERED_WAIT) {
            return false;
        }
    }
    return dots > 1 && arrives <= MAX_IN_FLIGHT && block->last->kind == OP_YIELD;
}

/* ---- issue early ---- */

static bool is_issued_before(const Op *op, const Op *where)
{
    return op->parent == where->parent && !op_is_before(where, op);
}

static bool computes_scalar(const Op *op)
{
    return op_has(op, TRAIT_PURE) && op->n_regions == 0 && op->n_results == 1 &&
           type_is_scalar(op->results[0]->type);
}

/* The first op from `where` on that computes no scalar: ops that move there may read these. */
static Op *behind_scalars(Op *where, const Op *dot)
{
    while (where != dot && computes_scalar(where)) {
        where = where->next;
    }
    return where;
}

/* True if the value exists before `where`, or is a scalar that can be computed there. */
static bool is_available(const WaitSink *sink, Memo *seen, const Value *value, const Op *where)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != sink->block || is_issued_before(op, where) ||
        !memo_visit(seen, value)) {
        return true; /* a value seen before was available, or the search would have ended */
    }
    bool available = computes_scalar(op);
    for (int i = 0; i < op->n_operands && available; i++) {
        available = is_available(sink, seen, op->operands[i], where);
    }
    return available;
}

static bool all_available(const WaitSink *sink, const Op *op, const Op *where)
{
    Memo *seen = memo_open(sink->func);
    bool all = true;
    for (int i = 0; i < op->n_operands && all; i++) {
        all = is_available(sink, seen, op->operands[i], where);
    }
    memo_close(seen);
    return all;
}

/* Moves the op before `where`, and the scalars that it reads before it. */
static void move_up(const WaitSink *sink, Op *op, Op *where)
{
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && def->parent == sink->block && !is_issued_before(def, where)) {
            move_up(sink, def, where);
        }
    }
    op_move_before(op, where);
}

/* True if the dot, and the mbarrier waits before it, may move before `where`. */
static bool can_move_up(const WaitSink *sink, const Op *dot, const Op *where)
{
    for (const Op *op = where; op != dot; op = op->next) {
        bool writes = op->n_regions || op->kind == OP_SHARED_STORE || op->kind == OP_BARRIER;
        if (writes || (op->kind == OP_WAIT && !all_available(sink, op, where))) {
            return false;
        }
    }
    return all_available(sink, dot, where);
}

/* Moves all dots behind the first one, in their order. */
static void issue_early(const WaitSink *sink)
{
    Op *where = next_of_kind(sink->block->first, OP_DOT_ASYNC)->next;
    for (Op *dot = next_of_kind(where, OP_DOT_ASYNC), *next_dot; dot; dot = next_dot) {
        next_dot = next_of_kind(dot->next, OP_DOT_ASYNC);
        where = is_issued_before(where, dot) ? behind_scalars(where, dot) : where;
        if (!is_issued_before(where, dot) || !can_move_up(sink, dot, where)) {
            continue;
        }
        for (Op *op = where, *next; op != dot; op = next) {
            next = op->next;
            if (op == where && op->kind == OP_WAIT) {
                where = behind_scalars(next, dot); /* the wait is in place already */
            } else if (op->kind == OP_WAIT) {
                move_up(sink, op, where);
            }
        }
        if (dot == where) {
            where = dot->next;
        } else {
            move_up(sink, dot, where);
        }
    }
}

/* ---- wait late ---- */

/* Waits before `where` for all dots before the n-th, and releases the stages that they read. */
static void wait_before(WaitSink *sink, int n, Op *where)
{
    Value *values[MAX_IN_FLIGHT];
    Type types[MAX_IN_FLIGHT];
    int in_flight = sink->n - sink->first;
    if (n <= sink->first) {
        return;
    }
    for (int i = 0; i < in_flight; i++) {
        values[i] = sink->dots[sink->first + i].result;
        types[i] = values[i]->type;
    }
    Builder b = build_before(sink->func, where);
    Op *wait = build_op(&b, OP_DOT_WAIT, in_flight, values, in_flight, types, 0);
    op_set_int(sink->func, wait, ATTR_PENDING, sink->n - n);
    for (int i = 0; i < in_flight; i++) {
        DotInFlight *dot = &sink->dots[sink->first + i];
        dot->result = wait->results[i];
        if (sink->first + i < n) {
            wait->results[i]->name = dot->waited->name;
            func_replace_uses(sink->func, dot->waited, wait->results[i]);
        }
    }
    sink->first = n;

    int kept = 0;
    for (int i = 0; i < sink->n_arrives; i++) {
        if (sink->arrives[i].after <= n) {
            op_move_before(sink->arrives[i].op, where);
        } else {
            sink->arrives[kept++] = sink->arrives[i];
        }
    }
    sink->n_arrives = kept;
}

/* True if no dot of the block reads shared memory that its threads write, which is then the
 * epilogue's: barriers for it concern no dot in flight. */
static bool writes_only_results(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->n_regions > 0) {
            return false;
        }
        for (const Op *dot = block->first; op->kind == OP_SHARED_STORE && dot; dot = dot->next) {
            if (dot->kind == OP_DOT_ASYNC && op_reads(dot, op->operands[0])) {
                return false;
            }
        }
    }
    return true;
}

/* The number of dots that must have ended before the op. */
static int needed_dots(const WaitSink *sink, const Op *op)
{
    bool all = op->n_regions > 0 || op->kind == OP_YIELD;
    switch (op->kind) {
    case OP_BARRIER:
    case OP_FENCE_ASYNC:
    case OP_SHARED_STORE:
    case OP_BULK_STORE:
    case OP_BULK_WAIT: all = !sink->only_results; break;
    default: break;
    }
    int n = sink->first;
    for (int i = sink->first; i < sink->n; i++) {
        n = all || op_reads(op, sink->dots[i].waited) ? i + 1 : n;
    }
    return n;
}

static void wait_late(WaitSink *sink)
{
    Op *old[MAX_IN_FLIGHT];
    int n = 0;
    for (Op *op = sink->block->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_DOT_WAIT) {
            old[n++] = op; /* its results are read until the new wait replaces them */
            continue;
        }
        wait_before(sink, needed_dots(sink, op), op);
        if (op->kind == OP_DOT_ASYNC) {
            Op *wait = next_of_kind(op, OP_DOT_WAIT);
            while (!waited_result(wait, op)) {
                wait = next_of_kind(wait->next, OP_DOT_WAIT);
            }
            sink->dots[sink->n++] = (DotInFlight){op->results[0], waited_result(wait, op)};
        } else if (op->kind == OP_ARRIVE && sink->first < sink->n) {
            sink->arrives[sink->n_arrives].op = op;
            sink->arrives[sink->n_arrives++].after = sink->n;
        }
    }
    for (int i = 0; i < n; i++) {
        op_remove(old[i]);
    }
}

static void try_loop(Op *op, void *user)
{
    if (op->kind == OP_FOR && is_suitable(op->regions[0])) {
        WaitSink sink = {.func = user,
                         .block = op->regions[0],
                         .only_results = writes_only_results(op->regions[0])};
        issue_early(&sink);
        wait_late(&sink);
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
