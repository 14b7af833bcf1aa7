/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered elements. Setting is one masked store of a vector; an atomic takes its lanes one by
 * one, those alone that are wanted and inside. Orders of memory are relaxed: what a launch wrote is
 * published by its end. */
#include "codegen/cpu/access.h"

#include <string.h>

typedef struct Change {
    const char *fn;
    DType dtype;
    LLVMValueRef value, compare;
} Change;

static LLVMTypeRef bits_type(const CpuEmitter *c, DType dtype)
{
    return LLVMIntTypeInContext(c->l->context, (unsigned)dtype_bytes(dtype) * 8);
}

static LLVMValueRef to_bits(CpuEmitter *c, DType dtype, LLVMValueRef value)
{
    return LLVMBuildBitCast(c->l->builder, cpu_to_memory(c, dtype, value), bits_type(c, dtype), "");
}

static LLVMValueRef from_bits(CpuEmitter *c, DType dtype, LLVMValueRef bits)
{
    LLVMTypeRef type = llvm_memory_type(c->l, dtype);
    return cpu_from_memory(c, dtype, LLVMBuildBitCast(c->l->builder, bits, type, ""));
}

/* ---- one element ---- */

/* The instruction for a change of integers or bits; false: it takes a loop. */
static bool direct(const Change *change, LLVMAtomicRMWBinOp *out)
{
    bool with_sign = dtype_is_signed(change->dtype);
    const struct {
        const char *fn;
        LLVMAtomicRMWBinOp op;
    } rows[] = {{"add", LLVMAtomicRMWBinOpAdd},
                {"and", LLVMAtomicRMWBinOpAnd},
                {"or", LLVMAtomicRMWBinOpOr},
                {"xor", LLVMAtomicRMWBinOpXor},
                {"min", with_sign ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin},
                {"max", with_sign ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax}};
    if (text_same(change->fn, "xchg") || text_same(change->fn, "set")) {
        *out = LLVMAtomicRMWBinOpXchg;
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows && dtype_is_int(change->dtype); i++) {
        if (text_same(change->fn, rows[i].fn)) {
            *out = rows[i].op;
            return true;
        }
    }
    return false;
}

static OpKind op_of(CpuEmitter *c, const char *fn)
{
    OpKind kind;
    if (!op_from_name(fn, strlen(fn), &kind)) {
        diag_bug(c->func->diags, "no atomic is called '%s'", fn);
    }
    return kind;
}

static LLVMValueRef changed(CpuEmitter *c, const Change *change, LLVMValueRef old)
{
    LLVMValueRef operands[2] = {old, change->value};
    OpKind kind = op_of(c, change->fn);
    if (change->dtype == DT_BOOL && kind == OP_ADD) {
        kind = OP_XOR;
    }
    return scalar_emit(c->l, kind, NULL, change->dtype, change->dtype, operands);
}

static LLVMValueRef exchange_if(CpuEmitter *c, LLVMValueRef address, LLVMValueRef expected,
                                LLVMValueRef next)
{
    LLVMAtomicOrdering relaxed = LLVMAtomicOrderingMonotonic;
    return LLVMBuildAtomicCmpXchg(c->l->builder, address, expected, next, relaxed, relaxed, false);
}

/* Read, change, write if nobody else has written since; else again. */
static LLVMValueRef change_in_loop(CpuEmitter *c, const Change *change, LLVMValueRef address)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef again = llvm_block(c->l, c->function, "again");
    LLVMBasicBlockRef done = llvm_block(c->l, c->function, "done");
    LLVMTypeRef type = bits_type(c, change->dtype);
    LLVMValueRef first = LLVMBuildLoad2(b, type, address, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, (unsigned)dtype_bytes(change->dtype));
    LLVMBuildBr(b, again);
    LLVMPositionBuilderAtEnd(b, again);
    LLVMValueRef old = LLVMBuildPhi(b, type, "");
    LLVMAddIncoming(old, &first, &before, 1);
    LLVMValueRef next = changed(c, change, from_bits(c, change->dtype, old));
    LLVMValueRef pair = exchange_if(c, address, old, to_bits(c, change->dtype, next));
    LLVMValueRef seen = LLVMBuildExtractValue(b, pair, 0, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(old, &seen, &latch, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, again);
    LLVMPositionBuilderAtEnd(b, done);
    return seen;
}

