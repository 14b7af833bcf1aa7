/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of OCP 8-bit floats by integer arithmetic on vectors of any length, with the
 * algorithm of dtype.c. LLVM's own type for e4m3 is not supported on all targets. */
#include "codegen/scalar/scalar_ops.h"

typedef struct Format8 {
    int mantissa, bias;
    int most; /* the largest number; what follows is infinity or NaN */
} Format8;

static Format8 format_of(DType dtype)
{
    return dtype == DT_F8E4M3 ? (Format8){3, 7, 0x7e} : (Format8){2, 15, 0x7b};
}

static LLVMValueRef as_f32(Llvm *l, LLVMValueRef bits)
{
    return LLVMBuildBitCast(l->builder, bits, llvm_like(l->f32, LLVMTypeOf(bits)), "");
}

static LLVMValueRef as_i32(Llvm *l, LLVMValueRef value)
{
    return LLVMBuildBitCast(l->builder, value, llvm_like(l->i32, LLVMTypeOf(value)), "");
}

/* Shifted to f32's place and scaled by a power of two, exactly, subnormals included. */
LLVMValueRef scalar_f8_to_f32(Llvm *l, LLVMValueRef a, DType from)
{
    LLVMBuilderRef b = l->builder;
    Format8 format = format_of(from);
    LLVMTypeRef type = llvm_like(l->i32, LLVMTypeOf(a));
    LLVMValueRef bits = LLVMBuildZExt(b, a, type, "");
    LLVMValueRef sign = LLVMBuildAnd(b, bits, llvm_int(type, 0x80), "");
    sign = LLVMBuildShl(b, sign, llvm_int(type, 24), "");
    LLVMValueRef magnitude = LLVMBuildAnd(b, bits, llvm_int(type, 0x7f), "");
    LLVMValueRef placed = LLVMBuildShl(b, magnitude, llvm_int(type, 23 - format.mantissa), "");
    LLVMValueRef small = as_f32(l, placed);
    double scale = format.bias == 15 ? 0x1p112 : 0x1p120;
    LLVMValueRef number = LLVMBuildFMul(b, small, llvm_float(LLVMTypeOf(small), scale), "");
    LLVMValueRef special = LLVMBuildICmp(b, LLVMIntUGT, magnitude, llvm_int(type, format.most), "");
    LLVMValueRef top = llvm_int(type, 0x7fc00000);
    if (format.bias == 15) {
        LLVMValueRef infinite = LLVMBuildICmp(b, LLVMIntEQ, magnitude, llvm_int(type, 0x7c), "");
        top = LLVMBuildSelect(b, infinite, llvm_int(type, 0x7f800000), top, "");
    }
    LLVMValueRef kept = LLVMBuildSelect(b, special, top, as_i32(l, number), "");
    return as_f32(l, LLVMBuildOr(b, kept, sign, ""));
}

/* Two at once, in the halves of a word: f8e5m2 is the upper byte of an f16; f8e4m3's exponent and
 * mantissa go a bit lower, for a number that is 2^-8 of it, subnormals included. */
