/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which values are recomputed at each use, in the layout of that use, instead of being
 * converted: constants, indices and arithmetic on them. */
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/layout/assign_layouts.h"

enum { CHEAP_DEPTH = 6 };

static bool cheap_at(Memo *memo, const Value *value, int depth);

static bool made_cheaply(Memo *memo, const Op *op, int depth)
{
    bool follows = op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
    for (int i = 0; follows && i < op->n_operands; i++) {
        follows = cheap_at(memo, op->operands[i], depth + 1);
    }
    return follows || op->kind == OP_CONST || op->kind == OP_INDEX || op->kind == OP_IOTA;
}

static bool cheap_at(Memo *memo, const Value *value, int depth)
{
    const Op *op = value->def;
    int64_t found;
    if (!layout_spreads(value)) {
        return true;
    }
    if (!op || depth > CHEAP_DEPTH) {
        return false;
    }
    return memo_known(memo, value, depth, &found)
               ? found != 0
               : memo_keep(memo, value, depth, made_cheaply(memo, op, depth)) != 0;
}

bool layout_is_cheap(const Value *value)
{
    Memo *memo = memo_about(value);
    bool cheap = cheap_at(memo, value, 0);
    memo_close(memo);
    return cheap;
}
