/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: mbarriers, warp roles, and the table of the ops that this folder emits. */
#include "codegen/nvptx/hopper.h"

#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

enum {
    BARRIER_BYTES = 8,
    REGISTER_STEP = 8,
    MAX_REGISTERS = 255,
    MIN_REGISTERS = 24,
    GROUP_WARPS = 4, /* warps that a product is issued by */
};

LLVMValueRef hopper_address(GpuEmitter *em, LLVMValueRef ptr)
{
    return LLVMBuildPtrToInt(em->builder, ptr, em->i32, "");
}

/* ---- where an op stands ---- */

/* The region of `around` that op is in. */
static int region_of(const Op *op, const Op *around)
{
    const Block *block = op->parent;
    while (block->parent != around) {
        block = block->parent->parent;
    }
    for (int i = 0; i < around->n_regions; i++) {
        if (around->regions[i] == block) {
            return i;
        }
    }
    return -1;
}

static int teams_of(const Op *roles, int role)
{
    const Attr *teams = op_attr(roles, ATTR_TEAMS);
    return teams ? (int)teams->ints[role] : 1;
}

/* Warps of the role (or team) that runs op: all of the block's outside of roles. */
static int warps_of(GpuEmitter *em, const Op *op)
{
    const Op *roles = op_enclosing(op, OP_ROLES);
    if (!roles) {
        return em->warps;
    }
    int role = region_of(op, roles);
    return (int)op_attr(roles, ATTR_WARPS)->ints[role] / teams_of(roles, role);
}

static bool only_scalars(const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind == TYPE_ARRAY && op->results[i]->type->rank > 0) {
            return false;
        }
    }
    return true;
}

static bool solo_block(const Block *block);

static bool solo_op(const Op *op)
{
    switch (op->kind) {
    case OP_ARRIVE:
    case OP_BARRIER:
    case OP_STORE:
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE:
    case OP_DOT:
    case OP_DOT_ASYNC:
    case OP_DOT_WAIT:
    case OP_ROLES: return false;
    default: break;
    }
    for (int i = 0; i < op->n_regions; i++) {
        if (!solo_block(op->regions[i])) {
            return false;
        }
    }
    return only_scalars(op);
}

static bool solo_block(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (!solo_op(op)) {
            return false;
        }
    }
    return true;
}

/* Does one thread run the whole role (it only waits and copies)? Then nothing in it elects one. */
static bool hopper_is_solo(const Op *op)
{
    const Op *roles = op_enclosing(op, OP_ROLES);
    return roles && solo_block(roles->regions[region_of(op, roles)]);
}

/* ---- one thread ---- */

LLVMBasicBlockRef hopper_if_first_thread(GpuEmitter *em, const char *name)
{
    LLVMBasicBlockRef inside = gpu_new_block(em, name);
    LLVMBasicBlockRef after = gpu_new_block(em, "after");
    LLVMValueRef zero = gpu_i32(em, 0);
    LLVMValueRef first = LLVMBuildICmp(em->builder, LLVMIntEQ, em->role->thread, zero, "");
    LLVMBuildCondBr(em->builder, first, inside, after);
    gpu_go(em, inside);
    return after;
}

/* The first thread of each warp group. */
static LLVMBasicBlockRef if_first_of_group(GpuEmitter *em)
{
    LLVMBasicBlockRef inside = gpu_new_block(em, "elected"), after = gpu_new_block(em, "after");
    LLVMValueRef threads = gpu_i32(em, (GROUP_WARPS << em->warp_bits) - 1);
    LLVMValueRef thread = LLVMBuildAnd(em->builder, em->role->thread, threads, "");
    LLVMValueRef first = LLVMBuildICmp(em->builder, LLVMIntEQ, thread, gpu_i32(em, 0), "");
    LLVMBuildCondBr(em->builder, first, inside, after);
    gpu_go(em, inside);
    return after;
}

LLVMBasicBlockRef hopper_elected(GpuEmitter *em, const Op *op)
{
    if (op_attr(op, ATTR_WARPGROUPS)) {
        return if_first_of_group(em);
    }
    return hopper_is_solo(op) ? NULL : hopper_if_first_thread(em, "elected");
}

