/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the back end of a target by its family and calls it. */
#include "codegen/codegen.h"

#include "codegen/cpu/cpu.h"
#include "codegen/gpu/gpu.h"
#include "codegen/nvptx/ptxas.h"
#include "ir/target/target.h"

bool codegen_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    if (func->target->family == FAMILY_CPU) {
        return cpu_emit(func, kind, options, code, plan);
    }
    return gpu_emit(func, kind, options, code, plan);
}

bool codegen_ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *said)
{
    return ptxas_says(func, options, ptx, said);
}
