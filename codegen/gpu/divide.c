/* SPDX-License-Identifier: Apache-2.0 */
/* Division of many f32 elements at once, correctly rounded, without a branch for each.
 *
 * One divisor for many elements (a softmax divides a row by its sum): the reciprocal is taken once,
 * in two parts, and an element costs four operations:
 *     y = 1/d;  z = (1 - d*y) * y;  q = a*y + a*z;  r = a - d*q;  q' = q + r*y
 * A divisor of its own for each: the hardware's approximation, one Newton step and two corrections:
 *     y = y0 + y0*(1 - d*y0);  q = a*y;  q = q + (a - d*q)*y;  q' = q + (a - d*q)*y
 * In both, q before the last step is within one unit in the last place of a/d, so that q' is
 * rounded right (Markstein 1990). The steps are exact enough while |a| and |d| lie between 2^-60
 * and 2^60; a thread that holds anything else divides all of the elements at hand the long way. */
#include "codegen/gpu/tiles.h"

enum {
    WORTH_IT = 4,          /* elements a divisor */
    LEAST = 67 << 24,      /* bits of 2^-60 without the sign, shifted left by one */
    MOST_STEPS = 121 << 24 /* from there to those of 2^60 */
};

typedef struct Division {
    GpuEmitter *em;
    int n;
    LLVMValueRef *a, *d;      /* by register; a NULL: none to compute */
    LLVMValueRef *high, *low; /* the two parts of a shared divisor's reciprocal, by register */
    LLVMValueRef *quotient;
    LLVMValueRef good; /* i1: all operands are of moderate size; NULL: true */
} Division;

static int count_elements(const Division *v)
{
    int n = 0;
    for (int r = 0; r < v->n; r++) {
        n += v->a[r] != NULL;
    }
    return n;
}

/* The first register with the same divisor. */
static int first_with(const Division *v, int r)
{
    for (int i = 0; i < r; i++) {
        if (v->a[i] && v->d[i] == v->d[r]) {
            return i;
        }
    }
    return r;
}

static int count_divisors(const Division *v)
{
    int n = 0;
    for (int r = 0; r < v->n; r++) {
        n += v->a[r] && first_with(v, r) == r;
    }
    return n;
}

static LLVMValueRef fma_of(Division *v, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    return llvm_call3(v->em->l, "llvm.fma", a, b, c);
}

/* c - a*b */
static LLVMValueRef rest_of(Division *v, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    return fma_of(v, LLVMBuildFNeg(v->em->builder, a, ""), b, c);
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
    v->low[r] = LLVMBuildFMul(b, rest_of(v, d, v->high[r], one), v->high[r], "");
}

static LLVMValueRef divide_by_shared(Division *v, int r)
{
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef a = v->a[r], q = fma_of(v, a, v->high[r], LLVMBuildFMul(b, a, v->low[r], ""));
    return fma_of(v, rest_of(v, v->d[r], q, a), v->high[r], q);
}

static void emit_shared(Division *v)
{
    for (int r = 0; r < v->n; r++) {
        if (!v->a[r]) {
            continue;
        }
        int first = first_with(v, r);
        if (first == r) {
            take_reciprocal(v, r);
        }
        v->high[r] = v->high[first];
        v->low[r] = v->low[first];
        check_size(v, v->a[r]);
        v->quotient[r] = divide_by_shared(v, r);
    }
}

static LLVMValueRef divide_by_own(Division *v, LLVMValueRef a, LLVMValueRef d)
{
    LLVMValueRef y = v->em->target->reciprocal(v->em, d);
    y = fma_of(v, y, rest_of(v, d, y, LLVMConstReal(v->em->f32, 1)), y);
    LLVMValueRef q = LLVMBuildFMul(v->em->builder, a, y, "");
    q = fma_of(v, rest_of(v, d, q, a), y, q);
    return fma_of(v, rest_of(v, d, q, a), y, q);
}

static void emit_own(Division *v)
{
    for (int r = 0; r < v->n; r++) {
        if (v->a[r]) {
            check_size(v, v->a[r]);
            check_size(v, v->d[r]);
            v->quotient[r] = divide_by_own(v, v->a[r], v->d[r]);
        }
    }
}

/* The long way for the threads that need it; both meet again. */
static void emit_exact(Division *v)
{
    GpuEmitter *em = v->em;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef slow = gpu_new_block(em, "divide"), done = gpu_new_block(em, "divided");
    LLVMValueRef *exact = ARENA_ARRAY(em->arena, LLVMValueRef, v->n);
    LLVMBuildCondBr(em->builder, v->good, done, slow);
    gpu_go(em, slow);
    for (int r = 0; r < v->n; r++) {
        exact[r] = v->a[r] ? LLVMBuildFDiv(em->builder, v->a[r], v->d[r], "") : NULL;
    }
    LLVMBuildBr(em->builder, done);
    gpu_go(em, done);
    for (int r = 0; r < v->n; r++) {
        if (v->a[r]) {
            LLVMValueRef either = LLVMBuildPhi(em->builder, em->f32, "");
            LLVMAddIncoming(either, (LLVMValueRef[]){v->quotient[r], exact[r]},
                            (LLVMBasicBlockRef[]){from, slow}, 2);
            v->quotient[r] = either;
        }
    }
}

bool gpu_emit_divisions(GpuEmitter *em, int n, LLVMValueRef *a, LLVMValueRef *d,
                        LLVMValueRef *quotient)
{
    Division v = {.em = em, .n = n, .a = a, .d = d, .quotient = quotient};
    int elements = count_elements(&v);
    bool shared = elements >= WORTH_IT * count_divisors(&v);
    if (elements < WORTH_IT || (!shared && !em->target->reciprocal)) {
        return false;
    }
    if (shared) {
        v.high = ARENA_ARRAY(em->arena, LLVMValueRef, n);
        v.low = ARENA_ARRAY(em->arena, LLVMValueRef, n);
        emit_shared(&v);
    } else {
        emit_own(&v);
    }
    emit_exact(&v);
    return true;
}
