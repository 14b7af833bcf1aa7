/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of 4-bit elements, two a byte, the first in the low half. Neighbours from an even place
 * are taken apart or put together as a vector; others byte by byte. In registers an element has
 * four bits; in tiles a byte of its own. */
#include "codegen/cpu/access.h"

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

static void store_half(CpuEmitter *c, const Half *half, LLVMValueRef value)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef byte = LLVMBuildLoad2(b, c->l->i8, half->address, "");
    LLVMValueRef hole = LLVMBuildShl(b, llvm_int(c->l->i8, 15), half->shift, "");
    LLVMValueRef moved = LLVMBuildZExt(b, value, c->l->i8, "");
    moved = LLVMBuildShl(b, moved, half->shift, "");
    LLVMValueRef rest = LLVMBuildAnd(b, byte, LLVMBuildNot(b, hole, ""), "");
    LLVMBuildStore(b, LLVMBuildOr(b, rest, moved, ""), half->address);
}

static Half single_half(CpuEmitter *c, const Spot *spot)
{
    Half half = half_at(c, spot->base, spot->offset);
    if (spot->inside) {
        half.address = LLVMBuildSelect(c->l->builder, spot->inside, half.address, c->spare, "");
    }
    return half;
}

static LLVMValueRef load_single(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside)
{
    Half half = single_half(c, spot);
    LLVMValueRef value = load_half(c, dtype, &half);
    return spot->inside ? LLVMBuildSelect(c->l->builder, spot->inside, value, outside, "") : value;
}

/* ---- vectors from an even place ---- */

/* NULL: lanes are not neighbours, or not all are wanted. Else i1: lane 0 begins a byte. */
static LLVMValueRef begins_byte(CpuEmitter *c, const Spot *spot)
{
    if (spot->each || spot->stride || cpu_spot_mask(c, spot)) {
        return NULL;
    }
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef odd = LLVMBuildAnd(b, spot->offset, llvm_i64(c->l, 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, odd, llvm_i64(c->l, 0), "");
}

static LLVMValueRef shuffle(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b, int n, int step,
                            int second)
{
    LLVMValueRef lanes[64];
    for (int i = 0; i < n; i++) {
        lanes[i] = llvm_i32(c->l, second < 0 ? i * step : i / 2 + i % 2 * second);
    }
    return LLVMBuildShuffleVector(c->l->builder, a, b, LLVMConstVector(lanes, (unsigned)n), "");
}

static LLVMValueRef load_bytes(CpuEmitter *c, DType dtype, const Spot *spot)
{
    LLVMBuilderRef b = c->l->builder;
    int n = c->lanes / 2;
    Half first = half_at(c, spot->base, spot->offset);
    LLVMTypeRef type = llvm_lanes(c->l->i8, n);
    LLVMValueRef bytes = LLVMBuildLoad2(b, type, first.address, "");
    LLVMSetAlignment(bytes, 1);
    LLVMValueRef high = LLVMBuildLShr(b, bytes, llvm_int(type, 4), "");
    LLVMValueRef all = shuffle(c, bytes, high, c->lanes, 1, n);
    return LLVMBuildTrunc(b, all, llvm_lanes(llvm_type(c->l, dtype), c->lanes), "");
}

static void store_bytes(CpuEmitter *c, const Spot *spot, LLVMValueRef value)
{
    LLVMBuilderRef b = c->l->builder;
    int n = c->lanes / 2;
    LLVMValueRef wide = LLVMBuildZExt(b, value, llvm_lanes(c->l->i8, c->lanes), "");
    LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(wide));
    LLVMValueRef moved = LLVMBuildShl(b, wide, llvm_int(LLVMTypeOf(wide), 4), "");
    LLVMValueRef low = shuffle(c, wide, none, n, 2, -1);
    LLVMValueRef odd[64];
    for (int i = 0; i < n; i++) {
        odd[i] = llvm_i32(c->l, 2 * i + 1);
    }
    LLVMValueRef high =
        LLVMBuildShuffleVector(b, moved, none, LLVMConstVector(odd, (unsigned)n), "");
    Half first = half_at(c, spot->base, spot->offset);
    LLVMSetAlignment(LLVMBuildStore(b, LLVMBuildOr(b, low, high, ""), first.address), 1);
}

/* ---- the accesses ---- */

static LLVMValueRef lane_of(CpuEmitter *c, LLVMValueRef vector, LLVMValueRef lane)
{
    return LLVMBuildExtractElement(c->l->builder, vector, lane, "");
}

static void load_lanes(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef cell)
{
    LLVMValueRef offsets = cpu_spot_offsets(c, spot);
    LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, spot));
    Half half = half_at(c, spot->base, lane_of(c, offsets, loop.lane));
    LLVMValueRef value = load_half(c, dtype, &half), all = cpu_get(c, cell);
    cpu_set(c, cell, LLVMBuildInsertElement(c->l->builder, all, value, loop.lane, ""));
    cpu_lanes_end(c, &loop);
}

LLVMValueRef cpu_packed_load(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside)
{
    if (spot->lanes == 1) {
        return load_single(c, dtype, spot, outside);
    }
    LLVMValueRef cell = cpu_cell(c, LLVMTypeOf(outside)), even = begins_byte(c, spot);
    cpu_set(c, cell, outside);
    if (!even) {
        load_lanes(c, dtype, spot, cell);
        return cpu_get(c, cell);
    }
    Branch branch = cpu_if_begin(c, even);
    cpu_set(c, cell, load_bytes(c, dtype, spot));
    cpu_if_else(c, &branch);
    load_lanes(c, dtype, spot, cell);
    cpu_if_end(c, &branch);
    return cpu_get(c, cell);
}

static void store_lanes(CpuEmitter *c, const Spot *spot, LLVMValueRef value)
{
    LLVMValueRef offsets = cpu_spot_offsets(c, spot);
    LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, spot));
    Half half = half_at(c, spot->base, lane_of(c, offsets, loop.lane));
    store_half(c, &half, lane_of(c, value, loop.lane));
    cpu_lanes_end(c, &loop);
}

void cpu_packed_store(CpuEmitter *c, const Spot *spot, LLVMValueRef value)
{
    if (spot->lanes == 1) {
        Half half = single_half(c, spot);
        store_half(c, &half, value);
        return;
    }
    LLVMValueRef even = begins_byte(c, spot);
    if (!even) {
        store_lanes(c, spot, value);
        return;
    }
    Branch branch = cpu_if_begin(c, even);
    store_bytes(c, spot, value);
    cpu_if_else(c, &branch);
    store_lanes(c, spot, value);
    cpu_if_end(c, &branch);
}
