/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions of one wave: MFMA of gfx9, WMMA of gfx11 and gfx12. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_MFMA_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_MFMA_H

#include "codegen/gpu/gpu_emit.h"

void amdgcn_multiply(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                     const GpuFragment *b, LLVMValueRef *acc, int n);
void amdgcn_finish_dot(GpuEmitter *em, const MatrixInstr *unit, LLVMValueRef *acc, int n);

/* 32-bit registers that results of the launch's MFMA products take in a thread; 0: it has none. */
int amdgcn_accumulators(GpuEmitter *em);

#endif
