/* SPDX-License-Identifier: Apache-2.0 */
/* Works around miscompilations of LLVM 22.1.8's AMDGPU back end by rewriting the patterns that
 * trigger them.
 *
 *     or i64 %x, (xor i64 (zext %y), -1)
 *
 * The high word of the right side is all ones; SIFoldOperands turns `v_or_b32 x, -1` into a move
 * of x. Split into 32-bit words, the high word is the constant -1 and no `or` is left for it:
 *
 *     bitcast <2 x i32> { or i32 (trunc %x), (not i32 (zext %y)), -1 } to i64
 *
 *     while: %n = phi i32 …        each lane leaves when its own condition fails
 *     done:  … %n …
 *
 * A counter that is equal in all lanes is in a scalar register; the value at which a lane leaves
 * is copied to a vector register in each iteration. PeepholeOptimizer merges that copy with
 * another one that the loop needs, and SIFoldOperands then reads the scalar after the loop: each
 * lane gets the last lane's count. An empty inline assembly statement whose result is in a vector
 * register gives each lane its own value (amdgcn_opaque).
 *
 * The other known fault, a v_dot4 from sums of i8 products, is avoided by target features.
 *
 *     extractelement <16 x i4> %v, n
 *
 * InstCombine makes it from shifts of loaded words, and such vectors are live across basic blocks.
 * The back end stores them to scratch memory, and reserves that memory even if no access is left.
 * The rewrite restores the shifts, so that words are live across blocks instead.
 *
 *     fsub 0.0, %x
 *
 * is folded to the modifier `-x` of the instruction that reads it (SelectVOP3ModsImpl accepts
 * either zero on the left), which is -0 where x is 0 although the difference is 0. The zero is
 * hidden.
 *
 *     fptrunc (fmul float %x, %y) to half
 *
 * is selected as v_fma_mixlo_f16 x, y, 0, which adds the zero: a product of -0 becomes 0. The
 * product is written as an fma that adds -0, which changes no product.
 *
 * Errors with values of other lanes: amdgcn_dpp.c. */
#include "codegen/amdgcn/amdgcn_workarounds.h"

#include "codegen/amdgcn/amdgcn_opaque.h"

static bool is_op(LLVMValueRef value, LLVMOpcode opcode)
{
    return LLVMIsAInstruction(value) && LLVMGetInstructionOpcode(value) == opcode;
}

static bool is_all_ones(LLVMValueRef value)
{
    return LLVMIsAConstantInt(value) && LLVMConstIntGetSExtValue(value) == -1;
}

/* True if the 32 bits are the zero-extension of fewer, as far as one op shows. */
static bool is_zero_extended(LLVMValueRef value)
{
    if (!is_op(value, LLVMAnd) && !is_op(value, LLVMLShr)) {
        return is_op(value, LLVMZExt);
    }
    LLVMValueRef by = LLVMGetOperand(value, 1);
    return LLVMIsAConstantInt(by) && LLVMConstIntGetSExtValue(by) > 0;
}

/* The y of `xor (zext y), -1`, or of `sext (xor y, -1)`, which LLVM makes of it where y is 32 bits
 * whose highest is 0, where y has at most 32 bits; else NULL. */
