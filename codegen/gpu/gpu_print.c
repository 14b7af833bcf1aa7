/* SPDX-License-Identifier: Apache-2.0 */
/* The ops print and assert. Each element with a message becomes one record, written by the thread
 * that owns it (one of the replicas). */
#include "codegen/scalar/scalar_print.h"
#include "codegen/gpu/gpu_emitters.h"

void gpu_emit_print(GpuEmitter *em, const Op *op)
{
    Type type = op->operands[0]->type;
    LLVMValueRef acts = gpu_acting_thread(em, type);
    for (int r = 0; r < gpu_registers(em, type); r++) {
        if (gpu_is_element(em, type, r)) {
            LLVMValueRef *values = ARENA_ARRAY(em->arena, LLVMValueRef, op->n_operands);
            LLVMValueRef says = gpu_in_register(em, op->operands[0], r);
            says = op->kind == OP_ASSERT ? LLVMBuildNot(em->builder, says, "") : says;
            for (int i = 1; i < op->n_operands; i++) {
                values[i - 1] = gpu_in_register(em, op->operands[i], r);
            }
            says = gpu_both(em, says, gpu_acting(em, op, op->operands[0]->type, r));
            GpuBranch branch = gpu_branch_begin(em, gpu_both(em, acts, says));
            scalar_print(em->l, em->log, op, values, em->plan->log_words);
            gpu_branch_end(em, branch);
        }
    }
}
