/* SPDX-License-Identifier: Apache-2.0 */
/* bound_loops: lets loops over an axis skip the tiles to which a condition leaves no term.
 *
 *   for %k from 0 to K {                            end = the end of %i, in whole steps
 *     %m = select (%i >= %k), %x, 0          →      for %k from 0 to min(K, end) { as before }
 *     … dot %m, %y, %acc … }
 *
 * A loop carries sums, products, or greatest or least elements. Where a condition that each term
 * must satisfy bounds the loop's index, by the indices of ranges around the loop or by a value
 * that is known before it (`at[s] <= i and i < at[s + 1]`), tiles outside of the bounds change
 * nothing. Where a choice behind the loop drops the whole result, as the mask of a triangular
 * result does, the loop has no steps. Bounds are whole steps from the loop's begin, so that tiles
 * are as full and as aligned as before; what is masked in the tiles that are left stays masked.
 * Skips terms that are 0 times a number: docs/language.md, terms that do not count. Requires tile;
 * loops in which blocks of a cluster wait for each other stay as they are. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/pass.h"

enum { MAX_TERMS = 6, MAX_CONDITIONS = 16, MAX_DEPTH = 24 };

/* What a bound that comes from data is limited to, so that arithmetic on it does not overflow. */
static const int64_t MAX_DATA = (int64_t)1 << 60;

/* times * (the indices of a range around the loop, or a value that the loop does not change). */
typedef struct BoundTerm {
    Value *value; /* a range, or an array or scalar of i64 */
    int64_t times;
} BoundTerm;

/* of_loop * (the loop's index) + terms + base >= 0. */
typedef struct Bound {
    int64_t of_loop, base;
    BoundTerm terms[MAX_TERMS];
    int n;
} Bound;

typedef struct Bounder {
    Func *func;
    Op *loop;
    const DimVar *range;
} Bounder;

/* The bounds of one carried value: all must hold for a term to count. */
typedef struct Bounds {
    Bound items[MAX_CONDITIONS];
    int n;
} Bounds;

/* ---- what a comparison says ---- */

static bool is_inside(const Bounder *s, const Value *value)
{
    return value_is_inside(value, s->loop);
}

/* True if an index of a range takes part in the value. `seen` has the values in which none does. */
static bool find_index(Memo *seen, const Value *value)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    bool found = op->kind == OP_INDEX;
    bool computes = op_moves_axes(op) || op->kind == OP_ADD || op->kind == OP_SUB;
    for (int i = 0; computes && !found && i < op->n_operands; i++) {
        found = find_index(seen, op->operands[i]);
    }
    return found;
}

static bool has_index(const Value *value)
{
    Memo *seen = memo_about(value);
    bool found = find_index(seen, value);
    memo_close(seen);
    return found;
}

/* True if the value is there where the loop begins. */
static bool is_before_loop(const Bounder *s, const Value *value)
{
    const Op *def = value->def, *up = s->loop;
    while (def && up && up->parent != def->parent) {
        up = up->parent->parent;
    }
    return !def || (up && op_is_before(def, up));
}

/* Moves what is computed behind the loop, from values that are there before it, to before it. */
static bool move_before_loop(const Bounder *s, const Value *value, int depth)
{
    Op *def = value->def;
    if (is_before_loop(s, value)) {
        return true;
    }
    if (def->parent != s->loop->parent || !op_has(def, TRAIT_PURE) || def->n_regions ||
        depth > MAX_DEPTH) {
        return false;
    }
    for (int i = 0; i < def->n_operands; i++) {
        if (!move_before_loop(s, def->operands[i], depth + 1)) {
            return false;
        }
    }
    op_move_before(def, s->loop);
    return true;
}

static bool add_term(const Bounder *s, Bound *bound, Value *value, int64_t times)
{
    if (!move_before_loop(s, value, 0)) {
        return false;
    }
    for (int i = 0; i < bound->n; i++) {
        if (bound->terms[i].value == value) {
            bound->terms[i].times += times;
            return true;
        }
    }
    if (bound->n == MAX_TERMS) {
        return false;
    }
    bound->terms[bound->n++] = (BoundTerm){value, times};
    return true;
}