/* Returns the old element. */
static LLVMValueRef change_one(CpuEmitter *c, const Change *change, LLVMValueRef address)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMAtomicRMWBinOp op;
    LLVMValueRef old;
    if (text_same(change->fn, "cas")) {
        LLVMValueRef expected = to_bits(c, change->dtype, change->compare);
        LLVMValueRef next = to_bits(c, change->dtype, change->value);
        old = LLVMBuildExtractValue(b, exchange_if(c, address, expected, next), 0, "");
    } else if (direct(change, &op)) {
        old = LLVMBuildAtomicRMW(b, op, address, to_bits(c, change->dtype, change->value),
                                 LLVMAtomicOrderingMonotonic, false);
    } else {
        old = change_in_loop(c, change, address);
    }
    return from_bits(c, change->dtype, old);
}

/* ---- lanes ---- */

static LLVMValueRef lane_of(CpuEmitter *c, LLVMValueRef vector, LLVMValueRef lane)
{
    return vector ? LLVMBuildExtractElement(c->l->builder, vector, lane, "") : NULL;
}

static LLVMValueRef lane_offsets(CpuEmitter *c, const Spot *spot)
{
    LLVMTypeRef type = llvm_lanes(c->l->i64, c->lanes);
    if (spot->each) {
        return spot->each;
    }
    LLVMValueRef stride = spot->stride ? spot->stride : llvm_i64(c->l, 1);
    return LLVMBuildMul(c->l->builder, llvm_splat(c->l, stride, type), cpu_iota(c, c->l->i64), "");
}

/* Lane by lane through the bits of the mask, from the lowest. `olds`: a cell, or NULL. */
static void change_lanes(CpuEmitter *c, const Change *change, const Spot *spot, LLVMValueRef olds)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef mask = cpu_spot_mask(c, spot), offsets = lane_offsets(c, spot);
    LLVMTypeRef word = LLVMIntTypeInContext(c->l->context, (unsigned)c->lanes);
    LLVMTypeRef flags = llvm_lanes(c->l->i1, c->lanes);
    LLVMValueRef bits = LLVMBuildBitCast(b, mask ? mask : llvm_int(flags, 1), word, "");
    bits = LLVMBuildZExt(b, bits, c->l->i64, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef head = llvm_block(c->l, c->function, "lanes");
    LLVMBasicBlockRef body = llvm_block(c->l, c->function, "lane");
    LLVMBasicBlockRef after = llvm_block(c->l, c->function, "after");
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    LLVMValueRef left = LLVMBuildPhi(b, c->l->i64, ""), zero = llvm_i64(c->l, 0);
    LLVMAddIncoming(left, &bits, &before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntNE, left, zero, ""), body, after);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef lane = llvm_intrinsic(c->l, "llvm.cttz", 1, &c->l->i64, 2,
                                       (LLVMValueRef[]){left, llvm_int(c->l->i1, 1)});
    Change one = {change->fn, change->dtype, lane_of(c, change->value, lane),
                  lane_of(c, change->compare, lane)};
    LLVMValueRef offset = lane_of(c, offsets, lane);
    LLVMTypeRef element = llvm_memory_type(c->l, change->dtype);
    LLVMValueRef address = LLVMBuildGEP2(b, element, spot->address, &offset, 1, "");
    LLVMValueRef old = change_one(c, &one, address);
    if (olds) {
        cpu_set(c, olds, LLVMBuildInsertElement(b, cpu_get(c, olds), old, lane, ""));
    }
    LLVMValueRef less = LLVMBuildSub(b, left, llvm_i64(c->l, 1), "");
    LLVMValueRef next = LLVMBuildAnd(b, left, less, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(left, &next, &latch, 1);
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, after);
}

