/* SPDX-License-Identifier: Apache-2.0 */
/* The NVIDIA back end as far as all its targets share it. Ops that only sm_90a has are in
 * hopper*.c. */
#include "codegen/nvptx/nvptx.h"

#include "codegen/gpu/gpu.h"
#include "codegen/gpu/gpu_emit.h"
#include "codegen/nvptx/hopper.h"
#include "codegen/nvptx/nvptx_mma.h"
#include "codegen/nvptx/ptxas.h"
#include "codegen/nvptx/ptxas_spills.h"
#include "codegen/nvptx/ptxas_workarounds.h"
#include "ir/ir_errors.h"

#include <string.h>

enum { PTX_KERNEL = 71, MAP_BYTES = 128, MAP_ALIGN = 64, SHARED_ALIGN = 1024, TENSOR_ALIGN = 16 };

/* Passes of LLVM's that take time and give nothing, or worse. slsr compares each integer operation
 * with all before it: 1.2 of 1.4 s for a product with an epilogue. machine-sink moves what the last
 * copies of an epilogue need behind the first, and the assembler has to spill. Loops get longer by
 * the counters that strength reduction adds. What the others find, our own middle end or the
 * assembler has. */
static const char *const LEFT_OUT[] = {"slsr", "machine-sink",     "Loop Strength Reduction",
                                       "gvn",  "nary-reassociate", "early-cse",
                                       NULL};

/* ---- module and kernels ---- */

static void module_begin(GpuEmitter *em)
{
    (void)em;
}

static void number_attribute(GpuEmitter *em, const char *key, int value)
{
    llvm_string_attribute(em->l, em->kernel, key, arena_printf(em->arena, "%d", value));
}

/* A tensor map goes by value; its address is what the copy instructions take. */
static void map_attributes(GpuEmitter *em, LLVMAttributeIndex at)
{
    static const char byval[] = "byval", constant[] = "nvvm.grid_constant";
    unsigned kind = LLVMGetEnumAttributeKindForName(byval, sizeof byval - 1);
    LLVMTypeRef bytes = LLVMArrayType2(em->i8, MAP_BYTES);
    LLVMAddAttributeAtIndex(em->kernel, at, LLVMCreateTypeAttribute(em->context, kind, bytes));
    LLVMAddAttributeAtIndex(em->kernel, at, gpu_attribute(em, "align", MAP_ALIGN));
    LLVMAddAttributeAtIndex(
        em->kernel, at,
        LLVMCreateStringAttribute(em->context, constant, sizeof constant - 1, "", 0));
}

static void kernel_attributes(GpuEmitter *em, int threads, int blocks_per_unit)
{
    LLVMSetFunctionCallConv(em->kernel, PTX_KERNEL);
    number_attribute(em, "nvvm.reqntid", threads);
    number_attribute(em, "nvvm.minctasm", blocks_per_unit > 0 ? blocks_per_unit : 1);
    for (int i = 0; i < em->plan_launch->n_args; i++) {
        LLVMAttributeIndex at = (LLVMAttributeIndex)(i + 1);
        switch (em->plan_launch->args[i].kind) {
        case ARG_MAP: map_attributes(em, at); break;
        case ARG_LOG:
        case ARG_POINTER:
            LLVMAddAttributeAtIndex(em->kernel, at, gpu_attribute(em, "noalias", 0));
            LLVMAddAttributeAtIndex(em->kernel, at, gpu_attribute(em, "align", TENSOR_ALIGN));
            break;
        default: break;
        }
    }
}

/* Dynamic shared memory has one name in a module, whatever each kernel asks for. */
static LLVMValueRef shared_memory(GpuEmitter *em, int bytes)
{
    static const char name[] = "tessera_shared";
    (void)bytes;
    LLVMValueRef shared = LLVMGetNamedGlobal(em->module, name);
    if (!shared) {
        LLVMTypeRef type = LLVMArrayType2(em->i8, 0);
        shared = LLVMAddGlobalInAddressSpace(em->module, type, name, em->target->shared_space);
        LLVMSetAlignment(shared, SHARED_ALIGN);
    }
    return shared;
}

