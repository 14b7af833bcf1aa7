/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: initializing mbarriers, waiting for them, and arriving at them. */
#include "codegen/nvptx/hopper.h"

#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_atomic.h"
#include "ir/build.h"

/* The arrivals that complete a phase of an mbarrier. An `arrive` counts once per warp of its role,
 * a copy counts once. Roles of different widths on one mbarrier would need weights; there (weight
 * 0) the threads of a role synchronize first, and one of them arrives. */
typedef struct Arrivals {
    GpuEmitter *em;
    const Value *barrier;
    int weight; /* -1: none seen yet */
} Arrivals;

static void see_arrival(Op *op, void *user)
{
    Arrivals *seen = user;
    int weight;
    if (op->kind == OP_ARRIVE && op->operands[0] == seen->barrier) {
        weight = hopper_role_warps(seen->em, op);
    } else if ((op->kind == OP_BULK_LOAD || op->kind == OP_TAKE_TILE) &&
               op_access_nth(op, 2).memory == seen->barrier) {
        weight = 1;
    } else {
        return;
    }
    seen->weight = seen->weight < 0 || seen->weight == weight ? weight : 0;
}

static int arrival_weight(GpuEmitter *em, const Value *barrier)
{
    Arrivals seen = {em, barrier, -1};
    block_walk(em->launch->regions[0], see_arrival, &seen);
    return seen.weight < 0 ? 0 : seen.weight;
}

static bool is_of_launch(const GpuEmitter *em, const GpuMap *map)
{
    bool found = false;
    for (size_t i = 0; i < map->ops.n; i++) {
        found = found || op_enclosing(map->ops.items[i], OP_LAUNCH) == em->launch;
    }
    return found;
}

void hopper_barriers_begin(GpuEmitter *em)
{
    LLVMBasicBlockRef after = hopper_if_first_thread(em, "barriers");
    /* The TMA fetches the descriptors while the block begins. */
    for (size_t i = 0; i < em->maps.n; i++) {
        if (is_of_launch(em, &em->maps.items[i])) {
            gpu_asm(em, LLVMVoidTypeInContext(em->context), "prefetch.tensormap [$0];",
                    "l,~{memory}", true, 1, &em->maps.items[i].pointer);
        }
    }
    for (size_t i = 0; i < em->shared.allocations.n; i++) {
        const Op *op = em->shared.allocations.items[i].op;
        if (op->kind == OP_MBARRIER) {
            /* Each pipeline stage of a barrier starts with the number of its arrivals. */
            const Value *barrier = op->results[0];
            int weight = arrival_weight(em, barrier);
            int64_t count = op_int(op, ATTR_ARRIVALS, 1) * (weight ? weight : 1);
            count *= op_int(op, ATTR_CLUSTER, 1);
            int64_t slots = 1;
            poly_is_const(barrier->type->dims[0], &slots);
            LLVMValueRef first = hopper_address(em, gpu_shared_slot(em, barrier, NULL));
            for (int64_t slot = 0; slot < slots; slot++) {
                LLVMValueRef at = gpu_i32(em, slot * MBARRIER_BYTES);
                LLVMValueRef args[] = {LLVMBuildAdd(em->builder, first, at, ""),
                                       gpu_i32(em, count)};
                gpu_asm(em, LLVMVoidTypeInContext(em->context),
                        "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", true, 2, args);
            }
        }
    }
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "fence.mbarrier_init.release.cluster;",
            "~{memory}", true, 0, NULL);
    hopper_elected_end(em, after);
    hopper_clear_few(em);
    em->target->sync(em);
    if (op_attr(em->launch, ATTR_MULTICAST)) { /* before others tell these barriers something */
        hopper_cluster_barrier(em);
    }
}

static LLVMValueRef barrier_slot(GpuEmitter *em, const Access *access)
{
    LLVMValueRef position = gpu_scalar(em, access->indices[0]);
    return hopper_address(em, gpu_shared_slot(em, access->memory, position));
}

