/* SPDX-License-Identifier: Apache-2.0 */
/* Casts, fma and the approximate exp2. x86 before AVX-512 converts to bf16 by a library call, and
 * the newer instruction flushes subnormals, so the CPU rounds by integer arithmetic; f16 and fma
 * are emulated on processors that lack them. */
#include "codegen/scalar/scalar_ops.h"

static LLVMValueRef bits_of(Llvm *l, LLVMTypeRef integer, LLVMValueRef a)
{
    return LLVMBuildBitCast(l->builder, a, llvm_like(integer, LLVMTypeOf(a)), "");
}

static LLVMValueRef as_type(Llvm *l, LLVMTypeRef element, LLVMValueRef bits)
{
    return LLVMBuildBitCast(l->builder, bits, llvm_like(element, LLVMTypeOf(bits)), "");
}

static LLVMValueRef narrow(Llvm *l, LLVMTypeRef element, LLVMValueRef a)
{
    return LLVMBuildTrunc(l->builder, a, llvm_like(element, LLVMTypeOf(a)), "");
}

static LLVMValueRef widen(Llvm *l, LLVMTypeRef element, LLVMValueRef a)
{
    return LLVMBuildZExt(l->builder, a, llvm_like(element, LLVMTypeOf(a)), "");
}

static LLVMValueRef choose(Llvm *l, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildSelect(l->builder, condition, a, c, "");
}

static LLVMValueRef is_nan(Llvm *l, LLVMValueRef a)
{
    return LLVMBuildFCmp(l->builder, LLVMRealUNO, a, a, "");
}

/* ---- bf16 ---- */

/* bits + 0x7fff + the last kept bit, then the upper half: to nearest even. */
static LLVMValueRef f32_to_bf16_bits(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef bits = bits_of(l, l->i32, a);
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef sixteen = llvm_int(type, 16);
    LLVMValueRef high = LLVMBuildLShr(b, bits, sixteen, "");
    LLVMValueRef odd = LLVMBuildAnd(b, high, llvm_int(type, 1), "");
    LLVMValueRef bias = LLVMBuildAdd(b, odd, llvm_int(type, 0x7fff), "");
    LLVMValueRef rounded = LLVMBuildLShr(b, LLVMBuildAdd(b, bits, bias, ""), sixteen, "");
    LLVMValueRef quiet = LLVMBuildOr(b, high, llvm_int(type, 0x40), "");
    LLVMValueRef kept = choose(l, is_nan(l, a), quiet, rounded);
    return narrow(l, l->i16, kept);
}

/* ---- f16 without instructions for it ---- */

/* Scaling by a power of two puts the exponent right, subnormals included; inf and NaN on top. */
static LLVMValueRef f16_to_f32_bits(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef half = widen(l, l->i32, a);
    LLVMTypeRef type = LLVMTypeOf(half);
    LLVMValueRef sign = LLVMBuildAnd(b, half, llvm_int(type, 0x8000), "");
    sign = LLVMBuildShl(b, sign, llvm_int(type, 16), "");
    LLVMValueRef rest = LLVMBuildAnd(b, half, llvm_int(type, 0x7fff), "");
    LLVMValueRef special = LLVMBuildICmp(b, LLVMIntUGE, rest, llvm_int(type, 0x7c00), "");
    LLVMValueRef placed = LLVMBuildShl(b, rest, llvm_int(type, 13), "");
    LLVMValueRef small = as_type(l, l->f32, placed);
    LLVMValueRef scaled = LLVMBuildFMul(b, small, llvm_float(LLVMTypeOf(small), 0x1p112), "");
    LLVMValueRef top = LLVMBuildOr(b, placed, llvm_int(type, 0x7f800000), "");
    LLVMValueRef bits = choose(l, special, top, bits_of(l, l->i32, scaled));
    return as_type(l, l->f32, LLVMBuildOr(b, bits, sign, ""));
}

/* f16 bits of a magnitude below 2^-14: adding 0.5 makes f32's own rounding cut at the right bit. */
static LLVMValueRef f16_subnormal(Llvm *l, LLVMValueRef magnitude)
{
    LLVMValueRef value = as_type(l, l->f32, magnitude);
    LLVMValueRef sum = LLVMBuildFAdd(l->builder, value, llvm_float(LLVMTypeOf(value), 0.5), "");
    LLVMValueRef bits = bits_of(l, l->i32, sum);
    return LLVMBuildSub(l->builder, bits, llvm_int(LLVMTypeOf(bits), 0x3f000000), "");
}

