/* SPDX-License-Identifier: Apache-2.0 */
/* Works around a miscompilation of LLVM 22.1.8's back end for AVX-512.
 *
 *     %s = shl <16 x i16> splat (i16 7), %n              ; poison where %n is 16 or more
 *     %d = select <16 x i1> %wide, <16 x i16> splat (i16 1), <16 x i16> %s
 *     %q = udiv <16 x i16> %a, %d
 *
 * DAGCombiner's foldSelectWithIdentityConstant divides by %s in all lanes and selects afterwards,
 * because it holds that %s is never 0. But where it is poison the processor makes a 0 of it, and
 * faults. What the select takes is frozen, so that nothing is known of it. */
#include "codegen/cpu/cpu_workarounds.h"

static bool is_op(LLVMValueRef value, LLVMOpcode opcode)
{
    return LLVMIsAInstruction(value) && LLVMGetInstructionOpcode(value) == opcode;
}

static void freeze_divisors(LLVMBuilderRef b, LLVMValueRef op)
{
    if (!is_op(op, LLVMUDiv) && !is_op(op, LLVMSDiv)) {
        return;
    }
    LLVMValueRef by = LLVMGetOperand(op, 1);
    if (LLVMGetTypeKind(LLVMTypeOf(by)) != LLVMVectorTypeKind || !is_op(by, LLVMSelect)) {
        return;
    }
    LLVMPositionBuilderBefore(b, by);
    for (unsigned side = 1; side <= 2; side++) {
        LLVMValueRef taken = LLVMGetOperand(by, side);
        if (!LLVMIsConstant(taken)) {
            LLVMSetOperand(by, side, LLVMBuildFreeze(b, taken, ""));
        }
    }
}

void cpu_rewrite(Llvm *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef op = LLVMGetFirstInstruction(b); op;
                 op = LLVMGetNextInstruction(op)) {
                freeze_divisors(l->builder, op);
            }
        }
    }
}
