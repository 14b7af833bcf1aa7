/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of 4-bit elements: two per byte, the first in the low half. Contiguous elements are
 * packed and unpacked as vectors, others byte by byte. A half byte is written in a way that allows
 * another block to write the other half at the same time. An element has four bits in registers
 * and a whole byte in tiles. */
#include "codegen/cpu/cpu_access.h"

/* ---- lanes, one after the other ---- */

LaneLoop cpu_lanes_begin(CpuEmitter *c, LLVMValueRef mask)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMTypeRef word = LLVMIntTypeInContext(c->l->context, (unsigned)c->lanes);
    LLVMTypeRef flags = llvm_lanes(c->l->i1, c->lanes);
    LLVMValueRef bits = LLVMBuildBitCast(b, mask ? mask : llvm_int(flags, 1), word, "");
    bits = LLVMBuildZExt(b, bits, c->l->i64, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LaneLoop loop = {.head = llvm_block(c->l, c->function, "lanes"),
                     .after = llvm_block(c->l, c->function, "after")};
    LLVMBasicBlockRef body = llvm_block(c->l, c->function, "lane");
    LLVMBuildBr(b, loop.head);
    LLVMPositionBuilderAtEnd(b, loop.head);
    loop.left = LLVMBuildPhi(b, c->l->i64, "");
    LLVMAddIncoming(loop.left, &bits, &before, 1);
    LLVMValueRef any = LLVMBuildICmp(b, LLVMIntNE, loop.left, llvm_i64(c->l, 0), "");
    LLVMBuildCondBr(b, any, body, loop.after);
    LLVMPositionBuilderAtEnd(b, body);
    loop.lane = llvm_intrinsic(c->l, "llvm.cttz", 1, &c->l->i64, 2,
                               (LLVMValueRef[]){loop.left, llvm_int(c->l->i1, 1)});
    return loop;
}

void cpu_lanes_end(CpuEmitter *c, const LaneLoop *loop)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef less = LLVMBuildSub(b, loop->left, llvm_i64(c->l, 1), "");
    LLVMValueRef next = LLVMBuildAnd(b, loop->left, less, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(loop->left, &next, &latch, 1);
    LLVMBuildBr(b, loop->head);
    LLVMPositionBuilderAtEnd(b, loop->after);
}

LLVMValueRef cpu_spot_offsets(CpuEmitter *c, const Spot *spot)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMTypeRef type = llvm_lanes(c->l->i64, c->lanes);
    if (spot->each) {
        return spot->each;
    }
    LLVMValueRef stride = spot->stride ? spot->stride : llvm_i64(c->l, 1);
    LLVMValueRef steps =
        LLVMBuildMul(b, llvm_splat(c->l, stride, type), cpu_iota(c, c->l->i64), "");
    return LLVMBuildAdd(b, llvm_splat(c->l, spot->offset, type), steps, "");
}

/* ---- one element ---- */

typedef struct Half {
    LLVMValueRef address, shift; /* of its byte; i8: 0 or 4 */
} Half;

static Half half_at(CpuEmitter *c, LLVMValueRef base, LLVMValueRef offset)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef byte = LLVMBuildAShr(b, offset, llvm_i64(c->l, 1), "");
    LLVMValueRef shift = LLVMBuildShl(b, offset, llvm_i64(c->l, 2), "");
    shift = LLVMBuildAnd(b, LLVMBuildTrunc(b, shift, c->l->i8, ""), llvm_int(c->l->i8, 4), "");
    return (Half){LLVMBuildGEP2(b, c->l->i8, base, &byte, 1, ""), shift};
}

static LLVMValueRef load_half(CpuEmitter *c, DType dtype, const Half *half)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef byte = LLVMBuildLoad2(b, c->l->i8, half->address, "");
    LLVMValueRef moved = LLVMBuildLShr(b, byte, half->shift, "");
    return LLVMBuildTrunc(b, moved, llvm_type(c->l, dtype), "");
}

/* Another block may write the byte's other half, or scatter to this one. */
static void store_half(CpuEmitter *c, const Half *half, LLVMValueRef value)
{
    scalar_set_half(c->l, half->address, half->shift, value);
}

static Half single_half(CpuEmitter *c, const Spot *spot)
{
    Half half = half_at(c, spot->base, spot->offset);
    if (spot->inside) {
        half.address = LLVMBuildSelect(c->l->builder, spot->inside, half.address, c->spare, "");
    }
    return half;
}

/* ---- neighbours ---- */

/* Are the lanes neighbours, and all of them wanted? */
static bool is_row(CpuEmitter *c, const Spot *spot)
{
    return !spot->each && !spot->stride && !cpu_spot_mask(c, spot);
}

/* i1: lane 0 begins a byte. */
static LLVMValueRef begins_byte(CpuEmitter *c, const Spot *spot)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef odd = LLVMBuildAnd(b, spot->offset, llvm_i64(c->l, 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, odd, llvm_i64(c->l, 0), "");
}

/* The `byte`-th after that of lane 0. */
static LLVMValueRef address_of(CpuEmitter *c, const Spot *spot, int byte)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef at = LLVMBuildAShr(b, spot->offset, llvm_i64(c->l, 1), "");
    at = LLVMBuildAdd(b, at, llvm_i64(c->l, byte), "");
    return LLVMBuildGEP2(b, c->l->i8, spot->base, &at, 1, "");
}

static LLVMValueRef load_bytes(CpuEmitter *c, const Spot *spot, int byte)
{
    LLVMTypeRef type = llvm_lanes(c->l->i8, c->lanes / 2);
    LLVMValueRef bytes = LLVMBuildLoad2(c->l->builder, type, address_of(c, spot, byte), "");
    LLVMSetAlignment(bytes, 1);
    return bytes;
}