/* Adds a sum of indices and numbers, which cannot overflow. */
static bool add_indices(const Bounder *s, const Value *value, int64_t times, Bound *bound,
                        int depth)
{
    const Op *op = value->def;
    const Attr *number = op ? value_const(value) : NULL;
    if (!op || depth > MAX_DEPTH) {
        return false;
    }
    if (number) {
        bool small = number->i < (1 << 30) && number->i > -(1 << 30);
        bound->base += small ? times * number->i : 0;
        return small;
    }
    if (op_moves_axes(op)) {
        return add_indices(s, op->operands[0], times, bound, depth + 1);
    }
    switch (op->kind) {
    case OP_INDEX:
        if (poly_as_range(op->operands[0]->type->dims[0]) == s->range) {
            bound->of_loop += times;
            return true;
        }
        return add_term(s, bound, op->operands[0], times);
    case OP_SIZE: return add_term(s, bound, op->results[0], times);
    case OP_ADD:
    case OP_SUB:
        return add_indices(s, op->operands[0], times, bound, depth + 1) &&
               add_indices(s, op->operands[1], op->kind == OP_SUB ? -times : times, bound,
                           depth + 1);
    default: return false;
    }
}

/* One side of a comparison: places, or data that the loop does not change. */
static bool add_side(const Bounder *s, Value *value, int64_t times, Bound *bound)
{
    if (has_index(value) || value_const(value)) {
        return add_indices(s, value, times, bound, 0);
    }
    while (value->def && op_moves_axes(value->def) && value->def->kind != OP_PERMUTE) {
        value = value->def->operands[0];
    }
    if (value_const(value) || (value->def && value->def->kind == OP_SIZE)) {
        return add_indices(s, value, times, bound, 0);
    }
    bool single = true; /* one element along each of its axes */
    for (int i = 0; i < value->type->rank; i++) {
        single = single && poly_capacity(value->type->dims[i]) == 1;
    }
    /* The least and the greatest of several are found by all threads: not next to a product, whose
     * copies are another role's. */
    bool found = single || !block_contains(s->loop->regions[0], OP_DOT);
    return found && !is_inside(s, value) && add_term(s, bound, value, times);
}

static bool read_bound(const Bounder *s, const Op *cmp, Bound *bound)
{
    const char *pred = op_word(cmp, ATTR_PRED);
    bool less = pred[0] == 'l';
    *bound = (Bound){0};
    if (cmp->operands[0]->type->dtype != DT_I64 || text_equal(pred, "eq") ||
        text_equal(pred, "ne")) {
        return false;
    }
    bound->base = pred[1] == 't' ? -1 : 0;
    return add_side(s, cmp->operands[less], 1, bound) &&
           add_side(s, cmp->operands[!less], -1, bound);
}

/* ---- which terms count ---- */

static void add_condition(const Bounder *s, const Value *condition, Bounds *to, int depth)
{
    const Op *op = condition->def;
    if (!op || depth > MAX_DEPTH) {
        return;
    }
    if (op->kind == OP_AND) {
        add_condition(s, op->operands[0], to, depth + 1);
        add_condition(s, op->operands[1], to, depth + 1);
    } else if (op_moves_axes(op)) {
        add_condition(s, op->operands[0], to, depth + 1);
    } else if (op->kind == OP_CMP && to->n < MAX_CONDITIONS &&
               read_bound(s, op, &to->items[to->n])) {
        to->n++;
    }
}

/* The conditions without which the value is what changes nothing: 0 of sums, else `neutral`. */
static void find_conditions(const Bounder *s, const Value *value, double neutral, Bounds *to,
                            int depth)
{
    const Op *op = value->def;
    if (!op || depth > MAX_DEPTH || !is_inside(s, value)) {
        return;
    }
    if (op->kind == OP_SELECT && value_is_const(op->operands[2], neutral)) {
        add_condition(s, op->operands[0], to, 0);
        find_conditions(s, op->operands[1], neutral, to, depth + 1);
    } else if (op_moves_axes(op) || op->kind == OP_REDUCE ||
               (neutral == 0 && (op->kind == OP_CAST || op->kind == OP_NEG))) {
        find_conditions(s, op->operands[0], neutral, to, depth + 1);
    } else if (neutral == 0 && (op->kind == OP_MUL || op->kind == OP_DOT)) {
        find_conditions(s, op->operands[0], neutral, to, depth + 1);
        find_conditions(s, op->operands[1], neutral, to, depth + 1);
    }
}

static bool reduces_by(const Op *op, const char *fn)
{
    return op && op->kind == OP_REDUCE && op->n_operands == 1 &&
           text_equal(op_word(op, ATTR_FN), fn);
}

