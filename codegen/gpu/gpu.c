/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a staged function to a GPU module: one kernel function per launch, with its parameters
 * in the plan's order, then LLVM's passes and the requested output form. */
#include "codegen/gpu/gpu.h"

#include "codegen/gpu/gpu_emitters.h"
#include "codegen/plan/plan_builder.h"
#include "ir/build.h"

/* What is worth doing before the back end's own passes. The code has no calls and no arrays in
 * memory, is simple where it is emitted, and its instructions are simplified again when they are
 * selected: instcombine finds nothing more, and takes longest. */
static const char MIDDLE_END[] = "function(early-cse<memssa>,simplifycfg,loop-mssa(licm),dce)";

/* ---- the kernel function ---- */

static LLVMTypeRef arg_type(GpuEmitter *em, const PlanArg *arg)
{
    switch (arg->kind) {
    case ARG_POINTER:
    case ARG_LOG: return em->global_ptr;
    case ARG_SCALAR: return llvm_memory_type(em->l, em->plan->params[arg->index].dtype);
    case ARG_SIZE: return em->i64;
    case ARG_MAP: return em->l->ptr;
    }
    diag_bug(em->func->diags, "a launch argument of unknown kind %d", (int)arg->kind);
}

static void make_function(GpuEmitter *em)
{
    const PlanLaunch *launch = em->plan_launch;
    LLVMTypeRef *types = ARENA_ARRAY(em->arena, LLVMTypeRef, launch->n_args + 1);
    for (int i = 0; i < launch->n_args; i++) {
        types[i] = arg_type(em, &launch->args[i]);
    }
    LLVMTypeRef type = LLVMFunctionType(em->l->nothing, types, (unsigned)launch->n_args, false);
    em->kernel = LLVMAddFunction(em->module, launch->symbol, type);
    llvm_attribute(em->l, em->kernel, "nounwind");
    em->target->kernel_attributes(em, launch->threads, launch->blocks_per_unit);
}

/* The result of the n-th size, as code sees it. */
static void take_size(GpuEmitter *em, int index, LLVMValueRef value)
{
    for (size_t i = 0; i < em->func->dimvars.n; i++) {
        const DimVar *var = em->func->dimvars.items[i];
        if (var->kind != DIM_RANGE && plan_size_index(em->func, var) == index) {
            em->sizes[var->id] = value;
        }
    }
}

static void take_map(GpuEmitter *em, int index, LLVMValueRef value)
{
    for (size_t i = 0; i < em->maps.n; i++) {
        if (em->maps.items[i].plan_map == index) {
            em->maps.items[i].pointer = value;
        }
    }
}

static bool is_same_arg(const PlanArg *a, const PlanArg *b)
{
    return a->kind == b->kind && a->index == b->index;
}

static void take_arguments(GpuEmitter *em)
{
    for (int i = 0; i < em->plan_launch->n_args; i++) {
        const PlanArg *arg = &em->plan_launch->args[i];
        LLVMValueRef value = LLVMGetParam(em->kernel, (unsigned)i);
        const Value *param = NULL;
        if (i > 0 && is_same_arg(arg - 1, arg)) {
            continue; /* there to be read past the others (plan_builder.c) */
        }
        switch (arg->kind) {
        case ARG_POINTER: gpu_define(em, em->params[arg->index])->regs[0] = value; break;
        case ARG_SCALAR:
            param = em->params[arg->index];
            gpu_define(em, param)->regs[0] = gpu_from_memory(em, param->type->dtype, value);
            break;
        case ARG_SIZE: take_size(em, arg->index, value); break;
        case ARG_MAP: take_map(em, arg->index, value); break;
        case ARG_LOG: em->log = value; break;
        }
    }
    for (size_t i = 0; i < em->func->params.n; i++) {
        const Param *param = &em->func->params.items[i];
        const GpuValue *of = param->alias ? gpu_value(em, param->alias) : NULL;
        if (of && of->regs) {
            gpu_define(em, param->value)->regs[0] = of->regs[0];
        }
    }
}

static bool has_barriers(GpuEmitter *em)
{
    for (size_t i = 0; i < em->shared.allocations.n; i++) {
        if (em->shared.allocations.items[i].op->kind == OP_MBARRIER) {
            return true;
        }
    }
    return false;
}

