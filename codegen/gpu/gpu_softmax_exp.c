/* SPDX-License-Identifier: Apache-2.0 */
/* Exponentials of 16-bit elements minus the maximum of their row, as in a softmax:
 *
 *     c = max(x - m, -104)              c = x - m
 *     t = c * k + 1.5 2^23 + 32         t = c * k + 1.5 2^23
 *     n = t - 1.5 2^23 - 32             n = t - 1.5 2^23
 *     p = polynomial(c - n k')    →     p = polynomial(c - n k')
 *     f = 2^(n + 32), by t's bits
 *     e = p * f * 2^-32                 e = p, with n added to its exponent, by t's bits
 *
 * The bits are the same as long as no x is more than LOW below m: the clamp has no effect, and p f
 * 2^-32, which is normal, is not rounded. A thread tests this beforehand on the minimum of its
 * elements, two of which are compared at once; a thread with other elements (masked ones, NaN)
 * takes the long form. p is between 1/4 and 4 by interval arithmetic.
 *
 * This is done only within a cluster, whose blocks wait for one another, so that fewer operations
 * take less time. In a single block other blocks' memory accesses hide the work, and a choice of
 * two forms is slower than the long form alone (docs/lab/memory_bound.md). */
#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

#include <math.h>
#include <string.h>

enum {
    PARTS = 64,    /* of the range of a polynomial's argument, each bounded by itself */
    LOW = 86,      /* n is -124 there */
    EXPONENT = 23, /* its lowest bit in an f32 */
    MAX_OPS = 64,  /* of a polynomial */
};

static const double ROUNDER = 12582912.0;     /* 1.5 2^23: added, it rounds to an integer */
static const double RAISED = 12582912.0 + 32; /* the same, and the integer is 32 more */

typedef struct Interval {
    double least, most;
} Interval;

/* ---- matching ---- */

static bool is_constant(const Value *value, double *number)
{
    const Attr *attr = value_const(value);
    if (attr) {
        *number = dtype_is_float(value->type->dtype) ? attr->f : (double)attr->i;
    }
    return attr != NULL;
}

/* Of 2^n, made of the bits of t: t, or NULL. */
static const Value *turned(const Value *value)
{
    const Op *float_of = value_def_of_kind(value, OP_BITCAST);
    const Op *sum = float_of ? value_def_of_kind(float_of->operands[0], OP_ADD) : NULL;
    const Op *shift = sum ? value_def_of_kind(sum->operands[0], OP_SHL) : NULL;
    const Op *bits = shift ? value_def_of_kind(shift->operands[0], OP_BITCAST) : NULL;
    bool matches = bits && value_is_const(sum->operands[1], 0x3f800000) &&
                   value_is_const(shift->operands[1], EXPONENT) && value->type->dtype == DT_F32 &&
                   bits->operands[0]->type->dtype == DT_F32;
    return matches ? bits->operands[0] : NULL;
}

static const Value *loaded(const Value *value)
{
    while (value_def_of_kind(value, OP_REMAT)) {
        value = value->def->operands[0];
    }
    return value;
}

/* Is it, spread over the row, the greatest of what `narrow` is widened to? */
static bool is_greatest(const Value *value, const Value *narrow)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_CLUSTER_REDUCE)) {
        op = op->operands[0]->def;
    }
    const Op *cast =
        op && op->kind == OP_REDUCE ? value_def_of_kind(op->operands[0], OP_CAST) : NULL;
    return cast && strcmp(op_word(op, ATTR_FN), "max") == 0 &&
           loaded(cast->operands[0]) == loaded(narrow);
}

/* c and t = c * k + RAISED; c is x less the greatest of its row, clamped. */
static bool match_argument(GpuPower *power, const Value *t)
{
    double clamp, k, rounder;
    const Op *shifted = value_def_of_kind(t, OP_FMA);
    power->shifted = shifted;
    power->clamp = shifted ? value_def_of_kind(shifted->operands[0], OP_MAX) : NULL;
    const Op *less = power->clamp ? value_def_of_kind(power->clamp->operands[0], OP_SUB) : NULL;
    const Op *cast = less ? value_def_of_kind(less->operands[0], OP_CAST) : NULL;
    if (!cast || !is_constant(power->clamp->operands[1], &clamp) ||
        !is_constant(shifted->operands[1], &k) || !is_constant(shifted->operands[2], &rounder)) {
        return false;
    }
    power->greatest = less->operands[1];
    power->narrow = cast->operands[0];
    DType narrow = power->narrow->type->dtype;
    return (narrow == DT_BF16 || narrow == DT_F16) && is_greatest(power->greatest, power->narrow) &&
           clamp <= -LOW - 1 && clamp >= -110 && k > 1.4 && k < 1.5 && rounder == RAISED;
}

