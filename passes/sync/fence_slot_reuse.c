/* SPDX-License-Identifier: Apache-2.0 */
/* fence_slot_reuse: orders a thread's accesses to a slot before the bulk load that refills it.
 *
 *     wait %full[%p]                               wait %full[%p]
 *     %n = dot %a[%p, …], %b[%p, …], %acc          %n = dot %a[%p, …], %b[%p, …], %acc
 *                                           →      fence_async
 *     arrive %empty[%p]                            arrive %empty[%p]
 *
 * Loads and stores of threads use the generic proxy, bulk copies the asynchronous one, and an
 * arrival at a barrier orders accesses of one proxy only (PTX ISA, "Proxies"). ptxas does not wait
 * for loads that it has issued before an arrival. Where other warps fill the load-store unit with
 * stores, such a load takes longer than the next bulk load, and then reads the elements of a later
 * step. wgmma reads operands through the asynchronous proxy, and its wait orders them.
 *
 * Requires layouts, which say which buffers occupy the same bytes, and the final barriers. Changes
 * no values. */
#include "ir/build.h"
#include "passes/pass.h"

#include <string.h>

typedef struct Launch {
    Func *func;
    struct {
        const Value **items;
        size_t n, cap;
    } refilled; /* buffers that bulk loads write */
} Launch;

static void find_refilled(Op *op, void *user)
{
    Launch *launch = user;
    if (op->kind == OP_BULK_LOAD) {
        ARENA_PUSH(launch->func->arena, &launch->refilled, op_access_nth(op, 1).memory);
    }
}

static int64_t buffer_bytes(const Value *buffer)
{
    int64_t elements = 1;
    for (int i = 0; i < buffer->type->rank; i++) {
        elements *= poly_capacity(buffer->type->dims[i]);
    }
    return op_int(buffer->def, ATTR_PACKED, 0) ? elements / 2
                                               : elements * dtype_bytes(buffer->type->dtype);
}

/* True if both buffers are one, or occupy common bytes. */
static bool share_bytes(const Value *a, const Value *b)
{
    int64_t begin_a = op_int(a->def, ATTR_OFFSET, -1), begin_b = op_int(b->def, ATTR_OFFSET, -1);
    return a == b || begin_a < 0 || begin_b < 0 ||
           (begin_a < begin_b + buffer_bytes(b) && begin_b < begin_a + buffer_bytes(a));
}

/* True if the threads themselves access a buffer that a bulk load refills. */
static bool uses_refilled(const Launch *launch, const Op *op)
{
    const Attr *instruction = op_attr(op, ATTR_INSTRUCTION);
    bool asynchronous = op->kind == OP_BULK_LOAD || op->kind == OP_BULK_STORE ||
                        op->kind == OP_DOT_ASYNC ||
                        (instruction && strncmp(instruction->word, "wgmma", 5) == 0);
    for (int at = 0; at < op->n_operands && !asynchronous; at = access_next(op, at)) {
        const Value *memory = op->operands[at];
        for (size_t i = 0; memory->type->kind == TYPE_SHARED && i < launch->refilled.n; i++) {
            if (share_bytes(memory, launch->refilled.items[i])) {
                return true;
            }
        }
    }
    return false;
}

typedef struct Search {
    const Launch *launch;
    bool found;
} Search;

static void search_use(Op *op, void *user)
{
    Search *search = user;
    search->found = search->found || uses_refilled(search->launch, op);
}

static bool block_uses_refilled(const Launch *launch, Block *block)
{
    Search search = {launch, false};
    block_walk(block, search_use, &search);
    return search.found;
}

/* `pending`: threads have accessed a refilled buffer since their last fence. Returns whether they
 * have at the end of the block. A loop begins as its previous iteration ended; what it accesses
 * anywhere counts as pending, which costs at most a fence too many. */
static bool fence_block(Launch *launch, Block *block, bool pending)
{
    for (Op *op = block->first; op; op = op->next) {
        if ((op->kind == OP_ARRIVE || op->kind == OP_BARRIER) && pending) {
            Builder b = build_before(launch->func, op);
            build_bare(&b, OP_FENCE_ASYNC);
            pending = false;
        }
        bool begin = op->kind == OP_ROLES ? false : pending;
        for (int r = 0; r < op->n_regions; r++) {
            bool loop = op->kind == OP_FOR || op->kind == OP_WHILE || op->kind == OP_TILE_LOOP;
            bool carried = loop && block_uses_refilled(launch, op->regions[r]);
            pending = fence_block(launch, op->regions[r], begin || carried) || pending;
        }
        pending = pending || (op->n_regions == 0 && uses_refilled(launch, op));
    }
    return pending;
}

void pass_fence_slot_reuse(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            Launch launch = {.func = func};
            block_walk(op->regions[0], find_refilled, &launch);
            if (launch.refilled.n > 0) {
                fence_block(&launch, op->regions[0], false);
            }
        }
    }
}
