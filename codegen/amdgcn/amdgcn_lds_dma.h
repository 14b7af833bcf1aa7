/* SPDX-License-Identifier: Apache-2.0 */
/* Loads from global memory to LDS that need no registers. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_LDS_DMA_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_LDS_DMA_H

#include "codegen/gpu/gpu_emit.h"

/* The hooks of GpuTarget. */
void amdgcn_copy(GpuEmitter *em, const GpuCopyVector *piece);
void amdgcn_copy_commit(GpuEmitter *em);
void amdgcn_copy_wait(GpuEmitter *em, int pending, LLVMValueRef full);
/* True if the launch has asynchronous copies. */
bool amdgcn_copies(GpuEmitter *em);
/* Waits until this wave's accesses of LDS are done, except copies. */
void amdgcn_wait_local(GpuEmitter *em);
/* Marks copies to LDS as not aliasing other accesses of LDS, so that the back end does not wait for
 * copies in flight. Runs before the back end. */
void amdgcn_mark_copies_noalias(GpuEmitter *em);

#endif