void hopper_elected_end(GpuEmitter *em, LLVMBasicBlockRef after)
{
    if (after) {
        LLVMBuildBr(em->builder, after);
        gpu_go(em, after);
    }
}

/* ---- barriers ---- */

/* What completes a generation in hardware. An `arrive` is an arrival of every warp of its role, a
 * copy is one. Roles of different widths on one barrier would need weights: then (weight 0) a role
 * meets first, and one of its threads arrives. */
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
        weight = warps_of(seen->em, op);
    } else if (op->kind == OP_BULK_LOAD && op_access_nth(op, 2).memory == seen->barrier) {
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

static void init_barrier(GpuEmitter *em, const Op *op)
{
    const Value *barrier = op->results[0];
    int weight = arrival_weight(em, barrier);
    int64_t count = op_int(op, ATTR_ARRIVALS, 1) * (weight ? weight : 1);
    count *= op_int(op, ATTR_CLUSTER, 1);
    int64_t slots = 1;
    poly_is_const(barrier->type->dims[0], &slots);
    LLVMValueRef first = hopper_address(em, gpu_shared_slot(em, barrier, NULL));
    for (int64_t slot = 0; slot < slots; slot++) {
        LLVMValueRef at = gpu_i32(em, slot * BARRIER_BYTES);
        LLVMValueRef args[] = {LLVMBuildAdd(em->builder, first, at, ""), gpu_i32(em, count)};
        gpu_asm(em, LLVMVoidTypeInContext(em->context), "mbarrier.init.shared::cta.b64 [$0], $1;",
                "r,r,~{memory}", true, 2, args);
    }
}

static bool is_of_launch(const GpuEmitter *em, const GpuMap *map)
{
    bool found = false;
    for (size_t i = 0; i < map->ops.n; i++) {
        found = found || op_enclosing(map->ops.items[i], OP_LAUNCH) == em->launch;
    }
    return found;
}

/* Descriptors are on their way to the copy engine while the block begins. */
static void fetch_maps(GpuEmitter *em)
{
    for (size_t i = 0; i < em->maps.n; i++) {
        if (is_of_launch(em, &em->maps.items[i])) {
            gpu_asm(em, LLVMVoidTypeInContext(em->context), "prefetch.tensormap [$0];",
                    "l,~{memory}", true, 1, &em->maps.items[i].pointer);
        }
    }
}

void hopper_barriers_begin(GpuEmitter *em)
{
    LLVMBasicBlockRef after = hopper_if_first_thread(em, "barriers");
    fetch_maps(em);
    for (size_t i = 0; i < em->shareds.n; i++) {
        if (em->shareds.items[i].op->kind == OP_MBARRIER) {
            init_barrier(em, em->shareds.items[i].op);
        }
    }
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "fence.mbarrier_init.release.cluster;",
            "~{memory}", true, 0, NULL);
    hopper_elected_end(em, after);
    hopper_clear_few(em);
    em->target->sync(em);
    if (op_attr(em->launch, ATTR_MULTICAST)) { /* before others tell these barriers something */
        hopper_cluster_meet(em);
    }
}

static LLVMValueRef barrier_slot(GpuEmitter *em, const Access *access)
{
    LLVMValueRef position = gpu_scalar(em, access->indices[0]);
    return hopper_address(em, gpu_shared_slot(em, access->memory, position));
}

void hopper_wait(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef parity)
{
    LLVMValueRef args[] = {barrier, parity};
    gpu_asm(em, LLVMVoidTypeInContext(em->context),
            "{\n\t.reg .pred done;\n\tagain:\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t"
            "@!done bra again;\n\t}",
            "r,r,~{memory}", true, 2, args);
}

/* Waiting for a parity returns at once while the barrier is in a generation of the other one: so a
 * new barrier (generation 0) has "generation -1", parity 1, behind it. */
static void emit_wait(GpuEmitter *em, const Op *op)
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

static void emit_one_arrival(GpuEmitter *em, LLVMValueRef slot, LLVMValueRef first)
{
    LLVMValueRef args[] = {slot, first};
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];",
            "r,b,~{memory}", true, 2, args);
}

