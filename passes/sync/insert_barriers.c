/* SPDX-License-Identifier: Apache-2.0 */
/* insert_barriers: inserts a barrier between global stores and later loads of the same memory by
 * other threads of the block.
 *
 *   store %s[%n], %a                        store %s[%n], %a
 *   %b = gather %s[%i]               →      barrier
 *                                           %b = gather %s[%i]
 *
 * Only launches that read what they have written need this: loops whose steps have a cross-element
 * dependence. Accesses that load and store the same element in place get a barrier too, because it
 * costs little. Does nothing on CPUs, where one thread executes a block. Requires: stage. Changes
 * no values. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/pass.h"

typedef struct Touched {
    uint64_t *reads, *writes; /* bits by parameter */
} Touched;

typedef struct Orderer {
    Func *func;
    size_t words;
    Touched both; /* of the launch */
} Orderer;

static Touched touched_new(const Orderer *o)
{
    return (Touched){ARENA_ARRAY(o->func->arena, uint64_t, o->words),
                     ARENA_ARRAY(o->func->arena, uint64_t, o->words)};
}

static void touch(Op *op, void *user)
{
    Touched *touched = user;
    if (op->kind == OP_SPIN_LOAD) { /* waits for what it reads */
        return;
    }
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *memory = op_access(op, at).memory;
        if (memory && memory->type->kind == TYPE_TENSOR) {
            bool writes =
                op->kind == OP_STORE || op->kind == OP_SCATTER || op->kind == OP_BULK_STORE;
            uint64_t *bits = writes ? touched->writes : touched->reads;
            bits[memory->index / 64] |= (uint64_t)1 << memory->index % 64;
        }
    }
}

static Touched touched_by(const Orderer *o, Op *op)
{
    Touched touched = touched_new(o);
    touch(op, &touched);
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], touch, &touched);
    }
    return touched;
}

/* Is something here that the launch both reads and writes in both sets? */
static bool meets(const Orderer *o, const uint64_t *a, const uint64_t *b)
{
    for (size_t i = 0; i < o->words; i++) {
        if (a[i] & b[i] & o->both.reads[i] & o->both.writes[i]) {
            return true;
        }
    }
    return false;
}

static void add(const Orderer *o, uint64_t *to, const uint64_t *from)
{
    for (size_t i = 0; i < o->words; i++) {
        to[i] |= from[i];
    }
}

static void put_sync(Func *func, Op *before)
{
    Builder b = build_before(func, before);
    build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
}

/* Threads leave such a loop one by one: they cannot meet in it, and what it does is each element's
 * own. */
static bool has_lanes(const Op *op)
{
    return op->kind == OP_WHILE && op->regions[0]->last->operands[0]->type->rank > 0;
}

static void order_block(Orderer *o, Block *block)
{
    Touched since = touched_new(o), all = touched_new(o); /* since the last meeting; in all */
    for (Op *op = block->first; op; op = op->next) {
        Touched own = touched_by(o, op);
        if (meets(o, since.writes, own.reads) || meets(o, since.writes, own.writes) ||
            meets(o, since.reads, own.writes)) {
            put_sync(o->func, op);
            since = touched_new(o);
        }
        add(o, since.reads, own.reads);
        add(o, since.writes, own.writes);
        add(o, all.reads, own.reads);
        add(o, all.writes, own.writes);
        for (int r = 0; r < op->n_regions && !has_lanes(op); r++) {
            order_block(o, op->regions[r]);
        }
    }
    /* The next step of a loop begins with what this one has written. */
    bool loops =
        block->parent && (block->parent->kind == OP_FOR || block->parent->kind == OP_WHILE);
    if (loops && block->last &&
        (meets(o, all.writes, all.reads) || meets(o, all.writes, all.writes))) {
        put_sync(o->func, block->last);
    }
}

static void order_launch(Func *func, Op *launch)
{
    Orderer o = {.func = func, .words = func->params.n / 64 + 1};
    o.both = touched_by(&o, launch);
    bool needed = false;
    for (size_t i = 0; i < o.words; i++) {
        needed = needed || (o.both.reads[i] & o.both.writes[i]);
    }
    if (needed) {
        order_block(&o, launch->regions[0]);
    }
}

void pass_insert_barriers(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH && func->target && func->target->family != FAMILY_CPU) {
            order_launch(func, op);
        }
    }
}
