/* SPDX-License-Identifier: Apache-2.0 */
/* Division of many f32 elements at once, correctly rounded, without a branch per element.
 *
 * If many elements have the same divisor (a softmax divides a row by its sum), the reciprocal is
 * computed once, in two parts, and an element costs four operations:
 *
 *     y = 1/d;  z = (1 - d*y) * y;  q = a*y + a*z;  r = a - d*q;  q' = q + r*y
 *
 * If each element has its own divisor, the hardware's approximation is followed by one Newton step
 * and two corrections:
 *
 *     y = y0 + y0*(1 - d*y0);  q = a*y;  q = q + (a - d*q)*y;  q' = q + (a - d*q)*y
 *
 * In both cases q before the last step is within one unit in the last place of a/d, so q' is
 * correctly rounded (Markstein 1990). The steps are exact enough while |a| and |d| are between
 * 2^-60 and 2^60. A thread with any other value checks again: a zero over such a divisor (the
 * padding of a softmax, and elements far below its maximum) gives a signed zero; for other numbers
 * the thread divides all of its elements by the slow, general algorithm.
 *
 * A quotient that is only rounded to bf16 needs less. q = a*y is within a few units in the last
 * place of the exact quotient, at any magnitude, and rounds to the same bf16 unless its lower
 * half, which bf16 drops, is that close to a tie. This is the case for about one element in ten
 * thousand. A thread that has one divides its elements by the steps above: at once, or, if all of
 * them are stored to memory (gpu_elementwise_chain.c), after the last one, so that the common path
 * has no branches. */
#include "codegen/gpu/gpu_emitters.h"

enum {
    WORTH_IT = 4,         /* elements a divisor */
    NORMAL = 1 << 23,     /* bits of the least normal number */
    LEAST = 67 << 24,     /* bits of 2^-60 without the sign, shifted left by one */
    MAX_STEPS = 121 << 24 /* from there to those of 2^60 */
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

static LLVMValueRef bits_of(Division *v, LLVMValueRef value)
{
    return LLVMBuildBitCast(v->em->builder, value, v->em->i32, "");
}

/* Bits shifted left by one drop the sign; one unsigned comparison then checks both ends. */
static LLVMValueRef is_moderate(Division *v, LLVMValueRef value)
{
    GpuEmitter *em = v->em;
    LLVMValueRef bits = LLVMBuildShl(em->builder, bits_of(v, value), gpu_i32(em, 1), "");
    bits = LLVMBuildSub(em->builder, bits, gpu_i32(em, LEAST), "");
    return LLVMBuildICmp(em->builder, LLVMIntULE, bits, gpu_i32(em, MAX_STEPS), "");
}

/* The same by other operations: what the first look computed need not be kept for a second. */
static LLVMValueRef is_moderate_too(Division *v, LLVMValueRef value)
{
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef size = llvm_call1(v->em->l, "llvm.fabs", value);
    LLVMValueRef most = LLVMConstReal(v->em->f32, 0x1p60);
    LLVMValueRef least = LLVMConstReal(v->em->f32, 0x1p-60);
    return LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOGE, size, least, ""),
                        LLVMBuildFCmp(b, LLVMRealOLE, size, most, ""), "");
}

static void check_size(Division *v, LLVMValueRef value)
{
    v->good = gpu_both(v->em, v->good, is_moderate(v, value));
}

static LLVMValueRef one_of(Division *v)
{
    return LLVMConstReal(v->em->f32, 1);
}

static LLVMValueRef exact_reciprocal(Division *v, LLVMValueRef d)
{
    return LLVMBuildFDiv(v->em->builder, one_of(v), d, "");
}

/* The hardware's, and one Newton step. */
static LLVMValueRef approx_reciprocal(Division *v, LLVMValueRef d)
{
    LLVMValueRef y = v->em->target->reciprocal(v->em, d);
    return fma_of(v, y, rest_of(v, d, y, one_of(v)), y);
}

/* ---- where some are of another size ---- */

