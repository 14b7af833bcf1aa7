/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a value is used only as the argument of exponentials, behind scaling, shifting,
 * masking and maxima. An absolute error of such a value becomes a relative error of the
 * exponential, so it may be approximated where other values may not. */
#include "passes/analysis/exponential_uses.h"

#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"

#include <math.h>

typedef struct Reach {
    Func *func;
    Memo *seen;
} Reach;

static bool is_compared_with_inf(const Op *cmp)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    const Attr *left = value_const(cmp->operands[0]), *right = value_const(cmp->operands[1]);
    const Attr *number = left ? left : right;
    return (text_equal(pred, "eq") || text_equal(pred, "ne")) && number && isinf(number->f);
}

static bool ends_in_exponentials(Reach *r, const Value *value);

/* What a step carries on is the loop's result, and what the next step begins with. */
static bool is_carried_so(Reach *r, const Op *yield, const Value *value)
{
    const Op *loop = yield->parent->parent;
    for (int i = 0; i < yield->n_operands; i++) {
        if (yield->operands[i] == value &&
            (loop->kind != OP_FOR || !ends_in_exponentials(r, loop->results[i]) ||
             !ends_in_exponentials(r, loop->regions[0]->args[1 + i]))) {
            return false;
        }
    }
    return true;
}

static bool use_ends_so(Reach *r, const Op *op, const Value *value)
{
    const char *fn = op->kind == OP_NAMED || op->kind == OP_REDUCE ? op_word(op, ATTR_FN) : "";
    switch (op->kind) {
    case OP_NAMED: return text_equal(fn, "exp") || text_equal(fn, "exp2");
    case OP_FAST_EXP2: return true;
    case OP_CMP: return is_compared_with_inf(op);
    case OP_YIELD: return is_carried_so(r, op, value);
    case OP_REDUCE:
        return (text_equal(fn, "max") || text_equal(fn, "min")) &&
               ends_in_exponentials(r, op->results[0]);
    case OP_MUL:
    case OP_ADD:
    case OP_SUB:
    case OP_FMA:
    case OP_NEG:
    case OP_MIN:
    case OP_MAX:
    case OP_SELECT: return ends_in_exponentials(r, op->results[0]);
    default: return op_moves_axes(op) && ends_in_exponentials(r, op->results[0]);
    }
}

static bool ends_in_exponentials(Reach *r, const Value *value)
{
    const Block *body = r->func->body;
    if (!memo_visit(r->seen, value)) {
        return true; /* what was found so far does not say otherwise */
    }
    for (const ValueUse *use = use_first(value, body); use; use = use_next(use, body)) {
        if (!use_ends_so(r, use->op, value)) {
            return false;
        }
    }
    return true;
}

bool an_only_exponentiated(Func *func, const Value *value)
{
    Reach reach = {func, memo_open(func)};
    bool found = ends_in_exponentials(&reach, value);
    memo_close(reach.seen);
    return found;
}
