/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an axis along which one loop can compute both the column reductions and the row results of
 * a fusion group, and the values that depend on such reductions. */
#include "passes/analysis/row_column_sweep.h"

bool an_folds_along(const Axes *axes, const Op *op, int class)
{
    bool fold = op->kind == OP_REDUCE || op->kind == OP_FOLD || op->kind == OP_SCAN;
    return fold && axes_class(axes, op->operands[0], (int)op_int(op, ATTR_AXIS, 0)) == class;
}

bool an_goes_along(const Axes *axes, const Value *value, int class)
{
    for (int i = 0; value && value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        if (axes_class(axes, value, i) == class) {
            return true;
        }
    }
    return false;
}

const bool *an_made_of_folds(const Axes *axes, const Block *block, int class)
{
    bool *made = ARENA_ARRAY(axes->func->arena, bool, axes->n_values);
    for (const Op *op = block->first; op; op = op->next) {
        bool own = an_folds_along(axes, op, class);
        for (int i = 0; i < op->n_operands; i++) {
            own = own || (op->operands[i] && made[op->operands[i]->id]);
        }
        for (int i = 0; i < op->n_results; i++) {
            made[op->results[i]->id] = own;
        }
    }
    return made;
}

/* Nothing is multiplied, all effects are stores, and there are no loops or choices. */
static bool is_plain(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool other = (axes_written(op) && op->kind != OP_STORE) ||
                     (op->n_regions && op->kind != OP_FOLD) || op->kind == OP_DOT;
        if (other) {
            return false;
        }
    }
    return true;
}

static bool is_walk(const Axes *axes, const Block *block, int class)
{
    const bool *made = an_made_of_folds(axes, block, class);
    bool across = false;
    for (const Op *op = block->first; op; op = op->next) {
        const Value *written = axes_written(op);
        bool along = an_goes_along(axes, written, class);
        across = across || (written && !along);
        for (int i = 0; i < op->n_operands; i++) {
            bool derived = op->operands[i] && made[op->operands[i]->id];
            if (derived && (along || an_folds_along(axes, op, class))) {
                return false;
            }
        }
    }
    return across;
}

/* The last axis of what is stored along it is a row, which a block holds. */
static bool is_last(const Axes *axes, const Block *block, int class)
{
    for (const Op *op = block->first; op; op = op->next) {
        const Value *written = axes_written(op);
        int rank = written ? written->type->rank : 0;
        if (rank > 0 && axes_class(axes, written, rank - 1) == class) {
            return true;
        }
    }
    return false;
}

static void count(const Axes *axes, const Block *block, RowColumnSweep *walk)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool array = op->n_results && op->results[0]->type->rank > 0;
        walk->folds += an_folds_along(axes, op, walk->class) ? op->n_results : 0;
        walk->loads += array && (op->kind == OP_LOAD || op->kind == OP_GATHER);
    }
}

RowColumnSweep an_row_column_sweep(const Axes *axes, const Block *block)
{
    RowColumnSweep walk = {.class = -1};
    int other = -1; /* the class that was looked at last: many results have it */
    for (const Op *op = is_plain(block) ? block->first : NULL; op; op = op->next) {
        const Value *written = axes_written(op);
        for (int i = 0; written && i < written->type->rank; i++) {
            int class = axes_class(axes, written, i);
            unsigned flags = class < 0 ? 0 : axes_flags(axes, class);
            if (flags != (AXIS_STORED | AXIS_REDUCED) || class == other) {
                continue;
            }
            if (!is_last(axes, block, class) && is_walk(axes, block, class)) {
                walk.class = class;
                walk.dim = written->type->dims[i];
                count(axes, block, &walk);
                return walk;
            }
            other = class;
        }
    }
    return walk;
}
