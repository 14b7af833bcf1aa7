/* SPDX-License-Identifier: Apache-2.0 */
/* The ops gather, spin_load and scatter: elements of tensors at computed indices, one access per
 * register. An index under a bounds check is compared with its extent; registers and threads
 * outside of the tile access nothing. In shared memory each lane has its own address. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_atomic.h"

#include <string.h>

enum {
    DEEPEST = 8,            /* ops that an index is looked through */
    MAX_CONSTANT = 1 << 20, /* in them */
};

typedef struct Places {
    GpuEmitter *em;
    const Op *op;
    Access access;
    Type type; /* of the tile, or a scalar */
    DType dtype;
    LLVMTypeRef counts; /* what offsets are counted in: i64; i32 in shared memory */
    LLVMValueRef base;  /* the first element */
    LLVMValueRef strides[MAX_RANK], extents[MAX_RANK]; /* of memory axes; extents: i64 */
    bool small;                                        /* offsets fit 32 bits with slack */
    int64_t reaches[MAX_RANK];                         /* then: upper bounds of strides, */
    int64_t slack;                                     /* and the elements left over */
} Places;

/* A tensor of fewer than 2^31 elements, by what is known of the sizes? */
static void measure(Places *places, Type tensor)
{
    int64_t elements = 1;
    for (int axis = tensor->rank; axis-- > 0;) {
        int64_t most = poly_most(tensor->dims[axis]);
        places->reaches[axis] = elements;
        if (__builtin_mul_overflow(elements, most > 0 ? most : 1, &elements) ||
            elements > INT32_MAX) {
            return;
        }
    }
    places->slack = INT32_MAX - elements;
    places->small = tensor->kind != TYPE_SHARED && tensor->rank > 0 && !tensor->strides;
}

static Places places_of(GpuEmitter *em, const Op *op, Type type)
{
    Places places = {.em = em, .op = op, .access = op_access(op, 0), .type = type};
    Type tensor = places.access.memory->type;
    places.dtype = tensor->dtype;
    if (tensor->kind == TYPE_SHARED) {
        const Access *access = &places.access;
        int64_t stride = 1;
        places.counts = em->i32;
        places.base = gpu_shared_slot(em, access->memory, gpu_scalar(em, access->indices[0]));
        for (int axis = tensor->rank; axis-- > 0;) {
            places.strides[axis] = gpu_i32(em, axis ? stride : 0);
            stride *= gpu_extent(em, tensor, axis);
        }
    } else {
        places.counts = em->i64;
        places.base = gpu_tensor(em, places.access.memory);
        gpu_known_strides(em, tensor, places.strides);
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        places.extents[axis] = gpu_size_value(em, tensor->dims[axis]);
    }
    measure(&places, tensor);
    return places;
}

LLVMValueRef gpu_in_register(GpuEmitter *em, const Value *value, int r)
{
    const GpuValue *held = gpu_value(em, value);
    return held->regs[held->n == 1 ? 0 : r];
}

/* Lanes come in order: those of the same place are as far from one another as there are places. */
static LLVMValueRef any_place(const Places *places, int axis)
{
    GpuEmitter *em = places->em;
    int64_t extent = gpu_extent(em, places->access.memory->type, axis);
    return LLVMBuildURem(em->builder, em->role->lane, gpu_i32(em, extent), "");
}

static LLVMValueRef index_at(const Places *places, int axis, int r)
{
    GpuEmitter *em = places->em;
    const Value *index = places->access.indices[axis];
    return index ? gpu_in_register(em, index, r) : any_place(places, axis);
}

/* Compared as they are: an index of 32 bits with what fits 32 bits. */
static LLVMValueRef is_below(const Places *places, int axis, LLVMValueRef at)
{
    GpuEmitter *em = places->em;
    LLVMValueRef end = places->extents[axis];
    if (poly_most(places->access.memory->type->dims[axis]) <= INT32_MAX &&
        LLVMTypeOf(at) == em->i32) {
        end = LLVMBuildTrunc(em->builder, end, em->i32, "");
    } else {
        at = LLVMBuildIntCast2(em->builder, at, em->i64, true, "");
    }
    return LLVMBuildICmp(em->builder, LLVMIntULT, at, end, "");
}

