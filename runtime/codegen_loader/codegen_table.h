/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between libtessera and libtessera-codegen, which contains LLVM: the functions of
 * codegen.h, which has their contracts, as a table. Other code of libtessera cannot call them in
 * any other way, because it is linked without them. The library is opened when machine code is
 * first generated or linked, so a program whose code comes from the cache never pays for LLVM's
 * 85,000 relocations. */
#ifndef TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_TABLE_H
#define TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_TABLE_H

#include "codegen/bundle_object.h"
#include "codegen/codegen.h"

/* It has no version, because only libraries of one build work together. */
typedef struct CodegenTable {
    bool (*emit)(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);
    bool (*ptxas_info)(Func *func, const CodegenOptions *options, const Code *ptx, Code *info);
    bool (*ptxas_relieve)(Func *func, PtxasRelief *relief, const Code *info);
    bool (*bundle)(Arena *arena, Diags *diags, const BundleObject *object, Code *code);
    void (*host)(Arena *arena, CodegenHost *host);
    void (*host_cpu)(Arena *arena, CodegenHost *host);
    JitCode *(*jit)(Func *func, const Code *code, const Plan *plan);
    void *(*jit_symbol)(JitCode *jit, const char *symbol);
    void (*jit_free)(JitCode *jit);
} CodegenTable;

#define CODEGEN_TABLE "tessera_codegen"

#endif