static void emit_arrive(GpuEmitter *em, const Op *op)
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
        emit_one_arrival(em, slot, some);
    }
}

/* ---- launches ---- */

void hopper_launches_wait(GpuEmitter *em)
{
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "griddepcontrol.wait;", "~{memory}", true, 0,
            NULL);
}

void hopper_launches_next(GpuEmitter *em)
{
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "griddepcontrol.launch_dependents;",
            "~{memory}", true, 0, NULL);
}

/* ---- roles ---- */

/* Registers that a thread has at the kernel's entry: all of them, dealt evenly. */
static int entry_registers(GpuEmitter *em)
{
    int threads = em->warps << em->warp_bits;
    int all = em->func->target->registers / em->plan_launch->blocks_per_unit;
    int registers = all / threads / REGISTER_STEP * REGISTER_STEP;
    return registers < MAX_REGISTERS ? registers : MAX_REGISTERS;
}

/* Registers move between whole warp groups, and a role waits for what the others have not given up:
 * if all together want more than there are, the block hangs. */
static void check_registers(GpuEmitter *em, const Op *op, const Attr *warps, const Attr *registers)
{
    int64_t total = 0;
    for (int i = 0; i < registers->n; i++) {
        int64_t wanted = registers->ints[i] ? registers->ints[i] : entry_registers(em);
        if (registers->ints[i] && (wanted % REGISTER_STEP || wanted < MIN_REGISTERS ||
                                   wanted > MAX_REGISTERS || warps->ints[i] % 4)) {
            gpu_bug(em, op, "roles with registers: 4 warps or a multiple, 24 to 248 by 8");
        }
        total += wanted * (warps->ints[i] << em->warp_bits);
    }
    if (total > em->func->target->registers / em->plan_launch->blocks_per_unit) {
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

/* The last one; NULL: there is none. */
static const Op *bulk_store_of(Block *block)
{
    const Op *found = NULL;
    block_walk(block, see_bulk_store, &found);
    return found;
}

/* ---- warp groups that store by themselves ---- */

LLVMValueRef hopper_group(GpuEmitter *em)
{
    return LLVMBuildUDiv(em->builder, em->role->warp, gpu_i32(em, GROUP_WARPS), "");
}

static void begin_apart(GpuEmitter *em, const Op *store)
{
    int groups = store ? (int)op_int(store, ATTR_WARPGROUPS, 0) : 0;
    em->role->apart = groups ? em->n_named_barriers + 1 : 0;
    em->n_named_barriers += groups;
}

static bool emit_sync_apart(GpuEmitter *em, const Op *op)
{
    if (!op_attr(op, ATTR_WARPGROUPS)) {
        return false;
    }
    LLVMValueRef first = gpu_i32(em, em->role->apart);
    LLVMValueRef args[] = {LLVMBuildAdd(em->builder, first, hopper_group(em), ""),
                           gpu_i32(em, GROUP_WARPS << em->warp_bits)};
    gpu_intrinsic(em, "llvm.nvvm.barrier.cta.sync.aligned.count", 0, NULL, 2, args);
    return true;
}

/* ---- turns ---- */

/* Who go in turns: a role's teams, or the warp groups of its only one. */
static int turn_takers(const GpuEmitter *em)
{
    const GpuRole *role = em->role;
    return role->team ? role->teams : role->warps / GROUP_WARPS;
}

static LLVMValueRef own_turn(GpuEmitter *em)
{
    LLVMValueRef groups = gpu_i32(em, GROUP_WARPS);
    return em->role->team ? em->role->team : LLVMBuildUDiv(em->builder, em->role->warp, groups, "");
}

/* A named barrier for each of them: it waits there, and the one before it arrives there when it
 * passes its turn on. */
static void emit_turn(GpuEmitter *em, const char *verb, LLVMValueRef who)
{
    int warps = em->role->team ? em->role->warps : GROUP_WARPS;
    LLVMValueRef at = LLVMBuildAdd(em->builder, who, gpu_i32(em, em->role->turns), "");
    const char *text = arena_printf(em->arena, "bar.%s $0, %d;", verb, 2 * warps << em->warp_bits);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), text, "r,~{memory}", true, 1, &at);
}