static bool is_small_constant(LLVMValueRef value, int64_t *number)
{
    bool constant = value && LLVMIsAConstantInt(value);
    *number = constant ? LLVMConstIntGetSExtValue(value) : 0;
    return constant && *number >= -MAX_CONSTANT && *number <= MAX_CONSTANT;
}

/* i32: the value less a constant that it was made with, as neighbours in a window are; the constant
 * is added to *by. */
static LLVMValueRef without_constant(GpuEmitter *em, LLVMValueRef value, int depth, int64_t *by)
{
    int64_t number, left = 0, right = 0;
    LLVMOpcode opcode = LLVMIsAInstruction(value) ? LLVMGetInstructionOpcode(value) : LLVMRet;
    if ((opcode != LLVMAdd && opcode != LLVMSub && opcode != LLVMMul) || depth > DEEPEST) {
        return value;
    }
    LLVMValueRef a = LLVMGetOperand(value, 0), b = LLVMGetOperand(value, 1);
    LLVMValueRef from = without_constant(em, a, depth + 1, &left);
    bool constant = is_small_constant(b, &number);
    if (opcode == LLVMMul && constant && left && left >= -MAX_CONSTANT && left <= MAX_CONSTANT) {
        *by += left * number;
        return LLVMBuildMul(em->builder, from, b, "");
    }
    if (opcode == LLVMMul) {
        return value;
    }
    if (constant) {
        *by += left + (opcode == LLVMAdd ? number : -number);
        return from;
    }
    LLVMValueRef other = without_constant(em, b, depth + 1, &right);
    if (!left && !right) {
        return value;
    }
    *by += opcode == LLVMAdd ? left + right : left - right;
    return LLVMBuildBinOp(em->builder, opcode, from, other, "");
}

static bool is_guarded(const Places *places, int axis)
{
    const Attr *guard = op_attr(places->op, ATTR_GUARD);
    return guard && axis < guard->n && guard->ints[axis];
}

/* As `place`, with 32-bit arithmetic except for constants. Intermediate results may wrap around; an
 * element inside of the tensor has the same offset as with 64 bits. Constants are added last, so
 * that neighbours share an address. */
static LLVMValueRef small_place(const Places *places, int r, LLVMValueRef *inside)
{
    GpuEmitter *em = places->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef offset = gpu_i32(em, 0), reaches = gpu_i64(em, 0);
    int64_t slack = places->slack;
    for (int axis = 0; axis < places->access.n; axis++) {
        LLVMValueRef at = index_at(places, axis, r), from;
        int64_t by = 0, reach;
        from = without_constant(em, at, 0, &by);
        if (is_guarded(places, axis)) { /* as what comes to the same in another way is */
            LLVMValueRef same = by ? LLVMBuildAdd(b, from, gpu_i32(em, by), "") : at;
            *inside = gpu_both(em, *inside, is_below(places, axis, same));
        }
        if (!__builtin_mul_overflow(by < 0 ? -by : by, places->reaches[axis], &reach) &&
            reach <= slack) {
            slack -= reach;
            at = from;
            reaches = LLVMBuildAdd(b, reaches,
                                   LLVMBuildMul(b, gpu_i64(em, by), places->strides[axis], ""), "");
        }
        LLVMValueRef stride = LLVMBuildTrunc(b, places->strides[axis], em->i32, "");
        offset = LLVMBuildAdd(b, offset, LLVMBuildMul(b, at, stride, ""), "");
    }
    return LLVMBuildAdd(b, LLVMBuildSExt(b, offset, em->i64, ""), reaches, "");
}

static bool all_narrow(const Places *places, int r)
{
    bool narrow = true;
    for (int axis = 0; axis < places->access.n && narrow; axis++) {
        narrow = LLVMTypeOf(index_at(places, axis, r)) == places->em->i32;
    }
    return narrow;
}

/* How many elements are before register r's; adds to *inside what has to hold for the access. */
static LLVMValueRef place(const Places *places, int r, LLVMValueRef *inside)
{
    GpuEmitter *em = places->em;
    if (places->small && all_narrow(places, r)) {
        return small_place(places, r, inside);
    }
    LLVMValueRef offset = LLVMConstNull(places->counts);
    for (int axis = 0; axis < places->access.n; axis++) {
        LLVMValueRef at = index_at(places, axis, r);
        if (is_guarded(places, axis)) {
            *inside = gpu_both(em, *inside, is_below(places, axis, at));
        }
        at = LLVMBuildIntCast2(em->builder, at, places->counts, true, "");
        at = LLVMBuildMul(em->builder, at, places->strides[axis], "");
        offset = LLVMBuildAdd(em->builder, offset, at, "");
    }
    return offset;
}

