/* SPDX-License-Identifier: Apache-2.0 */
/* trail: a step's last product runs under the first ones of the next.
 *
 *   for %q, %c, %p:                          %e, %o = for %q, %c, %p:
 *     wait %full[%p]                           wait %full[%p]
 *     %s = dot_async %k, …                     %s = dot_async %k, …
 *     settle %s                                settle %c, %s
 *     %d = f(%s)                        →      arrive %empty[%p - 1], %p > %p0
 *     %e = dot_async %d, …, %c                 %d = f(%s)
 *     settle %e                                %e = dot_async %d, …, %c
 *     arrive %empty[%p]                        yield %e, %p + 1
 *     yield %e, %p + 1                       settle %e
 *                                            arrive %empty[%o - 1], %o > %p0
 *
 * Products end in the order of their issue: who waits for the first product of a step has waited
 * for the last one of the step before, whose end costs nothing then. Of several sums that are
 * carried the others are settled before the last product is issued: what they multiply would take
 * registers from the next step. A slot of the ring is held a little longer, so that rings of less
 * than three stay as they are. Loops that `overlap` has taken stay, too: their last product waits
 * for the next step's element-wise work. Requires: stage. Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "passes/pass.h"

enum { MOST_RINGS = 8, MOST_SETTLED = 8, LEAST_SLOTS = 3 };

typedef struct Trail {
    Func *func;
    Op *loop;
    Block *body;
    Op *first, *last;        /* settles */
    Op *dot;                 /* whose result is the newest that the last one settles */
    int carried;             /* what it goes on from, and becomes */
    Op *arrives[MOST_RINGS]; /* behind it */
    int ring[MOST_RINGS];    /* carried position of each */
    int n_arrives;
} Trail;

/* ---- the shape ---- */

static int carried_index(const Trail *t, const Value *value)
{
    bool carried = value && value->block == t->body && value->index > 0;
    return carried ? (int)value->index - 1 : -1;
}

/* The last one settled goes on from a carried value that nothing else reads, and becomes what is
 * carried on. */
static bool takes_product(Trail *t)
{
    int newest = t->last->n_operands - 1;
    Op *dot = newest < 0 ? NULL : t->last->operands[newest]->def;
    int at = dot && dot->kind == OP_DOT_ASYNC ? access_next(dot, access_next(dot, 0)) : 0;
    if (at == 0 || at >= dot->n_operands || dot->parent != t->body) {
        return false;
    }
    t->dot = dot;
    t->carried = carried_index(t, dot->operands[at]);
    return t->carried >= 0 && t->body->last->operands[t->carried] == t->last->results[newest] &&
           value_count_uses(t->func, t->last->results[newest]) == 1 &&
           value_count_uses(t->func, dot->operands[at]) == 1;
}

/* A ring's position that goes up by one with each step. */
static bool counts_steps(const Trail *t, int carried)
{
    const Op *next = carried >= 0 ? t->body->last->operands[carried]->def : NULL;
    const Op *one = next && next->kind == OP_ADD ? next->operands[1]->def : NULL;
    return one && carried_index(t, next->operands[0]) == carried && one->kind == OP_CONST &&
           op_attr(one, ATTR_VALUE)->i == 1;
}

static bool takes_arrive(Trail *t, Op *op)
{
    int64_t slots = poly_capacity(op->operands[0]->type->dims[0]);
    int carried = carried_index(t, op->operands[1]);
    if (t->n_arrives == MOST_RINGS || slots < LEAST_SLOTS || op->n_operands != 2 ||
        !counts_steps(t, carried)) {
        return false;
    }
    t->ring[t->n_arrives] = carried;
    t->arrives[t->n_arrives++] = op;
    return true;
}

static bool is_number(const Op *op)
{
    return op_has(op, TRAIT_PURE) && !op->n_regions && op->n_results == 1 &&
           type_is_scalar(op->results[0]->type);
}

/* Up to the first settle nothing but products needs products to have ended. */
static bool starts_freely(Trail *t)
{
    bool dots = false;
    for (Op *op = t->body->first; op; op = op->next) {
        bool ends = op->kind == OP_SYNC || op->kind == OP_FENCE_ASYNC ||
                    op->kind == OP_SHARED_STORE || op->n_regions > 0;
        if (op->kind == OP_SETTLE) {
            t->first = op;
            return dots && op->n_operands > 0 && op->n_operands <= MOST_SETTLED;
        }
        dots = dots || op->kind == OP_DOT_ASYNC;
        if (ends) {
            return false;
        }
    }
    return false;
}

