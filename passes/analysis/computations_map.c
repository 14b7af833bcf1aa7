/* SPDX-License-Identifier: Apache-2.0 */
/* Turns integer values into index maps: sums of axes times size expressions. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

enum { MAX_INDEX_DEPTH = 200 }; /* ops of one index; a deeper one has no map */

/* An index that is the axis itself names it. */
static void name_axis(const Affine *map, const Value *value)
{
    const Axis *axis = map_as_axis(map);
    if (axis && axis->make == AXIS_BASE && value->name && (!axis->from || !axis->from->name)) {
        ((Axis *)axis)->from = value;
    }
}

static const Affine *map_at(ComputeBuild *b, const Value *value, const Affine *const *at,
                            int depth);

/* What was found out of an integer: indices share what they are computed from. */
typedef struct Known {
    Instance of;
    const Affine *map;
} Known;

static bool is_known(const void *item, const void *key)
{
    const Known *known = item;
    return instance_same(&known->of, key);
}

/* True if all values of the map fit 32 bits with a sign. */
static bool fits_32_bits(ComputeBuild *b, const Affine *map)
{
    Dim lo, hi;
    map_bounds(&b->all->space, map, &lo, &hi);
    return lo && hi && poly_least(lo) >= INT32_MIN && poly_most(hi) <= INT32_MAX;
}

/* A place along an axis is not changed by a cast: no axis has more elements than its index type
 * counts. */
static const Affine *map_of_cast(ComputeBuild *b, const Op *op, const Affine *const *at, int depth)
{
    DType to = op->results[0]->type->dtype;
    if (dtype_is_float(op->operands[0]->type->dtype)) {
        return NULL;
    }
    const Affine *map = map_at(b, op->operands[0], at, depth);
    bool kept =
        map && (to == DT_I64 || (to == DT_I32 && (map_as_axis(map) || fits_32_bits(b, map))));
    return kept ? map : NULL;
}

static const Affine *map_of_arithmetic(ComputeBuild *b, const Op *op, const Affine *const *at,
                                       int depth)
{
    AxisSpace *space = &b->all->space;
    const Affine *x = map_at(b, op->operands[0], at, depth);
    const Affine *y = x && op->n_operands > 1 ? map_at(b, op->operands[1], at, depth) : NULL;
    switch (op->kind) {
    case OP_NEG: return map_scale(space, x, poly_const(b->func, -1));
    case OP_ADD: return map_add(space, x, y);
    case OP_SUB: return map_subtract(space, x, y);
    case OP_MUL:
        if (map_is_dim(y)) {
            return map_scale(space, x, y->base);
        }
        return map_is_dim(x) ? map_scale(space, y, x->base) : NULL;
    default:
        if (!map_is_dim(y) || poly_least(y->base) < 0) {
            return NULL;
        }
        return op->kind == OP_DIV ? map_divide(space, x, y->base) : map_modulo(space, x, y->base);
    }
}

static const Affine *map_of_op(ComputeBuild *b, const Op *op, const Affine *const *at, int depth)
{
    AxisSpace *space = &b->all->space;
    DType dtype = op->results[0]->type->dtype;
    Instance inner;
    switch (op->kind) {
    case OP_CONST: return map_number(space, op_attr(op, ATTR_VALUE)->i);
    case OP_SIZE: return map_dim(space, op_attr(op, ATTR_DIM)->dims[0]);
    case OP_IOTA:
    case OP_INDEX: return at[0];
    case OP_CAST: return map_of_cast(b, op, at, depth);
    case OP_NEG:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD: {
        const Affine *map = map_of_arithmetic(b, op, at, depth);
        return map && (dtype == DT_I64 || fits_32_bits(b, map)) ? map : NULL;
    }
    default:
        if (!op_moves_axes(op)) {
            return NULL;
        }
        inner = instance_moved(&b->all->space, op, at);
        return map_at(b, inner.value, inner.at, depth);
    }
}

static const Affine *map_at(ComputeBuild *b, const Value *value, const Affine *const *at, int depth)
{
    DType dtype = value->type->dtype;
    int64_t axis;
    if (value->type->kind != TYPE_ARRAY || (dtype != DT_I64 && dtype != DT_I32) ||
        depth > MAX_INDEX_DEPTH) {
        return NULL;
    }
    if (memo_known(b->loops, value, 0, &axis)) {
        return map_axis(&b->all->space, (const Axis *)(intptr_t)axis);
    }
    if (!value->def) {
        return NULL;
    }
    if (value->def->n_operands < 2) { /* a chain of these is walked once from each of its users */
        const Affine *map = map_of_op(b, value->def, at, depth + 1);
        if (map) {
            name_axis(map, value);
        }
        return map;
    }
    Instance key = {.value = (Value *)value};
    for (int i = 0; i < value->type->rank; i++) {
        key.at[i] = at[i];
    }
    uint64_t hash = instance_hash(&key);
    Known *known = table_find(&b->maps, hash, is_known, &key);
    if (!known) {
        known = ARENA_NEW(b->func->arena, Known);
        *known = (Known){key, map_of_op(b, value->def, at, depth + 1)};
        table_add(b->func->arena, &b->maps, hash, known);
    }
    return known->map;
}

const Affine *compute_map(ComputeBuild *b, const Value *value, const Affine *const *at)
{
    return map_at(b, value, at, 0);
}
