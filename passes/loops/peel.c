/* SPDX-License-Identifier: Apache-2.0 */
/* peel: splits hot loops into full tiles, which need no masks, and the rest.
 *
 *   for %j from lo to hi {                    mid = the end of the last full tile whose elements
 *     %s = select (%i >= %j), %x, -inf   →          all satisfy %i >= %j
 *     … dot … }                               for %j from lo to mid full_tiles=1 { %s = %x; … }
 *                                             for %j from mid to hi { as before }
 *
 * A loop is hot if it directly contains a dot of warp groups, or of operands that are masked in
 * shared memory. Its last tile may be
 * ragged. A mask is decided per tile if it compares the loop's index with the index of a range
 * around the loop (a causal mask) or with a number that is known before the loop (`%j <
 * %length`), with numbers added, and is true for all of the first tiles, or for all but the first.
 * The loop's code is emitted twice, or three times if the first tiles are masked, as in a loop over
 * queries.
 * Requires: tile. Changes no bits. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/masked_operand.h"
#include "passes/analysis/range_facts.h"
#include "passes/pass.h"
#include "passes/tile/tile.h"

enum { MAX_CONDITIONS = 8 };

/* The greatest number from data that a loop is compared with. */
static const int64_t MAX_DATA = (int64_t)1 << 60;

typedef struct Peel {
    Func *func;
    Op *loop;
    const DimVar *range;
    Op *masks[8]; /* selects whose condition is true in all early tiles, or in all late ones */
    int n;
    Value *from; /* i64: tiles that begin at or after it satisfy all of late ones; NULL: none */
    Value *limit; /* i64: tiles that end at or before it satisfy all conditions; NULL: none */
} Peel;

typedef struct Condition {
    Value *outer; /* the range around that the loop's is compared with, or a scalar of i64 or i32 */
    bool late;     /* it is true where the loop's index is the greater one */
    int64_t slack; /* 1: also where they are equal; more: also for an index less by `slack - 1` */
} Condition;

/* The conjuncts of one mask. */
typedef struct Conditions {
    Condition items[MAX_CONDITIONS];
    int n;
} Conditions;

/* The index of a range without a number that is added to it. Another value stays as it is: sums of
 * data may overflow. */
static const Value *without_number(const Value *side, int64_t *plus)
{
    const Value *value = value_unstretched(side);
    *plus = 0;
    while (value->def && (value->def->kind == OP_ADD || value->def->kind == OP_SUB) &&
           value_const(value->def->operands[1])) {
        int64_t number = value_const(value->def->operands[1])->i;
        *plus += value->def->kind == OP_ADD ? number : -number;
        value = value_unstretched(value->def->operands[0]);
    }
    if (!range_of_index(value)) {
        *plus = 0;
        return value_unstretched(side);
    }
    return value;
}

/* A side of a comparison without the loop's index: the range around whose index it is, or a scalar
 * that is there before the loop; else NULL. */
static Value *outer_of(const Peel *p, const Value *side)
{
    const DimVar *range = range_of_index(side);
    DType dtype = side->type->dtype;
    bool scalar = side->type->rank == 0 && (dtype == DT_I64 || dtype == DT_I32);
    if (range) {
        return range != p->range ? range->binder : NULL;
    }
    return scalar && !value_is_inside(side, p->loop) ? (Value *)side : NULL;
}

/* `i >= j` or `i > j`, written either way round, of the loop's index and what does not change in
 * the loop, with numbers added to either. */
static bool read_comparison(const Peel *p, const Op *cmp, Condition *is)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    bool forward = text_equal(pred, "ge") || text_equal(pred, "gt");
    bool backward = text_equal(pred, "le") || text_equal(pred, "lt");
    if (!forward && !backward) {
        return false;
    }
    int64_t above, below;
    const Value *more = without_number(cmp->operands[forward ? 0 : 1], &above);
    const Value *less = without_number(cmp->operands[forward ? 1 : 0], &below);
    bool late = range_of_index(more) == p->range;
    *is = (Condition){outer_of(p, late ? less : more), late, (pred[1] == 'e') + above - below};
    return range_of_index(late ? more : less) == p->range && is->outer;
}

/* False: there is a conjunct that cannot be decided per tile. */
static bool read_mask(const Peel *p, const Value *mask, Conditions *to)
{
    while (mask->def && op_moves_axes(mask->def)) {
        mask = mask->def->operands[0];
    }
    const Op *op = mask->def;
    if (op && op->kind == OP_AND) {
        return read_mask(p, op->operands[0], to) && read_mask(p, op->operands[1], to);
    }
    return op && op->kind == OP_CMP && to->n < MAX_CONDITIONS &&
           read_comparison(p, op, &to->items[to->n]) && ++to->n;
}

