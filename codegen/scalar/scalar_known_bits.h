/* SPDX-License-Identifier: Apache-2.0 */
/* Shifts and masks of indices whose low bits are known. They fold while the code is emitted,
 * because LLVM's instcombine would cost too much compile time on GPU code. */
#ifndef TESSERA_CODEGEN_SCALAR_SCALAR_KNOWN_BITS_H
#define TESSERA_CODEGEN_SCALAR_SCALAR_KNOWN_BITS_H

#include "codegen/llvm/llvm.h"

/* How many of the lowest bits of an integer are 0, as its instructions show. */
int scalar_low_zeros(LLVMValueRef value);
/* a >> by (arithmetic: with the sign), where `by` is less than the bits of a. */
LLVMValueRef scalar_shift_right(Llvm *l, bool arithmetic, LLVMValueRef a, LLVMValueRef by);
LLVMValueRef scalar_and(Llvm *l, LLVMValueRef a, LLVMValueRef mask);

#endif
