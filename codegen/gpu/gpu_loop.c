/* SPDX-License-Identifier: Apache-2.0 */
/* Counted loops. A loop has one phi per register that is computed: replicas, and registers outside
 * of their tile, have none. */
#include "codegen/gpu/gpu_loop.h"

/* ---- registers of carried values ---- */

GpuValue gpu_as_type(GpuEmitter *em, const Op *op, const Value *value, Type type)
{
    GpuValue out = {.n = gpu_registers(em, type)};
    out.regs = ARENA_ARRAY(em->arena, LLVMValueRef, out.n);
    if (type_is_tile(value->type)) {
        gpu_renamed(em, op, value->type, gpu_value(em, value), type, &out);
    } else {
        out.regs[0] = gpu_scalar(em, value);
    }
    return out;
}

bool gpu_is_computed(const Value *arg, int r)
{
    return !type_is_tile(arg->type) || gpu_canonical(arg->type->layout, r) == r;
}

void gpu_define_replicas(const Value *value, GpuValue *out)
{
    for (int r = 0; type_is_tile(value->type) && r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(value->type->layout, r)];
    }
}

/* ---- sums that begin at zero again in each chunk ---- */

/* The registers of argument i that have phis, one behind the other: none where it has no total. */
static int summed(const Carried *c, int i, const GpuValue *from, LLVMValueRef *to)
{
    int n = 0;
    for (int r = 0; gpu_totals_has(c->totals, i) && r < from->n; r++) {
        if (from->regs[r] && gpu_is_computed(c->args[i], r)) {
            to[n++] = from->regs[r];
        }
    }
    return n;
}

static void put_summed(const Carried *c, int i, const LLVMValueRef *from, GpuValue *to)
{
    int n = 0;
    for (int r = 0; gpu_totals_has(c->totals, i) && r < to->n; r++) {
        if (to->regs[r] && gpu_is_computed(c->args[i], r)) {
            to->regs[r] = from[n++];
        }
    }
}

/* What the sums among the values become, behind a chunk or behind the loop. */
static void add_totals(Carried *c, GpuValue *values, bool chunk)
{
    if (!c->totals) {
        return;
    }
    LLVMValueRef **regs = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n);
    int *n = ARENA_ARRAY(c->em->arena, int, c->n);
    for (int i = 0; i < c->n; i++) {
        regs[i] = ARENA_ARRAY(c->em->arena, LLVMValueRef, values[i].n + 1);
        n[i] = summed(c, i, &values[i], regs[i]);
    }
    if (chunk) {
        gpu_totals_chunk(c->totals, regs, n);
    } else {
        gpu_totals_end(c->totals, regs, n);
    }
    for (int i = 0; i < c->n; i++) {
        put_summed(c, i, regs[i], &values[i]);
    }
}

/* What the arguments start from; before the loop. */
static GpuValue *starts(Carried *c, Value *const *inits)
{
    GpuEmitter *em = c->em;
    GpuValue *values = ARENA_ARRAY(em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        values[i] = gpu_as_type(em, c->op, inits[i], c->args[i]->type);
        LLVMValueRef *regs = ARENA_ARRAY(em->arena, LLVMValueRef, values[i].n + 1);
        int n = summed(c, i, &values[i], regs);
        if (n) {
            gpu_totals_begin(c->totals, i, regs, n);
            put_summed(c, i, regs, &values[i]);
        }
    }
    return values;
}

/* ---- phis ---- */

/* Phis for the registers of argument i that start from these, which become the phis. */
static LLVMValueRef *phis_of(Carried *c, int i, GpuValue *inits)
{
    LLVMValueRef *phis = ARENA_ARRAY(c->em->arena, LLVMValueRef, inits->n);
    for (int r = 0; r < inits->n; r++) {
        if (inits->regs[r] && gpu_is_computed(c->args[i], r)) {
            phis[r] = LLVMBuildPhi(c->em->builder, LLVMTypeOf(inits->regs[r]), "");
            LLVMAddIncoming(phis[r], &inits->regs[r], &c->from, 1);
            inits->regs[r] = phis[r];
        }
    }
    return phis;
}

static void feed_phis(Carried *c, LLVMValueRef **phis, const GpuValue *values)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(c->em->builder);
    for (int i = 0; i < c->n; i++) {
        for (int r = 0; r < values[i].n; r++) {
            if (phis[i][r]) {
                LLVMAddIncoming(phis[i][r], &values[i].regs[r], &from, 1);
            }
        }
    }
}

/* The arguments as they are behind the last round, whose registers may be changed. */
static GpuValue *last_values(Carried *c)
{
    GpuValue *values = ARENA_ARRAY(c->em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        values[i] = *gpu_value(c->em, c->args[i]);
    }
    return values;
}

/* ---- loops ---- */