/* ---- ids ---- */

static LLVMValueRef special(GpuEmitter *em, const char *name)
{
    return gpu_intrinsic(em, name, 0, NULL, 0, NULL);
}

static LLVMValueRef thread_id(GpuEmitter *em)
{
    return special(em, "llvm.nvvm.read.ptx.sreg.tid.x");
}

static LLVMValueRef block_id(GpuEmitter *em)
{
    return special(em, "llvm.nvvm.read.ptx.sreg.ctaid.x");
}

static LLVMValueRef block_count(GpuEmitter *em)
{
    return special(em, "llvm.nvvm.read.ptx.sreg.nctaid.x");
}

static LLVMValueRef shuffle(GpuEmitter *em, const char *name, LLVMValueRef i32, int by)
{
    LLVMValueRef args[] = {gpu_i32(em, -1), i32, gpu_i32(em, by), gpu_i32(em, 31)};
    return gpu_intrinsic(em, name, 0, NULL, 4, args);
}

/* Reading lane 0's copy tells the assembler that a branch on it does not diverge. */
static LLVMValueRef warp_uniform(GpuEmitter *em, LLVMValueRef i32)
{
    return shuffle(em, "llvm.nvvm.shfl.sync.idx.i32", i32, 0);
}

static LLVMValueRef shuffle_xor(GpuEmitter *em, LLVMValueRef i32, int mask)
{
    return shuffle(em, "llvm.nvvm.shfl.sync.bfly.i32", i32, mask);
}

static LLVMValueRef opaque_copy(GpuEmitter *em, LLVMValueRef i32)
{
    return gpu_asm(em, em->i32, "mov.b32 $0, $1;", "=r,r", true, 1, &i32);
}

static LLVMValueRef extreme_pair(GpuEmitter *em, bool most, DType dtype, LLVMValueRef a,
                                 LLVMValueRef c)
{
    static const char *const texts[2][2] = {
        {"min.NaN.f16x2 $0, $1, $2;", "min.NaN.bf16x2 $0, $1, $2;"},
        {"max.NaN.f16x2 $0, $1, $2;", "max.NaN.bf16x2 $0, $1, $2;"}};
    LLVMValueRef args[] = {a, c};
    return gpu_asm(em, em->i32, texts[most][dtype == DT_BF16], "=r,r,r", false, 2, args);
}

static LLVMValueRef ballot(GpuEmitter *em, LLVMValueRef i1)
{
    LLVMValueRef args[] = {gpu_i32(em, -1), i1};
    return gpu_intrinsic(em, "llvm.nvvm.vote.ballot.sync", 0, NULL, 2, args);
}

/* One predicate for the vote and for what is turned: LLVM makes it twice. */
static LLVMValueRef same_bit(GpuEmitter *em, LLVMValueRef i32, uint32_t bit)
{
    LLVMValueRef args[] = {i32, gpu_i32(em, bit)};
    return gpu_asm(em, em->i32,
                   "{ .reg .pred p; .reg .b32 t; and.b32 t, $1, $2; setp.ne.b32 p, t, 0; "
                   "vote.sync.ballot.b32 $0, p, 0xffffffff; @!p not.b32 $0, $0; }",
                   "=r,r,n", true, 2, args);
}

static void warp_sync(GpuEmitter *em)
{
    LLVMValueRef all = gpu_i32(em, -1);
    gpu_intrinsic(em, "llvm.nvvm.bar.warp.sync", 0, NULL, 1, &all);
}

static void sync_role(GpuEmitter *em)
{
    GpuRole *role = em->role;
    if (role->barrier == 0) {
        LLVMValueRef block = gpu_i32(em, 0);
        gpu_intrinsic(em, "llvm.nvvm.barrier.cta.sync.aligned.all", 0, NULL, 1, &block);
        return;
    }
    LLVMValueRef args[] = {gpu_i32(em, role->barrier), gpu_i32(em, role->warps << em->warp_bits)};
    if (role->team) {
        args[0] = LLVMBuildAdd(em->builder, args[0], role->team, "");
    }
    gpu_intrinsic(em, "llvm.nvvm.barrier.cta.sync.aligned.count", 0, NULL, 2, args);
}

