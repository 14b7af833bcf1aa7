/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of 4-bit elements: two per byte, the first in the low half. Contiguous elements that
 * begin at a byte are packed and unpacked in 32-bit words; others are accessed one by one, and a
 * half byte is written in a way that allows another thread to write the other half at the same
 * time. An element has four bits in registers and a byte in shared memory, except for TMA-loaded
 * tiles, which stay packed as in the tensor. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_atomic.h"

enum { HALF_BITS = 4, WORD_BITS = 32, WORD_HALVES = WORD_BITS / HALF_BITS };

/* ---- neighbours, as words ---- */

static LLVMTypeRef word_type(GpuEmitter *em, int n)
{
    int bits = n < WORD_HALVES ? n * HALF_BITS : WORD_BITS;
    return LLVMIntTypeInContext(em->context, (unsigned)bits);
}

static int word_count(int n)
{
    return n < WORD_HALVES ? 1 : n / WORD_HALVES;
}

/* The half in all places. */
static LLVMValueRef repeated(GpuEmitter *em, int n, LLVMValueRef half)
{
    int64_t value = (int64_t)(LLVMConstIntGetZExtValue(half) * UINT64_C(0x11111111));
    return llvm_int(llvm_lanes(word_type(em, n), word_count(n)), value);
}

static void take_halves(GpuEmitter *em, LLVMTypeRef type, LLVMValueRef vector, int n,
                        LLVMValueRef *regs)
{
    LLVMBuilderRef b = em->builder;
    LLVMTypeRef word = word_type(em, n);
    LLVMValueRef words[sizeof((GpuRun *)0)->regs / sizeof(int) / WORD_HALVES];
    gpu_unpack(em, vector, word_count(n), words);
    for (int i = 0; i < n; i++) {
        LLVMValueRef shift = llvm_int(word, i % WORD_HALVES * HALF_BITS);
        LLVMValueRef moved = LLVMBuildLShr(b, words[i / WORD_HALVES], shift, "");
        regs[i] = LLVMBuildTrunc(b, moved, type, "");
    }
}

static LLVMValueRef put_together(GpuEmitter *em, int n, const LLVMValueRef *regs)
{
    LLVMBuilderRef b = em->builder;
    LLVMTypeRef word = word_type(em, n);
    LLVMValueRef words[sizeof((GpuRun *)0)->regs / sizeof(int) / WORD_HALVES];
    for (int i = 0; i < n; i++) {
        LLVMValueRef shift = llvm_int(word, i % WORD_HALVES * HALF_BITS);
        LLVMValueRef moved = LLVMBuildShl(b, LLVMBuildZExt(b, regs[i], word, ""), shift, "");
        LLVMValueRef *to = &words[i / WORD_HALVES];
        *to = i % WORD_HALVES ? LLVMBuildOr(b, *to, moved, "") : moved;
    }
    return gpu_pack(em, word_count(n), words);
}

/* ---- accesses ---- */

static LLVMValueRef byte_at(GpuEmitter *em, const Value *memory, LLVMValueRef at)
{
    LLVMValueRef byte = LLVMBuildAShr(em->builder, at, gpu_i64(em, 1), "");
    return LLVMBuildGEP2(em->builder, em->i8, gpu_tensor(em, memory), &byte, 1, "");
}

/* i8: 0 or 4. */
static LLVMValueRef shift_at(GpuEmitter *em, LLVMValueRef at)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef odd = LLVMBuildAnd(b, at, gpu_i64(em, 1), "");
    odd = LLVMBuildTrunc(b, odd, em->i8, "");
    return LLVMBuildShl(b, odd, llvm_int(em->i8, 2), "");
}

void gpu_packed_load(GpuEmitter *em, const Value *memory, LLVMValueRef inside, LLVMValueRef at,
                     const Attr *value, int n, LLVMValueRef *regs)
{
    DType dtype = memory->type->dtype;
    LLVMTypeRef type = llvm_type(em->l, dtype);
    LLVMValueRef otherwise = llvm_number(em->l, dtype, type, value);
    if (n == 1) {
        LLVMValueRef byte = gpu_load_guarded(em, memory, inside, byte_at(em, memory, at),
                                             repeated(em, 2, otherwise), 1);
        LLVMValueRef moved = LLVMBuildLShr(em->builder, byte, shift_at(em, at), "");
        regs[0] = LLVMBuildTrunc(em->builder, moved, LLVMTypeOf(otherwise), "");
        return;
    }
    LLVMValueRef vector = gpu_load_guarded(em, memory, inside, byte_at(em, memory, at),
                                           repeated(em, n, otherwise), (unsigned)n / 2);
    take_halves(em, type, vector, n, regs);
}

void gpu_packed_read(GpuEmitter *em, DType dtype, LLVMValueRef at, int n, LLVMValueRef *regs)
{
    LLVMTypeRef type = llvm_lanes(word_type(em, n), word_count(n));
    LLVMValueRef load = LLVMBuildLoad2(em->builder, type, at, "");
    LLVMSetAlignment(load, (unsigned)n / 2);
    take_halves(em, llvm_type(em->l, dtype), load, n, regs);
}

void gpu_packed_words(GpuEmitter *em, LLVMValueRef at, int n, LLVMValueRef *words)
{
    LLVMValueRef load = LLVMBuildLoad2(em->builder, llvm_lanes(em->i32, n), at, "");
    LLVMSetAlignment(load, (unsigned)n * WORD_BITS / 8);
    gpu_unpack(em, load, n, words);
}

void gpu_packed_store(GpuEmitter *em, const Value *memory, LLVMValueRef inside, LLVMValueRef at,
                      int n, const LLVMValueRef *regs)
{
    LLVMValueRef byte = byte_at(em, memory, at);
    if (n > 1) {
        gpu_store_guarded(em, inside, byte, put_together(em, n, regs), (unsigned)n / 2);
        return;
    }
    GpuBranch branch = {0};
    if (inside) {
        branch = gpu_branch_begin(em, inside);
    }
    scalar_store_half(em->l, byte, shift_at(em, at), regs[0]);
    if (inside) {
        gpu_branch_end(em, branch);
    }
}

void gpu_packed_set(GpuEmitter *em, const Value *memory, LLVMValueRef at, LLVMValueRef value)
{
    scalar_set_half(em->l, byte_at(em, memory, at), shift_at(em, at), value);
}