static LLVMValueRef address(const Places *places, LLVMValueRef at)
{
    GpuEmitter *em = places->em;
    LLVMTypeRef type = llvm_memory_type(em->l, places->dtype);
    return LLVMBuildGEP2(em->builder, type, places->base, &at, 1, "");
}

bool gpu_is_element(GpuEmitter *em, Type type, int r)
{
    return type->rank == 0 || gpu_holds(em, type, r);
}

/* Bytes at whose multiples an access of this many elements lies. */
static unsigned alignment(const Places *places, int n)
{
    return (unsigned)(dtype_bytes(places->dtype) * (n > 1 ? n : gpu_field_alignment(places->op)));
}

/* ---- gather ---- */

static void gathered(const Places *places, const GpuRun *run, LLVMValueRef *regs)
{
    GpuEmitter *em = places->em;
    LLVMValueRef inside = gpu_in_tile(em, places->type, run->regs[0]), values[GPU_RUN];
    LLVMValueRef at = place(places, run->regs[0], &inside);
    const Attr *other = op_attr(places->op, ATTR_VALUE);
    if (dtype_is_packed(places->dtype)) {
        gpu_packed_load(em, places->access.memory, inside, at, other, 1, &regs[run->regs[0]]);
        return;
    }
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(em->l, places->dtype), run->n);
    LLVMValueRef otherwise = llvm_number(em->l, places->dtype, type, other);
    unsigned align = alignment(places, run->n);
    LLVMValueRef loaded =
        gpu_load_guarded(em, places->access.memory, inside, address(places, at), otherwise, align);
    gpu_unpack(em, loaded, run->n, values);
    for (int i = 0; i < run->n; i++) {
        regs[run->regs[i]] = gpu_from_memory(em, places->dtype, values[i]);
    }
}

void gpu_emit_gather(GpuEmitter *em, const Op *op)
{
    Places places = places_of(em, op, op->results[0]->type);
    GpuValue *out = gpu_define(em, op->results[0]);
    if (places.type->rank > 0) {
        /* Contiguous runs are gathered as vectors; replicas copy the canonical register. */
        int length = gpu_run_length(em, places.type, (int)op_int(places.op, ATTR_VECTOR, 1));
        for (int r = 0; r < out->n; r++) {
            GpuRun run;
            if (gpu_run_at(em, places.type, r, length, &run)) {
                gathered(&places, &run, out->regs);
            }
        }
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = out->regs[gpu_canonical(places.type->layout, r)];
        }
    } else {
        gathered(&places, &(GpuRun){.n = 1}, out->regs);
    }
}

/* ---- spin_load ---- */

static LLVMValueRef awaited(const Places *places, const Value *mask, int r)
{
    GpuEmitter *em = places->em;
    LLVMValueRef zero = gpu_i64(em, 0);
    LLVMValueRef wanted =
        gpu_both(em, gpu_in_tile(em, places->type, r), gpu_in_register(em, mask, r));
    LLVMValueRef at = place(places, r, &wanted);
    GpuBranch branch = gpu_branch_begin(em, wanted);
    LLVMBasicBlockRef retry = gpu_new_block(em, "again"), there = gpu_new_block(em, "there");
    LLVMBuildBr(em->builder, retry);
    gpu_go(em, retry);
    /* A monotonic load of the device's scope bypasses the L1 cache, which is not coherent. */
    const char *scope = em->target->device_scope;
    LLVMValueRef word = LLVMBuildLoad2(em->builder, em->i64, address(places, at), "");
    LLVMSetOrdering(word, LLVMAtomicOrderingMonotonic);
    LLVMSetAtomicSyncScopeID(word, LLVMGetSyncScopeID(em->context, scope, strlen(scope)));
    LLVMSetAlignment(word, (unsigned)dtype_bytes(places->dtype));
    LLVMValueRef written = LLVMBuildICmp(em->builder, LLVMIntNE, word, zero, "");
    LLVMBuildCondBr(em->builder, written, there, retry);
    gpu_go(em, there);
    return gpu_branch_end_value(em, branch, word, zero);
}

