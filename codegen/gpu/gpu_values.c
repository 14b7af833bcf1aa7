/* SPDX-License-Identifier: Apache-2.0 */
/* Maps IR values to LLVM values (registers of tiles, scalars, ranges, size expressions), and holds
 * the small LLVM helpers that all GPU emitters use. */
#include "codegen/gpu/gpu_emit.h"

#include <string.h>

_Noreturn void gpu_bug(GpuEmitter *em, const Op *op, const char *what)
{
    diag_bug(em->func->diags, "%s, %s: %s", em->target->name, op_info(op->kind)->name, what);
}

/* ---- tables ---- */

int gpu_registers(GpuEmitter *em, Type type)
{
    if (type->kind == TYPE_RANGE) {
        return 2;
    }
    if (type->kind != TYPE_ARRAY || type->rank == 0) {
        return 1;
    }
    if (!type->layout) {
        diag_bug(em->func->diags, "%s: a tile of rank %d has no layout", em->target->name,
                 type->rank);
    }
    return layout_registers(type->layout);
}

GpuValue *gpu_define(GpuEmitter *em, const Value *value)
{
    GpuValue *out = &em->values[value->id];
    ARENA_PUSH(em->arena, &em->defined, value->id);
    out->n = gpu_registers(em, value->type);
    out->regs = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    return out;
}

GpuValue *gpu_value(GpuEmitter *em, const Value *value)
{
    GpuValue *out = &em->values[value->id];
    if (!out->regs) {
        diag_bug(em->func->diags, "%s: value %u (%s) is used before it has code", em->target->name,
                 value->id, value->name ? value->name : "");
    }
    return out;
}

void gpu_define_scalar(GpuEmitter *em, const Value *value, LLVMValueRef scalar)
{
    gpu_define(em, value)->regs[0] = scalar;
}

void gpu_define_range(GpuEmitter *em, const Value *value, LLVMValueRef first, LLVMValueRef end)
{
    GpuValue *out = gpu_define(em, value);
    out->regs[0] = first;
    out->regs[1] = end;
}

LLVMValueRef gpu_scalar(GpuEmitter *em, const Value *value)
{
    return gpu_value(em, value)->regs[0];
}

/* ---- registers ---- */

int64_t gpu_extent(GpuEmitter *em, Type type, int axis)
{
    return plan_extent(em->func, type, axis);
}

int64_t gpu_elements(GpuEmitter *em, Type type)
{
    return plan_elements(em->func, type);
}

bool gpu_exists(GpuEmitter *em, Type type, int r)
{
    for (int axis = 0; axis < type->rank; axis++) {
        if (gpu_register_coord(type->layout, axis, r) >= gpu_extent(em, type, axis)) {
            return false;
        }
    }
    return true;
}

int gpu_canonical(const Layout *layout, int r)
{
    static const int32_t zero[MAX_RANK] = {0};
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        if (memcmp(layout->basis[IN_REGISTER][bit], zero, sizeof *zero * layout->rank) == 0) {
            r &= ~(1 << bit);
        }
    }
    return r;
}

int gpu_first_equal(const Value *value, int r)
{
    int equal = value->def ? (int)op_int(value->def, ATTR_EQUAL, 1) : 1;
    return gpu_canonical(value->type->layout, r) & -equal;
}

bool gpu_holds(GpuEmitter *em, Type type, int r)
{
    return gpu_exists(em, type, r) && gpu_canonical(type->layout, r) == r;
}

/* ---- sizes ---- */

static LLVMValueRef variable(GpuEmitter *em, const DimVar *var)
{
    if (var->kind != DIM_RANGE) {
        return em->sizes[var->id];
    }
    GpuValue *range = gpu_value(em, var->binder);
    return LLVMBuildSub(em->builder, range->regs[1], range->regs[0], "");
}

LLVMValueRef gpu_size_value(GpuEmitter *em, Dim dim)
{
    LLVMValueRef sum = NULL;
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        LLVMValueRef product = gpu_i64(em, term->coef);
        for (int k = 0; k < term->n; k++) {
            product = LLVMBuildMul(em->builder, product, variable(em, term->vars[k]), "");
        }
        sum = sum ? LLVMBuildAdd(em->builder, sum, product, "") : product;
    }
    return sum ? sum : gpu_i64(em, 0);
}

/* ---- LLVM ---- */

LLVMValueRef gpu_i32(GpuEmitter *em, int64_t value)
{
    return llvm_i32(em->l, value);
}

LLVMValueRef gpu_i64(GpuEmitter *em, int64_t value)
{
    return llvm_i64(em->l, value);
}

LLVMTypeRef gpu_type(GpuEmitter *em, DType dtype)
{
    return llvm_type(em->l, dtype);
}

LLVMValueRef gpu_at(GpuEmitter *em, LLVMValueRef ptr, LLVMValueRef bytes)
{
    return LLVMBuildGEP2(em->builder, em->i8, ptr, &bytes, 1, "");
}

LLVMValueRef gpu_at_const(GpuEmitter *em, LLVMValueRef ptr, int64_t bytes)
{
    return bytes == 0 ? ptr : gpu_at(em, ptr, gpu_i64(em, bytes));
}

LLVMValueRef gpu_min(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c)
{
    return llvm_call2(em->l, "llvm.smin", a, c);
}

LLVMValueRef gpu_intrinsic(GpuEmitter *em, const char *name, int n_types, LLVMTypeRef *types,
                           int n_args, LLVMValueRef *args)
{
    return llvm_intrinsic(em->l, name, n_types, types, n_args, args);
}

LLVMValueRef gpu_asm(GpuEmitter *em, LLVMTypeRef result, const char *text, const char *constraints,
                     bool effects, int n_args, LLVMValueRef *args)
{
    LLVMTypeRef *types = ARENA_ARRAY(em->arena, LLVMTypeRef, n_args + 1);
    for (int i = 0; i < n_args; i++) {
        types[i] = LLVMTypeOf(args[i]);
    }
    LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n_args, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                         effects, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(em->builder, type, code, args, (unsigned)n_args, "");
}

LLVMAttributeRef gpu_attribute(GpuEmitter *em, const char *name, uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    return LLVMCreateEnumAttribute(em->context, kind, value);
}

LLVMBasicBlockRef gpu_new_block(GpuEmitter *em, const char *name)
{
    return llvm_block(em->l, em->kernel, name);
}

void gpu_go(GpuEmitter *em, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(em->builder, block);
}

LLVMValueRef gpu_tensor(GpuEmitter *em, const Value *tensor)
{
    return gpu_value(em, tensor)->regs[0];
}

int gpu_register_coord(const Layout *layout, int axis, int r)
{
    int coord = 0;
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        if (r >> bit & 1) {
            coord ^= layout->basis[IN_REGISTER][bit][axis];
        }
    }
    return coord;
}

LLVMValueRef gpu_rematerialize(GpuEmitter *em, LLVMValueRef i64)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef shift = gpu_i64(em, 32);
    LLVMValueRef low = LLVMBuildTrunc(b, i64, em->i32, "");
    LLVMValueRef high = LLVMBuildTrunc(b, LLVMBuildLShr(b, i64, shift, ""), em->i32, "");
    LLVMValueRef (*hide)(GpuEmitter *, LLVMValueRef) =
        em->target->opaque ? em->target->opaque : em->target->warp_uniform;
    low = LLVMBuildZExt(b, hide(em, low), em->i64, "");
    high = LLVMBuildZExt(b, hide(em, high), em->i64, "");
    return LLVMBuildOr(b, low, LLVMBuildShl(b, high, shift, ""), "");
}
