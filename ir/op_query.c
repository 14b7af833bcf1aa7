/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ops: memory operands with their indices, operands by role, enclosing ops. */
#include "ir/build.h"

Access op_access(const Op *op, int at)
{
    op_visited(op);
    Value *value = op->operands[at];
    Access access = {value, op->operands + at + 1, 0, at};
    if (value && type_is_memory(value->type)) {
        access.n = value->type->rank;
    } else if (op->kind == OP_GATHER && at == 0) {
        access.n = op->n_operands - 1; /* from an array, at the tensor stage */
    }
    return access;
}

ScatterParts scatter_parts(const Op *op)
{
    ScatterParts parts = {0};
    int at = access_next(op, 0);
    bool compares = op_word(op, ATTR_FN) && text_equal(op_word(op, ATTR_FN), "cas");
    parts.value = at < op->n_operands ? op->operands[at++] : NULL;
    parts.compare = compares && at < op->n_operands ? op->operands[at++] : NULL;
    parts.mask = at < op->n_operands ? op->operands[at] : NULL;
    return parts;
}

int access_next(const Op *op, int at)
{
    return at + 1 + op_access(op, at).n;
}

bool op_accesses_whole(const Op *op)
{
    Access access = op_access(op, 0);
    bool whole = true;
    for (int i = 0; i < access.n; i++) {
        whole = whole && !access.indices[i];
    }
    return whole;
}

Access op_access_nth(const Op *op, int nth)
{
    int at = 0;
    for (int i = 0; i < nth; i++) {
        at = access_next(op, at);
    }
    return op_access(op, at);
}

Value *dot_accumulator(const Op *dot)
{
    int at = access_next(dot, access_next(dot, 0));
    return at < dot->n_operands ? dot->operands[at] : NULL;
}

Value *op_moved_value(const Op *op)
{
    if (op->kind == OP_SCATTER) {
        return scatter_parts(op).value;
    }
    return op->n_results > 0 ? op->results[0] : op->operands[op->n_operands - 1];
}

bool op_has_operand(const Op *op, const Value *value)
{
    op_visited(op);
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] == value) {
            return true;
        }
    }
    return false;
}

const Op *value_def_of_kind(const Value *value, OpKind kind)
{
    return value->def && value->def->kind == kind ? value->def : NULL;
}

const Attr *value_const(const Value *value)
{
    const Op *op = value ? value_def_of_kind(value, OP_CONST) : NULL;
    return op ? op_attr(op, ATTR_VALUE) : NULL;
}

bool value_is_const(const Value *value, double number)
{
    const Attr *attr = value_const(value);
    return attr && (dtype_is_float(value->type->dtype) ? attr->f : (double)attr->i) == number;
}

const Value *value_unstretched(const Value *value)
{
    while (value->def && (value->def->kind == OP_BROADCAST || value->def->kind == OP_EXPAND)) {
        value = value->def->operands[0];
    }
    return value;
}

Block *value_block(const Value *value)
{
    return value->def ? value->def->parent : value->block;
}

bool value_is_inside(const Value *value, const Op *op)
{
    for (const Block *block = value_block(value); block;
         block = block->parent ? block->parent->parent : NULL) {
        if (block->parent == op) {
            return true;
        }
    }
    return false;
}

bool block_is_within(const Block *block, const Block *outer)
{
    while (block && block != outer) {
        block = block->parent ? block->parent->parent : NULL;
    }
    return block != NULL;
}

Op *op_ancestor_in(const Op *op, const Block *block)
{
    while (op && op->parent != block) {
        op = op->parent ? op->parent->parent : NULL;
    }
    return (Op *)(uintptr_t)op;
}

Op *op_enclosing(const Op *op, OpKind kind)
{
    for (Op *up = op->parent ? op->parent->parent : NULL; up;
         up = up->parent ? up->parent->parent : NULL) {
        if (up->kind == kind) {
            return up;
        }
    }
    return NULL;
}

bool block_is_scalar(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool fine = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_CONST || op->kind == OP_SIZE ||
                    op->kind == OP_YIELD || op->kind == OP_FOR || op->kind == OP_IF ||
                    op->kind == OP_WHILE;
        for (int i = 0; i < op->n_results; i++) {
            fine = fine && type_is_scalar(op->results[i]->type);
        }
        for (int i = 0; i < op->n_regions; i++) {
            fine = fine && block_is_scalar(op->regions[i]);
        }
        if (!fine) {
            return false;
        }
    }
    return true;
}