/* f16 bits of a normal magnitude: rebias by 112, round at bit 13 to even. */
static LLVMValueRef f16_normal(Llvm *l, LLVMValueRef magnitude)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(magnitude);
    LLVMValueRef thirteen = llvm_int(type, 13);
    LLVMValueRef odd = LLVMBuildLShr(b, magnitude, thirteen, "");
    odd = LLVMBuildAnd(b, odd, llvm_int(type, 1), "");
    LLVMValueRef moved = LLVMBuildAdd(b, magnitude, llvm_int(type, 0xfff - 0x38000000), "");
    return LLVMBuildLShr(b, LLVMBuildAdd(b, moved, odd, ""), thirteen, "");
}

static LLVMValueRef f32_to_f16_bits(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef bits = bits_of(l, l->i32, a);
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef sign = LLVMBuildLShr(b, bits, llvm_int(type, 16), "");
    sign = LLVMBuildAnd(b, sign, llvm_int(type, 0x8000), "");
    LLVMValueRef magnitude = LLVMBuildAnd(b, bits, llvm_int(type, 0x7fffffff), "");
    LLVMValueRef tiny = LLVMBuildICmp(b, LLVMIntULT, magnitude, llvm_int(type, 0x38800000), "");
    LLVMValueRef huge = LLVMBuildICmp(b, LLVMIntUGE, magnitude, llvm_int(type, 0x47800000), "");
    LLVMValueRef payload = LLVMBuildLShr(b, magnitude, llvm_int(type, 13), "");
    payload = LLVMBuildAnd(b, payload, llvm_int(type, 0x3ff), "");
    payload = LLVMBuildOr(b, payload, llvm_int(type, 0x7e00), "");
    LLVMValueRef top = choose(l, is_nan(l, a), payload, llvm_int(type, 0x7c00));
    LLVMValueRef half = choose(l, tiny, f16_subnormal(l, magnitude), f16_normal(l, magnitude));
    half = LLVMBuildOr(b, choose(l, huge, top, half), sign, "");
    return narrow(l, l->i16, half);
}

/* ---- float to float ---- */

/* f64 to f32, inexact results to the odd neighbour: a second rounding is then as good as one.
 * `excess` has the sign of (true value - nearest) for callers that know more than `a` holds. */
static LLVMValueRef step_to_odd(Llvm *l, LLVMTypeRef integer, LLVMValueRef nearest,
                                LLVMValueRef inexact, LLVMValueRef outward)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef bits = bits_of(l, integer, nearest);
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef last = LLVMBuildAnd(b, bits, llvm_int(type, 1), "");
    LLVMValueRef even = LLVMBuildICmp(b, LLVMIntEQ, last, llvm_int(type, 0), "");
    LLVMValueRef step = choose(l, outward, llvm_int(type, 1), llvm_int(type, -1));
    LLVMValueRef moved = LLVMBuildAdd(b, bits, step, "");
    LLVMValueRef odd = choose(l, LLVMBuildAnd(b, inexact, even, ""), moved, bits);
    return as_type(l, llvm_element(LLVMTypeOf(nearest)), odd);
}

static LLVMValueRef f64_to_f32_odd(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef nearest = LLVMBuildFPTrunc(b, a, llvm_like(l->f32, type), "");
    LLVMValueRef back = LLVMBuildFPExt(b, nearest, type, "");
    LLVMValueRef inexact = LLVMBuildFCmp(b, LLVMRealONE, a, back, "");
    LLVMValueRef outward = LLVMBuildFCmp(b, LLVMRealOGT, llvm_call1(l, "llvm.fabs", a),
                                         llvm_call1(l, "llvm.fabs", back), "");
    return step_to_odd(l, l->i32, nearest, inexact, outward);
}

static bool on_cpu(const Llvm *l)
{
    return l->target->family == FAMILY_CPU;
}

static LLVMValueRef to_f32(Llvm *l, LLVMValueRef a, DType from)
{
    if (dtype_bits(from) == 8) {
        return scalar_f8_to_f32(l, a, from);
    }
    if (from == DT_BF16 && on_cpu(l)) {
        LLVMValueRef wide = widen(l, l->i32, a);
        LLVMValueRef moved = LLVMBuildShl(l->builder, wide, llvm_int(LLVMTypeOf(wide), 16), "");
        return as_type(l, l->f32, moved);
    }
    if (from == DT_F16 && !l->has_f16) {
        return f16_to_f32_bits(l, a);
    }
    if (on_cpu(l)) {
        a = as_type(l, l->f16, a);
    }
    return LLVMBuildFPExt(l->builder, a, llvm_like(l->f32, LLVMTypeOf(a)), "");
}