/* Is it zero, over what is moderate? */
static LLVMValueRef is_zero(Division *v, int r)
{
    LLVMValueRef zero = LLVMConstReal(v->em->f32, 0);
    return LLVMBuildFCmp(v->em->builder, LLVMRealOEQ, v->a[r], zero, "");
}

/* i1: zeros and moderate numbers only. */
static LLVMValueRef check_zeros(Division *v)
{
    LLVMValueRef good = NULL;
    for (int r = 0; r < v->n; r++) {
        if (!v->a[r]) {
            continue;
        }
        LLVMValueRef moderate = is_moderate_too(v, v->a[r]);
        good = gpu_both(v->em, good, LLVMBuildOr(v->em->builder, is_zero(v, r), moderate, ""));
        if (first_with(v, r) == r) {
            good = gpu_both(v->em, good, is_moderate_too(v, v->d[r]));
        }
    }
    return good;
}

/* The quotient, or a zero with the signs of both: what is not moderate is zero. By other operations
 * than the checks', so that their results need not be kept. */
static LLVMValueRef with_zero(Division *v, int r, LLVMValueRef quotient)
{
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef bits = bits_of(v, v->a[r]);
    LLVMValueRef size = LLVMBuildAnd(b, bits, gpu_i32(v->em, INT32_MAX), "");
    LLVMValueRef none = LLVMBuildICmp(b, LLVMIntULT, size, gpu_i32(v->em, NORMAL), "");
    LLVMValueRef sign = LLVMBuildXor(b, bits, bits_of(v, v->d[r]), "");
    sign = LLVMBuildAnd(b, sign, gpu_i32(v->em, INT32_MIN), "");
    sign = LLVMBuildBitCast(b, sign, v->em->f32, "");
    return LLVMBuildSelect(b, none, sign, quotient, "");
}

static void divide_any(Division *v, LLVMValueRef *quotient)
{
    for (int r = 0; r < v->n; r++) {
        quotient[r] = v->a[r] ? LLVMBuildFDiv(v->em->builder, v->a[r], v->d[r], "") : NULL;
    }
}

/* What each thread has where it comes from `block`. */
typedef struct Way {
    LLVMBasicBlockRef block;
    LLVMValueRef *quotient;
} Way;

static Way begin_way(Division *v, const char *name)
{
    Way way = {gpu_new_block(v->em, name), ARENA_ARRAY(v->em->arena, LLVMValueRef, v->n)};
    gpu_go(v->em, way.block);
    return way;
}

/* All ways lead here. */
static void join_ways(Division *v, const Way *ways, int n)
{
    for (int r = 0; r < v->n; r++) {
        if (v->a[r]) {
            LLVMValueRef one = LLVMBuildPhi(v->em->builder, v->em->f32, "");
            for (int i = 0; i < n; i++) {
                LLVMAddIncoming(one, &ways[i].quotient[r], (LLVMBasicBlockRef *)&ways[i].block, 1);
            }
            v->quotient[r] = one;
        }
    }
}

/* Emits branches for the threads that need an exact division; all threads reconverge after them. */
static void emit_exact(Division *v)
{
    GpuEmitter *em = v->em;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder), done = gpu_new_block(em, "divided");
    Way zeros = begin_way(v, "zeros");
    LLVMValueRef only_zeros = check_zeros(v);
    for (int r = 0; r < v->n; r++) {
        zeros.quotient[r] = v->a[r] ? with_zero(v, r, v->quotient[r]) : NULL;
    }
    Way any = begin_way(v, "divide");
    divide_any(v, any.quotient);
    LLVMBuildBr(em->builder, done);
    gpu_go(em, zeros.block);
    LLVMBuildCondBr(em->builder, only_zeros, done, any.block);
    gpu_go(em, from);
    LLVMBuildCondBr(em->builder, v->good, done, zeros.block);
    gpu_go(em, done);
    join_ways(v, (Way[]){{from, v->quotient}, zeros, any}, 3);
}

/* ---- all together ---- */

static bool is_shared(const Division *v)
{
    return count_elements(v) >= WORTH_IT * count_divisors(v);
}

