/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_reduce: each block writes what it has into the shared memory of all blocks of its
 * cluster, they meet, and each combines all parts in the same order. Source: CUDA C++ Programming
 * Guide, "Distributed Shared Memory". */
#include "codegen/gpu/tiles.h"
#include "codegen/scalar_ops.h"

typedef struct Exchange {
    GpuEmitter *em;
    Type type;
    DType dtype;
    LLVMValueRef base; /* of this block's memory */
    int64_t elements;  /* of a part */
    int blocks, bytes; /* of an element */
} Exchange;

static Exchange begin(GpuEmitter *em, const Op *op)
{
    Type type = op->results[0]->type;
    Exchange x = {.em = em, .type = type, .dtype = type->dtype, .elements = 1};
    x.base = gpu_shared_slot(em, op->operands[1], NULL);
    x.blocks = em->plan_launch->cluster;
    x.bytes = dtype_bytes(type->dtype);
    for (int axis = 0; axis < type->rank; axis++) {
        x.elements *= gpu_extent(em, type, axis);
    }
    return x;
}

/* i32: which element of the part (row-major) register r holds. */
static LLVMValueRef element_of(const Exchange *x, int r)
{
    GpuEmitter *em = x->em;
    LLVMValueRef element = gpu_i32(em, 0);
    for (int axis = 0; axis < x->type->rank; axis++) {
        LLVMValueRef extent = gpu_i32(em, gpu_extent(em, x->type, axis));
        element = LLVMBuildMul(em->builder, element, extent, "");
        element = LLVMBuildAdd(em->builder, element, gpu_coord(em, x->type->layout, axis, r), "");
    }
    return element;
}

static bool stands(const Exchange *x, int r)
{
    return gpu_exists(x->em, x->type, r) && gpu_canonical(x->type->layout, r) == r;
}

/* One thread an element writes it, to every block. */
static void send(const Exchange *x, const GpuValue *in)
{
    GpuEmitter *em = x->em;
    LLVMValueRef rank = em->target->cluster_rank(em);
    LLVMValueRef mine = LLVMBuildMul(em->builder, rank, gpu_i32(em, x->elements), "");
    LLVMValueRef first = gpu_first_holder(em, x->type->layout);
    for (int r = 0; r < in->n; r++) {
        if (!stands(x, r)) {
            continue;
        }
        LLVMValueRef may = gpu_both(em, first, gpu_in_tile(em, x->type, r));
        LLVMValueRef at = LLVMBuildAdd(em->builder, mine, element_of(x, r), "");
        at = LLVMBuildMul(em->builder, at, gpu_i32(em, x->bytes), "");
        LLVMValueRef value = gpu_to_memory(em, x->dtype, in->regs[r]);
        GpuBranch branch = {0};
        if (may) {
            branch = gpu_branch_begin(em, may);
        }
        for (int block = 0; block < x->blocks; block++) {
            em->target->cluster_store(em, gpu_at(em, x->base, at), gpu_i32(em, block), value);
        }
        if (may) {
            gpu_branch_end(em, branch);
        }
    }
}

static LLVMValueRef receive(const Exchange *x, const char *fn, int r)
{
    GpuEmitter *em = x->em;
    LLVMTypeRef type = llvm_memory_type(em->l, x->dtype);
    LLVMValueRef element = element_of(x, r), inside = gpu_in_tile(em, x->type, r), sum = NULL;
    if (inside) {
        element = LLVMBuildSelect(em->builder, inside, element, gpu_i32(em, 0), "");
    }
    LLVMValueRef at = LLVMBuildMul(em->builder, element, gpu_i32(em, x->bytes), "");
    LLVMValueRef from = gpu_at(em, x->base, at);
    for (int block = 0; block < x->blocks; block++) {
        LLVMValueRef place = gpu_at_const(em, from, block * x->elements * x->bytes);
        LLVMValueRef part = LLVMBuildLoad2(em->builder, type, place, "");
        part = gpu_from_memory(em, x->dtype, part);
        sum = sum ? scalar_combine(em->l, fn, x->dtype, sum, part) : part;
    }
    return sum;
}

void gpu_emit_cluster_reduce(GpuEmitter *em, const Op *op)
{
    if (!em->target->cluster_store || op->n_operands < 2) {
        gpu_bug(em, op, "no clusters here, or no memory for it");
    }
    Exchange x = begin(em, op);
    if (!em->cluster_met) { /* the others' memory is theirs only once they run */
        em->target->cluster_wait(em);
        em->cluster_met = true;
    }
    send(&x, gpu_value(em, op->operands[0]));
    em->target->cluster_arrive(em);
    em->target->cluster_wait(em);
    GpuValue *out = gpu_define(em, op->results[0]);
    for (int r = 0; r < out->n; r++) {
        if (stands(&x, r)) {
            out->regs[r] = receive(&x, op_word(op, ATTR_FN), r);
        }
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_exists(em, x.type, r)) {
            out->regs[r] = out->regs[gpu_canonical(x.type->layout, r)];
        }
    }
}
