/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the elements of tensors: addresses, bounds checks, and contiguous or strided vectors.
 */
#include "codegen/cpu/cpu_access.h"

LLVMValueRef cpu_and_also(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    if (!a || !b) {
        return a ? a : b;
    }
    return LLVMBuildAnd(c->l->builder, a, b, "");
}

static bool is_range(const Value *index)
{
    return index && index->type->kind == TYPE_RANGE;
}

/* A range that is a part of this very axis stays inside of it. */
static bool needs_guard(const Op *op, const Access *access, int axis)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    const Value *index = access->indices[axis];
    if (!guard || axis >= guard->n || !guard->ints[axis] || !index) {
        return false;
    }
    return !is_range(index) || index->type->dims[0]->n_terms != 1 ||
           poly_as_range(index->type->dims[0])->axis_extent != access->memory->type->dims[axis];
}

static LLVMValueRef first_index(CpuEmitter *c, const Value *index, LLVMValueRef at)
{
    if (!index) {
        return at;
    }
    if (is_range(index)) {
        return cpu_add(c, c->values[index->id].start, at);
    }
    return scalar_cast(c->l, cpu_scalar(c, index), index->type->dtype, DT_I64);
}

LLVMValueRef cpu_within(CpuEmitter *c, LLVMValueRef index, LLVMValueRef extent)
{
    return LLVMBuildICmp(c->l->builder, LLVMIntULT, index, extent, "");
}

/* The lanes from `lo` to before `hi`, both clamped to 0 … lanes: one comparison in 32 bits. */
LLVMValueRef cpu_lanes_within(CpuEmitter *c, LLVMValueRef index, LLVMValueRef extent)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMTypeRef type = llvm_lanes(c->l->i32, c->lanes);
    LLVMValueRef zero = llvm_i64(c->l, 0), all = llvm_i64(c->l, c->lanes);
    LLVMValueRef lo = cpu_min(c, cpu_max(c, LLVMBuildSub(b, zero, index, ""), zero), all);
    LLVMValueRef hi = cpu_min(c, cpu_max(c, LLVMBuildSub(b, extent, index, ""), lo), all);
    LLVMValueRef from = LLVMBuildTrunc(b, lo, c->l->i32, "");
    LLVMValueRef n = LLVMBuildTrunc(b, LLVMBuildSub(b, hi, lo, ""), c->l->i32, "");
    LLVMValueRef each = LLVMBuildSub(b, cpu_iota(c, c->l->i32), llvm_splat(c->l, from, type), "");
    return cpu_within(c, each, llvm_splat(c->l, n, type));
}

void cpu_spot_address(CpuEmitter *c, const Value *memory, Spot *spot)
{
    DType dtype = memory->type->dtype;
    spot->base = spot->address = c->pointers[plan_param_index(c->func, memory)];
    if (dtype_is_packed(dtype)) {
        spot->address = NULL;
    } else if (!spot->each) {
        LLVMTypeRef element = llvm_memory_type(c->l, dtype);
        spot->address = LLVMBuildGEP2(c->l->builder, element, spot->base, &spot->offset, 1, "");
    }
}

void cpu_strides(CpuEmitter *c, Type tensor, LLVMValueRef *strides)
{
    LLVMValueRef stride = llvm_i64(c->l, 1);
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        strides[axis] = tensor->strides ? cpu_dim(c, tensor->strides[axis]) : stride;
        stride = tensor->strides ? NULL : cpu_mul(c, stride, cpu_dim(c, tensor->dims[axis]));
    }
}

