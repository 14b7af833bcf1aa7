/* SPDX-License-Identifier: Apache-2.0 */
/* The remainder of floats, exact and without a library call. A float is an integer of 24 or 53
 * bits times a power of two, so the result is (m << n) mod d, computed in steps of as many bits as
 * fit into 64.
 *
 *     r = m mod d
 *     while n > 0: s = min(n, 64 - bits); r = (r << s) mod d; n -= s
 *
 * The result has the sign of the divisor. Each module has one such function per type, which is
 * called for each lane of a vector. */
#include "codegen/scalar/scalar_ops.h"

typedef struct Mod {
    Llvm *l;
    LLVMBuilderRef b;
    LLVMValueRef function;
    LLVMTypeRef real, word; /* f32 as i32, f64 as i64 */
    int bits, fraction;     /* of the type; of them below the exponent */
} Mod;

static LLVMValueRef word(const Mod *m, uint64_t value)
{
    return LLVMConstInt(m->word, value, false);
}

static LLVMValueRef wide(const Mod *m, uint64_t value)
{
    return LLVMConstInt(m->l->i64, value, false);
}

static LLVMValueRef is(const Mod *m, LLVMIntPredicate pred, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildICmp(m->b, pred, a, c, "");
}

static LLVMValueRef pick(const Mod *m, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildSelect(m->b, condition, a, c, "");
}

static LLVMValueRef smaller(const Mod *m, LLVMValueRef a, LLVMValueRef c)
{
    return pick(m, is(m, LLVMIntULT, a, c), a, c);
}

static uint64_t sign_bit(const Mod *m)
{
    return (uint64_t)1 << (m->bits - 1);
}

static uint64_t unit(const Mod *m)
{
    return (uint64_t)1 << m->fraction;
}

static uint64_t infinity(const Mod *m)
{
    return sign_bit(m) - unit(m);
}

/* A magnitude as mantissa * 2^(exponent - 1), counted in the least subnormal; both in 64 bits. */
typedef struct Parts {
    LLVMValueRef mantissa, exponent;
} Parts;

static Parts split(const Mod *m, LLVMValueRef magnitude)
{
    LLVMValueRef whole = m->bits == 64 ? magnitude : LLVMBuildZExt(m->b, magnitude, m->l->i64, "");
    LLVMValueRef exponent = LLVMBuildLShr(m->b, whole, wide(m, (uint64_t)m->fraction), "");
    LLVMValueRef fraction = LLVMBuildAnd(m->b, whole, wide(m, unit(m) - 1), "");
    LLVMValueRef subnormal = is(m, LLVMIntEQ, exponent, wide(m, 0));
    LLVMValueRef normal = LLVMBuildOr(m->b, fraction, wide(m, unit(m)), "");
    return (Parts){pick(m, subnormal, fraction, normal), pick(m, subnormal, wide(m, 1), exponent)};
}

/* Bits of the float that is mantissa * 2^(exponent - 1): the leading bit goes to its place, or as
 * far as the exponent allows. */
static LLVMValueRef join(const Mod *m, Parts parts)
{
    LLVMTypeRef type = m->l->i64;
    LLVMValueRef args[2] = {parts.mantissa, LLVMConstInt(m->l->i1, 0, false)};
    LLVMValueRef zeros = llvm_intrinsic(m->l, "llvm.ctlz", 1, &type, 2, args);
    LLVMValueRef free_bits = LLVMBuildSub(m->b, zeros, wide(m, (uint64_t)(63 - m->fraction)), "");
    LLVMValueRef below = LLVMBuildSub(m->b, parts.exponent, wide(m, 1), "");
    LLVMValueRef by = smaller(m, free_bits, below);
    LLVMValueRef moved = LLVMBuildShl(m->b, parts.mantissa, by, "");
    LLVMValueRef exponent = LLVMBuildSub(m->b, below, by, "");
    exponent = LLVMBuildShl(m->b, exponent, wide(m, (uint64_t)m->fraction), "");
    LLVMValueRef none = is(m, LLVMIntEQ, parts.mantissa, wide(m, 0));
    LLVMValueRef found = pick(m, none, wide(m, 0), LLVMBuildAdd(m->b, moved, exponent, ""));
    return m->bits == 64 ? found : LLVMBuildTrunc(m->b, found, m->word, "");
}

static LLVMBasicBlockRef block(const Mod *m, const char *name)
{
    return llvm_block(m->l, m->function, name);
}

/* (a.mantissa << (a.exponent - c.exponent)) mod c.mantissa, in a loop. */
static Parts reduce(const Mod *m, Parts a, Parts c)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(m->b);
    LLVMBasicBlockRef head = block(m, "head"), body = block(m, "body"), after = block(m, "after");
    LLVMValueRef first = LLVMBuildURem(m->b, a.mantissa, c.mantissa, "");
    LLVMValueRef all = LLVMBuildSub(m->b, a.exponent, c.exponent, "");
    LLVMBuildBr(m->b, head);
    LLVMPositionBuilderAtEnd(m->b, head);
    LLVMValueRef rest = LLVMBuildPhi(m->b, m->l->i64, ""), left = LLVMBuildPhi(m->b, m->l->i64, "");
    LLVMBuildCondBr(m->b, is(m, LLVMIntNE, left, wide(m, 0)), body, after);
    LLVMPositionBuilderAtEnd(m->b, body);
    LLVMValueRef step = smaller(m, left, wide(m, (uint64_t)(63 - m->fraction)));
    LLVMValueRef moved = LLVMBuildShl(m->b, rest, step, "");
    LLVMValueRef next = LLVMBuildURem(m->b, moved, c.mantissa, "");
    LLVMValueRef fewer = LLVMBuildSub(m->b, left, step, "");
    LLVMBuildBr(m->b, head);
    LLVMAddIncoming(rest, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, body}, 2);
    LLVMAddIncoming(left, (LLVMValueRef[]){all, fewer}, (LLVMBasicBlockRef[]){before, body}, 2);
    LLVMPositionBuilderAtEnd(m->b, after);
    return (Parts){rest, c.exponent};
}

