/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation: from staged IR to machine code and a launch plan. This is the only component
 * that uses LLVM, and its interface has no LLVM types, so that callers do not depend on LLVM. */
#ifndef TESSERA_CODEGEN_CODEGEN_H
#define TESSERA_CODEGEN_CODEGEN_H

#include "ir/ir.h"
#include "runtime/device/plan.h"

typedef enum EmitKind {
    EMIT_LLVM,  /* LLVM IR, text, after its optimizer */
    EMIT_PTX,   /* NVIDIA: text */
    EMIT_CUBIN, /* NVIDIA: needs an assembler, ptxas */
    EMIT_ASM,   /* assembly text of the target (NVIDIA: SASS is not ours to print; this is PTX) */
    EMIT_HSACO, /* AMD: a linked code object */
    EMIT_OBJ,   /* CPU: a relocatable object */
} EmitKind;

typedef struct CodegenOptions {
    int optimize;      /* LLVM's level, 0…3; 3 is normal */
    const char *ptxas; /* a path, or NULL: look for one */
    bool lines;        /* text for people: places in the source on all targets */
    /* Receives the duration of each part of the work; may be NULL. */
    void (*report_time)(void *user, const char *part, double seconds);
    void *user;
} CodegenOptions;

typedef struct Code {
    char *bytes;
    size_t n;
} Code;

/* False after a diagnostic. `plan` is filled whatever `kind` is. */
bool codegen_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan);

/* What code is made with, and the CPU that "native" means. */
typedef struct CodegenHost {
    const char *llvm;     /* its version */
    const char *cpu;      /* LLVM's name of it */
    const char *features; /* "+avx2,-amx-tile,…" */
    const char *ptxas;    /* NULL: there is none, or it cannot be run */
    const char *ptxas_version;
    const char *why; /* nothing but this is known: LLVM is not here */
} CodegenHost;
void codegen_host(Arena *arena, CodegenHost *host);
/* The CPU alone; it runs no other program. */
void codegen_host_cpu(Arena *arena, CodegenHost *host);

/* NVIDIA: the statistics that `ptxas -v` prints for this PTX. False, without a diagnostic, if there
 * is no ptxas or it fails. */
bool codegen_ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *info);
/* What was tried for launches that spill; zero before. */
typedef struct PtxasRelief {
    const char *info; /* of the first plan */
    int64_t *blocks;  /* by launch: of the first plan, where it was changed; else 0 */
    bool ended;
} PtxasRelief;
/* NVIDIA: lowers the derived occupancy of launches that spill, as EMIT_CUBIN does by itself, and
 * takes back what did not help. True: code is to be made again, and this is to be asked again. */
bool codegen_ptxas_relieve(Func *func, PtxasRelief *relief, const Code *info);

/* The host's own code, ready to call. */
typedef struct JitCode JitCode;
/* Links an EMIT_OBJ of this CPU and finds the plan's symbols; errors are diagnostics of func. */
JitCode *codegen_jit(Func *func, const Code *code, const Plan *plan);
void *jit_symbol(JitCode *jit, const char *symbol);
void jit_free(JitCode *jit);

#endif