/* Axis by axis, from the last: offset, stride of the lanes, guards. */
static Spot spot_of(CpuEmitter *c, const Op *op, const Point *point)
{
    Access access = op_access(op, 0);
    Type type = access.memory->type;
    Spot spot = {.mask = point->mask, .lanes = point->vector_axis < 0 ? 1 : c->lanes};
    LLVMValueRef offset = llvm_i64(c->l, 0), strides[MAX_RANK];
    int array_axis = point->rank;
    cpu_strides(c, type, strides);
    for (int axis = type->rank - 1; axis >= 0; axis--) {
        const Value *index = access.indices[axis];
        bool kept = !index || is_range(index);
        LLVMValueRef at = kept ? point->at[--array_axis] : NULL;
        LLVMValueRef first = first_index(c, index, at), extent = cpu_dim(c, type->dims[axis]);
        bool along = kept && array_axis == point->vector_axis;
        if (needs_guard(op, &access, axis)) {
            if (along) {
                spot.mask = cpu_and_also(c, spot.mask, cpu_lanes_within(c, first, extent));
            } else {
                spot.inside = cpu_and_also(c, spot.inside, cpu_within(c, first, extent));
            }
        }
        if (along) {
            int64_t known;
            spot.stride = cpu_constant(strides[axis], &known) && known == 1 ? NULL : strides[axis];
        }
        offset = cpu_add(c, offset, cpu_mul(c, first, strides[axis]));
    }
    spot.offset = offset;
    cpu_spot_address(c, access.memory, &spot);
    return spot;
}

static void aligned_argument(CpuEmitter *c, LLVMValueRef call, int argument, DType dtype)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAttributeRef align =
        LLVMCreateEnumAttribute(c->l->context, kind, (uint64_t)dtype_bytes(dtype));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)(argument + 1), align);
}

static LLVMValueRef lane_addresses(CpuEmitter *c, DType dtype, const Spot *spot)
{
    LLVMTypeRef ints = llvm_lanes(c->l->i64, c->lanes);
    LLVMValueRef steps = spot->each;
    if (!steps) {
        steps = LLVMBuildMul(c->l->builder, llvm_splat(c->l, spot->stride, ints),
                             cpu_iota(c, c->l->i64), "");
    }
    LLVMTypeRef element = llvm_memory_type(c->l, dtype);
    return LLVMBuildGEP2(c->l->builder, element, spot->address, &steps, 1, "");
}

static LLVMValueRef all_lanes(CpuEmitter *c)
{
    return llvm_int(llvm_lanes(c->l->i1, c->lanes), 1);
}

LLVMValueRef cpu_spot_mask(CpuEmitter *c, const Spot *spot)
{
    LLVMTypeRef type = llvm_lanes(c->l->i1, c->lanes);
    LLVMValueRef inside = spot->inside ? llvm_splat(c->l, spot->inside, type) : NULL;
    return cpu_and_also(c, spot->mask, inside);
}

static bool is_spread(const Spot *spot)
{
    return spot->stride || spot->each;
}

static LLVMValueRef load_lanes(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside)
{
    LLVMValueRef mask = cpu_spot_mask(c, spot);
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(c->l, dtype), c->lanes);
    if (!mask && !is_spread(spot)) {
        return cpu_load_at(c, dtype, spot->address, c->lanes);
    }
    LLVMValueRef other = cpu_to_memory(c, dtype, outside), call;
    if (is_spread(spot)) {
        LLVMValueRef addresses = lane_addresses(c, dtype, spot);
        LLVMTypeRef types[2] = {type, LLVMTypeOf(addresses)};
        LLVMValueRef args[3] = {addresses, mask ? mask : all_lanes(c), other};
        call = llvm_intrinsic(c->l, "llvm.masked.gather", 2, types, 3, args);
    } else {
        LLVMTypeRef types[2] = {type, c->l->ptr};
        LLVMValueRef args[3] = {spot->address, mask, other};
        call = llvm_intrinsic(c->l, "llvm.masked.load", 2, types, 3, args);
    }
    aligned_argument(c, call, 0, dtype);
    return cpu_from_memory(c, dtype, call);
}

/* Outside: reads the spare element instead, then takes `outside`; no branch. */
static LLVMValueRef load_one(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside)
{
    if (!spot->inside) {
        return cpu_load_at(c, dtype, spot->address, 1);
    }
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef address = LLVMBuildSelect(b, spot->inside, spot->address, c->spare, "");
    LLVMValueRef value = cpu_load_at(c, dtype, address, 1);
    return LLVMBuildSelect(b, spot->inside, value, outside, "");
}

static LLVMValueRef cpu_spot_load(CpuEmitter *c, DType dtype, const Spot *spot,
                                  LLVMValueRef outside)
{
    if (dtype_is_packed(dtype)) {
        return cpu_packed_load(c, dtype, spot, outside);
    }
    return spot->lanes > 1 ? load_lanes(c, dtype, spot, outside)
                           : load_one(c, dtype, spot, outside);
}

