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
 * 2^-32, which is normal, is not rounded: p is between 1/4 and 4. A thread tests this beforehand on
 * the minimum of its elements, two of which are compared at once; a thread with other elements
 * (masked ones, NaN) takes the long form.
 *
 * The ops are those of the library's exp (stdlib/math.tile), whose last one has its name; simplify
 * has taken out what x - m, which is never positive, does not need. This is done only within a
 * cluster, whose blocks wait for one another, so that fewer operations take less time. In a single
 * block other blocks' memory accesses hide the work, and a choice of two forms is slower than the
 * long form alone (docs/lab/memory_bound.md). */
#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

#include <string.h>

enum {
    LOW = 86,      /* n is -124 there */
    EXPONENT = 23, /* its lowest bit in an f32 */
};

static const double ROUNDER = 12582912.0; /* 1.5 2^23: added, it rounds to an integer */

/* ---- matching ---- */

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

/* t, of which f has the bits; NULL: f is not 2^(n + 32). */
static const Op *shifted_of(const Value *f)
{
    static const OpKind kinds[] = {OP_BITCAST, OP_ADD, OP_SHL, OP_BITCAST};
    for (int i = 0; i < 4 && f; i++) {
        const Op *op = value_def_of_kind(f, kinds[i]);
        f = op ? op->operands[0] : NULL;
    }
    return f ? value_def_of_kind(f, OP_FMA) : NULL;
}

/* t and c, which is x less the greatest of its row, clamped. */
static bool match_argument(GpuPower *power, const Op *shifted)
{
    power->shifted = shifted;
    power->clamp = value_def_of_kind(shifted->operands[0], OP_MAX);
    const Op *less = power->clamp ? value_def_of_kind(power->clamp->operands[0], OP_SUB) : NULL;
    const Op *cast = less ? value_def_of_kind(less->operands[0], OP_CAST) : NULL;
    DType narrow = cast ? cast->operands[0]->type->dtype : DT_F32;
    if (narrow != DT_BF16 && narrow != DT_F16) {
        return false;
    }
    power->greatest = less->operands[1];
    power->narrow = cast->operands[0];
    for (const ValueUse *use = shifted->results[0]->uses; use; use = use->next) {
        power->whole = use->op->kind == OP_SUB ? use->op : power->whole;
    }
    return power->whole && is_greatest(power->greatest, power->narrow);
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
    bool ends = op->kind == OP_MUL && text_equal(op_word(op, ATTR_ENDS), "exp") &&
                value_is_const(op->operands[1], 0x1p-32);
    const Op *inner = ends ? value_def_of_kind(op->operands[0], OP_MUL) : NULL;
    const Op *shifted = inner ? shifted_of(inner->operands[1]) : NULL;
    if (!shifted) {
        return false;
    }
    *power = (GpuPower){.result = op, .value = inner->operands[0]};
    return match_argument(power, shifted) && is_unshared(em, power);
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
