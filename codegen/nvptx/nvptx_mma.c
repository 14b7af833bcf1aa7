/* SPDX-License-Identifier: Apache-2.0 */
/* Warp-level matrix instructions of NVIDIA: mma.sync and ldmatrix (PTX ISA, "Warp Level Matrix
 * Multiply-Accumulate Instructions"). */
#include "codegen/nvptx/nvptx_mma.h"

#include "codegen/gpu/gpu_emitters.h"

#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 4, MAX_ARGS = 32 };

typedef struct Statement {
    GpuEmitter *em;
    Text text, constraints;
    LLVMValueRef args[MAX_ARGS];
    int n_args, n_results;
} Statement;

/* "{$0, $1}" */
static void add_list(Text *text, int first, int n)
{
    for (int i = 0; i < n; i++) {
        text_printf(text, "%s$%d", i ? ", " : "{", first + i);
    }
    text_add(text, "}");
}

static void add_argument(Statement *s, LLVMValueRef value, const char *constraint)
{
    text_printf(&s->constraints, ",%s", constraint);
    s->args[s->n_args++] = value;
}

/* Words of 32 bits; an f64 is one of 64. */
static void add_fragment(Statement *s, DType dtype, const GpuFragment *fragment)
{
    GpuEmitter *em = s->em;
    int first = s->n_results + s->n_args, each = WORD_BYTES / dtype_bytes(dtype);
    for (int i = 0; fragment->words && i < fragment->n; i++) {
        add_argument(s, fragment->items[i], "r");
    }
    for (int i = 0; !fragment->words && i < fragment->n; i += each ? each : 1) {
        if (dtype == DT_F64) {
            add_argument(s, fragment->items[i], "d");
            continue;
        }
        LLVMValueRef word = gpu_pack(em, each, fragment->items + i);
        add_argument(s, LLVMBuildBitCast(em->builder, word, em->i32, ""), "r");
    }
    text_add(&s->text, ", ");
    add_list(&s->text, first, s->n_results + s->n_args - first);
}

static void call_attribute(GpuEmitter *em, LLVMValueRef call, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(em->context, kind, 0));
}

void nvptx_multiply(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                    const GpuFragment *b, LLVMValueRef *acc, int n)
{
    Statement s = {
        .em = em, .text = text_new(em->arena), .constraints = text_new(em->arena), .n_results = n};
    LLVMTypeRef type = LLVMTypeOf(acc[0]), types[8];
    const char *constraint = "=r";
    if (type == em->f32) {
        constraint = "=f";
    } else if (type == em->f64) {
        constraint = "=d";
    }
    /* The instruction is named by its shape, its result and its operands, as in "m16n8k16 f32
     * bf16". */
    char shape[16], result[8], operands[8];
    if (sscanf(unit->instruction, "%15s %7s %7s", shape, result, operands) != 3) {
        diag_bug(s.em->func->diags, "nvptx: no instruction for `%s`", unit->instruction);
    }
    text_printf(&s.text, "mma.sync.aligned.%s.row.col.%s.%s.%s.%s ", shape, result, operands,
                operands, result);
    add_list(&s.text, 0, n);
    for (int i = 0; i < n; i++) {
        text_printf(&s.constraints, "%s%s", i ? "," : "", constraint);
        types[i] = type;
    }
    add_fragment(&s, unit->operands, a);
    add_fragment(&s, unit->operands, b);
    int first = s.n_results + s.n_args;
    for (int i = 0; i < n; i++) {
        add_argument(&s, acc[i], constraint + 1);
    }
    text_add(&s.text, ", ");
    add_list(&s.text, first, n);
    text_add(&s.text, ";");
    LLVMTypeRef all = LLVMStructTypeInContext(em->context, types, (unsigned)n, false);
    /* All lanes take part in the instruction, so it may move but not into a branch. */
    LLVMValueRef results =
        gpu_asm(s.em, all, s.text.data, s.constraints.data, false, s.n_args, s.args);
    call_attribute(s.em, results, "convergent");
    call_attribute(s.em, results, "nounwind");
    for (int i = 0; i < n; i++) {
        acc[i] = LLVMBuildExtractValue(em->builder, results, (unsigned)i, "");
    }
}

void nvptx_load_matrices(GpuEmitter *em, LLVMValueRef at, int n, bool turned, LLVMValueRef *words)
{
    const char *name = arena_printf(em->arena, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%d%s.b16", n,
                                    turned ? ".trans" : "");
    LLVMTypeRef type = LLVMTypeOf(at);
    LLVMValueRef all = gpu_intrinsic(em, name, 1, &type, 1, &at);
    for (int i = 0; i < n; i++) {
        words[i] = n == 1 ? all : LLVMBuildExtractValue(em->builder, all, (unsigned)i, "");
    }
}

/* Since sm_89. */
static bool converts_fp8(const GpuEmitter *em)
{
    return strcmp(em->func->target->name, "sm_80") && strcmp(em->func->target->name, "sm_86");
}

/* cvt.rn.satfinite.e4m3x2.f32 and e5m2x2; what is too large becomes the largest number. */
bool nvptx_narrow_pair(GpuEmitter *em, DType to, LLVMValueRef *a, LLVMValueRef *b)
{
    LLVMBuilderRef builder = em->builder;
    if (!converts_fp8(em)) {
        return false;
    }
    const char *text = to == DT_F8E4M3 ? "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;"
                                       : "cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;";
    LLVMTypeRef byte = LLVMIntTypeInContext(em->l->context, 8);
    LLVMValueRef both = gpu_asm(em, em->i16, text, "=h,f,f", false, 2, (LLVMValueRef[]){*b, *a});
    *a = LLVMBuildTrunc(builder, both, byte, "");
    both = LLVMBuildLShr(builder, both, LLVMConstInt(em->i16, 8, false), "");
    *b = LLVMBuildTrunc(builder, both, byte, "");
    return true;
}

