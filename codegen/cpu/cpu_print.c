/* SPDX-License-Identifier: Apache-2.0 */
/* The ops print and assert. The lanes that have a message write their records one after the other.
 */
#include "codegen/cpu/cpu_access.h"
#include "codegen/scalar/scalar_print.h"

void cpu_print_at(CpuEmitter *c, const Op *op, const Point *point)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef *values = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_operands);
    LLVMValueRef *one = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_operands);
    LLVMValueRef says = cpu_operand_at(c, op->operands[0], point);
    says = op->kind == OP_ASSERT ? LLVMBuildNot(b, says, "") : says;
    for (int i = 1; i < op->n_operands; i++) {
        values[i - 1] = cpu_operand_at(c, op->operands[i], point);
    }
    if (point->vector_axis < 0) {
        Branch branch = cpu_if_begin(c, says);
        scalar_print(c->l, c->log, op, values, c->plan->log_words);
        cpu_if_end(c, &branch);
        return;
    }
    LaneLoop loop = cpu_lanes_begin(c, cpu_and_also(c, says, point->mask));
    for (int i = 1; i < op->n_operands; i++) {
        one[i - 1] = LLVMBuildExtractElement(b, values[i - 1], loop.lane, "");
    }
    scalar_print(c->l, c->log, op, one, c->plan->log_words);
    cpu_lanes_end(c, &loop);
}

static void say_body(CpuEmitter *c, const Point *point, void *user)
{
    cpu_print_at(c, user, point);
}

void cpu_emit_print(CpuEmitter *c, const Op *op)
{
    Point nowhere = {.rank = 0, .vector_axis = -1};
    if (type_is_scalar(op->operands[0]->type)) {
        cpu_print_at(c, op, &nowhere);
        return;
    }
    Nest nest = cpu_nest_over(c, op->operands[0]->type);
    nest.hoist = op->operands[0];
    nest.body = say_body;
    nest.user = (void *)(uintptr_t)op;
    cpu_nest(c, &nest);
}
