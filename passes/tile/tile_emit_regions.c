/* SPDX-License-Identifier: Apache-2.0 */
/* Emits loops and conditionals of the source over ranges: the region becomes a region of the same
 * op over tiles, with its effects in their order and its values where they are needed. */
#include "passes/tile/tile_emit.h"

/* What an op with regions hands out here. A value along an axis that a loop walks is handed out by
 * another copy of the op, inside of that loop. */
typedef struct Handed {
    int *which; /* of its results */
    int n;
} Handed;

static bool is_here(const TileEmitter *e, const EmitFrame *frame, const Value *value)
{
    bool here = true;
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        int item = emit_item(e, value, i);
        here = here && (item < 0 || frame->dims[item]);
    }
    return here;
}

static Handed handed_here(const TileEmitter *e, const EmitFrame *frame, const Op *op)
{
    Handed handed = {ARENA_ARRAY(e->func->arena, int, op->n_results + 1), 0};
    bool effect = emit_has_effect(op);
    for (int i = 0; i < op->n_results; i++) {
        if (effect || is_here(e, frame, op->results[i])) {
            handed.which[handed.n++] = i;
        }
    }
    return handed;
}

static EmitFrame region_frame(TileEmitter *e, EmitFrame *outer, const Handed *handed,
                              const Block *from, Op *copy, int r)
{
    Block *to = copy->regions[r];
    int first = copy->kind == OP_FOR, carried = copy->kind == OP_IF ? 0 : handed->n;
    EmitFrame frame = {.outer = outer, .op = copy, .class = -1, .source = from};
    size_t n = (size_t)e->plan->n;
    frame.at = build_at_end(e->func, to);
    frame.at.span = copy->span;
    frame.values = clone_map_new(e->func);
    frame.dims = arena_copy(e->func->arena, outer->dims, n * sizeof(Dim));
    frame.ranges = arena_copy(e->func->arena, outer->ranges, n * sizeof(Value *));
    for (int i = 0; i < first; i++) {
        clone_map_value(&frame.values, from->args[i], to->args[i]);
        const DimVar *range = from->args[i]->type->kind == TYPE_RANGE
                                  ? poly_as_range(from->args[i]->type->dims[0])
                                  : NULL;
        if (range) {
            clone_map_dim(&frame.values, range, to->args[i]->type->dims[0]);
        }
    }
    for (int i = 0; i < carried; i++) {
        clone_map_value(&frame.values, from->args[first + handed->which[i]], to->args[first + i]);
    }
    return frame;
}

/* Memory that something writes is read where the source reads it; along an axis that a loop walks,
 * by that loop. */
static bool reads_changing(const TileEmitter *e, const Op *op)
{
    if ((op->kind != OP_LOAD && op->kind != OP_GATHER) ||
        op->operands[0]->type->kind != TYPE_TENSOR) {
        return false;
    }
    return e->func->params.items[op->operands[0]->index].io != PARAM_IN;
}

static void emit_region(TileEmitter *e, EmitFrame *outer, const Op *op, const Handed *handed,
                        Op *copy, int r)
{
    EmitFrame inside = region_frame(e, outer, handed, op->regions[r], copy, r);
    const Op *yield = NULL;
    for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
        if (inner->kind == OP_YIELD) {
            yield = inner;
        } else if (emit_has_effect(inner)) {
            emit_effect(e, &inside, inner);
        } else if (reads_changing(e, inner) && is_here(e, &inside, inner->results[0])) {
            emit_value(e, &inside, inner->results[0]);
        }
    }
    bool condition = op->kind == OP_WHILE && r == 0;
    int n = condition ? 1 : handed->n;
    Value **values = ARENA_ARRAY(e->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        values[i] = emit_value(e, &inside, yield->operands[condition ? 0 : handed->which[i]]);
    }
    build_yield(&inside.at, n, values);
}

static Value **emit_inits(TileEmitter *e, EmitFrame *frame, const Op *op, const Handed *handed,
                          int first)
{
    Value **inits = ARENA_ARRAY(e->func->arena, Value *, handed->n + 1);
    for (int i = 0; i < handed->n; i++) {
        inits[i] = emit_value(e, frame, op->operands[first + handed->which[i]]);
    }
    return inits;
}

static Op *copy_for(TileEmitter *e, EmitFrame *frame, const Op *op, const Handed *handed)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    const Value *iterator = op->regions[0]->args[0];
    Value *lo = emit_value(e, frame, for_lo(op)), *hi = emit_value(e, frame, for_hi(op));
    Value **inits = emit_inits(e, frame, op, handed, 2);
    return build_for(&frame->at, dims->dims[0], steps->ints[0], iterator->name, lo, hi, handed->n,
                     inits);
}

static Op *copy_if(TileEmitter *e, EmitFrame *frame, const Op *op, const Handed *handed)
{
    Type *types = ARENA_ARRAY(e->func->arena, Type, handed->n + 1);
    Value *condition = emit_value(e, frame, op->operands[0]);
    for (int i = 0; i < handed->n; i++) {
        types[i] = emit_type(e, frame, op->results[handed->which[i]]);
    }
    return build_if(&frame->at, condition, handed->n, types);
}

static bool is_known(const EmitFrame *frame, Value *value)
{
    bool known = false;
    for (; frame && !known; frame = frame->outer) {
        known = clone_get(&frame->values, value) != value;
    }
    return known;
}

void emit_regions(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Handed handed = handed_here(e, frame, op);
    Op *copy;
    if (op->kind == OP_FOR) {
        copy = copy_for(e, frame, op, &handed);
    } else if (op->kind == OP_IF) {
        copy = copy_if(e, frame, op, &handed);
    } else {
        copy = build_while(&frame->at, handed.n, emit_inits(e, frame, op, &handed, 0));
    }
    for (int r = 0; r < op->n_regions; r++) {
        emit_region(e, frame, op, &handed, copy, r);
    }
    for (int i = 0; i < handed.n; i++) {
        Value *result = op->results[handed.which[i]];
        if (!is_known(frame, result)) {
            clone_map_value(&frame->values, result, copy->results[i]);
        }
    }
}
