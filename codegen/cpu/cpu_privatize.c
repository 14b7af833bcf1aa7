/* SPDX-License-Identifier: Apache-2.0 */
/* Privatization of small tensors that a launch only changes by atomics. Each call of the launch
 * function has a private copy on the stack, changes it without atomics and merges it into the
 * tensor at its end. Lanes change different copies: a processor that once sees a load of an
 * address that was stored just before makes the load wait for such stores from then on. */
#include "codegen/cpu/cpu_access.h"

enum { MAX_BYTES = 16384, MAX_COPIES = 8 };

/* Do all scatters to the memory combine by one function, and does nothing else touch it? */
static bool only_combines(const CpuEmitter *c, const Value *memory, AtomicFn *fn)
{
    bool found = false;
    OpKind kind;
    for (size_t i = 0; i < c->ops.n; i++) {
        const Op *op = c->ops.items[i];
        if (!op_has_operand(op, memory)) {
            continue;
        }
        if (op->kind != OP_SCATTER || op->n_results) {
            return false;
        }
        AtomicFn own = scalar_atomic_fn(c->l, op);
        if (!scalar_atomic_op(own, &kind) || (found && *fn != own)) {
            return false;
        }
        *fn = own;
        found = true;
    }
    return found;
}

/* Elements of a tensor of known, small size; 0: of any other. */
static int64_t small_size(const Value *memory)
{
    int64_t n = 1, extent;
    Type type = memory->type;
    for (int i = 0; i < type->rank; i++) {
        if (!poly_is_const(type->dims[i], &extent) || extent > MAX_BYTES) {
            return 0;
        }
        n *= extent;
        n = n > MAX_BYTES ? MAX_BYTES + 1 : n;
    }
    return n * dtype_bytes(type->dtype) <= MAX_BYTES ? n : 0;
}

static LLVMValueRef neutral_of(CpuEmitter *c, AtomicFn fn, DType dtype)
{
    LLVMTypeRef type = llvm_type(c->l, dtype);
    switch (fn) {
    case ATOMIC_AND: return llvm_int(type, -1);
    case ATOMIC_OR:
    case ATOMIC_XOR: return llvm_int(type, 0);
    case ATOMIC_ADD: return dtype_is_float(dtype) ? llvm_float(type, -0.0) : llvm_int(type, 0);
    default: return scalar_neutral(fn == ATOMIC_MAX ? OP_MAX : OP_MIN, dtype, type);
    }
}

static LLVMValueRef element(CpuEmitter *c, const Value *memory, LLVMValueRef base, LLVMValueRef at)
{
    return cpu_element(c, memory->type->dtype, base, at);
}

static void begin_private(CpuEmitter *c, size_t param, AtomicFn fn, int64_t n)
{
    const Value *memory = c->func->params.items[param].value;
    PrivateTensor *own = ARENA_NEW(c->arena, PrivateTensor);
    DType dtype = memory->type->dtype;
    int64_t copies = 1;
    while (copies < MAX_COPIES && 2 * copies * n * dtype_bytes(dtype) <= MAX_BYTES) {
        copies *= 2;
    }
    LLVMTypeRef type = LLVMArrayType2(llvm_memory_type(c->l, dtype), (uint64_t)(copies * n));
    *own = (PrivateTensor){fn, n, copies, c->pointers[param], neutral_of(c, fn, dtype)};
    c->pointers[param] = cpu_cell(c, type);
    LLVMSetAlignment(c->pointers[param], 64);
    c->privates[param] = own;
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), llvm_i64(c->l, copies * n), 1);
    LLVMValueRef to = element(c, memory, c->pointers[param], loop.counter);
    cpu_store_at(c, dtype, to, own->neutral);
    cpu_loop_end(c, &loop);
}

void cpu_privates_begin(CpuEmitter *c)
{
    c->privates = ARENA_ARRAY(c->arena, PrivateTensor *, c->func->params.n);
    for (size_t i = 0; i < c->func->params.n; i++) {
        const Value *memory = c->func->params.items[i].value;
        Type type = memory->type;
        bool other = type->kind != TYPE_TENSOR || type->strides || dtype_is_narrow(type->dtype) ||
                     dtype_bits(type->dtype) < 8;
        AtomicFn fn = ATOMIC_ADD;
        int64_t n = !other && only_combines(c, memory, &fn) ? small_size(memory) : 0;
        if (n > 0) {
            begin_private(c, i, fn, n);
        }
    }
}

static LLVMValueRef is_changed(CpuEmitter *c, DType dtype, LLVMValueRef value, LLVMValueRef neutral)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMTypeRef bits = LLVMIntTypeInContext(c->l->context, (unsigned)dtype_bits(dtype));
    return LLVMBuildICmp(b, LLVMIntNE, LLVMBuildBitCast(b, value, bits, ""),
                         LLVMBuildBitCast(b, neutral, bits, ""), "");
}

