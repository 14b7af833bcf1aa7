/* SPDX-License-Identifier: Apache-2.0 */
/* Loads from global memory to LDS that need no registers. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_LDS_DMA_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_LDS_DMA_H

#include "codegen/gpu/gpu_emit.h"

/* The hooks of GpuTarget. */
void amdgcn_copy(GpuEmitter *em, const GpuCopyVector *piece);
void amdgcn_copy_commit(GpuEmitter *em);
void amdgcn_copy_wait(GpuEmitter *em, int pending, LLVMValueRef full);
/* Does the launch have any? */
bool amdgcn_copies(GpuEmitter *em);
/* Until this wave's own accesses of LDS are done, copies apart. */
void amdgcn_wait_local(GpuEmitter *em);
/* Before the back end: what else touches LDS meets no copy that is on its way. */
void amdgcn_copies_apart(GpuEmitter *em);

#endif
