/* SPDX-License-Identifier: Apache-2.0 */
/* The AMD back end: waves, LDS, and code objects. A guarded access is a branch, which LLVM turns
 * into an execution mask. */

#include "codegen/amdgcn/amdgcn.h"

#include "codegen/amdgcn/amdgcn_lds_dma.h"
#include "codegen/amdgcn/amdgcn_mfma.h"
#include "codegen/amdgcn/amdgcn_opaque.h"
#include "codegen/amdgcn/amdgcn_workarounds.h"
#include "codegen/amdgcn/amdgcn_reschedule.h"
#include "codegen/gpu/gpu.h"
#include "codegen/gpu/gpu_emit.h"
#include "codegen/gpu/gpu_temp_files.h"
#include "codegen/llvm/lld_link.h"
#include "ir/ir_errors.h"

#include <string.h>

enum {
    AMDGPU_KERNEL = 91,
    CODE_OBJECT_VERSION = 500,
    SHARED_ALIGN = 1024,
    TENSOR_ALIGN = 16,
    CONSTANT_SPACE = 4,
    /* Accumulator registers of a thread: with more, other values exceed the first 256 registers,
     * and LLVM copies loop-carried values in the others twice per iteration. */
    MAX_ACCUMULATORS = 144,
};

/* slsr compares each integer operation with all before it, and finds nothing. What machinelicm
 * moves out of loops are constants and addresses that take an instruction each; kept, they take
 * registers that accumulators need, and spill. Loops get longer by the counters that strength
 * reduction adds. */
static const char *const LEFT_OUT[] = {"slsr", "machinelicm", "early-machinelicm",
                                       "Loop Strength Reduction", NULL};

/* Loops test at the bottom. A loop that tests at the top and has divergent branches inside is
 * structured so that its results stay live through its body, next to what the body makes of them:
 * an accumulator takes its registers twice. */
static const char PASSES[] = "function(loop-simplify,lcssa,loop-mssa(loop-rotate,licm),"
                             "instcombine<no-verify-fixpoint>,simplifycfg,dce)";

/* ---- module and kernels ---- */

static void module_begin(GpuEmitter *em)
{
    static const char flag[] = "amdhsa_code_object_version";
    LLVMMetadataRef version = LLVMValueAsMetadata(gpu_i32(em, CODE_OBJECT_VERSION));
    LLVMAddModuleFlag(em->module, LLVMModuleFlagBehaviorError, flag, sizeof flag - 1, version);
}

/* Hidden arguments and ids that no code here reads need no registers. */
static void unused_inputs(GpuEmitter *em)
{
    static const char *const unused[] = {
        "amdgpu-no-dispatch-ptr",      "amdgpu-no-queue-ptr",          "amdgpu-no-dispatch-id",
        "amdgpu-no-lds-kernel-id",     "amdgpu-no-workgroup-id-y",     "amdgpu-no-workgroup-id-z",
        "amdgpu-no-workitem-id-y",     "amdgpu-no-workitem-id-z",      "amdgpu-no-heap-ptr",
        "amdgpu-no-hostcall-ptr",      "amdgpu-no-multigrid-sync-arg", "amdgpu-no-default-queue",
        "amdgpu-no-completion-action", "amdgpu-no-flat-scratch-init",
    };
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
        llvm_string_attribute(em->l, em->kernel, unused[i], "");
    }
    if (!em->plan_launch->persistent) { /* else block_count reads it */
        llvm_string_attribute(em->l, em->kernel, "amdgpu-no-implicitarg-ptr", "");
    }
}

/* The metadata of the code object then says how many threads a block has, not only the most. */
static void require_block(GpuEmitter *em, int threads)
{
    static const char name[] = "reqd_work_group_size";
    LLVMMetadataRef extents[] = {LLVMValueAsMetadata(gpu_i32(em, threads)),
                                 LLVMValueAsMetadata(gpu_i32(em, 1)),
                                 LLVMValueAsMetadata(gpu_i32(em, 1))};
    LLVMGlobalSetMetadata(em->kernel, LLVMGetMDKindIDInContext(em->context, name, sizeof name - 1),
                          LLVMMDNodeInContext2(em->context, extents, 3));
}

