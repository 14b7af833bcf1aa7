/* SPDX-License-Identifier: Apache-2.0 */
/* Emits a chain of elementwise ops over one layout for a few registers at a time, instead of op by
 * op for the whole tile. Intermediate values are then live only for these registers. The assembler
 * keeps most of the order that it is given, so a long epilogue emitted op by op would not fit the
 * register file. */
#include <string.h>

#include "codegen/gpu/gpu_emitters.h"

static bool can_join(GpuEmitter *em, const Op *op, const Layout *layout)
{
    if (op->kind == OP_INDEX || op->kind == OP_LOAD) {
        return op->results[0]->type->layout == layout &&
               (op->kind == OP_INDEX || gpu_load_joins(em, op));
    }
    if (!op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_REMAT) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        Type type = op->operands[i]->type;
        if (type->rank > 0 && type->layout != layout) {
            return false;
        }
    }
    return op->results[0]->type->rank > 0 && op->results[0]->type->layout == layout;
}

/* Ops that cost nothing where they stand, and read nothing that the run makes. */
static bool can_precede(const Op *op, const Op *first)
{
    if (op->kind == OP_CONST) {
        return true;
    }
    if (op->kind != OP_BROADCAST && op->kind != OP_EXPAND) {
        return false;
    }
    for (const Op *in = first; in != op; in = in->next) {
        if (op->operands[0]->def == in) {
            return false;
        }
    }
    return true;
}

typedef struct Run {
    Op **items;
    size_t n, cap;
    GpuLoad **loads;       /* of those that are loads; else NULL */
    int n_loads;
} Run;

static void emit_group(GpuEmitter *em, const Op *op, int from, int n, GpuDivide how,
                       LLVMValueRef *good)
{
    llvm_line(em->l, op->span);
    if (gpu_is_division(op)) {
        bool shorter = how == DIVIDE_CHECKED && gpu_is_rounded(op);
        gpu_emit_quotients(em, op, from, n, shorter ? DIVIDE_ROUNDED : how, good);
        return;
    }
    if (op->kind == OP_INDEX) {
        gpu_emit_indices(em, op, from, n);
        return;
    }
    for (int r = from; r < from + n; r++) {
        if (r + 1 < from + n && gpu_emit_narrowed(em, op, r)) {
            r++;
        } else {
            gpu_emit_register(em, op, r);
        }
    }
}

/* A reduction or a store of what the run ends with takes each group as it comes. */
typedef struct Taker {
    GpuReduce *reduce;
    GpuStore *store;
} Taker;

static bool goes_to(const Op *last, OpKind kind)
{
    const Op *next = last->next;
    int at = next && kind == OP_STORE ? next->n_operands - 1 : 0;
    return next && next->kind == kind && next->operands[at] == last->results[0];
}

static Taker begin_taker(GpuEmitter *em, const Op *last)
{
    return (Taker){goes_to(last, OP_REDUCE) ? gpu_reduce_begin(em, last->next) : NULL,
                   goes_to(last, OP_STORE) ? gpu_store_begin(em, last->next) : NULL};
}

/* ---- a division at the head ---- */

static bool is_made_by(const Run *run, const Value *value)
{
    for (size_t i = 0; i < run->n; i++) {
        if (run->items[i]->results[0] == value) {
            return true;
        }
    }
    return false;
}

/* The only division of the run, if nothing of the run comes before it. */
static const Op *head_division(const Run *run)
{
    const Op *found = NULL;
    for (size_t i = 0; i < run->n; i++) {
        const Op *op = run->items[i];
        if (gpu_is_division(op)) {
            bool first = !is_made_by(run, op->operands[0]) && !is_made_by(run, op->operands[1]);
            if (found || !first) {
                return NULL;
            }
            found = op;
        }
    }
    return found;
}

static bool any_reads(const Op *from, const Run *run);