/* Is a way without a branch known for these elements? */
static bool suits(const Division *v)
{
    return count_elements(v) >= WORTH_IT && (is_shared(v) || v->em->target->reciprocal);
}

/* The registers from `first` on whose quotients are used together: are they good? */
static LLVMValueRef check_piece(Division *v, int first, int end, LLVMValueRef used)
{
    LLVMBuilderRef b = v->em->builder;
    v->good = NULL;
    for (int r = first; r < end; r++) {
        if (v->a[r]) {
            check_size(v, v->a[r]);
        }
    }
    if (!used || !v->good) {
        return v->good;
    }
    return LLVMBuildOr(b, v->good, LLVMBuildNot(b, used, ""), "");
}

static LLVMValueRef check_moderate(Division *v, LLVMValueRef *used)
{
    LLVMValueRef good = NULL;
    for (int r = 0, end; r < v->n; r = end) {
        for (end = r + 1; end < v->n && (!used || used[end] == used[r]); end++) {}
        good = gpu_both(v->em, good, check_piece(v, r, end, used ? used[r] : NULL));
    }
    v->good = good;
    for (int r = 0; r < v->n; r++) {
        if (v->a[r] && first_with(v, r) == r) {
            check_size(v, v->d[r]);
        }
    }
    return v->good;
}

bool gpu_divisions_check(GpuEmitter *em, int n, LLVMValueRef *a, LLVMValueRef *d, GpuDivide how,
                         LLVMValueRef *used, LLVMValueRef *good)
{
    Division v = {.em = em, .n = n, .a = a, .d = d};
    if (!suits(&v)) {
        return false;
    }
    *good = how == DIVIDE_ZEROS ? check_zeros(&v) : check_moderate(&v, used);
    return true;
}

static void divide_short(Division *v)
{
    if (is_shared(v)) {
        v->high = ARENA_ARRAY(v->em->arena, LLVMValueRef, v->n);
        v->low = ARENA_ARRAY(v->em->arena, LLVMValueRef, v->n);

        /* Divisions by the same divisor share its reciprocal, held in two parts for full
         * precision. */
        for (int r = 0; r < v->n; r++) {
            if (!v->a[r]) {
                continue;
            }
            int first = first_with(v, r);
            if (first == r) {
                LLVMValueRef d = v->d[r];
                check_size(v, d);
                v->high[r] = exact_reciprocal(v, d);
                LLVMValueRef rest = rest_of(v, d, v->high[r], one_of(v));
                v->low[r] = LLVMBuildFMul(v->em->builder, rest, v->high[r], "");
            }
            v->high[r] = v->high[first];
            v->low[r] = v->low[first];
            check_size(v, v->a[r]);
            LLVMBuilderRef b = v->em->builder;
            LLVMValueRef a = v->a[r],
                         q = fma_of(v, a, v->high[r], LLVMBuildFMul(b, a, v->low[r], ""));
            v->quotient[r] = fma_of(v, rest_of(v, v->d[r], q, a), v->high[r], q);
        }

    } else {
        /* Each division refines the reciprocal of its own divisor. */
        for (int r = 0; r < v->n; r++) {
            if (v->a[r]) {
                check_size(v, v->a[r]);
                check_size(v, v->d[r]);
                /* Two Newton steps on the quotient give the correctly rounded result. */
                LLVMValueRef y = approx_reciprocal(v, v->d[r]);
                LLVMValueRef q = LLVMBuildFMul(v->em->builder, v->a[r], y, "");
                q = fma_of(v, rest_of(v, v->d[r], q, v->a[r]), y, q);
                v->quotient[r] = fma_of(v, rest_of(v, v->d[r], q, v->a[r]), y, q);
            }
        }
    }
}

/* ---- what is only rounded to bf16 ---- */

/* Does q round to the same bf16 as the right quotient? y is off by little more than 2^-24 of
 * itself, and q by as much again: together less than two units in the last place, which the right
 * quotient's own half makes OFF whole ones at most. Below the normal numbers units are larger,
 * errors are not. */
