/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what generates code on this machine, for `tessera doctor`: the CPU as LLVM names it,
 * LLVM's version, and the path and version of ptxas. */
#include "codegen/codegen.h"

#include "codegen/llvm/llvm.h"
#include "codegen/nvptx/ptxas.h"

void codegen_host_cpu(Arena *arena, CodegenHost *host)
{
    *host = (CodegenHost){.cpu = llvm_text(arena, LLVMGetHostCPUName()),
                          .features = llvm_text(arena, LLVMGetHostCPUFeatures())};
}

void codegen_host(Arena *arena, CodegenHost *host)
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    codegen_host_cpu(arena, host);
    host->llvm = arena_printf(arena, "%u.%u.%u", major, minor, patch);
    host->ptxas = ptxas_find(arena);
    host->ptxas_version = host->ptxas ? ptxas_version(arena, host->ptxas) : NULL;
}
