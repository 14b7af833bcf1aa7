/* SPDX-License-Identifier: Apache-2.0 */
/* The ops cluster_reduce and cluster_reduce_scatter. Each block sends its partial result into the
 * shared memory of all blocks of its cluster, and each block combines all of them in the same
 * order; with scatter it gets only its own slice. A receive mbarrier per reduction counts the
 * bytes that have arrived. A block waits for nothing else, and it ends only when no other block
 * can still write to it. Source: CUDA C++ Programming Guide, "Distributed Shared Memory". */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_ops.h"
#include "ir/build.h"

/* In a loop over tiles each reduction has two receive mbarriers and two buffers, which alternate
 * from tile to tile: when a block sends for a tile, all others have sent for the preceding tile, so
 * they have read the buffer of the tile before that. */
enum { ACCESS_BYTES = 16, MIN_BYTES = 4, MAX_RUN = 4 };

typedef struct Exchange {
    GpuEmitter *em;
    Type type;
    DType dtype;
    LLVMValueRef base, receive_mbarrier; /* of this block's memory */
    LLVMValueRef position;               /* i32: the tile's number; NULL: there is one */
    int64_t elements;                    /* of a part */
    int blocks, bytes;                   /* of an element, as it is sent */
} Exchange;

static int sent_bytes(DType dtype)
{
    int bytes = dtype_bytes(dtype);
    return bytes < MIN_BYTES ? MIN_BYTES : bytes;
}

/* ---- receive mbarriers ---- */

typedef struct ReceiveMbarriers {
    GpuEmitter *em;
    struct {
        int64_t *items;
        size_t n, cap;
    } bytes; /* that each awaits */
} ReceiveMbarriers;

static int64_t awaited_bytes(GpuEmitter *em, const Op *op)
{
    Type type = op->results[0]->type;
    return op_int(em->launch, ATTR_CLUSTER, 1) * gpu_elements(em, type) * sent_bytes(type->dtype);
}

static void see_reduction(Op *op, void *user)
{
    ReceiveMbarriers *seen = user;
    int slots = plan_reduce_slots(seen->em->func, op);
    for (int i = 0; i < slots; i++) {
        int64_t bytes = awaited_bytes(seen->em, op);
        ARENA_PUSH(seen->em->arena, &seen->bytes, bytes);
    }
}

static ReceiveMbarriers find_receive_mbarriers(GpuEmitter *em)
{
    ReceiveMbarriers seen = {.em = em};
    block_walk(em->launch->regions[0], see_reduction, &seen);
    return seen;
}

static LLVMValueRef receive_mbarriers_at(GpuEmitter *em)
{
    return gpu_at_const(em, em->shared_base, em->shared.receive_mbarriers);
}

void gpu_cluster_begin(GpuEmitter *em)
{
    em->n_receive_mbarriers = 0;
    em->joined = false;
    if (em->plan_launch->cluster > 1 && !op_attr(em->launch, ATTR_MULTICAST)) {
        int n = (int)find_receive_mbarriers(em).bytes.n;
        em->target->cluster_begin(em, n ? receive_mbarriers_at(em) : NULL, n);
    }
}

/* Blocks that have sent nothing have not waited for the others yet. */
void gpu_cluster_end(GpuEmitter *em)
{
    if (em->plan_launch->cluster > 1 && !em->joined && !op_attr(em->launch, ATTR_MULTICAST)) {
        em->target->cluster_wait(em);
    }
}

static void find_reduction(Op *op, void *user)
{
    *(bool *)user |= op->kind == OP_CLUSTER_REDUCE;
}

static void join_cluster(GpuEmitter *em)
{
    if (!em->joined) { /* the others' memory is theirs only once they run */
        ReceiveMbarriers seen = find_receive_mbarriers(em);
        em->target->cluster_wait(em);
        em->target->cluster_expect(em, receive_mbarriers_at(em), (int)seen.bytes.n,
                                   seen.bytes.items);
        em->joined = true;
    }
}

void gpu_cluster_walk(GpuEmitter *em, const Op *tiles)
{
    bool found = false;
    block_walk(tiles->regions[0], find_reduction, &found);
    if (found) {
        join_cluster(em);
    }
}

/* ---- the reduction ---- */

