/* SPDX-License-Identifier: Apache-2.0 */
/* Entering a role: the ids of its threads, relative to its first warp, are computed once, so that
 * layouts need not know about roles. */
#include "codegen/gpu/gpu_emit.h"

GpuRole *gpu_role_enter(GpuEmitter *em, int first_warp, int warps, int teams, int barrier)
{
    GpuRole *role = ARENA_NEW(em->arena, GpuRole);
    *role = (GpuRole){
        .first_warp = first_warp, .warps = warps / teams, .teams = teams, .barrier = barrier};
    role->entry = gpu_new_block(em, "ids");
    LLVMBuildBr(em->builder, role->entry);
    gpu_go(em, role->entry);
    int lanes = 1 << em->warp_bits;
    LLVMValueRef thread = em->target->thread_id(em);
    if (first_warp) {
        thread = LLVMBuildSub(em->builder, thread, gpu_i32(em, first_warp * lanes), "");
    }
    LLVMValueRef warp = LLVMBuildLShr(em->builder, thread, gpu_i32(em, em->warp_bits), "");
    role->thread = thread;
    role->lane = LLVMBuildAnd(em->builder, thread, gpu_i32(em, lanes - 1), "");
    role->warp = warps > 1 ? em->target->warp_uniform(em, warp) : gpu_i32(em, 0);
    if (teams > 1) {
        /* Threads and warps are numbered from 0 in each team. */
        LLVMValueRef each = gpu_i32(em, role->warps),
                     threads = gpu_i32(em, role->warps << em->warp_bits);
        role->team = LLVMBuildUDiv(em->builder, role->warp, each, "team");
        role->warp = LLVMBuildURem(em->builder, role->warp, each, "");
        role->thread = LLVMBuildURem(em->builder, role->thread, threads, "");
    }
    LLVMBasicBlockRef body = gpu_new_block(em, "code");
    LLVMBuildBr(em->builder, body);
    gpu_go(em, body);
    em->role = role;
    return role;
}
