/* SPDX-License-Identifier: Apache-2.0 */
/* Gives two buffers that are used at different times the same bytes of shared memory, if not all
 * buffers fit otherwise.
 *
 *     for … {                              for … {
 *         barrier                              barrier
 *         shared_store %k[0, :, :], %x         shared_store %k[0, :, :], %x
 *         barrier                              barrier
 *         dot %q[…], %k[0, :, :]      →        dot %q[…], %k[0, :, :]
 *         barrier                              barrier
 *         shared_store %v[0, :, :], %y         shared_store %k[0, :, :], %y
 *         barrier                              barrier
 *         dot %p, %v[0, :, :]                  dot %p, %k[0, :, :]
 *     }                                    }
 *
 * Both buffers have the same type, and one block of ops fills each of them completely and then
 * reads it; the last use of the first buffer comes before the second is filled, with a barrier in
 * between. Both then are one value, so `eliminate_barriers` keeps these barriers. Buffers that
 * asynchronous copies (bulk, async) fill are left alone. */
#include "passes/layout/assign_layouts.h"

/* Where a buffer is used: by ops of one block, or by ops in their regions. */
typedef struct UseSpan {
    Op *op; /* OP_SHARED */
    Block *block;
    Op *first, *last; /* in the block */
    bool is_simple;
} UseSpan;

typedef struct UseSpans {
    Func *func;
    struct {
        UseSpan *items;
        size_t n, cap;
    } all;
} UseSpans;

static void collect_buffer(Op *op, void *user)
{
    UseSpans *spans = user;
    if (op->kind == OP_SHARED) {
        ARENA_PUSH(spans->func->arena, &spans->all, ((UseSpan){.op = op, .is_simple = true}));
    }
}

/* True if the store covers the buffer's only slot completely, whatever the layout of the value. */
static bool fills(const Op *op, const Value *buffer)
{
    Type type = buffer->type;
    if (op->kind != OP_SHARED_STORE || op->operands[0] != buffer || type->rank < 1 ||
        poly_capacity(type->dims[0]) != 1) {
        return false;
    }
    for (int axis = 1; axis < type->rank; axis++) {
        if (op->operands[1 + axis]) {
            return false;
        }
    }
    return true;
}

static bool is_awaited(const Op *op)
{
    return op->kind == OP_SHARED_STORE || op->kind == OP_SHARED_LOAD || op->kind == OP_DOT;
}

static void note_use(Op *op, void *user)
{
    UseSpans *spans = user;
    for (size_t i = 0; i < spans->all.n; i++) {
        UseSpan *span = &spans->all.items[i];
        const Value *buffer = span->op->results[0];
        if (!op_has_operand(op, buffer)) {
            continue;
        }
        if (!span->first) {
            span->block = op->parent;
            span->first = op;
            span->is_simple = span->is_simple && fills(op, buffer);
        }
        span->last = op_ancestor_in(op, span->block);
        span->is_simple = span->is_simple && is_awaited(op) && span->last;
    }
}

static bool is_sync(const Op *op)
{
    return op->kind == OP_BARRIER && !op_attr(op, ATTR_WARPGROUPS);
}

/* True if a barrier of all threads lies between `from` and `to`. */
static bool has_barrier_between(const Op *from, const Op *to)
{
    for (const Op *op = from->next; op && op != to; op = op->next) {
        if (is_sync(op)) {
            return true;
        }
    }
    return false;
}

static bool is_before(const Op *a, const Op *b)
{
    while (a && a != b) {
        a = a->next;
    }
    return a != NULL;
}

static bool begins_with_barrier(const UseSpan *span)
{
    const Op *op = span->block->first;
    return op != span->first && (is_sync(op) || has_barrier_between(op, span->first));
}

static bool same_attributes(const Op *a, const Op *b)
{
    return op_int(a, ATTR_SWIZZLE, 0) == op_int(b, ATTR_SWIZZLE, 0) &&
           op_int(a, ATTR_SKEW, 0) == op_int(b, ATTR_SKEW, 0) &&
           op_int(a, ATTR_PACKED, 0) == op_int(b, ATTR_PACKED, 0);
}

/* The block may be the body of a loop, where the first buffer is filled again after the last use of
 * the second one. */
static bool can_alias(const UseSpan *a, const UseSpan *b)
{
    bool alike =
        a->op->results[0]->type == b->op->results[0]->type && same_attributes(a->op, b->op);
    return alike && a->is_simple && b->is_simple && a->first && b->first && a->block == b->block &&
           a->last != b->first && is_before(a->last, b->first) &&
           has_barrier_between(a->last, b->first) && begins_with_barrier(a);
}

void layout_alias_buffers(LayoutPass *pass, Op *launch)
{
    UseSpans spans = {.func = pass->func};
    block_walk(launch->regions[0], collect_buffer, &spans);
    block_walk(launch->regions[0], note_use, &spans);
    for (size_t i = 0; i < spans.all.n; i++) {
        UseSpan *a = &spans.all.items[i];
        for (size_t k = 0; k < spans.all.n; k++) {
            UseSpan *b = &spans.all.items[k];
            if (a->op && b->op && i != k && can_alias(a, b)) {
                block_replace_uses(launch->regions[0], b->op->results[0], a->op->results[0]);
                op_remove(b->op);
                a->last = b->last;
                b->op = NULL;
            }
        }
    }
}