/* rcp.approx.ftz.f32, once for all that divides by the same. */
static LLVMValueRef reciprocal(GpuEmitter *em, LLVMValueRef x)
{
    return gpu_intrinsic(em, "llvm.nvvm.rcp.approx.ftz.f", 0, NULL, 1, &x);
}

static LLVMValueRef fast_exp2(GpuEmitter *em, LLVMValueRef x)
{
    return gpu_asm(em, em->f32, "ex2.approx.ftz.f32 $0, $1;", "=f,f", false, 1, &x);
}

static LLVMValueRef fast(GpuEmitter *em, OpKind kind, LLVMValueRef x)
{
    static const struct {
        OpKind kind;
        const char *text;
    } rows[] = {
        {OP_FAST_LOG2, "lg2.approx.f32 $0, $1;"},       {OP_FAST_TANH, "tanh.approx.f32 $0, $1;"},
        {OP_FAST_SIN, "sin.approx.f32 $0, $1;"},        {OP_FAST_COS, "cos.approx.f32 $0, $1;"},
        {OP_FAST_SQRT, "sqrt.approx.f32 $0, $1;"},      {OP_FAST_RSQRT, "rsqrt.approx.f32 $0, $1;"},
        {OP_FAST_RECIPROCAL, "rcp.approx.f32 $0, $1;"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].kind == kind) {
            return gpu_asm(em, em->f32, rows[i].text, "=f,f", false, 1, &x);
        }
    }
    diag_bug(em->func->diags, "no instruction for %s", op_info(kind)->name);
}

/* ---- guarded accesses: one predicated instruction ---- */

typedef struct Words {
    LLVMTypeRef type; /* of one */
    const char *suffix, *constraint;
    int n;
    LLVMValueRef items[4];
} Words;

static unsigned bytes_of(GpuEmitter *em, LLVMTypeRef type)
{
    LLVMTargetDataRef data = LLVMGetModuleDataLayout(em->module);
    return (unsigned)LLVMStoreSizeOfType(data, type);
}

static Words word_shape(GpuEmitter *em, LLVMTypeRef type)
{
    switch (bytes_of(em, type)) {
    case 16: return (Words){.type = em->i32, .suffix = ".v4.b32", .constraint = "r", .n = 4};
    case 8: return (Words){.type = em->i32, .suffix = ".v2.b32", .constraint = "r", .n = 2};
    case 4: return (Words){.type = em->i32, .suffix = ".b32", .constraint = "r", .n = 1};
    case 2: return (Words){.type = em->i16, .suffix = ".b16", .constraint = "h", .n = 1};
    case 1: return (Words){.type = em->i16, .suffix = ".b8", .constraint = "h", .n = 1};
    default: break;
    }
    diag_bug(em->func->diags, "nvptx: an access of %u bytes", bytes_of(em, type));
}

static Words to_words(GpuEmitter *em, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    Words words = word_shape(em, type);
    if (bytes_of(em, type) == 1) {
        value = LLVMBuildBitCast(em->builder, value, em->i8, "");
        words.items[0] = LLVMBuildZExt(em->builder, value, em->i16, "");
        return words;
    }
    LLVMTypeRef all = llvm_lanes(words.type, words.n);
    value = LLVMBuildBitCast(em->builder, value, all, "");
    for (int i = 0; i < words.n; i++) {
        words.items[i] =
            words.n == 1 ? value : LLVMBuildExtractElement(em->builder, value, gpu_i32(em, i), "");
    }
    return words;
}

/* "{$0, $1}", or "$0" for one. */
static void add_list(Text *text, int first, int n)
{
    text_add(text, n > 1 ? "{" : "");
    for (int i = 0; i < n; i++) {
        text_printf(text, "%s$%d", i ? ", " : "", first + i);
    }

    text_add(text, n > 1 ? "}" : "");
}

