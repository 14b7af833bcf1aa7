/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that restart at zero after each chunk of a loop (attribute `chunks`). The totals are in the
 * thread's local memory, where they occupy no registers while the loop multiplies, at the cost of
 * some loads and stores per chunk. The accesses are volatile, because LLVM would otherwise promote
 * the totals to registers. */
#include "codegen/gpu/gpu_emitters.h"

enum { WIDE = 4, WIDE_BYTES = 16, BATCH = 8 };

/* Allocates local memory in the kernel's entry block, so that it is allocated once per thread. */
static LLVMValueRef entry_alloca(GpuEmitter *em, LLVMTypeRef type, unsigned align)
{
    LLVMBasicBlockRef now = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(em->kernel);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first) {
        LLVMPositionBuilderBefore(em->builder, first);
    } else {
        LLVMPositionBuilderAtEnd(em->builder, entry);
    }
    LLVMValueRef memory = LLVMBuildAlloca(em->builder, type, "");
    LLVMSetAlignment(memory, align);
    LLVMPositionBuilderAtEnd(em->builder, now);
    return memory;
}

static int64_t least_chunk(const Attr *chunks)
{
    int64_t least = 0;
    for (int i = 0; i < chunks->n; i++) {
        bool less = chunks->ints[i] > 0 && (least == 0 || chunks->ints[i] < least);
        least = less ? chunks->ints[i] : least;
    }
    return least;
}

GpuTotals *gpu_totals_open(GpuEmitter *em, const Op *op, LLVMValueRef hi)
{
    const Attr *chunks = op_attr(op, ATTR_CHUNKS);
    int64_t every = chunks ? least_chunk(chunks) : 0;
    if (every == 0) {
        return NULL;
    }
    LLVMBuilderRef b = em->builder;
    GpuTotals *totals = ARENA_NEW(em->arena, GpuTotals);
    *totals = (GpuTotals){.em = em, .op = op};
    totals->parts = ARENA_ARRAY(em->arena, LLVMValueRef *, chunks->n);
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    totals->chunk = gpu_i64(em, every * (step > 0 ? step : 1));
    LLVMValueRef all = LLVMBuildSub(b, hi, gpu_scalar(em, for_lo(op)), "");
    totals->many = LLVMBuildICmp(b, LLVMIntSGT, all, totals->chunk, "");
    return totals;
}

bool gpu_totals_has(const GpuTotals *totals, int i)
{
    return totals && op_attr(totals->op, ATTR_CHUNKS)->ints[i] > 0;
}

/* WIDE registers in a vector, the rest of the last one zero. */
static LLVMValueRef joined(GpuEmitter *em, LLVMValueRef *regs, int n)
{
    LLVMValueRef all = LLVMConstNull(LLVMVectorType(LLVMTypeOf(regs[0]), WIDE));
    for (int i = 0; i < n; i++) {
        all = LLVMBuildInsertElement(em->builder, all, regs[i], gpu_i32(em, i), "");
    }
    return all;
}

static LLVMValueRef load_part(GpuEmitter *em, LLVMValueRef part)
{
    LLVMValueRef load = LLVMBuildLoad2(em->builder, LLVMGetAllocatedType(part), part, "");
    LLVMSetVolatile(load, 1);
    LLVMSetAlignment(load, WIDE_BYTES);
    return load;
}

