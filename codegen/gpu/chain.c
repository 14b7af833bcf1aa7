/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of elementwise ops over one layout, a few registers at a time instead of op by op: what a
 * chain computes on the way then lives for their turn, not for all of them at once. The assembler
 * keeps most of the order that it is given, and a long epilogue would not fit its registers. */
#include "codegen/gpu/tiles.h"

/* Division by a row's value is done for all registers together (divide.c). */
static bool divides_rows(const Op *op)
{
    const Op *divisor = op->kind == OP_DIV ? op->operands[1]->def : NULL;
    return divisor && divisor->kind == OP_BROADCAST;
}

static bool can_join(const Op *op, const Layout *layout)
{
    if (!op_has(op, TRAIT_ELEMENTWISE) || divides_rows(op)) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        Type type = op->operands[i]->type;
        if (type->rank > 0 && type->layout != layout) {
            return false;
        }
    }
    return op->results[0]->type->rank > 0 && op->results[0]->type->layout == layout;
}

/* Ops that cost nothing where they stand, and read nothing that the run makes. */
static bool can_precede(const Op *op, const Op *first)
{
    if (op->kind == OP_CONST) {
        return true;
    }
    if (op->kind != OP_BROADCAST && op->kind != OP_EXPAND) {
        return false;
    }
    for (const Op *in = first; in != op; in = in->next) {
        if (op->operands[0]->def == in) {
            return false;
        }
    }
    return true;
}

static void emit_group(GpuEmitter *em, const Op *op, int from, int n)
{
    if (gpu_is_division(op)) {
        gpu_emit_quotients(em, op, from, n);
        return;
    }
    for (int r = from; r < from + n; r++) {
        gpu_emit_register(em, op, r);
    }
}

Op *gpu_emit_chain(GpuEmitter *em, Op *first)
{
    struct {
        Op **items;
        size_t n, cap;
    } run = {0};
    const Layout *layout = first->results[0]->type->layout;
    Op *last = first;
    for (Op *op = first; op; op = op->next) {
        if (can_join(op, layout)) {
            ARENA_PUSH(em->arena, &run, op);
            gpu_define(em, op->results[0]);
        } else if (can_precede(op, first)) {
            gpu_emit_op(em, op);
        } else {
            break;
        }
        last = op;
    }
    int n = gpu_registers(em, first->results[0]->type);
    for (int from = 0; from < n; from += GPU_GROUP) {
        for (size_t i = 0; i < run.n; i++) {
            emit_group(em, run.items[i], from, n - from < GPU_GROUP ? n - from : GPU_GROUP);
        }
    }
    return last;
}

bool gpu_starts_chain(const Op *op)
{
    const Layout *layout = op->n_results == 1 ? op->results[0]->type->layout : NULL;
    return layout && can_join(op, layout) && op->next && op_has(op->next, TRAIT_PURE);
}