/* ---- bounds ---- */

/* r = (c - n a) - n b, of which |c k - n| <= 1/2: its bound, or a negative number. */
static double bound_rest(GpuPower *power, const Value *value)
{
    const Op *second = value_def_of_kind(value, OP_FMA);
    const Op *first = second ? value_def_of_kind(second->operands[2], OP_FMA) : NULL;
    const Op *minus = first ? value_def_of_kind(first->operands[0], OP_NEG) : NULL;
    const Op *n = minus ? value_def_of_kind(minus->operands[0], OP_SUB) : NULL;
    double a, b, k;
    bool matches = n && second->operands[0] == first->operands[0] &&
                   n->operands[0] == power->shifted->results[0] &&
                   value_is_const(n->operands[1], RAISED) &&
                   first->operands[2] == power->clamp->results[0] &&
                   is_constant(first->operands[1], &a) && is_constant(second->operands[1], &b);
    if (!matches || !is_constant(power->shifted->operands[1], &k)) {
        return -1;
    }
    power->whole = n;
    const double rounding = 0x1p-12; /* of operations on numbers below 2^8, and more */
    return 0.5 / k + LOW * fabs(1 / k - a - b) + rounding;
}

static Interval product(Interval a, Interval b)
{
    double x[] = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
    return (Interval){fmin(fmin(x[0], x[1]), fmin(x[2], x[3])),
                      fmax(fmax(x[0], x[1]), fmax(x[2], x[3]))};
}

/* Of a polynomial's value where `rest` lies in `at`. False: it is something else. */
static bool bound(const Value *value, const Value *rest, Interval at, int *ops, Interval *out)
{
    double number;
    if (value == rest) {
        *out = at;
        return true;
    }
    if (is_constant(value, &number)) {
        *out = (Interval){number, number};
        return true;
    }
    const Op *op = value->def;
    Interval of[3];
    bool known = op && (op->kind == OP_FMA || op->kind == OP_MUL || op->kind == OP_ADD);
    if (!known || --*ops < 0) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (!bound(op->operands[i], rest, at, ops, &of[i])) {
            return false;
        }
    }
    *out = op->kind == OP_ADD ? of[0] : product(of[0], of[1]);
    if (op->kind != OP_MUL) {
        Interval more = of[op->kind == OP_ADD ? 1 : 2];
        *out = (Interval){out->least + more.least, out->most + more.most};
    }
    return true;
}

/* What the polynomial p is one of: the innermost value that is no part of it. */
static const Value *find_rest(GpuPower *power, const Value *p)
{
    for (int i = 0; i < MAX_OPS; i++) {
        if (bound_rest(power, p) > 0) {
            return p;
        }
        const Op *op = p->def;
        if (!op || (op->kind != OP_FMA && op->kind != OP_MUL && op->kind != OP_ADD)) {
            return NULL;
        }
        p = op->operands[0];
    }
    return NULL;
}

/* True if p is between 1/4 and 4 even after rounding errors are added. */
static bool is_moderate(GpuPower *power, const Value *p)
{
    const Value *rest = find_rest(power, p);
    double most = rest ? bound_rest(power, rest) : -1;
    for (int i = 0; i < PARTS && rest; i++) {
        double step = 2 * most / PARTS;
        Interval at = {-most + i * step, -most + (i + 1) * step}, value;
        int ops = MAX_OPS;
        if (!bound(p, rest, at, &ops, &value) || value.least < 0.26 || value.most > 3.9) {
            return false;
        }
    }
    return most > 0 && most < 1;
}

/* Is the value used so often in the launch, and no more? */
static bool is_used(const GpuEmitter *em, const Value *value, int n)
{
    return block_count_uses(em->launch->regions[0], value) == n;
}

/* True if nothing else reads the values that the shorter form computes differently: t, its bits, f
 * and p * f. */
static bool is_unshared(const GpuEmitter *em, const GpuPower *power)
{
    const Op *inner = power->result->operands[0]->def;
    const Value *value = inner->operands[1]; /* f */
    bool unshared = is_used(em, inner->results[0], 1);
    while (unshared && value != power->shifted->results[0]) {
        unshared = is_used(em, value, 1);
        value = value->def->operands[0];
    }
    return unshared && is_used(em, value, 2); /* by its bits, and by n */
}

