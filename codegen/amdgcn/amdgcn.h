/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code of a staged function for AMD's targets. */
#ifndef TESSERA_CODEGEN_AMDGCN_AMDGCN_H
#define TESSERA_CODEGEN_AMDGCN_AMDGCN_H

#include "codegen/codegen.h"

bool amdgcn_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

#endif
