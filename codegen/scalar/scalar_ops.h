/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise ops of ops.def on LLVM scalars or vectors, for all back ends. Strict IEEE: no
 * fast-math flags. Values of bool are i1; nothing here calls a library function, except fma on f64
 * for processors that have none. */
#ifndef TESSERA_CODEGEN_SCALAR_SCALAR_OPS_H
#define TESSERA_CODEGEN_SCALAR_SCALAR_OPS_H

#include "codegen/llvm/llvm.h"

/* `in` is the element type of the data operands (cmp, select: of what is compared or selected),
 * `out` of the result, `pred` for cmp. Operands are all scalars or all vectors of one length. */
LLVMValueRef scalar_emit(Llvm *l, OpKind kind, const char *pred, DType in, DType out,
                         const LLVMValueRef *operands);
/* The same for an op of the IR. */
LLVMValueRef scalar_emit_op(Llvm *l, const Op *op, const LLVMValueRef *operands);

LLVMValueRef scalar_cast(Llvm *l, LLVMValueRef a, DType from, DType to);
/* f8 is its bits, i8, in registers. */
LLVMValueRef scalar_f8_to_f32(Llvm *l, LLVMValueRef a, DType from);
/* Two GPU values at once. */
void scalar_f8_pair_to_f16(Llvm *l, LLVMValueRef *a, LLVMValueRef *c, DType from);
LLVMValueRef scalar_f32_to_f8(Llvm *l, LLVMValueRef a, DType to);
LLVMValueRef scalar_fma(Llvm *l, DType dtype, LLVMValueRef a, LLVMValueRef c, LLVMValueRef d);
/* The exact remainder of f32 or f64, moved once to the divisor's sign; NaN by 0. */
LLVMValueRef scalar_mod(Llvm *l, LLVMValueRef a, LLVMValueRef c);
/* 2^a for f32, within 2^-23 relative for normal results; smaller results are 0. */
LLVMValueRef scalar_exp2(Llvm *l, LLVMValueRef a);

/* Reductions: the op that combines two elements (sum: OP_ADD, prod: OP_MUL, OP_MAX, OP_MIN), as the
 * attribute `fn` of a reduce or scan names it; the combination; the value that changes nothing. */
OpKind scalar_reduction(const Llvm *l, const Op *op);
LLVMValueRef scalar_combine(Llvm *l, OpKind reduction, DType dtype, LLVMValueRef a, LLVMValueRef c);
LLVMValueRef scalar_neutral(OpKind reduction, DType dtype, LLVMTypeRef type);

#endif
