/* SPDX-License-Identifier: Apache-2.0 */
/* The index of each element along an axis; differences and comparisons of two such. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_known_bits.h"
#include "ir/op_axes.h"

bool gpu_starts(GpuEmitter *em, const Value *value, const GpuValue *out, int r)
{
    if (!type_is_tile(value->type)) {
        return true;
    }
    if (!gpu_exists(em, value->type, r)) {
        return false;
    }
    int first = gpu_first_equal(value, r);
    if (first != r) {
        out->regs[r] = out->regs[first];
    }
    return first == r;
}

/* True in roles of three warp groups: their threads have registers for tiles, but not for
 * coordinates. */
static bool is_short_of_registers(const Op *op)
{
    enum { SCARCE = 160 };
    const Op *roles = op_enclosing(op, OP_ROLES);
    const Attr *registers = roles ? op_attr(roles, ATTR_REGISTERS) : NULL;
    return registers && registers->n > 0 && registers->ints[registers->n - 1] <= SCARCE;
}

/* The thread's own part of a wide index is added once: what is left for a register is a constant.
 * Else LLVM makes every coordinate before the loop, widens it, and keeps all of them: of 32 bits
 * that is worth it where there are registers. (Attention of 128 elements a head under a causal
 * mask, two groups, 4096 keys: 866 us so, 881 otherwise; of 64, three groups: 621, 613.) */
static LLVMValueRef index_of_thread(GpuEmitter *em, const Op *op, const Layout *layout,
                                    LLVMValueRef first)
{
    LLVMTypeRef type = LLVMTypeOf(first);
    bool kept = type == em->i64 || (type == em->i32 && is_short_of_registers(op));
    if (!kept || !gpu_is_disjoint(layout, 0)) {
        return NULL;
    }
    LLVMValueRef own = gpu_thread_coord(em, layout, 0);
    own = type == em->i64 ? LLVMBuildZExt(em->builder, own, em->i64, "") : own;
    return LLVMBuildAdd(em->builder, first, own, "");
}

static LLVMValueRef index_of_register(GpuEmitter *em, const Layout *layout, LLVMValueRef first,
                                      LLVMValueRef own, int r)
{
    if (own) {
        LLVMValueRef step = llvm_int(LLVMTypeOf(first), gpu_register_coord(layout, 0, r));
        return LLVMBuildAdd(em->builder, own, step, "");
    }
    LLVMValueRef coord = gpu_coord(em, layout, 0, r);
    coord = LLVMBuildIntCast2(em->builder, coord, LLVMTypeOf(first), false, "");
    return LLVMBuildAdd(em->builder, first, coord, "");
}

/* Masks the low bits of a known multiple, so that scalar_known_bits.h recognizes it: a loop counter
 * does not show that it is one. */
static LLVMValueRef multiple_of(GpuEmitter *em, LLVMValueRef first, int64_t n)
{
    if (n <= 1 || scalar_low_zeros(first) >= __builtin_ctzll((unsigned long long)n)) {
        return first;
    }
    LLVMValueRef mask = LLVMConstInt(LLVMTypeOf(first), (unsigned long long)-n, true);
    return LLVMBuildAnd(em->builder, first, mask, "");
}

/* As an f32 the thread's own part is converted, and a constant added, which is exact. */
static void emit_float_indices(GpuEmitter *em, const Op *op, int from, int n)
{
    const Value *result = op->results[0];
    const Layout *layout = result->type->layout;
    GpuValue *out = gpu_value(em, result);
    LLVMValueRef first = gpu_value(em, op->operands[0])->regs[0];
    first = LLVMBuildIntCast2(em->builder, first, em->i32, true, "");
    bool disjoint = gpu_is_disjoint(layout, 0);
    LLVMValueRef own = LLVMBuildAdd(em->builder, first, gpu_thread_coord(em, layout, 0), "");
    own = LLVMBuildSIToFP(em->builder, own, em->f32, "");
    for (int r = from; r < from + n; r++) {
        if (!gpu_starts(em, result, out, r)) {
            continue;
        }
        int64_t step = gpu_register_coord(layout, 0, r);
        if (disjoint) {
            LLVMValueRef more = LLVMConstReal(em->f32, (double)step);
            out->regs[r] = step ? LLVMBuildFAdd(em->builder, own, more, "") : own;
        } else {
            LLVMValueRef at = index_of_register(em, layout, first, NULL, r);
            out->regs[r] = LLVMBuildSIToFP(em->builder, at, em->f32, "");
        }
    }
}

