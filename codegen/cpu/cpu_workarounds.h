/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites of LLVM IR that keep known miscompilations of LLVM's x86 back end from happening. */
#ifndef TESSERA_CODEGEN_CPU_CPU_WORKAROUNDS_H
#define TESSERA_CODEGEN_CPU_CPU_WORKAROUNDS_H

#include "codegen/llvm/llvm.h"

/* Splits what LLVM 22.1.8 miscompiles; after the middle end, which would rebuild it. */
void cpu_rewrite(Llvm *l);

#endif
