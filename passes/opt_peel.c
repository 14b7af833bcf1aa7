/* SPDX-License-Identifier: Apache-2.0 */
/* peel: splits hot loops into full tiles, which need no masks, and the rest.
 *
 *   for %j from lo to hi {                    mid = the end of the last tile that is full, and all
 *     %s = select (%i >= %j), %x, -inf   →          of whose elements satisfy %i >= %j
 *     … dot … }                               for %j from lo to mid full=1 { %s = %x; … dot … }
 *                                             for %j from mid to hi { as before }
 *
 * A loop is hot when products of a matrix unit are directly in it. Its tail may be ragged, and a
 * causal mask (a comparison of the loop's index with that of a range around it, which holds for all
 * of the first tiles) is decided for whole tiles. Costs the loop's code twice. Requires: tile.
 * Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "passes/an_ranges.h"
#include "passes/pass.h"
#include "passes/tile.h"

typedef struct Peel {
    Func *func;
    Op *loop;
    const DimVar *range;
    Op *masks[8]; /* selects whose condition holds in early tiles */
    int n;
    Value
        *limit; /* i64: tiles that end at or before it satisfy all conditions; NULL: no condition */
} Peel;

/* The range whose absolute index this is, spread over a tile; NULL. */
static const DimVar *index_of(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_INDEX ? poly_as_range(op->operands[0]->type->dims[0]) : NULL;
}

/* `i >= j` or `i > j`, written either way round, of an outer range i and the loop's j. Returns i;
 * `slack` is how far past start(i) a tile of j may end. */
static const DimVar *early_condition(const Peel *p, const Op *cmp, int64_t *slack)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    bool forward = text_same(pred, "ge") || text_same(pred, "gt");
    bool backward = text_same(pred, "le") || text_same(pred, "lt");
    if (!forward && !backward) {
        return NULL;
    }
    const DimVar *i = index_of(cmp->operands[forward ? 0 : 1]);
    const DimVar *j = index_of(cmp->operands[forward ? 1 : 0]);
    *slack = pred[1] == 'e' ? 1 : 0;
    return j == p->range && i && i != j ? i : NULL;
}

static void lower_limit(Peel *p, Builder *b, const DimVar *outer, int64_t slack)
{
    Value *start = build_range_fact(b, OP_START, outer->binder);
    Value *limit = build_binary(b, OP_ADD, start, build_i64(b, slack));
    p->limit = p->limit ? build_binary(b, OP_MIN, p->limit, limit) : limit;
}

static void find_masks(Peel *p, Builder *b)
{
    for (Op *op = p->loop->regions[0]->first; op && p->n < 8; op = op->next) {
        const Op *cmp = op->kind == OP_SELECT ? op->operands[0]->def : NULL;
        int64_t slack;
        const DimVar *outer = cmp && cmp->kind == OP_CMP ? early_condition(p, cmp, &slack) : NULL;
        if (outer) {
            lower_limit(p, b, outer, slack);
            p->masks[p->n++] = op;
        }
    }
}

/* lo, plus as many whole steps as end at or before the limits. */
static Value *build_mid(const Peel *p, Builder *b)
{
    Value *lo = for_lo(p->loop), *step = build_i64(b, p->range->capacity);
    Value *hi = build_binary(b, OP_MIN, for_hi(p->loop), build_size(b, p->range->whole));
    hi = p->limit ? build_binary(b, OP_MIN, hi, p->limit) : hi;
    Value *steps = build_binary(b, OP_DIV, build_binary(b, OP_SUB, hi, lo), step);
    Value *mid = build_binary(b, OP_ADD, lo, build_binary(b, OP_MUL, steps, step));
    return build_binary(b, OP_MAX, lo, mid);
}

static void peel_loop(Peel *p, Builder *b)
{
    Value *mid = build_mid(p, b);
    CloneMap map = clone_map_new(p->func);
    Op *full = clone_op(b, &map, p->loop);
    op_set_int(p->func, full, ATTR_FULL, 1);
    full->operands[1] = mid;
    for (int i = 0; i < p->n; i++) {
        Op *mask = clone_get(&map, p->masks[i]->results[0])->def;
        func_replace_uses(p->func, mask->results[0], mask->operands[1]);
    }
    p->loop->operands[0] = mid;
    for (int i = 0; i < full->n_results; i++) {
        p->loop->operands[2 + i] = full->results[i];
    }
}

/* Products of matrix units: elsewhere masks are cheap beside the products, and the second loop's
 * tiles would take shared memory of their own. */
static bool has_products(Func *func, const Op *loop)
{
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_DOT && text_same(product_unit(func, op), "wgmma")) {
            return true;
        }
    }
    return false;
}

static bool has_elementwise_reduction(const Op *loop)
{
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_REDUCE) {
            return true;
        }
    }
    return false;
}

static void try_loop(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_FOR || op_int(op, ATTR_FULL, 0) || op_attr(op, ATTR_STEPS)->ints[0] <= 0 ||
        !has_products(func, op)) {
        return;
    }
    Peel p = {.func = func, .loop = op};
    p.range = poly_as_range(op->regions[0]->args[0]->type->dims[0]);
    Builder b = build_before(func, op);
    find_masks(&p, &b);
    /* Products alone read zeros past a tail: a ragged loop without reductions has no masks. */
    bool ragged = !range_is_full(p.range) && has_elementwise_reduction(op);
    if ((p.n > 0 || ragged) &&
        text_same(
            schedule_word(func, "peel", "", "on",
                          "tiles that are full and not cut by a mask have a loop of their own"),
            "on")) {
        peel_loop(&p, &b);
    }
}

/* Loops that are made here come before the one at hand, and are not met again. */
void pass_opt_peel(Func *func)
{
    if (func->target->family != FAMILY_CPU) {
        func_walk(func, try_loop, func);
        func_remove_dead(func);
    }
}
