/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the blocks of purely elementwise groups, such as activations and residuals. With small
 * blocks, some load while others compute and store. On an H200 a block of 4 KB of each tensor and
 * of two warps takes 3 to 19 % less time than one of 4096 elements and eight warps; with 2 KB, the
 * device starts blocks too slowly (docs/lab/memory_bound.md). */
#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/access_width.h"
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

enum {
    STREAM_BYTES = 4096,      /* of each tensor that a block reads or writes */
    STREAM_THREAD_BYTES = 64, /* the same of a thread */
    MAX_SPLIT = 4,            /* times fewer elements a thread, for the sake of more threads */
};

/* True if the index is computed from an element of memory. `seen` has the values that are not. */
static bool is_loaded(Memo *seen, const Value *index)
{
    const Op *op = index ? index->def : NULL;
    if (!op || !memo_visit(seen, index)) {
        return false;
    }
    bool found = op->kind == OP_LOAD || op->kind == OP_GATHER;
    for (int i = 0; !found && i < op->n_operands; i++) {
        found = is_loaded(seen, op->operands[i]);
    }
    return found;
}

/* Does the gather read runs of elements at computed places, as the second halves of rows are? */
static bool gathers_runs_at_once(const Op *gather)
{
    Access access = op_access(gather, 0);
    bool at_once = an_accesses_runs(gather);
    Memo *seen = memo_about(gather->results[0]);
    for (int i = 0; i < access.n && at_once; i++) {
        at_once = !is_loaded(seen, access.indices[i]);
    }
    memo_close(seen);
    return at_once;
}

/* Bytes of the widest element that is loaded or stored, if the group computes elements from
 * elements and does no more; else 0. */
static int64_t streamed_bytes(const Func *func, const Op *group)
{
    int64_t bytes = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *moved = NULL;
        if (op->kind == OP_LOAD || (op->kind == OP_GATHER && gathers_runs_at_once(op))) {
            moved = op->results[0];
        } else if (op->kind == OP_STORE) {
            moved = op->operands[op->n_operands - 1];
        }
        bool streams = moved || op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) ||
                       op->kind == OP_CONST || op->kind == OP_SIZE || op->kind == OP_IOTA;
        if (!streams) {
            return 0;
        }
        bytes = moved ? max_i64(bytes, dtype_bytes(moved->type->dtype)) : bytes;
    }
    return func->target->family == FAMILY_NVPTX && bytes >= 2 ? bytes : 0;
}

/* Elements of a thread of a block that streams: fewer, where all multiprocessors could not have
 * threads enough otherwise. */
static int64_t stream_thread(const Func *func, const TilePlan *plan, int64_t bytes)
{
    const Target *target = func->target;
    double all = 1, threads = (double)target->machine->num_sms * target->sm_threads / 2;
    for (int i = 0; i < plan->n; i++) {
        all *= (double)max_i64(1, poly_nominal(plan->items[i].dim));
    }
    int64_t thread = STREAM_THREAD_BYTES / bytes;
    while (thread > STREAM_THREAD_BYTES / bytes / MAX_SPLIT &&
           (double)thread * threads > all) {
        thread /= 2;
    }
    return thread;
}

StreamTile tile_choose_stream(const Func *func, const Op *group, const TilePlan *plan)
{
    int64_t bytes = streamed_bytes(func, group);
    return bytes ? (StreamTile){STREAM_BYTES / bytes, stream_thread(func, plan, bytes)}
                 : (StreamTile){0};
}