static void store_part(GpuEmitter *em, LLVMValueRef value, LLVMValueRef part)
{
    LLVMValueRef store = LLVMBuildStore(em->builder, value, part);
    LLVMSetVolatile(store, 1);
    LLVMSetAlignment(store, WIDE_BYTES);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The loop is longer than a chunk: what it starts from is the total, and it starts from zero. */
void gpu_totals_begin(GpuTotals *totals, int i, LLVMValueRef *regs, int n)
{
    GpuEmitter *em = totals->em;
    LLVMBasicBlockRef keep = gpu_new_block(em, "total"), after = gpu_new_block(em, "chunks");
    totals->parts[i] = ARENA_ARRAY(em->arena, LLVMValueRef, n / WIDE + 1);
    for (int r = 0; r < n; r += WIDE) {
        LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(regs[r]), WIDE);
        totals->parts[i][r / WIDE] = entry_alloca(em, type, WIDE_BYTES);
    }
    LLVMBuildCondBr(em->builder, totals->many, keep, after);
    gpu_go(em, keep);
    for (int r = 0; r < n; r += WIDE) {
        store_part(em, joined(em, regs + r, least(WIDE, n - r)), totals->parts[i][r / WIDE]);
    }
    LLVMBuildBr(em->builder, after);
    gpu_go(em, after);
    for (int r = 0; r < n; r++) {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(regs[r]));
        regs[r] = LLVMBuildSelect(em->builder, totals->many, zero, regs[r], "");
    }
}

/* Adds the totals to regs and, if `store`, writes the sums back as the new totals. Local memory may
 * be as far away as the L2 cache, so BATCH loads are issued before the first one is used; the
 * registers of a step's operands are free for them here. */
static void add_total(GpuTotals *totals, int i, LLVMValueRef *regs, int n, bool store)
{
    GpuEmitter *em = totals->em;
    LLVMValueRef loaded[BATCH];
    for (int first = 0; first < n; first += BATCH * WIDE) {
        int end = least(n, first + BATCH * WIDE);
        for (int r = first; r < end; r += WIDE) {
            loaded[(r - first) / WIDE] = load_part(em, totals->parts[i][r / WIDE]);
        }
        for (int r = first; r < end; r++) {
            LLVMValueRef total = loaded[(r - first) / WIDE];
            total = LLVMBuildExtractElement(em->builder, total, gpu_i32(em, r % WIDE), "");
            regs[r] = LLVMBuildFAdd(em->builder, total, regs[r], "");
        }
        for (int r = first; store && r < end; r += WIDE) {
            store_part(em, joined(em, regs + r, least(WIDE, end - r)), totals->parts[i][r / WIDE]);
        }
    }
}

void gpu_totals_chunk(GpuTotals *totals, LLVMValueRef **regs, const int *n)
{
    for (int i = 0; i < op_attr(totals->op, ATTR_CHUNKS)->n; i++) {
        if (n[i]) {
            add_total(totals, i, regs[i], n[i], true);
        }
        for (int r = 0; r < n[i]; r++) {
            regs[i][r] = LLVMConstNull(LLVMTypeOf(regs[i][r]));
        }
    }
}

/* Adds the totals behind the loop, unless the loop was shorter than a chunk and has none. */
void gpu_totals_end(GpuTotals *totals, LLVMValueRef **regs, const int *n)
{
    GpuEmitter *em = totals->em;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef add = gpu_new_block(em, "add"), after = gpu_new_block(em, "added");
    LLVMBuildCondBr(em->builder, totals->many, add, after);
    gpu_go(em, add);
    int values = op_attr(totals->op, ATTR_CHUNKS)->n;
    LLVMValueRef **sums = ARENA_ARRAY(em->arena, LLVMValueRef *, values);
    for (int i = 0; i < values; i++) {
        sums[i] = arena_copy(em->arena, regs[i], sizeof(LLVMValueRef) * (size_t)(n[i] + 1));
        if (n[i]) {
            add_total(totals, i, sums[i], n[i], false);
        }
    }
    LLVMBuildBr(em->builder, after);
    gpu_go(em, after);
    for (int i = 0; i < values; i++) {
        for (int r = 0; r < n[i]; r++) {
            LLVMValueRef ways[] = {regs[i][r], sums[i][r]};
            LLVMBasicBlockRef blocks[] = {from, add};
            regs[i][r] = LLVMBuildPhi(em->builder, LLVMTypeOf(ways[0]), "");
            LLVMAddIncoming(regs[i][r], ways, blocks, 2);
        }
    }
}