static bool ends_with_products(Trail *t)
{
    for (Op *op = t->body->last->prev; op; op = op->prev) {
        if (op->kind == OP_SETTLE) {
            t->last = op;
            break;
        }
        if (op->kind == OP_ARRIVE ? !takes_arrive(t, op) : !is_number(op)) {
            return false;
        }
    }
    return t->last && t->last != t->first && !op_int(t->last, ATTR_PENDING, 0) &&
           t->last->n_operands <= MOST_SETTLED && t->n_arrives > 0 && takes_product(t);
}

/* ---- the loop ---- */

/* The slots of the step before, if there is one: positions count up from the loop's first. */
static void hand_back(const Trail *t, Builder *b, Value *const *positions)
{
    for (int i = t->n_arrives; i-- > 0;) {
        Value *at = positions[t->ring[i]], *start = t->loop->operands[2 + t->ring[i]];
        Value *before = build_binary(b, OP_SUB, at, build_int(b, at->type, 1));
        Value *operands[] = {t->arrives[i]->operands[0], before, build_cmp(b, "gt", at, start)};
        build_op(b, OP_ARRIVE, 3, operands, 0, NULL, 0);
    }
}

static Op *build_settle(Builder *b, int n, Value *const *values, int64_t pending)
{
    Type types[MOST_SETTLED + 1] = {NULL};
    for (int i = 0; i < n; i++) {
        types[i] = values[i]->type;
    }
    Op *settle = build_op(b, OP_SETTLE, n, values, n, types, 0);
    op_set_int(b->func, settle, ATTR_PENDING, pending);
    for (int i = 0; i < n; i++) {
        settle->results[i]->name = values[i]->name;
    }
    return settle;
}

/* Who read what the old one settled reads the new one's. */
static void replace_settled(const Trail *t, const Op *old, const Op *settle, int from)
{
    for (int i = 0; i < old->n_results && from + i < settle->n_results; i++) {
        settle->results[from + i]->name = old->results[i]->name;
        func_replace_uses(t->func, old->results[i], settle->results[from + i]);
    }
}

/* The first settle of a step settles the last product of the step before, too. */
static void settle_carried(const Trail *t)
{
    Op *old = t->first;
    Value *values[MOST_SETTLED + 1] = {t->body->args[1 + t->carried]};
    for (int i = 0; i < old->n_operands; i++) {
        values[1 + i] = old->operands[i];
    }
    Builder b = build_before(t->func, old);
    Op *settle = build_settle(&b, 1 + old->n_operands, values, op_int(old, ATTR_PENDING, 0));
    func_replace_uses(t->func, values[0], settle->results[0]);
    settle->operands[0] = values[0];
    replace_settled(t, old, settle, 1);
    hand_back(t, &b, t->body->args + 1);
    op_remove(old);
}

static void settle_behind(const Trail *t)
{
    Builder b = build_after(t->func, t->loop);
    Value *value = t->loop->results[t->carried];
    Op *settle = build_settle(&b, 1, &value, 0);
    func_replace_uses(t->func, value, settle->results[0]);
    settle->operands[0] = value;
    hand_back(t, &b, t->loop->results);
}

/* The others are settled in front of the last product, which stays in flight. */
static void fly_on(const Trail *t)
{
    int others = t->last->n_operands - 1;
    if (others > 0) {
        Builder b = build_before(t->func, t->dot);
        replace_settled(t, t->last, build_settle(&b, others, t->last->operands, 0), 0);
    }
    func_replace_uses(t->func, t->last->results[others], t->last->operands[others]);
    op_remove(t->last);
    for (int i = 0; i < t->n_arrives; i++) {
        op_remove(t->arrives[i]);
    }
}

static void try_loop(Op *op, void *user)
{
    Trail t = {.func = user, .loop = op, .body = op->regions[0]};
    if (op->kind != OP_FOR || !starts_freely(&t) || !ends_with_products(&t) ||
        !text_same(schedule_word(t.func, "overlap", "", "on",
                                 "a step's last product runs under the first ones of the next"),
                   "on")) {
        return;
    }
    settle_behind(&t);
    settle_carried(&t);
    fly_on(&t);
}

void pass_opt_trail(Func *func)
{
    func_walk(func, try_loop, func);
}
