/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/an_axes.h"

static int32_t find(const Axes *axes, int32_t node)
{
    while (axes->parent[node] != node) {
        axes->parent[node] = axes->parent[axes->parent[node]];
        node = axes->parent[node];
    }
    return node;
}

static int32_t node_of(const Value *value, int axis)
{
    return (int32_t)value->id * MAX_RANK + axis;
}

static bool is_one(Dim dim)
{
    int64_t extent;
    return poly_is_const(dim, &extent) && extent == 1;
}

static void tie(Axes *axes, const Value *a, int i, const Value *b, int k)
{
    if (!is_one(a->type->dims[i]) && !is_one(b->type->dims[k])) {
        axes->parent[find(axes, node_of(a, i))] = find(axes, node_of(b, k));
    }
}

static void tie_same(Axes *axes, const Value *a, const Value *b)
{
    for (int i = 0; i < a->type->rank; i++) {
        tie(axes, a, i, b, i);
    }
}

static void tie_unit(Axes *axes, const Op *op, const Value *longer, const Value *shorter)
{
    int64_t dropped = op_int(op, ATTR_AXIS, 0);
    for (int i = 0; i < shorter->type->rank; i++) {
        tie(axes, shorter, i, longer, i < dropped ? i : i + 1);
    }
}

static void tie_op(Axes *axes, const Op *op)
{
    const Value *result = op->n_results ? op->results[0] : NULL;
    switch (op->kind) {
    case OP_BROADCAST:
        for (int i = 0, skip = result->type->rank - op->operands[0]->type->rank;
             i < op->operands[0]->type->rank; i++) {
            tie(axes, op->operands[0], i, result, i + skip);
        }
        break;
    case OP_EXPAND: tie_unit(axes, op, result, op->operands[0]); break;
    case OP_SQUEEZE: tie_unit(axes, op, op->operands[0], result); break;
    case OP_PERMUTE:
        for (int i = 0; i < result->type->rank; i++) {
            tie(axes, op->operands[0], (int)op_attr(op, ATTR_PERM)->ints[i], result, i);
        }
        break;
    case OP_REDUCE: tie_same(axes, op->operands[0], result); break;
    case OP_DOT:
        tie(axes, op->operands[0], 0, result, 0);
        tie(axes, op->operands[1], 1, result, 1);
        tie(axes, op->operands[0], 1, op->operands[1], 0);
        if (op->n_operands == 3) {
            tie_same(axes, op->operands[2], result);
        }
        break;
    default:
        if (op_has(op, TRAIT_ELEMENTWISE)) {
            for (int i = 0; i < op->n_operands; i++) {
                tie_same(axes, op->operands[i], result);
            }
        }
    }
}

static void flag(Axes *axes, const Value *value, int axis, unsigned flags)
{
    int class = axes_class(axes, value, axis);
    if (class >= 0) {
        axes->flags[class] |= (uint8_t)flags;
    }
}

static void flag_op(Axes *axes, const Op *op)
{
    if (op->kind == OP_REDUCE) {
        flag(axes, op->operands[0], (int)op_int(op, ATTR_AXIS, 0), AXIS_REDUCED);
    } else if (op->kind == OP_DOT) {
        flag(axes, op->operands[0], 1, AXIS_CONTRACTED);
    } else if (op->kind == OP_STORE) {
        const Value *value = op->operands[op->n_operands - 1];
        for (int i = 0; i < value->type->rank; i++) {
            flag(axes, value, i, AXIS_STORED);
        }
    }
}

/* All stores of a group write over the same grid: their axes are tied pairwise. */
static void tie_stores(Axes *axes, const Block *block)
{
    const Value *first = NULL;
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_STORE) {
            const Value *value = op->operands[op->n_operands - 1];
            if (first && value->type->rank == first->type->rank) {
                tie_same(axes, value, first);
            }
            first = first ? first : value;
        }
    }
}

Axes axes_of(Func *func, const Block *block)
{
    Axes axes = {.func = func, .n_values = func->n_values};
    axes.parent = ARENA_ARRAY(func->arena, int32_t, func->n_values * MAX_RANK);
    axes.flags = ARENA_ARRAY(func->arena, uint8_t, func->n_values * MAX_RANK);
    for (uint32_t i = 0; i < func->n_values * MAX_RANK; i++) {
        axes.parent[i] = (int32_t)i;
    }
    for (const Op *op = block->first; op; op = op->next) {
        tie_op(&axes, op);
    }
    tie_stores(&axes, block);
    for (const Op *op = block->first; op; op = op->next) {
        flag_op(&axes, op);
    }
    return axes;
}

int axes_class(const Axes *axes, const Value *value, int axis)
{
    return is_one(value->type->dims[axis]) ? -1 : find(axes, node_of(value, axis));
}

unsigned axes_flags(const Axes *axes, int class)
{
    return axes->flags[class];
}

bool axes_conflict(const Axes *axes, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->n_results; r++) {
            const Value *value = op->results[r];
            for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
                for (int k = 0; k < i; k++) {
                    int class = axes_class(axes, value, i);
                    if (class >= 0 && class == axes_class(axes, value, k)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}