/* cvt.rn.f16x2.e4m3x2 and e5m2x2. */
bool nvptx_widen_pair(GpuEmitter *em, DType from, LLVMValueRef *a, LLVMValueRef *b)
{
    LLVMBuilderRef builder = em->builder;
    if (!converts_fp8(em)) {
        return false;
    }
    const char *text =
        from == DT_F8E4M3 ? "cvt.rn.f16x2.e4m3x2 $0, $1;" : "cvt.rn.f16x2.e5m2x2 $0, $1;";
    LLVMValueRef low = LLVMBuildZExt(builder, *a, em->i16, "");
    LLVMValueRef high = LLVMBuildZExt(builder, *b, em->i16, "");
    high = LLVMBuildShl(builder, high, LLVMConstInt(em->i16, 8, false), "");
    LLVMValueRef pair = LLVMBuildOr(builder, low, high, "");
    LLVMValueRef both = gpu_asm(em, em->i32, text, "=r,h", false, 1, &pair);
    both = LLVMBuildBitCast(builder, both, llvm_lanes(em->f16, 2), "");
    *a = LLVMBuildExtractElement(builder, both, gpu_i32(em, 0), "");
    *b = LLVMBuildExtractElement(builder, both, gpu_i32(em, 1), "");
    return true;
}

/* Two numbers of four bits, `low` and `high` bits up in the halves of a word. Their bits are made
 * the last ones of a float that is a large power of two (of a signed number with its sign turned,
 * which adds 8), and what is too much is subtracted: two instructions, and exact. */
static LLVMValueRef widen_two(GpuEmitter *em, bool is_signed, DType to, LLVMValueRef word, int low,
                              int high)
{
    LLVMBuilderRef b = em->builder;
    bool half = to == DT_F16;
    LLVMTypeRef element = half ? em->f16 : em->bf16, type = llvm_lanes(element, 2);
    int64_t one = half ? 0x6400 : 0x4300, mask = 0, bits = 0;
    LLVMValueRef times[2], less[2];
    for (int i = 0; i < 2; i++) {
        int64_t place = (int64_t)1 << (i ? high : low);
        mask |= (0xf * place) << 16 * i;
        bits |= (one | (is_signed ? 8 * place : 0)) << 16 * i;
        times[i] = LLVMConstReal(element, 1.0 / (double)place);
        less[i] = LLVMConstReal(element,
                                -(double)(half ? 1024 : 128) / (double)place - (is_signed ? 8 : 0));
    }
    /* (word & mask) ^ bits: by name, as the assembler makes two of it. */
    LLVMValueRef taken[] = {word, gpu_i32(em, mask), gpu_i32(em, bits)};
    LLVMValueRef made =
        gpu_asm(em, em->i32, "lop3.b32 $0, $1, $2, $3, 0x6a;", "=r,r,r,r", false, 3, taken);
    LLVMValueRef both[] = {LLVMBuildBitCast(b, made, type, ""), LLVMConstVector(times, 2),
                           LLVMConstVector(less, 2)};
    return gpu_intrinsic(em, "llvm.fma", 1, &type, 3, both);
}

/* Elements at a distance of four share a result register. An f16 can hold a number that is shifted
 * up by four bits; the seven bits of a bf16 cannot. */
bool nvptx_widen_word(GpuEmitter *em, DType from, DType to, LLVMValueRef word, LLVMValueRef *out)
{
    enum { PAIRS = 4 };
    if (to != DT_F16 && to != DT_BF16) {
        return false;
    }
    for (int i = 0; i < PAIRS; i++) {
        int shift = to == DT_F16 ? 4 * (i % 2) : 0;
        LLVMValueRef moved = LLVMBuildLShr(em->builder, word, gpu_i32(em, 4 * i - shift), "");
        LLVMValueRef two = widen_two(em, from == DT_I4, to, moved, shift, shift);
        out[i] = LLVMBuildExtractElement(em->builder, two, gpu_i32(em, 0), "");
        out[i + PAIRS] = LLVMBuildExtractElement(em->builder, two, gpu_i32(em, 1), "");
    }
    return true;
}

/* Copies the byte into both halves of a word. For bf16 the second half is shifted down by four
 * bits, because its seven bits cannot hold a number that is shifted up. */
LLVMValueRef nvptx_widen_byte(GpuEmitter *em, DType from, DType to, LLVMValueRef word,
                              LLVMValueRef byte)
{
    enum { SECOND = 8, FROM_OTHER = 4, HALF = 4 };
    LLVMBuilderRef b = em->builder;
    bool half = to == DT_F16;
    LLVMValueRef other = half ? word : LLVMBuildLShr(b, word, gpu_i32(em, HALF), "");
    LLVMValueRef second = half ? byte : LLVMBuildOr(b, byte, gpu_i32(em, FROM_OTHER), "");
    LLVMValueRef which = LLVMBuildOr(b, byte, LLVMBuildShl(b, second, gpu_i32(em, SECOND), ""), "");
    LLVMValueRef taken =
        gpu_intrinsic(em, "llvm.nvvm.prmt", 0, NULL, 3, (LLVMValueRef[]){word, other, which});
    LLVMValueRef two = widen_two(em, from == DT_I4, to, taken, 0, half ? HALF : 0);
    return LLVMBuildBitCast(b, two, em->i32, "");
}
