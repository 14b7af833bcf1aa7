/* SPDX-License-Identifier: Apache-2.0 */
/* Emission of the AMD module as text or object, with a second attempt for kernels that spill
 * registers (amdgcn_reschedule.c). */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_RESCHEDULE_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_RESCHEDULE_H

#include "codegen/gpu/gpu_emit.h"

/* Text or object of the module. Kernels that LLVM gives scratch memory are scheduled again, for
 * the fewest registers. */
void amdgcn_emit_module(GpuEmitter *em, LLVMCodeGenFileType type, Code *code);

#endif
