/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a value is computed from sums and then rounded to 16 bits, so that a function of
 * it may be approximated. A further sum, a maximum or a gather keeps the error of its operands, so
 * the answer depends on what follows these ops. */
#include "passes/analysis/rounded_sums.h"

#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"

typedef struct Ops {
    Arena *arena;
    Op **items;
    size_t n, cap;
} Ops;

static void collect(Op *op, void *user)
{
    Ops *ops = user;
    ARENA_PUSH(ops->arena, ops, op);
}

/* Each element of the result is made of one of each operand. */
static bool is_plain(const Op *op)
{
    return op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
}

/* Each element of the result is one of the first operand, or a sum of some: it is as far off as
 * they are. */
static bool passes_on(const Op *op)
{
    const char *fn = op->kind == OP_REDUCE ? op_word(op, ATTR_FN) : "";
    return op->kind == OP_GATHER || text_equal(fn, "sum") || text_equal(fn, "max") ||
           text_equal(fn, "min");
}

static bool is_f32(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->dtype == DT_F32;
}

/* Integers count, too: the library's logarithm takes its argument's exponent out of its bits. */
static bool carries_sums(const Value *value)
{
    return value->type->kind == TYPE_ARRAY &&
           (value->type->dtype == DT_F32 || value->type->dtype == DT_I32);
}

static bool is_sum(const Op *op)
{
    const char *fn = op->kind == OP_REDUCE ? op_word(op, ATTR_FN) : "";
    return op->kind == OP_DOT || text_equal(fn, "sum") || text_equal(fn, "prod");
}

static void mark_sums(const RoundedSums *n, const Op *op)
{
    const Value *result = op->n_results == 1 ? op->results[0] : NULL;
    const Value *memory = op->kind == OP_LOAD || op->kind == OP_STORE ? op->operands[0] : NULL;
    const Op *loop = op->kind == OP_YIELD ? op->parent->parent : NULL;
    for (int i = 0; loop && loop->kind == OP_FOR && i < op->n_operands; i++) {
        n->sums[loop->results[i]->id] |= n->sums[op->operands[i]->id];
    }
    if (op->kind == OP_STORE) {
        n->stored[memory->index] |= n->sums[op->operands[op->n_operands - 1]->id];
    }
    if (!result || !carries_sums(result)) {
        return;
    }
    uint64_t sums = is_sum(op) ? (uint64_t)1 << (result->id & 63) : 0;
    sums |= memory ? n->stored[memory->index] : 0;
    bool named = false;
    int n_plain = is_plain(op) ? op->n_operands : 0;
    for (int i = 0; i < (passes_on(op) ? 1 : n_plain); i++) {
        sums |= n->sums[op->operands[i]->id];
        named = named || n->named[op->operands[i]->id];
    }
    n->sums[result->id] = sums;
    bool bounded = op->kind == OP_NAMED && named_function(op_word(op, ATTR_FN))->share > 0;
    n->named[result->id] = sums && (named || bounded);
}

/* Is what a function is taken of subtracted from it (or added to it)? x - tanh(x) is much smaller
 * than either, and has their errors. */
static bool may_cancel(const RoundedSums *n, const Op *op)
{
    bool fused = op->kind == OP_FMA;
    if (op->kind != OP_ADD && op->kind != OP_SUB && !fused) {
        return false;
    }
    uint32_t a = op->operands[0]->id, c = op->operands[1]->id, d = op->operands[fused ? 2 : 1]->id;
    bool named = n->named[a] || (fused && n->named[c]);
    return named != n->named[d] && ((n->sums[a] | (fused ? n->sums[c] : 0)) & n->sums[d]);
}

/* Is all that the op makes of its operands rounded to 16 bits? */
static bool is_rounded(const RoundedSums *n, const Op *op)
{
    bool narrows = op->kind == OP_CAST && dtype_is_narrow(op->results[0]->type->dtype);
    return narrows || ((is_plain(op) || passes_on(op)) && is_f32(op->results[0]) &&
                       !n->wide[op->results[0]->id] && !may_cancel(n, op));
}

static void mark_wide(const RoundedSums *n, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !is_rounded(n, op)) {
            n->wide[op->operands[i]->id] = true;
        }
    }
}

RoundedSums an_rounded_sums(Func *func)
{
    RoundedSums n = {.func = func};
    n.sums = ARENA_ARRAY(func->arena, uint64_t, func->n_values);
    n.named = ARENA_ARRAY(func->arena, bool, func->n_values);
    n.stored = ARENA_ARRAY(func->arena, uint64_t, func->params.n);
    n.wide = ARENA_ARRAY(func->arena, bool, func->n_values);
    Ops ops = {.arena = func->arena};
    func_walk(func, collect, &ops);
    for (size_t i = 0; i < ops.n; i++) {
        mark_sums(&n, ops.items[i]);
    }
    for (size_t i = ops.n; i-- > 0;) {
        mark_wide(&n, ops.items[i]);
    }
    return n;
}

bool an_made_of_sums(const RoundedSums *sums, const Op *op)
{
    bool made = false;
    for (int i = 0; i < op->n_operands; i++) {
        made = made || sums->sums[op->operands[i]->id];
    }
    return made;
}

bool an_rounds_sums(const RoundedSums *sums, const Op *op)
{
    return an_made_of_sums(sums, op) && !sums->wide[op->results[0]->id];
}

/* Is each use of the value a sum or a rounding? `any`: one is a sum. */
static bool sums_or_rounds(const RoundedSums *n, Memo *seen, const Value *value, bool *any)
{
    bool good = true;
    int64_t known;
    const Block *body = n->func->body;
    if (memo_known(seen, value, 0, &known)) {
        return known != 0;
    }
    for (const ValueUse *use = use_first(value, body); use && good; use = use_next(use, body)) {
        const Op *op = use->op;
        bool adds = op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum");
        bool passes = op_moves_axes(op) || (op->kind == OP_SELECT && op->operands[0] != value);
        *any = *any || adds;
        good = adds || (passes && sums_or_rounds(n, seen, op->results[0], any)) ||
               is_rounded(n, op);
    }
    return memo_keep(seen, value, 0, good) != 0;
}

bool an_only_summed(const RoundedSums *sums, const Value *value)
{
    bool any = false;
    Memo *seen = memo_open((Func *)sums->func);
    bool good = is_f32(value) && sums_or_rounds(sums, seen, value, &any) && any;
    memo_close(seen);
    return good;
}

/* Is all that is made of the value made of sums, too, before it is rounded? */
static bool meets_sums(const RoundedSums *n, Memo *seen, const Value *value)
{
    bool good = true;
    int64_t known;
    const Block *body = n->func->body;
    if (memo_known(seen, value, 0, &known)) {
        return known != 0;
    }
    for (const ValueUse *use = use_first(value, body); use && good; use = use_next(use, body)) {
        const Op *op = use->op;
        good = is_rounded(n, op) && is_f32(op->results[0]) &&
               (n->sums[op->results[0]->id] || meets_sums(n, seen, op->results[0]));
    }
    return memo_keep(seen, value, 0, good) != 0;
}

bool an_only_meets_sums(const RoundedSums *sums, const Value *value)
{
    Memo *seen = memo_open((Func *)sums->func);
    bool good = is_f32(value) && meets_sums(sums, seen, value);
    memo_close(seen);
    return good;
}
