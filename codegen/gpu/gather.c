/* SPDX-License-Identifier: Apache-2.0 */
/* gather and scatter: elements of tensors at places that are computed, one access a register. An
 * index that a guard covers is compared with its extent; registers and threads outside of the tile
 * touch nothing. */
#include "codegen/gpu/tiles.h"
#include "codegen/scalar_atomic.h"

typedef struct Places {
    GpuEmitter *em;
    const Op *op;
    Access access;
    Type type; /* of the tile, or a scalar */
    DType dtype;
    LLVMValueRef strides[MAX_RANK], extents[MAX_RANK]; /* i64, of memory axes */
} Places;

static Places places_of(GpuEmitter *em, const Op *op, Type type)
{
    Places places = {.em = em, .op = op, .access = op_access(op, 0), .type = type};
    Type tensor = places.access.memory->type;
    LLVMValueRef stride = gpu_i64(em, 1);
    places.dtype = tensor->dtype;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        places.strides[axis] = stride;
        places.extents[axis] = gpu_size_value(em, tensor->dims[axis]);
        stride = LLVMBuildMul(em->builder, stride, places.extents[axis], "");
    }
    return places;
}

/* A scalar counts for all registers. */
static LLVMValueRef in_register(GpuEmitter *em, const Value *value, int r)
{
    const GpuValue *held = gpu_value(em, value);
    return held->regs[held->n == 1 ? 0 : r];
}

static LLVMValueRef index_at(const Places *places, int axis, int r)
{
    GpuEmitter *em = places->em;
    const Value *index = places->access.indices[axis];
    LLVMValueRef at = in_register(em, index, r);
    return LLVMBuildIntCast2(em->builder, at, em->i64, dtype_is_signed(index->type->dtype), "");
}

/* i1: this thread's register r is an element of the tile; NULL: it is. */
static LLVMValueRef in_tile(const Places *places, int r)
{
    GpuEmitter *em = places->em;
    LLVMValueRef inside = NULL;
    for (int axis = 0; axis < places->type->rank; axis++) {
        if (gpu_overhangs(em, places->type, axis)) {
            LLVMValueRef coord = gpu_coord(em, places->type->layout, axis, r);
            LLVMValueRef extent = gpu_i32(em, gpu_extent(em, places->type, axis));
            inside =
                gpu_both(em, inside, LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, ""));
        }
    }
    return inside;
}

/* The address of register r's element; adds to *inside what has to hold for the access. */
static LLVMValueRef place(const Places *places, int r, LLVMValueRef *inside)
{
    GpuEmitter *em = places->em;
    const Attr *guard = op_attr(places->op, ATTR_GUARD);
    LLVMValueRef offset = gpu_i64(em, 0);
    for (int axis = 0; axis < places->access.n; axis++) {
        LLVMValueRef at = index_at(places, axis, r);
        if (guard && axis < guard->n && guard->ints[axis]) {
            LLVMValueRef below =
                LLVMBuildICmp(em->builder, LLVMIntULT, at, places->extents[axis], "");
            *inside = gpu_both(em, *inside, below);
        }
        at = LLVMBuildMul(em->builder, at, places->strides[axis], "");
        offset = LLVMBuildAdd(em->builder, offset, at, "");
    }
    LLVMTypeRef type = llvm_memory_type(em->l, places->dtype);
    return LLVMBuildGEP2(em->builder, type, gpu_tensor(em, places->access.memory), &offset, 1, "");
}

/* Registers that stand for an element of the tile; scalars have the one. */
static bool stands(const Places *places, int r)
{
    return places->type->rank == 0 ||
           (gpu_exists(places->em, places->type, r) && gpu_canonical(places->type->layout, r) == r);
}

/* ---- gather ---- */

static LLVMValueRef gathered(const Places *places, int r)
{
    GpuEmitter *em = places->em;
    LLVMValueRef inside = in_tile(places, r);
    LLVMValueRef at = place(places, r, &inside);
    LLVMTypeRef type = llvm_memory_type(em->l, places->dtype);
    LLVMValueRef otherwise =
        llvm_number(em->l, places->dtype, type, op_attr(places->op, ATTR_VALUE));
    LLVMValueRef value = gpu_load_guarded(em, places->access.memory, inside, at, otherwise,
                                          (unsigned)dtype_bytes(places->dtype));
    return gpu_from_memory(em, places->dtype, value);
}

void gpu_emit_gather(GpuEmitter *em, const Op *op)
{
    Places places = places_of(em, op, op->results[0]->type);
    GpuValue *out = gpu_define(em, op->results[0]);
    for (int r = 0; r < out->n; r++) {
        out->regs[r] = stands(&places, r) ? gathered(&places, r) : NULL;
    }
    for (int r = 0; places.type->rank && r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(places.type->layout, r)];
    }
}

/* ---- scatter ---- */

/* One of the threads that hold the same elements acts. */
static LLVMValueRef acting_thread(const Places *places)
{
    GpuEmitter *em = places->em;
    if (places->type->rank > 0) {
        return gpu_first_holder(em, places->type->layout);
    }
    return LLVMBuildICmp(em->builder, LLVMIntEQ, em->role->thread, gpu_i32(em, 0), "");
}

static LLVMValueRef change(const Places *places, AtomicChange *what, LLVMValueRef at)
{
    GpuEmitter *em = places->em;
    if (text_same(what->fn, "set") && places->op->n_results == 0) {
        LLVMValueRef value = gpu_to_memory(em, places->dtype, what->value);
        LLVMSetAlignment(LLVMBuildStore(em->builder, value, at),
                         (unsigned)dtype_bytes(places->dtype));
        return NULL;
    }
    return scalar_atomic(em->l, what, at);
}

static LLVMValueRef scattered(const Places *places, LLVMValueRef acts, int r)
{
    GpuEmitter *em = places->em;
    const Op *op = places->op;
    int at = access_next(op, 0);
    AtomicChange what = {.fn = op_word(op, ATTR_FN), .dtype = places->dtype, .float_add = true};
    what.value = in_register(em, op->operands[at++], r);
    what.compare = text_same(what.fn, "cas") ? in_register(em, op->operands[at++], r) : NULL;
    LLVMValueRef inside = gpu_both(em, acts, in_tile(places, r));
    if (at < op->n_operands) {
        inside = gpu_both(em, inside, in_register(em, op->operands[at], r));
    }
    LLVMValueRef where = place(places, r, &inside);
    if (!inside) {
        return change(places, &what, where);
    }
    GpuBranch branch = gpu_branch_begin(em, inside);
    LLVMValueRef old = change(places, &what, where);
    if (!old) {
        gpu_branch_end(em, branch);
        return NULL;
    }
    return gpu_branch_end_value(em, branch, old, LLVMConstNull(LLVMTypeOf(old)));
}

void gpu_emit_scatter(GpuEmitter *em, const Op *op)
{
    const Value *value = op->operands[access_next(op, 0)];
    Places places = places_of(em, op, value->type);
    LLVMValueRef acts = acting_thread(&places);
    GpuValue *out = op->n_results ? gpu_define(em, op->results[0]) : NULL;
    int n = gpu_registers(em, value->type);
    for (int r = 0; r < n; r++) {
        LLVMValueRef old = stands(&places, r) ? scattered(&places, acts, r) : NULL;
        if (out) {
            out->regs[r] = old;
        }
    }
}
