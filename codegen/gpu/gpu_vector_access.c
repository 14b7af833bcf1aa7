/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of loads and stores: contiguous runs of registers that one access covers, vectors,
 * bytes for bools, a branch around a conditional access, and guarded accesses. */
#include "codegen/gpu/gpu_emitters.h"

#include <string.h>

LLVMValueRef gpu_to_memory(GpuEmitter *em, DType dtype, LLVMValueRef value)
{
    if (dtype != DT_BOOL && !dtype_is_packed(dtype)) {
        return value;
    }
    LLVMTypeRef type = llvm_like(llvm_memory_type(em->l, dtype), LLVMTypeOf(value));
    return LLVMBuildZExt(em->builder, value, type, "");
}

LLVMValueRef gpu_from_memory(GpuEmitter *em, DType dtype, LLVMValueRef value)
{
    if (dtype_is_packed(dtype)) {
        LLVMTypeRef type = llvm_like(llvm_type(em->l, dtype), LLVMTypeOf(value));
        return LLVMBuildTrunc(em->builder, value, type, "");
    }
    if (dtype != DT_BOOL) {
        return value;
    }
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(value));
    return LLVMBuildICmp(em->builder, LLVMIntNE, value, zero, "");
}

LLVMValueRef gpu_pack(GpuEmitter *em, int n, const LLVMValueRef *regs)
{
    if (n == 1) {
        return regs[0];
    }
    LLVMValueRef vector = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(regs[0]), (unsigned)n));
    for (int i = 0; i < n; i++) {
        vector = LLVMBuildInsertElement(em->builder, vector, regs[i], gpu_i32(em, i), "");
    }
    return vector;
}

void gpu_unpack(GpuEmitter *em, LLVMValueRef vector, int n, LLVMValueRef *out)
{
    if (n == 1) {
        out[0] = vector;
        return;
    }
    for (int i = 0; i < n; i++) {
        out[i] = LLVMBuildExtractElement(em->builder, vector, gpu_i32(em, i), "");
    }
}

/* ---- again ---- */

void gpu_emit_remat(GpuEmitter *em, const Op *op)
{
    const GpuValue *in = gpu_value(em, op->operands[0]);
    GpuValue *out = gpu_define(em, op->results[0]);
    bool halves = dtype_bits(op->results[0]->type->dtype) == 16;
    out->halves = halves ? ARENA_ARRAY(em->arena, GpuHalf, out->n) : NULL;
    for (int r = 0; r < out->n; r++) {
        bool pair = halves && r % 2 == 0 && r + 1 < out->n && in->regs[r] && in->regs[r + 1];
        if (pair) {
            /* Registers r and r + 1 of 16 bits become opaque as one word. */
            LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(in->regs[r]), 2);
            bool loaded = in->halves && in->halves[r].word == in->halves[r + 1].word;
            LLVMValueRef word = loaded ? in->halves[r].word : NULL;
            if (!word) {
                word = LLVMBuildBitCast(em->builder, gpu_pack(em, 2, in->regs + r), em->i32, "");
            }
            word = em->target->opaque(em, word);
            gpu_unpack(em, LLVMBuildBitCast(em->builder, word, type, ""), 2, out->regs + r);
            out->halves[r] = (GpuHalf){word, false};
            out->halves[r + 1] = (GpuHalf){word, true};
        }
        r += pair;
        out->regs[r] = pair ? out->regs[r] : in->regs[r];
    }
}

/* ---- runs ---- */

void gpu_load_run(GpuEmitter *em, LLVMTypeRef type, LLVMValueRef at, int n, LLVMValueRef *out)
{
    LLVMTypeRef all = n > 1 ? LLVMVectorType(type, (unsigned)n) : type;
    gpu_unpack(em, LLVMBuildLoad2(em->builder, all, at, ""), n, out);
}

/* The register bit that alone moves by `step` along the last axis; -1: none. */
static int bit_of_step(const Layout *layout, int step)
{
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        bool only = layout->basis[IN_REGISTER][bit][layout->rank - 1] == step;
        for (int axis = 0; only && axis < layout->rank - 1; axis++) {
            only = layout->basis[IN_REGISTER][bit][axis] == 0;
        }
        if (only) {
            return bit;
        }
    }
    return -1;
}

