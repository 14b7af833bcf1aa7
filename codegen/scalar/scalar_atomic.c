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

/* The instruction for a change of integers or bits; false: it takes a loop. */
static bool direct(const AtomicChange *change, LLVMAtomicRMWBinOp *out)
{
    bool with_sign = dtype_is_signed(change->dtype);
    const struct {
        const char *fn;
        LLVMAtomicRMWBinOp op;
    } rows[] = {{"add", LLVMAtomicRMWBinOpAdd},
                {"and", LLVMAtomicRMWBinOpAnd},
                {"or", LLVMAtomicRMWBinOpOr},
                {"xor", LLVMAtomicRMWBinOpXor},
                {"min", with_sign ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin},
                {"max", with_sign ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax}};
    if (text_equal(change->fn, "xchg") || text_equal(change->fn, "set")) {
        *out = LLVMAtomicRMWBinOpXchg;
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows && dtype_is_int(change->dtype); i++) {
        if (text_equal(change->fn, rows[i].fn)) {
            *out = rows[i].op;
            return true;
        }
    }
    return false;
}

/* `how`: an AtomicChange. */
static LLVMValueRef changed(Llvm *l, const void *how, LLVMValueRef old)
{
    const AtomicChange *change = how;
    LLVMValueRef operands[2] = {from_bits(l, change->dtype, old), change->value};
    OpKind kind;
    if (!op_from_name(change->fn, strlen(change->fn), &kind)) {
        diag_bug(l->func->diags, "no atomic is called '%s'", change->fn);
    }
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

/* Read, change, write if nobody else has written since; else again. */
static LLVMValueRef
change_in_loop(Llvm *l, DType dtype, LLVMValueRef address,
               LLVMValueRef (*change)(Llvm *l, const void *how, LLVMValueRef old), const void *how)
{
    LLVMBuilderRef b = l->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMValueRef function = LLVMGetBasicBlockParent(before);
    LLVMBasicBlockRef again = llvm_block(l, function, "again");
    LLVMBasicBlockRef done = llvm_block(l, function, "done");
    LLVMTypeRef type = bits_type(l, dtype);
    LLVMValueRef first = LLVMBuildLoad2(b, type, address, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, (unsigned)dtype_bytes(dtype));
    LLVMBuildBr(b, again);
    LLVMPositionBuilderAtEnd(b, again);
    LLVMValueRef old = LLVMBuildPhi(b, type, "");
    LLVMAddIncoming(old, &first, &before, 1);
    LLVMValueRef pair = exchange_if(l, address, old, change(l, how, old));
    LLVMValueRef seen = LLVMBuildExtractValue(b, pair, 0, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(old, &seen, &latch, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, again);
    LLVMPositionBuilderAtEnd(b, done);
    return seen;
}

LLVMValueRef scalar_atomic(Llvm *l, const AtomicChange *change, LLVMValueRef address)
{
    LLVMAtomicOrdering relaxed = LLVMAtomicOrderingMonotonic;
    LLVMAtomicRMWBinOp op;
    LLVMValueRef old;
    if (change->float_add && text_equal(change->fn, "add") &&
        (change->dtype == DT_F32 || change->dtype == DT_F64)) {
        return LLVMBuildAtomicRMW(l->builder, LLVMAtomicRMWBinOpFAdd, address, change->value,
                                  relaxed, false);
    }
    if (text_equal(change->fn, "cas")) {
        LLVMValueRef expected = to_bits(l, change->dtype, change->compare);
        LLVMValueRef next = to_bits(l, change->dtype, change->value);
        old = LLVMBuildExtractValue(l->builder, exchange_if(l, address, expected, next), 0, "");
    } else if (direct(change, &op)) {
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
