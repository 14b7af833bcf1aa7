/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether everything that a row of a block needs on both sides of a reduction can be
 * recomputed from 16-bit elements. If so, the row stays in registers in its narrow form, and
 * rematerialize_casts recomputes the upcasts. */
#include "passes/analysis/narrow_rows.h"

#include "ir/op_axes.h"

enum { MAX_OPS = 4 }; /* an element: more take longer than the registers are worth */

RowDims an_row_dims(const Block *block)
{
    RowDims rows = {.n = 0};
    for (const Op *op = block->first; op; op = op->next) {
        Dim dim =
            op->kind == OP_REDUCE ? op->operands[0]->type->dims[op_int(op, ATTR_AXIS, 0)] : NULL;
        bool known = !dim || rows.n == (int)(sizeof rows.items / sizeof *rows.items);
        for (int i = 0; i < rows.n; i++) {
            known = known || rows.items[i] == dim;
        }
        if (!known) {
            rows.items[rows.n++] = dim;
        }
    }
    return rows;
}

bool an_along_rows(const RowDims *rows, const Value *value)
{
    Type type = value->type;
    for (int i = 0; type->kind == TYPE_ARRAY && i < type->rank; i++) {
        for (int k = 0; k < rows->n; k++) {
            if (type->dims[i] == rows->items[k]) {
                return true;
            }
        }
    }
    return false;
}

static bool is_cheap(OpKind kind)
{
    switch (kind) {
    case OP_CAST:
    case OP_NEG:
    case OP_ABS:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_FMA:
    case OP_MIN:
    case OP_MAX:
    case OP_MASK: return true;
    default: return false;
    }
}

/* Counts operations down in `ops`. */
static bool takes_few(const RowDims *rows, const Value *value, int *ops)
{
    const Op *op = value->def;
    if (!an_along_rows(rows, value) || (op && op->kind == OP_CONST)) {
        return true;
    }
    if (!op || op->kind == OP_LOAD) {
        DType dtype = value->type->dtype;
        return op && dtype_is_float(dtype) && dtype_bits(dtype) == 16;
    }
    bool free = op_moves_axes(op) || op->kind == OP_REMAT;
    *ops -= !free;
    if (*ops < 0 || (!free && !is_cheap(op->kind))) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !takes_few(rows, op->operands[i], ops)) {
            return false;
        }
    }
    return true;
}

bool an_is_rematerializable(const RowDims *rows, const Value *value)
{
    int ops = MAX_OPS;
    return takes_few(rows, value, &ops);
}

/* Is there a reduction behind `from`, up to `to`? */
static bool reduces_between(const Op *from, const Op *to)
{
    for (const Op *op = from->next; op && op != to; op = op->next) {
        if (op->kind == OP_REDUCE) {
            return true;
        }
    }
    return false;
}

/* Moves cost no registers: what is moved is what is held. */
static const Value *held(const Value *value)
{
    while (value->def && op_moves_axes(value->def)) {
        value = value->def->operands[0];
    }
    return value;
}

bool an_narrow_rows(const Block *block)
{
    RowDims rows = an_row_dims(block);
    bool some = false;
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_operands; i++) {
            const Value *value = op->operands[i] ? held(op->operands[i]) : NULL;
            if (!value || !value->def || !an_along_rows(&rows, value) ||
                value->def->parent != block || !reduces_between(value->def, op)) {
                continue;
            }
            if (!an_is_rematerializable(&rows, value)) {
                return false;
            }
            some = true;
        }
    }
    return some;
}
