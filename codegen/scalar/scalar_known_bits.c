/* SPDX-License-Identifier: Apache-2.0 */
/* Simplifies shifts and masks of indices whose low bits are known. A thread's elements have the
 * indices base + 0, 1, 2, 3, where base is a multiple of four: their quotient by four is one
 * value, and the remainder is a constant.
 *
 *     (base + 5) >> 2  →  (base + 4) >> 2        adjacent elements then share the computation of
 *     (base + 5) & 3   →  1                      everything that follows
 *
 * LLVM's instcombine does this, too, but it would take more compile time on GPU code than all
 * else. */
#include "codegen/scalar/scalar_known_bits.h"

enum { DEEP = 8, WORD = 64 };

static bool is_constant(LLVMValueRef value, uint64_t *number)
{
    if (!LLVMIsAConstantInt(value) || LLVMGetTypeKind(LLVMTypeOf(value)) != LLVMIntegerTypeKind ||
        LLVMGetIntTypeWidth(LLVMTypeOf(value)) > WORD) {
        return false;
    }
    *number = LLVMConstIntGetZExtValue(value);
    return true;
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static int low_zeros(LLVMValueRef value, int deep)
{
    uint64_t number;
    if (is_constant(value, &number)) {
        return number ? __builtin_ctzll(number) : WORD;
    }
    if (deep == 0 || !LLVMIsAInstruction(value) || LLVMGetNumOperands(value) < 1) {
        return 0;
    }
    LLVMValueRef a = LLVMGetOperand(value, 0);
    LLVMValueRef c = LLVMGetNumOperands(value) > 1 ? LLVMGetOperand(value, 1) : a;
    switch (LLVMGetInstructionOpcode(value)) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMOr:
    case LLVMXor: {
        int one = low_zeros(a, deep - 1);
        return one ? lesser(one, low_zeros(c, deep - 1)) : 0;
    }
    case LLVMAnd: {
        int one = low_zeros(a, deep - 1), other = low_zeros(c, deep - 1);
        return one > other ? one : other;
    }
    case LLVMMul: return lesser(WORD, low_zeros(a, deep - 1) + low_zeros(c, deep - 1));
    case LLVMShl:
        return is_constant(c, &number) && number < WORD
                   ? lesser(WORD, low_zeros(a, deep - 1) + (int)number)
                   : 0;
    case LLVMZExt:
    case LLVMSExt:
    case LLVMTrunc: return low_zeros(a, deep - 1);
    default: return 0;
    }
}

int scalar_low_zeros(LLVMValueRef value)
{
    return low_zeros(value, DEEP);
}

/* value + k, for which it stands. */
static bool is_sum(LLVMValueRef sum, LLVMValueRef *value, uint64_t *k)
{
    if (!LLVMIsAInstruction(sum) || LLVMGetInstructionOpcode(sum) != LLVMAdd ||
        !is_constant(LLVMGetOperand(sum, 1), k)) {
        return false;
    }
    *value = LLVMGetOperand(sum, 0);
    return true;
}

/* base + k, whose low `bits` bits are k's: those of base are 0. */
static bool split(Llvm *l, LLVMValueRef sum, int bits, LLVMValueRef *base, uint64_t *k)
{
    LLVMValueRef inner;
    *base = sum;
    *k = 0;
    bool plain = is_sum(sum, base, k);
    if (!plain && LLVMIsAInstruction(sum) && LLVMGetInstructionOpcode(sum) == LLVMAdd &&
        is_sum(LLVMGetOperand(sum, 1), &inner, k)) { /* a + (inner + k) */
        LLVMValueRef a = LLVMGetOperand(sum, 0);
        if (low_zeros(a, DEEP) < bits || low_zeros(inner, DEEP) < bits) {
            return false;
        }
        *base = LLVMBuildAdd(l->builder, a, inner, "");
    }
    return low_zeros(*base, DEEP) >= bits;
}

/* Such a sum with `bits` zeros for the low bits of k. It does not wrap where the sum did not. */
static LLVMValueRef cleared(Llvm *l, LLVMValueRef base, uint64_t k, int bits)
{
    uint64_t high = k >> bits << bits;
    LLVMValueRef rest = LLVMConstInt(LLVMTypeOf(base), high, false);
    return high ? LLVMBuildAdd(l->builder, base, rest, "") : base;
}

LLVMValueRef scalar_shift_right(Llvm *l, bool arithmetic, LLVMValueRef a, LLVMValueRef by)
{
    uint64_t bits, k;
    LLVMValueRef base;
    if (is_constant(by, &bits) && bits > 0 && split(l, a, (int)bits, &base, &k)) {
        a = cleared(l, base, k, (int)bits);
    }
    return arithmetic ? LLVMBuildAShr(l->builder, a, by, "") : LLVMBuildLShr(l->builder, a, by, "");
}

LLVMValueRef scalar_and(Llvm *l, LLVMValueRef a, LLVMValueRef mask)
{
    uint64_t number, k;
    LLVMValueRef base;
    if (is_constant(mask, &number) && number >> (WORD - 1) == 0 &&
        split(l, a, WORD - __builtin_clzll(number | 1), &base, &k)) {
        return LLVMConstInt(LLVMTypeOf(a), k & number, false);
    }
    return LLVMBuildAnd(l->builder, a, mask, "");
}
