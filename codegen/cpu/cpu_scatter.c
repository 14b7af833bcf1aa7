/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters. Plain stores are one masked vector store; atomics process the active, in-bounds lanes
 * one by one. Memory order is relaxed, because the end of a launch publishes its stores. */
#include "codegen/cpu/cpu_access.h"
#include "codegen/scalar/scalar_atomic.h"

/* ---- lanes ---- */

static LLVMValueRef lane_of(CpuEmitter *c, LLVMValueRef vector, LLVMValueRef lane)
{
    return vector ? LLVMBuildExtractElement(c->l->builder, vector, lane, "") : NULL;
}

/* ---- the op ---- */

LLVMValueRef cpu_operand_at(CpuEmitter *c, const Value *value, const Point *point)
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
    LLVMValueRef mask = cpu_operand_at(c, op->operands[at], point);
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
    AtomicChange change = {.fn = scalar_atomic_fn(c->l, op), .dtype = memory->type->dtype};
    bool cas = change.fn == ATOMIC_CAS;
    change.value = cpu_operand_at(c, op->operands[at++], point);
    change.compare = cas ? cpu_operand_at(c, op->operands[at++], point) : NULL;
    Spot spot = cpu_indexed_spot(c, op, point);
    add_mask(c, op, at, point, &spot);
    if (change.fn == ATOMIC_SET && op->n_results == 0) {
        cpu_spot_store(c, change.dtype, &spot, change.value);
        return NULL;
    }
    LLVMValueRef olds = NULL;
    if (op->n_results) {
        olds = cpu_cell(c, LLVMTypeOf(change.value));
        cpu_set(c, olds, LLVMConstNull(LLVMTypeOf(change.value)));
    }
    const PrivateTensor *own = c->privates[plan_param_index(c->func, memory)];
    if (spot.lanes == 1) {
        /* A single element is changed under its guard. */
        bool is_private = own != NULL;
        LLVMValueRef wanted = spot.inside ? spot.inside : llvm_int(c->l->i1, 1);
        Branch branch = cpu_if_begin(c, wanted);
        if (is_private) {
            cpu_private_change(c, &change, spot.address);
        } else {
            LLVMValueRef old = scalar_atomic(c->l, &change, spot.address);
            if (olds) {
                cpu_set(c, olds, old);
            }
        }
        cpu_if_end(c, &branch);
    } else if (own) {
        cpu_private_lanes(c, &change, &spot, own);
    } else {
        /* Each active lane changes its element by itself, in the order of the lanes. */
        LLVMBuilderRef b = c->l->builder;
        LLVMValueRef offsets = cpu_spot_offsets(c, &spot);
        LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, &spot));
        AtomicChange one = {change.fn, change.dtype, lane_of(c, change.value, loop.lane),
                            lane_of(c, change.compare, loop.lane), change.float_add};
        LLVMValueRef offset = lane_of(c, offsets, loop.lane);
        LLVMTypeRef element = llvm_memory_type(c->l, change.dtype);
        LLVMValueRef address = LLVMBuildGEP2(b, element, spot.base, &offset, 1, "");
        LLVMValueRef old = scalar_atomic(c->l, &one, address);
        if (olds) {
            cpu_set(c, olds, LLVMBuildInsertElement(b, cpu_get(c, olds), old, loop.lane, ""));
        }
        cpu_lanes_end(c, &loop);
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
