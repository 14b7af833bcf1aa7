/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the CPU back end: it builds a module with one function per launch. */
#include "codegen/cpu/cpu.h"

#include "ir/ir_errors.h"

#include "codegen/cpu/cpu_emit.h"
#include "codegen/cpu/cpu_workarounds.h"

/* What is left to LLVM: promoting cells, folding addresses, hoisting. Loops are vectors already. */
static const char *const PASSES =
    "function(mem2reg,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),early-cse,simplifycfg,adce)";

typedef struct CpuJob {
    EmitKind kind;
    const CodegenOptions *options;
    Code *code;
    const Plan *plan;
} CpuJob;

static bool cpu_body(Llvm *l, void *user)
{
    const CpuJob *job = user;
    int errors = l->diags->errors;
    /* The emitter of the module emits one function per launch. */
    Func *func = l->func;
    CpuEmitter *c = ARENA_NEW(l->arena, CpuEmitter);
    *c = (CpuEmitter){.l = l, .func = func, .arena = l->arena, .plan = job->plan};
    c->lanes = func->target->vector_bytes / 4;
    c->sizes = ARENA_ARRAY(l->arena, LLVMValueRef, func->dimvars.n);
    c->pointers = ARENA_ARRAY(l->arena, LLVMValueRef, func->params.n);
    LaunchOps launches = plan_launch_ops(func);
    for (size_t i = 0; i < launches.n; i++) {
        c->values = ARENA_ARRAY(l->arena, CpuValue, func->n_values);
        cpu_emit_launch(c, launches.items[i], &job->plan->launches[i]);
    }
    llvm_lines_end(l);
    if (l->diags->errors > errors) {
        return false;
    }
    llvm_end_phase(l, "emit");
    llvm_verify(l);
    if (job->options->optimize > 0) {
        llvm_optimize(l, PASSES);
    }
    cpu_rewrite(l);
    if (job->kind == EMIT_LLVM) {
        llvm_print(l, job->code);
    } else {
        llvm_emit(l, job->kind == EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile, job->code);
    }
    return true;
}

bool cpu_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    if (kind != EMIT_LLVM && kind != EMIT_ASM && kind != EMIT_OBJ) {
        diag_failure_at(func->diags, DIAG_USAGE, ERR_EMIT, SPAN_NONE,
                        "target %s has no such output; it has llvm, asm, obj", func->target->name);
        return false;
    }
    plan_fill(func, plan);
    LlvmOptions llvm = {options, kind == EMIT_LLVM, NULL};
    CpuJob job = {kind, options, code, plan};
    return llvm_run(func, &llvm, cpu_body, &job);
}