static void kernel_attributes(GpuEmitter *em, int threads, int blocks_per_unit)
{
    (void)blocks_per_unit;
    require_block(em, threads);
    LLVMSetFunctionCallConv(em->kernel, AMDGPU_KERNEL);
    LLVMSetVisibility(em->kernel, LLVMProtectedVisibility);
    llvm_string_attribute(em->l, em->kernel, "amdgpu-flat-work-group-size",
                          arena_printf(em->arena, "%d,%d", threads, threads));
    llvm_string_attribute(em->l, em->kernel, "uniform-work-group-size", "true");
    unused_inputs(em);
    int accumulators = amdgcn_accumulators(em);
    if (accumulators > 0 && accumulators <= MAX_ACCUMULATORS) {
        llvm_string_attribute(em->l, em->kernel, "amdgpu-agpr-alloc", "0");
    }
    for (int i = 0; i < em->plan_launch->n_args; i++) {
        PlanArgKind kind = em->plan_launch->args[i].kind;
        if (kind == ARG_POINTER || kind == ARG_LOG) {
            LLVMAttributeIndex at = (LLVMAttributeIndex)(i + 1);
            LLVMAddAttributeAtIndex(em->kernel, at, gpu_attribute(em, "noalias", 0));
            LLVMAddAttributeAtIndex(em->kernel, at, gpu_attribute(em, "align", TENSOR_ALIGN));
        }
    }
}

static LLVMValueRef shared_memory(GpuEmitter *em, int bytes)
{
    LLVMTypeRef type = LLVMArrayType2(em->i8, (uint64_t)bytes);
    const char *name = arena_printf(em->arena, "%s.shared", em->plan_launch->symbol);
    LLVMValueRef shared =
        LLVMAddGlobalInAddressSpace(em->module, type, name, em->target->shared_space);
    LLVMSetLinkage(shared, LLVMInternalLinkage);
    LLVMSetInitializer(shared, LLVMGetPoison(type));
    LLVMSetAlignment(shared, SHARED_ALIGN);
    return shared;
}

/* ---- ids ---- */

static LLVMValueRef thread_id(GpuEmitter *em)
{
    return gpu_intrinsic(em, "llvm.amdgcn.workitem.id.x", 0, NULL, 0, NULL);
}

static LLVMValueRef block_id(GpuEmitter *em)
{
    return gpu_intrinsic(em, "llvm.amdgcn.workgroup.id.x", 0, NULL, 0, NULL);
}

/* The first hidden argument since code object version 5. */
static LLVMValueRef block_count(GpuEmitter *em)
{
    LLVMValueRef hidden = gpu_intrinsic(em, "llvm.amdgcn.implicitarg.ptr", 0, NULL, 0, NULL);
    return LLVMBuildLoad2(em->builder, em->i32, hidden, "");
}

static LLVMValueRef warp_uniform(GpuEmitter *em, LLVMValueRef i32)
{
    return gpu_intrinsic(em, "llvm.amdgcn.readfirstlane", 1, &em->i32, 1, &i32);
}

/* ---- shuffles ---- */

/* Data-parallel primitives: lanes read their neighbours' registers on the way to the adder. */
static LLVMValueRef read_neighbours(GpuEmitter *em, LLVMValueRef i32, int control)
{
    LLVMValueRef args[] = {LLVMGetPoison(em->i32), i32,
                           gpu_i32(em, control),   gpu_i32(em, 15),
                           gpu_i32(em, 15),        LLVMConstInt(em->i1, 1, false)};
    return gpu_intrinsic(em, "llvm.amdgcn.update.dpp", 1, &em->i32, 6, args);
}

/* The two rows of 16 lanes of each half of a wave exchange places. */
static LLVMValueRef exchange_rows(GpuEmitter *em, LLVMValueRef i32)
{
    enum { EACH_ITS_OWN = 0x76543210 };
    LLVMValueRef args[] = {LLVMGetPoison(em->i32),         i32,
                           gpu_i32(em, EACH_ITS_OWN),      gpu_i32(em, (int32_t)0xfedcba98),
                           LLVMConstInt(em->i1, 0, false), LLVMConstInt(em->i1, 0, false)};
    return gpu_intrinsic(em, "llvm.amdgcn.permlanex16", 1, &em->i32, 6, args);
}