static LLVMValueRef from_f32(Llvm *l, LLVMValueRef a, DType to)
{
    if (dtype_bits(to) == 8) {
        return scalar_f32_to_f8(l, a, to);
    }
    if (to == DT_BF16 && on_cpu(l)) {
        return f32_to_bf16_bits(l, a);
    }
    if (to == DT_F16 && !l->has_f16) {
        return f32_to_f16_bits(l, a);
    }
    LLVMTypeRef type = to == DT_F16 ? l->f16 : l->bf16;
    LLVMValueRef half = LLVMBuildFPTrunc(l->builder, a, llvm_like(type, LLVMTypeOf(a)), "");
    return on_cpu(l) ? bits_of(l, l->i16, half) : half;
}

static LLVMValueRef float_to_float(Llvm *l, LLVMValueRef a, DType from, DType to)
{
    if (dtype_is_narrow(from)) {
        return float_to_float(l, to_f32(l, a, from), DT_F32, to);
    }
    if (from == to) {
        return a;
    }
    if (to == DT_F64) {
        return LLVMBuildFPExt(l->builder, a, llvm_like(l->f64, LLVMTypeOf(a)), "");
    }
    if (to == DT_F32) {
        return LLVMBuildFPTrunc(l->builder, a, llvm_like(l->f32, LLVMTypeOf(a)), "");
    }
    return from_f32(l, from == DT_F64 ? f64_to_f32_odd(l, a) : a, to);
}

/* ---- integers ---- */

static LLVMValueRef to_bool(Llvm *l, LLVMValueRef a, DType from)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    if (dtype_is_float(from)) {
        return LLVMBuildFCmp(l->builder, LLVMRealUNE, a, llvm_float(type, 0.0), "");
    }
    return LLVMBuildICmp(l->builder, LLVMIntNE, a, llvm_int(type, 0), "");
}

/* Floats to integers of 64 bits on CPUs. LLVM splits its saturating conversion of a vector into
 * scalars. The plain conversion is one instruction, but its operand must be clamped first. */
static LLVMValueRef float_to_wide_int(Llvm *l, LLVMValueRef a, DType to)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef from = LLVMTypeOf(a), type = llvm_like(l->i64, from);
    bool with_sign = dtype_is_signed(to);
    LLVMValueRef end = llvm_float(from, with_sign ? 0x1p63 : 0x1p64);
    LLVMValueRef low = llvm_float(from, with_sign ? -0x1p63 : 0.0);
    LLVMValueRef below = LLVMBuildFCmp(b, LLVMRealOLT, a, low, "");
    LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGE, a, end, "");
    LLVMValueRef reaches = LLVMBuildFCmp(b, LLVMRealOGE, a, low, "");
    LLVMValueRef fits = LLVMBuildAnd(b, reaches, LLVMBuildFCmp(b, LLVMRealOLT, a, end, ""), "");
    LLVMValueRef safe = choose(l, fits, a, llvm_float(from, 0.0));
    LLVMValueRef whole =
        with_sign ? LLVMBuildFPToSI(b, safe, type, "") : LLVMBuildFPToUI(b, safe, type, "");
    whole = choose(l, below, llvm_int(type, with_sign ? INT64_MIN : 0), whole);
    return choose(l, above, llvm_int(type, with_sign ? INT64_MAX : -1), whole);
}

/* PTX's instructions saturate by themselves, which LLVM does not count on; from f32 to 32 bits they
 * make NaN 0, too. NULL: other types, of which LLVM's own sequence takes no more registers. */
static LLVMValueRef float_to_int_ptx(Llvm *l, LLVMValueRef a, DType to)
{
    bool has = dtype_bits(to) == 32 && (LLVMTypeOf(a) == l->f32 || LLVMTypeOf(a) == l->f64);
    if (l->target->family != FAMILY_NVPTX || !has) {
        return NULL;
    }
    static const char *const names[2][2] = {{"llvm.nvvm.f2ui.rz", "llvm.nvvm.f2i.rz"},
                                            {"llvm.nvvm.d2ui.rz", "llvm.nvvm.d2i.rz"}};
    bool is_double = LLVMTypeOf(a) == l->f64;
    LLVMValueRef whole = llvm_intrinsic(l, names[is_double][dtype_is_signed(to)], 0, NULL, 1, &a);
    LLVMValueRef nan = LLVMBuildFCmp(l->builder, LLVMRealUNO, a, a, "");
    return is_double ? choose(l, nan, LLVMConstNull(LLVMTypeOf(whole)), whole) : whole;
}