static Exchange begin(GpuEmitter *em, const Op *op)
{
    Type type = op->results[0]->type;
    Exchange x = {.em = em, .type = type, .dtype = type->dtype};
    Access access = op_access(op, 1);
    bool slots = op->kind == OP_CLUSTER_REDUCE && access.indices[0];
    x.position = slots ? gpu_scalar(em, access.indices[0]) : NULL;
    x.base = gpu_shared_slot(em, access.memory, x.position);
    x.blocks = em->plan_launch->cluster;
    x.bytes = sent_bytes(type->dtype);
    x.elements = gpu_elements(em, type);
    join_cluster(em);
    x.receive_mbarrier = gpu_at_const(
        em, em->shared_base,
        em->shared.receive_mbarriers + em->n_receive_mbarriers * MBARRIER_BYTES);
    if (x.position) {
        LLVMValueRef slot = gpu_ring_slot(em, x.position, plan_reduce_slots(em->func, op));
        LLVMValueRef at = LLVMBuildNUWMul(em->builder, slot, gpu_i32(em, MBARRIER_BYTES), "");
        x.receive_mbarrier = gpu_at(em, x.receive_mbarrier, at);
    }
    em->n_receive_mbarriers += plan_reduce_slots(em->func, op);
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

static LLVMValueRef place_of(const Exchange *x, LLVMValueRef element)
{
    LLVMValueRef bytes = gpu_i32(x->em, x->bytes);
    return gpu_at(x->em, x->base, LLVMBuildMul(x->em->builder, element, bytes, ""));
}

/* Of the first warp that holds an element the lanes that do share out the blocks among them. What
 * lies side by side is one message: receivers count messages one by one. */
static void send(const Exchange *x, const GpuValue *in)
{
    GpuEmitter *em = x->em;
    uint32_t lanes = gpu_lane_copies(em, x->type->layout);
    int copies = 1 << __builtin_popcount(lanes);
    LLVMValueRef rank = em->target->cluster_rank(em),
                 copy = gpu_extract_bits(em, em->role->lane, lanes);
    LLVMValueRef mine = LLVMBuildMul(em->builder, rank, gpu_i32(em, x->elements), "");
    LLVMValueRef first = gpu_first_warp(em, x->type->layout);
    if (copies > x->blocks) {
        LLVMValueRef blocks = gpu_i32(em, x->blocks);
        first = gpu_both(em, first, LLVMBuildICmp(em->builder, LLVMIntULT, copy, blocks, ""));
    }
    GpuRun run;
    int n = gpu_run_length(em, x->type, ACCESS_BYTES / x->bytes);
    for (int r = 0; r < in->n; r++) {
        if (!gpu_holds(x->em, x->type, r) || !gpu_run_at(em, x->type, r, n, &run)) {
            continue;
        }
        LLVMValueRef may = gpu_both(em, first, gpu_in_tile(em, x->type, r)), words[MAX_RUN];
        LLVMValueRef at = place_of(x, LLVMBuildAdd(em->builder, mine, element_of(x, r), ""));
        for (int i = 0; i < n; i++) {
            words[i] = gpu_to_word(em, x->dtype, x->bytes, in->regs[run.regs[i]]);
        }
        GpuBranch branch = {0};
        if (may) {
            branch = gpu_branch_begin(em, may);
        }
        for (int block = 0; block < x->blocks; block += copies) {
            LLVMValueRef to = LLVMBuildAdd(em->builder, copy, gpu_i32(em, block), "");
            em->target->cluster_send(em, at, to, n, words, x->receive_mbarrier);
        }
        if (may) {
            gpu_branch_end(em, branch);
        }
    }
}

/* Elements that lie side by side, from register r on: `n` of them, whose sums go to `sums`. */
static void receive(const Exchange *x, OpKind reduction, int parts, const int *regs, int n,
                    LLVMValueRef *sums)
{
    GpuEmitter *em = x->em;
    LLVMTypeRef word = LLVMIntTypeInContext(em->context, (unsigned)x->bytes * 8);
    LLVMValueRef element = element_of(x, regs[0]), inside = gpu_in_tile(em, x->type, regs[0]);
    if (inside) {
        element = LLVMBuildSelect(em->builder, inside, element, gpu_i32(em, 0), "");
    }
    LLVMValueRef from = place_of(x, element), words[MAX_RUN];
    for (int block = 0; block < parts; block++) {
        LLVMValueRef place = gpu_at_const(em, from, block * x->elements * x->bytes);
        gpu_load_run(em, word, place, n, words);
        for (int i = 0; i < n; i++) {
            LLVMValueRef part = gpu_from_word(em, x->dtype, x->bytes, words[i]);
            LLVMValueRef *sum = &sums[regs[i]];
            *sum = *sum ? scalar_combine(em->l, reduction, x->dtype, *sum, part) : part;
        }
    }
}

static void await_all(const Exchange *x, const Op *op)
{
    GpuEmitter *em = x->em;
    if (!x->position) {
        em->target->cluster_receive(em, x->receive_mbarrier, gpu_i32(em, 0));
        return;
    }
    LLVMValueRef turn = gpu_ring_phase(em, x->position, plan_reduce_slots(em->func, op));
    em->target->cluster_receive(em, x->receive_mbarrier,
                                LLVMBuildAnd(em->builder, turn, gpu_i32(em, 1), ""));
    em->target->cluster_await(em, x->receive_mbarrier, awaited_bytes(em, op));
}

static void receive_result(const Exchange *x, const Op *op)
{
    GpuEmitter *em = x->em;
    await_all(x, op);
    GpuValue *out = gpu_define(em, op->results[0]);
    OpKind reduction = scalar_reduction(em->l, op);
    GpuRun run;
    int parts = x->blocks, results = 0;
    for (int r = 0; r < out->n; r++) {
        results += gpu_holds(x->em, x->type, r);
    }
    /* If a thread needs many results, all threads of the block first combine the partial
     * results. */
    if (layout_parts_shared(results, parts)) {
        gpu_combine_parts(x->em, &(GpuParts){.base = x->base,
                                             .elements = x->elements,
                                             .n = parts,
                                             .bytes = x->bytes,
                                             .reduction = reduction,
                                             .dtype = x->dtype});
        x->em->target->sync(x->em);
        parts = 1;
    }
    int n = gpu_run_length(x->em, x->type, ACCESS_BYTES / x->bytes);
    for (int r = 0; r < out->n; r++) {
        if (gpu_run_at(x->em, x->type, r, n, &run)) {
            receive(x, reduction, parts, run.regs, n, out->regs);
        }
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_exists(em, x->type, r)) {
            out->regs[r] = out->regs[gpu_canonical(x->type->layout, r)];
        }
    }
}