static LLVMValueRef swizzle_xor(GpuEmitter *em, LLVMValueRef i32, int mask)
{
    enum { KEEP_ALL = 0x1f, XOR_SHIFT = 10 };
    LLVMValueRef args[] = {i32, gpu_i32(em, KEEP_ALL | mask << XOR_SHIFT)};
    return gpu_intrinsic(em, "llvm.amdgcn.ds.swizzle", 0, NULL, 2, args);
}

static LLVMValueRef permute_xor(GpuEmitter *em, LLVMValueRef i32, int mask)
{
    LLVMValueRef from = LLVMBuildXor(em->builder, em->role->lane, gpu_i32(em, mask), "");
    LLVMValueRef args[] = {LLVMBuildShl(em->builder, from, gpu_i32(em, 2), ""), i32};
    return gpu_intrinsic(em, "llvm.amdgcn.ds.bpermute", 0, NULL, 2, args);
}

static LLVMValueRef shuffle_xor(GpuEmitter *em, LLVMValueRef i32, int mask)
{
    enum { QUAD_1032 = 0xb1, QUAD_2301 = 0x4e, QUAD_3210 = 0x1b, ROW = 16, HALF = 32 };
    enum { ROTATE_8 = 0x128, MIRROR_8 = 0x141, ROW_XOR = 0x160 };
    bool recent = em->func->target->warp == HALF; /* gfx10 and later */
    if (mask == 1 || mask == 2) {
        return read_neighbours(em, i32, mask == 1 ? QUAD_1032 : QUAD_2301);
    }
    if (mask < ROW && recent) {
        return read_neighbours(em, i32, ROW_XOR + mask);
    }
    if (mask == 4) { /* 7 ^ 3 */
        return read_neighbours(em, read_neighbours(em, i32, MIRROR_8), QUAD_3210);
    }
    if (mask == 8) { /* half of a row further, around its end */
        return read_neighbours(em, i32, ROTATE_8);
    }
    if (mask == ROW && recent) {
        return exchange_rows(em, i32);
    }
    return mask < HALF ? swizzle_xor(em, i32, mask) : permute_xor(em, i32, mask);
}

/* ---- sync ---- */

/* Orders LDS only: global loads under way need not arrive. */
static void fence_local(GpuEmitter *em, const char *scope, LLVMAtomicOrdering ordering)
{
    static const char relaxation[] = "mmra";
    static const char as[] = "amdgpu-synchronize-as", local[] = "local";
    unsigned id = LLVMGetSyncScopeID(em->context, scope, strlen(scope));
    LLVMValueRef fence = LLVMBuildFenceSyncScope(em->builder, ordering, id, "");
    LLVMMetadataRef parts[] = {LLVMMDStringInContext2(em->context, as, sizeof as - 1),
                               LLVMMDStringInContext2(em->context, local, sizeof local - 1)};
    LLVMMetadataRef tag = LLVMMDNodeInContext2(em->context, parts, 2);
    LLVMSetMetadata(fence, LLVMGetMDKindIDInContext(em->context, relaxation, sizeof relaxation - 1),
                    LLVMMetadataAsValue(em->context, tag));
}

static void sync_block(GpuEmitter *em)
{
    if (amdgcn_copies(em)) {
        /* A release would wait for all copies to LDS in flight. Here a warp waits for its own
         * accesses of LDS only, and copy_wait for the copies. */
        fence_local(em, "wavefront", LLVMAtomicOrderingRelease);
        amdgcn_wait_local(em);
        gpu_intrinsic(em, "llvm.amdgcn.s.barrier", 0, NULL, 0, NULL);
        fence_local(em, "wavefront", LLVMAtomicOrderingAcquire);
        return;
    }
    fence_local(em, "workgroup", LLVMAtomicOrderingRelease);
    gpu_intrinsic(em, "llvm.amdgcn.s.barrier", 0, NULL, 0, NULL);
    fence_local(em, "workgroup", LLVMAtomicOrderingAcquire);
}