static void emit_take_turn(GpuEmitter *em)
{
    if (turn_takers(em) > 1) {
        emit_turn(em, "sync", own_turn(em));
    }
}

static void emit_pass_turn(GpuEmitter *em)
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
static void begin_turns(GpuEmitter *em, Block *block)
{
    bool found = false;
    int takers = turn_takers(em);
    block_walk(block, see_turn, &found);
    if (!found || takers < 2) {
        return;
    }
    em->role->turns = em->n_named_barriers + 1;
    em->n_named_barriers += takers;
    LLVMBasicBlockRef last = gpu_new_block(em, "last"), after = gpu_new_block(em, "turns");
    LLVMValueRef is_last =
        LLVMBuildICmp(em->builder, LLVMIntEQ, own_turn(em), gpu_i32(em, takers - 1), "");
    LLVMBuildCondBr(em->builder, is_last, last, after);
    gpu_go(em, last);
    emit_pass_turn(em);
    LLVMBuildBr(em->builder, after);
    gpu_go(em, after);
}

static void emit_role(GpuEmitter *em, const Op *op, int role)
{
    Block *block = op->regions[role];
    const Op *first = block->first;
    LLVMBasicBlockRef after = NULL;
    if (first && hopper_is_solo(first)) {
        after = hopper_if_first_thread(em, "solo");
    }
    const Op *store = bulk_store_of(block);
    begin_turns(em, block);
    begin_apart(em, store);
    gpu_emit_block(em, block);
    if (store) { /* shared memory must outlive the copies out of it */
        hopper_emit_bulk_wait(em, store);
    }
    hopper_elected_end(em, after);
}

/* Who arrived where the cluster meets waits there, too, before he ends: one that ends in between
 * would count twice. */
static void end_role(GpuEmitter *em)
{
    if (!em->joined && em->plan_launch->cluster > 1) {
        gpu_asm(em, LLVMVoidTypeInContext(em->context), "bar.warp.sync 0xffffffff;", "~{memory}",
                true, 0, NULL);
    }
    gpu_cluster_end(em);
}

/* A chain of branches on the warp. Each role is one branch: that is what lets registers move. */
static void emit_roles(GpuEmitter *em, const Op *op)
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
        int teams = teams_of(op, i);
        em->role = gpu_role_enter(em, first, count, teams, em->n_named_barriers + 1);
        em->n_named_barriers += teams;
        em->joined = false;
        emit_role(em, op, i);
        end_role(em);
        LLVMBuildBr(em->builder, joined);
        em->role = outer;
        gpu_go(em, next);
        first += count;
    }
    em->joined = true;
}

/* ---- the table ---- */

bool hopper_emit_op(GpuEmitter *em, Op *op)
{
    switch (op->kind) {
    case OP_BARRIER: return emit_sync_apart(em, op);
    case OP_MBARRIER: return true; /* hopper_barriers_begin */
    case OP_WAIT: emit_wait(em, op); return true;
    case OP_ARRIVE: emit_arrive(em, op); return true;
    case OP_FENCE_ASYNC:
        gpu_asm(em, LLVMVoidTypeInContext(em->context), "fence.proxy.async.shared::cta;",
                "~{memory}", true, 0, NULL);
        return true;
    case OP_ORDERED_WAIT: emit_take_turn(em); return true;
    case OP_ORDERED_ARRIVE: emit_pass_turn(em); return true;
    case OP_BULK_LOAD: hopper_emit_bulk_load(em, op); return true;
    case OP_BULK_STORE: hopper_emit_bulk_store(em, op); return true;
    case OP_BULK_WAIT: hopper_emit_bulk_wait(em, op); return true;
    case OP_DOT_ASYNC: hopper_emit_dot_async(em, op); return true;
    case OP_DOT_WAIT: hopper_emit_settle(em, op); return true;
    case OP_ROLES: emit_roles(em, op); return true;
    default: return false;
    }
}
