/* SPDX-License-Identifier: Apache-2.0 */
/* The table of back ends, by the family of a target. */
#include "codegen/codegen.h"

#include "codegen/amdgcn/amdgcn.h"
#include "codegen/cpu/cpu.h"
#include "codegen/nvptx/nvptx.h"
#include "codegen/nvptx/ptxas.h"
#include "codegen/nvptx/ptxas_spills.h"
#include "ir/target/target.h"

typedef bool BackEnd(Func *func, EmitKind kind, const CodegenOptions *options, Code *code,
                     Plan *plan);

static BackEnd *const BACK_ENDS[] = {
    [FAMILY_CPU] = cpu_emit,
    [FAMILY_NVPTX] = nvptx_emit,
    [FAMILY_AMDGCN] = amdgcn_emit,
};

bool codegen_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    return BACK_ENDS[func->target->family](func, kind, options, code, plan);
}

bool codegen_ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *info)
{
    return ptxas_info(func, options, ptx, info);
}

bool codegen_ptxas_relieve(Func *func, PtxasRelief *relief, const Code *info)
{
    return ptxas_relieve(func, relief, info->bytes);
}