static LLVMValueRef combined(CpuEmitter *c, AtomicFn fn, DType dtype, LLVMValueRef a,
                             LLVMValueRef b)
{
    OpKind kind = OP_ADD;
    scalar_atomic_op(fn, &kind);
    return scalar_emit(c->l, kind, NULL, dtype, dtype, (LLVMValueRef[]){a, b});
}

static LLVMValueRef sum_of_copies(CpuEmitter *c, size_t param, LLVMValueRef at)
{
    const Value *memory = c->func->params.items[param].value;
    const PrivateTensor *own = c->privates[param];
    DType dtype = memory->type->dtype;
    LLVMValueRef sum = cpu_load_at(c, dtype, element(c, memory, c->pointers[param], at), 1);
    for (int64_t i = 1; i < own->copies; i++) {
        LLVMValueRef there = cpu_add(c, at, llvm_i64(c->l, i * own->n));
        LLVMValueRef from = element(c, memory, c->pointers[param], there);
        sum = combined(c, own->fn, dtype, sum, cpu_load_at(c, dtype, from, 1));
    }
    return sum;
}

void cpu_privates_end(CpuEmitter *c)
{
    for (size_t i = 0; i < c->func->params.n; i++) {
        if (c->privates[i]) {
            /* The sums of all private copies are merged into the tensor, except where nothing was
             * accumulated. */
            const Value *memory = c->func->params.items[i].value;
            const PrivateTensor *own = c->privates[i];
            DType dtype = memory->type->dtype;
            Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), llvm_i64(c->l, own->n), 1);
            LLVMValueRef value = sum_of_copies(c, i, loop.counter);
            Branch branch = cpu_if_begin(c, is_changed(c, dtype, value, own->neutral));
            AtomicChange change = {.fn = own->fn, .dtype = dtype, .value = value};
            scalar_atomic(c->l, &change, element(c, memory, own->shared, loop.counter));
            cpu_if_end(c, &branch);
            cpu_loop_end(c, &loop);
        }
    }
}

/* ---- changes ---- */

void cpu_private_change(CpuEmitter *c, const AtomicChange *change, LLVMValueRef address)
{
    LLVMValueRef old = cpu_load_at(c, change->dtype, address, 1);
    LLVMValueRef next = combined(c, change->fn, change->dtype, old, change->value);
    cpu_store_at(c, change->dtype, address, next);
}

/* All lanes, one after the other. Written out they are faster or far slower, as the code happens to
 * lie in memory. */
static void change_all(CpuEmitter *c, const AtomicChange *change, const Spot *spot,
                       const PrivateTensor *own)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef offsets = cpu_spot_offsets(c, spot);
    LLVMTypeRef type = llvm_memory_type(c->l, change->dtype);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), llvm_i64(c->l, c->lanes), 1);
    AtomicChange one = *change;
    one.value = LLVMBuildExtractElement(b, change->value, loop.counter, "");
    LLVMValueRef offset = LLVMBuildExtractElement(b, offsets, loop.counter, "");
    LLVMValueRef copy = LLVMBuildAnd(b, loop.counter, llvm_i64(c->l, own->copies - 1), "");
    offset = cpu_add(c, offset, cpu_mul_const(c, copy, own->n));
    cpu_private_change(c, &one, LLVMBuildGEP2(b, type, spot->base, &offset, 1, ""));
    cpu_loop_end(c, &loop);
}

void cpu_private_lanes(CpuEmitter *c, const AtomicChange *change, const Spot *spot,
                       const PrivateTensor *own)
{
    LLVMValueRef mask = cpu_spot_mask(c, spot);
    if (!mask) {
        change_all(c, change, spot, own);
        return;
    }
    Branch branch = cpu_if_begin(c, llvm_call1(c->l, "llvm.vector.reduce.and", mask));
    change_all(c, change, spot, own);
    cpu_if_else(c, &branch);
    /* Each active lane changes the private copy by itself. */
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef offsets = cpu_spot_offsets(c, spot);
    LaneLoop loop = cpu_lanes_begin(c, cpu_spot_mask(c, spot));
    AtomicChange one = *change;
    one.value = LLVMBuildExtractElement(b, change->value, loop.lane, "");
    LLVMValueRef offset = LLVMBuildExtractElement(b, offsets, loop.lane, "");
    LLVMTypeRef type = llvm_memory_type(c->l, change->dtype);
    cpu_private_change(c, &one, LLVMBuildGEP2(b, type, spot->base, &offset, 1, ""));
    cpu_lanes_end(c, &loop);
    cpu_if_end(c, &branch);
}
