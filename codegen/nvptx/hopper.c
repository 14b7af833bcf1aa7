/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: the table of the ops that only this target has, and launches that begin while the
 * preceding ones end. */
#include "codegen/nvptx/hopper.h"

static void emit_statement(GpuEmitter *em, const char *text)
{
    gpu_asm(em, em->l->nothing, text, "~{memory}", true, 0, NULL);
}

void hopper_grid_wait(GpuEmitter *em)
{
    emit_statement(em, "griddepcontrol.wait;");
}

void hopper_grid_launch_dependents(GpuEmitter *em)
{
    emit_statement(em, "griddepcontrol.launch_dependents;");
}

bool hopper_emit_op(GpuEmitter *em, Op *op)
{
    switch (op->kind) {
    case OP_BARRIER: return hopper_emit_group_barrier(em, op);
    case OP_MBARRIER: return true; /* hopper_barriers_begin */
    case OP_WAIT: hopper_emit_wait(em, op); return true;
    case OP_ARRIVE: hopper_emit_arrive(em, op); return true;
    case OP_FENCE_ASYNC: emit_statement(em, "fence.proxy.async.shared::cta;"); return true;
    case OP_ORDERED_WAIT: hopper_emit_ordered_wait(em); return true;
    case OP_ORDERED_ARRIVE: hopper_emit_ordered_arrive(em); return true;
    case OP_BULK_LOAD: hopper_emit_bulk_load(em, op); return true;
    case OP_TAKE_TILE: hopper_emit_take_tile(em, op); return true;
    case OP_READ_TILE: hopper_emit_read_tile(em, op); return true;
    case OP_BULK_STORE: hopper_emit_bulk_store(em, op); return true;
    case OP_BULK_WAIT: hopper_emit_bulk_wait(em, op); return true;
    case OP_DOT_ASYNC: hopper_emit_dot_async(em, op); return true;
    case OP_DOT_WAIT: hopper_emit_dot_wait(em, op); return true;
    case OP_ROLES: hopper_emit_roles(em, op); return true;
    default: return false;
    }
}
