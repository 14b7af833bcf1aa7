/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the loop over the strips of a tile (strip_mine.c): the ops of the epilogue with the types
 * of a strip, the tiles that strips are taken from as loop-carried values, and one stage per strip
 * in the buffers. */
#include "passes/layout/strip_mine.h"

#include "ir/layout/layout.h"

/* ---- ops along a range ---- */

bool strip_type_is_along(Type type, const DimVar *range)
{
    for (int i = 0; type->kind != TYPE_TENSOR && i < type->rank; i++) {
        if (poly_mentions(type->dims[i], range)) {
            return true;
        }
    }
    return false;
}

bool strip_is_along(const Op *op, const DimVar *range)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && strip_type_is_along(op->operands[i]->type, range)) {
            return true;
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        if (strip_type_is_along(op->results[i]->type, range)) {
            return true;
        }
    }
    return false;
}

int strip_axis(Type type, const DimVar *range)
{
    for (int i = 0; i < type->rank; i++) {
        if (poly_as_range(type->dims[i]) == range) {
            return i;
        }
    }
    return -1;
}

static bool is_range_fact(const Op *op)
{
    return op->kind == OP_START || op->kind == OP_END || op->kind == OP_LEN;
}

bool strip_goes_along(const Op *op, const DimVar *range)
{
    return strip_is_along(op, range) && !is_range_fact(op);
}

bool strip_goes_through(const Op *op)
{
    return op->kind == OP_SHARED_LOAD || op->kind == OP_SHARED_STORE || op->kind == OP_BULK_STORE;
}

bool strip_is_barrier(const Op *op)
{
    return op->kind == OP_BARRIER || op->kind == OP_FENCE_ASYNC || op->kind == OP_BULK_WAIT;
}

/* ---- the loop ---- */

static const Layout *strip_layout(const StripMine *mine, Type type)
{
    int axis = strip_axis(type, mine->range);
    Layout strip = *type->layout;
    int n = 0;
    for (int bit = 0; bit < type->layout->bits[IN_REGISTER]; bit++) {
        const int32_t *basis = type->layout->basis[IN_REGISTER][bit];
        if (basis[axis] < mine->width) {
            for (int i = 0; i < MAX_RANK; i++) {
                strip.basis[IN_REGISTER][n][i] = basis[i];
            }
            n++;
        }
    }
    strip.bits[IN_REGISTER] = (uint8_t)n;
    return func_intern_layout(mine->func, &strip);
}

static Type strip_type(const StripMine *mine, Type type)
{
    Type strip = clone_type(&mine->map, type);
    bool tile = type_is_tile(type) && strip_type_is_along(type, mine->range);
    return tile ? type_with_layout(mine->func, strip, strip_layout(mine, type)) : strip;
}

/* Recomputing constants and broadcasts costs less than moving their registers. */
static bool is_recomputed(const Value *value)
{
    const Op *def = value->def;
    return def && (def->kind == OP_CONST || def->kind == OP_INDEX ||
                   (def->kind == OP_BROADCAST && !type_is_tile(def->operands[0]->type)));
}

static void find_carried(StripMine *mine)
{
    for (const Op *op = mine->first;; op = op->next) {
        for (int i = 0; strip_goes_along(op, mine->range) && i < op->n_operands; i++) {
            Value *value = op->operands[i];
            const Op *def = value ? value->def : NULL;
            bool before = value && type_is_tile(value->type) &&
                          strip_type_is_along(value->type, mine->range) &&
                          !(def && def->parent == op->parent && !op_is_before(def, mine->first));
            for (size_t k = 0; before && k < mine->carried.n; k++) {
                before = mine->carried.items[k] != value;
            }
            if (before && !is_recomputed(value)) {
                ARENA_PUSH(mine->func->arena, &mine->carried, value);
            }
        }
        if (op == mine->last) {
            return;
        }
    }
}

static Value *moved_on(StripMine *mine, Builder *b, Value *tile)
{
    Value *next = build_op(b, OP_ADVANCE, 1, &tile, 1, &tile->type, 0)->results[0];
    op_set_int(mine->func, next->def, ATTR_AXIS, strip_axis(tile->type, mine->range));
    op_set_int(mine->func, next->def, ATTR_STEP, mine->width);
    return next;
}

static Value *front_of(StripMine *mine, Builder *b, Value *tile)
{
    Type type = strip_type(mine, tile->type);
    Value *strip = build_op(b, OP_FRONT, 1, &tile, 1, &type, 0)->results[0];
    op_set_int(mine->func, strip->def, ATTR_AXIS, strip_axis(tile->type, mine->range));
    return strip;
}

/* How many registers share the bits of an index, or a comparison with the end, follows from where
 * the range starts and ends: a strip does so at multiples of its width, not of the tile's. */
static void limit_vector(const StripMine *mine, Op *copy, const Op *op)
{
    bool counts = op->kind == OP_INDEX || op->kind == OP_MASK;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t given = op_int(op, ATTR_VECTOR, 1), vector = given;
    if (counts && poly_as_range(op->results[0]->type->dims[axis]) == mine->range) {
        while (mine->width % vector) {
            vector /= 2;
        }
    }
    if (vector < given) {
        op_set_int(mine->func, copy, ATTR_VECTOR, vector);
    }
}

