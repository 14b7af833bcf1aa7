/* SPDX-License-Identifier: Apache-2.0 */
/* Emits the atomic change of one element of memory. A type and an operation for which LLVM has an
 * instruction use it; all others are a compare-and-swap loop, also on the containing word of a
 * narrow element. */
#include "codegen/scalar/scalar_atomic.h"

#include "codegen/scalar/scalar_ops.h"

#include <string.h>

static LLVMTypeRef bits_type(const Llvm *l, DType dtype)
{
    return LLVMIntTypeInContext(l->context, (unsigned)dtype_bytes(dtype) * 8);
}

static LLVMValueRef to_bits(Llvm *l, DType dtype, LLVMValueRef value)
{
    if (dtype == DT_BOOL) {
        return LLVMBuildZExt(l->builder, value, bits_type(l, dtype), "");
    }
    return LLVMBuildBitCast(l->builder, value, bits_type(l, dtype), "");
}

static LLVMValueRef from_bits(Llvm *l, DType dtype, LLVMValueRef bits)
{
    if (dtype == DT_BOOL) {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(bits));
        return LLVMBuildICmp(l->builder, LLVMIntNE, bits, zero, "");
    }
    return LLVMBuildBitCast(l->builder, bits, llvm_memory_type(l, dtype), "");
}

