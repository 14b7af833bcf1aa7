/* SPDX-License-Identifier: Apache-2.0 */
/* Emits AMD's matrix instructions: MFMA on gfx9, WMMA on gfx11 and gfx12. It converts the
 * fragments of a dot to the operand types that LLVM's intrinsics expect, and keeps LLVM from
 * moving WMMA instructions past branches. */
#include "codegen/amdgcn/amdgcn_mfma.h"

#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"
#include "support/text.h"

enum { WORD_BYTES = 4, LONG_BYTES = 8, WIDE_ELEMENTS = 8 };

static bool is_mfma(const MatrixInstr *unit)
{
    return text_equal(unit->family, "mfma"); /* else it is WMMA */
}

/* LLVM's type of an operand: halves and wide f32 as they are, what came before bf16 was a type as
 * i16, bytes as integers of 32 bits; eight bytes of MFMA's are one of 64. */
static LLVMTypeRef operand_type(GpuEmitter *em, const MatrixInstr *unit, int n)
{
    bool mfma = is_mfma(unit);
    int bytes = n * dtype_bytes(unit->operands);
    if (dtype_bytes(unit->operands) == 1) {
        return mfma && bytes == LONG_BYTES ? em->i64 : llvm_lanes(em->i32, bytes / WORD_BYTES);
    }
    if (unit->operands == DT_BF16 && !(mfma && n == WIDE_ELEMENTS)) {
        return llvm_lanes(em->i16, n);
    }
    return llvm_lanes(gpu_type(em, unit->operands), n);
}

static LLVMValueRef operand(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *fragment)
{
    LLVMValueRef packed = gpu_pack(em, fragment->n, fragment->items);
    return LLVMBuildBitCast(em->builder, packed, operand_type(em, unit, fragment->n), "");
}

static LLVMValueRef call_mfma(GpuEmitter *em, const char *name, LLVMValueRef a, LLVMValueRef b,
                              LLVMValueRef c)
{
    LLVMValueRef none = gpu_i32(em, 0), args[] = {a, b, c, none, none, none};
    return gpu_intrinsic(em, name, 0, NULL, 6, args);
}

static LLVMValueRef call_wmma(GpuEmitter *em, const MatrixInstr *unit, const char *name,
                              LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMTypeRef types[] = {LLVMTypeOf(c), LLVMTypeOf(a)};
    if (!dtype_is_int(unit->operands)) {
        return gpu_intrinsic(em, name, 2, types, 3, (LLVMValueRef[]){a, b, c});
    }
    LLVMValueRef sign = LLVMConstInt(em->i1, dtype_is_signed(unit->operands), false);
    LLVMValueRef wraps = LLVMConstInt(em->i1, 0, false);
    return gpu_intrinsic(em, name, 2, types, 6, (LLVMValueRef[]){sign, a, sign, b, c, wraps});
}

void amdgcn_multiply(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                     const GpuFragment *b, LLVMValueRef *acc, int n)
{
    const char *name =
        arena_printf(em->arena, "llvm.amdgcn.%s.%s", unit->family, unit->instruction);
    LLVMValueRef first = operand(em, unit, unit->swaps_operands ? b : a);
    LLVMValueRef second = operand(em, unit, unit->swaps_operands ? a : b);
    LLVMValueRef c = gpu_pack(em, n, acc);
    c = is_mfma(unit) ? call_mfma(em, name, first, second, c)
                      : call_wmma(em, unit, name, first, second, c);
    gpu_unpack(em, c, n, acc);
}

/* LLVM does not know of WMMA that all lanes take part, and would move products whose results are
 * used behind branches past them, while their fragments are held. */
void amdgcn_finish_dot(GpuEmitter *em, const MatrixInstr *unit, LLVMValueRef *acc, int n)
{
    if (is_mfma(unit)) {
        return;
    }
    LLVMValueRef all = gpu_pack(em, n, acc);
    LLVMValueRef call = gpu_asm(em, LLVMTypeOf(all), "", "=v,0", false, 1, &all);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             gpu_attribute(em, "convergent", 0));
    gpu_unpack(em, call, n, acc);
}

typedef struct Accumulators {
    GpuEmitter *em;
    Type seen[16]; /* products of one type follow one another */
    int n, registers;
} Accumulators;

static void add_accumulators(Op *op, void *user)
{
    Accumulators *all = user;
    const MatrixInstr *unit = op->kind == OP_DOT ? mma_of_dot(all->em->func->target, op) : NULL;
    Type type = unit && is_mfma(unit) ? op->results[0]->type : NULL;
    for (int i = 0; i < all->n; i++) {
        type = all->seen[i] == type ? NULL : type;
    }
    if (type && all->n < 16) {
        all->seen[all->n++] = type;
        all->registers += gpu_registers(all->em, type) * dtype_bytes(type->dtype) / WORD_BYTES;
    }
}

int amdgcn_accumulators(GpuEmitter *em)
{
    Accumulators all = {.em = em};
    block_walk(em->launch->regions[0], add_accumulators, &all);
    return all.registers;
}
