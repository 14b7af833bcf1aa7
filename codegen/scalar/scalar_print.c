/* SPDX-License-Identifier: Apache-2.0 */
/* Emits the code by which a kernel appends one record of print or assert to the log of its launch.
 * A record that no longer fits is counted but not stored. */
#include "codegen/scalar/scalar_print.h"

#include "codegen/scalar/scalar_ops.h"
#include "ir/build.h"
#include "runtime/device/plan.h"

/* i64: floats as f64, which holds each of them. */
static LLVMValueRef word_of(Llvm *l, DType dtype, LLVMValueRef value)
{
    if (!dtype_is_float(dtype)) {
        return scalar_cast(l, value, dtype, DT_I64);
    }
    LLVMValueRef wide = scalar_cast(l, value, dtype, DT_F64);
    return LLVMBuildBitCast(l->builder, wide, l->i64, "");
}

static void put_word(Llvm *l, LLVMValueRef at, int index, LLVMValueRef word)
{
    LLVMValueRef offset = llvm_i64(l, index);
    LLVMValueRef cell = LLVMBuildGEP2(l->builder, l->i64, at, &offset, 1, "");
    LLVMSetAlignment(LLVMBuildStore(l->builder, word, cell), 8);
}

void scalar_print(Llvm *l, LLVMValueRef log, const Op *op, LLVMValueRef const *values, int words)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(b));
    LLVMBasicBlockRef fits = llvm_block(l, function, "says"),
                      after = llvm_block(l, function, "said");
    LLVMValueRef nth = LLVMBuildAtomicRMW(b, LLVMAtomicRMWBinOpAdd, log, llvm_i64(l, 1),
                                          LLVMAtomicOrderingMonotonic, false);
    if (op->kind == OP_ASSERT) {
        LLVMValueRef second = llvm_i64(l, 1);
        LLVMValueRef failures = LLVMBuildGEP2(b, l->i64, log, &second, 1, "");
        LLVMBuildAtomicRMW(b, LLVMAtomicRMWBinOpAdd, failures, llvm_i64(l, 1),
                           LLVMAtomicOrderingMonotonic, false);
    }
    LLVMValueRef has_space = LLVMBuildICmp(b, LLVMIntULT, nth, llvm_i64(l, LOG_RECORDS), "");
    LLVMBuildCondBr(b, has_space, fits, after);
    LLVMPositionBuilderAtEnd(b, fits);
    LLVMValueRef offset = LLVMBuildMul(b, nth, llvm_i64(l, words), "");
    offset = LLVMBuildAdd(b, offset, llvm_i64(l, LOG_HEAD), "");
    LLVMValueRef at = LLVMBuildGEP2(b, l->i64, log, &offset, 1, "");
    put_word(l, at, 0, llvm_i64(l, op_int(op, ATTR_SITE, 0)));
    for (int i = 1; i < op->n_operands; i++) {
        DType dtype = op->operands[i]->type->dtype;
        put_word(l, at, i, word_of(l, dtype, values[i - 1]));
    }
    LLVMBuildBr(b, after);
    LLVMPositionBuilderAtEnd(b, after);
}
