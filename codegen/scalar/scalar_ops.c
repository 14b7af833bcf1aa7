/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops except casts and similar ops (scalar_cast.c). LLVM leaves cases undefined that
 * the IR defines (division by zero, wide shifts, minimum // -1); the selects here implement those.
 */
#include "codegen/scalar/scalar_ops.h"

#include "codegen/scalar/scalar_known_bits.h"

static LLVMValueRef choose(Llvm *l, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildSelect(l->builder, condition, a, c, "");
}

static LLVMValueRef compare(Llvm *l, LLVMIntPredicate pred, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildICmp(l->builder, pred, a, c, "");
}

/* ---- integer division ---- */

typedef struct Division {
    LLVMValueRef quotient, remainder; /* floored; 0 where the divisor is 0 */
} Division;

static Division divide_unsigned(Llvm *l, LLVMValueRef a, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef none = compare(l, LLVMIntEQ, c, llvm_int(type, 0));
    LLVMValueRef by = choose(l, none, llvm_int(type, 1), c);
    return (Division){choose(l, none, llvm_int(type, 0), LLVMBuildUDiv(l->builder, a, by, "")),
                      choose(l, none, llvm_int(type, 0), LLVMBuildURem(l->builder, a, by, ""))};
}

static bool is_power_of_two(int64_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

/* Bits, of which LLVM knows what they are where the dividend is a multiple and a number. */
static Division divide_by_power(Llvm *l, LLVMValueRef a, int64_t by)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef shift = llvm_int(type, __builtin_ctzll((unsigned long long)by));
    return (Division){scalar_shift_right(l, true, a, shift),
                      scalar_and(l, a, llvm_int(type, by - 1))};
}

/* Dividing by 0 or -1 is done as by 1: the first is 0, the second the negated (wrapping). */
static Division divide_signed(Llvm *l, LLVMValueRef a, LLVMValueRef c)
{
    if (LLVMIsAConstantInt(c) && is_power_of_two(LLVMConstIntGetSExtValue(c))) {
        return divide_by_power(l, a, LLVMConstIntGetSExtValue(c));
    }
    if (LLVMIsAConstantInt(c) && LLVMConstIntGetSExtValue(c) > 0) {
        LLVMBuilderRef b = l->builder;
        LLVMTypeRef type = LLVMTypeOf(a);
        LLVMValueRef quotient = LLVMBuildSDiv(b, a, c, ""), rest = LLVMBuildSRem(b, a, c, "");
        LLVMValueRef down = compare(l, LLVMIntSLT, rest, llvm_int(type, 0));
        return (Division){
            choose(l, down, LLVMBuildAdd(b, quotient, llvm_int(type, -1), ""), quotient),
            choose(l, down, LLVMBuildAdd(b, rest, c, ""), rest)};
    }
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = llvm_int(type, 0), one = llvm_int(type, 1), minus = llvm_int(type, -1);
    LLVMValueRef none = compare(l, LLVMIntEQ, c, zero), negates = compare(l, LLVMIntEQ, c, minus);
    LLVMValueRef by = choose(l, LLVMBuildOr(b, none, negates, ""), one, c);
    LLVMValueRef quotient = LLVMBuildSDiv(b, a, by, "");
    LLVMValueRef rest = LLVMBuildSub(b, a, LLVMBuildMul(b, quotient, by, ""), "");
    LLVMValueRef differs = compare(l, LLVMIntSLT, LLVMBuildXor(b, rest, by, ""), zero);
    LLVMValueRef inexact = compare(l, LLVMIntNE, rest, zero);
    LLVMValueRef down = LLVMBuildAnd(b, differs, inexact, "");
    quotient = choose(l, down, LLVMBuildAdd(b, quotient, minus, ""), quotient);
    quotient = choose(l, negates, LLVMBuildSub(b, zero, a, ""), quotient);
    rest = choose(l, down, LLVMBuildAdd(b, rest, by, ""), rest);
    return (Division){choose(l, none, zero, quotient), choose(l, none, zero, rest)};
}

static Division divide(Llvm *l, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    return dtype_is_signed(dtype) ? divide_signed(l, a, c) : divide_unsigned(l, a, c);
}

/* ---- shifts ---- */

static LLVMValueRef shift(Llvm *l, OpKind kind, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef most = llvm_int(type, dtype_bits(dtype) - 1);
    LLVMValueRef wide = compare(l, LLVMIntUGT, c, most);
    if (kind == OP_SHR && dtype_is_signed(dtype)) {
        return scalar_shift_right(l, true, a, choose(l, wide, most, c));
    }
    LLVMValueRef by = choose(l, wide, llvm_int(type, 0), c);
    LLVMValueRef moved =
        kind == OP_SHL ? LLVMBuildShl(b, a, by, "") : scalar_shift_right(l, false, a, by);
    return choose(l, wide, llvm_int(type, 0), moved);
}

/* ---- comparisons ---- */

typedef struct Predicate {
    const char *name;
    LLVMRealPredicate real;
    LLVMIntPredicate with_sign, without;
} Predicate;

static const Predicate PREDICATES[] = {
    {"eq", LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ},   {"ne", LLVMRealUNE, LLVMIntNE, LLVMIntNE},
    {"lt", LLVMRealOLT, LLVMIntSLT, LLVMIntULT}, {"le", LLVMRealOLE, LLVMIntSLE, LLVMIntULE},
    {"gt", LLVMRealOGT, LLVMIntSGT, LLVMIntUGT}, {"ge", LLVMRealOGE, LLVMIntSGE, LLVMIntUGE},
};

static LLVMValueRef emit_cmp(Llvm *l, const char *pred, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    for (size_t i = 0; i < sizeof PREDICATES / sizeof *PREDICATES; i++) {
        const Predicate *p = &PREDICATES[i];
        if (!pred || !text_equal(p->name, pred)) {
            continue;
        }
        if (dtype_is_float(dtype)) {
            return LLVMBuildFCmp(l->builder, p->real, a, c, "");
        }
        return compare(l, dtype_is_signed(dtype) ? p->with_sign : p->without, a, c);
    }
    diag_bug(l->diags, "cmp has no predicate '%s'", pred ? pred : "");
}

static LLVMValueRef extreme(Llvm *l, bool most, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    if (dtype_is_float(dtype)) {
        return llvm_call2(l, most ? "llvm.maximum" : "llvm.minimum", a, c);
    }
    if (dtype_is_signed(dtype)) {
        return llvm_call2(l, most ? "llvm.smax" : "llvm.smin", a, c);
    }
    return llvm_call2(l, most ? "llvm.umax" : "llvm.umin", a, c);
}

/* ---- arithmetic ---- */

static LLVMValueRef emit_float_binary(Llvm *l, OpKind kind, LLVMValueRef a, LLVMValueRef c)
{
    switch (kind) {
    case OP_ADD: return LLVMBuildFAdd(l->builder, a, c, "");
    case OP_SUB: return LLVMBuildFSub(l->builder, a, c, "");
    case OP_MUL: return LLVMBuildFMul(l->builder, a, c, "");
    case OP_DIV: return LLVMBuildFDiv(l->builder, a, c, "");
    case OP_MOD: return scalar_mod(l, a, c);
    default: diag_bug(l->diags, "no code for %s on floats", op_info(kind)->name);
    }
}

static LLVMValueRef emit_int_binary(Llvm *l, OpKind kind, DType dtype, LLVMValueRef a,
                                    LLVMValueRef c)
{
    switch (kind) {
    case OP_ADD: return LLVMBuildAdd(l->builder, a, c, "");
    case OP_SUB: return LLVMBuildSub(l->builder, a, c, "");
    case OP_MUL: return LLVMBuildMul(l->builder, a, c, "");
    case OP_DIV: return divide(l, dtype, a, c).quotient;
    case OP_MOD: return divide(l, dtype, a, c).remainder;
    default: diag_bug(l->diags, "no code for %s on integers", op_info(kind)->name);
    }
}

static LLVMValueRef emit_binary(Llvm *l, OpKind kind, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    switch (kind) {
    case OP_MIN: return extreme(l, false, dtype, a, c);
    case OP_MAX: return extreme(l, true, dtype, a, c);
    case OP_AND: return scalar_and(l, a, c);
    case OP_OR: return LLVMBuildOr(l->builder, a, c, "");
    case OP_XOR: return LLVMBuildXor(l->builder, a, c, "");
    case OP_SHL:
    case OP_SHR: return shift(l, kind, dtype, a, c);
    default: break;
    }
    return dtype_is_float(dtype) ? emit_float_binary(l, kind, a, c)
                                 : emit_int_binary(l, kind, dtype, a, c);
}

static LLVMValueRef emit_abs(Llvm *l, DType dtype, LLVMValueRef a)
{
    if (dtype_is_float(dtype)) {
        return llvm_call1(l, "llvm.fabs", a);
    }
    if (!dtype_is_signed(dtype)) {
        return a;
    }
    LLVMTypeRef type = LLVMTypeOf(a); /* the flag: the least value is no poison but wraps */
    return llvm_intrinsic(l, "llvm.abs", 1, &type, 2, (LLVMValueRef[]){a, llvm_int(l->i1, 0)});
}

static LLVMValueRef emit_round(Llvm *l, const char *name, DType dtype, LLVMValueRef a)
{
    return dtype_is_float(dtype) ? llvm_call1(l, name, a) : a;
}

/* To nearest even; what is not finite stays. */
static LLVMValueRef emit_tf32(Llvm *l, LLVMValueRef a)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = llvm_like(l->i32, LLVMTypeOf(a));
    LLVMValueRef bits = LLVMBuildBitCast(b, a, type, "");
    LLVMValueRef odd = LLVMBuildLShr(b, bits, llvm_int(type, 13), "");
    odd = LLVMBuildAnd(b, odd, llvm_int(type, 1), "");
    LLVMValueRef up = LLVMBuildAdd(b, LLVMBuildAdd(b, bits, llvm_int(type, 0xfff), ""), odd, "");
    up = LLVMBuildAnd(b, up, llvm_int(type, ~INT64_C(0x1fff)), "");
    LLVMValueRef size = LLVMBuildAnd(b, bits, llvm_int(type, 0x7fffffff), "");
    LLVMValueRef finite = LLVMBuildICmp(b, LLVMIntULT, size, llvm_int(type, 0x7f800000), "");
    up = LLVMBuildBitCast(b, up, LLVMTypeOf(a), "");
    return LLVMBuildSelect(b, finite, up, a, "");
}