/* The conditions under which a step changes the carried value. False: it always may. */
static bool find_step(const Bounder *s, int carried, Bounds *to)
{
    const Block *body = s->loop->regions[0];
    const Value *from = body->args[1 + carried];
    const Op *op = body->last->operands[carried]->def;
    to->n = 0;
    if (!op || !is_inside(s, op->results[0])) {
        return false;
    }
    bool floats = dtype_is_float(op->results[0]->type->dtype);
    if (op->kind == OP_DOT && dot_accumulator(op) == from) {
        find_conditions(s, op->operands[0], 0, to, 0);
        find_conditions(s, op->operands[1], 0, to, 0);
        return to->n > 0;
    }
    if (op->n_operands != 2 || (op->operands[0] != from && op->operands[1] != from)) {
        return false;
    }
    const Value *term = op->operands[op->operands[0] == from];
    bool adds = op->kind == OP_ADD && term->def &&
                (reduces_by(term->def, "sum") || term->def->kind == OP_DOT);
    bool greatest = op->kind == OP_MAX && floats && reduces_by(term->def, "max");
    bool least = op->kind == OP_MIN && floats && reduces_by(term->def, "min");
    if (adds || greatest || least) {
        double neutral;
        if (adds) {
            neutral = 0;
        } else if (greatest) {
            neutral = -__builtin_inf();
        } else {
            neutral = __builtin_inf();
        }
        find_conditions(s, term, neutral, to, 0);
    }
    return to->n > 0;
}

/* ---- the bounds as values ---- */

/* The greatest (`fn` max) or least element, within the limits of arithmetic. */
static Value *extreme_element(Builder *b, Value *value, const char *fn)
{
    while (value->type->rank > 0) {
        Dim dim = value->type->dims[0];
        int64_t extent;
        if (!poly_is_const(dim, &extent) || extent != 1) {
            value = build_reduce(b, fn, value, 0);
            op_set_over(b->func, value->def, dim);
        }
        value = build_squeeze(b, value, 0);
    }
    value = build_binary(b, OP_MAX, value, build_i64(b, -MAX_DATA));
    return build_binary(b, OP_MIN, value, build_i64(b, MAX_DATA));
}

/* The greatest value that the terms and the base take over the tile. */
static Value *most_of(Builder *b, const Bound *bound)
{
    Value *sum = build_i64(b, bound->base);
    for (int i = 0; i < bound->n; i++) {
        const BoundTerm *term = &bound->terms[i];
        Value *most = term->value;
        int64_t times = term->times;
        if (most->type->kind == TYPE_RANGE) {
            most = build_range_fact(b, times > 0 ? OP_END : OP_START, most);
            most = times > 0 ? build_previous(b, most) : most;
        } else {
            most = extreme_element(b, most, times > 0 ? "max" : "min");
        }
        if (times != 1 && times != -1) {
            most = build_binary(b, OP_MUL, most, build_i64(b, times < 0 ? -times : times));
        }
        sum = build_binary(b, times < 0 ? OP_SUB : OP_ADD, sum, most);
    }
    return sum;
}

/* Where the loop may begin and end for one carried value; NULL: as it does. */
typedef struct Extent {
    Value *begin, *end;
} Extent;

static Value *joined(Builder *b, OpKind kind, Value *a, Value *c)
{
    if (!a) {
        return c;
    }
    return c ? build_binary(b, kind, a, c) : a;
}

static Extent extent_of(Builder *b, const Bounds *bounds)
{
    Extent extent = {NULL, NULL};
    for (int i = 0; i < bounds->n; i++) {
        const Bound *bound = &bounds->items[i];
        int64_t of = bound->of_loop;
        if (of == 0 || of > (1 << 20) || of < -(1 << 20)) {
            continue;
        }
        Value *most = most_of(b, bound);
        if (of > 0) { /* k >= -most / of, rounded up */
            Value *less = of == 1 ? most : build_binary(b, OP_DIV, most, build_i64(b, of));
            Value *least = build_binary(b, OP_SUB, build_i64(b, 0), less);
            extent.begin = joined(b, OP_MAX, extent.begin, least);
        } else { /* k <= most / -of */
            Value *last = of == -1 ? most : build_binary(b, OP_DIV, most, build_i64(b, -of));
            Value *end = build_binary(b, OP_ADD, last, build_i64(b, 1));
            extent.end = joined(b, OP_MIN, extent.end, end);
        }
    }
    return extent;
}

/* ---- results that are dropped ---- */

/* The choices that drop all that is made of a result where their conditions do not hold. Only those
 * next to the loop count: one in a later loop depends on that loop's tile. */
static void find_choices(const Bounder *s, const Value *result, Bounds *to, int depth)
{
    Op *user = value_only_user(s->func, result);
    if (!user || user->parent != s->loop->parent || depth > MAX_DEPTH) {
        return;
    }
    if (user->kind == OP_SELECT && user->operands[1] == result) {
        add_condition(s, user->operands[0], to, 0);
    }
    if (user->n_results == 1 && (op_moves_axes(user) || op_has(user, TRAIT_ELEMENTWISE))) {
        find_choices(s, user->results[0], to, depth + 1);
    }
}