/* A wave's own accesses of LDS are done in their order: nothing may move across, that is all. */
static void sync_wave(GpuEmitter *em)
{
    fence_local(em, "wavefront", LLVMAtomicOrderingRelease);
    gpu_intrinsic(em, "llvm.amdgcn.wave.barrier", 0, NULL, 0, NULL);
    fence_local(em, "wavefront", LLVMAtomicOrderingAcquire);
}

static LLVMValueRef ballot(GpuEmitter *em, LLVMValueRef i1)
{
    LLVMTypeRef mask = LLVMIntTypeInContext(em->context, 1u << em->warp_bits);
    return gpu_intrinsic(em, "llvm.amdgcn.ballot", 1, &mask, 1, &i1);
}

static LLVMValueRef fast_exp2(GpuEmitter *em, LLVMValueRef x)
{
    return gpu_intrinsic(em, "llvm.amdgcn.exp2", 1, &em->f32, 1, &x);
}

/* ---- forms ---- */

static bool link_object(GpuEmitter *em, const char *folder, const Code *object, Code *code)
{
    enum { MAX_WORDS = 2048 };
    Func *func = em->func;
    char *in = gpu_file(func, folder, GPU_FILE_IN), *out = gpu_file(func, folder, GPU_FILE_OUT);
    char *problem = arena_alloc(em->arena, MAX_WORDS);
    if (!gpu_file_write(func, in, object)) {
        return false;
    }
    const char *arguments[] = {"-shared", "--no-undefined", in, "-o", out};
    size_t n = sizeof arguments / sizeof *arguments;
    if (!lld_link(arguments, n, problem, MAX_WORDS) || !gpu_file_read(func, out, code)) {
        diag_failure(func->diags, DIAG_INTERNAL, "the code of %s does not link: %s", func->name,
                     problem);
        return false;
    }
    return true;
}

static bool make_code_object(GpuEmitter *em, Code *code)
{
    Code object;
    const char *folder = gpu_folder(em->func);
    if (!folder) {
        return false;
    }
    amdgcn_emit_module(em, LLVMObjectFile, &object);
    bool good = link_object(em, folder, &object, code);
    gpu_folder_remove(em->func, folder);
    return good;
}

static bool finish(GpuEmitter *em, EmitKind kind, Code *code)
{
    switch (kind) {
    case EMIT_ASM: amdgcn_emit_module(em, LLVMAssemblyFile, code); return true;
    case EMIT_OBJ: amdgcn_emit_module(em, LLVMObjectFile, code); return true;
    case EMIT_HSACO: return make_code_object(em, code);
    default: break;
    }
    diag_failure_at(em->func->diags, DIAG_USAGE, ERR_EMIT, SPAN_NONE,
                    "target %s has the forms llvm, asm, obj and hsaco", em->func->target->name);
    return false;
}

static void rewrite(GpuEmitter *em)
{
    amdgcn_rewrite(em);
    amdgcn_mark_copies_noalias(em);
}

static const GpuTarget HOOKS = {
    .name = "amdgcn",
    .shared_space = 3,
    .device_scope = "agent",
    /* LLVM moves all reads of a basic block to its begin: what a chunk reads must fit there. */
    .fma = {.chunk = 8, .chunk_registers = 64, .block_registers = 64},
    .module_begin = module_begin,
    .kernel_attributes = kernel_attributes,
    .shared_memory = shared_memory,
    .thread_id = thread_id,
    .block_id = block_id,
    .block_count = block_count,
    .warp_uniform = warp_uniform,
    .shuffle_xor = shuffle_xor,
    .ballot = ballot,
    .warp_sync = sync_wave,
    .sync = sync_block,
    .fast_exp2 = fast_exp2,
    .loop_carry = amdgcn_opaque,
    .compute_here = amdgcn_opaque_here,
    .multiply = amdgcn_multiply,
    .finish_dot = amdgcn_finish_dot,
    .copy = amdgcn_copy,
    .copy_commit = amdgcn_copy_commit,
    .copy_wait = amdgcn_copy_wait,
    .passes = PASSES,
    .left_out = LEFT_OUT,
    .rewrite = rewrite,
    .finish = finish,
};

bool amdgcn_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    return gpu_emit(func, &HOOKS, kind, options, code, plan);
}
