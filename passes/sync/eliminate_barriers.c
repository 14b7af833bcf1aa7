/* SPDX-License-Identifier: Apache-2.0 */
/* eliminate_barriers: removes barriers that separate no conflicting accesses.
 *
 *     barrier                             barrier
 *     shared_store %a[…], %x              shared_store %a[…], %x
 *     barrier                        →    shared_store %b[…], %y
 *     shared_store %b[…], %y              barrier
 *     barrier                             dot %a[…], %b[…], %c
 *     dot %a[…], %b[…], %c
 *
 * A barrier is removed if no buffer is accessed both between the previous barrier of its block and
 * this one and between this one and the next, unless both accesses are loads. The search ends at
 * regions, at barriers of roles and at asynchronous ops. Requires layouts, whose conversions add
 * barriers. Changes no values. */
#include "ir/build.h"
#include "passes/pass.h"

enum { MAX_TOUCHED = 16 };

/* Shared buffers and tensors that a stretch of ops reads and writes. */
typedef struct Touched {
    const Value *buffers[MAX_TOUCHED];
    bool written[MAX_TOUCHED];
    int n;
    bool unknown; /* something that this pass does not look into */
} Touched;

static void touch(Touched *touched, const Value *buffer, bool written)
{
    if (touched->n == MAX_TOUCHED) {
        touched->unknown = true;
        return;
    }
    touched->buffers[touched->n] = buffer;
    touched->written[touched->n++] = written;
}

/* A warp group's own separates nothing of the others (warpgroup_epilogue.c). */
static bool is_sync(const Op *op)
{
    return op->kind == OP_BARRIER && !op_attr(op, ATTR_WARPGROUPS);
}

static bool is_plain(const Op *op)
{
    switch (op->kind) {
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE:
    case OP_DOT:
    case OP_LOAD:
    case OP_STORE: return true;
    default: return op_has(op, TRAIT_PURE) && !op_has(op, TRAIT_ACCESS);
    }
}

/* From a sync to the next one in the same direction; unknown when the block ends first. */
static Touched stretch(const Op *sync, bool forward)
{
    Touched touched = {.n = 0};
    const Op *op = forward ? sync->next : sync->prev;
    while (op && !is_sync(op) && !touched.unknown) {
        touched.unknown |= !is_plain(op);
        for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
            const Value *memory = op->operands[at];
            if (memory &&
                (memory->type->kind == TYPE_SHARED || memory->type->kind == TYPE_TENSOR)) {
                touch(&touched, memory, op->kind == OP_SHARED_STORE || op->kind == OP_STORE);
            }
        }
        op = forward ? op->next : op->prev;
    }
    touched.unknown |= !op;
    return touched;
}

static bool conflict(const Touched *a, const Touched *b)
{
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            if (a->buffers[i] == b->buffers[j] && (a->written[i] || b->written[j])) {
                return true;
            }
        }
    }
    return a->unknown || b->unknown;
}

static void consider(Op *op, void *user)
{
    (void)user;
    if (!is_sync(op)) {
        return;
    }
    Touched before = stretch(op, false), after = stretch(op, true);
    if (!conflict(&before, &after)) {
        op_remove(op);
    }
}

void pass_eliminate_barriers(Func *func)
{
    func_walk(func, consider, NULL);
}