/* Whether any element of the tile is kept; NULL: that is not known. */
static Value *is_asked(Builder *b, const Bounds *bounds)
{
    Value *asked = NULL;
    for (int i = 0; i < bounds->n; i++) {
        const Bound *bound = &bounds->items[i];
        if (bound->of_loop == 0) {
            Value *zero = build_i64(b, 0), *holds = build_cmp(b, "ge", most_of(b, bound), zero);
            asked = joined(b, OP_AND, asked, holds);
        }
    }
    return asked;
}

/* ---- the loop ---- */

/* lo, and as many whole steps as there are up to `to`, rounded down or up. */
static Value *whole_steps(const Bounder *s, Builder *b, Value *to, bool up)
{
    Value *lo = for_lo(s->loop), *step = build_i64(b, s->range->capacity);
    Value *zero = build_i64(b, 0);
    Value *some = build_binary(b, OP_MAX, build_binary(b, OP_SUB, to, lo), zero);
    some = up ? build_binary(b, OP_ADD, some, build_i64(b, s->range->capacity - 1)) : some;
    Value *steps = build_binary(b, OP_DIV, some, step);
    return build_binary(b, OP_ADD, lo, build_binary(b, OP_MUL, steps, step));
}

/* True if the loop's steps do nothing but change what it carries. */
static bool only_carries(const Op *loop)
{
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        if (op->n_regions || (!op_has(op, TRAIT_PURE) && op->kind != OP_YIELD)) {
            return false;
        }
    }
    return for_carried(loop) > 0;
}

static bool waits_for_others(const Op *loop)
{
    const Op *launch = op_enclosing(loop, OP_LAUNCH);
    const Attr *multicast = launch ? op_attr(launch, ATTR_MULTICAST) : NULL;
    return !launch || op_int(launch, ATTR_CLUSTER, 1) > 1 || multicast;
}

/* True if the loop walks its axis, or the block's part of it, from one end to the other: the source
 * has not bounded it. */
static bool is_unbounded(const Op *loop, const DimVar *range)
{
    const Op *size = value_def_of_kind(for_hi(loop), OP_SIZE);
    bool whole = value_is_const(for_lo(loop), 0) && size &&
                 op_attr(size, ATTR_DIM)->dims[0] == range->axis_extent;
    int64_t extent;
    bool number = value_is_const(for_lo(loop), 0) && poly_is_const(range->axis_extent, &extent) &&
                  value_is_const(for_hi(loop), (double)extent);
    return whole || number || op_int(loop, ATTR_PART, 0);
}

/* The end of what two extents cover; NULL: one of them has none. */
static Value *union_end(Builder *b, OpKind kind, Value *a, Value *c)
{
    return a && c ? build_binary(b, kind, a, c) : NULL;
}

static void bound_loop(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_FOR || op_attr(op, ATTR_STEPS)->ints[0] <= 0 ||
        op_int(op, ATTR_SINGLE_TRIP, 0) || op_int(op, ATTR_DESCENDING, 0) || !only_carries(op) ||
        waits_for_others(op)) {
        return;
    }
    Bounder s = {.func = func, .loop = op};
    s.range = poly_as_range(op->regions[0]->args[0]->type->dims[0]);
    if (!is_unbounded(op, s.range)) {
        return;
    }
    Bounds *bounds = ARENA_NEW(func->arena, Bounds);
    Builder b = build_before(func, op);
    Extent all = {NULL, NULL};
    Value *asked = NULL;
    for (int i = 0; i < for_carried(op); i++) {
        if (!find_step(&s, i, bounds) && for_carried(op) > 1) {
            return;
        }
        Extent extent = extent_of(&b, bounds);
        if (i == 0) {
            all = extent;
        } else {
            all.begin = union_end(&b, OP_MIN, all.begin, extent.begin);
            all.end = union_end(&b, OP_MAX, all.end, extent.end);
        }
    }
    if (for_carried(op) == 1) {
        bounds->n = 0;
        find_choices(&s, op->results[0], bounds, 0);
        asked = is_asked(&b, bounds);
    }
    Value *end = all.end ? whole_steps(&s, &b, all.end, true) : NULL;
    end = end ? build_binary(&b, OP_MIN, for_hi(op), end) : for_hi(op);
    end = asked ? build_select(&b, asked, end, for_lo(op)) : end;
    if (all.begin) {
        Value *begin = whole_steps(&s, &b, all.begin, false);
        op_set_operand(op, 0, build_binary(&b, OP_MIN, begin, end));
    }
    op_set_operand(op, 1, end);
    if (all.begin || all.end || asked) {
        op_set_int(func, op, ATTR_BOUNDED, 1);
    }
}

void pass_bound_loops(Func *func)
{
    func_walk(func, bound_loop, func);
    func_remove_dead(func);
}
