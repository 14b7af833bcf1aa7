/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of how tiles go to blocks, and of reductions over the blocks of a cluster and in parts. */
#include "ir/verify/verify_ops.h"

#include "support/int_math.h"

void verify_deal(Verifier *v, const Op *tiles)
{
    const char *deal = op_word(tiles, ATTR_DEAL);
    if (deal && !verify_is_among(deal, " pairs zigzag counter ")) {
        verify_fail(v, tiles, "`deal` is none of pairs zigzag counter");
    } else if (deal && text_equal(deal, "counter") &&
               (tiles->n_results == 0 ||
                tiles->results[tiles->n_results - 1]->type != type_scalar(v->func, DT_I32))) {
        verify_fail(v, tiles, "the last value that it carries is no i32, the tile's number");
    } else if (deal && op_int(tiles, ATTR_TILE_INDEX, 0)) {
        verify_fail(v, tiles, "teams take tiles round by round");
    }
}

void verify_cluster_reduce(Verifier *v, const Op *op)
{
    const Op *around = op->parent->parent, *launch = op_enclosing(op, OP_LAUNCH);
    if (!launch || (around != launch && around->kind != OP_TILE_LOOP) ||
        op_int(launch, ATTR_CLUSTER, 1) < 2) {
        verify_fail(v, op, "not in the region of a launch with clusters");
    } else if (around != launch && !tile_loop_ring_index(around)) {
        verify_fail(v, op, "in a walk over tiles that does not carry how many came before");
    }
    if (!verify_is_among(op_word(op, ATTR_FN), " sum prod max min ")) {
        verify_fail(v, op, "`fn` is none of sum prod max min");
    }
    if (op->operands[0]->type != op->results[0]->type) {
        verify_fail(v, op, "the result has another type than the operand");
    }
}

/* Blocks that others wait for come here once. */
static bool is_once_a_block(const Op *op)
{
    const Op *around = op->parent->parent;
    while (around && around->kind == OP_FOR && op_int(around, ATTR_SINGLE_TRIP, 0)) {
        around = around->parent->parent;
    }
    const Op *launch = op_enclosing(op, OP_LAUNCH);
    return launch && (around == launch || around->kind == OP_ROLES) &&
           op_int(launch, ATTR_CLUSTER, 1) > 1 && !op_int(launch, ATTR_PERSISTENT, 0);
}

void verify_cluster_scatter(Verifier *v, const Op *op)
{
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    Type from = op->operands[0]->type, to = op->results[0]->type;
    if (!is_once_a_block(op)) {
        verify_fail(v, op, "not in the region of a launch with clusters, once a block");
        return;
    }
    if (!verify_is_among(op_word(op, ATTR_FN), " sum prod max min ")) {
        verify_fail(v, op, "`fn` is none of sum prod max min");
    }
    if (from->kind != TYPE_ARRAY || to->kind != TYPE_ARRAY || axis < 0 || axis >= from->rank ||
        to->rank != from->rank || to->dtype != from->dtype) {
        verify_fail(v, op, "the result has other axes or elements than the operand");
        return;
    }
    int64_t blocks = op_int(op_enclosing(op, OP_LAUNCH), ATTR_CLUSTER, 1);
    for (int i = 0; i < from->rank; i++) {
        bool part = poly_capacity(to->dims[i]) * blocks == poly_capacity(from->dims[i]);
        if (i == axis ? !part : to->dims[i] != from->dims[i]) {
            verify_fail(v, op, "axis %d of the result", i);
        }
    }
}

/* True if one extent is the number of parts of the other. */
static bool has_parts(Dim whole, Dim parts, int64_t by)
{
    const DimVar *var = poly_as_var(parts);
    int64_t n, all;
    bool known = poly_is_const(parts, &n) && poly_is_const(whole, &all);
    return by > 0 && (known ? n == ceil_div(all, by) : var && var->by == by);
}

void verify_parts(Verifier *v, const Op *op)
{
    Type from = op->operands[0]->type, to = op->results[0]->type;
    int axis = (int)op_int(op, ATTR_AXIS, -1);
    int64_t by = op_int(op, ATTR_BY, 0);
    bool same =
        axis >= 0 && axis < from->rank && to->rank == from->rank && to->dtype == from->dtype;
    for (int i = 0; same && i < from->rank; i++) {
        same = i == axis || from->dims[i] == to->dims[i];
    }
    bool reduces = op->kind == OP_REDUCE_PARTS;
    if (!same || !has_parts(reduces ? from->dims[axis] : to->dims[axis],
                            reduces ? to->dims[axis] : from->dims[axis], by)) {
        verify_fail(v, op, "the result has not the operand's axes with an element for each part");
    }
}
