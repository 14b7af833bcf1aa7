/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU back end: it turns launches into loop nests over tiles on the stack, with LLVM vectors.
 */
#ifndef TESSERA_CODEGEN_CPU_CPU_H
#define TESSERA_CODEGEN_CPU_CPU_H

#include "codegen/codegen.h"

/* EMIT_LLVM, EMIT_ASM or EMIT_OBJ. False after a diagnostic. */
bool cpu_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

#endif
