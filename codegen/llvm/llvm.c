/* SPDX-License-Identifier: Apache-2.0 */
/* The life cycle of an LLVM module: creation, verification, optimization, emission and disposal. */
#include "codegen/llvm/llvm.h"

#include "codegen/llvm/llvm_fatal.h"
#include "ir/ir_errors.h"
#include "support/clock.h"

#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void register_targets(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    llvm_catch_fatal_errors();
}

void llvm_register_targets(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_targets);
}

static void note_problem(LLVMDiagnosticInfoRef info, void *user)
{
    Llvm *l = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) {
        return;
    }
    char *text = LLVMGetDiagInfoDescription(info);
    text_printf(&l->problems, "%s\n", text);
    LLVMDisposeMessage(text);
}

char *llvm_text(Arena *arena, char *message)
{
    jmp_buf *outer = arena->guard, here;
    char *volatile copy = NULL;
    int failed = setjmp(here);
    if (!failed) {
        arena->guard = &here;
        copy = arena_strdup(arena, message ? message : "");
    }
    arena->guard = outer;
    LLVMDisposeMessage(message);
    if (failed && outer) {
        longjmp(*outer, failed);
    }
    return copy;
}

typedef struct MachineFacts {
    const char *triple, *cpu, *features;
} MachineFacts;

static MachineFacts machine_facts(Llvm *l)
{
    const Target *target = l->target;
    if (text_equal(target->name, "native") || (target->cpu && text_equal(target->cpu, "native"))) {
        return (MachineFacts){llvm_text(l->arena, LLVMGetDefaultTargetTriple()),
                              llvm_text(l->arena, LLVMGetHostCPUName()),
                              llvm_text(l->arena, LLVMGetHostCPUFeatures())};
    }
    return (MachineFacts){target->triple, target->cpu ? target->cpu : "",
                          target->features ? target->features : ""};
}

static bool has_feature(const MachineFacts *facts, const char *feature)
{
    const char *at = strstr(facts->features, feature);
    size_t n = strlen(feature);
    while (at && at[n] != '\0' && at[n] != ',') {
        at = strstr(at + 1, feature);
    }
    return at != NULL;
}

static LLVMCodeGenOptLevel opt_level(int optimize)
{
    switch (optimize) {
    case 0: return LLVMCodeGenLevelNone;
    case 1: return LLVMCodeGenLevelLess;
    case 2: return LLVMCodeGenLevelDefault;
    default: return LLVMCodeGenLevelAggressive;
    }
}

void llvm_end_phase(Llvm *l, const char *part)
{
    double now = clock_cpu_seconds();
    if (l->options->report_time) {
        l->options->report_time(l->options->user, part, now - l->since);
    }
    l->since = now;
}

static bool begin(Llvm *l, const LlvmOptions *options)
{
    l->problems = text_new(l->arena);
    l->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(l->context, note_problem, l);
    LLVMContextSetDiscardValueNames(l->context, !options->keep_names);
    l->module = LLVMModuleCreateWithNameInContext(l->func->name, l->context);
    l->builder = LLVMCreateBuilderInContext(l->context);
    /* The types are created once per context. */
    LLVMContextRef c = l->context;
    l->nothing = LLVMVoidTypeInContext(c);
    l->i1 = LLVMInt1TypeInContext(c);
    l->i8 = LLVMInt8TypeInContext(c);
    l->i16 = LLVMInt16TypeInContext(c);
    l->i32 = LLVMInt32TypeInContext(c);
    l->i64 = LLVMInt64TypeInContext(c);
    l->f16 = LLVMHalfTypeInContext(c);
    l->bf16 = LLVMBFloatTypeInContext(c);
    l->f32 = LLVMFloatTypeInContext(c);
    l->f64 = LLVMDoubleTypeInContext(c);
    l->ptr = LLVMPointerTypeInContext(c, 0);
    /* The target machine fixes the triple, the processor and its features. */
    MachineFacts facts = machine_facts(l);
    LLVMTargetRef target = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(facts.triple, &target, &message)) {
        diag_failure(l->diags, DIAG_USAGE, "target %s: this build makes no code for %s",
                     l->target->name, facts.triple);
        LLVMDisposeMessage(message);
        return false;
    }
    l->machine = LLVMCreateTargetMachine(target, facts.triple, facts.cpu, facts.features,
                                         opt_level(options->codegen->optimize), LLVMRelocPIC,
                                         LLVMCodeModelDefault);
    bool recent = text_equal(facts.cpu, "x86-64-v3") || text_equal(facts.cpu, "x86-64-v4");
    bool cpu = l->target->family == FAMILY_CPU;
    l->has_fma = !cpu || recent || has_feature(&facts, "+fma");
    l->has_f16 = !cpu || recent || has_feature(&facts, "+f16c");
    l->has_vnni = cpu && has_feature(&facts, "+avx512vnni");
    LLVMSetTarget(l->module, facts.triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(l->machine);
    LLVMSetModuleDataLayout(l->module, layout);
    LLVMDisposeTargetData(layout);
    return true;
}

