/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one record of print or assert to the log of a launch (runtime/device/plan.h), for all
 * back ends. */
#ifndef TESSERA_CODEGEN_SCALAR_SCALAR_PRINT_H
#define TESSERA_CODEGEN_SCALAR_SCALAR_PRINT_H

#include "codegen/llvm/llvm.h"

/* `op`: a print or assert; `values`: one element of each of its operands but the first, as they are
 * in registers; `words`: of a record. May end in another basic block. */
void scalar_print(Llvm *l, LLVMValueRef log, const Op *op, LLVMValueRef const *values, int words);

#endif