static void emit_kernel(GpuEmitter *em, Op *launch, PlanLaunch *plan)
{
    em->launch = launch;
    em->plan_launch = plan;
    /* Values of the preceding launch are undefined here, and so are outer scalars, which each
     * launch computes itself. */
    for (size_t i = 0; i < em->defined.n; i++) {
        em->values[em->defined.items[i]] = (GpuValue){0};
    }
    em->defined.n = 0;
    em->n_named_barriers = 0;
    em->warps = plan->threads >> em->warp_bits;
    em->shared = plan_shared(em->func, launch, em->warps);
    plan->shared_bytes = em->target->dynamic_shared ? em->shared.bytes : 0;
    make_function(em);
    if (em->target->lines || em->options->lines) {
        llvm_lines_launch(em->l, em->kernel, launch);
    }
    gpu_go(em, gpu_new_block(em, "entry"));
    take_arguments(em);
    em->shared_base = em->shared.bytes ? em->target->shared_memory(em, em->shared.bytes) : NULL;
    gpu_role_enter(em, 0, em->warps, 1, 0);
    gpu_cluster_begin(em);
    if (has_barriers(em) && em->target->barriers_begin) {
        em->target->barriers_begin(em);
    }
    /* A dependent launch begins while the preceding one ends; it waits here unless it may run
     * concurrently with it. */
    if (plan->dependent && !plan->concurrent) {
        em->target->grid_wait(em);
    }
    if (plan->dependent) {
        em->target->grid_launch_dependents(em);
    }
    /* The scalars in front of the launch that it uses. */
    for (Op *op = em->func->body->first; op && op != em->launch; op = op->next) {
        if (op->kind != OP_LAUNCH) {
            gpu_emit_op(em, op);
        }
    }
    gpu_emit_launch(em, launch);
    gpu_cluster_end(em);
    /* The launch ends only after the preceding ones. */
    if (plan->dependent && plan->concurrent) {
        em->target->grid_wait(em);
    }
    LLVMBuildRetVoid(em->builder);
    llvm_lines_leave(em->l);
}

/* ---- the module ---- */

typedef struct GpuRequest {
    const GpuTarget *target;
    EmitKind kind;
    const CodegenOptions *options;
    Code *code;
    Plan *plan;
} GpuRequest;

static GpuEmitter *new_emitter(Llvm *l, const GpuRequest *request)
{
    GpuEmitter *em = ARENA_NEW(l->arena, GpuEmitter);
    *em = (GpuEmitter){.l = l,
                       .func = l->func,
                       .arena = l->arena,
                       .options = request->options,
                       .plan = request->plan,
                       .context = l->context,
                       .module = l->module,
                       .builder = l->builder,
                       .i1 = l->i1,
                       .i8 = l->i8,
                       .i16 = l->i16,
                       .i32 = l->i32,
                       .i64 = l->i64,
                       .f16 = l->f16,
                       .bf16 = l->bf16,
                       .f32 = l->f32,
                       .f64 = l->f64};
    em->target = request->target;
    em->global_ptr = LLVMPointerTypeInContext(l->context, 1);
    em->shared_ptr = LLVMPointerTypeInContext(l->context, em->target->shared_space);
    em->sizes = ARENA_ARRAY(l->arena, LLVMValueRef, l->func->dimvars.n + 1);
    em->values = ARENA_ARRAY(l->arena, GpuValue, l->func->n_values);
    /* Parameters by their numbers in the plan, which has no views and aliases. */
    int n = 0;
    em->params = ARENA_ARRAY(em->arena, const Value *, em->func->params.n + 1);
    for (size_t i = 0; i < em->func->params.n; i++) {
        const Param *param = &em->func->params.items[i];
        if (param_has_memory(param)) {
            em->params[n++] = param->value;
        }
    }
    while (1 << em->warp_bits < l->target->warp) {
        em->warp_bits++;
    }
    return em;
}

static bool emit_body(Llvm *l, void *user)
{
    GpuRequest *request = user;
    plan_fill(l->func, request->plan);
    GpuEmitter *em = new_emitter(l, request);
    /* The kernels are emitted in the order of the plan's launches. */
    LaunchOps launches = plan_launch_ops(em->func);
    gpu_collect_maps(em);
    em->target->module_begin(em);
    for (size_t i = 0; i < launches.n; i++) {
        Op *launch = em->func->body->first;
        while (launch != launches.items[i]) {
            launch = launch->next;
        }
        emit_kernel(em, launch, &em->plan->launches[i]);
    }
    llvm_lines_end(em->l);
    llvm_end_phase(em->l, "emit");
    llvm_verify(em->l);
    if (request->options->optimize > 0) {
        llvm_optimize(l, MIDDLE_END);
        if (em->target->passes) {
            llvm_optimize(l, em->target->passes);
        }
    }
    if (em->target->rewrite) {
        em->target->rewrite(em);
    }
    if (request->kind == EMIT_LLVM) {
        llvm_print(l, request->code);
        return true;
    }
    return em->target->finish(em, request->kind, request->code);
}

bool gpu_emit(Func *func, const GpuTarget *target, EmitKind kind, const CodegenOptions *options,
              Code *code, Plan *plan)
{
    GpuRequest request = {target, kind, options, code, plan};
    LlvmOptions llvm = {options, kind == EMIT_LLVM, target->left_out};
    return llvm_run(func, &llvm, emit_body, &request);
}
