/* SPDX-License-Identifier: Apache-2.0 */
/* Builds, with one axis in place of two, the ops at which collapsing ends (collapse_axes.c): a
 * store or a scatter with fewer axes, the operand of a reshape instead of the reshape, one
 * reduction instead of two. */
#include "passes/tensor/collapse_sinks.h"

#include "ir/build.h"

const Value *sink_pair(const Sink *sink)
{
    const Op *op = sink->first ? sink->first : sink->op;
    bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER;
    return op->operands[writes ? op->n_operands - 1 : 0];
}

bool sink_operands(Collapse *f, const Sink *sink, Value **to)
{
    const Op *op = sink->first ? sink->first : sink->op;
    int from = op->kind == OP_STORE ? op->n_operands - 1 : op->kind == OP_SCATTER;
    int n = op->kind == OP_GATHER ? 1 : op->n_operands; /* its indices stay */
    bool can = op->kind != OP_STORE || !f->tries || collapse_takes_tensor(f, op, sink->at);
    for (int i = 0; i < n && can; i++) {
        Value *operand = op->operands[i];
        bool array = i >= from && operand && type_is_tile(operand->type); /* no scalar index */
        to[i] = array ? collapse_value(f, operand, sink->at) : operand;
        can = to[i] || !array;
    }
    return can;
}

Value *sink_with_unit_axes(Builder *b, const Sink *sink, Value *reduced, const Value *value)
{
    const Op *op = value->def;
    if (op == sink->first) {
        return build_expand(b, reduced, sink->at);
    }
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    bool unit = op->operands[0]->def == sink->first && op->kind == OP_SQUEEZE &&
                axis == (int)op_int(sink->first, ATTR_AXIS, 0);
    if (unit) {
        return reduced;
    }
    Value *from = sink_with_unit_axes(b, sink, reduced, op->operands[0]);
    return op->kind == OP_EXPAND ? build_expand(b, from, axis) : build_squeeze(b, from, axis);
}

/* One reduction in the place of two. */
static void reduce_once(Collapse *f, const Sink *sink, Value *from)
{
    Value *old = sink->op->results[0];
    Value *reduced = build_reduce(&f->b, op_word(sink->op, ATTR_FN), from, sink->at);
    Value *made = sink_with_unit_axes(&f->b, sink, reduced, sink->op->operands[0]);
    made->name = made->name ? made->name : old->name;
    func_replace_uses(f->func, old, made);
}

Op *sink_make(Collapse *f, const Sink *sink)
{
    Op *op = sink->op, *made = NULL;
    const Op *reads = sink->first ? sink->first : op;
    Value **operands = ARENA_ARRAY(f->func->arena, Value *, reads->n_operands);
    f->b = build_before(f->func, op);
    sink_operands(f, sink, operands);
    f->b.span = op->span;
    if (sink->first) {
        reduce_once(f, sink, operands[0]);
        return NULL;
    }
    if (op->kind == OP_GATHER) {
        Value *read = collapse_merged(f, op, sink->at, operands[0]);
        read->name = read->name ? read->name : op->results[0]->name;
        func_replace_uses(f->func, op->results[0], read);
        return read->def;
    }
    if (op->kind == OP_STORE) {
        made = build_store(&f->b, op->operands[0], WHOLE, operands[op->n_operands - 1]);
    } else {
        made = build_op(&f->b, OP_SCATTER, op->n_operands, operands, 0, NULL, 0);
        made->attrs = op->attrs;
        made->n_attrs = op->n_attrs;
    }
    made->span = op->span;
    op_remove(op);
    return made;
}
