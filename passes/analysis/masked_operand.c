/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through masks, permutations and roundings from an operand of a dot to the load or gather
 * that it comes from, so that the load can be staged in shared memory and masked there. */
#include "passes/analysis/masked_operand.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/dequant_scale.h"

enum { MAX_DEPTH = 24 };

static bool is_of_places(Memo *seen, const Value *value, int rank, int depth)
{
    const Op *op = value->def;
    int64_t known;
    if (!op || depth > MAX_DEPTH) {
        return !op && (value->type->kind != TYPE_ARRAY || value->type->rank < rank);
    }
    if (memo_known(seen, value, depth, &known)) {
        return true; /* or the answer would have been found */
    }
    memo_keep(seen, value, depth, 1);
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    bool good = reads ? value->type->rank < rank : op_has(op, TRAIT_PURE) && op->n_regions == 0;
    for (int i = 0; good && !reads && i < op->n_operands; i++) {
        good = !op->operands[i] || is_of_places(seen, op->operands[i], rank, depth + 1);
    }
    return good;
}

Value *an_kept_by_places(const Op *op)
{
    if (op->kind != OP_SELECT || !value_is_const(op->operands[2], 0)) {
        return NULL;
    }
    Memo *seen = memo_about(op->operands[0]);
    bool places = is_of_places(seen, op->operands[0], op->results[0]->type->rank, 0);
    memo_close(seen);
    return places ? op->operands[1] : NULL;
}

/* What the operand is, behind masks, permutes and roundings. */
static const Value *behind_masks(const Op *dot, int side, bool *masked)
{
    const Value *value = dot->operands[side], *next = value;
    *masked = false;
    while (next && value->def) {
        const Op *op = value->def;
        bool passes = op->kind == OP_TF32 || op_moves_axes(op);
        next = passes ? op->operands[0] : an_kept_by_places(op);
        *masked = *masked || (next && !passes);
        value = next ? next : value;
    }
    return value;
}

Op *an_masked_load(const Func *func, const Op *dot, int side)
{
    bool masked;
    const Value *value = behind_masks(dot, side, &masked);
    bool found = value->def && value->def->kind == OP_LOAD;
    return found ? value->def : an_operand_load(func, dot, side);
}

Op *an_masked_read(const Func *func, const Op *dot, int side)
{
    bool masked;
    Op *def = behind_masks(dot, side, &masked)->def;
    return def && def->kind == OP_GATHER ? def : an_masked_load(func, dot, side);
}

bool an_is_masked(const Op *dot, int side)
{
    bool masked;
    behind_masks(dot, side, &masked);
    return masked;
}
