/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers over LLVM's builder: types, constants, intrinsics, attributes. */
#include "codegen/llvm/llvm.h"

#include "ir/interp/interp.h"

#include <string.h>

static bool is_cpu(const Llvm *l)
{
    return l->target->family == FAMILY_CPU;
}

LLVMTypeRef llvm_type(const Llvm *l, DType dtype)
{
    switch (dtype) {
    case DT_BOOL: return l->i1;
    case DT_I8:
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return l->i8;
    case DT_I4:
    case DT_U4: return LLVMIntTypeInContext(l->context, 4);
    case DT_I16:
    case DT_U16: return l->i16;
    case DT_I32:
    case DT_U32: return l->i32;
    case DT_I64:
    case DT_U64: return l->i64;
    case DT_F16: return is_cpu(l) ? l->i16 : l->f16;
    case DT_BF16: return is_cpu(l) ? l->i16 : l->bf16;
    case DT_F32: return l->f32;
    case DT_F64: return l->f64;
    case DT_COUNT: break;
    }
    diag_bug(l->diags, "no machine type for element type %d", (int)dtype);
}

LLVMTypeRef llvm_memory_type(const Llvm *l, DType dtype)
{
    return dtype == DT_BOOL || dtype_is_packed(dtype) ? l->i8 : llvm_type(l, dtype);
}

LLVMTypeRef llvm_lanes(LLVMTypeRef element, int n)
{
    return n > 1 ? LLVMVectorType(element, (unsigned)n) : element;
}

int llvm_lane_count(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef llvm_element(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

LLVMTypeRef llvm_like(LLVMTypeRef element, LLVMTypeRef like)
{
    int n = llvm_lane_count(like);
    return n ? LLVMVectorType(element, (unsigned)n) : element;
}

static LLVMValueRef constant_splat(LLVMTypeRef type, LLVMValueRef scalar)
{
    enum { MAX_LANES = 256 };
    LLVMValueRef lanes[MAX_LANES];
    int n = llvm_lane_count(type);
    if (!n) {
        return scalar;
    }
    for (int i = 0; i < n && i < MAX_LANES; i++) {
        lanes[i] = scalar;
    }
    return LLVMConstVector(lanes, (unsigned)(n < MAX_LANES ? n : MAX_LANES));
}

LLVMValueRef llvm_float(LLVMTypeRef type, double value)
{
    return constant_splat(type, LLVMConstReal(llvm_element(type), value));
}

LLVMValueRef llvm_int(LLVMTypeRef type, int64_t value)
{
    LLVMTypeRef element = llvm_element(type);
    unsigned bits = LLVMGetIntTypeWidth(element);
    uint64_t kept = (uint64_t)value;
    if (bits < 64) {
        kept &= (UINT64_C(1) << bits) - 1; /* LLVM refuses bits beyond the width */
    }
    return constant_splat(type, LLVMConstInt(element, kept, false));
}

LLVMValueRef llvm_number(const Llvm *l, DType dtype, LLVMTypeRef type, const Attr *attr)
{
    double number = attr ? attr->f : 0.0;
    if (!dtype_is_float(dtype)) {
        return llvm_int(type, attr ? attr->i : 0);
    }
    if (dtype_is_narrow(dtype) && (is_cpu(l) || dtype_bits(dtype) == 8)) {
        uint16_t bits = 0;
        scalar_store(dtype, &bits, (Scalar){.f = number});
        return llvm_int(type, bits);
    }
    return llvm_float(type, number);
}

LLVMValueRef llvm_i32(const Llvm *l, int64_t value)
{
    return llvm_int(l->i32, value);
}

LLVMValueRef llvm_i64(const Llvm *l, int64_t value)
{
    return llvm_int(l->i64, value);
}

LLVMValueRef llvm_splat(Llvm *l, LLVMValueRef scalar, LLVMTypeRef type)
{
    int n = llvm_lane_count(type);
    if (!n) {
        return scalar;
    }
    if (LLVMIsConstant(scalar)) {
        return constant_splat(type, scalar);
    }
    LLVMTypeRef vector = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)n);
    LLVMValueRef one =
        LLVMBuildInsertElement(l->builder, LLVMGetPoison(vector), scalar, llvm_i64(l, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(l->i32, (unsigned)n));
    return LLVMBuildShuffleVector(l->builder, one, LLVMGetPoison(vector), zeros, "");
}

LLVMValueRef llvm_bound(Llvm *l, LLVMValueRef bound)
{
    enum { MAX_LOOPS = 64 };
    static const char *const constraints[] = {
        [FAMILY_CPU] = "=r,0", [FAMILY_NVPTX] = "=l,0", [FAMILY_AMDGCN] = "=s,0"};
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(l->builder));
    l->n_loops = function == l->loops_of ? l->n_loops + 1 : 0;
    l->loops_of = function;
    if (l->n_loops < MAX_LOOPS || LLVMIsConstant(bound)) {
        return bound;
    }
    LLVMTypeRef type = LLVMTypeOf(bound), made = LLVMFunctionType(type, &type, 1, false);
    const char *same = constraints[l->target->family];
    LLVMValueRef code = LLVMGetInlineAsm(made, "", 0, same, strlen(same), false, false,
                                         LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(l->builder, made, code, &bound, 1, "");
}

LLVMValueRef llvm_intrinsic(Llvm *l, const char *name, int n_types, LLVMTypeRef *types, int n,
                            LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) {
        diag_bug(l->diags, "LLVM has no intrinsic %s", name);
    }
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(l->module, id, types, (size_t)n_types);
    LLVMTypeRef type = LLVMGlobalGetValueType(function);
    return LLVMBuildCall2(l->builder, type, function, args, (unsigned)n, "");
}

LLVMValueRef llvm_call1(Llvm *l, const char *name, LLVMValueRef a)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    return llvm_intrinsic(l, name, 1, &type, 1, &a);
}

LLVMValueRef llvm_call2(Llvm *l, const char *name, LLVMValueRef a, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    return llvm_intrinsic(l, name, 1, &type, 2, (LLVMValueRef[]){a, c});
}

LLVMValueRef llvm_call3(Llvm *l, const char *name, LLVMValueRef a, LLVMValueRef c, LLVMValueRef d)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    return llvm_intrinsic(l, name, 1, &type, 3, (LLVMValueRef[]){a, c, d});
}

static LLVMAttributeRef enum_attribute(const Llvm *l, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    if (!kind) {
        diag_bug(l->diags, "LLVM has no attribute %s", name);
    }
    return LLVMCreateEnumAttribute(l->context, kind, 0);
}

void llvm_attribute(const Llvm *l, LLVMValueRef function, const char *name)
{
    LLVMAttributeIndex on_function = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    LLVMAddAttributeAtIndex(function, on_function, enum_attribute(l, name));
}

void llvm_param_attribute(const Llvm *l, LLVMValueRef function, int param, const char *name)
{
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)(param + 1), enum_attribute(l, name));
}

void llvm_string_attribute(const Llvm *l, LLVMValueRef function, const char *key, const char *value)
{
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(l->context, key, (unsigned)strlen(key),
                                                           value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

LLVMBasicBlockRef llvm_block(const Llvm *l, LLVMValueRef function, const char *name)
{
    return LLVMAppendBasicBlockInContext(l->context, function, name);
}