/* Opens the loop over chunks and returns the index at which the current chunk ends. */
static LLVMValueRef open_chunk(GpuEmitter *em, CountedLoop *loop, LLVMValueRef lo, GpuValue *inits)
{
    Carried *c = &loop->carried;
    loop->outer = gpu_new_block(em, "chunk");
    LLVMBuildBr(em->builder, loop->outer);
    gpu_go(em, loop->outer);
    loop->chunk = LLVMBuildPhi(em->builder, LLVMTypeOf(lo), "");
    LLVMAddIncoming(loop->chunk, &lo, &c->from, 1);
    c->chunks = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        c->chunks[i] = phis_of(c, i, &inits[i]);
    }
    c->from = loop->outer;
    LLVMValueRef end = LLVMBuildNSWAdd(em->builder, loop->chunk, c->totals->chunk, "");
    return llvm_call2(em->l, "llvm.smin", end, loop->hi);
}

CountedLoop gpu_open_loop(GpuEmitter *em, const Op *op, LLVMValueRef lo, LLVMValueRef hi,
                          int first_init, int first_arg)
{
    CountedLoop loop = {.header = gpu_new_block(em, "loop"), .after = NULL};
    LLVMBasicBlockRef body = gpu_new_block(em, "body");
    loop.after = gpu_new_block(em, "end");
    loop.hi = llvm_bound(em->l, hi);
    loop.carried = (Carried){.em = em,
                             .op = op,
                             .n = op->n_results,
                             .args = op->regions[0]->args + first_arg,
                             .results = op->results,
                             .totals = gpu_totals_open(em, op, loop.hi)};
    GpuValue *inits = starts(&loop.carried, op->operands + first_init);
    loop.carried.from = LLVMGetInsertBlock(em->builder);
    LLVMValueRef end = loop.carried.totals ? open_chunk(em, &loop, lo, inits) : loop.hi;
    lo = loop.carried.totals ? loop.chunk : lo;
    LLVMBuildBr(em->builder, loop.header);
    gpu_go(em, loop.header);
    loop.i = LLVMBuildPhi(em->builder, LLVMTypeOf(lo), "i");
    LLVMAddIncoming(loop.i, &lo, &loop.carried.from, 1);
    /* A phi for each register of each argument. */
    Carried *c = &loop.carried;
    c->phis = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        GpuValue *out = gpu_define(c->em, c->args[i]);
        c->phis[i] = phis_of(c, i, &inits[i]);
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = c->phis[i][r] ? c->phis[i][r] : out->regs[r];
        }
        gpu_define_replicas(c->args[i], out);
    }
    LLVMValueRef more = LLVMBuildICmp(em->builder, LLVMIntSLT, loop.i, end, "");
    LLVMBuildCondBr(em->builder, more, body, loop.after);
    gpu_go(em, body);
    return loop;
}

void gpu_close_loop(GpuEmitter *em, CountedLoop *loop, LLVMValueRef step)
{
    /* The end of the body feeds the next iteration. */
    Carried *c = &loop->carried;
    const Op *yield = c->op->regions[0]->last;
    GpuValue *values = ARENA_ARRAY(em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        values[i] = gpu_as_type(em, yield, yield->operands[i], c->args[i]->type);
    }
    feed_phis(c, c->phis, values);
    LLVMValueRef next = LLVMBuildNSWAdd(em->builder, loop->i, step, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(em->builder);
    LLVMAddIncoming(loop->i, &next, &latch, 1);
    LLVMBuildBr(em->builder, loop->header);
    gpu_go(em, loop->after);

    /* The end of a chunk: its sums are added to the totals, and the next chunk follows if one is
     * left. */
    if (c->totals) {
        LLVMBasicBlockRef more_chunks = gpu_new_block(em, "next_chunk");
        LLVMBasicBlockRef last_chunk = gpu_new_block(em, "last_chunk");
        LLVMValueRef more = LLVMBuildICmp(em->builder, LLVMIntSLT, loop->i, loop->hi, "");
        LLVMBuildCondBr(em->builder, more, more_chunks, last_chunk);
        gpu_go(em, more_chunks);
        values = last_values(c);
        for (int i = 0; i < c->n; i++) {
            values[i].regs =
                arena_copy(em->arena, values[i].regs, sizeof(LLVMValueRef) * (size_t)values[i].n);
        }
        add_totals(c, values, true);
        LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
        LLVMAddIncoming(loop->chunk, &loop->i, &from, 1);
        feed_phis(c, c->chunks, values);
        LLVMBuildBr(em->builder, loop->outer);
        gpu_go(em, last_chunk);
    }

    /* After the loop, the results are the values of the phis plus the totals of earlier chunks. */
    GpuValue *results = last_values(c); /* nothing behind the loop reads the arguments */
    add_totals(c, results, false);
    for (int i = 0; i < c->n; i++) {
        if (gpu_totals_has(c->totals, i)) {
            gpu_define_replicas(c->args[i], &results[i]);
        }
        GpuValue last = gpu_as_type(c->em, c->op, c->args[i], c->results[i]->type);
        GpuValue *out = gpu_define(c->em, c->results[i]);
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = last.regs[r];
        }
    }
}

void gpu_define_step(GpuEmitter *em, const Value *arg, LLVMValueRef first, int64_t step,
                     LLVMValueRef end)
{
    if (step == 0) {
        gpu_define_scalar(em, arg, first);
        return;
    }
    LLVMValueRef past = LLVMBuildNSWAdd(em->builder, first, gpu_i64(em, step), "");
    gpu_define_range(em, arg, first, gpu_min(em, past, end));
}
