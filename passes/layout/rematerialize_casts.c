/* SPDX-License-Identifier: Apache-2.0 */
/* rematerialize_casts: recomputes upcasts after a barrier, so that the narrow values stay live
 * across it instead of the wide ones.
 *
 *   %x = load … : bf16[%m, %n]                 %x = load … : bf16[%m, %n]
 *   %a = cast %x : f32[%m, %n]                 %a = cast %x : f32[%m, %n]
 *   %s = reduce %a fn=sum                      %s = reduce %a fn=sum
 *   %t = cluster_reduce %s fn=sum         →    %t = cluster_reduce %s fn=sum
 *   %b = broadcast %t                          %b = broadcast %t
 *   %c = sub %a, %b                            %y = remat %x : bf16[%m, %n]
 *                                              %d = cast %y : f32[%m, %n]
 *                                              %c = sub %d, %b
 *
 * The row then occupies half of the registers, so twice as many blocks share a multiprocessor and
 * hide the time that barriers take; it costs one or two ops per element. In a cluster each
 * reduction gets values of its own, the squares behind a sum, too: the assembler would hold the
 * wide row for both. tile relies on it where all live values can be recomputed this way
 * (analysis/narrow_rows.h): a softmax keeps its exponentials live, but no wide value before them
 * except what the first barrier needs.
 *
 * Within a block the pass recomputes only where that is free: after a reduction that compares the
 * 16-bit elements in pairs, before anything is upcast, in launches of few warps that each own many
 * elements. With more warps, or fewer registers, the upcast is better done while other loads are in
 * flight (docs/lab/memory_bound.md). Requires: tile, bounds. Changes no bits. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/narrow_rows.h"
#include "passes/pass.h"
#include "passes/sync/combine_reductions.h"

enum {
    MIN_ELEMENTS = 32, /* of a thread, at least */
    MAX_WARPS = 4      /* of a block, at most */
};

typedef struct Remat {
    Func *func;
    RowDims rows;
    CloneMap now;  /* values computed since the last reduction across the cluster */
    CloneMap kept; /* of loads, the latest `remat` */
} Remat;

static bool is_older(const Value *value, const Op *barrier)
{
    for (const Op *op = value->def; op; op = op->next) {
        if (op == barrier) {
            return true;
        }
    }
    return false;
}

static Value *rematerialized(Remat *remat, Builder *at, Value *value, const Op *barrier)
{
    Op *op = value->def;
    bool constant = op && op->kind == OP_CONST;
    if (!op || constant || !an_along_rows(&remat->rows, value) || !is_older(value, barrier) ||
        !an_is_rematerializable(&remat->rows, value)) {
        return value;
    }
    Value *known = clone_get(&remat->now, value);
    if (known != value) {
        return known;
    }
    if (op->kind == OP_REMAT) {
        known = rematerialized(remat, at, op->operands[0], barrier);
        clone_map_value(&remat->now, value, known);
        return known;
    }
    if (op->kind == OP_LOAD) {
        Value *from = clone_get(&remat->kept, value);
        known = build_op(at, OP_REMAT, 1, &from, 1, &value->type, 0)->results[0];
        clone_map_value(&remat->kept, value, known);
        clone_map_value(&remat->now, value, known);
        return known;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i]) {
            rematerialized(remat, at, op->operands[i], barrier);
        }
    }
    at->span = op->span;
    return clone_op(at, &remat->now, op)->results[0];
}

/* True if no other op up to this one uses the value. */
static bool is_used_first_by(const Value *value, const Op *reduce)
{
    for (const Op *op = value->def->next; op != reduce; op = op->next) {
        for (int i = 0; i < op->n_operands; i++) {
            if (op->operands[i] == value) {
                return false;
            }
        }
    }
    return true;
}

/* True for a maximum or minimum of upcast 16-bit floats that codegen/gpu/gpu_reduce.c computes in
 * pairs. */
static bool compares_pairs(const Func *func, const Op *op)
{
    const Op *cast = op->kind == OP_REDUCE ? op->operands[0]->def : NULL;
    if (!func->target->has_packed_minmax || !cast || cast->kind != OP_CAST ||
        cast->parent != op->parent) {
        return false;
    }
    DType narrow = cast->operands[0]->type->dtype, wide = cast->results[0]->type->dtype;
    bool extreme =
        text_equal(op_word(op, ATTR_FN), "max") || text_equal(op_word(op, ATTR_FN), "min");
    return extreme && (narrow == DT_BF16 || narrow == DT_F16) && wide == DT_F32 &&
           is_used_first_by(cast->results[0], op);
}

/* True if a block has few warps, and each thread owns many elements of the tile. */
static bool holds_many(const Func *func, const Op *launch, Type tile)
{
    const Attr *warps = op_attr(launch, ATTR_WARPS);
    int64_t elements = 1;
    for (int i = 0; i < tile->rank; i++) {
        int64_t extent = poly_capacity(tile->dims[i]);
        if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements)) {
            return false;
        }
    }
    return warps && warps->n == 1 && warps->ints[0] <= MAX_WARPS &&
           elements > MIN_ELEMENTS * func->target->warp * warps->ints[0];
}

static void rewrite(Func *func, const Op *launch)
{
    Block *block = launch->regions[0];
    bool cluster = op_int(launch, ATTR_CLUSTER, 1) > 1;
    const Op *barrier = NULL;
    Remat remat = {.func = func, .rows = an_row_dims(block), .kept = clone_map_new(func)};
    if (cluster) { /* before values are computed again: adjacent reductions share them */
        combine_reductions(func, block, &remat.rows);
    }
    for (Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_operands && barrier; i++) {
            Builder at = build_before(func, op);
            if (op->operands[i]) {
                op_set_operand(op, i, rematerialized(&remat, &at, op->operands[i], barrier));
            }
        }
        bool folds = cluster && (op->kind == OP_CLUSTER_REDUCE || op->kind == OP_REDUCE);
        if (folds || (!cluster && compares_pairs(func, op) &&
                                              holds_many(func, launch, op->operands[0]->type))) {
            barrier = op;
            remat.now = clone_map_new(func);
        }
    }
}

void pass_rematerialize_casts(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            rewrite(func, op);
        }
    }
    func_remove_dead(func);
}