static bool op_reads(const Op *op, const Run *run)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && is_made_by(run, op->operands[i])) {
            return true;
        }
    }
    for (int i = 0; i < op->n_regions; i++) {
        if (any_reads(op->regions[i]->first, run)) {
            return true;
        }
    }
    return false;
}

static bool any_reads(const Op *from, const Run *run)
{
    for (const Op *op = from; op; op = op->next) {
        if (op_reads(op, run)) {
            return true;
        }
    }
    return false;
}

/* ---- the chain ---- */

static bool has_division(const Run *run)
{
    for (size_t i = 0; i < run->n; i++) {
        if (gpu_is_division(run->items[i])) {
            return true;
        }
    }
    return false;
}

static void emit_groups(GpuEmitter *em, const Run *run, const Taker *taker, GpuDivide how,
                        LLVMValueRef *good)
{
    int n = gpu_registers(em, run->items[0]->results[0]->type);
    /* Where registers are short, divisions with branches come a few at a time, since they hold more
     * values than the short way. */
    bool branches = how != DIVIDE_MODERATE && how != DIVIDE_UNCHECKED;
    bool few =
        branches && (n > GPU_MAX_TILE_REGISTERS || how == DIVIDE_REPEATED) && has_division(run);
    int most = GPU_GROUP;
    if (few) {
        most = how == DIVIDE_ANY ? 1 : GPU_GROUP / 2;
    }
    for (int from = 0; from < n; from += most) {
        int group = n - from < most ? n - from : most;
        for (size_t i = 0; i < run->n; i++) {
            if (run->loads && run->loads[i]) {
                gpu_load_take(run->loads[i], from, group);
            } else {
                emit_group(em, run->items[i], from, group, how, good);
            }
        }
        if (taker->reduce) {
            gpu_reduce_take(taker->reduce, from, group);
        } else if (taker->store) {
            gpu_store_take(taker->store, from, group);
        }
    }
}

/* There is a division, and all of them are only rounded. */
static bool all_rounded(const Run *run)
{
    bool some = false;
    for (size_t i = 0; i < run->n; i++) {
        const Op *op = run->items[i];
        if (gpu_is_division(op) && !gpu_is_rounded(op)) {
            return false;
        }
        some = some || gpu_is_division(op);
    }
    return some;
}

/* True for all threads of a warp if it is for each. A way to memory begins with accesses, for which
 * lanes read what is the same in all of them from one lane: the warp must not be divided. */
static LLVMValueRef for_warp(GpuEmitter *em, LLVMValueRef good)
{
    LLVMValueRef bad = em->target->ballot(em, LLVMBuildNot(em->builder, good, ""));
    return LLVMBuildICmp(em->builder, LLVMIntEQ, bad, LLVMConstNull(LLVMTypeOf(bad)), "");
}

/* Quotients that are only rounded are all stored as they come nearly, without a branch; a warp with
 * one that is not near enough divides and stores once more. On an H200 64 elements a thread gain by
 * it (softmax of 4096: 0.85 of the copy rate, then 0.92), 32 lose (1024: 0.91, then 0.88): there
 * the branches are few, and both ways do not fit 64 registers. LLVM's own allocator, on AMD, holds
 * both ways of many elements at once. */
static void emit_unchecked(GpuEmitter *em, const Run *run, const Op *last)
{
    LLVMValueRef good = NULL;
    Taker taker = begin_taker(em, last);
    emit_groups(em, run, &taker, DIVIDE_UNCHECKED, &good);
    if (!good) {
        return;
    }
    LLVMBasicBlockRef repeated = gpu_new_block(em, "again"), done = gpu_new_block(em, "stored");
    LLVMBuildCondBr(em->builder, for_warp(em, good), done, repeated);
    gpu_go(em, repeated);
    taker = begin_taker(em, last);
    emit_groups(em, run, &taker, DIVIDE_REPEATED, NULL);
    LLVMBuildBr(em->builder, done);
    gpu_go(em, done);
}

