/* SPDX-License-Identifier: Apache-2.0 */
/* Reads LLVM IR, applies the workarounds for LLVM's AMDGPU back end
 * (codegen/amdgcn/amdgcn_workarounds.h) and prints it:
 *
 *     tessera-amdgcn-ir FILE.ll */
#include "codegen/amdgcn/amdgcn_workarounds.h"

#include <llvm-c/IRReader.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char *message = NULL;
    LLVMMemoryBufferRef text = NULL;
    LLVMContextRef context = LLVMContextCreate();
    Llvm llvm = {.i32 = LLVMInt32TypeInContext(context)};
    GpuEmitter em = {.l = &llvm, .context = context, .i32 = llvm.i32};
    Arena arena;
    if (argc != 2 || LLVMCreateMemoryBufferWithContentsOfFile(argv[1], &text, &message) ||
        LLVMParseIRInContext(em.context, text, &em.module, &message)) {
        fprintf(stderr, "tessera-amdgcn-ir: %s\n", message ? message : "one file is wanted");
        return 1;
    }
    em.builder = LLVMCreateBuilderInContext(em.context);
    em.arena = &arena;
    em.i64 = LLVMInt64TypeInContext(em.context);
    arena_init(&arena, allocator_default());
    amdgcn_rewrite(&em);
    arena_free(&arena);
    char *printed = LLVMPrintModuleToString(em.module);
    fputs(printed, stdout);
    LLVMDisposeMessage(printed);
    LLVMDisposeBuilder(em.builder);
    LLVMDisposeModule(em.module);
    LLVMContextDispose(em.context);
    return 0;
}
