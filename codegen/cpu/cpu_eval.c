/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates virtual arrays: the expression of an array is emitted for one vector at a time, at the
 * place where the vector is read. */
#include "codegen/cpu/cpu_emit.h"

#include "ir/op_axes.h"

LLVMValueRef cpu_scalar(CpuEmitter *c, const Value *value)
{
    LLVMValueRef scalar = c->values[value->id].scalar;
    if (!scalar) {
        diag_bug(c->func->diags, "scalar %%%s (%u) has no value yet",
                 value->name ? value->name : "", value->id);
    }
    return scalar;
}

/* ---- what is known already ---- */

static bool same_point(const Point *a, const Point *b)
{
    if (a->rank != b->rank || a->vector_axis != b->vector_axis || a->mask != b->mask) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->at[i] != b->at[i]) {
            return false;
        }
    }
    return true;
}

const CachedElement *cpu_find_known(const CpuEmitter *c, const Value *value, const Point *point,
                                    KnownAs as)
{
    for (size_t i = c->known.n; i-- > 0;) {
        const CachedElement *known = &c->known.items[i];
        if (known->value == value && known->as == as && same_point(&known->point, point)) {
            return known;
        }
    }
    return NULL;
}

/* ---- from the point of a shape op's result to that of its operand ---- */

Point cpu_operand_point(CpuEmitter *c, const Op *op, const Point *point)
{
    Point inner = *point;
    if (!op_moves_axes(op)) { /* it reads its operands where it is read itself */
        return inner;
    }
    inner.rank = op->operands[0]->type->rank;
    inner.vector_axis = -1;
    for (int i = 0; i < inner.rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        bool tied = axis.role == AXIS_TIED;
        inner.at[i] = tied ? point->at[axis.result] : llvm_i64(c->l, 0);
        inner.vector_axis = tied && point->vector_axis == axis.result ? i : inner.vector_axis;
    }
    inner.mask = inner.vector_axis < 0 ? NULL : point->mask;
    return inner;
}

/* ---- one op ---- */

LLVMValueRef cpu_eval_op(CpuEmitter *c, const Op *op, const Point *point)
{
    llvm_line(c->l, op->span);
    switch (op->kind) {
    case OP_CONST: {
        DType dtype = op->results[0]->type->dtype;
        LLVMTypeRef type =
            llvm_lanes(llvm_type(c->l, dtype), point->vector_axis < 0 ? 1 : c->lanes);
        return llvm_number(c->l, dtype, type, op_attr(op, ATTR_VALUE));
    }
    case OP_IOTA:
    case OP_INDEX: {
        /* An index is the point's coordinate, plus the start of its range; a vector adds the lane
         * numbers. */
        LLVMValueRef at = point->at[0];
        if (op->kind == OP_INDEX) {
            at = cpu_add(c, c->values[op->operands[0]->id].start, at);
        }
        DType result = op->results[0]->type->dtype;
        DType dtype = dtype_is_float(result) ? DT_I64 : result;
        at = scalar_cast(c->l, at, DT_I64, dtype);
        if (point->vector_axis < 0) {
            return scalar_cast(c->l, at, dtype, result);
        }
        LLVMTypeRef type = llvm_lanes(llvm_type(c->l, dtype), c->lanes);
        at = LLVMBuildAdd(c->l->builder, llvm_splat(c->l, at, type),
                          cpu_iota(c, llvm_type(c->l, dtype)), "");
        return scalar_cast(c->l, at, dtype, result);
    }
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE: { /* the operand may not vary along the lanes; the result must */
        Point inner = cpu_operand_point(c, op, point);
        LLVMValueRef value = cpu_eval(c, op->operands[0], &inner);
        if (point->vector_axis >= 0 && !llvm_lane_count(LLVMTypeOf(value))) {
            value = llvm_splat(c->l, value, llvm_lanes(LLVMTypeOf(value), c->lanes));
        }
        return value;
    }
    case OP_MASK: return cpu_eval(c, op->operands[0], point); /* nests end where ranges end */
    case OP_LOAD: return cpu_tensor_load(c, op, point);
    case OP_GATHER: return cpu_gather(c, op, point);
    default: break;
    }
    if (!op_has(op, TRAIT_ELEMENTWISE)) {
        diag_bug(c->func->diags, "%s is not computed element by element", op_info(op->kind)->name);
    }
    /* An element-wise op evaluates its operands at the same point. */
    LLVMValueRef operands[3];
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = cpu_eval(c, op->operands[i], point);
    }
    llvm_line(c->l, op->span);
    return scalar_emit_op(c->l, op, operands);
}

LLVMValueRef cpu_eval(CpuEmitter *c, const Value *value, const Point *at)
{
    const CpuValue *facts = &c->values[value->id];
    if (value->type->rank == 0) {
        return cpu_scalar(c, value);
    }
    Point where, *point = &where;
    /* A value from outside of a loop over elements is read for all lanes that are there. */
    Point outer = *at;
    while (outer.inside && !value_is_inside(value, outer.inside->loop)) {
        outer.mask = outer.mask ? outer.inside->mask : NULL;
        outer.inside = outer.inside->outer;
    }
    where = outer;
    const CachedElement *known = cpu_find_known(c, value, point, KNOWN_VALUE);
    if (known) {
        return known->result;
    }
    if (!facts->buffer && !value->def) {
        diag_bug(c->func->diags, "array %%%s has no buffer", value->name ? value->name : "");
    }
    LLVMValueRef result = facts->buffer ? cpu_buffer_load(c, facts->buffer, point)
                                        : cpu_eval_op(c, value->def, point);
    ARENA_PUSH(c->arena, &c->known, ((CachedElement){value, *point, KNOWN_VALUE, result, NULL}));
    return result;
}

void cpu_hoist(CpuEmitter *c, const Value *value, const Point *point)
{
    if (value->type->rank == 0 || c->values[value->id].buffer || !value->def ||
        point->vector_axis < 0) {
        return;
    }
    const Op *op = value->def;
    bool answer;
    if (op->kind == OP_LOAD || op->kind == OP_INDEX || op->kind == OP_IOTA ||
        op->kind == OP_CONST || cpu_seen(c, value, point->vector_axis, &answer)) {
        return;
    }
    cpu_remember(c, value, point->vector_axis, true);
    Point inner = cpu_operand_point(c, op, point);
    if (inner.vector_axis < 0) {
        cpu_eval(c, op->operands[0], &inner);
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        cpu_hoist(c, op->operands[i], &inner);
    }
}