static LLVMValueRef emit_unary(Llvm *l, OpKind kind, DType dtype, LLVMValueRef a)
{
    bool is_float = dtype_is_float(dtype);
    switch (kind) {
    case OP_NEG:
        return is_float ? LLVMBuildFNeg(l->builder, a, "") : LLVMBuildNeg(l->builder, a, "");
    case OP_ABS: return emit_abs(l, dtype, a);
    case OP_NOT: return LLVMBuildNot(l->builder, a, "");
    case OP_SQRT: return llvm_call1(l, "llvm.sqrt", a);
    case OP_FLOOR: return emit_round(l, "llvm.floor", dtype, a);
    case OP_CEIL: return emit_round(l, "llvm.ceil", dtype, a);
    case OP_TRUNC: return emit_round(l, "llvm.trunc", dtype, a);
    case OP_RINT: return emit_round(l, "llvm.rint", dtype, a);
    case OP_TF32: return emit_tf32(l, a);
    case OP_ISNAN:
        return is_float ? LLVMBuildFCmp(l->builder, LLVMRealUNO, a, a, "")
                        : llvm_int(llvm_like(l->i1, LLVMTypeOf(a)), 0);
    case OP_FAST_EXP2: return scalar_exp2(l, a);
    default: diag_bug(l->diags, "no code for %s", op_info(kind)->name);
    }
}

