/* SPDX-License-Identifier: Apache-2.0 */
/* sink: moves ops that only the epilogue needs behind the loop of dots.
 *
 *   %r = load %x[%i, %j]                   for %k … { … dot %a, %b … }
 *   for %k … { … dot %a, %b … }      →     %r = load %x[%i, %j]
 *   %y = add %r, %sums                     %y = add %r, %sums
 *
 * A source that writes `r + x @ w` loads r first. Live across the dots, r takes as many registers
 * as the accumulator, so that only tiles of half the size would fit. Ops whose results the loop
 * reads or carries stay before it, and so do loads of memory that the loop writes. Each moved op
 * stands directly before its first user, so that a long epilogue does not keep all of its operands
 * live at once. Loops without dots are left alone: they carry no large accumulators.
 *
 * A row or column that only the epilogue of an inner product reads, as the bias of products that
 * are folded into their maximum, moves into the loop that folds them:
 *
 *   %v = load %b[%j]                       for %p { for %k … { … dot %a, %b … }
 *   for %p { for %k … { … dot %a, %b … }      →     %v = load %b[%j]
 *            %y = add %sums, %v … }                  %y = add %sums, %v … }
 *
 * It is loaded again for each product, which takes far longer. Requires: tile (the loops exist).
 * Changes no bits. */
#include "ir/build.h"
#include "passes/pass.h"

typedef struct Sink {
    const Op *loop;
    bool *behind; /* by value: used behind the loop alone */
} Sink;

static bool reads_memory(const Op *op)
{
    return op->kind == OP_LOAD || op->kind == OP_GATHER;
}

/* True if no op from here to the loop's end reads it, except ops that move behind the loop
 * themselves. */
static bool is_asked_behind(const Sink *s, const Op *op)
{
    for (const Op *between = op->next;; between = between->next) {
        bool goes = between->n_results == 1 && s->behind[between->results[0]->id];
        if ((!goes && op_reads(between, op->results[0])) ||
            (reads_memory(op) && op_writes(between, op->operands[0]))) {
            return false;
        }
        if (between == s->loop) {
            return true;
        }
    }
}

/* The first op from here on that reads the value, or that may change the memory it is loaded
 * from. */
static Op *first_asking(const Op *op, Op *from)
{
    while (from->next && !op_reads(from, op->results[0]) &&
           !(reads_memory(op) && op_writes(from, op->operands[0]))) {
        from = from->next;
    }
    return from;
}

static bool makes_tile(const Op *op)
{
    return op->n_results == 1 && op->n_regions == 0 && op_has(op, TRAIT_PURE) &&
           type_is_tile(op->results[0]->type);
}

/* True if its operands are only memory and scalars. Otherwise the operands would stay live in
 * its place. */
static bool leaves_nothing(const Sink *s, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (value && type_is_tile(value->type) && !s->behind[value->id] &&
            !(value->def && value->def->kind == OP_CONST)) {
            return false;
        }
    }
    return true;
}

/* ---- into the loop that folds products ---- */

static Op *last_products(const Block *block)
{
    Op *op = block->last;
    while (op && !(op->kind == OP_FOR && block_contains(op->regions[0], OP_DOT))) {
        op = op->prev;
    }
    return op;
}

/* The first op of the loop that reads the value, if that is done behind inner products alone: those
 * of a loop that stands in the loop itself, or deeper. NULL: it is read elsewhere, too. */
static Op *reader_in(const Op *loop, const Op *op)
{
    const Value *value = op->results[0];
    Op *products = last_products(loop->regions[0]);
    for (const Op *at = loop->regions[0]->first; products && at != products; at = at->next) {
        if (op_reads(at, value)) {
            return NULL;
        }
    }
    if (!products || !op_reads(products, value)) {
        return products ? first_asking(op, products->next) : NULL;
    }
    for (const Op *at = products->next; at; at = at->next) {
        if (op_reads(at, value)) {
            return NULL;
        }
    }
    return reader_in(products, op);
}

static bool is_read_in(const Value *value, const Block *block)
{
    for (const ValueUse *use = value->uses; use; use = use->next) {
        if (!op_is_within(use->op, block)) {
            return false;
        }
    }
    return value->uses != NULL;
}

static bool is_vector(Type type)
{
    int axes = 0;
    for (int i = 0; i < type->rank; i++) {
        axes += !poly_is_number(type->dims[i], 1);
    }
    return axes <= 1;
}

/* True if the op makes a row or column of nothing longer. */
static bool makes_vector(const Op *op)
{
    bool may = makes_tile(op) && is_vector(op->results[0]->type);
    for (int i = 0; i < op->n_operands && may; i++) {
        const Value *value = op->operands[i];
        may = !value || value->type->kind != TYPE_ARRAY || is_vector(value->type);
    }
    return may;
}

/* True if an op from here to the loop's end writes what the op reads. */
static bool reads_what_changes(const Op *op, const Op *loop)
{
    for (const Op *at = op->next; reads_memory(op); at = at->next) {
        if (op_writes(at, op->operands[0])) {
            return true;
        }
        if (at == loop) {
            break;
        }
    }
    return false;
}

static void sink_into(Op *loop, void *user)
{
    (void)user;
    if (loop->kind != OP_FOR || !block_contains(loop->regions[0], OP_DOT)) {
        return;
    }
    for (Op *op = loop->prev, *before; op; op = before) {
        before = op->prev;
        bool may = makes_vector(op) && is_read_in(op->results[0], loop->regions[0]);
        Op *reader = may ? reader_in(loop, op) : NULL;
        if (reader && !reads_what_changes(op, loop)) {
            op_move_before(op, reader);
        }
    }
}

/* ---- behind a loop ---- */

static void sink_behind(Op *loop, void *user)
{
    Sink *s = user;
    if (loop->kind != OP_FOR || !block_contains(loop->regions[0], OP_DOT)) {
        return;
    }
    s->loop = loop;
    Op *first = loop;
    for (Op *op = loop->prev; op; op = op->prev) {
        if (makes_tile(op)) {
            s->behind[op->results[0]->id] = is_asked_behind(s, op);
        }
        first = op;
    }
    for (Op *op = first; op != loop; op = op->next) {
        if (makes_tile(op)) {
            bool *behind = &s->behind[op->results[0]->id];
            *behind = *behind && leaves_nothing(s, op);
        }
    }
    for (Op *op = loop->prev, *before; op; op = before) {
        before = op->prev;
        if (makes_tile(op) && s->behind[op->results[0]->id]) {
            /* not if an op that cannot move reads it */
            s->behind[op->results[0]->id] = is_asked_behind(s, op);
            if (s->behind[op->results[0]->id]) {
                op_move_before(op, first_asking(op, loop->next));
            }
        }
    }
}

void pass_sink(Func *func)
{
    Sink sink = {.behind = ARENA_ARRAY(func->arena, bool, func->n_values)};
    func_walk(func, sink_into, NULL);
    func_walk(func, sink_behind, &sink);
}
