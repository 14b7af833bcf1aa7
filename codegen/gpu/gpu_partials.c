/* SPDX-License-Identifier: Apache-2.0 */
/* Partial results in shared memory, one per warp or per block of a cluster, and their exchange
 * between lanes. If a thread needs several results of many partials (as for columns), every thread
 * would read every partial; instead, few threads combine one result each and the others read the
 * combined values. Both ways combine in the same order, so the bits are the same. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_ops.h"

static unsigned bits_of(const GpuEmitter *em, LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind) {
        return LLVMGetIntTypeWidth(type);
    }
    if (type == em->f64) {
        return 64;
    }
    return type == em->f32 ? 32 : 16;
}

LLVMValueRef gpu_shuffle(GpuEmitter *em, LLVMValueRef value, int mask)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    unsigned bits = bits_of(em, type);
    LLVMTypeRef whole = LLVMIntTypeInContext(em->context, bits);
    LLVMValueRef word = LLVMBuildBitCast(em->builder, value, whole, "");
    if (bits <= 32) {
        word = em->target->shuffle_xor(em, LLVMBuildZExt(em->builder, word, em->i32, ""), mask);
        return LLVMBuildBitCast(em->builder, LLVMBuildTrunc(em->builder, word, whole, ""), type,
                                "");
    }
    LLVMValueRef shift = gpu_i64(em, 32);
    LLVMValueRef low = LLVMBuildTrunc(em->builder, word, em->i32, "");
    LLVMValueRef high = LLVMBuildLShr(em->builder, word, shift, "");
    low = em->target->shuffle_xor(em, low, mask);
    high = em->target->shuffle_xor(em, LLVMBuildTrunc(em->builder, high, em->i32, ""), mask);
    high = LLVMBuildShl(em->builder, LLVMBuildZExt(em->builder, high, em->i64, ""), shift, "");
    word = LLVMBuildOr(em->builder, LLVMBuildZExt(em->builder, low, em->i64, ""), high, "");
    return LLVMBuildBitCast(em->builder, word, type, "");
}

/* ---- words of shared memory ---- */

LLVMValueRef gpu_to_word(GpuEmitter *em, DType dtype, int bytes, LLVMValueRef value)
{
    value = gpu_to_memory(em, dtype, value);
    LLVMTypeRef own = LLVMIntTypeInContext(em->context, (unsigned)dtype_bytes(dtype) * 8);
    LLVMTypeRef word = LLVMIntTypeInContext(em->context, (unsigned)bytes * 8);
    return LLVMBuildZExt(em->builder, LLVMBuildBitCast(em->builder, value, own, ""), word, "");
}

LLVMValueRef gpu_from_word(GpuEmitter *em, DType dtype, int bytes, LLVMValueRef word)
{
    LLVMTypeRef own = LLVMIntTypeInContext(em->context, (unsigned)dtype_bytes(dtype) * 8);
    word = dtype_bytes(dtype) < bytes ? LLVMBuildTrunc(em->builder, word, own, "") : word;
    word = LLVMBuildBitCast(em->builder, word, llvm_memory_type(em->l, dtype), "");
    return gpu_from_memory(em, dtype, word);
}

/* ---- parts ---- */

void gpu_combine_parts(GpuEmitter *em, const GpuParts *parts)
{
    int64_t threads = (int64_t)em->role->warps << em->warp_bits;
    for (int64_t first = 0; first < parts->elements; first += threads) {
        int64_t left = parts->elements - first;
        LLVMValueRef thread = em->role->thread;
        GpuBranch branch = {0};
        if (left < threads) {
            LLVMValueRef may =
                LLVMBuildICmp(em->builder, LLVMIntULT, thread, gpu_i32(em, left), "");
            branch = gpu_branch_begin(em, may);
        }
        LLVMValueRef element = LLVMBuildAdd(em->builder, thread, gpu_i32(em, first), "");
        LLVMBuilderRef b = em->builder;
        LLVMTypeRef word = LLVMIntTypeInContext(em->context, (unsigned)parts->bytes * 8);
        LLVMValueRef at = LLVMBuildMul(b, element, gpu_i32(em, parts->bytes), ""), sum = NULL;
        at = gpu_at(em, parts->base, at);
        for (int i = 0; i < parts->n; i++) {
            LLVMValueRef from = gpu_at_const(em, at, i * parts->elements * parts->bytes);
            LLVMValueRef part = LLVMBuildLoad2(b, word, from, "");
            part = gpu_from_word(em, parts->dtype, parts->bytes, part);
            sum = sum ? scalar_combine(em->l, parts->reduction, parts->dtype, sum, part) : part;
        }
        LLVMBuildStore(b, gpu_to_word(em, parts->dtype, parts->bytes, sum), at);
        if (left < threads) {
            gpu_branch_end(em, branch);
        }
    }
}
