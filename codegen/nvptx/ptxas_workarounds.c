/* SPDX-License-Identifier: Apache-2.0 */
/* Works around a miscompilation of ptxas 13.0 for sm_90, at -O2 and above.
 *
 *     sub.s32 %d, %c, %x;                  neg.s32 %n, %x;
 *     min.s32 %m, %d, %y;           →      add.s32 %d, %n, %c;
 *                                          min.s32 %m, %d, %y;
 *
 * becomes VIADDMNMX, which adds and takes the minimum or maximum. Where ptxas finds only after
 * that that %c is a number, as in the first round of a loop that it unrolls, it exchanges the
 * operands of the sum and negates the number instead of %x: min(x - 7, y) instead of min(7 - x, y).
 * Two guards of one access are such a minimum, so that sums of rows of 7 were 0 on an H100. The
 * negation by itself is an operand modifier of the same instruction. */
#include "codegen/nvptx/ptxas_workarounds.h"

#include <string.h>

static bool is_extreme(LLVMValueRef op)
{
    static const char *const NAMES[] = {"llvm.smin.i32", "llvm.smax.i32", "llvm.umin.i32",
                                        "llvm.umax.i32"};
    bool call = LLVMIsAInstruction(op) && LLVMGetInstructionOpcode(op) == LLVMCall;
    LLVMValueRef callee = call ? LLVMGetCalledValue(op) : NULL;
    bool found = false;
    size_t n;
    for (size_t i = 0; callee && i < sizeof NAMES / sizeof *NAMES; i++) {
        found = found || !strcmp(LLVMGetValueName2(callee, &n), NAMES[i]);
    }
    return found;
}

/* A comparison that is one of two: LLVM's back end compares the minimum or maximum instead. */
static bool is_one_of_two(LLVMValueRef op)
{
    bool found = false;
    if (!LLVMIsAICmpInst(op)) {
        return false;
    }
    for (LLVMUseRef use = LLVMGetFirstUse(op); use && !found; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        LLVMOpcode code = LLVMIsAInstruction(user) ? LLVMGetInstructionOpcode(user) : LLVMRet;
        found = code == LLVMAnd || code == LLVMOr || code == LLVMSelect;
    }
    return found;
}

/* A difference whose first operand is no number yet, and that a minimum or maximum is taken of. */
static bool is_affected(LLVMValueRef op)
{
    bool found = false;
    if (LLVMGetInstructionOpcode(op) != LLVMSub || LLVMIsConstant(LLVMGetOperand(op, 0)) ||
        LLVMGetTypeKind(LLVMTypeOf(op)) != LLVMIntegerTypeKind ||
        LLVMGetIntTypeWidth(LLVMTypeOf(op)) != 32) {
        return false;
    }
    for (LLVMUseRef use = LLVMGetFirstUse(op); use && !found; use = LLVMGetNextUse(use)) {
        found = is_extreme(LLVMGetUser(use)) || is_one_of_two(LLVMGetUser(use));
    }
    return found;
}

static void negate_separately(GpuEmitter *em, LLVMValueRef op)
{
    LLVMPositionBuilderBefore(em->builder, op);
    LLVMValueRef from = LLVMGetOperand(op, 0), subtracted = LLVMGetOperand(op, 1);
    LLVMValueRef negated = gpu_asm(em, em->i32, "neg.s32 $0, $1;", "=r,r", false, 1, &subtracted);
    LLVMReplaceAllUsesWith(op, LLVMBuildAdd(em->builder, negated, from, ""));
    LLVMInstructionEraseFromParent(op);
}

void ptxas_rewrite(GpuEmitter *em)
{
    LLVMModuleRef module = em->l->module;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef op = LLVMGetFirstInstruction(b), next; op; op = next) {
                next = LLVMGetNextInstruction(op);
                if (is_affected(op)) {
                    negate_separately(em, op);
                }
            }
        }
    }
}