/* Waiting for a parity returns at once while the barrier is in a generation of the other one: so a
 * new barrier (generation 0) has "generation -1", parity 1, behind it. */
void hopper_emit_wait(GpuEmitter *em, const Op *op)
{
    Access access = op_access(op, 0);
    int64_t slots = 1;
    poly_is_const(access.memory->type->dims[0], &slots);
    LLVMValueRef turn = gpu_ring_phase(em, gpu_scalar(em, access.indices[0]), slots);
    if (op_int(op, ATTR_PREVIOUS_PHASE, 0)) {
        turn = LLVMBuildXor(em->builder, turn, gpu_i32(em, 1), "");
    }
    hopper_wait(em, barrier_slot(em, &access), LLVMBuildAnd(em->builder, turn, gpu_i32(em, 1), ""));
}

void hopper_emit_arrive(GpuEmitter *em, const Op *op)
{
    Access access = op_access(op, 0);
    LLVMValueRef slot = barrier_slot(em, &access);
    LLVMValueRef who = em->role->lane;
    if (arrival_weight(em, access.memory) == 0) {
        em->target->sync(em);
        who = em->role->thread;
    } else { /* what the other lanes read and wrote is done before lane 0 says so */
        gpu_asm(em, LLVMVoidTypeInContext(em->context), "bar.warp.sync 0xffffffff;", "~{memory}",
                true, 0, NULL);
    }
    int64_t blocks = op_int(access.memory->def, ATTR_CLUSTER, 1);
    LLVMValueRef some = blocks > 1
                            ? LLVMBuildICmp(em->builder, LLVMIntULT, who, gpu_i32(em, blocks), "")
                            : LLVMBuildICmp(em->builder, LLVMIntEQ, who, gpu_i32(em, 0), "");
    int condition = access_next(op, 0);
    some = gpu_both(em, some,
                    condition < op->n_operands ? gpu_scalar(em, op->operands[condition]) : NULL);
    if (blocks > 1) {
        hopper_cluster_arrive(em, slot, who, some);
    } else {
        LLVMValueRef args[] = {slot, some};
        gpu_asm(em, LLVMVoidTypeInContext(em->context),
                "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b,~{memory}", true, 2, args);
    }
}

/* ---- tiles from a counter ---- */

void hopper_emit_take_tile(GpuEmitter *em, const Op *op)
{
    Access counter = op_access_nth(op, 0), to = op_access_nth(op, 1);
    Access barrier = op_access_nth(op, 2);
    if (!hopper_is_solo(op)) {
        gpu_bug(em, op, "is in a role of several threads");
    }
    LLVMValueRef at = gpu_scalar(em, counter.indices[0]), tensor = gpu_tensor(em, counter.memory);
    AtomicChange change = {.fn = ATOMIC_ADD, .dtype = DT_I32, .value = gpu_i32(em, 1)};
    LLVMValueRef number =
        scalar_atomic(em->l, &change, LLVMBuildGEP2(em->builder, em->i32, tensor, &at, 1, ""));
    LLVMValueRef position = gpu_scalar(em, to.indices[0]);
    LLVMBuildStore(em->builder, number, gpu_shared_slot(em, to.memory, position));
    LLVMValueRef slot = barrier_slot(em, &barrier);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "mbarrier.arrive.shared::cta.b64 _, [$0];",
            "r,~{memory}", true, 1, &slot);
    gpu_define_scalar(em, op->results[0], number);
}

void hopper_emit_read_tile(GpuEmitter *em, const Op *op)
{
    Access from = op_access(op, 0);
    LLVMValueRef slot = gpu_shared_slot(em, from.memory, gpu_scalar(em, from.indices[0]));
    gpu_define_scalar(em, op->results[0], LLVMBuildLoad2(em->builder, em->i32, slot, ""));
}