static LLVMValueRef float_to_int(Llvm *l, LLVMValueRef a, DType from, DType to)
{
    LLVMValueRef wide = dtype_is_narrow(from) ? to_f32(l, a, from) : a;
    LLVMValueRef direct = float_to_int_ptx(l, wide, to);
    if (direct) {
        return direct;
    }
    if (on_cpu(l) && dtype_bits(to) == 64) {
        return float_to_wide_int(l, wide, to);
    }
    LLVMTypeRef types[2] = {llvm_like(llvm_type(l, to), LLVMTypeOf(wide)), LLVMTypeOf(wide)};
    const char *name = dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    return llvm_intrinsic(l, name, 2, types, 1, &wide);
}

/* 16-bit floats: i64 to f32 rounds to odd by way of f64 only up to 53 bits; wider integers have all
 * lost bits ORed into the last kept one first, which is the same. */
static LLVMValueRef sticky_f64(Llvm *l, LLVMValueRef a, bool is_signed)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(a), wide = llvm_like(l->f64, type);
    LLVMValueRef mask = llvm_int(type, 0x7ff);
    LLVMValueRef low = LLVMBuildAnd(b, a, mask, "");
    LLVMValueRef lost = LLVMBuildICmp(b, LLVMIntNE, low, llvm_int(type, 0), "");
    LLVMValueRef kept = LLVMBuildAnd(b, a, llvm_int(type, ~INT64_C(0x7ff)), "");
    LLVMValueRef sticky = LLVMBuildOr(b, kept, llvm_int(type, 0x800), "");
    LLVMValueRef magnitude = is_signed ? llvm_intrinsic(l, "llvm.abs", 1, &type, 2,
                                                        (LLVMValueRef[]){a, llvm_int(l->i1, 0)})
                                       : a;
    LLVMValueRef limit = llvm_int(type, INT64_C(1) << 53);
    LLVMValueRef big = LLVMBuildICmp(b, LLVMIntUGT, magnitude, limit, "");
    LLVMValueRef exact = choose(l, LLVMBuildAnd(b, big, lost, ""), sticky, a);
    return is_signed ? LLVMBuildSIToFP(b, exact, wide, "") : LLVMBuildUIToFP(b, exact, wide, "");
}

static LLVMValueRef int_to_float(Llvm *l, LLVMValueRef a, DType from, DType to)
{
    bool is_signed = dtype_is_signed(from);
    bool narrow_result = dtype_is_narrow(to);
    if (narrow_result && dtype_bits(from) == 64) {
        return float_to_float(l, sticky_f64(l, a, is_signed), DT_F64, to);
    }
    DType through = to;
    if (narrow_result) {
        through = dtype_bits(from) == 32 ? DT_F64 : DT_F32;
    }
    LLVMTypeRef type = llvm_like(llvm_type(l, through), LLVMTypeOf(a));
    LLVMValueRef value = is_signed ? LLVMBuildSIToFP(l->builder, a, type, "")
                                   : LLVMBuildUIToFP(l->builder, a, type, "");
    return float_to_float(l, value, through, to);
}

static LLVMValueRef int_to_int(Llvm *l, LLVMValueRef a, DType from, DType to)
{
    LLVMTypeRef type = llvm_like(llvm_type(l, to), LLVMTypeOf(a));
    if (dtype_bits(to) <= dtype_bits(from)) {
        return dtype_bits(to) == dtype_bits(from) ? a : LLVMBuildTrunc(l->builder, a, type, "");
    }
    return dtype_is_signed(from) ? LLVMBuildSExt(l->builder, a, type, "")
                                 : LLVMBuildZExt(l->builder, a, type, "");
}

LLVMValueRef scalar_cast(Llvm *l, LLVMValueRef a, DType from, DType to)
{
    if (from == to) {
        return a;
    }
    if (to == DT_BOOL) {
        return dtype_is_narrow(from) ? to_bool(l, to_f32(l, a, from), DT_F32) : to_bool(l, a, from);
    }
    if (dtype_is_float(from)) {
        return dtype_is_float(to) ? float_to_float(l, a, from, to) : float_to_int(l, a, from, to);
    }
    return dtype_is_float(to) ? int_to_float(l, a, from, to) : int_to_int(l, a, from, to);
}

/* ---- fma ---- */

