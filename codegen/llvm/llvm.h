/* SPDX-License-Identifier: Apache-2.0 */
/* The one header that includes llvm-c. An Llvm is one module under construction for one target:
 * llvm_run creates it, passes it to a body and disposes of it afterwards, also if the body fails.
 */
#ifndef TESSERA_CODEGEN_LLVM_LLVM_H
#define TESSERA_CODEGEN_LLVM_LLVM_H

#include "codegen/codegen.h"
#include "codegen/llvm/llvm_pass_gate.h"
#include "ir/ir.h"
#include "ir/target/target.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

typedef struct Llvm {
    Func *func;
    Arena *arena;
    Diags *diags;
    const Target *target;
    LLVMContextRef context;
    LlvmGate *gate;              /* before llvm_emit, and where nothing is left out, NULL */
    LLVMMemoryBufferRef emitted; /* while it is copied */
    LLVMModuleRef module;
    LLVMModuleRef spare;    /* a copy to emit from again; NULL: none */
    LLVMBuilderRef builder; /* where code goes; callers position it */
    LLVMTargetMachineRef machine;
    LLVMTypeRef nothing, i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr;
    bool has_fma, has_f16; /* are instructions (CPU: else they are emulated) */
    bool has_vnni;         /* AVX-512's sums of four products of bytes */
    Text problems;         /* errors that LLVM reported, one a line */
    const CodegenOptions *options;
    const char *const *disabled_passes;
    struct LlvmLines *lines; /* NULL: nothing has a place */
    LLVMValueRef loops_of;   /* the function that n_loops counts the loops of */
    int n_loops;
    double since;            /* when the present part of the work began */
} Llvm;

typedef struct LlvmOptions {
    const CodegenOptions *codegen;
    bool keep_names;             /* for readable IR; dropping them is faster */
    const char *const *left_out; /* passes of LLVM's back end, as llvm_pass_gate.h says; NULL:
                                  * none */
} LlvmOptions;

typedef bool LlvmBody(Llvm *l, void *user);
/* LLVM's registry of targets is the process's: once, whoever comes first. */
void llvm_register_targets(void);
/* A string of LLVM's, copied, so that nothing of its own outlives the call; NULL is "". */
char *llvm_text(Arena *arena, char *message);
/* Runs `body` on an empty module for func->target. Also frees LLVM's memory when the body leaves
 * through the arena's or the diagnostics' guard. False after a diagnostic. */
bool llvm_run(Func *func, const LlvmOptions *options, LlvmBody *body, void *user);

/* Ends a part of the work, and tells who wants to know how long it took. */
void llvm_end_phase(Llvm *l, const char *part);

/* ---- types ---- */
/* In registers: bool is i1. On CPUs f16 and bf16 are i16, their bits: x86's code generator would
 * rather call a library than leave such floats alone. */
LLVMTypeRef llvm_type(const Llvm *l, DType dtype);
LLVMTypeRef llvm_memory_type(const Llvm *l, DType dtype); /* in memory: bool is i8 */
LLVMTypeRef llvm_lanes(LLVMTypeRef element, int n);       /* n 0 or 1: the element itself */
int llvm_lane_count(LLVMTypeRef type);                    /* 0: not a vector */
LLVMTypeRef llvm_element(LLVMTypeRef type);
/* `element` with as many lanes as `like` has. */
LLVMTypeRef llvm_like(LLVMTypeRef element, LLVMTypeRef like);

/* ---- constants: `type` may be a vector, which gives a splat ---- */
LLVMValueRef llvm_float(LLVMTypeRef type, double value);
LLVMValueRef llvm_int(LLVMTypeRef type, int64_t value);
/* A constant of a dtype from an attribute of kind NUM. */
LLVMValueRef llvm_number(const Llvm *l, DType dtype, LLVMTypeRef type, const Attr *attr);
LLVMValueRef llvm_i32(const Llvm *l, int64_t value);
LLVMValueRef llvm_i64(const Llvm *l, int64_t value);
/* A scalar in all lanes of `type`; as it is when `type` is no vector. */
LLVMValueRef llvm_splat(Llvm *l, LLVMValueRef scalar, LLVMTypeRef type);
/* The bound of a loop that is about to begin: in a function of very many loops one that LLVM knows
 * nothing of. For each loop that was left its scalar evolution keeps that the counter is not below
 * the bound, and asks all of that at every later loop of the same bound: work by the cube. */
LLVMValueRef llvm_bound(Llvm *l, LLVMValueRef bound);

/* ---- calls ---- */
/* An intrinsic by its base name ("llvm.fma"), with the types that it is overloaded on. */
LLVMValueRef llvm_intrinsic(Llvm *l, const char *name, int n_types, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
/* Overloaded on the type of its first operand. */
LLVMValueRef llvm_call1(Llvm *l, const char *name, LLVMValueRef a);
LLVMValueRef llvm_call2(Llvm *l, const char *name, LLVMValueRef a, LLVMValueRef c);
LLVMValueRef llvm_call3(Llvm *l, const char *name, LLVMValueRef a, LLVMValueRef c, LLVMValueRef d);

/* ---- functions ---- */
void llvm_attribute(const Llvm *l, LLVMValueRef function, const char *name); /* nounwind, … */
void llvm_param_attribute(const Llvm *l, LLVMValueRef function, int param, const char *name);
void llvm_string_attribute(const Llvm *l, LLVMValueRef function, const char *key,
                           const char *value);
LLVMBasicBlockRef llvm_block(const Llvm *l, LLVMValueRef function, const char *name);

/* ---- places in the source (llvm_debug_lines.c) ---- */
/* The function at whose code the next places are. It stands where the first statement does that the
 * launch came from. Without a call there are none. */
void llvm_lines_launch(Llvm *l, LLVMValueRef function, const Op *launch);
/* What is built from now on comes from there; a made-up span changes nothing. */
void llvm_line(Llvm *l, Span span);
/* What is built from now on comes from nowhere. */
void llvm_lines_leave(Llvm *l);
/* Before the module is verified; also frees what is left after a failure. */
void llvm_lines_end(Llvm *l);

/* ---- finishing: each is a diag_bug when LLVM rejects what we made ---- */
void llvm_verify(Llvm *l);
/* `passes` as `opt -passes=` takes them. */
void llvm_optimize(Llvm *l, const char *passes);
void llvm_print(Llvm *l, Code *code);                          /* the module as text */
void llvm_emit(Llvm *l, LLVMCodeGenFileType kind, Code *code); /* assembly or object */

#endif
