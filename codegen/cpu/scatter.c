/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered elements. Setting is one masked store of a vector; an atomic takes its lanes one by
 * one, those alone that are wanted and inside. Orders of memory are relaxed: what a launch wrote is
 * published by its end. */
#include "codegen/cpu/access.h"
#include "codegen/scalar_atomic.h"

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
static void change_lanes(CpuEmitter *c, const AtomicChange *change, const Spot *spot,
                         LLVMValueRef olds)
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
    AtomicChange one = *change;
    one.value = lane_of(c, change->value, lane);
    one.compare = lane_of(c, change->compare, lane);
    LLVMValueRef offset = lane_of(c, offsets, lane);
    LLVMTypeRef element = llvm_memory_type(c->l, change->dtype);
    LLVMValueRef address = LLVMBuildGEP2(b, element, spot->address, &offset, 1, "");
    LLVMValueRef old = scalar_atomic(c->l, &one, address);
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

static void change_single(CpuEmitter *c, const AtomicChange *change, const Spot *spot,
                          LLVMValueRef olds)
{
    LLVMValueRef wanted = spot->inside ? spot->inside : llvm_int(c->l->i1, 1);
    Branch branch = cpu_if_begin(c, wanted);
    LLVMValueRef old = scalar_atomic(c->l, change, spot->address);
    if (olds) {
        cpu_set(c, olds, old);
    }
    cpu_if_end(c, &branch);
}

/* ---- the op ---- */

static LLVMValueRef operand_at(CpuEmitter *c, const Value *value, const Point *point)
{
    LLVMValueRef result = cpu_eval(c, value, point);
    bool widen = point->vector_axis >= 0 && !llvm_lane_count(LLVMTypeOf(result));
    return widen ? llvm_splat(c->l, result, llvm_lanes(LLVMTypeOf(result), c->lanes)) : result;
}

static void add_mask(CpuEmitter *c, const Op *op, int at, const Point *point, Spot *spot)
{
    if (at >= op->n_operands) {
        return;
    }
    LLVMValueRef mask = operand_at(c, op->operands[at], point);
    if (spot->lanes == 1) {
        spot->inside = cpu_and_also(c, spot->inside, mask);
    } else {
        spot->mask = cpu_and_also(c, spot->mask, mask);
    }
}

LLVMValueRef cpu_scatter_at(CpuEmitter *c, const Op *op, const Point *point)
{
    int at = access_next(op, 0);
    const Value *memory = op->operands[0];
    AtomicChange change = {.fn = op_word(op, ATTR_FN), .dtype = memory->type->dtype};
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
