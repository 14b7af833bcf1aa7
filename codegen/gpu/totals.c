/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that begin at zero again (attribute `chunks` of a loop). The totals lie in the thread's own
 * memory, where they hold no registers while the loop multiplies: some loads and stores a chunk.
 * Accesses are volatile, or LLVM would make them registers. */
#include "codegen/gpu/tiles.h"

enum { WIDE = 4, WIDE_BYTES = 16 };

/* Stands in the kernel's entry block: memory of a frame that is there once. */
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
    *totals = (GpuTotals){.em = em, .op = op, .every = every};
    totals->parts = ARENA_ARRAY(em->arena, LLVMValueRef *, chunks->n);
    totals->left = entry_alloca(em, em->i32, 4);
    LLVMBuildStore(b, gpu_i32(em, every), totals->left);
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    LLVMValueRef chunk = gpu_i64(em, every * (step > 0 ? step : 1));
    LLVMValueRef all = LLVMBuildSub(b, hi, gpu_scalar(em, for_lo(op)), "");
    totals->many = LLVMBuildICmp(b, LLVMIntSGT, all, chunk, "");
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

/* regs += the total; `store`: the total becomes that. */
static void add_total(GpuTotals *totals, int i, LLVMValueRef *regs, int n, bool store)
{
    GpuEmitter *em = totals->em;
    for (int r = 0; r < n; r += WIDE) {
        int wide = least(WIDE, n - r);
        LLVMValueRef total = load_part(em, totals->parts[i][r / WIDE]);
        for (int k = 0; k < wide; k++) {
            LLVMValueRef one = LLVMBuildExtractElement(em->builder, total, gpu_i32(em, k), "");
            regs[r + k] = LLVMBuildFAdd(em->builder, one, regs[r + k], "");
        }
        if (store) {
            store_part(em, joined(em, regs + r, wide), totals->parts[i][r / WIDE]);
        }
    }
}

/* A branch around what `add_total` does to n values of each carried sum. They are then the sums or,
 * behind a chunk, zeros. */
static void add_if(GpuTotals *totals, LLVMValueRef condition, LLVMValueRef **regs, const int *n,
                   bool chunk)
{
    GpuEmitter *em = totals->em;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef add = gpu_new_block(em, "add"), after = gpu_new_block(em, "added");
    LLVMBuildCondBr(em->builder, condition, add, after);
    gpu_go(em, add);
    int values = op_attr(totals->op, ATTR_CHUNKS)->n;
    LLVMValueRef **sums = ARENA_ARRAY(em->arena, LLVMValueRef *, values);
    for (int i = 0; i < values; i++) {
        sums[i] = ARENA_ARRAY(em->arena, LLVMValueRef, n[i] + 1);
        for (int r = 0; r < n[i]; r++) {
            sums[i][r] = regs[i][r];
        }
        if (n[i]) {
            add_total(totals, i, sums[i], n[i], chunk);
        }
    }
    if (chunk) {
        LLVMBuildStore(em->builder, gpu_i32(em, totals->every), totals->left);
    }
    LLVMBuildBr(em->builder, after);
    gpu_go(em, after);
    for (int i = 0; i < values; i++) {
        for (int r = 0; r < n[i]; r++) {
            LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(regs[i][r]));
            LLVMValueRef ways[] = {regs[i][r], chunk ? zero : sums[i][r]};
            LLVMBasicBlockRef blocks[] = {from, add};
            regs[i][r] = LLVMBuildPhi(em->builder, LLVMTypeOf(zero), "");
            LLVMAddIncoming(regs[i][r], ways, blocks, 2);
        }
    }
}

void gpu_totals_step(GpuTotals *totals, LLVMValueRef more, LLVMValueRef **regs, const int *n)
{
    GpuEmitter *em = totals->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef left = LLVMBuildLoad2(b, em->i32, totals->left, "");
    left = LLVMBuildSub(b, left, gpu_i32(em, 1), "");
    LLVMBuildStore(b, left, totals->left);
    LLVMValueRef done = LLVMBuildICmp(b, LLVMIntEQ, left, gpu_i32(em, 0), "");
    add_if(totals, LLVMBuildAnd(b, done, more, ""), regs, n, true);
}

void gpu_totals_end(GpuTotals *totals, LLVMValueRef **regs, const int *n)
{
    add_if(totals, totals->many, regs, n, false);
}