static LLVMValueRef rounds_alike(Division *v, LLVMValueRef q)
{
    enum { HALF = 16, TIE = 0x8000, OFF = 3 };
    LLVMBuilderRef b = v->em->builder;
    LLVMValueRef dropped = LLVMBuildShl(b, bits_of(v, q), gpu_i32(v->em, HALF), "");
    dropped = LLVMBuildSub(b, dropped, gpu_i32(v->em, (TIE - OFF) << HALF), "");
    return LLVMBuildICmp(b, LLVMIntUGT, dropped, gpu_i32(v->em, 2 * OFF << HALF), "");
}

static void emit_unchecked(Division *v)
{
    bool shared = is_shared(v);
    v->high = ARENA_ARRAY(v->em->arena, LLVMValueRef, v->n);
    for (int r = 0; r < v->n; r++) {
        if (!v->a[r]) {
            continue;
        }
        int first = first_with(v, r);
        if (first == r) {
            check_size(v, v->d[r]);
            v->high[r] = shared ? exact_reciprocal(v, v->d[r]) : approx_reciprocal(v, v->d[r]);
        }
        v->quotient[r] = LLVMBuildFMul(v->em->builder, v->a[r], v->high[first], "");
        v->good = gpu_both(v->em, v->good, rounds_alike(v, v->quotient[r]));
    }
}

static LLVMValueRef hidden_of(GpuEmitter *em, LLVMValueRef value)
{
    LLVMValueRef bits = LLVMBuildBitCast(em->builder, value, em->i32, "");
    bits = em->target->opaque ? em->target->opaque(em, bits) : bits;
    return LLVMBuildBitCast(em->builder, bits, em->f32, "");
}

bool gpu_emit_divisions(GpuEmitter *em, int n, LLVMValueRef *a, LLVMValueRef *d,
                        LLVMValueRef *quotient, GpuDivide how, LLVMValueRef *good)
{
    Division v = {.em = em, .n = n, .a = a, .d = d, .quotient = quotient};
    if (how == DIVIDE_ANY) {
        divide_any(&v, quotient);
        return true;
    }
    if (!suits(&v)) {
        return false;
    }
    if (how == DIVIDE_REPEATED) {
        /* Opaque copies replace the divisors, so that no value derived from the originals stays
         * live. */
        LLVMValueRef *hidden = ARENA_ARRAY(v.em->arena, LLVMValueRef, v.n);
        for (int r = 0; r < v.n; r++) {
            int first = v.a[r] ? first_with(&v, r) : r;
            hidden[r] = first == r && v.a[r] ? hidden_of(v.em, v.d[r]) : hidden[first];
        }
        v.d = hidden;
    }
    if (how == DIVIDE_ROUNDED || how == DIVIDE_REPEATED) {
        /* The approximate quotients are kept unless one lies near a tie of bf16; only then are the
         * exact ones computed. */
        LLVMBuilderRef b = v.em->builder;
        emit_unchecked(&v);
        LLVMBasicBlockRef from = LLVMGetInsertBlock(b), done = gpu_new_block(v.em, "rounded");
        Way tie = begin_way(&v, "tie");
        LLVMBasicBlockRef first = tie.block;
        Division exact = {.em = v.em, .n = v.n, .a = v.a, .d = v.d, .quotient = tie.quotient};
        divide_short(&exact);
        emit_exact(&exact);
        tie.block = LLVMGetInsertBlock(b);
        LLVMBuildBr(b, done);
        gpu_go(v.em, from);
        LLVMBuildCondBr(b, v.good, done, first);
        gpu_go(v.em, done);
        join_ways(&v, (Way[]){{from, v.quotient}, tie}, 2);

        return true;
    }
    if (how == DIVIDE_UNCHECKED) {
        emit_unchecked(&v);
        *good = gpu_both(em, *good, v.good);
        return true;
    }
    divide_short(&v);
    if (how == DIVIDE_CHECKED) {
        emit_exact(&v);
    }
    for (int r = 0; how == DIVIDE_ZEROS && r < n; r++) {
        quotient[r] = a[r] ? with_zero(&v, r, quotient[r]) : NULL;
    }
    return true;
}
