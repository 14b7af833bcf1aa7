/* SPDX-License-Identifier: Apache-2.0 */
/* Hides values from LLVM. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_OPAQUE_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_OPAQUE_H

#include "codegen/gpu/gpu_emit.h"

/* A copy in a vector register of which LLVM knows nothing; the hook `loop_carry`. */
LLVMValueRef amdgcn_opaque(GpuEmitter *em, LLVMValueRef value);
/* The same, computed at this place in the code; the hook `compute_here`. */
LLVMValueRef amdgcn_opaque_here(GpuEmitter *em, LLVMValueRef value);

#endif
