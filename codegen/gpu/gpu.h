/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of the GPU back ends to codegen.c: machine code for a staged function. */
#ifndef TESSERA_CODEGEN_GPU_GPU_H
#define TESSERA_CODEGEN_GPU_GPU_H

#include "codegen/codegen.h"

bool gpu_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

#endif
