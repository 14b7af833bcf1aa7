/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between libtessera and libtessera-codegen, where LLVM is: the functions of
 * codegen.h as a table. The library is opened when machine code is first generated or linked, so a
 * program whose code comes from the cache never pays for LLVM's 85,000 relocations. */
#ifndef TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_TABLE_H
#define TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_TABLE_H

#include "codegen/bundle_object.h"
#include "codegen/codegen.h"

/* Without numbers of versions: the two are of one build, or do not work together. */
typedef struct CodegenTable {
    bool (*emit)(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);
    bool (*assembler_says)(Func *func, const CodegenOptions *options, const Code *ptx, Code *said);
    bool (*bundle)(Arena *arena, Diags *diags, const BundleObject *object, Code *code);
    void (*host)(Arena *arena, CodegenHost *host);
    void (*host_cpu)(Arena *arena, CodegenHost *host);
    JitCode *(*jit)(Func *func, const Code *code, const Plan *plan);
    void *(*symbol)(JitCode *jit, const char *symbol);
    void (*free)(JitCode *jit);
} CodegenTable;

#define CODEGEN_TABLE "tessera_codegen"

#endif
