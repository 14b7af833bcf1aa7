/* SPDX-License-Identifier: Apache-2.0 */
/* Works around an error of LLVM 22.1.8 in code that reads registers of neighbouring lanes.
 *
 *     %n = call i32 @llvm.amdgcn.update.dpp(…, i32 %x, …)
 *     %m = mul i64 (zext %n), %y
 *
 * GCNDPPCombine folds the move between lanes into the instruction that reads it. From gfx11 on it
 * does so for every instruction whose tables list such a form, but no GPU has that form for
 * instructions with 32-bit operands and a 64-bit result: V_MAD_U64_U32, V_MAD_I64_I32,
 * V_LSHLREV_B64 and V_CVT_F64_* (F32, I32, U32). On gfx12 the result is code that cannot be
 * decoded; on gfx11 a folded shift ends the process. No function attribute disables the pass, and
 * it is useful: reductions of 32-bit values need no separate move.
 *
 * Therefore the value of another lane is hidden behind an empty inline assembly statement
 * (amdgcn_opaque), unless all its readers, also through phis and casts, are known to become 32-bit
 * instructions. Integer products are not: the back end makes V_MAD_U64_U32 of i32 products and
 * sums, too. */
#include "codegen/amdgcn/amdgcn_workarounds.h"

#include "codegen/amdgcn/amdgcn_opaque.h"

#include <string.h>

enum { WORD_BITS = 32, MAX_DEPTH = 12 };

static unsigned bits_of(LLVMTypeRef type)
{
    switch (LLVMGetTypeKind(type)) {
    case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(type);
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind: return WORD_BITS / 2;
    case LLVMFloatTypeKind: return WORD_BITS;
    case LLVMVectorTypeKind: return LLVMGetVectorSize(type) * bits_of(LLVMGetElementType(type));
    default: return 2 * WORD_BITS; /* not to be known, or more than a word */
    }
}

static bool is_word(LLVMValueRef value)
{
    return bits_of(LLVMTypeOf(value)) <= WORD_BITS;
}

static bool calls_intrinsic(LLVMValueRef op, const char *name)
{
    LLVMValueRef called = LLVMIsACallInst(op) ? LLVMGetCalledValue(op) : NULL;
    unsigned id = called && LLVMIsAFunction(called) ? LLVMGetIntrinsicID(called) : 0;
    return id != 0 && (!name || id == LLVMLookupIntrinsicID(name, strlen(name)));
}

/* One of LLVM's own functions, of words; or a comparison and two choices of a word each. */
static bool computes_words(LLVMValueRef call)
{
    if (calls_intrinsic(call, "llvm.smin") || calls_intrinsic(call, "llvm.smax") ||
        calls_intrinsic(call, "llvm.umin") || calls_intrinsic(call, "llvm.umax")) {
        return true;
    }
    bool all = calls_intrinsic(call, NULL) && is_word(call);
    for (unsigned i = 0; all && i < LLVMGetNumArgOperands(call); i++) {
        all = is_word(LLVMGetOperand(call, i));
    }
    return all;
}

typedef enum Use {
    USE_WORDS, /* an instruction of words, or none that lanes could be folded into */
    USE_MOVE,  /* it may be no instruction: what reads its result may read the word */
    USE_OTHER,
} Use;

static Use use_of(LLVMValueRef user, LLVMValueRef value)
{
    switch (LLVMGetInstructionOpcode(user)) {
    case LLVMBitCast:
    case LLVMZExt:
    case LLVMSExt:
    case LLVMTrunc:
    case LLVMFreeze:
    case LLVMFNeg:
    case LLVMExtractElement:
    case LLVMInsertElement:
    case LLVMShuffleVector:
    case LLVMAnd: /* with a mask that the reader does not need */
    case LLVMOr:  /* of the halves of a value of 64 bits */
    case LLVMXor: return USE_MOVE;
    case LLVMShl:
    case LLVMLShr:
    case LLVMAShr:
        if (LLVMGetOperand(user, 0) == value && LLVMIsAConstant(LLVMGetOperand(user, 1))) {
            return USE_MOVE;
        }
        return is_word(user) ? USE_WORDS : USE_OTHER;
    case LLVMAdd:
    case LLVMSub:
    case LLVMICmp:
    case LLVMSelect:
    case LLVMPHI:
    case LLVMStore: return USE_WORDS;
    case LLVMFAdd:
    case LLVMFSub:
    case LLVMFMul:
    case LLVMFCmp:
    case LLVMFPExt:
    case LLVMFPTrunc:
    case LLVMSIToFP:
    case LLVMUIToFP:
    case LLVMFPToSI:
    case LLVMFPToUI: return is_word(value) && is_word(user) ? USE_WORDS : USE_OTHER;
    case LLVMCall:
        if (calls_intrinsic(user, "llvm.fabs")) {
            return USE_MOVE;
        }
        return computes_words(user) ? USE_WORDS : USE_OTHER;
    default: return USE_OTHER;
    }
}

static bool only_words_read(LLVMValueRef value, int depth)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        Use how = depth < MAX_DEPTH ? use_of(user, value) : USE_OTHER;
        if (how == USE_OTHER || (how == USE_MOVE && !only_words_read(user, depth + 1))) {
            return false;
        }
    }
    return true;
}

void amdgcn_hide_exchange(GpuEmitter *em, LLVMValueRef op)
{
    if (!calls_intrinsic(op, "llvm.amdgcn.update.dpp") || only_words_read(op, 0)) {
        return;
    }
    LLVMPositionBuilderBefore(em->builder, LLVMGetNextInstruction(op));
    LLVMValueRef hidden = amdgcn_opaque(em, op);
    LLVMReplaceAllUsesWith(op, hidden);
    LLVMSetOperand(hidden, 0, op);
}
