/* SPDX-License-Identifier: Apache-2.0 */
/* Works around two miscompilations of LLVM 22.1.8's back end for x86.
 *
 *     %t = trunc <16 x i32> %x to <16 x i16>
 *     call void @llvm.masked.store(<16 x i16> %t, ptr %p, <16 x i1> <i1 1, i1 0, i1 0, …>)
 *
 * stores the element of %x before it is truncated: 32 bits, so that it writes what lies behind
 * the end of an array. A store of one lane that is known is written as the store of an element.
 *
 *     %s = shl <16 x i16> splat (i16 7), %n              ; poison where %n is 16 or more
 *     %d = select <16 x i1> %wide, <16 x i16> splat (i16 1), <16 x i16> %s
 *     %q = udiv <16 x i16> %a, %d
 *
 * DAGCombiner's foldSelectWithIdentityConstant divides by %s in all lanes and selects afterwards,
 * because it holds that %s is never 0. But where it is poison the processor makes a 0 of it, and
 * faults. What the select takes is frozen, so that nothing is known of it. (With AVX-512.) */
#include "codegen/cpu/cpu_workarounds.h"

#include <string.h>

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

/* The one lane that a constant mask has; -1: it has none, several, or is no constant. */
static int only_lane(LLVMValueRef mask)
{
    int found = -1;
    if (!LLVMIsConstant(mask)) {
        return -1;
    }
    for (unsigned i = 0; i < LLVMGetVectorSize(LLVMTypeOf(mask)); i++) {
        LLVMValueRef lane = LLVMGetAggregateElement(mask, i);
        if (!lane || !LLVMIsAConstantInt(lane)) {
            return -1;
        }
        if (LLVMConstIntGetZExtValue(lane)) {
            if (found >= 0) {
                return -1;
            }
            found = (int)i;
        }
    }
    return found;
}

static bool calls_masked_store(LLVMValueRef op)
{
    const char *prefix = "llvm.masked.store";
    LLVMValueRef callee = is_op(op, LLVMCall) ? LLVMGetCalledValue(op) : NULL;
    size_t n;
    return callee && !strncmp(LLVMGetValueName2(callee, &n), prefix, strlen(prefix));
}

static void store_one_lane(Llvm *l, LLVMValueRef op)
{
    LLVMBuilderRef b = l->builder;
    int lane = calls_masked_store(op) ? only_lane(LLVMGetOperand(op, 2)) : -1;
    if (lane < 0) {
        return;
    }
    LLVMPositionBuilderBefore(b, op);
    LLVMValueRef value = LLVMGetOperand(op, 0), at = LLVMConstInt(l->i64, (unsigned)lane, false);
    LLVMValueRef element = LLVMBuildExtractElement(b, value, at, "");
    LLVMValueRef address = LLVMBuildGEP2(b, LLVMTypeOf(element), LLVMGetOperand(op, 1), &at, 1, "");
    LLVMSetAlignment(LLVMBuildStore(b, element, address), 1); /* x86 stores anywhere */
    LLVMInstructionEraseFromParent(op);
}

void cpu_rewrite(Llvm *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef op = LLVMGetFirstInstruction(b), next; op; op = next) {
                next = LLVMGetNextInstruction(op);
                freeze_divisors(l->builder, op);
                store_one_lane(l, op);
            }
        }
    }
}