void scalar_f8_pair_to_f16(Llvm *l, LLVMValueRef *a, LLVMValueRef *c, DType from)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef pair = llvm_lanes(l->f16, 2);
    LLVMValueRef low = LLVMBuildShl(b, LLVMBuildZExt(b, *a, l->i32, ""), llvm_i32(l, 8), "");
    LLVMValueRef high = LLVMBuildShl(b, LLVMBuildZExt(b, *c, l->i32, ""), llvm_i32(l, 24), "");
    LLVMValueRef bits = LLVMBuildOr(b, low, high, ""), both;
    if (from == DT_F8E5M2) {
        both = LLVMBuildBitCast(b, bits, pair, "");
    } else {
        LLVMValueRef magnitude = LLVMBuildAnd(b, bits, llvm_i32(l, 0x7f007f00), "");
        LLVMValueRef sign = LLVMBuildAnd(b, bits, llvm_i32(l, (int32_t)0x80008000), "");
        LLVMValueRef small = LLVMBuildLShr(b, magnitude, llvm_i32(l, 1), "");
        LLVMValueRef number =
            LLVMBuildFMul(b, LLVMBuildBitCast(b, small, pair, ""), llvm_float(pair, 256), "");
        /* A NaN's magnitude is all ones: one more carries into the sign's place. */
        LLVMValueRef carry = LLVMBuildAdd(b, magnitude, llvm_i32(l, 0x01000100), "");
        carry = LLVMBuildAnd(b, carry, llvm_i32(l, (int32_t)0x80008000), "");
        LLVMValueRef nan = LLVMBuildSub(b, carry, LLVMBuildLShr(b, carry, llvm_i32(l, 15), ""), "");
        LLVMValueRef kept = LLVMBuildOr(b, LLVMBuildBitCast(b, number, l->i32, ""), sign, "");
        both = LLVMBuildBitCast(b, LLVMBuildOr(b, kept, nan, ""), pair, "");
    }
    *a = LLVMBuildExtractElement(b, both, llvm_i32(l, 0), "");
    *c = LLVMBuildExtractElement(b, both, llvm_i32(l, 1), "");
}

/* A magnitude below the smallest normal number: adding the power of two whose last place is the
 * smallest number rounds there. */
static LLVMValueRef tiny_to_f8(Llvm *l, Format8 format, LLVMValueRef magnitude)
{
    LLVMTypeRef type = LLVMTypeOf(magnitude);
    int64_t anchor = (int64_t)(128 - format.bias + 23 - format.mantissa) << 23;
    LLVMValueRef at = llvm_int(type, anchor);
    LLVMValueRef sum = LLVMBuildFAdd(l->builder, as_f32(l, magnitude), as_f32(l, at), "");
    return LLVMBuildSub(l->builder, as_i32(l, sum), at, "");
}

static LLVMValueRef normal_to_f8(Llvm *l, Format8 format, LLVMValueRef magnitude)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(magnitude);
    int shift = 23 - format.mantissa;
    LLVMValueRef by = llvm_int(type, shift);
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, magnitude, by, ""), llvm_int(type, 1), "");
    LLVMValueRef half = llvm_int(type, (INT64_C(1) << (shift - 1)) - 1);
    LLVMValueRef sum = LLVMBuildAdd(b, LLVMBuildAdd(b, magnitude, half, ""), odd, "");
    LLVMValueRef rounded = LLVMBuildLShr(b, sum, by, "");
    return LLVMBuildSub(b, rounded, llvm_int(type, (127 - format.bias) << format.mantissa), "");
}

LLVMValueRef scalar_f32_to_f8(Llvm *l, LLVMValueRef a, DType to)
{
    LLVMBuilderRef b = l->builder;
    Format8 format = format_of(to);
    LLVMValueRef bits = as_i32(l, a);
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef magnitude = LLVMBuildAnd(b, bits, llvm_int(type, 0x7fffffff), "");
    LLVMValueRef normal = llvm_int(type, (int64_t)(128 - format.bias) << 23);
    LLVMValueRef tiny = LLVMBuildICmp(b, LLVMIntULT, magnitude, normal, "");
    LLVMValueRef rounded = LLVMBuildSelect(b, tiny, tiny_to_f8(l, format, magnitude),
                                           normal_to_f8(l, format, magnitude), "");
    LLVMValueRef most = llvm_int(type, format.most);
    LLVMValueRef huge = LLVMBuildICmp(b, LLVMIntUGT, rounded, most, "");
    rounded = LLVMBuildSelect(b, huge, most, rounded, "");
    LLVMValueRef sign = LLVMBuildLShr(b, bits, llvm_int(type, 24), "");
    sign = LLVMBuildAnd(b, sign, llvm_int(type, 0x80), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, a, a, "");
    LLVMValueRef whole = LLVMBuildOr(b, rounded, sign, "");
    whole = LLVMBuildSelect(b, nan, llvm_int(type, 0x7f), whole, "");
    return LLVMBuildTrunc(b, whole, llvm_like(l->i8, type), "");
}