bool gpu_power_match(const GpuEmitter *em, const Op *op, GpuPower *power)
{
    const Op *inner = op->kind == OP_MUL ? value_def_of_kind(op->operands[0], OP_MUL) : NULL;
    bool lowered = inner && value_is_const(op->operands[1], 0x1p-32);
    const Value *t = lowered ? turned(inner->operands[1]) : NULL;
    if (!t) {
        return false;
    }
    power->result = op;
    power->value = inner->operands[0];
    return match_argument(power, t) && is_moderate(power, power->value) && is_unshared(em, power);
}

/* ---- code ---- */

/* The least of the thread's elements, widened; NULL: not all of them come in pairs. */
static LLVMValueRef least_of_thread(GpuEmitter *em, const GpuPower *power)
{
    const Value *narrow = loaded(power->narrow);
    const GpuValue *in = gpu_value(em, narrow);
    LLVMValueRef word = NULL, both[2];
    for (int r = 0; r < in->n; r += 2) {
        const GpuHalf *halves = in->halves ? in->halves + r : NULL;
        if (!halves || r + 1 >= in->n || !halves[0].word || halves[0].word != halves[1].word) {
            return NULL;
        }
        word = word ? em->target->extreme_pair(em, false, narrow->type->dtype, word, halves->word)
                    : halves->word;
    }
    LLVMTypeRef pair = LLVMVectorType(gpu_type(em, narrow->type->dtype), 2);
    gpu_unpack(em, LLVMBuildBitCast(em->builder, word, pair, ""), 2, both);
    for (int i = 0; i < 2; i++) {
        both[i] = LLVMBuildFPExt(em->builder, both[i], em->f32, "");
    }
    return llvm_call2(em->l, "llvm.minimum", both[0], both[1]);
}

LLVMValueRef gpu_power_check(GpuEmitter *em, const GpuPower *power)
{
    if (!em->target->extreme_pair) {
        return NULL;
    }
    /* The maximum of all of the thread's rows bounds how far any element lies below its own row's
     * maximum. */
    const GpuValue *in = gpu_value(em, power->greatest);
    LLVMValueRef most = in->regs[0];
    for (int r = 1; r < in->n; r++) {
        bool new = in->regs[r] != NULL;
        for (int i = 0; i < r && new; i++) {
            new = in->regs[i] != in->regs[r];
        }
        most = new ? llvm_call2(em->l, "llvm.maximum", most, in->regs[r]) : most;
    }
    LLVMValueRef least = most ? least_of_thread(em, power) : NULL;
    if (!least) {
        return NULL;
    }
    LLVMValueRef low = LLVMConstReal(em->f32, -LOW);
    return LLVMBuildFCmp(em->builder, LLVMRealOGE, LLVMBuildFSub(em->builder, least, most, ""), low,
                         "");
}

/* Register r of an op that the shorter way has otherwise. */
static LLVMValueRef shorter(GpuEmitter *em, const GpuPower *power, const Op *op, int r)
{
    LLVMValueRef first = gpu_value(em, op->operands[0])->regs[r];
    LLVMValueRef rounder = LLVMConstReal(em->f32, ROUNDER);
    if (op == power->clamp) {
        return first;
    }
    if (op == power->shifted) {
        LLVMValueRef k = gpu_value(em, op->operands[1])->regs[r];
        return llvm_call3(em->l, "llvm.fma", first, k, rounder);
    }
    if (op == power->whole) {
        return LLVMBuildFSub(em->builder, first, rounder, "");
    }
    LLVMValueRef p = gpu_value(em, power->value)->regs[r];
    LLVMValueRef t = gpu_value(em, power->shifted->results[0])->regs[r];
    LLVMBuilderRef b = em->builder;
    LLVMValueRef bits = LLVMBuildBitCast(b, p, em->i32, "");
    LLVMValueRef n = LLVMBuildBitCast(b, t, em->i32, "");
    n = LLVMBuildShl(b, n, gpu_i32(em, EXPONENT), "");
    return LLVMBuildBitCast(b, LLVMBuildAdd(b, bits, n, ""), em->f32, "");
}

bool gpu_power_emit(GpuEmitter *em, const GpuPower *power, const Op *op, int from, int n)
{
    if (op != power->clamp && op != power->shifted && op != power->whole && op != power->result) {
        return false;
    }
    Type type = op->results[0]->type;
    GpuValue *out = gpu_value(em, op->results[0]);
    for (int r = from; r < from + n; r++) {
        int first = gpu_canonical(type->layout, r);
        if (gpu_exists(em, type, r)) {
            out->regs[r] = first == r ? shorter(em, power, op, r) : out->regs[first];
        }
    }
    return true;
}
