/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: which thread or warp group of a role executes an op, and the wait for an mbarrier. */
#include "codegen/nvptx/hopper.h"

#include "codegen/gpu/gpu_emitters.h"

LLVMValueRef hopper_address(GpuEmitter *em, LLVMValueRef ptr)
{
    return LLVMBuildPtrToInt(em->builder, ptr, em->i32, "");
}

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

int hopper_teams(const Op *roles, int role)
{
    const Attr *teams = op_attr(roles, ATTR_TEAMS);
    return teams ? (int)teams->ints[role] : 1;
}

int hopper_role_warps(GpuEmitter *em, const Op *op)
{
    const Op *roles = op_enclosing(op, OP_ROLES);
    if (!roles) {
        return em->warps;
    }
    int role = region_of(op, roles);
    return (int)op_attr(roles, ATTR_WARPS)->ints[role] / hopper_teams(roles, role);
}

static bool solo_block(const Block *block);

static bool solo_op(const Op *op)
{
    switch (op->kind) {
    case OP_ARRIVE:
    case OP_BARRIER:
    case OP_STORE:
    case OP_READ_TILE:
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
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind == TYPE_ARRAY && op->results[i]->type->rank > 0) {
            return false;
        }
    }
    return true;
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

bool hopper_is_solo(const Op *op)
{
    const Op *roles = op_enclosing(op, OP_ROLES);
    return roles && solo_block(roles->regions[region_of(op, roles)]);
}

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

LLVMBasicBlockRef hopper_elected(GpuEmitter *em, const Op *op)
{
    if (op_attr(op, ATTR_WARPGROUPS)) {
        LLVMBasicBlockRef inside = gpu_new_block(em, "elected"), after = gpu_new_block(em, "after");
        LLVMValueRef threads = gpu_i32(em, (em->func->target->group_warps << em->warp_bits) - 1);
        LLVMValueRef thread = LLVMBuildAnd(em->builder, em->role->thread, threads, "");
        LLVMValueRef first = LLVMBuildICmp(em->builder, LLVMIntEQ, thread, gpu_i32(em, 0), "");
        LLVMBuildCondBr(em->builder, first, inside, after);
        gpu_go(em, inside);
        return after;
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

void hopper_wait(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef parity)
{
    LLVMValueRef args[] = {barrier, parity};
    gpu_asm(em, LLVMVoidTypeInContext(em->context),
            "{\n\t.reg .pred done;\n\tagain:\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t"
            "@!done bra again;\n\t}",
            "r,r,~{memory}", true, 2, args);
}

LLVMValueRef hopper_group(GpuEmitter *em)
{
    return LLVMBuildUDiv(em->builder, em->role->warp, gpu_i32(em, em->func->target->group_warps),
                         "");
}