/* Where the last tile may end that satisfies it, or the first one begin. A number from data is
 * limited, so that the sum does not overflow. */
static void add_condition(Peel *p, Builder *b, const Condition *is)
{
    Value *edge = is->outer;
    int64_t slack = is->slack;
    if (edge->type->kind == TYPE_RANGE) {
        edge = build_range_fact(b, is->late ? OP_END : OP_START, edge);
    } else {
        edge = edge->type->dtype == DT_I64 ? edge : build_cast(b, edge, DT_I64);
        edge = build_binary(b, OP_MAX, edge, build_i64(b, -MAX_DATA));
        edge = build_binary(b, OP_MIN, edge, build_i64(b, MAX_DATA));
        slack -= is->late; /* the end of a range is behind its greatest index */
    }
    OpKind move = is->late ? OP_SUB : OP_ADD, join = is->late ? OP_MAX : OP_MIN;
    edge = build_binary(b, move, edge, build_i64(b, slack));
    Value **limit = is->late ? &p->from : &p->limit;
    *limit = *limit ? build_binary(b, join, *limit, edge) : edge;
}

static void find_masks(Peel *p, Builder *b)
{
    for (Op *op = p->loop->regions[0]->first; op && p->n < 8; op = op->next) {
        Conditions conditions = {.n = 0};
        if (op->kind == OP_SELECT && read_mask(p, op->operands[0], &conditions)) {
            for (int i = 0; i < conditions.n; i++) {
                add_condition(p, b, &conditions.items[i]);
            }
            p->masks[p->n++] = op;
        }
    }
}

static Value *loop_end(const Peel *p, Builder *b)
{
    Value *whole = build_size(b, p->range->axis_extent);
    return build_binary(b, OP_MIN, for_hi(p->loop), whole);
}

/* lo, plus the whole steps before the late conditions become true. */
static Value *build_first(const Peel *p, Builder *b)
{
    Value *lo = for_lo(p->loop), *step = build_i64(b, p->range->capacity);
    Value *zero = build_i64(b, 0);
    Value *before = build_binary(b, OP_MAX, build_binary(b, OP_SUB, p->from, lo), zero);
    before = build_binary(b, OP_ADD, before, build_i64(b, p->range->capacity - 1));
    Value *steps = build_binary(b, OP_DIV, before, step);
    Value *first = build_binary(b, OP_ADD, lo, build_binary(b, OP_MUL, steps, step));
    return build_binary(b, OP_MAX, lo, build_binary(b, OP_MIN, first, loop_end(p, b)));
}

/* lo, plus as many whole steps as end at or before the limit (NULL: none) and the loop's end. */
static Value *build_mid(const Peel *p, Builder *b, Value *limit)
{
    Value *lo = for_lo(p->loop), *step = build_i64(b, p->range->capacity), *hi = loop_end(p, b);
    hi = limit ? build_binary(b, OP_MIN, hi, limit) : hi;
    Value *steps = build_binary(b, OP_DIV, build_binary(b, OP_SUB, hi, lo), step);
    Value *mid = build_binary(b, OP_ADD, lo, build_binary(b, OP_MUL, steps, step));
    return build_binary(b, OP_MAX, lo, mid);
}

static void go_on_from(Op *loop, const Op *before)
{
    for (int i = 0; i < before->n_results; i++) {
        op_set_operand(loop, 2 + i, before->results[i]);
    }
}

/* The first tiles, as they are, by a loop before the others. */
static void peel_first(Peel *p, Builder *b)
{
    Value *first = build_first(p, b);
    CloneMap map = clone_map_new(p->func);
    Op *copy = clone_op(b, &map, p->loop);
    op_set_operand(copy, 1, first);
    op_set_operand(p->loop, 0, first);
    go_on_from(p->loop, copy);
}

/* Full tiles up to `mid`, by a loop before the others. */
static void peel_full(Peel *p, Builder *b, CloneMap *map, Value *mid)
{
    Op *full = clone_op(b, map, p->loop);
    op_set_int(p->func, full, ATTR_FULL_TILES, 1);
    op_set_operand(full, 1, mid);
    op_set_operand(p->loop, 0, mid);
    go_on_from(p->loop, full);
}

