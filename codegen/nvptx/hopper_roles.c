/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: warp roles, their registers, and the named barriers by which the warp groups or teams of
 * a role issue their dots in order. */
#include "codegen/nvptx/hopper.h"

#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

/* Registers that a thread has at the kernel's entry: all of them, dealt evenly. */
static int entry_registers(GpuEmitter *em)
{
    const Target *target = em->func->target;
    int threads = em->warps << em->warp_bits;
    int all = target->registers / em->plan_launch->blocks_per_unit;
    int registers = all / threads / target->register_step * target->register_step;
    return registers < target->registers_thread ? registers : target->registers_thread;
}

/* Registers move between whole warp groups, and a role waits for what the others have not given up:
 * if all together want more than there are, the block hangs. */
static void check_registers(GpuEmitter *em, const Op *op, const Attr *warps, const Attr *registers)
{
    const Target *target = em->func->target;
    int64_t total = 0;
    for (int i = 0; i < registers->n; i++) {
        int64_t wanted = registers->ints[i] ? registers->ints[i] : entry_registers(em);
        if (registers->ints[i] &&
            (wanted % target->register_step || wanted < target->setmaxnreg_min ||
             wanted > target->registers_thread || warps->ints[i] % target->group_warps)) {
            gpu_bug(em, op, "roles with registers: 4 warps or a multiple, 24 to 248 by 8");
        }
        total += wanted * (warps->ints[i] << em->warp_bits);
    }
    if (total > target->registers / em->plan_launch->blocks_per_unit) {
        gpu_bug(em, op, "its roles want more registers than there are");
    }
}

static void emit_registers(GpuEmitter *em, int64_t wanted)
{
    int entry = entry_registers(em);
    if (wanted == 0 || wanted == entry) {
        return;
    }
    const char *text = arena_printf(em->arena, "setmaxnreg.%s.sync.aligned.u32 %d;",
                                    wanted < entry ? "dec" : "inc", (int)wanted);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), text, "~{memory}", true, 0, NULL);
}

static void see_bulk_store(Op *op, void *user)
{
    if (op->kind == OP_BULK_STORE) {
        *(const Op **)user = op;
    }
}

bool hopper_emit_group_barrier(GpuEmitter *em, const Op *op)
{
    if (!op_attr(op, ATTR_WARPGROUPS)) {
        return false;
    }
    LLVMValueRef first = gpu_i32(em, em->role->group_barriers);
    LLVMValueRef args[] = {LLVMBuildAdd(em->builder, first, hopper_group(em), ""),
                           gpu_i32(em, em->func->target->group_warps << em->warp_bits)};
    gpu_intrinsic(em, "llvm.nvvm.barrier.cta.sync.aligned.count", 0, NULL, 2, args);
    return true;
}

/* How many issue their MMAs in order: the role's teams, or the warp groups of its only team. */
static int turn_takers(const GpuEmitter *em)
{
    const GpuRole *role = em->role;
    return role->team ? role->teams : role->warps / em->func->target->group_warps;
}

static LLVMValueRef own_turn(GpuEmitter *em)
{
    LLVMValueRef groups = gpu_i32(em, em->func->target->group_warps);
    return em->role->team ? em->role->team : LLVMBuildUDiv(em->builder, em->role->warp, groups, "");
}

/* A named barrier for each of them: it waits there, and the one before it arrives there when it
 * passes its turn on. */
static void emit_turn(GpuEmitter *em, const char *verb, LLVMValueRef who)
{
    int warps = em->role->team ? em->role->warps : em->func->target->group_warps;
    LLVMValueRef at = LLVMBuildAdd(em->builder, who, gpu_i32(em, em->role->order_barriers), "");
    const char *text = arena_printf(em->arena, "bar.%s $0, %d;", verb, 2 * warps << em->warp_bits);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), text, "r,~{memory}", true, 1, &at);
}

void hopper_emit_ordered_wait(GpuEmitter *em)
{
    if (turn_takers(em) > 1) {
        emit_turn(em, "sync", own_turn(em));
    }
}