/* All dividends are looked at first where the run goes to memory and is used nowhere else: there
 * are three ways to the same stores, and the usual one has no branches and holds no dividend that
 * it has divided. Each has addresses of its own: they are not held meanwhile. */
static bool emit_ways(GpuEmitter *em, const Run *run, const Op *last)
{
    const Op *division = head_division(run);
    LLVMValueRef good;
    if (!division || gpu_is_rounded(division)) {
        return false;
    }
    LLVMValueRef *used = gpu_store_used(gpu_store_begin(em, last->next));
    if (!gpu_quotients_check(em, division, DIVIDE_MODERATE, used, &good)) {
        return false;
    }
    LLVMBasicBlockRef usual = gpu_new_block(em, "moderate"), zeros = gpu_new_block(em, "zeros");
    LLVMBasicBlockRef others = gpu_new_block(em, "others"), done = gpu_new_block(em, "stored");
    LLVMBuildCondBr(em->builder, for_warp(em, good), usual, others);
    gpu_go(em, others);
    gpu_quotients_check(em, division, DIVIDE_ZEROS, NULL, &good);
    LLVMBasicBlockRef ways[] = {usual, zeros, gpu_new_block(em, "any")};
    LLVMBuildCondBr(em->builder, for_warp(em, good), zeros, ways[2]);
    static const GpuDivide hows[] = {DIVIDE_MODERATE, DIVIDE_ZEROS, DIVIDE_ANY};
    for (int i = 0; i < 3; i++) {
        gpu_go(em, ways[i]);
        Taker taker = begin_taker(em, last);
        emit_groups(em, run, &taker, hows[i], NULL);
        LLVMBuildBr(em->builder, done);
    }
    gpu_go(em, done);
    return true;
}

/* ---- a division whose quotients stay at hand ---- */

static LLVMBasicBlockRef emit_way(GpuEmitter *em, const Op *division, GpuDivide how, int most,
                                  LLVMValueRef *quotient)
{
    GpuValue *out = gpu_value(em, division->results[0]);
    for (int from = 0; from < out->n; from += most) {
        int n = out->n - from < most ? out->n - from : most;
        gpu_emit_quotients(em, division, from, n, how, NULL);
    }
    memcpy(quotient, out->regs, (size_t)out->n * sizeof *quotient);
    return LLVMGetInsertBlock(em->builder);
}

/* All dividends are looked at first, and divided without a branch if they are moderate; what is
 * seldom run stands out of the way. (An attention's tile on its way to shared memory: in groups
 * with a branch each, fetching instructions took a tenth of its time where there are few keys. Near
 * quotients do not pay here: of eight warps that wait for each other one nearly always has to
 * divide again.) */
static const Op *emit_head(GpuEmitter *em, const Run *run)
{
    LLVMBuilderRef b = em->builder;
    const Op *division = head_division(run);
    int n = division ? gpu_registers(em, division->results[0]->type) : 0;
    LLVMValueRef good;
    if (n <= GPU_GROUP || n > 2 * GPU_MAX_TILE_REGISTERS ||
        !gpu_quotients_check(em, division, DIVIDE_MODERATE, NULL, &good)) {
        return NULL;
    }
    LLVMBasicBlockRef usual = gpu_new_block(em, "moderate"), others = gpu_new_block(em, "others");
    LLVMBasicBlockRef done = gpu_new_block(em, "divided"), ways[2];
    LLVMValueRef *quotients[] = {ARENA_ARRAY(em->arena, LLVMValueRef, n),
                                 ARENA_ARRAY(em->arena, LLVMValueRef, n)};
    LLVMBuildCondBr(b, good, usual, others);
    gpu_go(em, usual);
    ways[0] = emit_way(em, division, DIVIDE_MODERATE, n, quotients[0]);
    LLVMBuildBr(b, done);
    gpu_go(em, others);
    GpuDivide how = gpu_is_rounded(division) ? DIVIDE_REPEATED : DIVIDE_CHECKED;
    ways[1] = emit_way(em, division, how, GPU_GROUP / 2, quotients[1]);
    LLVMBuildBr(b, done);
    gpu_go(em, done);
    LLVMValueRef *out = gpu_value(em, division->results[0])->regs;
    for (int r = 0; r < n; r++) {
        if (out[r]) {
            LLVMValueRef both[] = {quotients[0][r], quotients[1][r]};
            out[r] = LLVMBuildPhi(b, em->f32, "");
            LLVMAddIncoming(out[r], both, ways, 2);
        }
    }
    return division;
}

