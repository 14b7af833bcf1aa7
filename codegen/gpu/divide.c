/* SPDX-License-Identifier: Apache-2.0 */
/* Division of many elements by few: a softmax divides a row by its sum. Each divisor's reciprocal
 * is taken once, in two parts; an element then costs five instructions instead of a dozen. The
 * result is the correctly rounded quotient, as IEEE division's:
 *     y = 1/d;  z = (1 - d*y) * y;  q = a*y + a*z;  r = a - d*q;  q' = q + r*y
 * q is within one unit in the last place of a/d and y is the rounded reciprocal, so q' is rounded
 * right (Markstein 1990, theorem on division). The steps are exact enough while |a| and |d| lie
 * between 2^-60 and 2^60; a thread that holds anything else divides all of its elements the long
 * way. */
#include "codegen/gpu/tiles.h"

enum {
    WORTH_IT = 4,          /* elements a divisor */
    LEAST = 67 << 24,      /* bits of 2^-60 without the sign, shifted left by one */
    MOST_STEPS = 121 << 24 /* from there to those of 2^60 */
};

typedef struct Division {
    GpuEmitter *em;
    GpuValue *out;
    LLVMValueRef *a, *d;     /* by register; NULL: none to compute */
    LLVMValueRef *high, *low; /* the two parts of the divisor's reciprocal, by register */
    LLVMValueRef *fast;
    LLVMValueRef good;       /* i1: all operands are of moderate size */
} Division;

static int count_elements(const Division *v)
{
    int n = 0;
    for (int r = 0; r < v->out->n; r++) {
        n += v->a[r] != NULL;
    }
    return n;
}

/* The first register with the same divisor. */
static int first_with(const Division *v, int r)
{
    for (int i = 0; i < r; i++) {
        if (v->d[i] == v->d[r]) {
            return i;
        }
    }
    return r;
}

static int count_divisors(const Division *v)
{
    int n = 0;
    for (int r = 0; r < v->out->n; r++) {
        n += v->a[r] && first_with(v, r) == r;
    }
    return n;
}

static LLVMValueRef fma_of(Division *v, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    return llvm_call3(v->em->l, "llvm.fma", a, b, c);
}

/* Bits shifted left by one drop the sign; one unsigned comparison then checks both ends. */
static void check_size(Division *v, LLVMValueRef value)
{
    GpuEmitter *em = v->em;
    LLVMValueRef bits = LLVMBuildBitCast(em->builder, value, em->i32, "");
    bits = LLVMBuildShl(em->builder, bits, gpu_i32(em, 1), "");
    bits = LLVMBuildSub(em->builder, bits, gpu_i32(em, LEAST), "");
    LLVMValueRef good = LLVMBuildICmp(em->builder, LLVMIntULE, bits, gpu_i32(em, MOST_STEPS), "");
    v->good = gpu_both(em, v->good, good);
}

static void take_reciprocal(Division *v, int r)
{
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef one = LLVMConstReal(v->em->f32, 1), d = v->d[r];
    check_size(v, d);
    v->high[r] = LLVMBuildFDiv(b, one, d, "");
    LLVMValueRef rest = fma_of(v, LLVMBuildFNeg(b, d, ""), v->high[r], one);
    v->low[r] = LLVMBuildFMul(b, rest, v->high[r], "");
}

static LLVMValueRef divide_fast(Division *v, int r)
{
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef a = v->a[r], q = fma_of(v, a, v->high[r], LLVMBuildFMul(b, a, v->low[r], ""));
    LLVMValueRef rest = fma_of(v, LLVMBuildFNeg(b, v->d[r], ""), q, a);
    return fma_of(v, rest, v->high[r], q);
}

static void emit_fast(Division *v)
{
    for (int r = 0; r < v->out->n; r++) {
        int first = v->a[r] ? first_with(v, r) : r;
        if (!v->a[r]) {
            continue;
        }
        if (first == r) {
            take_reciprocal(v, r);
        }
        v->high[r] = v->high[first];
        v->low[r] = v->low[first];
        check_size(v, v->a[r]);
        v->fast[r] = divide_fast(v, r);
    }
}

static void join(Division *v, LLVMBasicBlockRef from, LLVMBasicBlockRef slow, LLVMValueRef *exact)
{
    for (int r = 0; r < v->out->n; r++) {
        if (v->a[r]) {
            v->out->regs[r] = LLVMBuildPhi(v->em->builder, v->em->f32, "");
            LLVMAddIncoming(v->out->regs[r], (LLVMValueRef[]){v->fast[r], exact[r]},
                            (LLVMBasicBlockRef[]){from, slow}, 2);
        }
    }
}

static void emit_both(Division *v)
{
    GpuEmitter *em = v->em;
    LLVMValueRef *exact = ARENA_ARRAY(em->arena, LLVMValueRef, v->out->n);
    emit_fast(v);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef slow = gpu_new_block(em, "divide"), done = gpu_new_block(em, "divided");
    LLVMBuildCondBr(em->builder, v->good, done, slow);
    gpu_go(em, slow);
    for (int r = 0; r < v->out->n; r++) {
        if (v->a[r]) {
            exact[r] = LLVMBuildFDiv(em->builder, v->a[r], v->d[r], "");
        }
    }
    LLVMBuildBr(em->builder, done);
    gpu_go(em, done);
    join(v, from, slow, exact);
}

bool gpu_emit_shared_divisors(GpuEmitter *em, const Op *op, GpuValue *out, LLVMValueRef *a,
                              LLVMValueRef *d)
{
    Division v = {.em = em, .out = out, .a = a, .d = d};
    if (op->kind != OP_DIV || op->results[0]->type->dtype != DT_F32 ||
        count_elements(&v) < WORTH_IT * count_divisors(&v) || count_elements(&v) == 0) {
        return false;
    }
    v.high = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    v.low = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    v.fast = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    emit_both(&v);
    return true;
}