void gpu_emit_await(GpuEmitter *em, const Op *op)
{
    Places places = places_of(em, op, op->results[0]->type);
    const Value *mask = op->operands[access_next(op, 0)];
    GpuValue *out = gpu_define(em, op->results[0]);
    for (int r = 0; r < out->n; r++) {
        out->regs[r] = gpu_is_element(em, places.type, r) ? awaited(&places, mask, r) : NULL;
    }
    for (int r = 0; places.type->rank && r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(places.type->layout, r)];
    }
}

/* ---- scatter ---- */

LLVMValueRef gpu_acting_thread(GpuEmitter *em, Type type)
{
    if (type->rank > 0) {
        return gpu_first_holder(em, type->layout);
    }
    return LLVMBuildICmp(em->builder, LLVMIntEQ, em->role->thread, gpu_i32(em, 0), "");
}

LLVMValueRef gpu_acting(GpuEmitter *em, const Op *op, Type type, int r)
{
    LLVMValueRef inside = gpu_in_tile(em, type, r);
    if (!em->active.regs || type->rank == 0) {
        return inside;
    }
    if (em->active.layout != type->layout) {
        gpu_bug(em, op, "has another layout than the loop of elements around it");
    }
    return gpu_both(em, inside, em->active.regs[r]);
}

/* Lanes that hold the same elements as another one that acted for them get its old elements. */
static LLVMValueRef exchanged(const Places *places, LLVMValueRef old)
{
    GpuEmitter *em = places->em;
    const Layout *layout = places->type->rank ? places->type->layout : NULL;
    uint32_t lanes = layout ? gpu_lane_copies(em, layout) : (1u << em->warp_bits) - 1;
    for (int bit = 0; bit < em->warp_bits; bit++) {
        if (lanes >> bit & 1) {
            LLVMValueRef other = gpu_shuffle(em, old, 1 << bit);
            LLVMValueRef own = LLVMBuildAnd(em->builder, em->role->lane, gpu_i32(em, 1 << bit), "");
            LLVMValueRef copy = LLVMBuildICmp(em->builder, LLVMIntNE, own, gpu_i32(em, 0), "");
            old = LLVMBuildSelect(em->builder, copy, other, old, "");
        }
    }
    return old;
}

/* Three barriers: the word's old value has been read; the word is clear; all warps have set it. */
LLVMValueRef gpu_any_warp(GpuEmitter *em, LLVMValueRef any)
{
    LLVMTypeRef type = LLVMInt32TypeInContext(em->l->context);
    LLVMValueRef word = gpu_at_const(em, em->shared_base, em->shared.exchange);
    em->target->sync(em);
    LLVMBuildStore(em->builder, gpu_i32(em, 0), word);
    em->target->sync(em);
    GpuBranch branch = gpu_branch_begin(em, any);
    LLVMBuildStore(em->builder, gpu_i32(em, 1), word);
    gpu_branch_end(em, branch);
    em->target->sync(em);
    LLVMValueRef flag = LLVMBuildLoad2(em->builder, type, word, "");
    em->target->sync(em);
    return LLVMBuildICmp(em->builder, LLVMIntNE, flag, gpu_i32(em, 0), "");
}

/* Where the old element of register r lies for all warps. */
static LLVMValueRef exchanged_at(const Places *places, int r)
{
    GpuEmitter *em = places->em;
    LLVMValueRef element = gpu_i32(em, 0), inside = gpu_in_tile(em, places->type, r);
    for (int axis = 0; axis < places->type->rank; axis++) {
        LLVMValueRef extent = gpu_i32(em, gpu_extent(em, places->type, axis));
        LLVMValueRef coord = gpu_coord(em, places->type->layout, axis, r);
        element = LLVMBuildMul(em->builder, element, extent, "");
        element = LLVMBuildAdd(em->builder, element, coord, "");
    }
    if (inside) {
        element = LLVMBuildSelect(em->builder, inside, element, gpu_i32(em, 0), "");
    }
    element = LLVMBuildMul(em->builder, element, gpu_i32(em, dtype_bytes(places->dtype)), "");
    return gpu_at(em, gpu_at_const(em, em->shared_base, em->shared.exchange), element);
}

