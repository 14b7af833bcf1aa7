/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites of LLVM IR that keep a known miscompilation of ptxas from happening. */
#ifndef TESSERA_CODEGEN_NVPTX_PTXAS_WORKAROUNDS_H
#define TESSERA_CODEGEN_NVPTX_PTXAS_WORKAROUNDS_H

#include "codegen/gpu/gpu_emit.h"

/* Rewrites what ptxas 13.0 miscompiles; after the middle end, which would undo it. */
void ptxas_rewrite(GpuEmitter *em);

#endif