/* Narrow floats: in f32, which holds more than twice their bits: rounding again is right. */
static LLVMValueRef emit_widened(Llvm *l, OpKind kind, const char *pred, DType in, DType out,
                                 const LLVMValueRef *operands)
{
    LLVMValueRef wide[3];
    if (kind == OP_FMA) {
        diag_bug(l->diags, "fma of a narrow type");
    }
    for (int i = 0; i < op_info(kind)->operands; i++) {
        wide[i] = scalar_cast(l, operands[i], in, DT_F32);
    }
    bool is_flag = out == DT_BOOL;
    LLVMValueRef result = scalar_emit(l, kind, pred, DT_F32, is_flag ? out : DT_F32, wide);
    return is_flag ? result : scalar_cast(l, result, DT_F32, out);
}

LLVMValueRef scalar_emit(Llvm *l, OpKind kind, const char *pred, DType in, DType out,
                         const LLVMValueRef *operands)
{
    LLVMValueRef a = operands[0];
    switch (kind) {
    case OP_CAST: return scalar_cast(l, a, in, out);
    case OP_BITCAST:
        return LLVMBuildBitCast(l->builder, a, llvm_like(llvm_type(l, out), LLVMTypeOf(a)), "");
    case OP_SELECT: return choose(l, a, operands[1], operands[2]);
    case OP_REMAT:
    case OP_TO_STATIC: return a;
    default: break;
    }
    if (op_has_exact_operand(kind)) {
        return operands[1];
    }
    if (dtype_is_narrow(in)) {
        return emit_widened(l, kind, pred, in, out, operands);
    }
    switch (kind) {
    case OP_CMP: return emit_cmp(l, pred, in, a, operands[1]);
    case OP_FMA: return scalar_fma(l, in, a, operands[1], operands[2]);
    default: break;
    }
    return op_info(kind)->operands == 1 ? emit_unary(l, kind, in, a)
                                        : emit_binary(l, kind, in, a, operands[1]);
}

