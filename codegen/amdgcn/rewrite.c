/* SPDX-License-Identifier: Apache-2.0 */
/* What LLVM 22.1.8's AMDGPU back end gets wrong, and how it is kept from seeing it.
 *
 *     or i64 %x, (xor i64 (zext %y), -1)
 *
 * The high word of the right side is all ones; SIFoldOperands turns `v_or_b32 x, -1` into a move of
 * x. Split into words, the high word is the constant -1 and no `or` is left for it:
 *
 *     bitcast <2 x i32> { or i32 (trunc %x), (not i32 (zext %y)), -1 } to i64
 *
 * The other known fault, a v_dot4 from sums of i8 products, is kept off by target features.
 *
 *     extractelement <16 x i4> %v, n
 *
 * is made by InstCombine of shifts of loaded words. The back end lays such a vector into scratch
 * memory, and keeps its place there even where no access is left: words are shifted again. */
#include "codegen/amdgcn/rewrite.h"

static bool is_op(LLVMValueRef value, LLVMOpcode opcode)
{
    return LLVMIsAInstruction(value) && LLVMGetInstructionOpcode(value) == opcode;
}

static bool is_all_ones(LLVMValueRef value)
{
    return LLVMIsAConstantInt(value) && LLVMConstIntGetSExtValue(value) == -1;
}

/* The y of `xor (zext y), -1`, where y has at most 32 bits; else NULL. */
static LLVMValueRef inverted_narrow(LLVMValueRef value)
{
    if (!is_op(value, LLVMXor) || !is_all_ones(LLVMGetOperand(value, 1))) {
        return NULL;
    }
    LLVMValueRef wide = LLVMGetOperand(value, 0);
    if (!is_op(wide, LLVMZExt)) {
        return NULL;
    }
    LLVMValueRef narrow = LLVMGetOperand(wide, 0);
    return LLVMGetIntTypeWidth(LLVMTypeOf(narrow)) <= 32 ? narrow : NULL;
}

static void split_or(GpuEmitter *em, LLVMValueRef op, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = em->builder;
    LLVMPositionBuilderBefore(b, op);
    LLVMValueRef low = LLVMBuildNot(b, LLVMBuildZExt(b, y, em->i32, ""), "");
    low = LLVMBuildOr(b, LLVMBuildTrunc(b, x, em->i32, ""), low, "");
    LLVMValueRef words[] = {gpu_i32(em, -1), gpu_i32(em, -1)};
    LLVMValueRef pair = LLVMConstVector(words, 2);
    pair = LLVMBuildInsertElement(b, pair, low, gpu_i32(em, 0), "");
    LLVMReplaceAllUsesWith(op, LLVMBuildBitCast(b, pair, em->i64, ""));
    LLVMInstructionEraseFromParent(op);
}

/* The element of a vector of i4, of its words. */
static void take_half(GpuEmitter *em, LLVMValueRef op)
{
    enum { HALF = 4, WORD = 32 };
    LLVMBuilderRef b = em->builder;
    LLVMValueRef vector = LLVMGetOperand(op, 0), index = LLVMGetOperand(op, 1);
    LLVMTypeRef type = LLVMTypeOf(op);
    unsigned bits = LLVMGetVectorSize(LLVMTypeOf(vector)) * HALF;
    if (type != LLVMIntTypeInContext(em->context, HALF) || !LLVMIsAConstantInt(index)) {
        return;
    }
    uint64_t at = LLVMConstIntGetZExtValue(index) * HALF;
    bool has_words = bits > WORD && bits % WORD == 0;
    LLVMTypeRef word = LLVMIntTypeInContext(em->context, has_words ? WORD : bits);
    LLVMPositionBuilderBefore(b, op);
    LLVMTypeRef all = has_words ? LLVMVectorType(word, bits / WORD) : word;
    LLVMValueRef value = LLVMBuildBitCast(b, vector, all, "");
    if (has_words) {
        value = LLVMBuildExtractElement(b, value, gpu_i32(em, (int32_t)(at / WORD)), "");
        at %= WORD;
    }
    value = LLVMBuildLShr(b, value, LLVMConstInt(word, at, false), "");
    LLVMReplaceAllUsesWith(op, LLVMBuildTrunc(b, value, type, ""));
    LLVMInstructionEraseFromParent(op);
}

static void visit(GpuEmitter *em, LLVMValueRef op)
{
    if (is_op(op, LLVMExtractElement)) {
        take_half(em, op);
        return;
    }
    if (!is_op(op, LLVMOr) || LLVMTypeOf(op) != em->i64) {
        return;
    }
    for (unsigned side = 0; side < 2; side++) {
        LLVMValueRef y = inverted_narrow(LLVMGetOperand(op, side));
        if (y) {
            split_or(em, op, LLVMGetOperand(op, 1 - side), y);
            return;
        }
    }
}

void amdgcn_rewrite(GpuEmitter *em)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(em->module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            LLVMValueRef next;
            for (LLVMValueRef op = LLVMGetFirstInstruction(b); op; op = next) {
                next = LLVMGetNextInstruction(op);
                visit(em, op);
            }
        }
    }
}