static void drop(Run *run, const Op *op)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->n; i++) {
        if (run->items[i] != op) {
            run->items[kept++] = run->items[i];
        }
    }
    run->n = kept;
}

/* ---- loads ---- */

/* In addition to loads of the run: what is made of no element of it may come before them. */
static bool can_come_first(const Run *run, const Op *op)
{
    bool pure = op->kind == OP_LOAD || op->kind == OP_BROADCAST || op->kind == OP_EXPAND ||
                op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands; i++) {
        pure = pure && !(op->operands[i] && is_made_by(run, op->operands[i]));
    }
    return pure && run->n_loads > 0 && op->n_results == 1;
}

/* Where a run divides in groups of its own, loads come before it. */
static void begin_loads(GpuEmitter *em, Run *run)
{
    bool whole = has_division(run);
    Run loads = *run;
    loads.items = arena_copy(em->arena, run->items, run->n * sizeof *run->items);
    for (size_t i = 0; i < loads.n && whole; i++) {
        if (loads.items[i]->kind == OP_LOAD) {
            gpu_emit_op(em, loads.items[i]);
            drop(run, loads.items[i]);
            run->n_loads--;
        }
    }
    run->loads = ARENA_ARRAY(em->arena, GpuLoad *, run->n);
    for (size_t i = 0; i < run->n; i++) {
        bool is_load = run->items[i]->kind == OP_LOAD;
        run->loads[i] = is_load ? gpu_load_begin(em, run->items[i], run->n_loads) : NULL;
    }
}

Op *gpu_emit_chain(GpuEmitter *em, Op *first)
{
    Run run = {0};
    const Layout *layout = first->results[0]->type->layout;
    Op *last = first;
    for (Op *op = first; op; op = op->next) {
        if (can_join(em, op, layout)) {
            ARENA_PUSH(em->arena, &run, op);
            gpu_define(em, op->results[0]);
            run.n_loads += op->kind == OP_LOAD;
        } else if (can_precede(op, first) || can_come_first(&run, op)) {
            gpu_emit_op(em, op);
        } else {
            break;
        }
        last = op;
    }
    if (run.n_loads > 0) {
        begin_loads(em, &run);
    }
    bool stores = goes_to(last, OP_STORE) && !any_reads(last->next->next, &run);
    bool many = gpu_registers(em, first->results[0]->type) > GPU_MAX_TILE_REGISTERS;
    if (stores && all_rounded(&run) && many == (em->target->opaque != NULL)) {
        emit_unchecked(em, &run, last);
        return last->next;
    }
    if (stores && emit_ways(em, &run, last)) {
        return last->next;
    }
    if (!stores) {
        drop(&run, emit_head(em, &run));
    }
    Taker taker = begin_taker(em, last);
    emit_groups(em, &run, &taker, DIVIDE_CHECKED, NULL);
    if (taker.reduce) {
        gpu_reduce_end(taker.reduce);
    }
    return taker.reduce || taker.store ? last->next : last;
}

bool gpu_starts_chain(GpuEmitter *em, const Op *op)
{
    const Layout *layout = op->n_results == 1 ? op->results[0]->type->layout : NULL;
    return layout && can_join(em, op, layout) && op->next &&
           (op_has(op->next, TRAIT_PURE) || op->next->kind == OP_STORE);
}