LLVMValueRef scalar_emit_op(Llvm *l, const Op *op, const LLVMValueRef *operands)
{
    int data = op->kind == OP_SELECT ? 1 : 0;
    DType in = op->operands[data]->type->dtype;
    in = op_int(op, ATTR_NONNEGATIVE, 0) ? dtype_unsigned(in) : in;
    return scalar_emit(l, op->kind, op_word(op, ATTR_PRED), in, op->results[0]->type->dtype,
                       operands);
}

/* ---- reductions ---- */

OpKind scalar_reduction(const Llvm *l, const Op *op)
{
    static const struct {
        const char *fn;
        OpKind kind;
    } ROWS[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"min", OP_MIN}};
    const char *fn = op_word(op, ATTR_FN);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (fn && text_equal(fn, ROWS[i].fn)) {
            return ROWS[i].kind;
        }
    }
    diag_bug(l->diags, "no reduction is called '%s'", fn ? fn : "");
}

LLVMValueRef scalar_combine(Llvm *l, OpKind reduction, DType dtype, LLVMValueRef a, LLVMValueRef c)
{
    return emit_binary(l, reduction, dtype, a, c);
}

LLVMValueRef scalar_neutral(OpKind reduction, DType dtype, LLVMTypeRef type)
{
    bool is_float = dtype_is_float(dtype);
    double infinity = __builtin_inf();
    switch (reduction) {
    case OP_MUL: return is_float ? llvm_float(type, 1) : llvm_int(type, 1);
    case OP_MAX: return is_float ? llvm_float(type, -infinity) : llvm_int(type, dtype_least(dtype));
    case OP_MIN: return is_float ? llvm_float(type, infinity) : llvm_int(type, ~dtype_least(dtype));
    default: return is_float ? llvm_float(type, 0) : llvm_int(type, 0);
    }
}