void hopper_emit_ordered_arrive(GpuEmitter *em)
{
    int takers = turn_takers(em);
    if (takers > 1) {
        LLVMValueRef next = LLVMBuildAdd(em->builder, own_turn(em), gpu_i32(em, 1), "");
        emit_turn(em, "arrive", LLVMBuildURem(em->builder, next, gpu_i32(em, takers), ""));
    }
}

static void see_turn(Op *op, void *user)
{
    *(bool *)user |= op->kind == OP_ORDERED_WAIT;
}

/* The first turn is the first one's: as if the last one had passed it on. */
static void begin_ordered_issue(GpuEmitter *em, Block *block)
{
    bool found = false;
    int takers = turn_takers(em);
    block_walk(block, see_turn, &found);
    if (!found || takers < 2) {
        return;
    }
    em->role->order_barriers = em->n_named_barriers + 1;
    em->n_named_barriers += takers;
    LLVMBasicBlockRef last = gpu_new_block(em, "last"), after = gpu_new_block(em, "turns");
    LLVMValueRef is_last =
        LLVMBuildICmp(em->builder, LLVMIntEQ, own_turn(em), gpu_i32(em, takers - 1), "");
    LLVMBuildCondBr(em->builder, is_last, last, after);
    gpu_go(em, last);
    hopper_emit_ordered_arrive(em);
    LLVMBuildBr(em->builder, after);
    gpu_go(em, after);
}

/* A chain of branches on the warp. Each role is one branch: that is what lets registers move. */
void hopper_emit_roles(GpuEmitter *em, const Op *op)
{
    const Attr *warps = op_attr(op, ATTR_WARPS);
    const Attr *registers = op_attr(op, ATTR_REGISTERS);
    GpuRole *outer = em->role;
    if (registers) {
        check_registers(em, op, warps, registers);
    }
    LLVMBasicBlockRef joined = gpu_new_block(em, "joined");
    int first = 0;
    for (int i = 0; i < op->n_regions; i++) {
        int count = (int)warps->ints[i];
        LLVMBasicBlockRef inside = gpu_new_block(em, "role");
        LLVMBasicBlockRef next = i + 1 < op->n_regions ? gpu_new_block(em, "other") : joined;
        LLVMValueRef mine =
            LLVMBuildICmp(em->builder, LLVMIntULT, outer->warp, gpu_i32(em, first + count), "");
        LLVMBuildCondBr(em->builder, mine, inside, next);
        gpu_go(em, inside);
        if (registers) {
            emit_registers(em, registers->ints[i]);
        }
        int teams = hopper_teams(op, i);
        em->role = gpu_role_enter(em, first, count, teams, em->n_named_barriers + 1);
        em->n_named_barriers += teams;
        em->joined = false;
        /* The body of the role runs in all of its warps, or in one elected thread. */
        Block *block = op->regions[i];
        const Op *first_op = block->first;
        LLVMBasicBlockRef after = NULL;
        if (first_op && hopper_is_solo(first_op)) {
            after = hopper_if_first_thread(em, "solo");
        }
        const Op *store = NULL; /* the last one */
        block_walk(block, see_bulk_store, &store);
        begin_ordered_issue(em, block);
        int groups = store ? (int)op_int(store, ATTR_WARPGROUPS, 0) : 0;
        em->role->group_barriers = groups ? em->n_named_barriers + 1 : 0;
        em->n_named_barriers += groups;
        gpu_emit_block(em, block);
        if (store) { /* shared memory must outlive the copies out of it */
            hopper_emit_bulk_wait(em, store);
        }
        hopper_elected_end(em, after);
        /* A thread that has arrived at the cluster's barrier waits there, too, before it ends: one
         * that ended in between would count twice. */
        if (!em->joined && em->plan_launch->cluster > 1) {
            gpu_asm(em, LLVMVoidTypeInContext(em->context), "bar.warp.sync 0xffffffff;",
                    "~{memory}", true, 0, NULL);
        }
        gpu_cluster_end(em);
        LLVMBuildBr(em->builder, joined);
        em->role = outer;
        gpu_go(em, next);
        first += count;
    }
    em->joined = true;
}
