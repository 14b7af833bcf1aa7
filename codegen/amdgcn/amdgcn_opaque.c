/* SPDX-License-Identifier: Apache-2.0 */
/* Values that LLVM's optimizer and back end know nothing about: an empty inline assembly statement
 * takes the value in a vector register and returns it. */
#include "codegen/amdgcn/amdgcn_opaque.h"

/* An instruction of no bytes, that has the value in a vector register, and gives it back. Inline
 * assembly has registers for words and for pairs of them on all parts. */
static LLVMValueRef pass_through(GpuEmitter *em, LLVMValueRef value, bool stays)
{
    LLVMBuilderRef b = em->builder;
    LLVMTypeRef type = LLVMTypeOf(value), i16 = LLVMIntTypeInContext(em->context, 16);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    bool is_half = kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind;
    value = is_half ? LLVMBuildBitCast(b, value, i16, "") : value;
    LLVMTypeRef integer = LLVMTypeOf(value);
    bool is_narrow =
        LLVMGetTypeKind(integer) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(integer) < 32;
    value = is_narrow ? LLVMBuildZExt(b, value, em->i32, "") : value;
    value = gpu_asm(em, LLVMTypeOf(value), "", "=v,0", stays, 1, &value);
    value = is_narrow ? LLVMBuildTrunc(b, value, integer, "") : value;
    return is_half ? LLVMBuildBitCast(b, value, type, "") : value;
}

LLVMValueRef amdgcn_opaque(GpuEmitter *em, LLVMValueRef value)
{
    return pass_through(em, value, false);
}

LLVMValueRef amdgcn_opaque_here(GpuEmitter *em, LLVMValueRef value)
{
    return pass_through(em, value, true);
}
