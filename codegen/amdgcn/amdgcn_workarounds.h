/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites of LLVM IR that keep known miscompilations of LLVM's AMDGPU back end from happening.
 * amdgcn_workarounds.c and amdgcn_dpp.c list them. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_WORKAROUNDS_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_WORKAROUNDS_H

#include "codegen/gpu/gpu_emit.h"

/* Rewrites operations that LLVM 22.1.8 miscompiles. Runs after the middle end, which would combine
 * them again. */
void amdgcn_rewrite(GpuEmitter *em);
/* Of one instruction: where it is a word of another lane that LLVM would fold into a reader of
 * which no part has such a form, the reader no longer sees where it is from (amdgcn_dpp.c). */
void amdgcn_hide_exchange(GpuEmitter *em, LLVMValueRef op);

#endif