static bool is_cluster_reduce(const Op *op)
{
    return op && op->kind == OP_CLUSTER_REDUCE;
}

/* Reductions that stand together (passes/sync/combine_reductions.c) are all sent before one is
 * waited for: the first of them emits the others, too. */
void gpu_emit_cluster_reduce(GpuEmitter *em, const Op *op)
{
    if (!em->target->cluster_send || op->n_operands < 2) {
        gpu_bug(em, op, "no clusters here, or no memory for it");
    }
    if (is_cluster_reduce(op->prev)) {
        return;
    }
    int n = 0;
    for (const Op *at = op; is_cluster_reduce(at); at = at->next) {
        n++;
    }
    Exchange *all = ARENA_ARRAY(em->arena, Exchange, n);
    const Op *at = op;
    for (int i = 0; i < n; i++, at = at->next) {
        all[i] = begin(em, at);
        send(&all[i], gpu_value(em, at->operands[0]));
    }
    at = op;
    for (int i = 0; i < n; i++, at = at->next) {
        receive_result(&all[i], at);
    }
}

/* ---- a part for each ---- */

/* By the first of the threads that hold an element. */
static void send_parts(const Exchange *x, const Op *op)
{
    GpuEmitter *em = x->em;
    LLVMBuilderRef b = em->builder;
    Type type = op->operands[0]->type;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    const GpuValue *in = gpu_value(em, op->operands[0]);
    LLVMValueRef first = gpu_acting_thread(em, type), rank = em->target->cluster_rank(em);
    GpuRun run;
    int n = gpu_run_length(em, type, ACCESS_BYTES / x->bytes);
    for (int r = 0; r < in->n; r++) {
        if (!gpu_holds(em, type, r) || !gpu_run_at(em, type, r, n, &run)) {
            continue;
        }
        LLVMValueRef may = gpu_both(em, first, gpu_in_tile(em, type, r));
        GpuBranch branch = {0};
        if (may) {
            branch = gpu_branch_begin(em, may);
        }
        /* A contiguous run goes to the block that owns its slice, behind the runs that blocks of
         * lower rank send there. */
        LLVMValueRef to = NULL, element = rank, words[MAX_RUN];
        for (int i = 0; i < type->rank; i++) {
            int64_t extent = gpu_extent(em, x->type, i);
            LLVMValueRef at = gpu_coord(em, type->layout, i, run.regs[0]);
            if (i == axis) {
                to = LLVMBuildUDiv(b, at, gpu_i32(em, extent), "");
                at = LLVMBuildURem(b, at, gpu_i32(em, extent), "");
            }
            element = LLVMBuildMul(b, element, gpu_i32(em, extent), "");
            element = LLVMBuildAdd(b, element, at, "");
        }
        for (int i = 0; i < n; i++) {
            words[i] = gpu_to_word(em, x->dtype, x->bytes, in->regs[run.regs[i]]);
        }
        em->target->cluster_send(em, place_of(x, element), to, n, words, x->receive_mbarrier);
        if (may) {
            gpu_branch_end(em, branch);
        }
    }
}

void gpu_emit_cluster_scatter(GpuEmitter *em, const Op *op)
{
    if (!em->target->cluster_send || op->n_operands < 2) {
        gpu_bug(em, op, "no clusters here, or no memory for it");
    }
    Exchange x = begin(em, op);
    send_parts(&x, op);
    await_all(&x, op);
    GpuValue *out = gpu_define(em, op->results[0]);
    GpuRun run;
    int n = gpu_run_length(em, x.type, ACCESS_BYTES / x.bytes);
    for (int r = 0; r < out->n; r++) {
        if (gpu_run_at(em, x.type, r, n, &run)) {
            receive(&x, scalar_reduction(em->l, op), x.blocks, run.regs, n, out->regs);
        }
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_exists(em, x.type, r)) {
            out->regs[r] = out->regs[gpu_canonical(x.type->layout, r)];
        }
    }
}