void gpu_emit_indices(GpuEmitter *em, const Op *op, int from, int n)
{
    const Value *result = op->results[0];
    const Layout *layout = result->type->layout;
    GpuValue *out = gpu_value(em, result);
    LLVMTypeRef type = gpu_type(em, result->type->dtype);
    if (dtype_is_float(result->type->dtype)) {
        emit_float_indices(em, op, from, n);
        return;
    }
    LLVMValueRef first =
        op->kind == OP_IOTA ? gpu_i64(em, 0) : gpu_value(em, op->operands[0])->regs[0];
    first = LLVMBuildIntCast2(em->builder, first, type, true, "");
    first = multiple_of(em, first, op_int(op, ATTR_VECTOR, 1));
    LLVMValueRef own = index_of_thread(em, op, layout, first);
    for (int r = from; r < from + n; r++) {
        if (gpu_starts(em, result, out, r)) {
            out->regs[r] = index_of_register(em, layout, first, own, r);
        }
    }
}

void gpu_emit_index(GpuEmitter *em, const Op *op)
{
    gpu_emit_indices(em, op, 0, gpu_define(em, op->results[0])->n);
}

/* ---- differences of indices ---- */

static bool is_index(const Value *value)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_INDEX;
}

static bool is_float_index(const Value *value)
{
    return is_index(value) && dtype_is_float(value->type->dtype);
}

bool gpu_is_distance(const Op *op)
{
    return op->kind == OP_SUB && is_float_index(op->operands[0]) && is_float_index(op->operands[1]);
}

/* What a constant is added to; the value itself: 0 is. */
static LLVMValueRef without_constant(LLVMValueRef value, double *constant)
{
    bool sum = LLVMIsAInstruction(value) && LLVMGetInstructionOpcode(value) == LLVMFAdd;
    LLVMValueRef more = sum ? LLVMGetOperand(value, 1) : NULL;
    LLVMBool inexact;
    *constant = 0;
    if (!more || !LLVMIsAConstantFP(more)) {
        return value;
    }
    *constant = LLVMConstRealGetDouble(more, &inexact);
    return LLVMGetOperand(value, 0);
}

LLVMValueRef gpu_emit_distance(GpuEmitter *em, LLVMValueRef left, LLVMValueRef right)
{
    double c, d;
    left = without_constant(left, &c);
    right = without_constant(right, &d);
    LLVMValueRef difference = LLVMBuildFSub(em->builder, left, right, "");
    LLVMValueRef more = LLVMConstReal(em->f32, c - d);
    return c == d ? difference : LLVMBuildFAdd(em->builder, difference, more, "");
}

/* ---- comparisons of indices ---- */

/* Indices of 32 bits are cheap to hold and to compare as they are. */
bool gpu_compares_indices(const Op *op)
{
    return op->kind == OP_CMP && op->operands[0]->type->dtype == DT_I64 &&
           is_index(op->operands[0]) && is_index(op->operands[1]);
}

static LLVMValueRef without_step(LLVMValueRef value, int64_t *step)
{
    bool sum = LLVMIsAInstruction(value) && LLVMGetInstructionOpcode(value) == LLVMAdd;
    LLVMValueRef more = sum ? LLVMGetOperand(value, 1) : NULL;
    *step = 0;
    if (!more || !LLVMIsAConstantInt(more)) {
        return value;
    }
    *step = LLVMConstIntGetSExtValue(more);
    return LLVMGetOperand(value, 0);
}

void gpu_compare_difference(GpuEmitter *em, LLVMValueRef operands[2])
{
    int64_t c, d;
    LLVMValueRef left = without_step(operands[0], &c), right = without_step(operands[1], &d);
    operands[0] = LLVMBuildSub(em->builder, left, right, "");
    operands[1] = gpu_i64(em, d - c);
}
