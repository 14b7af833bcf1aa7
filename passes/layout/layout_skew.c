/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the skew of swizzled operands of FMA dots: by how many bits the row index is shifted
 * before it is XORed with the index of the 16-byte vector.
 *
 * If k is contiguous, the lanes of a warp read the same k of different rows. The swizzle puts the
 * vectors of eight consecutive rows into different banks. If each thread owns four adjacent rows,
 * the rows of adjacent lanes are four apart, and every second one would be in the same bank.
 * Shifted by two bits, the four rows of a thread count as one. */
#include "passes/analysis/bank_conflicts.h"
#include "passes/layout/assign_layouts.h"

#include "support/text.h"

enum { MAX_SKEW = 5 };

typedef struct Skew {
    LayoutPass *pass;
    const Value *shared;
    SharedTile tile;
    bool fixed; /* an op that does not support skew accesses the buffer */
    bool read;
    int64_t turns, least; /* with the tile as it is; without bank conflicts */
} Skew;

/* What the lanes of a warp read at one k: their rows (of the product's axis), side by side k. */
static Layout rows_read(const Layout *product, int axis, const SharedTile *tile)
{
    Layout layout = {.rank = 2};
    for (int64_t at = 1; at * tile->elem_bytes < 16 && at < tile->extents[1]; at *= 2) {
        layout.basis[IN_REGISTER][layout.bits[IN_REGISTER]++][1] = (int32_t)at;
    }
    layout.bits[IN_LANE] = product->bits[IN_LANE];
    for (int bit = 0; bit < product->bits[IN_LANE]; bit++) {
        layout.basis[IN_LANE][bit][0] = product->basis[IN_LANE][bit][axis];
    }
    return layout;
}

static void count_turns(Op *op, void *user)
{
    Skew *skew = user;
    if (op->kind == OP_DOT || op->kind == OP_DOT_ASYNC) {
        for (int side = 0; side < 2; side++) {
            Access access = op_access_nth(op, side);
            if (access.n == 0 || access.memory != skew->shared) {
                continue;
            }
            const char *unit = op_word(op, ATTR_INSTRUCTION);
            bool along_k = side == 0 ? !op_int(op, ATTR_TA, 0) : op_int(op, ATTR_TB, 0) != 0;
            const Layout *product = op->results[0]->type->layout;
            skew->fixed = skew->fixed || !unit || !text_equal(unit, "fma") || !product;
            if (!skew->fixed && along_k) {
                Layout read = rows_read(product, side, &skew->tile);
                skew->turns += an_shared_wavefronts(skew->pass->func->target, &skew->tile, &read,
                                                    &skew->least);
                skew->read = true;
            }
        }
        return;
    }
    bool named = false;
    for (int i = 0; i < op->n_operands; i++) {
        named = named || op->operands[i] == skew->shared;
    }
    const Value *stored = op->n_operands ? op->operands[op->n_operands - 1] : NULL;
    if (named && op->kind == OP_SHARED_STORE && stored->type->layout) {
        skew->turns +=
            an_shared_wavefronts(skew->pass->func->target, &skew->tile, stored->type->layout,
                                 &skew->least);
    } else {
        skew->fixed = skew->fixed || named;
    }
}

static void choose_skew(Op *op, void *user)
{
    LayoutPass *pass = user;
    Type type = op->kind == OP_SHARED ? op->results[0]->type : NULL;
    if (!type || type->rank != 3 || !op_int(op, ATTR_SWIZZLE, 0) || op_attr(op, ATTR_SKEW) ||
        op_int(op, ATTR_PACKED, 0)) {
        return;
    }
    int64_t fewest = INT64_MAX, least = 0;
    int best = 0;
    for (int bits = 0; bits <= MAX_SKEW && fewest > least; bits++) {
        Skew skew = {
            .pass = pass,
            .shared = op->results[0],
            .tile = {.rank = 2,
                     .extents = {poly_capacity(type->dims[1]), poly_capacity(type->dims[2])},
                     .elem_bytes = dtype_bytes(type->dtype),
                     .swizzle = (int)op_int(op, ATTR_SWIZZLE, 0),
                     .skew = bits}};
        block_walk(op_enclosing(op, OP_LAUNCH)->regions[0], count_turns, &skew);
        if (skew.fixed || !skew.read) {
            return;
        }
        least = skew.least;
        if (skew.turns < fewest) {
            fewest = skew.turns;
            best = bits;
        }
    }
    if (best > 0) {
        op_set_int(pass->func, op, ATTR_SKEW, best);
    }
}

void layout_skew(LayoutPass *pass)
{
    func_walk(pass->func, choose_skew, pass);
}