static void change_single(CpuEmitter *c, const Change *change, const Spot *spot, LLVMValueRef olds)
{
    LLVMValueRef wanted = spot->inside ? spot->inside : llvm_int(c->l->i1, 1);
    Branch branch = cpu_if_begin(c, wanted);
    LLVMValueRef old = change_one(c, change, spot->address);
    if (olds) {
        cpu_set(c, olds, old);
    }
    cpu_if_end(c, &branch);
}

/* ---- the op ---- */

static void add_mask(CpuEmitter *c, const Op *op, int at, const Point *point, Spot *spot)
{
    if (at >= op->n_operands) {
        return;
    }
    LLVMValueRef mask = cpu_eval(c, op->operands[at], point);
    if (spot->lanes == 1) {
        spot->inside = cpu_and_also(c, spot->inside, mask);
        return;
    }
    mask = llvm_splat(c->l, mask, llvm_lanes(c->l->i1, spot->lanes));
    spot->mask = cpu_and_also(c, spot->mask, mask);
}

static LLVMValueRef operand_at(CpuEmitter *c, const Value *value, const Point *point)
{
    LLVMValueRef result = cpu_eval(c, value, point);
    bool widen = point->vector_axis >= 0 && !llvm_lane_count(LLVMTypeOf(result));
    return widen ? llvm_splat(c->l, result, llvm_lanes(LLVMTypeOf(result), c->lanes)) : result;
}

LLVMValueRef cpu_scatter_at(CpuEmitter *c, const Op *op, const Point *point)
{
    int at = access_next(op, 0);
    const Value *memory = op->operands[0];
    Change change = {op_word(op, ATTR_FN), memory->type->dtype, NULL, NULL};
    bool cas = text_same(change.fn, "cas");
    change.value = operand_at(c, op->operands[at++], point);
    change.compare = cas ? operand_at(c, op->operands[at++], point) : NULL;
    Spot spot = cpu_indexed_spot(c, op, point);
    add_mask(c, op, at, point, &spot);
    if (text_same(change.fn, "set") && op->n_results == 0) {
        cpu_spot_store(c, change.dtype, &spot, change.value);
        return NULL;
    }
    LLVMValueRef olds = NULL;
    if (op->n_results) {
        olds = cpu_cell(c, LLVMTypeOf(change.value));
        cpu_set(c, olds, LLVMConstNull(LLVMTypeOf(change.value)));
    }
    if (spot.lanes == 1) {
        change_single(c, &change, &spot, olds);
    } else {
        change_lanes(c, &change, &spot, olds);
    }
    return olds ? cpu_get(c, olds) : NULL;
}

typedef struct Scatter {
    const Op *op;
    const Buffer *olds; /* NULL: no result */
} Scatter;

static void scatter_body(CpuEmitter *c, const Point *point, void *user)
{
    const Scatter *scatter = user;
    LLVMValueRef old = cpu_scatter_at(c, scatter->op, point);
    if (scatter->olds) {
        cpu_buffer_store(c, scatter->olds, point, old);
    }
}

void cpu_emit_scatter(CpuEmitter *c, const Op *op)
{
    Scatter scatter = {op, NULL};
    const Value *value = op->operands[access_next(op, 0)];
    if (op->n_results && !type_is_scalar(value->type)) {
        const Value *result = op->results[0];
        scatter.olds = cpu_buffer_for(c, result->type, c->values[result->id].last);
        c->values[result->id].buffer = scatter.olds;
    }
    if (type_is_scalar(value->type)) {
        Point nowhere = {.rank = 0, .vector_axis = -1};
        LLVMValueRef old = cpu_scatter_at(c, op, &nowhere);
        if (old) {
            c->values[op->results[0]->id].scalar = old;
        }
        return;
    }
    Nest nest = cpu_nest_over(c, value->type);
    nest.hoist = value;
    nest.body = scatter_body;
    nest.user = &scatter;
    cpu_nest(c, &nest);
}