/* By AtomicFn. `with_sign` and `without`: LLVM's instruction for integers. */
static const struct {
    const char *name;
    OpKind kind; /* OP_COUNT: the function does not combine */
    LLVMAtomicRMWBinOp with_sign, without;
} FNS[] = {
    [ATOMIC_SET] = {"set", OP_COUNT, LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
    [ATOMIC_XCHG] = {"xchg", OP_COUNT, LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
    [ATOMIC_CAS] = {"cas", OP_COUNT, LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
    [ATOMIC_ADD] = {"add", OP_ADD, LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd},
    [ATOMIC_MIN] = {"min", OP_MIN, LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpUMin},
    [ATOMIC_MAX] = {"max", OP_MAX, LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpUMax},
    [ATOMIC_AND] = {"and", OP_AND, LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd},
    [ATOMIC_OR] = {"or", OP_OR, LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr},
    [ATOMIC_XOR] = {"xor", OP_XOR, LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor},
};

AtomicFn scalar_atomic_fn(const Llvm *l, const Op *scatter)
{
    const char *name = op_word(scatter, ATTR_FN);
    for (int fn = 0; fn < (int)(sizeof FNS / sizeof *FNS); fn++) {
        if (name && text_equal(name, FNS[fn].name)) {
            return (AtomicFn)fn;
        }
    }
    diag_bug(l->diags, "no atomic is called '%s'", name ? name : "");
}

bool scalar_atomic_op(AtomicFn fn, OpKind *kind)
{
    *kind = FNS[fn].kind;
    return *kind != OP_COUNT;
}

/* `how`: an AtomicChange. */
static LLVMValueRef changed(Llvm *l, const void *how, LLVMValueRef old)
{
    const AtomicChange *change = how;
    LLVMValueRef operands[2] = {from_bits(l, change->dtype, old), change->value};
    OpKind kind = FNS[change->fn].kind;
    if (change->dtype == DT_BOOL && kind == OP_ADD) {
        kind = OP_XOR;
    }
    LLVMValueRef next = scalar_emit(l, kind, NULL, change->dtype, change->dtype, operands);
    return to_bits(l, change->dtype, next);
}

static LLVMValueRef exchange_if(Llvm *l, LLVMValueRef address, LLVMValueRef expected,
                                LLVMValueRef next)
{
    LLVMAtomicOrdering relaxed = LLVMAtomicOrderingMonotonic;
    return LLVMBuildAtomicCmpXchg(l->builder, address, expected, next, relaxed, relaxed, false);
}

/* Read, change, write if no other thread else has written since; else again. */
static LLVMValueRef
change_in_loop(Llvm *l, DType dtype, LLVMValueRef address,
               LLVMValueRef (*change)(Llvm *l, const void *how, LLVMValueRef old), const void *how)
{
    LLVMBuilderRef b = l->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMValueRef function = LLVMGetBasicBlockParent(before);
    LLVMBasicBlockRef retry = llvm_block(l, function, "again");
    LLVMBasicBlockRef done = llvm_block(l, function, "done");
    LLVMTypeRef type = bits_type(l, dtype);
    LLVMValueRef first = LLVMBuildLoad2(b, type, address, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, (unsigned)dtype_bytes(dtype));
    LLVMBuildBr(b, retry);
    LLVMPositionBuilderAtEnd(b, retry);
    LLVMValueRef old = LLVMBuildPhi(b, type, "");
    LLVMAddIncoming(old, &first, &before, 1);
    LLVMValueRef pair = exchange_if(l, address, old, change(l, how, old));
    LLVMValueRef seen = LLVMBuildExtractValue(b, pair, 0, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(old, &seen, &latch, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, retry);
    LLVMPositionBuilderAtEnd(b, done);
    return seen;
}

LLVMValueRef scalar_atomic(Llvm *l, const AtomicChange *change, LLVMValueRef address)
{
    LLVMAtomicOrdering relaxed = LLVMAtomicOrderingMonotonic;
    bool exchanges = change->fn == ATOMIC_SET || change->fn == ATOMIC_XCHG;
    LLVMValueRef old;
    if (change->float_add && change->fn == ATOMIC_ADD &&
        (change->dtype == DT_F32 || change->dtype == DT_F64)) {
        return LLVMBuildAtomicRMW(l->builder, LLVMAtomicRMWBinOpFAdd, address, change->value,
                                  relaxed, false);
    }
    if (change->fn == ATOMIC_CAS) {
        LLVMValueRef expected = to_bits(l, change->dtype, change->compare);
        LLVMValueRef next = to_bits(l, change->dtype, change->value);
        old = LLVMBuildExtractValue(l->builder, exchange_if(l, address, expected, next), 0, "");
    } else if (exchanges || dtype_is_int(change->dtype)) { /* one instruction, else a loop */
        LLVMAtomicRMWBinOp op =
            dtype_is_signed(change->dtype) ? FNS[change->fn].with_sign : FNS[change->fn].without;
        LLVMValueRef value = to_bits(l, change->dtype, change->value);
        old = LLVMBuildAtomicRMW(l->builder, op, address, value, relaxed, false);
    } else {
        old = change_in_loop(l, change->dtype, address, changed, change);
    }
    return from_bits(l, change->dtype, old);
}

/* ---- halves of bytes ---- */

typedef struct Half {
    LLVMValueRef hole, value; /* i8: ones where it lies, and the half there */
} Half;

static Half half_of(Llvm *l, LLVMValueRef shift, LLVMValueRef value)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef wide = LLVMBuildZExt(b, value, l->i8, "");
    return (Half){LLVMBuildShl(b, llvm_int(l->i8, 15), shift, ""),
                  LLVMBuildShl(b, wide, shift, "")};
}

void scalar_store_half(Llvm *l, LLVMValueRef address, LLVMValueRef shift, LLVMValueRef value)
{
    LLVMAtomicOrdering relaxed = LLVMAtomicOrderingMonotonic;
    Half half = half_of(l, shift, value);
    LLVMValueRef rest = LLVMBuildNot(l->builder, half.hole, "");
    LLVMBuildAtomicRMW(l->builder, LLVMAtomicRMWBinOpAnd, address, rest, relaxed, false);
    LLVMBuildAtomicRMW(l->builder, LLVMAtomicRMWBinOpOr, address, half.value, relaxed, false);
}

/* `how`: a Half. */
static LLVMValueRef with_half(Llvm *l, const void *how, LLVMValueRef old)
{
    const Half *half = how;
    LLVMValueRef rest = LLVMBuildAnd(l->builder, old, LLVMBuildNot(l->builder, half->hole, ""), "");
    return LLVMBuildOr(l->builder, rest, half->value, "");
}

void scalar_set_half(Llvm *l, LLVMValueRef address, LLVMValueRef shift, LLVMValueRef value)
{
    Half half = half_of(l, shift, value);
    change_in_loop(l, DT_U8, address, with_half, &half);
}