/* The guards that were set when llvm_run was called. */
typedef struct Guards {
    jmp_buf *arena, *bug;
} Guards;

enum { OUT_OF_MEMORY = 1, BUG = 2 }; /* as arena.c and diag.c jump */

/* Continues with the jump that ended the body. A caller without a guard gets false and a diagnostic
 * instead: a bug has been reported before its jump, a lack of memory is reported here. */
static bool leave(Func *func, const Guards *outer, int why)
{
    jmp_buf *guard = why == OUT_OF_MEMORY ? outer->arena : outer->bug, here;
    if (guard) {
        longjmp(*guard, why);
    }
    if (why == OUT_OF_MEMORY && !setjmp(here)) {
        func->arena->guard = &here; /* of the diagnostic, which may find no memory either */
        diag_failure(func->diags, DIAG_ENVIRONMENT, "out of memory");
    }
    func->arena->guard = outer->arena;
    return false;
}

/* LLVM's fatal error is a bug of ours. */
static bool report_fatal(Func *func, const Guards *outer, const char *words)
{
    jmp_buf here;
    func->diags->bug_guard = &here;
    if (!setjmp(here)) {
        diag_bug(func->diags, "LLVM gave up on %s for %s: %s", func->name, func->target->name,
                 words);
    }
    func->diags->bug_guard = outer->bug;
    return leave(func, outer, BUG);
}

typedef struct Run {
    Llvm *l;
    const LlvmOptions *options;
    LlvmBody *body;
    void *user;
    bool good;
    int jumped; /* why the body was left; 0: it was not */
} Run;

static void run_body(void *user)
{
    Run *run = user;
    Func *func = run->l->func;
    jmp_buf here;
    run->jumped = setjmp(here);
    if (!run->jumped) {
        func->arena->guard = &here;
        func->diags->bug_guard = &here;
        run->good = begin(run->l, run->options) && run->body(run->l, run->user);
    }
}

