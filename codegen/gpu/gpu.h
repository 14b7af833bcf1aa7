/* SPDX-License-Identifier: Apache-2.0 */
/* GPU code for a staged function: all that codegen.c needs to know of this folder. */
#ifndef TESSERA_CODEGEN_GPU_GPU_H
#define TESSERA_CODEGEN_GPU_GPU_H

#include "codegen/codegen.h"

bool gpu_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

#endif