/* $0…: the words; then the address and, with a condition, the predicate and the words' values
 * before. `line`: the rest of the 128 bytes comes to the second-level cache with it. */
static LLVMValueRef load_if(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr,
                            LLVMValueRef otherwise, bool constant, bool line)
{
    Words words = to_words(em, otherwise);
    Text text = text_new(em->arena), constraints = text_new(em->arena);
    LLVMValueRef args[6] = {ptr, condition};
    LLVMTypeRef parts[4];
    if (condition) {
        text_printf(&text, "@$%d ", words.n + 1);
    }
    text_printf(&text, "ld.global%s%s%s ", constant ? ".nc" : "", line ? ".L2::128B" : "",
                words.suffix);
    add_list(&text, 0, words.n);
    text_printf(&text, ", [$%d];", words.n);
    for (int i = 0; i < words.n; i++) {
        text_printf(&constraints, "=%s,", words.constraint);
        parts[i] = words.type;
        args[2 + i] = words.items[i];
    }
    text_add(&constraints, condition ? "l,b" : "l");
    for (int i = 0; i < words.n && condition; i++) {
        text_printf(&constraints, ",%d", i);
    }
    LLVMTypeRef result =
        words.n == 1 ? words.type
                     : LLVMStructTypeInContext(em->context, parts, (unsigned)words.n, false);
    LLVMValueRef call = gpu_asm(em, result, text.data, constraints.data, !constant,
                                condition ? 2 + words.n : 1, args);
    if (constant) {
        LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
        LLVMAddCallSiteAttribute(call, at, gpu_attribute(em, "memory", 0));
        LLVMAddCallSiteAttribute(call, at, gpu_attribute(em, "nounwind", 0));
    }
    for (int i = 0; i < words.n; i++) {
        words.items[i] =
            words.n == 1 ? call : LLVMBuildExtractValue(em->builder, call, (unsigned)i, "");
    }

    /* The words become a value of the access's type again. */
    LLVMTypeRef type = LLVMTypeOf(otherwise);
    LLVMValueRef value = words.items[0];
    if (bytes_of(em, type) == 1) {
        value = LLVMBuildTrunc(em->builder, value, em->i8, "");
        return LLVMBuildBitCast(em->builder, value, type, "");
    }
    if (words.n > 1) {
        value = LLVMGetPoison(llvm_lanes(words.type, words.n));
        for (int i = 0; i < words.n; i++) {
            value = LLVMBuildInsertElement(em->builder, value, words.items[i], gpu_i32(em, i), "");
        }
    }
    return LLVMBuildBitCast(em->builder, value, type, "");
}

static void store_if(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr, LLVMValueRef value)
{
    Words words = to_words(em, value);
    Text text = text_new(em->arena), constraints = text_new(em->arena);
    LLVMValueRef args[6] = {ptr, condition};
    text_printf(&text, "@$1 st.global%s [$0], ", words.suffix);
    add_list(&text, 2, words.n);
    text_add(&text, ";");
    text_add(&constraints, "l,b");
    for (int i = 0; i < words.n; i++) {
        text_printf(&constraints, ",%s", words.constraint);
        args[2 + i] = words.items[i];
    }
    text_add(&constraints, ",~{memory}");
    gpu_asm(em, em->l->nothing, text.data, constraints.data, true, 2 + words.n, args);
}

/* ---- copies past registers ---- */

/* Whole pieces of 16 bytes go past the first-level cache, too. What is outside is a source of no
 * bytes, which is not read; the rest of the piece becomes zeros. */
static void copy(GpuEmitter *em, const GpuCopyVector *piece)
{
    const char *cache = piece->bytes == 16 ? "cg" : "ca";
    const char *sized = piece->inside ? ".s" : "";
    const char *name = arena_printf(em->arena, "llvm.nvvm.cp.async.%s.shared.global.%d%s", cache,
                                    piece->bytes, sized);
    LLVMValueRef args[] = {piece->to, piece->from, NULL};
    if (piece->inside) {
        args[2] = LLVMBuildSelect(em->builder, piece->inside, gpu_i32(em, piece->bytes),
                                  gpu_i32(em, 0), "");
    }
    gpu_intrinsic(em, name, 0, NULL, piece->inside ? 3 : 2, args);
}