/* |a| mod |c| with a's sign, then moved to c's. */
static LLVMValueRef with_sign(const Mod *m, LLVMValueRef magnitude, LLVMValueRef a, LLVMValueRef c)
{
    LLVMValueRef sign = word(m, sign_bit(m));
    LLVMValueRef own = LLVMBuildAnd(m->b, a, sign, ""), wanted = LLVMBuildAnd(m->b, c, sign, "");
    LLVMValueRef rest = LLVMBuildBitCast(m->b, LLVMBuildOr(m->b, magnitude, own, ""), m->real, "");
    LLVMValueRef by = LLVMBuildBitCast(m->b, c, m->real, "");
    LLVMValueRef moved = LLVMBuildFAdd(m->b, rest, by, "");
    LLVMValueRef zero = LLVMBuildBitCast(m->b, wanted, m->real, "");
    LLVMValueRef other = pick(m, is(m, LLVMIntEQ, own, wanted), rest, moved);
    return pick(m, is(m, LLVMIntEQ, magnitude, word(m, 0)), zero, other);
}

static void fill(const Mod *m)
{
    LLVMBasicBlockRef start = block(m, "start"), ordered = block(m, "ordered");
    LLVMBasicBlockRef large = block(m, "large"), end = block(m, "end"), odd = block(m, "odd");
    LLVMPositionBuilderAtEnd(m->b, start);
    LLVMValueRef a = LLVMBuildBitCast(m->b, LLVMGetParam(m->function, 0), m->word, "");
    LLVMValueRef c = LLVMBuildBitCast(m->b, LLVMGetParam(m->function, 1), m->word, "");
    LLVMValueRef without = word(m, sign_bit(m) - 1), inf = word(m, infinity(m));
    LLVMValueRef size_a = LLVMBuildAnd(m->b, a, without, "");
    LLVMValueRef size_c = LLVMBuildAnd(m->b, c, without, "");
    LLVMValueRef none = LLVMBuildOr(
        m->b, is(m, LLVMIntEQ, size_c, word(m, 0)),
        LLVMBuildOr(m->b, is(m, LLVMIntUGE, size_a, inf), is(m, LLVMIntUGT, size_c, inf), ""), "");
    LLVMBuildCondBr(m->b, none, odd, ordered);
    LLVMPositionBuilderAtEnd(m->b, ordered);
    LLVMBuildCondBr(m->b, is(m, LLVMIntULT, size_a, size_c), end, large);
    LLVMPositionBuilderAtEnd(m->b, large);
    LLVMValueRef found = join(m, reduce(m, split(m, size_a), split(m, size_c)));
    LLVMBasicBlockRef last = LLVMGetInsertBlock(m->b);
    LLVMBuildBr(m->b, end);
    LLVMPositionBuilderAtEnd(m->b, end);
    LLVMValueRef magnitude = LLVMBuildPhi(m->b, m->word, "");
    LLVMAddIncoming(magnitude, (LLVMValueRef[]){size_a, found},
                    (LLVMBasicBlockRef[]){ordered, last}, 2);
    LLVMBuildRet(m->b, with_sign(m, magnitude, a, c));
    LLVMPositionBuilderAtEnd(m->b, odd);
    LLVMValueRef nan = word(m, infinity(m) | unit(m) >> 1);
    LLVMBuildRet(m->b, LLVMBuildBitCast(m->b, nan, m->real, ""));
}

static LLVMValueRef mod_function(Llvm *l, LLVMTypeRef real)
{
    bool single = real == l->f32;
    const char *name = single ? "tessera_mod_f32" : "tessera_mod_f64";
    LLVMValueRef function = LLVMGetNamedFunction(l->module, name);
    if (function) {
        return function;
    }
    LLVMTypeRef params[2] = {real, real};
    Mod m = {.l = l,
             .real = real,
             .word = single ? l->i32 : l->i64,
             .bits = single ? 32 : 64,
             .fraction = single ? 23 : 52};
    m.function = LLVMAddFunction(l->module, name, LLVMFunctionType(real, params, 2, false));
    LLVMSetLinkage(m.function, LLVMInternalLinkage);
    llvm_attribute(l, m.function, "alwaysinline");
    llvm_attribute(l, m.function, "nounwind");
    LLVMBuilderRef outside = l->builder;
    m.b = l->builder = LLVMCreateBuilderInContext(l->context);
    fill(&m);
    LLVMDisposeBuilder(m.b);
    l->builder = outside;
    return m.function;
}

LLVMValueRef scalar_mod(Llvm *l, LLVMValueRef a, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(a), real = llvm_element(type);
    LLVMValueRef function = mod_function(l, real);
    LLVMTypeRef signature = LLVMGlobalGetValueType(function);
    int lanes = llvm_lane_count(type);
    if (!lanes) {
        return LLVMBuildCall2(l->builder, signature, function, (LLVMValueRef[]){a, c}, 2, "");
    }
    LLVMValueRef all = LLVMGetPoison(type);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef lane = llvm_i32(l, i);
        LLVMValueRef pair[2] = {LLVMBuildExtractElement(l->builder, a, lane, ""),
                                LLVMBuildExtractElement(l->builder, c, lane, "")};
        LLVMValueRef one = LLVMBuildCall2(l->builder, signature, function, pair, 2, "");
        all = LLVMBuildInsertElement(l->builder, all, one, lane, "");
    }
    return all;
}
