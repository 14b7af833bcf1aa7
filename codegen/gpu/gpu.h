/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code for a staged function, by the hooks of a vendor. */
#ifndef TESSERA_CODEGEN_GPU_GPU_H
#define TESSERA_CODEGEN_GPU_GPU_H

#include "codegen/codegen.h"

struct GpuTarget;

bool gpu_emit(Func *func, const struct GpuTarget *target, EmitKind kind,
              const CodegenOptions *options, Code *code, Plan *plan);

#endif