/* A tail that ends among real data is mended in shared memory, between products that would else be
 * in flight together (passes/async/sink_dot_waits.c): masked tiles that are full have a loop
 * without it. Of two products, `pipeline_dots` has an eye to it. */
static bool tail_is_mended(const Peel *p)
{
    int dots = 0;
    for (const Op *op = p->loop->regions[0]->first; op; op = op->next) {
        dots += op->kind == OP_DOT;
    }
    return p->limit && dots > 2 && !range_is_full(p->range) && !range_walks_whole(p->range);
}

static void peel_loop(Peel *p, Builder *b)
{
    if (p->from) {
        peel_first(p, b);
    }
    CloneMap map = clone_map_new(p->func);
    peel_full(p, b, &map, build_mid(p, b, p->limit));
    for (int i = 0; i < p->n; i++) {
        Op *mask = clone_get(&map, p->masks[i]->results[0])->def;
        func_replace_uses(p->func, mask->results[0], mask->operands[1]);
    }
    if (tail_is_mended(p)) {
        CloneMap masked = clone_map_new(p->func);
        peel_full(p, b, &masked, build_mid(p, b, NULL));
    }
}

/* Operands that the copy engine brings to fused multiply-adds are masked in shared memory, between
 * two barriers: full tiles do without. */
static bool is_masked_in_ring(const Func *func, const Op *dot)
{
    bool masked = an_is_masked(dot, 0) || an_is_masked(dot, 1);
    return masked && func->target->has_setmaxnreg && tile_operands_stay_out(func, dot);
}

/* Only dots of warp groups, and those: elsewhere masks are cheap compared with the dots, and the
 * tiles of the second loop would need shared memory of their own. */
static bool has_products(Func *func, const Op *loop)
{
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_DOT) {
            const MatrixInstr *unit = dot_instruction(func, op);
            if (unit ? mma_warps(unit) > 1 : is_masked_in_ring(func, op)) {
                return true;
            }
        }
    }
    return false;
}

/* True if the value depends on a dot of the loop through element-wise ops. Its padding is then
 * not zero. */
static bool find_made(const Peel *p, Memo *seen, const Value *operand, int depth)
{
    const Op *op = operand->def;
    int64_t found;
    if (!op || op->parent != p->loop->regions[0] || depth > 12 ||
        memo_known(seen, operand, depth, &found)) {
        return false; /* where it was seen: or the search would have ended */
    }
    memo_keep(seen, operand, depth, 1);
    bool dot_value = op->kind == OP_DOT;
    for (int i = 0; i < op->n_operands && op_has(op, TRAIT_ELEMENTWISE) && !dot_value; i++) {
        dot_value = find_made(p, seen, op->operands[i], depth + 1);
    }
    return dot_value;
}

static bool is_made(const Peel *p, const Value *operand)
{
    Memo *seen = memo_open(p->func);
    bool dot_value = find_made(p, seen, operand, 0);
    memo_close(seen);
    return dot_value;
}

/* Reductions need padding with the identity element, and so do dots of values computed along the
 * range. Other dots read zeros past a tail. */
static bool masks_its_tail(const Peel *p)
{
    for (const Op *op = p->loop->regions[0]->first; op; op = op->next) {
        const Value *left = op->kind == OP_DOT ? op->operands[0] : NULL;
        bool along = left && poly_as_range(left->type->dims[1]) == p->range && is_made(p, left);
        if (op->kind == OP_REDUCE || along) {
            return true;
        }
    }
    return false;
}

static void try_loop(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_FOR || op_int(op, ATTR_FULL_TILES, 0) ||
        op_attr(op, ATTR_STEPS)->ints[0] <= 0 || !has_products(func, op)) {
        return;
    }
    Peel p = {.func = func, .loop = op};
    p.range = poly_as_range(op->regions[0]->args[0]->type->dims[0]);
    Builder b = build_before(func, op);
    find_masks(&p, &b);
    bool ragged = !range_is_full(p.range) && masks_its_tail(&p);
    if ((p.n > 0 || ragged) &&
        schedule_decide_on(func, "peel", true,
                           "tiles that are full and not cut by a mask have a loop of their own")) {
        peel_loop(&p, &b);
    }
}

/* The new loops come before this one, so the walk does not visit them. */
void pass_peel(Func *func)
{
    if (func->target->family != FAMILY_CPU) {
        func_walk(func, try_loop, func);
        func_remove_dead(func);
    }
}