static LLVMValueRef inverted_narrow(LLVMValueRef value)
{
    LLVMValueRef inner = is_op(value, LLVMSExt) ? LLVMGetOperand(value, 0) : NULL;
    if (inner && is_op(inner, LLVMXor) && is_all_ones(LLVMGetOperand(inner, 1)) &&
        LLVMGetIntTypeWidth(LLVMTypeOf(inner)) == 32 &&
        is_zero_extended(LLVMGetOperand(inner, 0))) {
        return LLVMGetOperand(inner, 0);
    }
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

static bool subtracts_from_zero(LLVMValueRef op)
{
    LLVMValueRef left = is_op(op, LLVMFSub) ? LLVMGetOperand(op, 0) : NULL;
    return left && LLVMIsConstant(left) && LLVMIsNull(left); /* -0 is no null */
}

static void keep_sign_of_zero(GpuEmitter *em, LLVMValueRef op)
{
    LLVMValueRef product = LLVMGetOperand(op, 0);
    LLVMTypeRef type = LLVMTypeOf(product);
    bool vector = LLVMGetTypeKind(LLVMTypeOf(op)) == LLVMVectorTypeKind;
    LLVMTypeRef to = vector ? LLVMGetElementType(LLVMTypeOf(op)) : LLVMTypeOf(op);
    if (!is_op(product, LLVMFMul) || LLVMGetTypeKind(to) != LLVMHalfTypeKind) {
        return;
    }
    LLVMPositionBuilderBefore(em->builder, op);
    LLVMValueRef terms[] = {LLVMGetOperand(product, 0), LLVMGetOperand(product, 1),
                            LLVMConstReal(type, -0.0)};
    LLVMSetOperand(op, 0, gpu_intrinsic(em, "llvm.fma", 1, &type, 3, terms));
}

/* ---- vectors of i4 ---- */

enum { HALF = 4, WORD = 32 };

static bool is_halves(GpuEmitter *em, LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind &&
           LLVMGetElementType(type) == LLVMIntTypeInContext(em->context, HALF);
}

/* What holds as many bits: words, or one integer. */
static LLVMTypeRef words_of(GpuEmitter *em, LLVMTypeRef halves)
{
    unsigned bits = LLVMGetVectorSize(halves) * HALF;
    return bits > WORD && bits % WORD == 0 ? LLVMVectorType(em->i32, bits / WORD)
                                           : LLVMIntTypeInContext(em->context, bits);
}

static void take_half(GpuEmitter *em, LLVMValueRef op)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef vector = LLVMGetOperand(op, 0), index = LLVMGetOperand(op, 1);
    if (!is_halves(em, LLVMTypeOf(vector)) || !LLVMIsAConstantInt(index)) {
        return;
    }
    LLVMTypeRef type = LLVMTypeOf(op), words = words_of(em, LLVMTypeOf(vector));
    uint64_t at = LLVMConstIntGetZExtValue(index) * HALF;
    LLVMPositionBuilderBefore(b, op);
    LLVMValueRef value = LLVMBuildBitCast(b, vector, words, "");
    if (LLVMGetTypeKind(words) == LLVMVectorTypeKind) {
        value = LLVMBuildExtractElement(b, value, gpu_i32(em, (int32_t)(at / WORD)), "");
        at %= WORD;
    }
    LLVMTypeRef word = LLVMTypeOf(value);
    value = LLVMBuildLShr(b, value, LLVMConstInt(word, at, false), "");
    LLVMReplaceAllUsesWith(op, LLVMBuildTrunc(b, value, type, ""));
    LLVMInstructionEraseFromParent(op);
}

/* A phi of words in place of one of their halves. */
static void carry_words(GpuEmitter *em, LLVMValueRef op)
{
    LLVMBuilderRef b = em->builder;
    LLVMTypeRef halves = LLVMTypeOf(op);
    if (!is_halves(em, halves)) {
        return;
    }
    LLVMPositionBuilderBefore(b, op);
    LLVMValueRef carried = LLVMBuildPhi(b, words_of(em, halves), "");
    LLVMValueRef after = op;
    while (is_op(after, LLVMPHI)) {
        after = LLVMGetNextInstruction(after);
    }
    LLVMPositionBuilderBefore(b, after);
    LLVMReplaceAllUsesWith(op, LLVMBuildBitCast(b, carried, halves, ""));
    for (unsigned i = 0; i < LLVMCountIncoming(op); i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(op, i);
        LLVMPositionBuilderBefore(b, LLVMGetBasicBlockTerminator(from));
        LLVMValueRef value = LLVMGetIncomingValue(op, i);
        value = LLVMBuildBitCast(b, value, LLVMTypeOf(carried), "");
        LLVMAddIncoming(carried, &value, &from, 1);
    }
    LLVMInstructionEraseFromParent(op);
}

static void visit(GpuEmitter *em, LLVMValueRef op)
{
    if (is_op(op, LLVMPHI)) {
        carry_words(em, op);
        return;
    }
    if (is_op(op, LLVMExtractElement)) {
        take_half(em, op);
        return;
    }
    if (is_op(op, LLVMFPTrunc)) {
        keep_sign_of_zero(em, op);
        return;
    }
    if (subtracts_from_zero(op)) {
        LLVMPositionBuilderBefore(em->builder, op);
        LLVMSetOperand(op, 0, amdgcn_opaque(em, LLVMGetOperand(op, 0)));
        return;
    }
    amdgcn_hide_exchange(em, op);
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