int gpu_run_length(GpuEmitter *em, Type type, int most)
{
    int last = type->rank - 1, n = 1;
    int64_t extent = gpu_extent(em, type, last);
    while (2 * n <= most && 2 * n <= (int)(sizeof(((GpuRun *)0)->regs) / sizeof(int)) &&
           extent % (2 * n) == 0 && bit_of_step(type->layout, n) >= 0 &&
           !(layout_thread_bits(type->layout, last) & (uint32_t)n)) {
        n *= 2;
    }
    return n;
}

bool gpu_run_at(GpuEmitter *em, Type type, int r, int length, GpuRun *run)
{
    const Layout *layout = type->layout;
    if (!gpu_exists(em, type, r) || gpu_canonical(layout, r) != r ||
        (gpu_register_coord(layout, type->rank - 1, r) & (length - 1))) {
        return false;
    }
    run->n = length;
    for (int i = 0; i < length; i++) {
        run->regs[i] = r;
        for (int step = 1; step < length; step *= 2) {
            run->regs[i] |= i & step ? 1 << bit_of_step(layout, step) : 0;
        }
    }
    return true;
}

/* ---- branches ---- */

GpuBranch gpu_branch_begin(GpuEmitter *em, LLVMValueRef condition)
{
    GpuBranch branch = {LLVMGetInsertBlock(em->builder), gpu_new_block(em, "after")};
    LLVMBasicBlockRef inside = gpu_new_block(em, "inside");
    LLVMBuildCondBr(em->builder, condition, inside, branch.after);
    gpu_go(em, inside);
    return branch;
}

void gpu_branch_end(GpuEmitter *em, GpuBranch branch)
{
    LLVMBuildBr(em->builder, branch.after);
    gpu_go(em, branch.after);
}

LLVMValueRef gpu_branch_end_value(GpuEmitter *em, GpuBranch branch, LLVMValueRef inside,
                                  LLVMValueRef otherwise)
{
    LLVMBasicBlockRef from[] = {LLVMGetInsertBlock(em->builder), branch.before};
    gpu_branch_end(em, branch);
    LLVMValueRef merged = LLVMBuildPhi(em->builder, LLVMTypeOf(inside), "");
    LLVMAddIncoming(merged, (LLVMValueRef[]){inside, otherwise}, from, 2);
    return merged;
}

/* ---- guarded accesses of global memory ---- */

bool gpu_is_constant(const GpuEmitter *em, const Value *memory)
{
    for (size_t i = 0; i < em->func->params.n; i++) {
        if (em->func->params.items[i].value == memory) {
            return em->func->params.items[i].io == PARAM_IN;
        }
    }
    return false;
}

static LLVMValueRef plain_load(GpuEmitter *em, LLVMTypeRef type, LLVMValueRef at, unsigned align,
                               bool constant)
{
    LLVMValueRef load = LLVMBuildLoad2(em->builder, type, at, "");
    LLVMSetAlignment(load, align);
    if (constant) {
        static const char name[] = "invariant.load";
        unsigned kind = LLVMGetMDKindIDInContext(em->context, name, sizeof name - 1);
        LLVMMetadataRef empty = LLVMMDNodeInContext2(em->context, NULL, 0);
        LLVMSetMetadata(load, kind, LLVMMetadataAsValue(em->context, empty));
    }
    return load;
}

LLVMValueRef gpu_load_guarded(GpuEmitter *em, const Value *memory, LLVMValueRef inside,
                              LLVMValueRef at, LLVMValueRef otherwise, unsigned align)
{
    bool constant = gpu_is_constant(em, memory);
    LLVMTypeRef type = LLVMTypeOf(otherwise);
    if (!inside) {
        return plain_load(em, type, at, align, constant);
    }
    if (em->target->load_if) {
        return em->target->load_if(em, inside, at, otherwise, constant, false);
    }
    GpuBranch branch = gpu_branch_begin(em, inside);
    return gpu_branch_end_value(em, branch, plain_load(em, type, at, align, constant), otherwise);
}

void gpu_store_guarded(GpuEmitter *em, LLVMValueRef inside, LLVMValueRef at, LLVMValueRef value,
                       unsigned align)
{
    if (inside && em->target->store_if) {
        em->target->store_if(em, inside, at, value);
        return;
    }
    GpuBranch branch = {0};
    if (inside) {
        branch = gpu_branch_begin(em, inside);
    }
    LLVMSetAlignment(LLVMBuildStore(em->builder, value, at), align);
    if (inside) {
        gpu_branch_end(em, branch);
    }
}