static void copy_commit(GpuEmitter *em)
{
    gpu_intrinsic(em, "llvm.nvvm.cp.async.commit.group", 0, NULL, 0, NULL);
}

/* The unit counts groups, empty ones too. */
static void copy_wait(GpuEmitter *em, int pending, LLVMValueRef full)
{
    LLVMValueRef newest = gpu_i32(em, pending);
    (void)full;
    gpu_intrinsic(em, "llvm.nvvm.cp.async.wait.group", 0, NULL, 1, &newest);
}

/* ---- forms ---- */

static bool finish(GpuEmitter *em, EmitKind kind, Code *code)
{
    switch (kind) {
    case EMIT_PTX:
    case EMIT_ASM: llvm_emit(em->l, LLVMAssemblyFile, code); return true;
    default: break;
    }
    diag_failure_at(em->func->diags, DIAG_USAGE, ERR_EMIT, SPAN_NONE,
                    "target %s has the forms llvm, ptx, asm and cubin", em->func->target->name);
    return false;
}

static const GpuTarget HOOKS = {
    .name = "nvptx",
    .shared_space = 3,
    .device_scope = "device",
    .dynamic_shared = true,
    /* The assembler orders straight code by the registers that it has. 1024 products are what a
     * multiprocessor's instruction caches feed. */
    .fma = {.chunk = 32, .chunk_products = 1024, .block_registers = 96},
    .lines = true,
    .module_begin = module_begin,
    .kernel_attributes = kernel_attributes,
    .shared_memory = shared_memory,
    .thread_id = thread_id,
    .block_id = block_id,
    .block_count = block_count,
    .warp_uniform = warp_uniform,
    .shuffle_xor = shuffle_xor,
    .opaque = opaque_copy,
    .extreme_pair = extreme_pair,
    .ballot = ballot,
    .same_bit = same_bit,
    .warp_sync = warp_sync,
    .sync = sync_role,
    .reciprocal = reciprocal,
    .fast_exp2 = fast_exp2,
    .fast = fast,
    .multiply = nvptx_multiply,
    .load_matrices = nvptx_load_matrices,
    .widen_word = nvptx_widen_word,
    .widen_pair = nvptx_widen_pair,
    .narrow_pair = nvptx_narrow_pair,
    .copy = copy,
    .copy_commit = copy_commit,
    .copy_wait = copy_wait,
    .load_if = load_if,
    .store_if = store_if,
    .describe_map = hopper_describe_map,
    .grid_wait = hopper_grid_wait,
    .grid_launch_dependents = hopper_grid_launch_dependents,
    .cluster_rank = hopper_cluster_rank,
    .cluster_begin = hopper_cluster_begin,
    .cluster_await = hopper_cluster_await,
    .cluster_wait = hopper_cluster_wait,
    .cluster_expect = hopper_cluster_expect,
    .cluster_send = hopper_cluster_send,
    .cluster_receive = hopper_cluster_receive,
    .barriers_begin = hopper_barriers_begin,
    .emit_op = hopper_emit_op,
    .left_out = LEFT_OUT,
    .rewrite = ptxas_rewrite,
    .finish = finish,
};

/* Once more where threads spill and may have more registers. */
static bool emit_cubin(Func *func, const CodegenOptions *options, Code *code, Plan *plan)
{
    Code ptx, info;
    PtxasRelief relief = {0};
    bool made;
    do {
        made = gpu_emit(func, &HOOKS, EMIT_PTX, options, &ptx, plan) &&
               ptxas_assemble(func, options, &ptx, code, &info);
    } while (made && ptxas_relieve(func, &relief, info.bytes));
    return made;
}

bool nvptx_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    return kind == EMIT_CUBIN ? emit_cubin(func, options, code, plan)
                              : gpu_emit(func, &HOOKS, kind, options, code, plan);
}
