/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the host's machine code into this process: an object file that ORC links in memory. */
#include "codegen/cpu/cpu.h"

#include "codegen/llvm/llvm.h"

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdlib.h>

struct JitCode {
    LLVMOrcLLJITRef jit;
};

static bool report(Func *func, LLVMErrorRef error)
{
    if (!error) {
        return true;
    }
    char *message = LLVMGetErrorMessage(error);
    diag_failure(func->diags, DIAG_INTERNAL, "linking %s in memory: %s", func->name, message);
    LLVMDisposeErrorMessage(message);
    return false;
}

static bool link_object(Func *func, JitCode *jit, const Code *code)
{
    llvm_register_targets();
    if (!report(func, LLVMOrcCreateLLJIT(&jit->jit, NULL))) {
        return false;
    }
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(code->bytes, code->n, func->name);
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(jit->jit);
    return report(func, LLVMOrcLLJITAddObjectFile(jit->jit, library, buffer));
}

static bool link_symbols(Func *func, JitCode *jit, const Plan *plan)
{
    for (int i = 0; i < plan->n_launches; i++) {
        LLVMOrcExecutorAddress address;
        if (!report(func, LLVMOrcLLJITLookup(jit->jit, &address, plan->launches[i].symbol))) {
            return false;
        }
    }
    return true;
}

JitCode *codegen_jit(Func *func, const Code *code, const Plan *plan)
{
    JitCode *jit = calloc(1, sizeof *jit);
    if (!jit) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "out of memory");
        return NULL;
    }
    if (!link_object(func, jit, code) || !link_symbols(func, jit, plan)) {
        jit_free(jit);
        return NULL;
    }
    return jit;
}

void *jit_symbol(JitCode *jit, const char *symbol)
{
    LLVMOrcExecutorAddress address = 0;
    LLVMErrorRef error = LLVMOrcLLJITLookup(jit->jit, &address, symbol);
    if (error) {
        LLVMConsumeError(error);
        return NULL;
    }
    return (void *)(uintptr_t)address;
}

void jit_free(JitCode *jit)
{
    if (!jit) {
        return;
    }
    if (jit->jit) {
        LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->jit));
    }
    free(jit);
}
