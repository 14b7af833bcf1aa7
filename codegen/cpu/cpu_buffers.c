/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for tiles on the stack. All of them are allocas of the entry block; two tiles share a
 * buffer if their live ranges do not overlap in program order. */
#include "codegen/cpu/cpu_emit.h"

#include "ir/ir_errors.h"
#include "support/int_math.h"

#include <string.h>

enum { SLOT_ALIGN = 64 };
static const int64_t MAX_STACK = 3 << 19; /* a host's threads need stack of their own */

Buffer *cpu_buffer_shape(CpuEmitter *c, DType dtype, int rank, const int64_t *extents)
{
    Buffer *buffer = ARENA_NEW(c->arena, Buffer);
    *buffer = (Buffer){.dtype = dtype, .rank = rank, .vector_axis = -1};
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        buffer->extents[axis] = extents[axis];
        buffer->strides[axis] = stride;
        if (extents[axis] > 1 && buffer->vector_axis < 0) {
            buffer->vector_axis = axis;
            /* The row is padded to whole vectors, and to pairs of vectors beyond one, because the
             * register blocks of a dot take two. */
            stride *= round_up(extents[axis], extents[axis] > c->lanes ? 2 * c->lanes : c->lanes);
        } else {
            stride *= extents[axis];
        }
    }
    stride = stride < 2 * c->lanes ? 2 * c->lanes : stride;
    buffer->bytes = round_up(stride * dtype_bytes(dtype), SLOT_ALIGN);
    return buffer;
}

static StackSlot *new_slot(CpuEmitter *c, int64_t bytes)
{
    int64_t total = bytes;
    for (size_t i = 0; i < c->slots.n; i++) {
        total += c->slots.items[i]->bytes;
    }
    if (total > MAX_STACK && total - bytes <= MAX_STACK) {
        /* Reported once; emission continues, and the caller drops the module. */
        Diag *diag = diag_error(c->func->diags, ERR_STACK, SPAN_NONE,
                                "the tiles of %s take %lld bytes of the stack; at most %lld fit",
                                c->func->name, (long long)total, (long long)MAX_STACK);
        diag_help(c->func->diags, diag, "make the tiles smaller in the schedule");
    }
    LLVMBuilderRef b = LLVMCreateBuilderInContext(c->l->context);
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(c->entry));
    LLVMTypeRef type = LLVMArrayType2(c->l->i8, (uint64_t)bytes);
    StackSlot *slot = ARENA_NEW(c->arena, StackSlot);
    slot->memory = LLVMBuildAlloca(b, type, "tile");
    LLVMSetAlignment(slot->memory, SLOT_ALIGN);
    slot->bytes = bytes;
    LLVMDisposeBuilder(b);
    ARENA_PUSH(c->arena, &c->slots, slot);
    return slot;
}

void cpu_buffer_place(CpuEmitter *c, Buffer *buffer, int free_after)
{
    /* The smallest free slot is reused that fits the buffer and is at most about four times as
     * large. */
    StackSlot *slot = NULL;
    for (size_t i = 0; i < c->slots.n; i++) {
        StackSlot *unused = c->slots.items[i];
        bool fits = unused->bytes >= buffer->bytes && unused->bytes <= 4 * buffer->bytes + 4096;
        if (unused->free_after < c->now && fits && (!slot || unused->bytes < slot->bytes)) {
            slot = unused;
        }
    }
    buffer->slot = slot ? slot : new_slot(c, buffer->bytes);
    buffer->slot->free_after = free_after < c->now ? c->now : free_after;
}

Buffer *cpu_buffer_for(CpuEmitter *c, Type type, int free_after)
{
    int64_t extents[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        extents[i] = cpu_capacity(c, type->dims[i]);
    }
    Buffer *buffer = cpu_buffer_shape(c, type->dtype, type->rank, extents);
    cpu_buffer_place(c, buffer, free_after);
    return buffer;
}

/* ---- elements ---- */

LLVMValueRef cpu_element(CpuEmitter *c, DType dtype, LLVMValueRef base, LLVMValueRef offset)
{
    LLVMTypeRef type = llvm_memory_type(c->l, dtype);
    return LLVMBuildInBoundsGEP2(c->l->builder, type, base, &offset, 1, "");
}

LLVMValueRef cpu_to_memory(CpuEmitter *c, DType dtype, LLVMValueRef value)
{
    if (dtype != DT_BOOL && !dtype_is_packed(dtype)) {
        return value;
    }
    return LLVMBuildZExt(c->l->builder, value, llvm_like(c->l->i8, LLVMTypeOf(value)), "");
}

LLVMValueRef cpu_from_memory(CpuEmitter *c, DType dtype, LLVMValueRef value)
{
    if (dtype_is_packed(dtype)) {
        LLVMTypeRef type = llvm_like(llvm_type(c->l, dtype), LLVMTypeOf(value));
        return LLVMBuildTrunc(c->l->builder, value, type, "");
    }
    if (dtype != DT_BOOL) {
        return value;
    }
    return LLVMBuildICmp(c->l->builder, LLVMIntNE, value, llvm_int(LLVMTypeOf(value), 0), "");
}