bool llvm_run(Func *func, const LlvmOptions *options, LlvmBody *body, void *user)
{
    Run run = {ARENA_NEW(func->arena, Llvm), options, body, user, false, 0};
    *run.l = (Llvm){.func = func,
                    .arena = func->arena,
                    .diags = func->diags,
                    .target = func->target,
                    .options = options->codegen,
                    .disabled_passes = options->left_out,
                    .since = clock_cpu_seconds()};
    Guards outer = {func->arena->guard, func->diags->bug_guard};
    char words[LLVM_WORDS];
    llvm_register_targets();
    LlvmEnd end_by = llvm_guarded(run_body, &run, words);
    func->arena->guard = outer.arena;
    func->diags->bug_guard = outer.bug;
    if (end_by == LLVM_GAVE_UP) {
        return report_fatal(func, &outer, words);
    }
    if (end_by == LLVM_OUT_OF_MEMORY) {
        return leave(func, &outer, OUT_OF_MEMORY);
    }
    /* All objects of LLVM are freed, also after an error. */
    Llvm *llvm = run.l;
    if (llvm->lines && llvm->module) {
        llvm_lines_end(llvm);
    }
    if (llvm->builder) {
        LLVMDisposeBuilder(llvm->builder);
    }
    if (llvm->module) {
        LLVMDisposeModule(llvm->module);
    }
    if (llvm->spare) {
        LLVMDisposeModule(llvm->spare);
    }
    if (llvm->machine) {
        LLVMDisposeTargetMachine(llvm->machine);
    }
    if (llvm->context) {
        LLVMContextDispose(llvm->context);
    }
    llvm_gate_free(llvm->gate);
    if (llvm->emitted) {
        LLVMDisposeMemoryBuffer(llvm->emitted);
    }
    return run.jumped ? leave(func, &outer, run.jumped) : run.good;
}

/* ---- finishing ---- */

/* What a thread keeps in addition to its registers has a limit, which LLVM reports when it is
 * done. */
static void check_frame(Llvm *l)
{
    const char *at = strstr(l->problems.data, "stack frame size (");
    long long bytes, most;
    if (!at || sscanf(at, "stack frame size (%lld) exceeds limit (%lld)", &bytes, &most) != 2) {
        return;
    }
    Diag *diag =
        diag_error(l->diags, ERR_STACK, SPAN_NONE,
                   "a thread of %s keeps %lld bytes in addition to its registers; at most %lld "
                   "fit on %s",
                   l->func->name, bytes, most, l->target->name);
    diag_help(l->diags, diag,
              l->options->optimize == 0 ? "without optimization every value is kept: leave it on"
                                        : "make the tiles smaller in the schedule");
    diag_leave(l->diags);
}

static void check_problems(Llvm *l, const char *doing)
{
    check_frame(l);
    if (l->problems.n) {
        diag_bug(l->diags, "LLVM, %s %s: %s", doing, l->func->name, l->problems.data);
    }
}

void llvm_verify(Llvm *l)
{
    char *message = NULL;
    bool bad = LLVMVerifyModule(l->module, LLVMReturnStatusAction, &message);
    const char *text = llvm_text(l->arena, message);
    if (bad) {
        diag_bug(l->diags, "LLVM rejects the code of %s: %s", l->func->name, text);
    }
    llvm_end_phase(l, "llvm-verify");
}

void llvm_optimize(Llvm *l, const char *passes)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(l->module, passes, l->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *message = LLVMGetErrorMessage(error);
        const char *text = arena_strdup(l->arena, message);
        LLVMDisposeErrorMessage(message);
        diag_bug(l->diags, "LLVM's passes '%s': %s", passes, text);
    }
    check_problems(l, "optimizing");
    llvm_end_phase(l, "llvm-middle");
}

void llvm_print(Llvm *l, Code *code)
{
    code->bytes = llvm_text(l->arena, LLVMPrintModuleToString(l->module));
    code->n = strlen(code->bytes);
}

void llvm_emit(Llvm *l, LLVMCodeGenFileType kind, Code *code)
{
    char *message = NULL;
    if (l->disabled_passes && !l->gate) {
        l->gate = llvm_gate_new(l->context, l->disabled_passes);
    }
    if (LLVMTargetMachineEmitToMemoryBuffer(l->machine, l->module, kind, &message, &l->emitted)) {
        diag_bug(l->diags, "LLVM emits no code for %s: %s", l->func->name,
                 llvm_text(l->arena, message));
    }
    code->n = LLVMGetBufferSize(l->emitted);
    code->bytes = arena_alloc(l->arena, code->n + 1);
    memcpy(code->bytes, LLVMGetBufferStart(l->emitted), code->n);
    LLVMDisposeMemoryBuffer(l->emitted);
    l->emitted = NULL;
    check_problems(l, "emitting");
    llvm_end_phase(l, "llvm-back");
}
