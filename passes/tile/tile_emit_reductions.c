/* SPDX-License-Identifier: Apache-2.0 */
/* Emits reductions and dots over ranges: a loop over the reduced axis carries the partial
 * result. */
#include "passes/tile/tile_emit.h"

#include "passes/analysis/reduce_identity.h"

/* What is emitted for `op` runs over all that the group has along the axis. */
Value *emit_runs_over(TileEmitter *e, Value *made, const Op *op)
{
    op_set_over(e->func, made->def, op_reduced_extent(op));
    return made;
}

/* ---- sums of products ---- */

/* Does a sum of products, one a batch, begin here? */
static bool sums_products(const TileEmitter *e, const Op *op)
{
    while (op && op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum")) {
        int item = emit_item(e, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
        if (!emit_is_looped(e, item) || !emit_is_scalar(e, item)) {
            return false;
        }
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_DOT;
}

static Value *add_dot(TileEmitter *e, EmitFrame *frame, const Op *op, Value *sum);

/* The sum of `op` and all below it, onto the matrix `sum`. */
static Value *add_products(TileEmitter *e, EmitFrame *frame, const Op *op, Value *sum)
{
    if (op->kind == OP_DOT) {
        return add_dot(e, frame, op, sum);
    }
    Value *from = op->operands[0];
    int item = emit_item(e, from, (int)op_int(op, ATTR_AXIS, 0));
    EmitFrame inside;
    Op *loop = emit_loop(e, frame, item, 1, &sum, 1, &from, &inside);
    Value *next = add_products(e, &inside, from->def, loop->regions[0]->args[1]);
    emit_end(e, &inside, 1, &next);
    return loop->results[0];
}

/* A matrix as the value that the source has there: one element along the axes before. */
void emit_map_matrix(EmitFrame *frame, const Op *op, Value *matrix)
{
    for (int i = 2; i < op->results[0]->type->rank; i++) {
        matrix = build_expand(&frame->at, matrix, 0);
    }
    clone_map_value(&frame->values, op->results[0], matrix);
}

static Type matrix_type(const TileEmitter *e, const EmitFrame *frame, const Op *op)
{
    Type type = emit_type(e, frame, op->results[0]);
    return type_with_dims(e->func, type, 2, type->dims + type->rank - 2);
}

/* ---- reductions ---- */

/* How many elements a window has. */
int64_t emit_window_elements(const TileEmitter *e, int item)
{
    int64_t extent = 0;
    return tile_exact(e->plan->items[item].dim, &extent) ? extent : 0;
}

/* The f32 product that is summed, and nothing else reads: it enters the sum unrounded. Not every
 * CPU has an instruction for that. */
static const Op *summed_product(const TileEmitter *e, const Op *op)
{
    if (e->func->target->family == FAMILY_CPU) {
        return NULL;
    }
    const Op *mul = op->operands[0]->def;
    bool sum = text_equal(op_word(op, ATTR_FN), "sum") && mul && mul->kind == OP_MUL &&
               mul->results[0]->type->dtype == DT_F32;
    return sum && value_count_uses(e->func, mul->results[0]) == 1 ? mul : NULL;
}

/* A window, written out. */
static Value *reduce_elements(TileEmitter *e, EmitFrame *frame, const Op *op, int item)
{
    Value *sum = NULL;
    const Op *mul = summed_product(e, op);
    for (int64_t k = 0; k < emit_window_elements(e, item); k++) {
        EmitFrame inside = emit_element(e, frame, item, k);
        if (sum && mul) {
            Value *a = emit_value(e, &inside, mul->operands[0]);
            sum = build_fma(&frame->at, a, emit_value(e, &inside, mul->operands[1]), sum);
            continue;
        }
        Value *part = emit_value(e, &inside, op->operands[0]);
        sum =
            sum ? build_binary(&frame->at, reduce_combiner(op_word(op, ATTR_FN)), sum, part) : part;
    }
    return sum;
}

/* The only use of a reduction's result: another one, by the same function. NULL: it is none. */
static const Op *reduced_on(const TileEmitter *e, const Op *op)
{
    const Op *next = op->next;
    while (next && (next->n_operands == 0 || next->operands[0] != op->results[0])) {
        next = next->next;
    }
    bool same =
        next && next->kind == OP_REDUCE && text_equal(op_word(next, ATTR_FN), op_word(op, ATTR_FN));
    return same && value_count_uses(e->func, op->results[0]) == 1 ? next : NULL;
}

/* Has the block a part only of what is reduced here, or by those reductions whose result is? */
static bool has_part_only(const TileEmitter *e, const Op *op)
{
    int item = emit_item(e, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    const Op *before = op->operands[0]->def;
    bool chained = before && before->kind == OP_REDUCE && reduced_on(e, before) == op;
    return (item >= 0 && e->plan->items[item].how == AXIS_CLUSTER) ||
           (chained && has_part_only(e, before));
}

/* What the blocks of a cluster have of it together: they synchronize once for all axes, behind the
 * last of them, with the little that is left. */
static Value *combined(const TileEmitter *e, EmitFrame *frame, const Op *op, Value *own)
{
    bool shared = has_part_only(e, op) && !reduced_on(e, op);
    return shared ? build_cluster_reduce(&frame->at, op_word(op, ATTR_FN), own) : own;
}

/* The reduction along an axis that another loop walks, whose results `op` alone reads; NULL: there
 * is none. */
static const Op *reduced_before(const TileEmitter *e, const Op *op)
{
    const Value *from = op->operands[0];
    const Op *before = from->def;
    bool own = value_count_uses(e->func, from) == 1;
    if (before && before->kind == OP_SQUEEZE) {
        from = before->operands[0];
        before = from->def;
        own = own && value_count_uses(e->func, from) == 1;
    }
    bool same = own && before && before->kind == OP_REDUCE &&
                text_equal(op_word(before, ATTR_FN), op_word(op, ATTR_FN));
    int item = same ? emit_item(e, before->operands[0], (int)op_int(before, ATTR_AXIS, 0)) : -1;
    return same && emit_is_looped(e, item) && emit_is_scalar(e, item) ? before : NULL;
}

/* Reduces onto what is there already. Loops along several axes share what they carry where a
 * product is inside: each tile of it that is kept takes as many registers as the product's. */
static Value *reduce_onto(TileEmitter *e, EmitFrame *frame, const Op *op, Value *sum)
{
    Value *from = op->operands[0], *next;
    int axis = (int)op_int(op, ATTR_AXIS, 0), item = emit_item(e, from, axis);
    const char *fn = op_word(op, ATTR_FN);
    EmitFrame inside;
    Op *loop = emit_loop(e, frame, item, 1, &sum, 1, &from, &inside);
    Value *carried = loop->regions[0]->args[1];
    const Op *before = e->plan->dot ? reduced_before(e, op) : NULL;
    if (before) {
        bool drops = from->def != before;
        int dropped = drops ? (int)op_int(from->def, ATTR_AXIS, 0) : 0;
        next = drops ? build_expand(&inside.at, carried, dropped) : carried;
        next = reduce_onto(e, &inside, before, next);
        next = drops ? build_squeeze(&inside.at, next, dropped) : next;
    } else {
        Value *part = build_reduce(&inside.at, fn, emit_value(e, &inside, from), axis);
        emit_runs_over(e, part, op);
        next = build_binary(&inside.at, reduce_combiner(fn), carried, part);
    }
    emit_end(e, &inside, 1, &next);
    return loop->results[0];
}

void emit_reduce(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value *from = op->operands[0], *result = op->results[0];
    int axis = (int)op_int(op, ATTR_AXIS, 0), item = emit_item(e, from, axis);
    const char *fn = op_word(op, ATTR_FN);
    if (sums_products(e, op)) {
        Value *zero = reduce_neutral_tile(&frame->at, "sum", matrix_type(e, frame, op));
        emit_map_matrix(frame, op, add_products(e, frame, op, zero));
        return;
    }
    if (emit_is_unrolled(e, item)) {
        clone_map_value(&frame->values, result, reduce_elements(e, frame, op, item));
        return;
    }
    if (!emit_is_looped(e, item)) {
        Value *all = emit_value(e, frame, from);
        Value *own = emit_runs_over(e, build_reduce(&frame->at, fn, all, axis), op);
        clone_map_value(&frame->values, result, combined(e, frame, op, own));
        return;
    }
    Value *init = reduce_neutral_tile(&frame->at, fn, emit_type(e, frame, result));
    Value *own = reduce_onto(e, frame, op, init);
    clone_map_value(&frame->values, result, combined(e, frame, op, own));
}

void emit_reduce_part(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Value *part = emit_value(e, frame, op->operands[0]);
    Value *own = build_reduce(&frame->at, op_word(op, ATTR_FN), part, axis);
    op_set_over(e->func, own->def, part->type->dims[axis]);
    clone_map_value(&frame->values, op->results[0], own);
}

void emit_repeat_part(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Type type = emit_type(e, frame, op->results[0]);
    Value *part = emit_value(e, frame, op->operands[0]);
    Value *all = build_broadcast(&frame->at, part, type->rank, type->dims);
    clone_map_value(&frame->values, op->results[0], all);
}

/* ---- products ---- */

/* Axes before the last two are scalars here: one element each. */
static Value *matrix_of(TileEmitter *e, EmitFrame *frame, Value *source)
{
    Value *value = emit_value(e, frame, source);
    while (value->type->rank > 2) {
        value = emit_without(&frame->at, value, 0);
    }
    return value;
}

static Value *add_dot(TileEmitter *e, EmitFrame *frame, const Op *op, Value *sum)
{
    Value *operands[2] = {op->operands[0], op->operands[1]};
    int item = emit_item(e, operands[0], operands[0]->type->rank - 1);
    DType dtype = op->results[0]->type->dtype;
    if (!emit_is_looped(e, item)) {
        Value *a = matrix_of(e, frame, operands[0]), *b = matrix_of(e, frame, operands[1]);
        return emit_runs_over(e, build_dot(&frame->at, a, b, sum, dtype), op);
    }
    EmitFrame inside;
    Op *loop = emit_loop(e, frame, item, 1, &sum, 2, operands, &inside);
    Value *a = matrix_of(e, &inside, operands[0]), *b = matrix_of(e, &inside, operands[1]);
    Value *next = build_dot(&inside.at, a, b, loop->regions[0]->args[1], dtype);
    emit_runs_over(e, next, op);
    emit_end(e, &inside, 1, &next);
    return loop->results[0];
}

void emit_dot(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value *sum = op->n_operands == 3
                     ? matrix_of(e, frame, op->operands[2])
                     : reduce_neutral_tile(&frame->at, "sum", matrix_type(e, frame, op));
    emit_map_matrix(frame, op, add_dot(e, frame, op, sum));
}

Value *emit_matrix(TileEmitter *e, EmitFrame *frame, const Op *dot)
{
    return add_dot(e, frame, dot,
                   reduce_neutral_tile(&frame->at, "sum", matrix_type(e, frame, dot)));
}
