/* SPDX-License-Identifier: Apache-2.0 */
/* Loops and choices of the source over whole arrays, again over ranges: each region is emitted into
 * the same op over tiles, its effects in their order, its values where they are needed. */
#include "passes/tile_emit.h"

static Frame region_frame(Emitter *e, Frame *outer, const Op *op, Op *copy, int r)
{
    const Block *from = op->regions[r];
    Block *to = copy->regions[r];
    Frame frame = {.outer = outer, .op = copy, .class = -1, .source = from};
    size_t n = (size_t)e->plan->n;
    frame.at = build_at_end(e->func, to);
    frame.values = clone_map_new(e->func);
    frame.dims = arena_copy(e->func->arena, outer->dims, n * sizeof(Dim));
    frame.ranges = arena_copy(e->func->arena, outer->ranges, n * sizeof(Value *));
    for (int i = 0; i < from->n_args; i++) {
        clone_map_value(&frame.values, from->args[i], to->args[i]);
        const DimVar *range = from->args[i]->type->kind == TYPE_RANGE
                                  ? poly_as_range(from->args[i]->type->dims[0])
                                  : NULL;
        if (range) {
            clone_map_dim(&frame.values, range, to->args[i]->type->dims[0]);
        }
    }
    return frame;
}

/* Memory that something writes is read where the source reads it. */
static bool reads_changing(const Emitter *e, const Op *op)
{
    if ((op->kind != OP_LOAD && op->kind != OP_GATHER) ||
        op->operands[0]->type->kind != TYPE_TENSOR) {
        return false;
    }
    return e->func->params.items[op->operands[0]->index].io != PARAM_IN;
}

static void emit_region(Emitter *e, Frame *outer, const Op *op, Op *copy, int r)
{
    Frame inside = region_frame(e, outer, op, copy, r);
    const Op *yield = NULL;
    for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
        if (inner->kind == OP_YIELD) {
            yield = inner;
        } else if (emit_has_effect(inner)) {
            emit_effect(e, &inside, inner);
        } else if (reads_changing(e, inner)) {
            emit_value(e, &inside, inner->results[0]);
        }
    }
    int n = yield ? yield->n_operands : 0;
    Value **values = ARENA_ARRAY(e->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        values[i] = emit_value(e, &inside, yield->operands[i]);
    }
    build_yield(&inside.at, n, values);
}

static Value **emit_inits(Emitter *e, Frame *frame, const Op *op, int first)
{
    Value **inits = ARENA_ARRAY(e->func->arena, Value *, op->n_operands + 1);
    for (int i = first; i < op->n_operands; i++) {
        inits[i - first] = emit_value(e, frame, op->operands[i]);
    }
    return inits;
}

static Op *copy_for(Emitter *e, Frame *frame, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    const Value *iterator = op->regions[0]->args[0];
    Value *lo = emit_value(e, frame, for_lo(op)), *hi = emit_value(e, frame, for_hi(op));
    Value **inits = emit_inits(e, frame, op, 2);
    return build_for(&frame->at, dims->dims[0], steps->ints[0], iterator->name, lo, hi,
                     for_carried(op), inits);
}

static Op *copy_if(Emitter *e, Frame *frame, const Op *op)
{
    Type *types = ARENA_ARRAY(e->func->arena, Type, op->n_results + 1);
    Value *condition = emit_value(e, frame, op->operands[0]);
    for (int i = 0; i < op->n_results; i++) {
        types[i] = emit_type(e, frame, op->results[i]);
    }
    return build_if(&frame->at, condition, op->n_results, types);
}

void emit_regions(Emitter *e, Frame *frame, const Op *op)
{
    Op *copy = op->kind == OP_FOR ? copy_for(e, frame, op)
               : op->kind == OP_IF
                   ? copy_if(e, frame, op)
                   : build_while(&frame->at, op->n_operands, emit_inits(e, frame, op, 0));
    for (int r = 0; r < op->n_regions; r++) {
        emit_region(e, frame, op, copy, r);
    }
    for (int i = 0; i < op->n_results; i++) {
        clone_map_value(&frame->values, op->results[i], copy->results[i]);
    }
}