/* f32: the product is exact in f64; the sum is rounded there to odd by its exact error (TwoSum),
 * then once to f32. */
static LLVMValueRef fma_f32_through_f64(Llvm *l, LLVMValueRef a, LLVMValueRef c, LLVMValueRef d)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef narrow_type = LLVMTypeOf(a), type = llvm_like(l->f64, narrow_type);
    LLVMValueRef p =
        LLVMBuildFMul(b, LLVMBuildFPExt(b, a, type, ""), LLVMBuildFPExt(b, c, type, ""), "");
    LLVMValueRef q = LLVMBuildFPExt(b, d, type, "");
    LLVMValueRef sum = LLVMBuildFAdd(b, p, q, "");
    LLVMValueRef part = LLVMBuildFSub(b, sum, p, "");
    LLVMValueRef error_p = LLVMBuildFSub(b, p, LLVMBuildFSub(b, sum, part, ""), "");
    LLVMValueRef error = LLVMBuildFAdd(b, error_p, LLVMBuildFSub(b, q, part, ""), "");
    LLVMValueRef zero = llvm_float(type, 0.0);
    LLVMValueRef inexact = LLVMBuildFCmp(b, LLVMRealONE, error, zero, "");
    LLVMValueRef up = LLVMBuildFCmp(b, LLVMRealOGT, error, zero, "");
    LLVMValueRef positive = LLVMBuildFCmp(b, LLVMRealOGT, sum, zero, "");
    LLVMValueRef inward = LLVMBuildXor(b, up, positive, "");
    LLVMValueRef odd = step_to_odd(l, l->i64, sum, inexact, LLVMBuildNot(b, inward, ""));
    return LLVMBuildFPTrunc(b, odd, narrow_type, "");
}

LLVMValueRef scalar_fma(Llvm *l, DType dtype, LLVMValueRef a, LLVMValueRef c, LLVMValueRef d)
{
    if (!dtype_is_float(dtype)) {
        return LLVMBuildAdd(l->builder, LLVMBuildMul(l->builder, a, c, ""), d, "");
    }
    if (!l->has_fma && dtype == DT_F32) {
        return fma_f32_through_f64(l, a, c, d);
    }
    return llvm_call3(l, "llvm.fma", a, c, d);
}

/* ---- exp2 ---- */

/* Minimax for 2^f on [-1/2, 1/2]; relative error 2^-23.6 when evaluated in f32 by fma. */
static const double EXP2_POLYNOMIAL[] = {
    0x1.41d334p-13, 0x1.5f456ap-10, 0x1.3b2dbcp-7, 0x1.c6aed4p-5, 0x1.ebfbdap-3, 0x1.62e43p-1, 1.0};

static LLVMValueRef exp2_fraction(Llvm *l, LLVMValueRef f)
{
    LLVMTypeRef type = LLVMTypeOf(f);
    LLVMValueRef sum = llvm_float(type, EXP2_POLYNOMIAL[0]);
    for (size_t i = 1; i < sizeof EXP2_POLYNOMIAL / sizeof *EXP2_POLYNOMIAL; i++) {
        sum = scalar_fma(l, DT_F32, sum, f, llvm_float(type, EXP2_POLYNOMIAL[i]));
    }
    return sum;
}

LLVMValueRef scalar_exp2(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(a), ints = llvm_like(l->i32, type);
    LLVMValueRef low = llvm_float(type, -126.0), high = llvm_float(type, 128.0);
    LLVMValueRef small = LLVMBuildFCmp(b, LLVMRealOLT, a, low, "");
    LLVMValueRef large = LLVMBuildFCmp(b, LLVMRealOGE, a, high, "");
    LLVMValueRef x = choose(l, LLVMBuildFCmp(b, LLVMRealOLT, a, high, ""), a, high); /* NaN: high */
    x = choose(l, small, low, x);
    LLVMValueRef n = llvm_call1(l, "llvm.rint", x);
    LLVMValueRef p = exp2_fraction(l, LLVMBuildFSub(b, x, n, ""));
    LLVMValueRef power = LLVMBuildShl(b, LLVMBuildFPToSI(b, n, ints, ""), llvm_int(ints, 23), "");
    LLVMValueRef bits = LLVMBuildAdd(b, bits_of(l, l->i32, p), power, "");
    LLVMValueRef r = as_type(l, l->f32, bits);
    r = choose(l, small, llvm_float(type, 0.0), r);
    r = choose(l, large, llvm_float(type, __builtin_inf()), r);
    return choose(l, is_nan(l, a), a, r);
}