LLVMValueRef cpu_load_at(CpuEmitter *c, DType dtype, LLVMValueRef address, int lanes)
{
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(c->l, dtype), lanes);
    LLVMValueRef value = LLVMBuildLoad2(c->l->builder, type, address, "");
    LLVMSetAlignment(value, (unsigned)dtype_bytes(dtype));
    return cpu_from_memory(c, dtype, value);
}

void cpu_store_at(CpuEmitter *c, DType dtype, LLVMValueRef address, LLVMValueRef value)
{
    LLVMValueRef kept = cpu_to_memory(c, dtype, value);
    LLVMValueRef store = LLVMBuildStore(c->l->builder, kept, address);
    LLVMSetAlignment(store, (unsigned)dtype_bytes(dtype));
}

static LLVMValueRef offset_of(CpuEmitter *c, const Buffer *buffer, const LLVMValueRef *at)
{
    LLVMValueRef offset = llvm_i64(c->l, 0);
    for (int i = 0; i < buffer->rank; i++) {
        if (buffer->extents[i] > 1) {
            offset = cpu_add(c, offset, cpu_mul_const(c, at[i], buffer->strides[i]));
        }
    }
    return offset;
}

LLVMValueRef cpu_buffer_address(CpuEmitter *c, const Buffer *buffer, const LLVMValueRef *at)
{
    return cpu_element(c, buffer->dtype, buffer->slot->memory, offset_of(c, buffer, at));
}

LLVMValueRef cpu_buffer_load(CpuEmitter *c, const Buffer *buffer, const Point *point)
{
    LLVMValueRef address;
    if (point->vector_axis < 0) {
        address = cpu_buffer_address(c, buffer, point->at);
        return cpu_load_at(c, buffer->dtype, address, 1);
    }
    if (buffer->extents[point->vector_axis] == 1) {
        Point one = *point;
        one.vector_axis = -1;
        LLVMValueRef value = cpu_buffer_load(c, buffer, &one);
        return llvm_splat(c->l, value, llvm_lanes(LLVMTypeOf(value), c->lanes));
    }
    if (point->vector_axis != buffer->vector_axis) {
        /* Lanes along an axis that is not the contiguous one are gathered. */
        LLVMBuilderRef b = c->l->builder;
        LLVMTypeRef ints = llvm_lanes(c->l->i64, c->lanes);
        LLVMTypeRef type = llvm_lanes(llvm_memory_type(c->l, buffer->dtype), c->lanes);
        LLVMValueRef first = cpu_buffer_address(c, buffer, point->at);
        int64_t stride = buffer->strides[point->vector_axis];
        LLVMValueRef steps = LLVMBuildMul(b, cpu_iota(c, c->l->i64), llvm_int(ints, stride), "");
        LLVMTypeRef element = llvm_memory_type(c->l, buffer->dtype);
        LLVMValueRef addresses = LLVMBuildGEP2(b, element, first, &steps, 1, "");
        LLVMValueRef mask = point->mask ? point->mask : llvm_int(llvm_lanes(c->l->i1, c->lanes), 1);
        LLVMTypeRef types[2] = {type, LLVMTypeOf(addresses)};
        LLVMValueRef args[3] = {addresses, mask, LLVMConstNull(type)};
        return cpu_from_memory(c, buffer->dtype,
                               llvm_intrinsic(c->l, "llvm.masked.gather", 2, types, 3, args));
    }
    address = cpu_buffer_address(c, buffer, point->at);
    return cpu_load_at(c, buffer->dtype, address, c->lanes);
}

void cpu_buffer_store(CpuEmitter *c, const Buffer *buffer, const Point *point, LLVMValueRef value)
{
    if (point->vector_axis >= 0 && point->vector_axis != buffer->vector_axis) {
        diag_bug(c->func->diags, "a tile is written along an axis that is not its own");
    }
    LLVMValueRef address = cpu_buffer_address(c, buffer, point->at);
    cpu_store_at(c, buffer->dtype, address, value);
}

/* ---- cells ---- */

LLVMValueRef cpu_cell(CpuEmitter *c, LLVMTypeRef type)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(c->l->context);
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(c->entry));
    LLVMValueRef cell = LLVMBuildAlloca(b, type, "");
    LLVMDisposeBuilder(b);
    return cell;
}

LLVMValueRef cpu_get(CpuEmitter *c, LLVMValueRef cell)
{
    return LLVMBuildLoad2(c->l->builder, LLVMGetAllocatedType(cell), cell, "");
}

void cpu_set(CpuEmitter *c, LLVMValueRef cell, LLVMValueRef value)
{
    LLVMBuildStore(c->l->builder, value, cell);
}
