/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code of a staged function for NVIDIA's targets. */
#ifndef TESSERA_CODEGEN_NVPTX_NVPTX_H
#define TESSERA_CODEGEN_NVPTX_NVPTX_H

#include "codegen/codegen.h"

bool nvptx_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

#endif
