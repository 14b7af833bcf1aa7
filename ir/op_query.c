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