static void clone_strip(StripMine *mine, Builder *b, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        Value *value = op->operands[i];
        bool again = value && type_is_tile(value->type) && is_recomputed(value) &&
                     strip_type_is_along(value->type, mine->range) &&
                     clone_get(&mine->map, value) == value;
        if (again) {
            clone_strip(mine, b, value->def);
        }
    }
    Op *copy = clone_op(b, &mine->map, op);
    for (int i = 0; i < op->n_results; i++) {
        copy->results[i]->type = strip_type(mine, op->results[i]->type);
    }
    limit_vector(mine, copy, op);
}

/* The slot of a strip: the buffer has as many as the tile has strips, for each that it had. */
static void take_slot(StripMine *mine, Op *copy)
{
    Value *slot = copy->operands[1], *number = mine->counter;
    Builder b = build_before(mine->func, copy);
    int64_t strips = mine->range->capacity / mine->width;
    number = build_cast(&b, number, slot->type->dtype);
    Value *first = build_binary(&b, OP_MUL, slot, build_int(&b, slot->type, strips));
    op_set_operand(copy, 1, build_binary(&b, OP_ADD, first, number));
}

static void divide_buffer(const StripMine *mine, const Op *op)
{
    Value *buffer = op_access(op, 0).memory;
    Type tile = op_moved_value(op)->type;
    int64_t dims[MAX_RANK];
    for (int i = 0; i < buffer->type->rank; i++) {
        dims[i] = poly_capacity(buffer->type->dims[i]);
    }
    int axis = strip_axis(tile, mine->range) + 1;
    if (dims[axis] == mine->range->capacity) { /* otherwise it is divided into strips already */
        dims[0] *= mine->range->capacity / mine->width;
        dims[axis] = mine->width;
        buffer->type = type_shared(mine->func, buffer->type->dtype, buffer->type->rank, dims);
    }
}

/* The loop, with its arguments mapped; the cursor is in it then. */
static Op *open_loop(StripMine *mine, Builder *b)
{
    Value *range = mine->range->binder;
    Value *lo = build_range_fact(b, OP_START, range), *hi = build_range_fact(b, OP_END, range);
    int n = (int)mine->carried.n;
    Value **inits = ARENA_ARRAY(mine->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        inits[i] = mine->carried.items[i];
    }
    inits[n] = build_int(b, type_scalar(mine->func, DT_I32), 0);
    Op *loop =
        build_for(b, mine->range->axis_extent, mine->width, range->name, lo, hi, n + 1, inits);
    Value **args = loop->regions[0]->args;
    mine->counter = args[n + 1];
    mine->map = clone_map_new(mine->func);
    clone_map_value(&mine->map, range, args[0]);
    clone_map_dim(&mine->map, mine->range, args[0]->type->dims[0]);
    *b = build_at_end(mine->func, loop->regions[0]);
    for (int i = 0; i < n; i++) {
        clone_map_value(&mine->map, inits[i], front_of(mine, b, args[i + 1]));
    }
    return loop;
}

static void close_loop(StripMine *mine, Builder *b, const Op *loop)
{
    int n = (int)mine->carried.n;
    Value **next = ARENA_ARRAY(mine->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        next[i] = moved_on(mine, b, loop->regions[0]->args[i + 1]);
    }
    next[n] = build_binary(b, OP_ADD, mine->counter, build_int(b, mine->counter->type, 1));
    build_yield(b, n + 1, next);
}

/* Moves the ops along the range into the loop, with the barriers between their accesses. Barriers
 * before the first access stay before the loop, because no strip waits for another one there. */
static void find_inside(StripMine *mine)
{
    bool touched = false;
    for (Op *op = mine->first;; op = op->next) {
        bool inside = strip_goes_along(op, mine->range);
        touched = touched || (inside && (op->kind == OP_STORE || strip_goes_through(op)));
        if (inside || (touched && strip_is_barrier(op))) {
            ARENA_PUSH(mine->func->arena, &mine->inside, op);
        }
        if (op == mine->last) {
            return;
        }
    }
}

void strip_build_loop(StripMine *mine)
{
    Builder b = build_after(mine->func, mine->last);
    find_inside(mine);
    find_carried(mine);
    for (size_t i = 0; i < mine->inside.n; i++) {
        const Op *op = mine->inside.items[i];
        if (op->kind == OP_SHARED_LOAD || op->kind == OP_SHARED_STORE) {
            divide_buffer(mine, op);
        }
    }
    const Op *loop = open_loop(mine, &b);
    for (size_t i = 0; i < mine->inside.n; i++) {
        clone_strip(mine, &b, mine->inside.items[i]);
        if (strip_goes_through(mine->inside.items[i])) {
            take_slot(mine, loop->regions[0]->last);
        }
    }
    close_loop(mine, &b, loop);
    for (size_t i = mine->inside.n; i-- > 0;) {
        op_remove(mine->inside.items[i]);
    }
}