static LLVMValueRef change(const Places *places, AtomicChange *what, LLVMValueRef at)
{
    GpuEmitter *em = places->em;
    if (dtype_is_packed(places->dtype)) {
        gpu_packed_set(em, places->access.memory, at, what->value);
        return NULL;
    }
    if (what->fn == ATOMIC_SET && places->op->n_results == 0) {
        LLVMValueRef value = gpu_to_memory(em, places->dtype, what->value);
        gpu_store_guarded(em, NULL, address(places, at), value,
                          (unsigned)dtype_bytes(places->dtype));
        return NULL;
    }
    return scalar_atomic(em->l, what, address(places, at));
}

static LLVMValueRef scattered(const Places *places, LLVMValueRef acts, int r)
{
    GpuEmitter *em = places->em;
    const Op *op = places->op;
    int at = access_next(op, 0);
    AtomicChange what = {
        .fn = scalar_atomic_fn(em->l, op), .dtype = places->dtype, .float_add = true};
    what.value = gpu_in_register(em, op->operands[at++], r);
    what.compare = what.fn == ATOMIC_CAS ? gpu_in_register(em, op->operands[at++], r) : NULL;
    LLVMValueRef inside = gpu_both(em, acts, gpu_acting(em, op, places->type, r));
    if (at < op->n_operands) {
        inside = gpu_both(em, inside, gpu_in_register(em, op->operands[at], r));
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

/* Stores the run's elements, which are neighbours in memory, at once. */
static void set_run(const Places *places, LLVMValueRef acts, const GpuRun *run)
{
    GpuEmitter *em = places->em;
    ScatterParts parts = scatter_parts(places->op);
    int first = run->regs[0];
    LLVMValueRef values[GPU_RUN];
    LLVMValueRef inside = gpu_both(em, acts, gpu_acting(em, places->op, places->type, first));
    if (parts.mask) {
        inside = gpu_both(em, inside, gpu_in_register(em, parts.mask, first));
    }
    LLVMValueRef at = place(places, first, &inside);
    for (int i = 0; i < run->n; i++) {
        LLVMValueRef value = gpu_in_register(em, parts.value, run->regs[i]);
        values[i] = gpu_to_memory(em, places->dtype, value);
    }
    gpu_store_guarded(em, inside, address(places, at), gpu_pack(em, run->n, values),
                      alignment(places, run->n));
}

void gpu_emit_scatter(GpuEmitter *em, const Op *op)
{
    const Value *value = op->operands[access_next(op, 0)];
    Places places = places_of(em, op, value->type);
    LLVMValueRef acts = gpu_acting_thread(em, places.type);
    int vector = (int)op_int(op, ATTR_VECTOR, 1);
    if (vector > 1 && value->type->rank > 0) {
        int length = gpu_run_length(em, value->type, vector);
        for (int r = 0; r < gpu_registers(em, value->type); r++) {
            GpuRun run;
            if (gpu_run_at(em, value->type, r, length, &run)) {
                set_run(&places, acts, &run);
            }
        }
        return;
    }
    GpuValue *out = op->n_results ? gpu_define(em, op->results[0]) : NULL;
    int n = gpu_registers(em, value->type);
    bool by_memory = out && plan_crosses_warps(value->type, em->warps);
    for (int r = 0; r < n; r++) {
        LLVMValueRef old = gpu_is_element(em, places.type, r) ? scattered(&places, acts, r) : NULL;
        if (out) {
            out->regs[r] = old && !by_memory ? exchanged(&places, old) : old;
        }
    }
    if (by_memory) {
        /* The old values reach the other warps that own replicas through shared memory. */
        LLVMTypeRef type = llvm_memory_type(em->l, places.dtype);
        for (int r = 0; r < out->n; r++) {
            if (out->regs[r]) {
                GpuBranch branch =
                    gpu_branch_begin(em, gpu_both(em, acts, gpu_in_tile(em, places.type, r)));
                LLVMValueRef old = gpu_to_memory(em, places.dtype, out->regs[r]);
                LLVMBuildStore(em->builder, old, exchanged_at(&places, r));
                gpu_branch_end(em, branch);
            }
        }
        em->target->sync(em);
        for (int r = 0; r < out->n; r++) {
            if (out->regs[r]) {
                LLVMValueRef old = LLVMBuildLoad2(em->builder, type, exchanged_at(&places, r), "");
                out->regs[r] = gpu_from_memory(em, places.dtype, old);
            }
        }
        em->target->sync(em);
    }
    for (int r = 0; out && places.type->rank && r < n; r++) {
        out->regs[r] = out->regs[gpu_canonical(places.type->layout, r)];
    }
}