static LLVMValueRef high_halves(CpuEmitter *c, LLVMValueRef bytes)
{
    return LLVMBuildLShr(c->l->builder, bytes, llvm_int(LLVMTypeOf(bytes), 4), "");
}

/* Lanes 0, 2, … are the low halves of the first bytes, lanes 1, 3, … those of the second. */
static LLVMValueRef by_turns(CpuEmitter *c, DType dtype, LLVMValueRef even, LLVMValueRef odd)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef lanes[64];
    for (int i = 0; i < c->lanes; i++) {
        lanes[i] = llvm_i32(c->l, i / 2 + i % 2 * (c->lanes / 2));
    }
    LLVMValueRef order = LLVMConstVector(lanes, (unsigned)c->lanes);
    LLVMValueRef all = LLVMBuildShuffleVector(b, even, odd, order, "");
    return LLVMBuildTrunc(b, all, llvm_lanes(llvm_type(c->l, dtype), c->lanes), "");
}

/* Every other one of n lanes, from `first`. */
static LLVMValueRef every_other(CpuEmitter *c, LLVMValueRef vector, int first, int n)
{
    LLVMValueRef lanes[32], none = LLVMGetPoison(LLVMTypeOf(vector));
    for (int i = 0; i < n; i++) {
        lanes[i] = llvm_i32(c->l, first + 2 * i);
    }
    LLVMValueRef order = LLVMConstVector(lanes, (unsigned)n);
    return LLVMBuildShuffleVector(c->l->builder, vector, none, order, "");
}

/* Lanes `first`, first + 1, … in n bytes, the `byte`-th and on after that of lane 0. */
static void store_bytes(CpuEmitter *c, const Spot *spot, LLVMValueRef value, int first, int n,
                        int byte)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef wide = LLVMBuildZExt(b, value, llvm_lanes(c->l->i8, c->lanes), "");
    LLVMValueRef high = every_other(c, wide, first + 1, n);
    high = LLVMBuildShl(b, high, llvm_int(LLVMTypeOf(high), 4), "");
    LLVMValueRef bytes = LLVMBuildOr(b, every_other(c, wide, first, n), high, "");
    LLVMSetAlignment(LLVMBuildStore(b, bytes, address_of(c, spot, byte)), 1);
}

static void store_lane(CpuEmitter *c, const Spot *spot, LLVMValueRef value, int lane)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef at = LLVMBuildAdd(b, spot->offset, llvm_i64(c->l, lane), "");
    Half half = half_at(c, spot->base, at);
    store_half(c, &half, LLVMBuildExtractElement(b, value, llvm_i32(c->l, lane), ""));
}

/* ---- the accesses ---- */

static LLVMValueRef lane_of(CpuEmitter *c, LLVMValueRef vector, LLVMValueRef lane)
{
    return LLVMBuildExtractElement(c->l->builder, vector, lane, "");
}

LLVMValueRef cpu_packed_load(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside)
{
    if (spot->lanes == 1) {
        Half half = single_half(c, spot);
        LLVMValueRef value = load_half(c, dtype, &half);
        return spot->inside ? LLVMBuildSelect(c->l->builder, spot->inside, value, outside, "")
                            : value;
    }
    if (is_row(c, spot)) {
        /* The low and high halves of the bytes are interleaved; from an odd offset the row begins
         * with a high half. */
        LLVMValueRef cell = cpu_cell(c, llvm_lanes(llvm_type(c->l, dtype), c->lanes));
        Branch branch = cpu_if_begin(c, begins_byte(c, spot));
        LLVMValueRef bytes = load_bytes(c, spot, 0);
        cpu_set(c, cell, by_turns(c, dtype, bytes, high_halves(c, bytes)));
        cpu_if_else(c, &branch);
        LLVMValueRef high = high_halves(c, load_bytes(c, spot, 0));
        cpu_set(c, cell, by_turns(c, dtype, high, load_bytes(c, spot, 1)));
        cpu_if_end(c, &branch);
        return cpu_get(c, cell);
    }
    LLVMValueRef cell = cpu_cell(c, LLVMTypeOf(outside));
    cpu_set(c, cell, outside);

    /* Each active lane loads its half byte by itself. */
    LLVMValueRef offsets = cpu_spot_offsets(c, spot);
    LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, spot));
    Half half = half_at(c, spot->base, lane_of(c, offsets, loop.lane));
    LLVMValueRef value = load_half(c, dtype, &half), all = cpu_get(c, cell);
    cpu_set(c, cell, LLVMBuildInsertElement(c->l->builder, all, value, loop.lane, ""));
    cpu_lanes_end(c, &loop);

    return cpu_get(c, cell);
}

void cpu_packed_store(CpuEmitter *c, const Spot *spot, LLVMValueRef value)
{
    if (spot->lanes == 1) {
        Half half = single_half(c, spot);
        store_half(c, &half, value);
    } else if (is_row(c, spot)) {
        /* From an odd offset the first and the last lane each own half a byte. */
        int n = c->lanes;
        Branch branch = cpu_if_begin(c, begins_byte(c, spot));
        store_bytes(c, spot, value, 0, n / 2, 0);
        cpu_if_else(c, &branch);
        store_lane(c, spot, value, 0);
        if (n > 2) {
            store_bytes(c, spot, value, 1, n / 2 - 1, 1);
        }
        store_lane(c, spot, value, n - 1);
        cpu_if_end(c, &branch);
    } else {
        /* Each active lane stores its half byte by itself. */
        LLVMValueRef offsets = cpu_spot_offsets(c, spot);
        LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, spot));
        Half half = half_at(c, spot->base, lane_of(c, offsets, loop.lane));
        store_half(c, &half, lane_of(c, value, loop.lane));
        cpu_lanes_end(c, &loop);
    }
}
