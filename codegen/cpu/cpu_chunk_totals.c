/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that restart at zero after each chunk of a loop (attribute `chunks`). Their totals are
 * separate tiles, which are updated only at the end of a chunk. */
#include "codegen/cpu/cpu_emit.h"

enum { MAX_BYTES = 1 << 19 }; /* of a total: all tiles share a stack */

struct CpuTotals {
    const Attr *chunks;
    LLVMValueRef many; /* i1: the loop is longer than a chunk */
    LLVMValueRef left; /* cell: steps until the chunk is full */
    int64_t every;
    const Buffer **totals; /* by carried value; NULL: it has none */
};

typedef enum Move { MOVE_BEGIN, MOVE_CHUNK, MOVE_END } Move;

typedef struct Pair {
    const Buffer *sum, *total;
    Move move;
} Pair;

static void move_body(CpuEmitter *c, const Point *point, void *user)
{
    const Pair *pair = user;
    LLVMValueRef sum = cpu_buffer_load(c, pair->sum, point);
    if (pair->move != MOVE_BEGIN) {
        LLVMValueRef total = cpu_buffer_load(c, pair->total, point);
        sum = LLVMBuildFAdd(c->l->builder, total, sum, "");
    }
    if (pair->move == MOVE_END) {
        cpu_buffer_store(c, pair->sum, point, sum);
        return;
    }
    cpu_buffer_store(c, pair->total, point, sum);
    cpu_buffer_store(c, pair->sum, point, LLVMConstNull(LLVMTypeOf(sum)));
}

static void move_all(CpuEmitter *c, const CpuTotals *totals, const Op *op,
                     const Buffer *const *sums, LLVMValueRef condition, Move move)
{
    Branch branch = cpu_if_begin(c, condition);
    for (int i = 0; i < op->n_results; i++) {
        if (totals->totals[i]) {
            Pair pair = {sums[i], totals->totals[i], move};
            Nest nest = cpu_nest_over(c, op->results[i]->type);
            nest.body = move_body;
            nest.user = &pair;
            cpu_nest(c, &nest);
        }
    }
    if (move == MOVE_CHUNK) {
        cpu_set(c, totals->left, llvm_i64(c->l, totals->every));
    }
    cpu_if_end(c, &branch);
}

CpuTotals *cpu_totals_begin(CpuEmitter *c, const Op *op, const Buffer *const *sums,
                            LLVMValueRef len)
{
    const Attr *chunks = op_attr(op, ATTR_CHUNKS);
    CpuTotals *totals = ARENA_NEW(c->arena, CpuTotals);
    *totals = (CpuTotals){.chunks = chunks};
    totals->totals = ARENA_ARRAY(c->arena, const Buffer *, op->n_results + 1);
    for (int i = 0; chunks && i < op->n_results; i++) {
        if (chunks->ints[i] > 0 && sums[i]->bytes <= MAX_BYTES) {
            bool less = !totals->every || chunks->ints[i] < totals->every;
            totals->every = less ? chunks->ints[i] : totals->every;
            totals->totals[i] = cpu_buffer_for(c, op->results[i]->type, cpu_end_position(c, op));
        }
    }
    if (!totals->every) {
        return NULL;
    }
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    LLVMValueRef chunk = llvm_i64(c->l, totals->every * (step > 0 ? step : 1));
    totals->many = LLVMBuildICmp(c->l->builder, LLVMIntSGT, len, chunk, "");
    totals->left = cpu_cell(c, c->l->i64);
    cpu_set(c, totals->left, llvm_i64(c->l, totals->every));
    move_all(c, totals, op, sums, totals->many, MOVE_BEGIN);
    return totals;
}

void cpu_totals_step(CpuEmitter *c, const CpuTotals *totals, const Op *op,
                     const Buffer *const *sums)
{
    if (!totals) {
        return;
    }
    LLVMValueRef left = cpu_sub(c, cpu_get(c, totals->left), llvm_i64(c->l, 1));
    cpu_set(c, totals->left, left);
    LLVMValueRef done = LLVMBuildICmp(c->l->builder, LLVMIntEQ, left, llvm_i64(c->l, 0), "");
    move_all(c, totals, op, sums, LLVMBuildAnd(c->l->builder, done, totals->many, ""), MOVE_CHUNK);
}

void cpu_totals_end(CpuEmitter *c, const CpuTotals *totals, const Op *op, const Buffer *const *sums)
{
    if (totals) {
        move_all(c, totals, op, sums, totals->many, MOVE_END);
    }
}