/* One element for all lanes: it is read once, where no lane's own guard stands in the way. */
static LLVMValueRef load_shared(CpuEmitter *c, DType dtype, Spot spot, LLVMValueRef outside)
{
    spot.lanes = 1;
    LLVMValueRef other = LLVMBuildExtractElement(c->l->builder, outside, llvm_i64(c->l, 0), "");
    LLVMValueRef one = cpu_spot_load(c, dtype, &spot, other);
    return llvm_splat(c->l, one, LLVMTypeOf(outside));
}

LLVMValueRef cpu_point_load(CpuEmitter *c, DType dtype, Spot spot, const Point *point,
                            LLVMValueRef outside)
{
    int64_t known;
    bool shared = spot.lanes > 1 && !spot.each && spot.stride &&
                  cpu_constant(spot.stride, &known) && known == 0;
    return shared && spot.mask == point->mask ? load_shared(c, dtype, spot, outside)
                                              : cpu_spot_load(c, dtype, &spot, outside);
}

LLVMValueRef cpu_tensor_load(CpuEmitter *c, const Op *load, const Point *point)
{
    DType dtype = load->operands[0]->type->dtype;
    Spot spot = spot_of(c, load, point);
    LLVMTypeRef type = llvm_lanes(llvm_type(c->l, dtype), spot.lanes);
    LLVMValueRef outside = llvm_number(c->l, dtype, type, op_attr(load, ATTR_VALUE));
    return cpu_point_load(c, dtype, spot, point, outside);
}

static void store_lanes(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef value)
{
    LLVMValueRef mask = cpu_spot_mask(c, spot);
    if (!mask && !is_spread(spot)) {
        cpu_store_at(c, dtype, spot->address, value);
        return;
    }
    LLVMValueRef kept = cpu_to_memory(c, dtype, value), call;
    if (is_spread(spot)) {
        LLVMValueRef addresses = lane_addresses(c, dtype, spot);
        LLVMTypeRef types[2] = {LLVMTypeOf(kept), LLVMTypeOf(addresses)};
        LLVMValueRef args[3] = {kept, addresses, mask ? mask : all_lanes(c)};
        call = llvm_intrinsic(c->l, "llvm.masked.scatter", 2, types, 3, args);
    } else {
        LLVMTypeRef types[2] = {LLVMTypeOf(kept), c->l->ptr};
        LLVMValueRef args[3] = {kept, spot->address, mask};
        call = llvm_intrinsic(c->l, "llvm.masked.store", 2, types, 3, args);
    }
    aligned_argument(c, call, 1, dtype);
}

void cpu_spot_store(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef value)
{
    if (dtype_is_packed(dtype)) {
        cpu_packed_store(c, spot, value);
        return;
    }
    if (spot->lanes > 1) {
        store_lanes(c, dtype, spot, value);
        return;
    }
    LLVMValueRef address = spot->address;
    if (spot->inside) {
        address = LLVMBuildSelect(c->l->builder, spot->inside, address, c->spare, "");
    }
    cpu_store_at(c, dtype, address, value);
}

void cpu_tensor_store(CpuEmitter *c, const Op *store, const Point *point, LLVMValueRef value)
{
    Spot spot = spot_of(c, store, point);
    cpu_spot_store(c, store->operands[0]->type->dtype, &spot, value);
}

void cpu_prefetch(CpuEmitter *c, const Value *value, const Point *point)
{
    const Op *op = value->def;
    Point inner = *point;
    while (op && op->kind != OP_LOAD && op->n_operands == 1 && cpu_is_pointwise(op) &&
           !c->values[op->results[0]->id].buffer) {
        inner = cpu_operand_point(c, op, &inner);
        op = op->operands[0]->def;
    }
    if (!op || op->kind != OP_LOAD || dtype_is_packed(op->results[0]->type->dtype) ||
        c->values[op->results[0]->id].buffer) {
        return;
    }
    Spot spot = spot_of(c, op, &inner);
    LLVMValueRef args[4] = {spot.address, llvm_i32(c->l, 0), llvm_i32(c->l, 3), llvm_i32(c->l, 1)};
    llvm_intrinsic(c->l, "llvm.prefetch", 1, &c->l->ptr, 4, args);
}
